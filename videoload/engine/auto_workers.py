"""How many of the workers of this host to keep, with ``workers="auto"``. Pure: time is passed in.

It begins with one per core. What more than suffices is given back: a worker that idles takes
memory, and a core from whoever trains. A quarter is kept to spare, for files that take longer, and
nobody is sent away before it was said three times in a row. Where the trainer comes to need more
(another model, a validation that is quicker), they are started again, up to one per core.
"""

from __future__ import annotations

import math

_SPARE = 1.25
_TIMES = 3  # in a row
LOOK_S = 1.0  # between two of them
WINDOW_S = 10.0  # of time that each is about
FEWEST = 10  # batches that tell anything


class AutoWorkers:
    """What was found of late."""

    def __init__(self, most: int) -> None:
        """``most``: workers, and so many at first."""
        self._most = most
        self._found: list[int] = []

    def decide(self, have: int, elsewhere: int, need: float | None) -> int | None:
        """How many workers to have on this host from now on, or None: as many as there are.
        ``have``: on this host now; ``elsewhere``: on others; ``need``: what all streams that are
        read are worth, in workers, or None if that is not known now."""
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
