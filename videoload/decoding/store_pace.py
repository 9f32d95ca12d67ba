"""How much of a worker's time a slow disk may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SHARE = 0.25  # of a process's time may be lost
_MOST_S = 0.5  # what was not lost counts up to this


class StorePace:
    """The time that a process loses to the disk, because a call takes longer than expected.

    Once a quarter of its time is lost, the process does without the disk for a while. So nothing
    waits long for a slow disk, and the store uses as much as the disk can do.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._left_s, self._at = _MOST_S, clock()

    @property
    def has_time(self) -> bool:
        """Return whether the disk may be used now."""
        now = self._clock()
        self._left_s = min(_MOST_S, self._left_s + _SHARE * (now - self._at))
        self._at = now
        return self._left_s > 0

    @contextmanager
    def expecting(self, seconds: float) -> Iterator[None]:
        """The disk is used inside the ``with``, which should not take longer than this."""
        began = self._clock()
        try:
            yield
        finally:
            self.took(self._clock() - began, seconds)

    def took(self, seconds: float, expected: float) -> None:
        """The disk was used for so long, instead of as long as expected."""
        self._left_s -= max(0.0, seconds - expected)
