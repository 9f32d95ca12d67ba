"""What lies below a folder of this host, or below a URL: videos and classes."""

from __future__ import annotations

import os
import posixpath
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path, PurePath
from typing import TypeVar

from videoload.catalog.chains import chained
from videoload.catalog.columns import (
    ClassNames,
    Listed,
    PathLike,
    class_names,
    is_hidden,
    is_number,
    is_text_line,
    look_alike,
    names_in,
)
from videoload.errors import CatalogError, StorageError, VideoError, some
from videoload.logs import Log
from videoload.storage.cache_directories import cache_folder
from videoload.storage.dataset_index import DatasetIndex
from videoload.storage.files import Storage, retry_if_replaced
from videoload.storage.kept_rows import KeptRows
from videoload.storage.paths import ARCHIVES
from videoload.storage.roots import files_below, folders_in, is_url, open_storage, pinned_url
from videoload.storage.shards import PLACE
from videoload.versions import index_software

SUFFIXES = (  # of videos
    ".avi", ".mp4", ".mkv", ".mov", ".webm", ".m4v", ".mpg", ".mpeg", ".mts", ".m2ts", ".flv",
    ".ogv", ".3gp", ".dv",
)  # fmt: skip
_MOST_LOOKED_AT = 10_000  # names in a folder, before it is taken for one of videos
BY_FOLDER = "<class>/"  # as ``label``: the sub-folders are the classes
# Folders that split a dataset. As classes, they would label every video "train".
_TRAIN = ("train", "training")
_TEST = ("test", "testing", "val", "valid", "validation")
_NAMED = some([f"*{suffix}" for suffix in SUFFIXES])
_AT_ONCE = 16  # archives below a URL
T = TypeVar("T")
_NO_TEXT = "names that are not a line of UTF-8 text"

_log = Log(__name__)


def holds_videos(root: Path) -> bool:
    """Return whether a video lies below a folder, as far as a short look shows."""
    files = (name for _, _, names in os.walk(root, followlinks=True) for name in ("", *names))
    found = any(name.lower().endswith(SUFFIXES) for name in islice(files, _MOST_LOOKED_AT))
    return found or next(files, None) is not None


