"""How many bytes a folder holds, counted by all processes that fill it.

FOLDER/bytes    the count, changed under a lock of the file
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_FREE = 0.2  # of the disk that stays free if no limit is given
_LOOK_S = 0.0005, 0.02  # from one look at a lock that is held to the next, at first and at most
_PAUSE_S = 2.0  # from one count of a full folder to the next, at least
_PAUSES = 20  # the next pause is so many times as long as the count took


class Room:
    """What may be kept in a folder: ``max_bytes``, or if None, until only a fifth of the disk is
    free. ``measure`` counts the bytes anew, which may take long. Methods raise OSError, also
    TimeoutError: another process holds the lock for ``wait_s``, perhaps stopped by Ctrl-Z.

    Attributes:
        pause_s: Where there was no room, it is of no use to ask again earlier.
    """

    def __init__(
        self, folder: Path, max_bytes: int | None, measure: Callable[[], int], wait_s: float = 1.0
    ) -> None:
        self._folder = folder
        self.max_bytes = max_bytes
        self.pause_s = _PAUSE_S
        self._measure = measure
        self._measured_at: float | None = None
        self._wait_s = wait_s

    @contextmanager
    def take(self, size: int) -> Iterator[bool]:
        """Reserve ``size`` bytes. The value tells whether there is room for them. No other process
        reserves any inside the ``with``: what they are for must take its place on the disk there,
        so that whoever counts anew finds it."""
        if self.max_bytes is None:
            (self._folder / "bytes").unlink(missing_ok=True)  # who has a limit counts anew
            yield self._is_free(size)
            return
        with self._locked() as file:
            told = file.read()
            count = int(told) if told.isdigit() else -1
            is_new = count < 0 or (count + size > self.max_bytes and self._may_count(file))
            if is_new:  # files may have been deleted
                count = self._count()
            has_room = count + size <= self.max_bytes
            if is_new or has_room:  # its time of change tells when it was counted
                file.seek(0)
                file.write(b"%d" % max(0, count + size * has_room))
                file.truncate()
                file.flush()  # who is killed from here on leaves too much counted, never too little
            yield has_room

    def deleted(self) -> None:
        """Files were deleted: there may be room."""
        self._measured_at = None

    @property
    def is_over(self) -> bool:
        """Whether there is more than there may be, as far as it was counted."""
        if self.max_bytes is None:
            return not self._is_free(0)
        with suppress(OSError, ValueError):
            return int((self._folder / "bytes").read_bytes()) > self.max_bytes
        return False

    def _is_free(self, size: int) -> bool:
        disk = os.statvfs(self._folder)
        return disk.f_bavail * disk.f_frsize - size >= _FREE * disk.f_blocks * disk.f_frsize

    def _may_count(self, file: BinaryIO) -> bool:
        """Processes that fill a folder do not count it one after the other."""
        if self._measured_at is None:
            return True
        changed_s = time.time() - os.fstat(file.fileno()).st_mtime
        return min(changed_s, time.monotonic() - self._measured_at) >= self.pause_s

    def _count(self) -> int:
        began = time.monotonic()
        found = self._measure()
        self._measured_at = time.monotonic()
        self.pause_s = max(_PAUSE_S, _PAUSES * (self._measured_at - began))
        return found

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self._folder / "bytes", flags, 0o600), "r+b") as file:
            until, (pause, longest) = time.monotonic() + self._wait_s, _LOOK_S
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= until:
                        raise TimeoutError(
                            errno.ETIMEDOUT, "another process holds its lock, and may be stopped"
                        ) from None
                time.sleep(pause)
                pause = min(2 * pause, longest)
            yield file
