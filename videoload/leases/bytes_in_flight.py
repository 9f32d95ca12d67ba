"""How much remote workers are asked for at once. Pure: no sockets, no clock.

A worker that is far away is idle for a round trip, unless enough leases wait at it. But if all
workers wait for the same line, every further lease only waits longer. So there are two bounds:

  * for each worker, by how long a round trip to it takes: `leases_on_the_way`;
  * for all workers together, by what the line was seen to bring: `BytesInFlight`.

By Little's law, the bytes on their way are the bytes that come in a second, times the seconds that
each byte is on its way. The time at the worker is known, and the rest is the time on the line. So a
bound on the bytes bounds how long an answer waits for the line, however wide the line is.
"""

from __future__ import annotations

from collections import Counter

MAX_LEASES = 32  # for a worker; so many answers fit into a socket before the sender must wait
_BRIEF_S = 0.001  # a lease that takes less costs the trainer as much as it brings
_AMPLE = 2  # times what fills a round trip, since clips do not all take equally long
# If an answer waits longer for the line, less is asked for. With less, a pause of the line would
# leave it empty. With more, batches come late, and after 2 s silence is taken for an end.
_WAIT_S = 1.0
_START_BYTES = 128 << 20  # a 1 Gb/s line brings this in a second; used until more was seen
_WINDOW_S = 10  # the line brings in a second what it brought in the best of so many
_WEIGHT = 16  # answers over which the time at a worker is averaged


def leases_on_the_way(trip_s: float, lease_s: float) -> int:
    """How many more leases than one next door a worker needs to stay busy, if messages take
    ``trip_s`` there and back, and a lease is ``lease_s`` of work."""
    if lease_s <= 0:  # nothing is known
        return 0
    return min(MAX_LEASES, round(_AMPLE * trip_s / max(lease_s, _BRIEF_S)))


class BytesInFlight:
    """How many bytes the remote workers owe, and how fast they come."""

    def __init__(self) -> None:
        self._out = 0
        self._came: Counter[int] = Counter()  # bytes in each of the last seconds
        self._work_s = 0.0  # from a lease to its answer, without the line

    def requested(self, size: int) -> None:
        """A lease is granted. Its answer has ``size`` bytes."""
        self._out += size

    def written_off(self, size: int) -> None:
        """An answer is not expected any more."""
        self._out -= size

    def received(self, size: int, now: float, work_s: float) -> None:
        """``size`` bytes of an answer came, expected or not. The worker had ``work_s`` of work
        before it could send them."""
        self._pass(now)
        self._came[int(now)] += size
        self._work_s += (work_s - self._work_s) / _WEIGHT

    def has_room(self, now: float) -> bool:
        """Whether more may be asked for."""
        if self._out < _START_BYTES:
            return True
        self._pass(now)
        return self._out < max(self._came.values(), default=0) * (self._work_s + _WAIT_S)

    def _pass(self, now: float) -> None:
        """Time passes: forget what came too long ago."""
        for second in [each for each in self._came if each < int(now) - _WINDOW_S]:
            del self._came[second]
