"""Which videos belong together, and which side of a split they go to. Pure.

Clips of one scene, person or camera are no fair test of each other. For example, each of UCF-101's
groups (``g01``) is cut from one recording. So a split moves *units*: files, or groups of files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from hashlib import blake2b
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from videoload.catalog.columns import is_list, names_in
from videoload.errors import CatalogError, named

# A regular expression for paths, a function of a `Video`, or a value for each video.
By = str | Callable[[Any], Hashable] | Sequence[Hashable]

_ROUNDING_S = 1e-6
_UCF101 = re.compile(r"v_(\w+)_(g\d+)_c\d+\.\w+$")


def chosen(indices: Iterable[int], videos: int) -> npt.NDArray[np.int64]:
    """Return the indices of a subset of so many videos, from 0 on. Raises CatalogError,
    IndexError."""
    given = np.asarray(indices if isinstance(indices, np.ndarray) else list(indices))
    if not is_list(indices) or given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise CatalogError("subset takes integers (of a mask: np.flatnonzero(mask))")
    return np.arange(videos)[given.astype(np.int64)]


def recordings(videos: Iterable[Any]) -> str | None:
    """Return the groups to split by, if all files are named like UCF-101's and each class has
    several recordings; else None."""
    of_class: dict[int, set[str]] = {}
    for video in videos:
        match = _UCF101.search(video.path)
        if match is None:
            return None
        of_class.setdefault(video.label, set()).add(match[2])
    return _UCF101.pattern if min(map(len, of_class.values())) > 1 else None


def recording(path: str) -> tuple[str, ...]:
    """Return the class and the recording of a file that is named like UCF-101's; else ()."""
    match = _UCF101.search(path)
    return () if match is None else match.groups()


def is_first(fraction: float, seed: int, catalog: Any, by: By | None) -> npt.NDArray[np.bool_]:
    """Return which videos of a `Catalog` are on the first side. Raises CatalogError, also if a side
    would be empty."""
    if not isinstance(fraction, Real) or not 0 < fraction < 1:
        raise CatalogError(f"a split needs a fraction between 0 and 1, not {fraction!r}")
    units, labels = catalog.paths if by is None else groups(list(catalog), by), catalog.labels
    videos_of = Counter(labels.tolist())
    rarest: dict[str, tuple[int, int]] = {}
    for unit, label in zip(units, labels.tolist(), strict=True):
        rarity = (videos_of[label], label)
        rarest[unit] = min(rarity, rarest.get(unit, rarity))
    key = blake2b(str(seed).encode()).digest()
    strata: dict[tuple[int, int], list[tuple[bytes, str]]] = {}
    for unit, stratum in rarest.items():
        drawn = blake2b(unit.encode(), digest_size=16, key=key).digest()
        strata.setdefault(stratum, []).append((drawn, unit))
    first: set[str] = set()
    for drawn_units in strata.values():
        n, wanted = len(drawn_units), round(fraction * len(drawn_units))
        taken = sorted(drawn_units)[: min(max(wanted, 1), n - 1) if n > 1 else wanted]
        first.update(unit for _, unit in taken)
    if len(first) in (0, len(rarest)):
        what = "files" if by is None else "groups"
        raise CatalogError(
            f"a split by {fraction} leaves one side empty: no class has two {what} "
            f"({len(rarest)} {what}, {len(strata)} classes)"
        )
    return np.fromiter((unit in first for unit in units), np.bool_, len(units))


def groups(videos: Sequence[Any], by: By) -> list[str]:
    """Return the name of each `Video`'s group. Raises CatalogError."""
    if isinstance(by, str):
        found = names_in([video.path for video in videos], by, "by")
    elif callable(by):
        found = [str(by(video)) for video in videos]
    else:
        found = [str(value) for value in by] if is_list(by) else []
    if len(found) != len(videos):
        raise CatalogError(
            f"by= is a list of {len(videos)} values, one for each video, not {by!r:.80}"
        )
    of_file: dict[str, list[tuple[str, Any]]] = {}
    for video, group in zip(videos, found, strict=True):
        of_file.setdefault(video.path, []).append((group, video))
    for path, rows in of_file.items():
        names = list(dict.fromkeys(group for group, _ in rows))
        if len(names) > 1 and not _are_apart([video for _, video in rows]):
            raise CatalogError(
                f"{named(path)!r} is in the groups {names[0]!r} and {names[1]!r}: give segments of "
                "a file that have frames in common the same group"
            )
    return found


def _are_apart(videos: Sequence[Any]) -> bool:
    """Return whether segments of a file share no frame, which all have a start and an end, in
    frames or in seconds."""
    if all(each.start_s is not None and each.end_s is not None for each in videos):
        rows, rounding_s = [(each.start_s, each.end_s) for each in videos], _ROUNDING_S
    elif any(each.end is None or each.start_s is not None for each in videos):
        return False
    else:
        rows, rounding_s = [(each.start, each.end) for each in videos], 0.0
    return all(one[1] <= other[0] + rounding_s for one, other in pairwise(sorted(rows)))
