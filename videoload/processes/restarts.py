"""When a worker that ended is started again, and when that is given up. Pure: time is passed in.

A worker that was at work and dies is replaced at once. One that never came so far says that
something is wrong with this host: its Python, its memory, its limits. To start the next one at once
would fill the log and burn a core, for ever, so there is a pause, twice as long each time. Where no
worker is left that ever worked, it ends with the reason: soon for workers that give up by
themselves (they print why), later for those that are killed, as that may pass.

Workers that are started together fail together: that counts once.
"""

from __future__ import annotations

import math

_PAUSE_S, _MAX_PAUSE_S = 0.25, 15.0
_GAVE_UP, _KILLED = 3, 6  # in a row, until it is given up: 1 s of pauses, and 8 s


class Restarts:
    """The starts of one supervisor's workers."""

    def __init__(self) -> None:
        self.failed = 0  # starts in a row
        self._last = self._next = -math.inf

    def worked(self) -> None:
        """A worker has come as far as to work."""
        self.failed = 0

    def start_failed(self, began: float, now: float) -> None:
        """One that was started at ``began`` ended before it could work, or could not be started."""
        if began < self._last:
            return
        self.failed += 1
        self._last = now
        self._next = now + min(_MAX_PAUSE_S, _PAUSE_S * 2 ** (self.failed - 1))

    def is_due(self, now: float) -> bool:
        """Whether a worker may be started now."""
        return now >= self._next

    def is_hopeless(self, *, killed: bool) -> bool:
        """Whether to give up, if no worker is left; ``killed``: the last one did not end by itself,
        or could not be started."""
        return self.failed >= (_KILLED if killed else _GAVE_UP)
