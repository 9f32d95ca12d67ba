"""How many bytes a folder holds, counted by all processes that fill it.

FOLDER/bytes    the count, changed under a lock of the file
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_FREE = 0.2  # of the disk that stays free if no limit is given
_LOOK_S = 0.0005, 0.02  # from one look at a lock that is held to the next, at first and at most


class Room:
    """What may be kept in a folder: ``max_bytes``, or if None, until only a fifth of the disk is
    free. ``measure`` counts the bytes anew, which may take long. Methods raise OSError, also
    TimeoutError: another process holds the lock for ``wait_s``, perhaps stopped by Ctrl-Z.
    """

    def __init__(
        self, folder: Path, max_bytes: int | None, measure: Callable[[], int], wait_s: float = 1.0
    ) -> None:
        self._folder = folder
        self.max_bytes = max_bytes
        self._measure = measure
        self._wait_s = wait_s

    @contextmanager
    def take(self, size: int) -> Iterator[bool]:
        """Reserve ``size`` bytes. The value tells whether there is room for them. No other process
        reserves any inside the ``with``, so that what they are for appears there."""
        if self.max_bytes is None:
            (self._folder / "bytes").unlink(missing_ok=True)  # who has a limit counts anew
            disk = os.statvfs(self._folder)
            left = disk.f_bavail * disk.f_frsize - size
            yield left >= _FREE * disk.f_blocks * disk.f_frsize
            return
        with self._counted() as count:
            if count[0] + size > self.max_bytes:
                count[0] = self._measure()  # files may have been deleted
            has_room = count[0] + size <= self.max_bytes
            if has_room:
                count[0] += size
            yield has_room

    @contextmanager
    def _counted(self) -> Iterator[list[int]]:
        """The count, to be changed. No other process changes it meanwhile."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self._folder / "bytes", flags, 0o600), "r+b") as file:
            self._lock(file)
            told = file.read()
            count = [int(told) if told.isdigit() else self._measure()]
            try:
                yield count
            finally:
                file.seek(0)
                file.write(b"%d" % max(0, count[0]))
                file.truncate()

    def _lock(self, file: BinaryIO) -> None:
        until, (pause, longest) = time.monotonic() + self._wait_s, _LOOK_S
        while True:
            try:
                return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise TimeoutError(
                        errno.ETIMEDOUT, "another process holds its lock, and may be stopped"
                    ) from None
            time.sleep(pause)
            pause = min(2 * pause, longest)
