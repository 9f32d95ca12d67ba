"""Files of a bucket that stay on a disk of this host: a later epoch, or training, reads them there.

    FOLDER/3f/9a41...c2.avi    a file; its name is a hash of its URL, its time of change the number
                               that stands for its version
    FOLDER/bytes               how many bytes they have in all
    FOLDER/coming/             those that are being written

All processes of the host may share a folder, and anybody may delete any of it at any time. Nothing
is ever thrown away to make room: where each epoch reads all files in another order, what came first
is needed no less than what comes now. Who finds no room fetches, as he would without a folder.

Whether a version is still the one in the bucket, each process asks for itself: a kept file is no
more than what was fetched once, and the same URL may lead two processes to two buckets.
"""

from __future__ import annotations

import fcntl
import logging
import os
import posixpath
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from videoload.storage.files import Status
from videoload.storage.keep import Keep

_log = logging.getLogger(__name__)

_FREE = 0.2  # of the disk that stays free, where no limit is given
_WAITING_BYTES = 32 << 20  # that wait to be written, before what comes then is not kept
_FULL_S = 600.0  # who found no room looks again after so long
_LEFT_S = 3600.0  # what has been coming for longer was left by a process that was killed
_MAX_SUFFIX = 16


class _Waiting(NamedTuple):
    name: str
    status: Status
    data: bytes


class KeptFiles:
    """The kept ones of those below the URL ``root``. Names are relative to it."""

    def __init__(self, keep: Keep, root: str) -> None:
        self._keep = keep
        self._root = root
        self._folder = Path(keep.folder)
        self._asked: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._unwritten: set[str] = set()  # names of what waits
        self._waiting = 0  # bytes
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._full_until = 0.0
        self._told = False

    def path(self, name: str) -> str:
        """Where a file is, if it is kept. FFmpeg goes by how its name ends."""
        number = blake2b(f"{self._root}\n{name}".encode(), digest_size=16).hexdigest()
        suffix = posixpath.splitext(name)[1]
        suffix = suffix if len(suffix.encode()) <= _MAX_SUFFIX else ""
        return f"{self._keep.folder}/{number[:2]}/{number[2:]}{suffix}"

    def find(self, name: str) -> os.stat_result | None:
        """What the file system says of a file that is kept, in whatever version."""
        path = self.path(name)
        try:
            found = os.stat(path)
        except OSError:
            return None
        readable = stat.S_ISREG(found.st_mode) and os.access(path, os.R_OK)
        return found if readable else None

    def holds(self, name: str, status: Status) -> bool:
        """Whether this version of a file is kept."""
        found = self.find(name)
        return found is not None and _is_version(found, status)

    def awaits(self, name: str) -> bool:
        """Whether a file is about to be written."""
        return name in self._unwritten

    def remove(self, name: str) -> None:
        """Keep this file no longer: what is here is not what it was. (The bytes stay counted until
        there is no room.)"""
        with suppress(OSError):
            Path(self.path(name)).unlink()

    @property
    def has_room(self) -> bool:
        """Whether there is some, as far as this process knows."""
        return time.monotonic() >= self._full_until

    def keep(self, name: str, status: Status, data: bytes) -> None:
        """Keep all of a file. Never waits: it is written by a thread, or not at all."""
        with self._lock:
            if not self.has_room or (self._waiting and self._waiting + len(data) > _WAITING_BYTES):
                return
            self._waiting += len(data)
            self._unwritten.add(name)
            if self._thread is None:
                # A daemon: no exit waits for a disk that hangs.
                self._thread = threading.Thread(
                    target=self._run, name="videoload-keep", daemon=True
                )
                self._thread.start()
        self._asked.put(_Waiting(name, status, data))

    def stop(self) -> None:
        """Write what waits, and no more."""
        self._asked.put(None)

    def _run(self) -> None:
        self._sweep()
        while (given := self._asked.get()) is not None:
            try:
                if self.has_room and not self._write(given):
                    self._full_until = time.monotonic() + _FULL_S
                    self._tell("is full; it stays as it is")
            except FileNotFoundError:
                pass  # somebody deletes the folder just now
            except OSError as error:
                self._full_until = time.monotonic() + _FULL_S
                self._tell(f"cannot be used: {error.strerror or error}")
            with self._lock:
                self._waiting -= len(given.data)
                self._unwritten.discard(given.name)
            del given  # it would be in memory until the next one comes

    def _tell(self, what: str) -> None:
        if not self._told:
            self._told = True
            _log.warning(
                "the folder of kept files %s %s; other files are fetched", self._folder, what
            )

    def _write(self, given: _Waiting) -> bool:
        """Whether there was room. Raises OSError."""
        path, size = Path(self.path(given.name)), len(given.data)
        if self.holds(given.name, given.status):
            return True
        # All of them in one folder: a file system that has each folder's files near each other
        # takes several times as long to find room for them in many.
        new = self._folder / "coming" / secrets.token_hex(8)
        new.parent.mkdir(parents=True, exist_ok=True)
        if self._keep.most is None and _free(self._folder) < _FREE:
            return False
        try:
            with new.open("xb") as file:
                file.write(given.data)
                file.flush()
                os.fdatasync(file)  # else a power failure may leave zeros under its name
            os.utime(new, ns=(time.time_ns(), given.status.st_mtime_ns))
            if not _is_version(os.stat(new), given.status):
                raise OSError("its file system does not keep times to the nanosecond")
            path.parent.mkdir(exist_ok=True)
            with self._counted() as count:
                with suppress(FileNotFoundError):
                    size -= path.stat().st_size
                most = self._keep.most
                if most is not None and count[0] + size > most:
                    count[0] = self._sum()  # somebody may have deleted some
                    if count[0] + size > most:
                        return False
                new.replace(path)
                count[0] += size
        finally:
            new.unlink(missing_ok=True)
        return True

    @contextmanager
    def _counted(self) -> Iterator[list[int]]:
        """The bytes of all files, which nobody else changes meanwhile, to be changed."""
        count_file = self._folder / "bytes"
        count_file.touch()
        with count_file.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            told = file.read()
            count = [int(told) if told.isdigit() else self._sum()]
            try:
                yield count
            finally:
                file.seek(0)
                file.write(b"%d" % max(0, count[0]))
                file.truncate()

    def _sum(self) -> int:
        files = self._folder.glob("[0-9a-f][0-9a-f]/*")
        return sum(file.stat().st_size for file in files)

    def _sweep(self) -> None:
        for left in (self._folder / "coming").glob("*"):
            with suppress(OSError):  # somebody else's, or written by now
                if time.time() - left.stat().st_ctime > _LEFT_S:
                    left.unlink()


def _is_version(found: os.stat_result, status: Status) -> bool:
    return (found.st_size, found.st_mtime_ns) == (status.st_size, status.st_mtime_ns)


def _free(folder: Path) -> float:
    told = os.statvfs(folder)
    return told.f_bavail / max(1, told.f_blocks)
