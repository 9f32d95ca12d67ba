"""Files that are pieces of one recording, by their names."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from itertools import pairwise

from videoload.errors import CatalogError, named
from videoload.storage.paths import joined

_log = logging.getLogger(__name__)

_NUMBERS = re.compile("([0-9]+)")


def chained(
    paths: Sequence[str], labels: Sequence[int] | None, pattern: str, source: str
) -> tuple[list[str], list[int] | None]:
    """Recordings and their labels, in the order of their first files: files in which ``pattern``
    finds the same groups are one, in natural order. Other files stay as they are. The log names
    files that seem to be missing. Raises CatalogError."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise CatalogError(f"chain={pattern!r} is no regular expression: {error}") from None
    if not compiled.groups:
        raise CatalogError(f"chain={pattern!r} needs a group that names the recording: (.*)")
    rows: dict[object, list[int]] = {}
    for row, path in enumerate(paths):
        match = compiled.search(path)
        rows.setdefault(path if match is None else match.groups(), []).append(row)
    alone = sum(isinstance(key, str) for key in rows)
    if alone == len(paths):
        raise CatalogError(f"{source}: chain={pattern!r} finds nothing in {paths[0]!r}")
    if alone:
        _log.warning("%s: chain=%r finds nothing in %d files", source, pattern, alone)
    found = []
    for members in rows.values():
        pieces = sorted((paths[row] for row in members), key=natural)
        if labels is not None and len({labels[row] for row in members}) > 1:
            raise CatalogError(
                f"{source}: {named(joined(pieces))} is one recording by chain=, and its files have "
                "several classes"
            )
        for before, after in gaps(pieces):
            _log.warning("%s: there is no file between %s and %s", source, before, after)
        found.append(joined(pieces))
    return found, None if labels is None else [labels[rows[0]] for rows in rows.values()]


def natural(path: str) -> list[str | int]:
    """A key by which 2.avi comes before 10.avi."""
    parts = _NUMBERS.split(path)
    return [int(part) if at % 2 else part for at, part in enumerate(parts)] + [path]


def gaps(pieces: Sequence[str]) -> list[tuple[str, str]]:
    """Between which pieces numbers are missing, if they are numbered one by one."""
    keys = [natural(piece)[:-1] for piece in pieces]
    if len({len(key) for key in keys}) > 1:
        return []
    counted = [at for at, parts in enumerate(zip(*keys, strict=True)) if len({*parts}) > 1]
    if len(counted) != 1 or counted[0] % 2 == 0:
        return []
    steps = [int(b[counted[0]]) - int(a[counted[0]]) for a, b in pairwise(keys)]
    if 2 * steps.count(1) <= len(steps):  # times, or every n-th number
        return []
    return [both for both, step in zip(pairwise(pieces), steps, strict=True) if step > 1]
