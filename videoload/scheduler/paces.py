"""The speed and the round-trip time of each worker, measured by its answers. Pure: no clock.

A pace is the time for a clip, divided by what a clip of that stream takes on average. So workers
can be compared although they work for different streams.

A remote worker is idle for a round trip, unless enough leases are queued at it. So it holds twice
what fills its shortest round trip. A line that is full needs no rule: slots bound all that is on
its way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

_SLOW = 2.0  # a slow worker takes at least this many times as long as the quick ones
_TRIALS = 3  # a worker is measured on so many leases
_TRIED_AT = 10.0  # the pace of a worker that was not measured yet, so that its leases are short
# A lease counts for at most so many times the worker's average. So a single one does not make it
# slow: the network or the host may have stopped for a moment. Two in a row do.
_LEAP = 4.0
_RETRY = 100  # a worker without leases is tried again after this many times its last lease
MAX_LEASES = 32  # on their way to a worker; so many answers fit into a socket
_BRIEF_S = 0.001  # a shorter lease costs the trainer as much as it saves
_AMPLE = 2  # times what fills a round trip, since clips do not all take equally long
# A worker with files on another host holds more leases, to prefetch them. If it still waits for
# more than this share of its time, it gets one more.
_FETCHED, _MAX_FETCHED = 2, 14
_WAITED = 0.05
_LONGEST_S = 3600.0  # a worker may claim anything


class Pace:
    """The pace of one worker. ``min_rtt_s``: the shortest round-trip time of messages. ``fetches``:
    its files are on another host."""

    def __init__(self, *, local: bool) -> None:
        self.min_rtt_s = math.inf
        self.fetches = False
        self._far = 0
        self._fetched = _FETCHED
        self._local = local
        self._begun = 0.0  # when it began with its first lease
        self._lease_s = 0.0  # its work on a lease, a moving average
        self._value = 1.0  # a moving average
        self._trials = 0  # leases that it was measured on
        self._retry_at = -math.inf

    @property
    def is_known(self) -> bool:
        """Whether it was measured on enough leases."""
        return self._trials >= _TRIALS

    @property
    def value(self) -> float:
        """The pace, or a careful guess if it is not known."""
        return self._value if self.is_known else _TRIED_AT

    @property
    def extra_credit(self) -> int:
        """The number of additional leases because of the distances to its trainer and its files."""
        return self._far + (self._fetched if self.fetches else 0)

    def begins(self, now: float) -> None:
        """Note that it begins its next lease, or gets its first one."""
        self._begun = now

    def answered(
        self, now: float, *, granted_at: float, decode_s: float, clips: int, clip_s: float,
        waited_s: float = 0.0,
    ) -> None:  # fmt: skip
        """Note its answer to a lease of ``clips`` clips. It reports ``decode_s`` of work, of which
        it waited ``waited_s``. ``clip_s``: the average time for a clip, infinity if unknown."""
        began = self._begun
        if self.fetches and waited_s > _WAITED * decode_s:
            self._fetched = min(_MAX_FETCHED, self._fetched + 1)
        if not self._local:
            self.min_rtt_s = min(self.min_rtt_s, max(0.0, now - granted_at - decode_s))
            work_s = min(decode_s, _LONGEST_S)
            self._lease_s += (work_s - self._lease_s) / (4 if self._lease_s else 1)
            if self._lease_s > 0:
                trips = self.min_rtt_s / max(self._lease_s, _BRIEF_S)
                self._far = min(MAX_LEASES, round(_AMPLE * trips))
            began = max(began, granted_at + self.min_rtt_s)  # the way there and back is no work
        took = min(max(decode_s, now - began), _LONGEST_S)
        self._begun = now
        self._retry_at = now + _RETRY * took
        if math.isinf(clip_s) or took <= 0:
            return
        pace = took / clips / clip_s
        if self.is_known:
            pace = min(pace, _LEAP * self._value)
        self._trials += 1
        self._value = pace if self._trials == 1 else self._value + (pace - self._value) / 4

    def may_try(self, now: float) -> bool:
        """Return whether it was not measured yet, or is to be tried again now."""
        return not self.is_known or now > self._retry_at


class Paces:
    """The paces of the workers that take leases, as they were compared last. ``quick``: the pace of
    the quick ones, None if not known."""

    def __init__(self) -> None:
        self.quick: float | None = None
        self._rate = 0.0  # clips that all of them finish in the time for an average one

    def compare(self, paces: Iterable[Pace]) -> None:
        """Find out how quick the quick ones are: the quickest that do a quarter of the work. A
        quarter of the heads may be slow, where many of them are behind one line."""
        known = np.sort([pace.value for pace in paces if pace.is_known])
        work = np.cumsum(1 / known)
        self._rate = float(work[-1]) if len(known) else 0.0
        at = np.searchsorted(work, self._rate / 4)
        self.quick = float(known[at]) if len(known) else None

    def is_slow(self, pace: Pace) -> bool:
        """Return whether a worker is slow. It also is if it was not measured yet, and others
        were."""
        if self.quick is None:
            return False
        return not pace.is_known or pace.value > _SLOW * self.quick

    def clips_in_time(self, pace: Pace, now: float, clips: int, *, is_compared: bool) -> float:
        """Return how many clips a worker can return before the others have decoded half of the
        ``clips`` in all slots, and would wait. Occasionally, one that is too slow may try one."""
        if not self.is_slow(pace):
            return math.inf
        others = self._rate - (1 / pace.value if is_compared else 0.0)
        most = clips / 2 / (pace.value * others) if others > 0 else math.inf
        return max(1.0, most) if pace.may_try(now) else most
