"""Files of a bucket that stay on a disk of this host: later epochs and trainings read them there.

    FOLDER/3f9a41...c2.avi     a file; its name is a hash of its URL, and its time of change is the
                               number that stands for its version
    FOLDER/coming-5b...        a file that is being written
    FOLDER/bytes               how many bytes the files have in all

All processes of a user on a host may share a folder. Its files may be deleted at any time. No file
is removed to make room: if each epoch reads all files in another order, the first ones are needed
as much as the next ones. A process that finds no room fetches, as it would without a folder.

Each process asks the bucket whether a version is still the one there: a kept file is only what was
fetched once, and the same URL may lead two processes to two buckets.

Files of other users and links are neither read nor written: who could put them there could choose
what is trained on.
"""

from __future__ import annotations

import logging
import os
import posixpath
import secrets
import stat
import threading
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from videoload.storage.files import LocalFile
from videoload.storage.keep import Keep, own_folder
from videoload.storage.room import Room

_log = logging.getLogger(__name__)

_WAITING_BYTES = 32 << 20  # that wait to be written; what comes then is not kept
_LOCK_S = 60.0  # that the thread which writes waits for other processes
_FULL_S = 600.0  # until a process that found no room looks again
_LEFT_S = 3600.0  # a file that has been coming for longer was left by a process that was killed
_MAX_SUFFIX = 16
_COMING = "coming-"
_NOT_KEPT = (_COMING, "bytes")


class Version(NamedTuple):
    """A version of a file: its size, and a number that its kept copy has as its time of change."""

    size: int
    mtime_ns: int

    @classmethod
    def of(cls, size: int, tag: str) -> Version:
        """The version of a tag."""
        digest = blake2b(tag.encode(), digest_size=7).digest()
        return cls(size, int.from_bytes(digest, "little"))


class KeptFiles:
    """The kept files of the URL ``root``. Names are relative to it."""

    def __init__(self, keep: Keep, root: str) -> None:
        self._keep = keep
        self._root = root
        self._room = Room(Path(keep.folder), keep.max_bytes, self._measure, _LOCK_S)
        self._asked: SimpleQueue[tuple[str, Version, bytes] | None] = SimpleQueue()
        self._unwritten: set[str] = set()  # names
        self._waiting = 0  # bytes
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._full_until = 0.0

    def path(self, name: str) -> str:
        """Where a file is, if it is kept."""
        return f"{self._keep.folder}/{self._leaf(name)}"

    def has_some(self, name: str) -> bool:
        """Whether any version of a file is kept."""
        return _find(self.path(name)) is not None

    def find(self, name: str, version: Version, identity: bytes = b"") -> LocalFile | None:
        """The file, if this version of it is kept. It has the ``identity`` of what it copies."""
        path = self.path(name)
        found = _find(path)
        if found is None or (found.st_size, found.st_mtime_ns) != version:
            return None
        return LocalFile(path, found, identity)

    def _leaf(self, name: str) -> str:
        number = blake2b(f"{self._root}\n{name}".encode(), digest_size=16).hexdigest()
        suffix = posixpath.splitext(name)[1]  # FFmpeg guesses the format from it
        return number + suffix[:_MAX_SUFFIX]

    def awaits(self, name: str) -> bool:
        """Whether a file is about to be written."""
        return name in self._unwritten

    def remove(self, name: str) -> None:
        """Keep a damaged file no longer. (Its bytes are counted until there is no room.)"""
        with suppress(OSError):
            Path(self.path(name)).unlink()

    @property
    def has_room(self) -> bool:
        """Whether there is room, as far as this process knows."""
        return time.monotonic() >= self._full_until

    def keep(self, name: str, version: Version, data: bytes) -> None:
        """Keep a whole file. Never waits: a thread writes it, or it is not kept."""
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
        self._asked.put((name, version, data))

    def stop(self) -> None:
        """Write what waits, and no more."""
        self._asked.put(None)

    def _run(self) -> None:
        with suppress(OSError), own_folder(Path(self._keep.folder)) as folder:
            _sweep(folder)
        while (given := self._asked.get()) is not None:
            name, version, data = given
            try:
                with own_folder(Path(self._keep.folder)) as folder:
                    if self.has_room and not self._write(folder, name, version, data):
                        self._give_up("is full; it stays as it is")
            except FileNotFoundError:
                pass  # the folder is being deleted
            except OSError as error:
                self._give_up(f"cannot be used: {error.strerror or error}")
            with self._lock:
                self._waiting -= len(data)
                self._unwritten.discard(name)
            del given, data  # they would stay in memory until the next file comes

    def _give_up(self, why: str) -> None:
        self._full_until = time.monotonic() + _FULL_S
        _log.warning(
            "the folder of kept files %s %s; other files are fetched", self._keep.folder, why
        )

    def _write(self, folder: int, name: str, version: Version, data: bytes) -> bool:
        """Returns whether there was room. Raises OSError."""
        if self.find(name, version) is not None:
            return True
        new, leaf = _COMING + secrets.token_hex(8), self._leaf(name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            written = os.open(new, flags, 0o600, dir_fd=folder)
            with os.fdopen(written, "wb") as file:
                file.write(data)
                file.flush()
                os.fdatasync(written)  # else a power failure may leave zeros under its name
                os.utime(written, ns=(time.time_ns(), version.mtime_ns))
                if os.fstat(written).st_mtime_ns != version.mtime_ns:
                    raise OSError("its file system does not keep times to the nanosecond")
            old = _find(leaf, folder)
            with self._room.take(len(data) - (old.st_size if old else 0)) as has_room:
                if has_room:
                    os.replace(new, leaf, src_dir_fd=folder, dst_dir_fd=folder)
            return has_room
        finally:
            with suppress(FileNotFoundError):
                os.unlink(new, dir_fd=folder)

    def _measure(self) -> int:
        names = os.listdir(self._keep.folder)
        found = [
            _find(f"{self._keep.folder}/{name}") for name in names if not name.startswith(_NOT_KEPT)
        ]
        return sum(file.st_size for file in found if file is not None)


def _find(path: str, folder: int | None = None) -> os.stat_result | None:
    """The status of a file, if it is one and this user's own."""
    try:
        found = os.stat(path, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() else None


def _sweep(folder: int) -> None:
    for name in os.listdir(folder):
        if name.startswith(_COMING):
            with suppress(OSError):  # another process has finished or removed it
                changed = os.stat(name, dir_fd=folder, follow_symlinks=False).st_ctime
                if time.time() - changed > _LEFT_S:
                    os.unlink(name, dir_fd=folder)
