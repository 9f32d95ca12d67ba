"""Reading catalogs from class folders, on this host or below a URL."""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePath

from videoload.errors import CatalogError, StorageError
from videoload.listings.columns import (
    ClassNames,
    Columns,
    PathLike,
    class_names,
    is_hidden,
    is_number,
    is_text_line,
    names_in,
    some,
)
from videoload.listings.image_folders import image_folders
from videoload.storage.images import SUFFIXES as IMAGES
from videoload.storage.roots import files_below, folders_in, is_url, normal_url

SUFFIXES = (  # of videos, if nothing else is given
    ".avi", ".mp4", ".mkv", ".mov", ".webm", ".m4v", ".mpg", ".mpeg", ".mts", ".m2ts", ".flv",
    ".ogv", ".3gp", ".dv",
)  # fmt: skip
# Folders that split a data set. As classes, they would label every video "train".
_TRAIN = ("train", "training")
_TEST = ("test", "testing", "val", "valid", "validation")
_NO_TEXT = "names that are not a line of UTF-8 text"

_log = logging.getLogger(__name__)


def read_folder(
    folder: PathLike,
    root: PathLike | None,
    classes: ClassNames | None,
    suffixes: Sequence[str],
    label: str | None = None,
    images: str | None = None,
) -> Columns:
    """The videos ``folder/<class>/**/*``, or with a ``label`` ``folder/**/*``; see
    `Catalog.from_folder`."""
    home = open_root(folder)
    top = home if root is None else open_root(root)
    endings = _checked(suffixes)
    passed: Counter[str] = Counter()
    base = _base(home, top)
    if isinstance(top, str):
        if images is not None:
            raise CatalogError(f"{home}: sequences of images are read from a folder, not a URL")
        found, loose = _objects(top, base, endings, passed)
    else:
        found, loose = _files(top, base, endings, passed)
        has_none = not loose and not any(found.values()) and endings == SUFFIXES
        if images is not None or has_none:
            seen: Counter[str] = Counter()
            folders = image_folders(top, base, images, seen, by_class=label is None)
            if images is not None or any(folders.values()):
                found, loose, passed = folders, [], seen
                endings = (images,) if images else IMAGES
    if label is not None:
        videos = sorted([*loose, *(path for paths in found.values() for path in paths)])
        return _labelled(home, top, videos, label, classes, endings, passed)
    names = tuple(sorted(found)) if classes is None else class_names(classes)
    if classes is None and are_parts(names):
        raise CatalogError(
            f"{home}: {', '.join(names)} are parts of a data set, not classes: use "
            f"Catalog.train_and_test, or give {home}/{names[0]} with the root {home}"
        )
    if strange := sorted(found.keys() - set(names)):
        raise CatalogError(
            f"{home}: the sub-folder {strange[0]!r} is not in classes ({some(names)}): "
            "add it to them, or move it away"
        )
    of_class = [found.get(name, []) for name in names]
    paths = [path for videos in of_class for path in videos]
    if not paths:
        pictures = any(passed[f"*{suffix}"] for suffix in IMAGES)
        hint = f"it has {len(found)} class sub-folders (hidden ones and links do not count)"
        if loose:
            hint = (
                f"its {len(loose)} videos need class sub-folders to lie in; or label=REGEX, which "
                "finds the class in each name; or a table for Catalog.from_csv; or your own lists: "
                "Catalog([paths], [labels], [classes], root)"
            )
        elif pictures:
            hint += "; the images of a video need a folder: <class>/<video>/img_00001.jpg"
        raise CatalogError(
            f"{home} has no <class>/**/{_endings(endings)}: {hint}{_passed_over(passed)}"
        )
    passed["videos outside of class folders"] = len(loose)
    _warn(home, passed, endings)
    if empty := [name for name in found if not found[name]]:
        _log.warning("%s: no video in the class folders %s", home, some(sorted(empty)))
    labels = [label for label, videos in enumerate(of_class) for _ in videos]
    return Columns(paths, labels, names, top, where=lambda _: str(home))


def _checked(suffixes: Sequence[str]) -> tuple[str, ...]:
    """The suffixes in lower case. Raises CatalogError."""
    endings = tuple(s.lower() for s in ([suffixes] if isinstance(suffixes, str) else suffixes))
    if not endings or not all(len(s) > 1 and s.startswith(".") for s in endings):
        raise CatalogError(f"suffixes must be like '.avi', not {suffixes!r}")
    return endings


