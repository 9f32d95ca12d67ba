"""How much the workers that dial in are asked for at once. Pure: no sockets, no clock.

A worker whose answers are far away idles for a round trip unless enough leases wait at it; and
where the line is what they all wait for, every further lease only waits longer. So there are two
bounds:

  * of each worker, by what a round trip is to it: `leases_on_the_way`;
  * of all of them together, by what the line was seen to bring: a `Line`.

By Little's law, as many bytes are on their way as come in a second, times the seconds for which
each is. Of those, the workers are responsible for some, which is known, and the line for the
others: so a bound on what is out is one on how long an answer waits for the line, and nobody has to
know how wide that is, or where it ends.
"""

from __future__ import annotations

from collections import deque

MAX_LEASES = 32  # of a worker; as many answers wait at a socket before its sender has to
_BRIEF_S = 0.001  # a lease that takes less costs its trainer as much as it brings
_AMPLE = 2  # times what fills a round trip, since no two clips take equally long
# An answer waits so long for the line before less is asked for. With less, a pause of the line's
# would leave it empty; with more, batches come late, and after 2 s silence is taken for an end.
_WAIT_S = 1.0
_START_BYTES = 128 << 20  # until more were seen to come in a second: what a 1 Gb/s line brings
_WINDOW_S = 10  # the most that came in one of so many seconds is what the line brings
_WEIGHT = 16  # answers that the time at a worker is averaged over


def leases_on_the_way(trip_s: float, lease_s: float) -> int:
    """How many leases, beside those that it would hold next door, keep a worker busy whose messages
    take ``trip_s`` there and back, where a lease is ``lease_s`` of its work."""
    if lease_s <= 0:  # nothing is known
        return 0
    return min(MAX_LEASES, round(_AMPLE * trip_s / max(lease_s, _BRIEF_S)))


class Line:
    """What the workers owe that send their pixels, in bytes, and how fast these come."""

    def __init__(self) -> None:
        self._out = 0
        self._seconds: deque[tuple[int, int]] = deque()  # (which, bytes), most bytes first
        self._second, self._bytes = 0, 0  # those of the second that has begun
        self._work_s = 0.0  # from a lease to its answer, but for the line

    def asked(self, size: int) -> None:
        """A lease is granted; its answer has ``size`` bytes."""
        self._out += size

    def written_off(self, size: int) -> None:
        """An answer that was asked for is not expected any more."""
        self._out -= size

    def came(self, size: int, now: float, work_s: float) -> None:
        """``size`` bytes of an answer came, asked for or not expected any more; the worker had
        ``work_s`` of work before it could send them."""
        self._pass(int(now))
        self._bytes += size
        self._work_s += (work_s - self._work_s) / _WEIGHT

    def has_room(self, now: float) -> bool:
        """Whether more may be asked for."""
        if self._out < _START_BYTES:
            return True
        self._pass(int(now))
        best = self._seconds[0][1] if self._seconds else 0
        return self._out < max(best, self._bytes) * (self._work_s + _WAIT_S)

    def _pass(self, second: int) -> None:
        """Time passes. Of the seconds before this one, those stay that may yet be the best."""
        if second > self._second:
            while self._seconds and self._seconds[-1][1] <= self._bytes:
                self._seconds.pop()
            self._seconds.append((self._second, self._bytes))
            self._second, self._bytes = second, 0
        while self._seconds and self._seconds[0][0] < second - _WINDOW_S:
            self._seconds.popleft()
