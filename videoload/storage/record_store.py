"""Files of records that all processes of a host share: one folder, one quota, one way to make room.

    FOLDER/5c1e.../              a set: what is used, or left behind, together
    FOLDER/5c1e.../set.json      what the set is, for people
    FOLDER/5c1e.../3f9a41...     the records of one video file (see `record_file`)
    FOLDER/bytes                 how many bytes the files take in all

Nothing rests on it. Anybody may delete any of it at any time. A record whose checksum does not
match, or that cannot be read or written, is computed again.

If it is full, files of the least recently used set are deleted, unless it was used within the
last hour. Nothing of a set that is in use does: if each epoch reads all files in another order, the
first ones are needed as much as the next ones.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, TypeVar

from videoload.logs import Log
from videoload.storage.cache_directories import left_behind, own_file, own_folder
from videoload.storage.disk_quota import DiskQuota
from videoload.storage.files import Tick
from videoload.storage.record_file import Head, RecordFile

T = TypeVar("T")

_log = Log(__name__)

_ABOUT = "set.json"
_ALL = ".all"  # the name of a set whose files have room reserved for all records
_PAUSE_S = 5.0  # after a failure, the disk is left alone for so long
_TRIES = 2  # to find room: once more after deletions
_DESCRIBE_S = 600.0  # a set in use is marked this often
_MAKE_ROOM_S = 1.0  # the most that one deletion takes; deletions continue with other files
_IN_USE_S = 3600.0  # a set that was used within this time is not deleted


class RecordSet(NamedTuple):
    """Records that are used together. Sets differ by ``about``, which is JSON. ``whole``: sooner or
    later all records of a file are used, so room is reserved for all of them at once."""

    about: str
    whole: bool = False


class RecordStore:
    """A folder with the files of records of some sets. Nothing here raises for faults of the disk:
    an unusable store stores nothing, and logs it once. Room is reserved before a write, from the
    quota that all sets and processes share.
    """

    def __init__(
        self, folder: Path, max_bytes: int, name: str, otherwise: str, wait_s: float = 1.0
    ) -> None:
        """``folder``: it has nothing else. ``max_bytes``: for all sets and processes together.
        ``name``: in the log, with what happens ``otherwise`` to videos. ``wait_s``: for other
        processes."""
        self._folder, self._name, self._otherwise = folder, name, otherwise
        self._room = DiskQuota(self._folder, max_bytes, self._measure, wait_s)
        self._folders: dict[RecordSet, Path] = {}
        self._describe_at: dict[RecordSet, float] = {}
        self._read_again_at = self._write_again_at = 0.0  # after a failure
        self._full_until = 0.0
        self._logged: set[str] = set()
        # Called after each file that is counted: for a large store on a slow disk, that may take
        # longer than a worker may be silent. It may raise.
        self.tick: Tick = lambda: None

    def has_some(self, path: str, of: RecordSet) -> bool:
        """Return whether records of any version of a video file may be stored."""
        return own_file(self.place(path, of)) is not None

    def open(self, path: str, identity: bytes, of: RecordSet) -> RecordFile | None:
        """Return the records of a video file, if there are some of the version of this identity."""
        if time.monotonic() < self._read_again_at:
            return None
        try:
            self._use(of)
            return RecordFile.open(self.place(path, of), identity)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.failed_to_read(error)
            return None

    def create(
        self, path: str, head: Head, of: RecordSet, numbers: Sequence[int]
    ) -> RecordFile | None:
        """Return a new file, if there is room for the records that are to be written."""
        parts = [range(head.file_bytes)] if of.whole else head.parts(numbers, new=True)

        def create() -> RecordFile | None:
            made = RecordFile.create(self.place(path, of), head)
            return made if made is None or of.whole else made.allocate(parts)

        return self._if_there_is_room(parts, of, create)

    def takes(self, file: RecordFile, of: RecordSet, numbers: Sequence[int]) -> bool:
        """Return whether there is room for these records of a file, and reserve it."""
        if not file.is_writable:
            self.failed_to_write(OSError(errno.EROFS, ""))
        if time.monotonic() < self._write_again_at:
            return False
        if of.whole:  # room was reserved with the file
            return not self._room.is_over
        parts = file.head.parts(numbers)
        return bool(self._if_there_is_room(parts, of, lambda: file.allocate(parts)))

    def _if_there_is_room(
        self, parts: Sequence[range], of: RecordSet, use: Callable[[], T]
    ) -> T | None:
        """Return the result of ``use``, which takes so many bytes of the disk; None if there is no
        room."""
        size = sum(map(len, parts))
        try:
            for _ in range(_TRIES):
                if not self.has_room:
                    break
                try:
                    self._use(of)
                    with self._room.take(size) as has_room:
                        if has_room:
                            return use()
                except FileNotFoundError:  # the store was deleted
                    self._describe(of)
                    continue
                if not self._make_room():
                    self._full_until = time.monotonic() + self._room.pause_s
                    self.tell(f"is full; videos that are not in it are {self._otherwise} each time")
        except TimeoutError as error:
            self.tell(f"stores nothing new for now: {error.strerror}")
        except OSError as error:
            self.failed_to_write(error)
        return None  # if something was deleted, more is deleted for the next files

    @property
    def has_room(self) -> bool:
        """Return whether more may be stored, as far as this process knows."""
        return time.monotonic() >= max(self._full_until, self._write_again_at)

    @property
    def is_full(self) -> bool:
        """Whether it was full a moment ago."""
        return time.monotonic() < self._full_until

    def failed_to_read(self, error: OSError) -> None:
        """Note a read error: nothing is read or written for a while."""
        self._read_again_at = time.monotonic() + _PAUSE_S
        self.failed_to_write(error)

    def failed_to_write(self, error: OSError) -> None:
        """Note a write error: nothing is written for a while."""
        self._write_again_at = time.monotonic() + _PAUSE_S
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            self._full_until = self._write_again_at
            self.tell(f"has no room on its disk; videos are {self._otherwise}")
        elif error.errno == errno.EROFS:
            self.tell(f"can only be read; what is not in it is {self._otherwise}")
        else:
            why = error.strerror or error
            self.tell(f"cannot be used: {why}; videos are {self._otherwise}")

    def tell(self, what: str) -> None:
        """Log it, once."""
        if what not in self._logged:
            self._logged.add(what)
            _log.warning("the %s %s %s", self._name, self._folder, what)

    def place(self, path: str, of: RecordSet) -> Path:
        """Return the place of a video file's records."""
        return self._path(of) / _hash(path)

    def _path(self, of: RecordSet) -> Path:
        if (known := self._folders.get(of)) is None:
            name = _hash(of.about) + (_ALL if of.whole else "")
            known = self._folders[of] = self._folder / name
        return known

    def _use(self, of: RecordSet) -> None:
        """Note now and then that a set is used. Raises OSError if another user may change it."""
        if time.monotonic() >= self._describe_at.get(of, -math.inf):
            with own_folder(self._folder), suppress(OSError):
                self._describe(of)
            self._describe_at[of] = time.monotonic() + _DESCRIBE_S

    def _describe(self, of: RecordSet) -> None:
        folder = self._path(of)
        with own_folder(folder):
            about = folder / _ABOUT
            about.touch(0o600)
            about.write_text(of.about)  # its time of change: when it was used last

    def _make_room(self) -> bool:
        """Delete records of the least recently used set, if it is not in use. False: no set can be
        deleted."""
        until = time.monotonic() + _MAKE_ROOM_S
        for about in left_behind(self._folder.glob(f"*/{_ABOUT}"), _IN_USE_S):
            with suppress(OSError):
                if _delete(about.parent, until):
                    self._room.deleted()
                    return True
        return False

    def _measure(self) -> int:
        """Return the bytes that all files in the store have reserved."""
        total = 0
        for about in self._folder.glob(f"*/{_ABOUT}"):
            is_whole = about.parent.name.endswith(_ALL)
            for file in _files_in(about.parent):
                with suppress(FileNotFoundError):  # it has just been deleted
                    found = file.stat(follow_symlinks=False)
                    total += found.st_size if is_whole else 512 * found.st_blocks
                self.tick()
        return total


def _hash(text: str) -> str:
    return blake2b(text.encode(errors="surrogateescape"), digest_size=16).hexdigest()


def _files_in(one: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the files of records of a set."""
    with suppress(OSError), os.scandir(one) as files:
        yield from (file for file in files if file.name != _ABOUT)


def _delete(one: Path, until: float) -> bool:
    """Delete a set, or as much of it as can be deleted until this time of the monotonic clock: a
    disk may take minutes for it. A set whose deletion was stopped still has its description.
    Returns whether something was deleted. Raises OSError."""
    deleted = False
    for file in _files_in(one):
        if time.monotonic() >= until:
            return deleted
        Path(file).unlink(missing_ok=True)
        deleted = True
    shutil.rmtree(one)
    return True
