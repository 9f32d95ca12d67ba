"""The index of a set: what every host would find out of its files, in one file beside them.

ROOT/.videoload-index is a `SetTable`, by the versions of the files (`VideoFile.version`). Of a
bucket, each host fetches it once.
"""

from __future__ import annotations

import math
import os
import sqlite3
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from enum import Enum, auto
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import BinaryIO, TypeVar

from videoload.activity import reading
from videoload.errors import FileReplacedError, StorageError, VideoError, printable
from videoload.logs import Log
from videoload.storage.cache_directories import own_file, own_folder
from videoload.storage.disk_quota import locked
from videoload.storage.files import Storage
from videoload.storage.index_table import (
    NoIndexError,
    OtherSoftwareError,
    Row,
    SetTable,
    table_name,
    unpack,
)
from videoload.storage.new_files import new_file
from videoload.storage.remote import RemoteStorage
from videoload.storage.roots import is_url
from videoload.storage.stores import OBJECT_S, Fetcher, SilentError, UnavailableError
from videoload.storage.video_file import VideoFile

T = TypeVar("T")
_log = Log(__name__)

NAME = ".videoload-index"
_MOST_BYTES = 64 << 30  # 10 million files' rows of 6 kB
_MOST_OF_DISK = 0.25  # of what is free there
_LOCK_S = 300.0  # that another process may take to fetch the file


class Search(Enum):
    """The state of a process's search for a dataset index.

             a question, and the file is of this host
        ┌─────────────────────────────────────────────┐
        │    a question, of a URL          it is here v
      WANTED ──────────────────> COMING ─────────> OPEN, or ABSENT
       ^  ^   storage failed       │                ^  │
       │  ├────────────────────────┤ it takes long  │  │
       │  │                        v     it is here │  │
       │  └────────────────────── LATE ─────────────┘  │
       └───────────────────────────────────────────────┘
            a training run begins, and it was OPEN

    WANTED  the next question opens it, or begins to fetch it.
    COMING  a thread fetches it, and a question that may wait does so.
    LATE    a thread fetches it, and files are read without it until it is here.
    OPEN    it is used. Its rows stay in use while a later one is WANTED, COMING or LATE.
    ABSENT  there is none, or none that can be used.
    """

    WANTED = auto()
    COMING = auto()
    LATE = auto()
    OPEN = auto()
    ABSENT = auto()


class DatasetIndex:
    """The rows of a dataset index for files below the root of ``storage``.

    Args:
        requested: The file or its URL; None: the one in the root; False: none.
        storage: The files.
        cache: The folder where a file from a URL is cached.
        software: The software that must have created it.
    """

    def __init__(
        self, requested: str | bool | None, storage: Storage, cache: str | None, software: str
    ) -> None:
        self._where = str(requested or f"{storage.root}/{NAME}")
        self._above, self._below = _between(str(storage.root), *self._where.rpartition("/")[::2])
        self._is_requested, self._cache, self._software = bool(requested), cache, software
        self.serve(storage)
        self._opened: SetTable | None = None
        self._search = Search.ABSENT if requested is False else Search.WANTED
        self._coming: tuple[Fetcher, Future[SetTable]] | None = None
        self._unused: set[str] = set()  # paths whose rows are of other files, or wrong

    def serve(self, storage: Storage) -> None:
        """Read files from this storage from now on."""
        self._storage = weakref.ref(storage)

    def begin(self) -> None:
        """Note that a training run begins: there may be another index."""
        if self._search is Search.OPEN:
            self._search = Search.WANTED
        self._unused.clear()

    def version(self, path: str, wait: bool) -> bytes | None:
        """Return the version of the file in its row. Without ``wait``: None while it is on its way.
        Raises StorageError."""
        rows = self.rows(path, wait)
        return rows[-1][1] if rows else None

    def find(
        self, path: str, file: VideoFile, read: Callable[[bytes], T], check: Callable[[T], None],
        wait: bool,
    ) -> T | None:  # fmt: skip
        """Return the result of ``read`` for the row of the current file, see `KeptRows.find`.
        Raises StorageError."""
        rows, version = self.rows(path, wait), file.version
        for name, of, packed in rows:
            with suppress(ValueError):
                if of == version:
                    found = read(unpack(os.fsdecode(name), version, packed))
                    check(found)
                    return found
        if rows:
            self.forget(path)
            if str(len(self._unused)).strip("0") == "1":  # the 1st, the 10th, the 100th
                _log.warning(
                    "%s: rows of %d files are not used, as that of %s: their files have changed; "
                    "run `videoload index` again",
                    self._where, len(self._unused), printable(path),
                )  # fmt: skip
        return None

    def paths(self) -> list[str]:
        """Return the paths of all files that it has rows of. Raises StorageError."""
        self.rows("")
        try:
            return [] if self._opened is None else self._opened.paths()
        except sqlite3.Error as error:
            self._give_up(error)
            return []

    def forget(self, path: str) -> None:
        """Ignore its row of a file."""
        self._unused.add(path)

    def rows(self, path: str, wait: bool = True) -> list[Row]:
        """Return the rows of a file, by the path that it has in the index. Raises StorageError."""
        if self._search is Search.WANTED and is_url(self._where):
            self._start()
        is_here = self._coming is not None and self._coming[1].done()
        if self._search is Search.WANTED or is_here or (wait and self._search is Search.COMING):
            self._open()
        try:
            if self._opened is not None and path not in self._unused:
                with reading(self._where):
                    return self._rows_in(self._opened, path)
        except sqlite3.Error as error:
            self._give_up(error)
        return []

    def _rows_in(self, opened: SetTable, path: str) -> list[Row]:
        """Return the rows of a file, by its whole path below the dataset's root. If that root is
        unknown, all paths below the storage's root begin like the first one that is found. Raises
        sqlite3.Error."""
        if self._above is not None:
            is_below = path.startswith(self._above)
            return opened.rows(self._below + path[len(self._above) :]) if is_below else []
        steps = PurePosixPath(path).parts
        for at in range(len(steps)):
            above = "".join(f"{step}/" for step in steps[:at])
            if above and opened.has_folder(above):  # so this is the path below its root
                break
            if rows := opened.rows(path[len(above) :]):
                self._above = above
                return rows
        return []

    def _start(self) -> None:
        """Fetch the file of a URL in a thread."""
        root, _, name = self._where.rpartition("/")
        own = self._storage()
        if isinstance(own, RemoteStorage) and own.root == root:
            fetcher = own.fetcher
        else:
            fetcher = Fetcher(root)
        coming = fetcher.start(partial(_fetch, fetcher, name, self._cache, self._software))
        self._coming, self._search = (fetcher, coming), Search.COMING

    def _open(self) -> None:
        """Open it. Raises StorageError if it may exist but cannot be reached."""
        opened, storage = None, self._storage()
        assert storage is not None
        try:
            if self._coming is not None:
                fetcher, coming = self._coming
                fetcher.tick = storage.tick
                # The user may not have passed one: a server may only answer for videos.
                opened = fetcher.wait(coming, math.inf if self._is_requested else OBJECT_S)
            else:
                with reading(self._where):
                    opened = self._found(storage)
        except (NoIndexError, VideoError, OSError) as error:
            self._give_up(error)
        except UnavailableError as error:
            if self._is_requested:
                self._give_up(error)
        except SilentError:  # files are read without it meanwhile
            self._search = Search.LATE
            return
        except StorageError as error:
            was_late = self._search is Search.LATE
            self._search, self._coming = Search.WANTED, None
            if not was_late:
                raise
            if not fetcher.has_given:
                return
            self._give_up(error)
        self._search = Search.ABSENT if opened is None else Search.OPEN
        self._opened, self._coming = opened, None

    def _found(self, storage: Storage) -> SetTable | None:
        if os.path.lexists(self._where):
            resolved = self._where if self._is_requested else storage.resolve(NAME).path
            return SetTable(resolved, self._software)
        if self._is_requested:
            raise NoIndexError("there is no such file")
        return None

    def _give_up(self, error: Exception) -> None:
        _log.warning("the index %s is not used: %s", self._where, error)
        self._opened = None
        if self._search is Search.OPEN:
            self._search = Search.ABSENT


