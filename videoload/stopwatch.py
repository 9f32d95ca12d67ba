"""Where a worker's time goes: in one phase at a time, so that the phases add up to what passed."""

from __future__ import annotations

import time
from collections.abc import Callable

# What is none of the others is decoding.
PHASES = ("open", "index", "seek", "decode", "scale", "transform")


class Stopwatch:
    """Of one thread. Begins in "decode"."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.start()

    def start(self) -> None:
        """Begin anew."""
        self._spent = dict.fromkeys(PHASES, 0.0)
        self._phase, self._since = "decode", self.clock()

    def enter(self, phase: str) -> str:
        """A phase begins, and another ends: that one is returned. For what is done for each frame:
        a context manager would take three times as long."""
        now = self.clock()
        before = self._phase
        self._spent[before] += now - self._since
        self._phase, self._since = phase, now
        return before

    def phase(self, name: str) -> _Phase:
        """A phase within another one, which goes on after it: for ``with``."""
        return _Phase(self, name)

    def move(self, seconds: float, phase: str) -> None:
        """So many seconds of the phase that goes on were another one's: for what comes so often
        that entering it would take part of the time."""
        self._spent[self._phase] -= seconds
        self._spent[phase] += seconds

    def read(self) -> dict[str, float]:
        """Seconds by phase, since `start`."""
        self.enter(self._phase)
        return dict(self._spent)


class _Phase:
    """A generator's context manager would take twice as long, several times a clip."""

    __slots__ = ("_before", "_name", "_watch")

    def __init__(self, watch: Stopwatch, name: str) -> None:
        self._watch = watch
        self._name = name

    def __enter__(self) -> None:
        self._before = self._watch.enter(self._name)

    def __exit__(self, *error: object) -> None:
        self._watch.enter(self._before)
