"""What this process is at, in one byte that another process may see. So a hung disk is
distinguished from a hung decoder because it is known, and not because of how it looks from
outside."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt


class Activity(IntEnum):
    """What a worker is at."""

    IDLE = 0
    READING = 1  # the kernel opens or reads a file for it
    DECODING = 2  # ... and all else that a lease takes
    FUNCTION = 3  # the user's, which may take long
    IMPORT = 4  # of the user's module
    STUCK = 5  # as READING, while another file can be read: see `worker.read_watch`


now: npt.NDArray[np.uint8] = np.zeros(1, np.uint8)  # a worker puts its shared memory here


@dataclass(slots=True)
class Reads:
    """Where the reads of this process stand, and whose turn it is.

    One thread works and reads. While it stands in a read, another one may take its turn, for what
    it owes meanwhile, and it goes no further than that read. So what it owns needs no locks, as
    long as it does nothing in the block of `reading` but read.

    Attributes:
        done: How many reads, and other things that take time, have ended.
        file: The one that is read, or was read last.
        opened: The files that were opened last.
    """

    done: int = 0
    file: str = ""
    opened: deque[str] = field(default_factory=lambda: deque(maxlen=2))
    _is_used: bool = False  # the turn, by the other thread
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def end(self, before: int) -> None:
        """Note the end of a read: this process returns to the activity ``before``, once it has its
        turn."""
        now[0] = before
        self.done += 1
        if self._is_used:
            with self._turn:
                pass

    @contextmanager
    def meanwhile(self, done: int) -> Iterator[bool]:
        """Take the turn of the thread that reads. Yields whether it stands in the read that follows
        after ``done`` others. If it does not, the turn is its own."""
        with self._turn:
            self._is_used = True  # before the check: the second thread sees the first one's change
            try:
                yield self.done == done and now[0] == Activity.READING
            finally:
                self._is_used = False


reads = Reads()


def begins(activity: Activity) -> None:
    """Set this process's activity from now on."""
    now[0] = activity


@contextmanager
def during(activity: Activity) -> Iterator[None]:
    """Set this process's activity inside the ``with``. Only one thread of a worker does so."""
    before = now[0]
    now[0] = activity
    try:
        yield
    finally:
        reads.end(before)


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Note that this process calls its file system with this path inside the ``with``, and may
    block."""
    reads.file = path
    with during(Activity.READING):
        yield
