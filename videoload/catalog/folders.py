"""Reading catalogs from class folders, on this host or below a URL."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from videoload.catalog.columns import ClassNames, Columns, PathLike, class_names, some
from videoload.errors import CatalogError, StorageError
from videoload.storage.roots import files_below, folders_in, is_url, normal_url

SUFFIXES = (".avi", ".mp4", ".mkv", ".mov")  # of videos, wherever a folder is looked through

_log = logging.getLogger(__name__)


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


def read_one_class(folder: PathLike, root: PathLike | None) -> Columns | None:
    """The videos of a folder as one class that has its name; None if it has visible sub-folders,
    or no videos. Raises CatalogError."""
    home = open_folder(folder)
    top = home if root is None else open_folder(root)
    base = _base(home, top)
    passed: Counter[str] = Counter()
    folders, videos = _listing(top, base, SUFFIXES, passed)
    if folders or not videos:
        return None
    tell_passed_over(home, passed, SUFFIXES)
    paths = [base + name for name in sorted(videos)]
    return Columns(paths, [0] * len(paths), (home.name,), top, None, None, None, str)


def tell_passed_over(folder: Path | str, passed: Counter[str], suffixes: Sequence[str]) -> None:
    """Say in the log what of a folder is not in its catalog: how many of which kind."""
    if kinds := [f"{n} {kind}" for kind, n in passed.most_common() if n]:
        more = f", {len(kinds) - 5} more kinds" if len(kinds) > 5 else ""
        _log.warning(
            "%s: passed over %s%s; videos are named *%s",
            folder, ", ".join(kinds[:5]), more, ", *".join(suffixes),
        )  # fmt: skip


def open_root(root: PathLike) -> Path | str:
    """The root as a catalog keeps it: a folder that is there, or a URL, of which nothing is asked.
    Raises CatalogError."""
    if not is_url(root):
        return open_folder(root)
    try:
        return normal_url(str(root))
    except ValueError as error:
        raise CatalogError(str(error)) from None


def open_folder(path: PathLike) -> Path:
    folder = Path(os.path.realpath(path))  # Path.resolve() raises on a loop of links
    try:
        os.scandir(folder).close()
    except OSError as error:
        raise CatalogError(f"the folder {path} cannot be opened: {error.strerror}") from error
    return folder


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


def kind(name: str) -> str:
    """How a file that is no video is counted: by its suffix."""
    suffix = PurePath(name).suffix.lower()
    return f"*{suffix}" if suffix else "files without a suffix"
