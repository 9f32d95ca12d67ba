"""Several catalogs as one: one after the other, or mixed by shares.

A stream has one root, here and on workers that dial in. So catalogs of several roots become one of
the nearest folder above them all, and each path begins with the way down from there.
"""

from __future__ import annotations

import copy
import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from videoload.arguments import real
from videoload.catalog import targets as targets_
from videoload.catalog.catalog import Catalog
from videoload.catalog.table import Ints, Part
from videoload.catalog.turns import weights
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.item_spec import Spec
from videoload.errors import CatalogError, SpecError


def join(catalogs: Iterable[Catalog], *, duplicates: bool = False) -> Catalog:
    """Several catalogs as one, one after the other.

    Catalogs of several roots get the nearest folder above all of them as root, and paths from there
    (``ucf101/Archery/v_1.avi``); the ``--root`` of workers that dial in is then their copy of that
    folder. Classes are those of the first, and then the others' new ones; labels follow by name.

    Args:
        catalogs: At least one; all with targets of one kind and the same classes, or all without.
        duplicates: A segment may be in several of them. Default False.

    Returns:
        A new catalog.

    Raises:
        CatalogError: A segment is there twice, roots are known of some only, targets differ in kind
            or belong to different classes, or one is a mixture.
    """
    parts = list(catalogs)
    if not parts or not all(isinstance(part, Catalog) for part in parts):
        raise CatalogError("catalogs are joined with catalogs, at least one")
    if any(part.parts for part in parts):
        raise CatalogError("a mixture is no part of another catalog: take its parts")
    root, ways = _common_root([part.root for part in parts])
    classes, numbers = _all_classes([part.classes for part in parts])
    targets = [part.targets for part in parts if part.targets is not None]
    if targets and (len(targets) < len(parts) or len({part.classes for part in parts}) > 1):
        raise CatalogError(
            "catalogs with targets are joined where all have them, and the same classes: give "
            "with_targets to the others, or classes= to each"
        )
    segments = zip(*(part._table.segments for part in parts), strict=True)
    joined = Catalog(
        [way + path for way, part in zip(ways, parts, strict=True) for path in part._table.paths],
        np.concatenate([new[part.labels] for new, part in zip(numbers, parts, strict=True)]),
        classes,
        root,
        *map(np.concatenate, segments),
        duplicates=duplicates or any(part._duplicates for part in parts),
    )
    return joined.with_targets(targets_.joined(targets)) if targets else joined


def mix(
    parts: Mapping[str, tuple[Catalog, float] | tuple[Catalog, float, ClipSpec]],
) -> Catalog:
    """Catalogs mixed by shares: a stream of it has clips of each in these shares.

        catalog = vl.mix({"ucf": (ucf, 0.7), "web": (web, 0.3)})

    The shares hold in every stretch of the stream, to within a clip or two, on each rank of
    ``shard``. Each part goes through all its clips before it repeats one, across epochs, in a new
    order each time with ``shuffle=True``. An epoch is as many clips as all parts have together, and
    the next one goes on where it ended. ``info.video`` tells the part: see `Catalog.parts`.

    Args:
        parts: By name, the catalog, its share (any positive numbers; their sum is 1 after they are
            divided by it), and if wanted a clip spec of its own, whose clips have the shape of the
            stream's. Roots and classes become one as in `join`; segments may be in several.

    Returns:
        A catalog of all videos, part after part. It has no subsets and no split.

    Raises:
        CatalogError: The catalogs cannot be joined, or one is a mixture.
        SpecError: A share is not positive, or below 1 in 10000; or a spec is no ClipSpec with a
            size.
    """
    if not isinstance(parts, Mapping) or not parts:
        raise SpecError('mix takes {"name": (catalog, share), ...}, at least one')
    entries: dict[str, tuple[Any, ...]] = {}
    for name, part in parts.items():
        if not isinstance(part, tuple | list) or len(part) not in (2, 3):
            raise SpecError(f"{name!r} must be (catalog, share) or (catalog, share, clip)")
        entries[name] = (*part, None)[:3]
    shares = [real(f"share of {name!r}", entry[1], 1e-9) for name, entry in entries.items()]
    joined, found = join([entry[0] for entry in entries.values()], duplicates=True), []
    start = 0
    for (name, (catalog, _, clip)), share in zip(entries.items(), shares, strict=True):
        if clip is not None and (not isinstance(clip, ClipSpec) or clip.size is None):
            raise SpecError(f"the spec of part {name!r} must be a ClipSpec with a size")
        found.append(Part(name, start, start + len(catalog), share / sum(shares), clip))
        start += len(catalog)
    weights(shares)
    return mixture(joined, found)


def mixture(catalog: Catalog, parts: Iterable[Part]) -> Catalog:
    """The catalog as a mixture of these parts of it."""
    mixed = copy.copy(catalog)
    mixed._parts = tuple(parts)
    return mixed


def clip_of(catalog: Catalog, clip: Spec, video: int) -> Spec:
    """How a video's clips are cut in a stream of ``clip``: as its part says, if that says it."""
    if not catalog.parts:
        return clip
    at = bisect_right(catalog.parts, video, key=lambda part: part.start) - 1
    return catalog.parts[at].clip or clip


def do_lengths_decide(catalog: Catalog, clip: Spec) -> bool:
    """Whether the batches of a stream of ``clip`` depend on how long its videos are known to be."""
    clips = (clip, *(part.clip for part in catalog.parts))
    return any(isinstance(each, ClipSpec) and each.sampling == "dense" for each in clips)


def check_shapes(catalog: Catalog, clip: Spec) -> None:
    """Raises SpecError where the clips of a part have another shape or type than the stream's, or
    have none of the frames that targets are of."""
    if not isinstance(clip, ClipSpec) and targets_.has_frames(catalog.targets):
        raise SpecError("the catalog has targets per frame, and items have no frames")
    for part in catalog.parts:
        own = part.clip
        if own is None:
            continue
        if not isinstance(clip, ClipSpec):
            raise SpecError(f"part {part.name!r} has a ClipSpec, so the stream needs one as well")
        if (own.shape, own.dtype) != (clip.shape, clip.dtype):
            raise SpecError(
                f"clips of part {part.name!r} are {own.dtype}{list(own.shape)}, the stream's are "
                f"{clip.dtype}{list(clip.shape)}: they must have the same shape"
            )
        if own.crops != clip.crops:
            raise SpecError(
                f"clips of part {part.name!r} have {own.crops} crops, the stream's {clip.crops}: "
                "they must have as many"
            )


def _common_root(roots: Sequence[Path | str | None]) -> tuple[Path | str | None, list[str]]:
    """The folder that holds all roots, and what the paths of each begin with from there. Raises
    CatalogError where only some are known, or where they are on different storages."""
    if len(set(roots)) == 1:
        return roots[0], [""] * len(roots)
    folders = [root for root in roots if isinstance(root, PurePath)]
    if len(folders) < len(roots):
        raise CatalogError(
            "catalogs are joined that all have a folder as root, or the same root, or none: "
            + ", ".join(str(root) for root in roots)
        )
    above = Path(os.path.commonpath(folders))
    ways = [folder.relative_to(above).as_posix() for folder in folders]
    return above, ["" if way == "." else f"{way}/" for way in ways]


def _all_classes(catalogs: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], list[Ints]]:
    """The classes of all, in the order of their first appearance; and of each catalog, the new
    number of each of its classes."""
    number: dict[str, int] = {}
    renumbered = [
        np.array([number.setdefault(name, len(number)) for name in names], np.int64)
        for names in catalogs
    ]
    return tuple(number), renumbered
