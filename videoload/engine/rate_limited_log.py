"""Warnings that any peer at a port can cause: no more than one per second is logged.

Otherwise a flood would fill a disk with lines that all say the same. The first warning is logged at
once. Those of the next second are counted, and the last of them is logged with their number.
"""

from __future__ import annotations

import logging

_EVERY_S = 1.0


class RateLimitedLog:
    """Warnings of one kind. Time is passed in, in seconds."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._quiet_until = float("-inf")
        self._held = 0
        self._last = ""

    def add(self, text: str, now: float) -> None:
        """Log a warning now, or count it."""
        self._held += 1
        self._last = text
        self.tell(now)

    def tell(self, now: float) -> None:
        """Log the warnings that were counted, if it is time."""
        if not self._held or now < self._quiet_until:
            return
        more = f" (and {self._held - 1} more since the last line)" if self._held > 1 else ""
        self._log.warning("%s%s", self._last, more)
        self._held = 0
        self._quiet_until = now + _EVERY_S
