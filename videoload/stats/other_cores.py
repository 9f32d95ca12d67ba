"""How many cores of this host other programs use, or other virtual machines."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable

from videoload import host

_EVERY_S = 5.0  # a sample takes 0.1 ms, and 10 us for each process
_REMEMBERED = 720  # samples: an hour


class OtherCores:
    """Samples of the CPU time that this host spent, and this process and its workers of it. One
    thread takes the samples, and any thread may ask."""

    def __init__(self) -> None:
        self._others_s = 0.0
        self._samples: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED)  # when, others' time
        self._next = -math.inf
        self._host_s: float | None = None
        self._own_s: dict[int, float] = {}  # by process

    def sample(self, now: float, workers: Iterable[int]) -> None:
        """Take a sample if it is time. ``workers``: their process ids."""
        if now < self._next:
            return
        self._next = now + _EVERY_S
        found = {pid: host.cpu_time(pid) for pid in workers}
        own_s = {pid: cpu[0] for pid, cpu in found.items() if cpu is not None}
        own_s[0] = time.process_time()
        host_s = host.busy_s()
        if host_s is not None and self._host_s is not None:
            spent_s = sum(seconds - self._own_s.get(pid, 0.0) for pid, seconds in own_s.items())
            self._others_s += max(0.0, host_s - self._host_s - spent_s)
            self._samples.append((now, self._others_s))
        self._host_s, self._own_s = host_s, own_s

    def since(self, since: float) -> float:
        """How many cores others used, on average; 0 if that is not known."""
        samples = list(self._samples)
        if len(samples) < 2:
            return 0.0
        until, last_s = samples[-1]
        begin, first_s = next((each for each in samples[:-1] if each[0] >= since), samples[-2])
        return (last_s - first_s) / (until - begin)
