"""Where a worker's time goes: in one phase at a time, so that the phases add up to what passed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# What is none of the others is decoding.
PHASES = ("open", "index", "seek", "decode", "scale", "transform")


class Stopwatch:
    """Of one thread. Begins in "decode"."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.start()

    def start(self) -> None:
        """Begin anew."""
        self._spent = dict.fromkeys(PHASES, 0.0)
        self._phase, self._since = "decode", self._clock()

    def enter(self, phase: str) -> str:
        """A phase begins, and another ends: that one is returned. For what is done for each frame:
        a context manager would take three times as long."""
        now = self._clock()
        before = self._phase
        self._spent[before] += now - self._since
        self._phase, self._since = phase, now
        return before

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A phase within another one, which goes on after it."""
        before = self.enter(name)
        try:
            yield
        finally:
            self.enter(before)

    def read(self) -> dict[str, float]:
        """Seconds by phase, since `start`."""
        self.enter(self._phase)
        return dict(self._spent)
