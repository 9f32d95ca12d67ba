"""The columns that a reader of folders, lists or tables gives, and what may stand in them.

What is wrong is a ``CatalogError`` of one line that names the file, and the line if any.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.errors import CatalogError

PathLike = str | os.PathLike[str]
ClassNames = PathLike | Sequence[str]  # the path of a classInd.txt, or the names themselves

_MAX_PATH = 4096  # of Linux; what names a clip to a worker holds no more


class Columns(NamedTuple):
    """The arguments of a `Catalog`."""

    paths: list[str]
    labels: list[int] | npt.NDArray[np.int64]
    classes: tuple[str, ...]
    root: PathLike | None
    starts: list[int | None] | None
    ends: list[int | None] | None
    frames: list[int | None] | None
    where: Callable[[int], str]
    targets: Any = None  # of `Catalog.with_targets`


def checked_names(names: Sequence[str], where: str) -> tuple[str, ...]:
    if isinstance(names, str) or not len(names):
        raise CatalogError(f"{where}: expected at least one class name in a sequence: {names!r}")
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str) or not name or not _is_fit(name):
            raise CatalogError(f"{where}: {name!r} cannot be the name of a class: rename it")
        if name in seen:
            raise CatalogError(f"{where}: the class {name!r} stands there twice")
        seen.add(name)
    return tuple(names)


def class_names(classes: ClassNames) -> tuple[str, ...]:
    """The names given, or those of a classInd.txt: lines ``3 Class``, each of 1..n once."""
    if not isinstance(classes, str | os.PathLike):
        return checked_names(classes, "classes")
    names: dict[int, str] = {}
    for line, text in enumerate(text_lines(classes), 1):
        number, name = (*text.strip().split(None, 1), "", "")[:2]
        if not number:
            continue
        if not name or not is_number(number) or int(number) in names:
            raise CatalogError(
                f"{classes}, line {line}: expected a new number and a name, like '3 Archery', "
                f"not {text.strip()!r}"
            )
        names[int(number)] = name
    if gaps := set(range(1, len(names) + 1)).difference(names):
        raise CatalogError(
            f"{classes}: class numbers go from 1 without a gap, {min(gaps)} is missing"
        )
    return checked_names([name for _, name in sorted(names.items())], str(classes))


def normal_path(path: str, where: Callable[[int], str], i: int) -> str:
    """The path as the catalog keeps it: no '.', '..' or '//' in it, nothing outside the root."""
    if not isinstance(path, str):
        flaw = f"is a {type(path).__name__}, not a str"
    elif not _is_fit(path):
        flaw = "is not a line of UTF-8 text and cannot travel to a worker: rename the file"
    elif len(path) > _MAX_PATH:
        flaw = f"has {len(path)} characters, and no file's has more than {_MAX_PATH}"
        path = f"{path[:40]}..."
    else:
        normal = posixpath.normpath(path)
        if normal not in (".", "..") and not normal.startswith(("/", "../")):
            return path if path == normal else normal  # no second copy of what the caller has
        flaw = "does not lie inside the root: make it relative to it"
    raise CatalogError(f"{where(i)}: the path {path!r} {flaw}")


def text_lines(file: PathLike) -> Iterator[str]:
    try:
        # Surrogates stand for what is not UTF-8, so that the line can be named.
        with Path(file).open(encoding="utf-8-sig", errors="surrogateescape") as lines:
            for number, line in enumerate(lines, 1):
                if not _is_fit(line.rstrip("\n")):
                    raise CatalogError(f"{file}, line {number}: not UTF-8 text: save it as UTF-8")
                yield line
    except OSError as error:
        raise CatalogError(f"{file} cannot be read: {error.strerror}") from error


def some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f", ... {len(names) - 5} more" if len(names) > 5 else "")


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19  # fits int64


def _is_fit(text: str) -> bool:
    """Whether it can be a line of a UTF-8 message."""
    return text.isprintable() or not re.search("[\0\n\r\ud800-\udfff]", text)
