"""Tables with a column for each part of a sample."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence

from videoload.errors import CatalogError
from videoload.listings.columns import PathLike, normal_path, text_lines

OFFSET = "_offset_s"  # how the column of a part's offsets is named, after the part

Paths = dict[str, list[str]]
Offsets = dict[str, list[float]]


def read_parts(csv_file: PathLike, parts: Sequence[str]) -> tuple[Paths, Offsets]:
    """The paths in the columns of parts, and their offsets in seconds where there is such a column;
    an empty field is 0. Raises CatalogError."""
    if isinstance(parts, str) or len({*parts}) < len(parts) or len(parts) < 2:
        raise CatalogError(f"parts are the names of at least two columns, got {parts!r}")
    rows = csv.reader(text_lines(csv_file), strict=True)
    header = [name.strip() for name in next(rows, [])]
    if missing := [part for part in parts if header.count(part) != 1]:
        told = ",".join(header)[:80]
        raise CatalogError(f"{csv_file}: the header must have {missing[0]!r} once, not {told!r}")
    for name in header:
        part, offset, rest = name.partition(OFFSET[: -len("_s")])
        if offset and (rest != "_s" or part not in header):
            told = ", ".join(part + OFFSET for part in parts)
            raise CatalogError(f"{csv_file}: the column {name!r} is none of {told}")
    paths: Paths = {part: [] for part in parts}
    offsets: Offsets = {part: [] for part in parts if part + OFFSET in header}

    def where(_: int = 0) -> str:
        return f"{csv_file}, line {rows.line_num}"

    for row in rows:
        if not any(map(str.strip, row)):
            continue
        fields = dict(zip(header, row, strict=False))
        for part in parts:
            path = fields.get(part, "").strip()
            if not path:
                raise CatalogError(f"{where()}: there is no file in the column {part!r}")
            paths[part].append(normal_path(path, where, 0))
        for part, column in offsets.items():
            column.append(_seconds(fields.get(part + OFFSET, "").strip(), f"{where()}: {part}"))
    return paths, offsets


def _seconds(text: str, where: str) -> float:
    try:
        seconds = float(text or 0)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise CatalogError(f"{where}{OFFSET} must be a number of seconds, not {text[:80]!r}")
    return seconds
