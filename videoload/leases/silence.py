"""A local worker that is silent: is it to be killed for it, and is it to blame? Pure.

One that hangs burns CPU, or sleeps although the storage answers; one that waits for its storage, or
imports a module, does neither. Where nobody is heard of, it is the storage or the host.
"""

from __future__ import annotations

from dataclasses import dataclass

# One of which nothing tells why is killed after so much longer. No clip is blamed: storage that is
# away for a minute comes back.
_PATIENCE_S = 60.0
_IMPORT_S = 60.0  # a worker that imports the user's module says so, and may take so much longer
# Shares of the time that it may be silent, of CPU time. One that took more than the first does not
# wait; one that took less than the second does nothing else.
_BURNS, _RESTS = 0.1, 0.01


@dataclass(frozen=True, slots=True)
class Look:
    """What the kernel tells of a silent local worker: the CPU time that it took since it began, and
    whether it is blocked now, which is to say stopped, or in a wait that nothing interrupts."""

    cpu_s: float
    blocked: bool


class Silence:
    """Of one worker, since it was heard of last. ``blameless``: nothing says that a clip did it."""

    __slots__ = ("_asked", "_first", "_importing", "_last", "_storage_answers", "_stuck",
                 "blameless")  # fmt: skip

    def __init__(self) -> None:
        self.blameless = False
        self.broken()

    def broken(self, *, importing: bool = False) -> None:
        """It was heard of. ``importing``: it will be silent for as long as that takes."""
        self._importing = importing
        self._first: Look | None = None
        self._last: Look | None = None
        self._stuck = 0  # times in a row that a reason to kill it was found
        self._asked = self._storage_answers = False

    def look(self, look: Look) -> None:
        """What the kernel tells of it now."""
        self._first = self._first or look
        self._last = look

    def excuse(self) -> None:
        """What was seen so far tells nothing: this process was stopped itself."""
        self._first, self._stuck = self._last, 0

    def asks_storage(self) -> bool:
        """Whether to ask the storage, once: the worker sleeps, and may wait for it."""
        if self._asked or self._last is None or self._last.blocked:
            return False
        self._asked = True
        return True

    def storage_answered(self) -> None:
        """What was asked for was read."""
        self._storage_answers = self._asked

    def is_over(self, silent_s: float, stall_s: float, *, has_work: bool, is_alone: bool) -> bool:
        """Whether the worker, silent for longer than ``stall_s``, is to be killed now.
        ``is_alone``: of no other one was heard meanwhile."""
        first, last = self._first, self._last
        if self._importing:
            self.blameless = True
            return silent_s > stall_s + _IMPORT_S
        self.blameless = False
        if first is None or last is None or not (has_work or last.blocked):
            return True
        burnt_s = last.cpu_s - first.cpu_s
        hangs = burnt_s > _BURNS * stall_s or (self._storage_answers and not last.blocked)
        rests = burnt_s < _RESTS * stall_s
        found = hangs or (rests and not is_alone) or silent_s > stall_s + _PATIENCE_S
        # Twice: when storage comes back, one worker is heard of before the next.
        self._stuck = self._stuck + 1 if found else 0
        self.blameless = not hangs
        return self._stuck > 1
