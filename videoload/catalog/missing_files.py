"""Whether the files that a list names are there: one look into each folder, none at a file."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from videoload.catalog.columns import PathLike
from videoload.catalog.folders import Found, in_archives, members_of
from videoload.errors import CatalogError, some
from videoload.logs import Log
from videoload.storage.files import file_like
from videoload.storage.paths import joined, pieces_of
from videoload.storage.roots import is_url

_log = Log(__name__)


def root_of(
    paths: list[str], root: PathLike | None = None, beside: Sequence[str] = ()
) -> tuple[PathLike | None, list[str]]:
    """Return the folder that holds all of these files, and the ways from there: of absolute paths,
    the nearest one that holds those ``beside`` them, too; the working directory if all lie in it.
    None: they are on other hosts. If a ``root`` is given, the ways of absolute paths in it."""
    if not paths or not all(isinstance(path, str) for path in paths):
        return root, paths
    if root is not None and not any(path.startswith("/") for path in paths):
        return root, paths  # a million of them take a second less
    files = [pieces_of(path) for path in paths]
    every = list(chain.from_iterable(files))
    if root is not None:
        for top in () if is_url(root) else {str(Path(root).absolute()), os.path.realpath(root)}:
            below = top.rstrip("/") + "/"
            files = [tuple(path.removeprefix(below) for path in each) for each in files]
        return root, list(map(joined, files))
    if all(map(os.path.isabs, every)):
        also = filter(os.path.isabs, chain.from_iterable(map(pieces_of, beside)))
        root = os.path.commonpath([posixpath.dirname(path) for path in chain(every, also)])
        return root, [joined([os.path.relpath(path, root) for path in each]) for each in files]
    return (os.curdir if all(map(os.path.isfile, every)) else None), paths


def check_there(root: Path, paths: Iterable[str], source: str) -> None:
    """Log the listed files that are not there."""
    listed = list(dict.fromkeys(chain.from_iterable(map(pieces_of, paths))))
    names: dict[str, set[str]] = {}  # of what is in each folder
    missing = []
    for path in listed:
        folder, name = posixpath.split(path)
        if folder not in names:
            try:
                names[folder] = {*os.listdir(root / posixpath.normpath(folder))}
            except NotADirectoryError:
                names |= _names_in_archive(root, posixpath.normpath(folder))
                names.setdefault(folder, set())
            except (OSError, ValueError):  # no name of a folder, which the catalog refuses
                names[folder] = set()
        if name not in names[folder]:
            missing.append(path)
    if missing:
        folder, name = posixpath.split(missing[0])
        other = posixpath.join(folder, file_like(name, names[folder]))
        help_ = ""
        if (root / other).is_file():
            help_ = f" (did you mean {other!r}?)"
        elif not folder:
            help_ = ' (if they lie in folders below it: path="**/{column}")'
        _log.warning(
            "%s: %d of %d files are not in %s: %s%s", source, len(missing), len(listed), root,
            some([repr(path) for path in missing]), help_,
        )  # fmt: skip


def _names_in_archive(root: Path, folder: str) -> dict[str, set[str]]:
    """Return the names of the members in an archive above a folder, by the folders in it. Raises
    CatalogError."""
    archive, names = folder, dict[str, set[str]]()
    while not (root / archive).is_file():
        archive = posixpath.dirname(archive)
    for above, name in map(posixpath.split, *in_archives(root, [archive], members_of)):
        names.setdefault(above, set()).add(name)
    return names


def find_by_name(
    root: Path | str, names: Sequence[str], source: str
) -> tuple[list[str], list[int]]:
    """Return the videos that rows name by ``**/name.avi``, or ``**/name.*`` for any suffix, and
    which rows have one. The log names the others. Raises CatalogError."""
    there: dict[str, list[str]] = {}
    for path in Found(root).videos:
        name = path.rpartition("/")[2]
        there.setdefault(name, []).append(path)
        there.setdefault(f"{name.rpartition('.')[0]}.*", []).append(path)
    paths: list[str] = []
    rows: list[int] = []
    missing: list[str] = []
    for i, given in enumerate(names):
        name = given.removeprefix("**/")
        found = there.get(name, ())
        if len(found) > 1:
            raise CatalogError(
                f"{source}: {name!r} may be {found[0]!r} or {found[1]!r}: give the paths"
            )
        if found:
            paths.append(found[0])
            rows.append(i)
        else:
            missing.append(name.removesuffix(".*"))
    if not paths:
        raise CatalogError(f"{source} lists {len(names)} videos, and {root} has none of them")
    if missing:
        _log.warning(
            "%s: %d of %d videos are not in %s: %s", source, len(missing), len(names), root,
            some([*dict.fromkeys(missing)]),
        )  # fmt: skip
    return paths, rows
