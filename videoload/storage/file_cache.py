"""The file cache: files of a bucket on a disk of this host, where later epochs and trainings read
them.

    FOLDER/videoload-files/3f9a41...c2.avi   a file; its name is a hash of its URL, and its time of
                                             change is a number out of its identity
    FOLDER/videoload-files/coming-5b...      a file that is being written
    FOLDER/videoload-files/bytes             how many bytes the files have in all

All processes of a user on a host may share a folder. Its files may be deleted at any time. No file
is removed to make room: if each epoch reads all files in another order, the first ones are needed
as much as the next ones. A process that finds no room fetches, as it would without a folder.

Each process asks the bucket whether a version is still the one there: a cached file is only what
was fetched once, and the same URL may lead two processes to two buckets.

Files of other users and links are neither read nor written: who could put them there could choose
what is trained on.
"""

from __future__ import annotations

import logging
import os
import posixpath
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path

from videoload.storage.cache_directories import CacheDirectory, DiskQuota, own_file, own_folder
from videoload.storage.daemon_pool import DaemonPool
from videoload.storage.files import LocalFile, identity_by

_log = logging.getLogger(__name__)

_MOST_WAITING = 1000  # files that wait to be written; what comes then is not cached
_LOCK_S = 60.0  # that the thread which writes waits for other processes
_LEFT_S = 3600.0  # a file that has been coming for longer was left by a process that was killed
_MAX_SUFFIX = 16
_COMING = "coming-"


class FileCache:
    """The cached files of the URL ``root``. Names are relative to it. A file tells the version
    (`VideoFile.version`) of what it copies."""

    def __init__(self, keep: CacheDirectory, root: str) -> None:
        self._folder = keep.own("files")
        self._root = root
        self._room = DiskQuota(self._folder, keep.max_bytes, self._measure, _LOCK_S)
        self._writer = DaemonPool("videoload-cache", 1)  # no exit waits for a disk that hangs
        self._is_swept = False
        self._waiting: set[str] = set()  # names
        self._lock = threading.Lock()
        self._full_until = 0.0
        self._has_told = False

    def path(self, name: str) -> str:
        """Where a file is, if it is cached."""
        return f"{self._folder}/{self._leaf(name)}"

    def has_some(self, name: str) -> bool:
        """Whether any version of a file is cached."""
        return own_file(self.path(name)) is not None

    def find(self, name: str, size: int, version: bytes) -> LocalFile | None:
        """The file, if this version of it is cached."""
        path = self.path(name)
        found = own_file(path)
        if found is None or (found.st_size, found.st_mtime_ns) != (size, _number(version)):
            return None
        return LocalFile(path, found, version)

    def _leaf(self, name: str) -> str:
        number = blake2b(f"{self._root}\n{name}".encode(), digest_size=16).hexdigest()
        suffix = posixpath.splitext(name)[1]  # FFmpeg guesses the format from it
        return number + suffix[:_MAX_SUFFIX]

    def remove(self, name: str) -> None:
        """Remove a damaged file. (Its bytes are counted until there is no room.)"""
        with suppress(OSError):
            Path(self.path(name)).unlink()

    @property
    def has_room(self) -> bool:
        """Whether there is room, as far as this process knows."""
        return time.monotonic() >= self._full_until

    def add(self, name: str, version: bytes, get: Callable[[], bytes]) -> None:
        """Add a whole file, which ``get`` gives. Never waits: a thread gets and writes one file
        after the other, or it is not cached."""
        with self._lock:
            is_full = not self.has_room or len(self._waiting) >= _MOST_WAITING
            if is_full or name in self._waiting:
                return
            self._waiting.add(name)
        self._writer.start(partial(self._write, name, version, get))

    def stop(self) -> None:
        """Write no more."""
        self._writer.stop()

    def _write(self, name: str, version: bytes, get: Callable[[], bytes]) -> None:
        try:
            with own_folder(self._folder) as folder:
                if not self._is_swept:
                    self._is_swept = True
                    _sweep(folder)
                if self.has_room and not self._has_written(folder, name, version, get):
                    self._give_up("is full; it stays as it is")
        except FileNotFoundError:
            pass  # the folder is being deleted
        except OSError as error:
            self._give_up(f"cannot be used: {error.strerror or error}")
        finally:
            with self._lock:
                self._waiting.remove(name)

    def _give_up(self, why: str) -> None:
        self._full_until = time.monotonic() + self._room.pause_s
        if not self._has_told:
            self._has_told = True
            _log.warning("the file cache %s %s; other files are fetched", self._folder, why)

    def _has_written(
        self, folder: int, name: str, version: bytes, get: Callable[[], bytes]
    ) -> bool:
        """Whether there was room, or the file is there. Raises OSError."""
        there = own_file(self.path(name))
        if there is not None and there.st_mtime_ns == _number(version):
            return True
        new, leaf, data = _COMING + secrets.token_hex(8), self._leaf(name), get()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            written = os.open(new, flags, 0o600, dir_fd=folder)
            with os.fdopen(written, "wb") as file:
                file.write(data)
                file.flush()
                os.fdatasync(written)  # else a power failure may leave zeros under its name
                os.utime(written, ns=(time.time_ns(), _number(version)))
                if os.fstat(written).st_mtime_ns != _number(version):
                    raise OSError("its file system does not keep times to the nanosecond")
            old = own_file(leaf, folder)
            with self._room.take(len(data) - (old.st_size if old else 0)) as has_room:
                if has_room:
                    os.replace(new, leaf, src_dir_fd=folder, dst_dir_fd=folder)
            return has_room
        finally:
            with suppress(FileNotFoundError):
                os.unlink(new, dir_fd=folder)

    def _measure(self) -> int:
        names = (name for name in os.listdir(self._folder) if not name.startswith(_COMING))
        found = [own_file(self._folder / name) for name in names if name != "bytes"]
        return sum(file.st_size for file in found if file is not None)


def _number(version: bytes) -> int:
    return int.from_bytes(identity_by(version)[:7], "little")


def _sweep(folder: int) -> None:
    for name in os.listdir(folder):
        if name.startswith(_COMING):
            with suppress(OSError):  # another process has finished or removed it
                changed = os.stat(name, dir_fd=folder, follow_symlinks=False).st_ctime
                if time.time() - changed > _LEFT_S:
                    os.unlink(name, dir_fd=folder)