def _labelled(
    home: Path | str,
    top: Path | str,
    videos: list[str],
    label: str,
    classes: ClassNames | None,
    endings: tuple[str, ...],
    passed: Counter[str],
) -> Columns:
    """The videos with the class that each path names."""
    if not videos:
        raise CatalogError(f"{home} has no videos ({_endings(endings)}){_passed_over(passed)}")
    found = names_in(videos, label, "label", "its class")
    _warn(home, passed, endings)
    if classes is None:
        names = tuple(sorted(set(found)))
    else:
        names = class_names(classes)
        if found and all(map(is_number, found)) and not set(found) & set(names):
            found = [names[int(n) - 1] if 0 < int(n) <= len(names) else n for n in found]
    label_of = {name: number for number, name in enumerate(names)}
    for path, name in zip(videos, found, strict=True):
        if name not in label_of:
            raise CatalogError(
                f"{home}: {path!r} names the class {name!r}, not one of {some(names)}"
            )
    return Columns(
        videos, [label_of[name] for name in found], names, top, where=lambda _: str(home)
    )


def videos_below(top: Path | str, suffixes: tuple[str, ...]) -> list[str]:
    """All videos below a root, relative to it. Raises CatalogError."""
    find = _objects if isinstance(top, str) else _files
    found, loose = find(top, "", suffixes, Counter())  # type: ignore[arg-type]
    return sorted([*loose, *(path for paths in found.values() for path in paths)])


def read_one_class(
    folder: PathLike, root: PathLike | None, suffixes: Sequence[str] = SUFFIXES
) -> Columns | None:
    """The videos of a folder as one class with its name. None: it has visible sub-folders, or no
    videos. Raises CatalogError."""
    home = open_folder(folder)
    top = home if root is None else open_root(root)
    base = _base(home, top)
    assert isinstance(top, Path)  # a folder lies in no URL
    passed: Counter[str] = Counter()
    endings = _checked(suffixes)
    folders, videos = _listing(top, base, endings, passed)
    if folders or not videos:
        return None
    _warn(home, passed, endings)
    paths = [base + name for name in sorted(videos)]
    return Columns(paths, [0] * len(paths), (home.name,), top)


def are_parts(names: Sequence[str]) -> bool:
    """Whether all of the sub-folders split a data set, like train/ and test/."""
    return len(names) > 1 and {*map(str.lower, names)} <= {*_TRAIN, *_TEST}


def open_root(root: PathLike) -> Path | str:
    """The root as a catalog keeps it: a folder that exists, or a URL, which is not asked anything.
    Raises CatalogError."""
    if not is_url(root):
        return open_folder(root)
    try:
        return normal_url(str(root))
    except ValueError as error:
        raise CatalogError(str(error)) from None


def open_folder(path: PathLike) -> Path:
    """The folder, absolute and resolved. Raises CatalogError if it cannot be opened."""
    try:
        folder = Path(os.path.realpath(path))  # Path.resolve() raises on a loop of links
    except FileNotFoundError:
        raise CatalogError(
            f"{path}: it is relative, and the working directory was deleted: change to another one"
        ) from None
    try:
        os.scandir(folder).close()
    except OSError as error:
        raise CatalogError(f"the folder {path} cannot be opened: {error.strerror}") from error
    return folder


def sub_folders(root: PathLike) -> list[str]:
    """The names of the visible folders in a root, sorted. Raises CatalogError."""
    top = open_root(root)
    if not isinstance(top, str):
        return sorted(_listing(top, "", (), Counter())[0])
    try:
        return [name for name in folders_in(top) if not is_hidden(name)]
    except StorageError as error:
        raise CatalogError(str(error)) from None


def train_and_test(folder: PathLike) -> tuple[str, str] | None:
    """The folders of a data set to train on and to test on, if it has both. Raises CatalogError."""
    if is_url(folder):
        there = sub_folders(folder)
    else:
        there = sorted(path.name for path in open_folder(folder).iterdir() if path.is_dir())
    found = [
        [name for part in parts for name in there if name.lower() == part]
        for parts in (_TRAIN, _TEST)
    ]
    if not all(found):
        return None
    train, test = (os.path.join(folder, names[0]) for names in found)
    return train, test


