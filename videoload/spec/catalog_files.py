"""Reading catalogs: class folders, UCF-101's split files.

Each reader returns the columns of a catalog, and for each row where it came from. What is wrong is
a ``CatalogError`` of one line that names the file, and the line if any.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.errors import CatalogError, StorageError
from videoload.spec.roots import files_below, folders_in, is_url, normal_url

PathLike = str | os.PathLike[str]
SUFFIXES = (".avi", ".mp4", ".mkv", ".mov")  # of videos, wherever a folder is looked through
ClassNames = PathLike | Sequence[str]  # the path of a classInd.txt, or the names themselves

_log = logging.getLogger(__name__)

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


def read_folder(
    folder: PathLike, root: PathLike | None, classes: ClassNames | None, suffixes: Sequence[str]
) -> Columns:
    """The videos ``folder/<class>/**/*``; see `Catalog.from_folder`."""
    home = open_root(folder)
    top = home if root is None else open_root(root)
    base = _base(home, top)
    endings = tuple(s.lower() for s in ([suffixes] if isinstance(suffixes, str) else suffixes))
    if not endings or not all(len(s) > 1 and s.startswith(".") for s in endings):
        raise CatalogError(f"suffixes must be like '.avi', not {suffixes!r}")
    passed: Counter[str] = Counter()
    below: dict[str, list[str]] = {}  # of a URL, all is listed at once
    if isinstance(top, str):
        below, loose = _objects(top, base, endings, passed)
        found = set(below)
    else:
        found, loose = _listing(top, base, endings, passed)
    names = tuple(sorted(found)) if classes is None else class_names(classes)
    if strange := sorted(found.difference(names)):
        raise CatalogError(
            f"{home}: the sub-folder {strange[0]!r} is not in classes ({some(names)}): "
            "add it to them, or move it away"
        )
    paths: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(names):
        if isinstance(top, str):
            videos = below.get(name, [])
        else:
            videos = sorted(_videos(top, base + name, endings, passed)) if name in found else []
        paths += videos
        labels += [label] * len(videos)
    if not paths:
        hint = f"it has {len(found)} class sub-folders (hidden ones and links do not count)"
        if loose:
            hint = f"its {len(loose)} videos need class sub-folders to lie in"
        raise CatalogError(f"{home} has no <class>/**/*{' or *'.join(endings)}: {hint}")
    passed["videos outside of class folders"] = len(loose)
    tell_passed_over(home, passed, endings)
    return Columns(paths, labels, names, top, None, None, None, lambda _: str(home))


def tell_passed_over(folder: Path | str, passed: Counter[str], suffixes: Sequence[str]) -> None:
    """Say in the log what of a folder is not in its catalog: how many of which kind."""
    if kinds := [f"{n} {kind}" for kind, n in passed.most_common() if n]:
        more = f", {len(kinds) - 5} more kinds" if len(kinds) > 5 else ""
        _log.warning(
            "%s: passed over %s%s; videos are named *%s",
            folder, ", ".join(kinds[:5]), more, ", *".join(suffixes),
        )  # fmt: skip


def read_list(list_file: PathLike, root: PathLike | None, classes: ClassNames | None) -> Columns:
    """The lines of a UCF-101 split file; see `Catalog.from_list`."""
    if classes is not None:
        names = class_names(classes)
    elif root is not None:
        names = checked_names(sub_folders(root), f"sub-folders of {root}")
    else:
        raise CatalogError(f"{list_file}: without a root, give classes (classInd.txt or names)")
    label_of = {name: label for label, name in enumerate(names)}
    paths: list[str] = []
    labels: list[int] = []
    lines: list[int] = []

    def where(i: int) -> str:
        return f"{list_file}, line {lines[i]}"

    for line, text in enumerate(text_lines(list_file), 1):
        if not text.strip():
            continue
        lines.append(line)
        path, *number = re.split(r"\s+(?=[+-]?[0-9]{1,18}$)", text.strip())
        path = normal_path(path, where, -1)
        folder, slash, _ = path.partition("/")
        by_folder = label_of.get(folder, -1) if slash else -1
        label = int(number[0]) - 1 if number else by_folder
        flaw = ""
        if not number and by_folder < 0:
            flaw = f"has no class number, and its first folder is no class ({some(names)})"
        elif not 0 <= label < len(names):
            flaw = f"has class number {number[0]}, which is not one of 1..{len(names)}"
        elif by_folder not in (-1, label):
            flaw = f"has class number {number[0]}, which is {names[label]!r}: correct one of them"
        if flaw:
            raise CatalogError(f"{where(-1)}: {path!r} {flaw}")
        paths.append(path)
        labels.append(label)
    if not paths:
        raise CatalogError(f"{list_file} lists no videos")
    return Columns(paths, labels, names, root, None, None, None, where)


def open_root(root: PathLike) -> Path | str:
    """The root as a catalog keeps it: a folder that is there, or a URL, of which nothing is asked.
    Raises CatalogError."""
    if not is_url(root):
        return open_folder(root)
    try:
        return normal_url(str(root))
    except ValueError as error:
        raise CatalogError(str(error)) from None


def sub_folders(root: PathLike) -> list[str]:
    """The names of the visible folders in a root, sorted. Raises CatalogError."""
    top = open_root(root)
    if not isinstance(top, str):
        return sorted(_listing(top, "")[0])
    try:
        return [name for name in folders_in(top) if not name.startswith(".")]
    except StorageError as error:
        raise CatalogError(str(error)) from None


def train_and_test(folder: PathLike) -> tuple[str, str] | None:
    """The parts of a data set, where its folder has both. Raises CatalogError."""
    train, test = (os.path.join(folder, part) for part in ("train", "test"))
    if is_url(folder):
        has_both = {"train", "test"}.issubset(sub_folders(folder))
    else:
        has_both = Path(train).is_dir() and Path(test).is_dir()
    return (train, test) if has_both else None


def open_folder(path: PathLike) -> Path:
    folder = Path(os.path.realpath(path))  # Path.resolve() raises on a loop of links
    try:
        os.scandir(folder).close()
    except OSError as error:
        raise CatalogError(f"the folder {path} cannot be opened: {error.strerror}") from error
    return folder


def some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f", ... {len(names) - 5} more" if len(names) > 5 else "")


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19  # fits int64


def _is_fit(text: str) -> bool:
    """Whether it can be a line of a UTF-8 message."""
    return text.isprintable() or not re.search("[\0\n\r\ud800-\udfff]", text)


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


def _listing(
    root: Path, folder: str, suffixes: tuple[str, ...] = (), passed: Counter[str] | None = None
) -> tuple[set[str], list[str]]:
    """The visible sub-folders of ``root/folder``, and its files with one of the suffixes. What else
    is visible is counted in ``passed``."""
    folders: set[str] = set()
    videos: list[str] = []
    try:
        with os.scandir(root / folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                is_link = entry.is_symlink()
                is_video = entry.name.lower().endswith(suffixes)
                target = Path(os.path.realpath(entry.path)) if is_link else root
                is_folder = target.is_dir() if is_link else entry.is_dir(follow_symlinks=False)
                if (is_folder or is_video) and not target.is_relative_to(root):
                    raise CatalogError(
                        f"the symlink {entry.path!r} leads out of the root {root} to {target}: "
                        "copy it in, or give a root that holds both"
                    )
                if is_folder and not is_link:
                    folders.add(entry.name)
                elif is_video and not is_folder and (is_link or entry.is_file()):
                    videos.append(entry.name)
                elif passed is not None:
                    passed[kind(entry.name) if not is_folder else "linked folders"] += 1
    except OSError as error:
        raise CatalogError(f"{root / folder} cannot be listed: {error.strerror}") from error
    return folders, videos


def _base(home: Path | str, top: Path | str) -> str:
    """What leads from the root to a folder in it, with a ``/`` behind it. Raises CatalogError."""
    if home == top:
        return ""
    if isinstance(home, str) and isinstance(top, str) and home.startswith(f"{top}/"):
        return f"{home[len(top) + 1 :]}/"
    if isinstance(home, Path) and isinstance(top, Path) and home.is_relative_to(top):
        return f"{home.relative_to(top).as_posix()}/"
    raise CatalogError(f"{home} does not lie in the root {top}: give a parent as root")


def _objects(
    url: str, base: str, suffixes: tuple[str, ...], passed: Counter[str]
) -> tuple[dict[str, list[str]], list[str]]:
    """The videos below each folder of ``base``, relative to the URL, and those in none. What else
    is visible is counted in ``passed``."""
    found: dict[str, list[str]] = {}
    loose: list[str] = []
    try:
        for path in files_below(url, base.rstrip("/")):
            first, *rest = path.removeprefix(base).split("/")
            if any(name.startswith(".") for name in (first, *rest)):
                continue
            videos = found.setdefault(first, []) if rest else loose
            if path.lower().endswith(suffixes):
                videos.append(path)
            else:
                passed[kind(path)] += 1
    except StorageError as error:
        raise CatalogError(str(error)) from None
    return found, loose


def kind(name: str) -> str:
    """How a file that is no video is counted: by its suffix."""
    suffix = PurePath(name).suffix.lower()
    return f"*{suffix}" if suffix else "files without a suffix"


def _videos(
    root: Path, folder: str, suffixes: tuple[str, ...], passed: Counter[str]
) -> Iterator[str]:
    """The videos anywhere below ``root/folder``, relative to ``root``."""
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        folders, videos = _listing(root, here, suffixes, passed)
        waiting += [f"{here}/{name}" for name in folders]
        yield from (f"{here}/{name}" for name in videos)
