"""The number of bytes that processes may store in a folder together, and which of them counts."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from videoload.backoff import Backoff

BYTES = "bytes"  # the file with the count of stored bytes
_LOOK_S = 0.0005, 0.02  # from one look at a lock that is held to the next, at first and at most
_PAUSE_S = 2.0  # from one count of a full folder to the next, at least
_PAUSES = 20  # the next pause is so many times as long as the count took


class DiskQuota:
    """The quota of a folder: ``max_bytes``. ``measure`` counts the bytes again, which may take
    long. Methods raise OSError, also TimeoutError: another process holds the lock for ``wait_s``,
    perhaps stopped by Ctrl-Z.

    Attributes:
        pause_s: If it was full, an earlier try is useless.
    """

    def __init__(
        self, folder: Path, max_bytes: int, measure: Callable[[], int], wait_s: float = 1.0
    ) -> None:
        self._folder = folder
        self.max_bytes = max_bytes
        self.pause_s = _PAUSE_S
        self._measure = measure
        self._measured_at: float | None = None
        self._wait_s = wait_s

    @contextmanager
    def take(self, size: int) -> Iterator[bool]:
        """Reserve ``size`` bytes. Return whether there is room for them. No other process reserves
        any inside the ``with``: allocate the disk space there, so that the next count includes
        it."""
        with locked(self._folder / BYTES, self._wait_s) as file:
            text = file.read()
            count = int(text) if text.isdigit() else -1
            is_new = count < 0 or (count + size > self.max_bytes and self._may_count(file))
            if is_new:  # files may have been deleted
                count = self._count()
            has_room = count + size <= self.max_bytes
            if is_new or has_room:  # its time of change shows when it was counted
                file.seek(0)
                file.write(b"%d" % max(0, count + size * has_room))
                file.truncate()
            # Who is killed from here on leaves too much counted, never too little.
            yield has_room

    def deleted(self) -> None:
        """Note deleted files: there may be room."""
        self._measured_at = None

    @property
    def is_over(self) -> bool:
        """Return whether the last count exceeds the quota."""
        with suppress(OSError, ValueError):
            return int((self._folder / BYTES).read_bytes()) > self.max_bytes
        return False

    def _may_count(self, file: BinaryIO) -> bool:
        """Return whether to count: processes that fill a folder do not all count it."""
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
def locked(file: Path, wait_s: float) -> Iterator[BinaryIO]:
    """Yield a locked file of this user. Raises OSError, also TimeoutError: another process holds
    the lock for ``wait_s``, perhaps stopped by Ctrl-Z."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(file, flags, 0o600), "r+b", buffering=0) as opened:
        until, pauses = time.monotonic() + wait_s, Backoff(*_LOOK_S)
        while True:
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise TimeoutError(
                        errno.ETIMEDOUT, "another process holds its lock, and may be stopped"
                    ) from None
            time.sleep(pauses.next_s())
        yield opened
