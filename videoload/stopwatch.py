"""Where a worker's time goes. It is in one phase at a time, so the phases add up to the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

# "decode" is all that is none of the others.
PHASES = ("open", "index", "seek", "decode", "scale", "transform")


def seconds_since(spans: Iterable[tuple[float, float]], since: float) -> float:
    """Return the seconds of these spans (begin, end), as far as they lie after ``since``."""
    return sum(max(0.0, end - max(begin, since)) for begin, end in spans)


class Stopwatch:
    """Measures the time of one thread. It begins in "decode"."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.start()

    def start(self) -> None:
        """Begin again."""
        self._spent = dict.fromkeys(PHASES, 0.0)
        self._phase, self._since = "decode", self.clock()

    def enter(self, phase: str) -> str:
        """Begin a phase, and return the one that ends. This is for what happens once a frame: a
        context manager would take three times as long."""
        now = self.clock()
        before = self._phase
        self._spent[before] += now - self._since
        self._phase, self._since = phase, now
        return before

    def phase(self, name: str) -> _Phase:
        """Return a phase within another one, for ``with``. The outer phase continues after it."""
        return _Phase(self, name)

    def move(self, seconds: float, phase: str) -> None:
        """Count so many seconds of the current phase for another one. This is for what happens so
        often that entering a phase would take part of the time."""
        self._spent[self._phase] -= seconds
        self._spent[phase] += seconds

    def read(self) -> dict[str, float]:
        """Return seconds by phase, since `start`."""
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
