"""When a worker that ended is started again, and when this is given up. Pure: time is passed in.

A worker that dies at work is replaced at once. A worker that never began to work means that
something is wrong with this host: its Python, its memory, its limits. An immediate restart would
fill the log and burn a core for ever, so there is a pause, twice as long each time. If no worker is
left that ever worked, it ends with an error: soon if workers give up by themselves (they print
why), later if they are killed, as that may pass.

Workers that are started together fail together, and this counts once.
"""

from __future__ import annotations

import math

from videoload.backoff import Backoff

PAUSE_S, _MAX_PAUSE_S = 0.25, 15.0
_GAVE_UP, _KILLED = 3, 6  # failed starts in a row: 1 s of pauses, and 8 s


class Restarts:
    """The starts of one supervisor's workers."""

    def __init__(self) -> None:
        self.failed = 0  # starts in a row
        self._pauses = Backoff(PAUSE_S, _MAX_PAUSE_S)
        self._last = self._next = -math.inf

    def worked(self) -> None:
        self.failed = 0
        self._pauses.reset()

    def start_failed(self, began: float, now: float) -> None:
        """A worker that was started at ``began`` ended before it worked, or could not start."""
        if began < self._last:
            return
        self.failed += 1
        self._last = now
        self._next = now + self._pauses.next_s()

    def is_due(self, now: float) -> bool:
        return now >= self._next

    def is_hopeless(self, *, killed: bool) -> bool:
        """Whether to give up if no worker is left. ``killed``: the last worker did not end by
        itself, or could not be started."""
        return self.failed >= (_KILLED if killed else _GAVE_UP)
