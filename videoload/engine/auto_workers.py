"""How many workers of this host to keep with ``workers="auto"``. Pure: time is passed in.

A client starts one worker per core. Idle workers are stopped, because a worker takes memory, and a
core from the training. A quarter more than needed is kept, for files that take longer. Workers are
stopped only after three equal findings in a row. They are started again, up to one per core, if the
trainer needs more: for another model, or a faster validation.
"""

from __future__ import annotations

import math

_SPARE = 1.25
_TIMES = 3  # findings in a row
LOOK_S = 1.0  # between two findings
WINDOW_S = 10.0  # of time that each finding covers
FEWEST = 10  # batches that tell anything


class AutoWorkers:
    """The last findings."""

    def __init__(self, most: int) -> None:
        """``most``: workers at first, and the most ever."""
        self._most = most
        self._found: list[int] = []

    def decide(self, have: int, elsewhere: int, need: float | None) -> int | None:
        """How many workers to have on this host from now on; None: no change.

        Args:
            have: Workers on this host now.
            elsewhere: Workers on other hosts.
            need: How many workers all streams need; None if that is not known now.
        """
        if need is None:
            self._found.clear()
            return None
        keep = min(self._most, max(1, math.ceil(need * _SPARE) - elsewhere))
        self._found = [*self._found[1 - _TIMES :], keep]
        if len(self._found) < _TIMES:
            return None
        wanted = max(self._found)
        if wanted < have or min(self._found) > have:
            self._found.clear()
            return wanted if wanted < have else keep
        return None
