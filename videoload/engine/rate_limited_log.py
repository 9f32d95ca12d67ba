"""Warnings that any peer at a port can cause: no more than one a second is logged, and the same one
once a minute.

Otherwise a flood would fill a disk with lines that all say the same. The first warning is logged at
once. Those that follow are counted, and the last new one is logged with their number.
"""

from __future__ import annotations

import logging
import math

from cachetools import LRUCache

_EVERY_S, _AGAIN_S = 1.0, 60.0
_REMEMBERED = 256  # lines


class RateLimitedLog:
    """Warnings of one kind. Time is passed in, in seconds."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._quiet_until = -math.inf
        self._held = 0
        self._last = ""
        self._logged: LRUCache[str, float] = LRUCache(_REMEMBERED)  # when each line was

    def add(self, text: str, now: float) -> None:
        """Log a warning now, or count it."""
        self._held += 1
        if now - self._logged.get(text, -math.inf) >= _AGAIN_S:
            self._last = text
        self.tell(now)

    def tell(self, now: float) -> None:
        """Log the warnings that were counted, if it is time."""
        if not self._last or now < self._quiet_until:
            return
        more = f" (and {self._held - 1} more since the last line)" if self._held > 1 else ""
        self._log.warning("%s%s", self._last, more)
        self._logged[self._last] = now
        self._held, self._last = 0, ""
        self._quiet_until = now + _EVERY_S
