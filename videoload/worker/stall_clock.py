"""The only detector of hangs in videoload: the time without progress. An observer reads at
intervals a mark that changes with each progress. Each interval counts for at most one step: an
observer that was stopped or starved is late, and the observed process was probably stopped with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SILENT_S = 5.0  # a storage that does not respond for so long is named
IMPORT_S = 60.0  # an import of the user's module may be silent for so much longer than a decoder


class StallClock:
    """How long something has made no progress. Attributes: seconds: At the last observation."""

    def __init__(self, step_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """``step_s``: the interval between two observations."""
        self.seconds = 0.0
        self._step_s, self._clock = step_s, clock
        self._mark: object = None
        self._looked = clock()

    def look(self, mark: object) -> float:
        """Look at it; returns the seconds. ``mark`` changes while there is progress. None: it has
        not begun, and is not judged."""
        now = self._clock()
        self.seconds += min(now - self._looked, self._step_s)
        self._looked = now
        if mark is None or mark != self._mark:
            self._mark, self.seconds = mark, 0.0
        return self.seconds