@dataclass
class Found:
    """What lies below a folder. All paths are relative to the root.

    Links must stay in the root. One to a folder is followed if that lies outside of the folder that
    is searched. ``folders`` are the names of the visible sub-folders, and ``passed`` counts what is
    no video.
    """

    top: Path | str
    base: str = ""  # the way from the root to the folder, ending with "/"
    videos: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    passed: Counter[str] = field(default_factory=Counter)
    archives: list[str] = field(default_factory=list)
    places: dict[str, bytes] = field(default_factory=dict)  # of videos in archives
    _linked: set[Path] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Raise CatalogError."""
        if isinstance(self.top, str):
            self._look_below_url(self.top)
        else:
            self._look_in(self.top, self.base.rstrip("/"), is_top=True)
        for inside in in_archives(self.top, self.archives, members_of) if self.archives else ():
            videos = {path: at for path, at in inside.items() if path.lower().endswith(SUFFIXES)}
            self.videos += videos
            self.places |= videos
        self.folders = sorted({*self.folders})
        self.videos.sort(key=posixpath.split)  # as Keras does

    def by_folder(self) -> dict[str, list[str]]:
        """Return the videos in each sub-folder, and under "" those in none."""
        found: dict[str, list[str]] = {name: [] for name in ("", *self.folders)}
        for path in self.videos:
            first, slash, _ = path[len(self.base) :].partition("/")
            found[first if slash and first in found else ""].append(path)  # or in an archive
        return found

    def _look_below_url(self, url: str) -> None:
        with refusing():
            below = files_below(url, self.base.rstrip("/"))
        for path in below:
            first, *rest = path[len(self.base) :].split("/")
            if any(map(is_hidden, (first, *rest))):
                continue
            if rest and is_text_line(first):
                self.folders.append(first)
            if path.lower().endswith(SUFFIXES) and is_text_line(path):
                self.videos.append(path)
            elif is_archive(path) and is_text_line(path):
                self.archives.append(path)
            else:
                self.passed[_kind(path)] += 1

    def _look_in(self, root: Path, folder: str, *, is_top: bool = False) -> None:
        inner: list[str] = []
        for entry in sorted(visible(root / folder), key=lambda entry: entry.name):
            is_link, is_fit = entry.is_symlink(), is_text_line(entry.name)
            is_video = is_fit and entry.name.lower().endswith(SUFFIXES)
            is_folder = os.path.isdir(entry.path) if is_link else entry.is_dir()  # noqa: PTH112 - not of a loop
            if is_link and (is_folder or is_video):
                target = Path(os.path.realpath(entry.path))
                if not target.is_relative_to(root):
                    above = os.path.commonpath((root, target.parent))
                    raise CatalogError(
                        f"the symlink {entry.path!r} leads out of the root {root} to {target}: "
                        f"give root={above!r}, which contains both"
                    )
            if is_folder and is_fit and (not is_link or self._is_new(target)):
                inner.append(entry.name)
            elif is_video and not is_folder and (is_link or entry.is_file()):
                self.videos.append(posixpath.join(folder, entry.name))
            elif is_fit and not is_link and is_archive(entry.name) and entry.is_file():
                self.archives.append(posixpath.join(folder, entry.name))
            else:
                self.passed["linked folders" if is_folder and is_link else _kind(entry.name)] += 1
        if is_top:
            self.folders = inner
        for name in inner:
            self._look_in(root, posixpath.join(folder, name))

    def _is_new(self, target: Path) -> bool:
        """Return whether a link leads to a folder whose videos are not found without it."""
        searched = Path(self.top, self.base)
        known = target in self._linked or target.is_relative_to(searched)
        self._linked.add(target)
        return not known and not searched.is_relative_to(target)


def is_archive(name: str) -> bool:
    """Return whether a name is that of an archive that may hold videos."""
    return name.lower().endswith(ARCHIVES)


def members_of(storage: Storage, path: str) -> dict[str, bytes]:
    """Return the paths of the members of an archive, and their places. Raises CatalogError,
    VideoError, StorageError, FileReplacedError."""
    with storage.reading(path, lambda: None):
        archive = storage.resolve(path)
        found = storage.contents(path, archive)
        archive.check()
    if found.flaw:
        raise CatalogError(f"{storage.root}/{path} {found.flaw}")
    return {
        f"{path}/{each.name}": b"" if each.link else PLACE.pack(each.at, each.size)
        for each in found
        if is_text_line(each.name) and not any(map(is_hidden, each.name.split("/")))
    }


def in_archives(
    top: Path | str, paths: Sequence[str], work: Callable[[Storage, str], T]
) -> Iterator[T]:
    """Return the results of ``work`` for each archive, with several at once below a URL. Storages
    use cached members, from this host or from beside the archives. Raises CatalogError."""
    opened, own = list[Storage](), threading.local()
    cache, software = cache_folder(None), index_software()

    def in_thread(path: str) -> T:
        if not hasattr(own, "storage"):
            own.storage = open_storage(top)
            own.storage.keep(rows)
            opened.append(own.storage)
        try:
            return retry_if_replaced(path, partial(work, own.storage, path))
        except (VideoError, StorageError, OSError) as error:
            raise CatalogError(f"{top}: {error}") from None

    storage = open_storage(top)
    opened.append(storage)
    of_set = DatasetIndex(None, storage, cache, software)
    rows = KeptRows(cache, storage.root, software, of_set)
    try:
        with ThreadPoolExecutor(_AT_ONCE if isinstance(top, str) else 1) as threads:
            yield from threads.map(in_thread, paths)
    finally:
        rows.close()
        for each in opened:
            each.close()


@contextmanager
def refusing() -> Iterator[None]:
    """Raise errors of a URL as CatalogError."""
    try:
        yield
    except (StorageError, ValueError) as error:
        raise CatalogError(str(error)) from None


def visible(folder: str | Path) -> list[os.DirEntry[str]]:
    """Return the names in a folder that are not hidden. Raises CatalogError."""
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not is_hidden(entry.name)]
    except OSError as error:
        raise CatalogError(f"{folder} cannot be listed: {error.strerror}") from error


def read_folder(
    folder: PathLike,
    root: PathLike | None,
    classes: ClassNames | None,
    label: str | None = BY_FOLDER,
    chain: str | None = None,
    fields: Iterable[str] = (),
) -> Listed:
    """Return the videos below a folder; see `Catalog.from_folder`. ``fields``: suffixes of other
    files that are used."""
    home = open_root(folder)
    top = home if root is None else open_root(root)
    found = Found(top, _base(home, top))
    for suffix in fields:
        del found.passed[_kind(f"a.{suffix}")]
    if label != BY_FOLDER and not found.videos:
        raise CatalogError(f"{home} has no videos ({_NAMED}){_passed_over(found)}")
    if label == BY_FOLDER:
        labels, names = _by_folder(home, found, classes)
    elif label is not None:
        labels, names = _by_regex(home, found.videos, label, classes)
    else:
        labels, names = None, () if classes is None else class_names(classes)
    if alike := look_alike(names):
        _log.warning("%s: %s", home, alike)
    if text := _passed_over(found):
        _log.warning("%s%s; videos are named %s", home, text, _NAMED)
    paths = found.videos
    if chain is not None:
        paths, labels = chained(paths, labels, chain, str(home))
    places = [found.places.get(path, b"") for path in paths] if found.places else None
    return Listed(paths, {"label": labels, "places": places}, names, top, where=lambda _: str(home))


def _by_folder(
    home: Path | str, found: Found, classes: ClassNames | None
) -> tuple[list[int], tuple[str, ...]]:
    """Return the class of each video, and all classes. Videos that are in no sub-folder are left
    out."""
    names = tuple(found.folders) if classes is None else class_names(classes)
    if classes is None and are_parts(names):
        raise CatalogError(
            f"{home}: {', '.join(names)} are parts of a dataset, not classes: use "
            f"Catalog.train_and_test, or give {home}/{names[0]} with the root {home}"
        )
    if strange := sorted({*found.folders} - {*names}):
        raise CatalogError(
            f"{home}: the sub-folder {strange[0]!r} is not in classes ({some(names)}): "
            "add it to them, or move it"
        )
    of_folder = found.by_folder()
    loose = of_folder.pop("")
    found.videos = [path for name in names for path in of_folder.get(name, ())]
    if not found.videos:
        hint = f"it has {len(found.folders)} class sub-folders (hidden ones do not count)"
        if loose and found.archives and not found.folders:
            hint = f"the {len(loose)} videos lie in archives: Catalog.from_shards lists them"
        elif loose:
            hint = (
                f"its {len(loose)} videos need class sub-folders to lie in; or label=REGEX, which "
                "finds the class in each name; or label=None, for no classes; or a table for "
                "Catalog.from_table"
            )
        raise CatalogError(f"{home} has no <class>/**/{_NAMED}: {hint}{_passed_over(found)}")
    found.passed["videos outside of class folders"] = len(loose)
    if empty := [name for name in found.folders if not of_folder[name]]:
        _log.warning("%s: no video in the class folders %s", home, some(empty))
    labels = [number for number, name in enumerate(names) for _ in of_folder.get(name, ())]
    return labels, names


def _by_regex(
    home: Path | str, videos: list[str], label: str, classes: ClassNames | None
) -> tuple[list[int], tuple[str, ...]]:
    """Return the class that each path names, and all classes."""
    found = names_in(videos, label, "label", "its class")
    names = tuple(sorted(set(found))) if classes is None else class_names(classes)
    if classes is not None and all(map(is_number, found)) and not set(found) & set(names):
        found = [names[int(n) - 1] if 0 < int(n) <= len(names) else n for n in found]
    number_of = {name: number for number, name in enumerate(names)}
    for path, name in zip(videos, found, strict=True):
        if name not in number_of:
            raise CatalogError(
                f"{home}: {path!r} names the class {name!r}, not one of {some(names)}"
            )
    return [number_of[name] for name in found], names


def are_parts(names: Sequence[str]) -> bool:
    """Return whether all of the sub-folders split a dataset, like train/ and test/."""
    return len(names) > 1 and {*map(str.lower, names)} <= {*_TRAIN, *_TEST}


def open_root(root: PathLike) -> Path | str:
    """Return the root of a catalog: a folder that exists, or a URL. Only a hub gets a request: it
    resolves a branch to its commit. Raises CatalogError."""
    if is_url(root):
        with refusing():
            return pinned_url(str(root))
    try:
        folder = Path(os.path.realpath(root))  # Path.resolve() raises on a loop of links
    except FileNotFoundError:
        raise CatalogError(
            f"{root}: it is relative, and the working directory was deleted: change to another one"
        ) from None
    try:
        os.scandir(folder).close()
    except OSError as error:
        at = "" if Path(root).is_absolute() else f" (in {Path.cwd()})"
        raise CatalogError(f"the folder {root}{at} cannot be opened: {error.strerror}") from error
    return folder


def sub_folders(root: PathLike) -> list[str]:
    """Return the names of the visible folders in a root, sorted. Raises CatalogError."""
    top = open_root(root)
    if not isinstance(top, str):
        return sorted(entry.name for entry in visible(top) if entry.is_dir())
    with refusing():
        return [name for name in folders_in(top) if not is_hidden(name)]


def train_and_test(folder: PathLike) -> tuple[str, str] | None:
    """Return the training and the test folder of a dataset, if it has both. Raises CatalogError."""
    there = sub_folders(folder)
    found = [
        [name for part in parts for name in there if name.lower() == part]
        for parts in (_TRAIN, _TEST)
    ]
    if not all(found):
        return None
    train, test = (os.path.join(folder, names[0]) for names in found)
    return train, test


def _passed_over(found: Found) -> str:
    """Return how many files of which kind were left out; "" if none were."""
    kinds = [f"{n} {kind}" for kind, n in found.passed.most_common() if n]
    more = f", {len(kinds) - 5} more kinds" if len(kinds) > 5 else ""
    hint = ""
    if found.passed[_NO_TEXT] and (encoding := sys.getfilesystemencoding()) != "utf-8":
        hint = f" (Python takes file names for {encoding} here: set PYTHONUTF8=1)"
    return f": passed over {', '.join(kinds[:5])}{more}{hint}" if kinds else ""


def _kind(name: str) -> str:
    """Return the suffix under which a file that is left out is counted."""
    if not is_text_line(name):
        return _NO_TEXT
    suffix = PurePath(name).suffix.lower()
    return f"*{suffix}" if suffix else "files without a suffix"


def _base(home: Path | str, top: Path | str) -> str:
    """Return the way from the root to a folder in it, ending with ``/``. Raises CatalogError."""
    above, below = str(top).rstrip("/") + "/", str(home).rstrip("/") + "/"
    if isinstance(home, Path) is not isinstance(top, Path) or not below.startswith(above):
        raise CatalogError(f"{home} is not in the root {top}: give a parent as root")
    return below[len(above) :]