def _between(root: str, folder: str, name: str) -> tuple[str | None, str]:
    """Return the prefix of ``root``'s files above the root of a dataset whose index is in
    ``folder``, and their prefix in the index. None: the index is elsewhere."""
    root, folder = f"{root.rstrip('/')}/", f"{folder}/"
    if name == NAME and folder.startswith(root):
        return folder[len(root) :], ""
    if name == NAME and root.startswith(folder):
        return "", root[len(folder) :]
    return None, ""


def _fetch(fetcher: Fetcher, name: str, cache: str | None, software: str) -> SetTable:
    """Raises NoIndexError, StorageError, UnavailableError, OSError."""
    for _ in range(3):
        with suppress(FileReplacedError):  # another one has taken its place meanwhile
            size, tag = fetcher.look(name)
            if not size:
                break
            get = partial(fetcher.get, name, 0, size, tag)
            key = f"{fetcher.store.url}/{name}\n{size} {tag}"
            with nullcontext(cache) if cache else TemporaryDirectory(prefix="videoload-") as folder:
                file = _kept(Path(os.path.realpath(folder)), key, size, get)
                try:
                    return SetTable(file, software)
                except OtherSoftwareError:  # it is one: no other process needs to fetch it again
                    raise
                except NoIndexError:
                    file.unlink(missing_ok=True)
                    raise
    raise NoIndexError("it is empty, or changes while it is read")


def _check_room(folder: Path, size: int) -> None:
    """Raise NoIndexError if an index of ``size`` bytes is no use, or would fill the disk of every
    host."""
    disk = os.statvfs(folder)
    room = int(_MOST_OF_DISK * disk.f_bavail * disk.f_frsize)
    if size > (most := min(room, _MOST_BYTES)):
        raise NoIndexError(
            f"it has {size / 1e6:,.0f} MB, and {most / 1e6:,.0f} MB are the most that this host "
            f"stores in {folder}: run `videoload index` again, or put cache= on another disk"
        )


def _kept(folder: Path, key: str, size: int, get: Callable[[BinaryIO], object]) -> Path:
    """Return the output of ``get`` as a file of this host, which one process writes for all. Raises
    the errors of ``get``, and OSError."""
    file, lock = folder / table_name(key), folder / table_name(key, "lock")
    with own_folder(folder), locked(lock, _LOCK_S):
        found = own_file(file)
        if found is None or found.st_size != size:
            _check_room(folder, size)
            with new_file(file, alone=True) as new:
                get(new)
        os.utime(file)  # it is in use
    return file
