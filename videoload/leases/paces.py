"""How quick each worker is, and how far away, told by when its answers come. Pure: no clock.

Pace is in units of what a clip of the worker's stream takes, a moving average over all workers: so
those are compared that work for different streams.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from videoload.leases.line import leases_on_the_way

_SLOW = 2.0  # times as slow as the quick ones
_TRIALS = 3  # so many leases tell how quick a worker is
_TRIED_AT = 10.0  # until then its leases are as short as if it were so much slower
# A lease that takes so many times as long as a worker's leases did, counts only if the one before
# did so, too: a line that is down for a moment, or a host that stops, makes nobody slow.
_LEAP = 4.0
_RETRY = 100  # a worker that gets no leases is tried again after so many times its last one
# More leases for a worker whose files come from another host: what they need is fetched before
# their turn. As long as it waits for them for more of its time than this, it gets one more.
_FETCHED, _MAX_FETCHED = 2, 14
_WAITED = 0.05
_LONGEST_S = 3600.0  # a worker may say anything


class Pace:
    """Of one worker. ``trip_s``: what its messages take there and back, the least that was seen.
    ``fetches``: its files come from another host."""

    __slots__ = ("_begun", "_far", "_fetched", "_leapt", "_lease_s", "_local", "_retry_at",
                 "_trials", "_value", "fetches", "trip_s")  # fmt: skip

    def __init__(self, *, local: bool) -> None:
        self.trip_s = math.inf
        self.fetches = False
        self._far = 0
        self._fetched = _FETCHED
        self._local = local
        self._begun = 0.0  # when its first lease was
        self._lease_s = 0.0  # its work on a lease, a moving average
        self._value = 1.0  # a moving average
        self._leapt = False  # the last lease did not count
        self._trials = 0  # leases that it was measured on
        self._retry_at = -math.inf

    @property
    def is_known(self) -> bool:
        """Whether it was measured on enough leases."""
        return self._trials >= _TRIALS

    @property
    def value(self) -> float:
        """What a clip takes, as far as it is known; else a careful guess."""
        return self._value if self.is_known else _TRIED_AT

    @property
    def on_the_way(self) -> int:
        """Leases that it may hold beside those that it would hold next door to all it needs."""
        return self._far + (self._fetched if self.fetches else 0)

    def begins(self, now: float) -> None:
        """It goes on to its next lease, or gets its first one."""
        self._begun = now

    def answered(
        self, now: float, *, granted: float, decode_s: float, clips: int, clip_s: float,
        waited_s: float = 0.0,
    ) -> None:  # fmt: skip
        """Its answer came to a lease of so many clips, ``granted`` then, on which it says to have
        worked for ``decode_s``, ``waited_s`` of that without any need for a core; ``clip_s``: what
        a clip takes on average, infinity if not known."""
        began = self._begun
        if self.fetches and waited_s > _WAITED * decode_s:
            self._fetched = min(_MAX_FETCHED, self._fetched + 1)
        if not self._local:
            self.trip_s = min(self.trip_s, max(0.0, now - granted - decode_s))
            work_s = min(decode_s, _LONGEST_S)
            self._lease_s += (work_s - self._lease_s) / (4 if self._lease_s else 1)
            self._far = leases_on_the_way(self.trip_s, self._lease_s)
            began = max(began, granted + self.trip_s)  # the way there and back is no work
        took = min(max(decode_s, now - began), _LONGEST_S)
        self._begun = now
        self._retry_at = now + _RETRY * took
        if math.isinf(clip_s) or took <= 0:
            return
        pace = took / clips / clip_s
        self._leapt = self.is_known and pace > _LEAP * self._value and not self._leapt
        if self._leapt:
            return
        self._trials += 1
        self._value = pace if self._trials == 1 else self._value + (pace - self._value) / 4

    def may_try(self, now: float) -> bool:
        """Whether it is not known, or is to be tried again by now."""
        return not self.is_known or now > self._retry_at


class Paces:
    """Of the workers that take leases, as they were compared last: what the ``quick`` ones take for
    a clip (None: not known yet), and leases ``on_the_way`` to those that are far away."""

    def __init__(self) -> None:
        self.quick: float | None = None
        self.on_the_way = 0
        self._rate = 0.0  # clips that all of them finish in the time of one

    def compare(self, those: Iterable[Pace]) -> None:
        """Find out which of them are quick."""
        those = list(those)
        known = sorted(pace.value for pace in those if pace.is_known)
        self.quick = known[(len(known) - 1) // 4] if known else None
        self.on_the_way = sum(pace.on_the_way for pace in those)
        self._rate = sum(1 / value for value in known)

    def is_slow(self, pace: Pace) -> bool:
        """Also one that has not shown yet how quick it is, where others have."""
        if self.quick is None:
            return False
        return not pace.is_known or pace.value > _SLOW * self.quick

    def would_hold_up(self, pace: Pace, now: float, clips: int, *, is_compared: bool) -> bool:
        """Whether a clip takes a worker longer than the others need for half of the ``clips`` that
        all slots hold: then they would wait for it. Now and then it may try."""
        if not self.is_slow(pace) or pace.may_try(now):
            return False
        others = self._rate - (1 / pace.value if is_compared else 0.0)
        return pace.value * max(0.0, others) > clips / 2