def _warn(folder: Path | str, passed: Counter[str], suffixes: Sequence[str]) -> None:
    """Log what the catalog of a folder leaves out."""
    if text := _passed_over(passed):
        _log.warning("%s%s; videos are named %s", folder, text, _endings(suffixes))


def _endings(suffixes: Sequence[str]) -> str:
    return some([f"*{suffix}" for suffix in suffixes])


def _passed_over(passed: Counter[str]) -> str:
    """How many files of which kind were left out; "" if none were."""
    kinds = [f"{n} {kind}" for kind, n in passed.most_common() if n]
    more = f", {len(kinds) - 5} more kinds" if len(kinds) > 5 else ""
    hint = ""
    if passed[_NO_TEXT] and (encoding := sys.getfilesystemencoding()) != "utf-8":
        hint = f" (Python takes file names for {encoding} here: set PYTHONUTF8=1)"
    return f": passed over {', '.join(kinds[:5])}{more}{hint}" if kinds else ""


def _kind(name: str) -> str:
    """How a file that is left out is counted: by its suffix."""
    if not is_text_line(name):
        return _NO_TEXT
    suffix = PurePath(name).suffix.lower()
    return f"*{suffix}" if suffix else "files without a suffix"


def _base(home: Path | str, top: Path | str) -> str:
    """The way from the root to a folder in it, ending with ``/``. Raises CatalogError."""
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
    """The videos below each folder of ``base``, relative to the URL, and the videos in no folder.
    Counts other visible files in ``passed``."""
    found: dict[str, list[str]] = {}
    loose: list[str] = []
    try:
        for path in files_below(url, base.rstrip("/")):
            first, *rest = path.removeprefix(base).split("/")
            if any(map(is_hidden, (first, *rest))):
                continue
            videos = loose
            if rest and is_text_line(first):
                videos = found.setdefault(first, [])
            if path.lower().endswith(suffixes) and is_text_line(path):
                videos.append(path)
            else:
                passed[_kind(path)] += 1
    except StorageError as error:
        raise CatalogError(str(error)) from None
    return found, loose


def _files(
    root: Path, base: str, suffixes: tuple[str, ...], passed: Counter[str]
) -> tuple[dict[str, list[str]], list[str]]:
    """The same of a folder."""
    classes, loose = _listing(root, base, suffixes, passed)
    found: dict[str, list[str]] = {}
    for name in classes:
        found[name], waiting = [], [base + name]
        while waiting:
            here = waiting.pop()
            folders, videos = _listing(root, here, suffixes, passed)
            waiting += [f"{here}/{folder}" for folder in folders]
            found[name] += [f"{here}/{video}" for video in videos]
        found[name].sort()
    return found, loose


def _listing(
    root: Path, folder: str, suffixes: tuple[str, ...], passed: Counter[str]
) -> tuple[list[str], list[str]]:
    """The visible sub-folders of ``root/folder``, and its files with one of the suffixes. Counts
    other visible entries in ``passed``."""
    folders: list[str] = []
    videos: list[str] = []
    try:
        with os.scandir(root / folder) as entries:
            for entry in entries:
                if is_hidden(entry.name):
                    continue
                is_link = entry.is_symlink()
                is_fit = is_text_line(entry.name)
                is_video = is_fit and entry.name.lower().endswith(suffixes)
                target = Path(os.path.realpath(entry.path)) if is_link else root
                is_folder = target.is_dir() if is_link else entry.is_dir(follow_symlinks=False)
                if (is_folder or is_video) and not target.is_relative_to(root):
                    raise CatalogError(
                        f"the symlink {entry.path!r} leads out of the root {root} to {target}: "
                        "copy it in, or give a root that holds both"
                    )
                if is_folder and not is_link and is_fit:
                    folders.append(entry.name)
                elif is_video and not is_folder and (is_link or entry.is_file()):
                    videos.append(entry.name)
                else:
                    passed["linked folders" if is_folder and is_link else _kind(entry.name)] += 1
    except OSError as error:
        raise CatalogError(f"{root / folder} cannot be listed: {error.strerror}") from error
    return folders, videos
