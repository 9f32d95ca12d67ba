"""Files that are pieces of one recording, by their names."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from itertools import pairwise

from videoload.errors import CatalogError, named, some
from videoload.logs import Log
from videoload.storage.paths import joined

_log = Log(__name__)

_NUMBERS = re.compile("([0-9]+)")


def chained(
    paths: Sequence[str], labels: Sequence[int] | None, pattern: str, source: str
) -> tuple[list[str], list[int] | None]:
    """Return recordings and their labels, in the order of their first files: files in which
    ``pattern`` finds the same groups are one, in natural order. Other files stay as they are. The
    log names files that seem to be missing. Raises CatalogError, also if the numbers of a recording
    begin again: then its files are those of several."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise CatalogError(f"chain={pattern!r} is not a regular expression: {error}") from None
    if not compiled.groups:
        raise CatalogError(f"chain={pattern!r} needs a group that names the recording: (.*)")
    rows: dict[object, list[int]] = {}
    for row, path in enumerate(paths):
        match = compiled.search(path)
        rows.setdefault(path if match is None else match.groups(), []).append(row)
    alone = sum(isinstance(key, str) for key in rows)
    if alone == len(paths):
        raise CatalogError(f"{source}: chain={pattern!r} matches nothing in {paths[0]!r}")
    if alone:
        _log.warning("%s: chain=%r matches nothing in %d files", source, pattern, alone)
    found, missing = [], []
    for members in rows.values():
        pieces = sorted((paths[row] for row in members), key=natural)
        if labels is not None and len({labels[row] for row in members}) > 1:
            raise CatalogError(
                f"{source}: {named(joined(pieces))} is one recording by chain=, and its files have "
                "several classes"
            )
        if anew := first_restart(pieces):
            raise CatalogError(
                f"{source}: by chain={pattern!r}, {named(anew[0])} and {named(anew[1])} are one "
                "recording, but its numbers restart there: name what distinguishes them in a "
                "group of the pattern, or give the files of each recording as a list of paths"
            )
        missing += gaps(pieces)
        found.append(joined(pieces))
    if missing:
        places = some([f"{before} and {after}" for before, after in missing])
        _log.warning("%s: chain=%r finds no file between %s", source, pattern, places)
    return found, None if labels is None else [labels[rows[0]] for rows in rows.values()]


def natural(path: str) -> list[str | int]:
    """Return a sort key that puts 2.avi before 10.avi."""
    parts = _NUMBERS.split(path)
    return [int(part) if at % 2 else part for at, part in enumerate(parts)] + [path]


def first_restart(pieces: Sequence[str]) -> tuple[str, str] | None:
    """Return the first two pieces between which the numbers of the names restart, in another folder
    or with another name."""
    for before, after in pairwise(pieces):
        (place, own), (other, following) = _counted(before), _counted(after)
        if following < own or (following == own and place != other):
            return before, after
    return None


def _counted(path: str) -> tuple[object, tuple[list[int], str]]:
    """Return the part of a path's name before its numbers, and these numbers; without numbers, the
    name itself."""
    folder, name = posixpath.split(path)
    *parts, _ = _NUMBERS.split(name)
    return (folder, parts[::2]), ([*map(int, parts[1::2])], "" if parts else name)


def gaps(pieces: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pieces between which numbers are missing, if one number counts them: it begins
    with 0 or 1, or increases by one in half of all steps, and is not a time."""
    keys = [_NUMBERS.split(posixpath.basename(piece)) for piece in pieces]
    if len({len(key) for key in keys}) > 1:
        return []
    columns = [column for column in enumerate(zip(*keys, strict=True)) if len({*column[1]}) > 1]
    if len(columns) != 1 or columns[0][0] % 2 == 0:
        return []
    numbers = [*map(int, columns[0][1])]
    steps = [b - a for a, b in pairwise(numbers)]
    if numbers[0] > 1 and 2 * steps.count(1) < len(steps):
        return []
    least = max(1, min(steps)) if len(steps) > 1 else 1  # perhaps every n-th number
    return [both for both, step in zip(pairwise(pieces), steps, strict=True) if step >= 2 * least]
