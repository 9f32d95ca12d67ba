"""What the path of a row stands for: a file, a recording in pieces, or several files as one sample.

A sample has a line for each of its files, and no path has a line break. A recording in pieces has
`PIECE_SEPARATOR` between them: ``run/0.avi // 1.avi // 10.avi``. Later pieces are named from the
folder of the first one. The path of a row is normal, so it has no ``//`` of its own.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b

ARCHIVES = (".tar", ".zip")  # by which listings, and URLs, know archives; a folder needs none
SEPARATOR = "\n"  # between the paths of a sample that has several files
PIECE_SEPARATOR = " // "  # between the pieces of a recording
_OFFSETS = "/"  # begins a last line with the start times of the files; no path in a root begins so


def joined(pieces: Sequence[str]) -> str:
    """Return the path of a recording in these pieces."""
    first, *others = pieces
    return PIECE_SEPARATOR.join(
        [first, *(_relative(posixpath.dirname(first), piece) for piece in others)]
    )


def pieces_of(path: str) -> tuple[str, ...]:
    """Return the pieces of a recording, or of a path the file itself."""
    return _split(path) if PIECE_SEPARATOR in path else (path,)


@lru_cache(16)  # some have hundreds of pieces, and are used several times a clip
def _split(path: str) -> tuple[str, ...]:
    first, *others = path.split(PIECE_SEPARATOR)
    full = [posixpath.join(posixpath.dirname(first), other) for other in others]
    return first, *(posixpath.normpath(each) if "../" in each else each for each in full)


def _relative(folder: str, path: str) -> str:
    """Return the way to a path from a folder; an absolute one stays so."""
    if not folder or path.startswith(f"{folder}/"):
        return path[len(folder) :].removeprefix("/") if folder else path
    return path if path.startswith("/") else "../" * (folder.count("/") + 1) + path


def with_offsets(path: str, offsets_s: Sequence[float]) -> str:
    """Return the path of a sample whose files begin so many seconds later."""
    return f"{path}{SEPARATOR}{_OFFSETS}{','.join(map(repr, offsets_s))}"


def below(path_from: str, path: str) -> str:
    """Return the path of a row from a folder above its root, to which this is the ``path_from``
    ("": it is the root)."""
    if not path_from:
        return path
    lines = path.split(SEPARATOR)  # later pieces are named from the folder of the first one
    return SEPARATOR.join(line if line.startswith(_OFFSETS) else path_from + line for line in lines)


def parts_of(path: str) -> list[str]:
    """Return the path of each part of a sample, or of a path itself."""
    lines = path.split(SEPARATOR)
    return lines[:-1] if len(lines) > 1 and lines[-1].startswith(_OFFSETS) else lines


def files_of(path: str) -> list[str]:
    """Return all files of a row."""
    return [piece for part in parts_of(path) for piece in pieces_of(part)]


def offsets_of(path: str) -> list[float]:
    """Return how many seconds later each of the files begins; [] if unknown for this sample. Raises
    ValueError."""
    last = path.rsplit(SEPARATOR, maxsplit=1)[-1]
    is_said = SEPARATOR in path and last.startswith(_OFFSETS)
    return [float(text) for text in last[1:].split(",")] if is_said else []


def fingerprint_of(path: str, one: Callable[[str], int]) -> int:
    """Return the fingerprint of a file by `Storage.fingerprint`, or of all files of a row
    together."""
    files = files_of(path)
    if len(files) == 1:
        return one(files[0])
    several = ",".join(str(one(file)) for file in files)
    return int.from_bytes(blake2b(several.encode(), digest_size=8).digest(), "little") >> 1 or 1
