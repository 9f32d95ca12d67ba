"""Several files as one sample: which files belong together.

A row of such a catalog has the paths of all its parts, one a line: no path has a line break.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from videoload.catalog.columns import names_in
from videoload.catalog.table import Table
from videoload.clips.rows import MAX_PATHS
from videoload.clips.sample_spec import By, SampleParts
from videoload.errors import CatalogError, named, some
from videoload.storage.paths import SEPARATOR, with_offsets

Offset = float | Sequence[float] | npt.NDArray[np.floating[Any]]


def combined(
    parts: Mapping[str, Table],
    match: str | None,
    by: By,
    offset_s: Mapping[str, Offset] | None,
) -> Table:
    """Return catalogs side by side, with the labels and segments of the first. Raises
    CatalogError."""
    if len(parts) < 2:
        raise CatalogError("side_by_side takes catalogs by name, at least two: rgb=..., depth=...")
    (leader, first), *others = parts.items()
    for name, table in others:
        if not table.is_of_whole_files:
            raise CatalogError(
                f"segments are those of the first part, {leader!r}: part {name!r} has some, and "
                "needs whole files"
            )
    root, ways = common_root({f"part {name!r}": table.root for name, table in parts.items()})
    paths = {
        name: [way + path for path in table.paths]
        for way, (name, table) in zip(ways, parts.items(), strict=True)
    }
    return laid(first.replaced(root=root), paths, offset_s or {}, by, match)


def laid(
    first: Table,
    paths: Mapping[str, Sequence[str]],
    offset_s: Mapping[str, Offset],
    by: By,
    match: str | None = None,
) -> Table:
    """Return the rows of the first part, with the paths of all parts. Raises CatalogError."""
    if by not in ("time", "frames"):
        raise CatalogError(f'by must be "time" or "frames", got {by!r}')
    samples = beside(paths, match)
    shared, rows = _offsets(offset_s, list(paths), len(samples))
    if rows is not None:
        if by == "frames":
            raise CatalogError('offset_s is in seconds: omit by="frames"')
        samples = list(map(with_offsets, samples, rows.tolist()))
    if (long := max(samples, key=len, default="")) and len(long) > MAX_PATHS:
        raise CatalogError(
            f"the paths of a sample have {len(long)} characters together, more than the "
            f"{MAX_PATHS} that they may have: {named(long)[:80]}..."
        )
    # A fingerprint is that of one file, and a sample has several.
    columns = {name: first.columns[name] for name in first.columns if name != "fingerprint"}
    parts = SampleParts(tuple(paths), by, shared)
    return first.replaced(paths=samples, columns=columns, sample_parts=parts)


def _offsets(
    given: Mapping[str, Offset], parts: list[str], samples: int
) -> tuple[dict[str, float], npt.NDArray[np.float64] | None]:
    """Return the offsets of parts whose files all begin so much later; and those of each sample,
    float64 [N, parts], if they differ. Raises CatalogError."""
    shared: dict[str, float] = {}
    rows = np.zeros((samples, len(parts)))
    for name, seconds in given.items():
        if np.ndim(seconds) == 0:
            shared[name] = cast(float, seconds)
            continue
        if name not in parts:
            raise CatalogError(f"offset_s names {name!r}, which is not a part: {', '.join(parts)}")
        column = np.asarray(seconds, np.float64)
        if column.shape != (samples,) or not np.isfinite(column).all():
            raise CatalogError(
                f"offset_s of {name!r} is a number of seconds, or one for each of the {samples} "
                "samples"
            )
        rows[:, parts.index(name)] = column
    return shared, rows if len(shared) < len(given) else None


def beside(parts: Mapping[str, Sequence[str]], match: str | None) -> list[str]:
    """Return the paths of each sample, in the order of the first part. Raises CatalogError if a
    file has no partner."""
    if match is None:
        lengths = {name: len(paths) for name, paths in parts.items()}
        if len({*lengths.values()}) > 1:
            lengths_ = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise CatalogError(f"without match=, all parts have as many files: {lengths_}")
        return list(map(SEPARATOR.join, zip(*parts.values(), strict=True)))
    (first, leading), *others = parts.items()
    keys = names_in(leading, match, f"part {first!r}: match")
    known = set(keys)
    rows = [[path] for path in leading]
    for name, paths in others:
        found: dict[str, str] = {}
        for path, key in zip(paths, names_in(paths, match, f"part {name!r}: match"), strict=True):
            if found.setdefault(key, path) != path:
                raise CatalogError(
                    f"{found[key]!r} and {path!r} of part {name!r} have the same name {key!r} by "
                    f"match={match!r}"
                )
        if alone := [path for key, path in zip(keys, leading, strict=True) if key not in found]:
            raise CatalogError(f"part {name!r} has no partner of {some(alone)} of part {first!r}")
        if alone := [path for key, path in found.items() if key not in known]:
            raise CatalogError(f"part {first!r} has no partner of {some(alone)} of part {name!r}")
        for row, key in zip(rows, keys, strict=True):
            row.append(found[key])
    return list(map(SEPARATOR.join, rows))


def common_root(roots: Mapping[str, Path | str | None]) -> tuple[Path | str | None, list[str]]:
    """Return the folder above all roots, and the way from there to each of them. The names are for
    messages. Raises CatalogError if only some are known, or if they are on different storages."""
    if len(set(roots.values())) == 1:
        return next(iter(roots.values())), [""] * len(roots)
    folders = [root for root in roots.values() if isinstance(root, PurePath)]
    if len(folders) < len(roots):
        raise CatalogError(
            "to concatenate catalogs, all need a folder as root, or the same root, or no root: "
            + ", ".join(f"{name} has {root}" for name, root in roots.items())
        )
    above = Path(os.path.commonpath(folders))
    ways = [folder.relative_to(above).as_posix() for folder in folders]
    return above, ["" if way == "." else f"{way}/" for way in ways]
