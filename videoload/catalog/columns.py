"""The columns that a reader of folders, lists or tables returns, and what they may contain.

A mistake is a ``CatalogError`` of one line that names the file, and its line if there is one.
"""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from videoload.clips.rows import MAX_PATHS
from videoload.errors import CatalogError
from videoload.storage.paths import ARCHIVES, joined, pieces_of

PathLike = str | os.PathLike[str]
ClassNames = PathLike | Sequence[str]  # a file (see `class_names`), or the names themselves

# Folders of file systems, network storages and archivers. As classes, they would move the number of
# each class behind them.
_SYSTEM = {
    "@eadir", "#recycle", "#snapshot", "$recycle.bin", "__macosx", "lost+found",
    "system volume information",
}  # fmt: skip
_MAX_PATH = 4096  # in Linux


@dataclass
class Listed:
    """The result of a reader of folders, lists or tables: the parts of a `Catalog`.

    ``columns`` are not checked yet. They have a value for each row, or None where it is not given,
    by the field of `Video`.
    """

    paths: Sequence[str]
    columns: Mapping[str, Any]
    classes: tuple[str, ...]
    root: PathLike | None
    targets: Any = None  # for `Catalog.with_targets`
    parts: tuple[dict[str, list[str]], dict[str, list[float]]] | None = None  # paths and offsets
    where: Callable[[int], str] = "video {}".format  # the source of a row, for messages
    unused: Sequence[str] = ()  # columns of the table that nothing uses


def is_list(values: object) -> bool:
    """Return whether it has values in an order that its caller chose. A set has none: two processes
    would number its values differently."""
    return isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping | Set)


def checked_names(names: Sequence[str], where: str) -> tuple[str, ...]:
    """Return names of classes. Raises CatalogError if one cannot be used or occurs twice."""
    if not is_list(names) or not len(names):
        raise CatalogError(f"{where}: expected at least one class name in a list: {names!r}")
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str) or not name or not is_text_line(name):
            raise CatalogError(f"{where}: {name!r} cannot be the name of a class: rename it")
        if name in seen:
            raise CatalogError(f"{where}: the class {name!r} occurs twice")
        seen.add(name)
    return tuple(map(str, names))  # NumPy's text, too


def look_alike(names: Iterable[str]) -> str:
    """Return the first two names that differ only in case, in blanks or in the coding of letters,
    for a message; "" if there are none."""
    seen: dict[str, str] = {}
    for name in names:
        plain = "".join(unicodedata.normalize("NFKC", name).casefold().split())
        if (other := seen.setdefault(plain, name)) != name:
            return f"the classes {other!a} and {name!a} look alike: is it one class?"
    return ""


def class_names(classes: ClassNames) -> tuple[str, ...]:
    """Return the names themselves, or the names in a file: of a classInd.txt (lines ``3 Class``,
    each number once), or one a line. Raises CatalogError."""
    if not isinstance(classes, str | os.PathLike):
        return checked_names(classes, "classes")
    lines = {n: text.strip() for n, text in enumerate(text_lines(classes), 1) if text.strip()}
    of_lines = {n: (*text.split(None, 1), "")[:2] for n, text in lines.items()}
    if not any(name and is_number(number) for number, name in of_lines.values()):
        return checked_names([*lines.values()], str(classes))
    names: dict[int, str] = {}
    for line, (number, name) in of_lines.items():
        if not name or not is_number(number) or int(number) in names:
            raise CatalogError(
                f"{classes}, line {line}: expected a new number and a name, like '3 Archery', "
                f"not {lines[line]!r}"
            )
        names[int(number)] = name
    if wrong := set(names) ^ set(range(1, len(names) + 1)):
        raise CatalogError(
            f"{classes}: class numbers must be 1, 2, 3, ... without a gap, but {min(wrong)} is "
            + ("there" if min(wrong) in names else "missing")
        )
    return checked_names([name for _, name in sorted(names.items())], str(classes))


def as_path(given: Any) -> Any:
    """Return a path as a str. A list of paths is a recording in these pieces."""
    if isinstance(given, PurePath):
        return str(given)
    if isinstance(given, str) or not hasattr(given, "__len__") or not len(given):
        return given
    pieces = [str(each) if isinstance(each, PurePath) else each for each in given]
    return joined(pieces) if all(isinstance(each, str) for each in pieces) else given


def normal_path(path: str, where: Callable[[int], str], i: int) -> str:
    """Return a normal path: without '.', '..' and '//', and inside the root; for a recording in
    pieces, those of all pieces."""
    if not isinstance(path, str):
        flaw = f"is a {type(path).__name__}, not a str"
    elif not is_text_line(path):
        flaw = "is not a line of UTF-8 text and cannot travel to a worker: rename the file"
    elif len(path) > (most := _MAX_PATH if len(pieces := pieces_of(path)) == 1 else MAX_PATHS):
        flaw = f"has {len(path)} characters, more than the {most} that a path may have"
        path = f"{path[:40]}..."
    elif len(pieces) > 1:
        return joined([normal_path(piece, where, i) for piece in pieces])
    else:
        normal = posixpath.normpath(path)
        if normal.lower().endswith(ARCHIVES):  # FFmpeg would find pictures in it
            raise CatalogError(f"{where(i)}: {path!r} is an archive: Catalog.from_shards lists it")
        if normal not in (".", "..") and not normal.startswith(("/", "../")):
            return path if path == normal else normal  # the caller's str, not a copy
        flaw = "does not lie inside the root: make it relative to the root"
    raise CatalogError(f"{where(i)}: the path {path!r} {flaw}")


def text_lines(file: PathLike) -> Iterator[str]:
    """Yield the lines of a UTF-8 file. Raises CatalogError if it cannot be read."""
    try:
        # Surrogates replace what is not UTF-8, so that the error can name the line.
        with Path(file).open(encoding="utf-8-sig", errors="surrogateescape") as lines:
            for number, line in enumerate(lines, 1):
                if not is_text_line(line.rstrip("\n")):
                    raise CatalogError(f"{file}, line {number}: not UTF-8 text: save it as UTF-8")
                yield line
    except OSError as error:
        raise CatalogError(f"{file} cannot be read: {error.strerror}") from error


def names_in(
    paths: Sequence[str], pattern: str, argument: str, what: str = "its group"
) -> list[str]:
    """Return the text that a regular expression finds in each path: its groups, or the whole match.
    Raises CatalogError."""
    try:
        search = re.compile(pattern).search
    except re.error as error:
        raise CatalogError(f"{argument}={pattern!r} is not a regular expression: {error}") from None
    found = []
    for path in paths:
        match = search(path)
        if match is None:
            raise CatalogError(
                f"{argument}={pattern!r} matches nothing in {path!r}: every path must name {what}"
            )
        found.append("/".join(map(str, match.groups() or (match[0],))))
    return found


def is_hidden(name: str) -> bool:
    """Return whether to ignore a name: it is hidden, or belongs to the system."""
    return name.startswith(".") or name.lower() in _SYSTEM


def is_number(text: str) -> bool:
    """Return whether it is a whole number from 0 that fits int64."""
    return text.isascii() and text.isdigit() and len(text) < 19


def is_text_line(text: str) -> bool:
    """Return whether it can be one line of UTF-8 text."""
    return text.isprintable() or not re.search("[\0\n\r\ud800-\udfff]", text)
