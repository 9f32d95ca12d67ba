"""When a silent local worker is killed, and whether its clip is to blame. Pure.

A worker that hangs burns CPU, or waits although other files can be read: its decoder sleeps, or a
read of this one file never returns. A worker that waits for a storage that is away does neither. If
no local worker is heard of, it is the storage or the host. The leases of silent workers expire in
`WorkerPool.tick`.
"""

from __future__ import annotations

from dataclasses import dataclass

from videoload.processes.still_time import IMPORT_S

# If nothing tells why a worker is silent, it is killed so much later. No clip is blamed: storage
# that is away for a minute comes back.
_PATIENCE_S = 60.0
# CPU time, as a share of the time that a worker may be silent. With more than the first, it does
# not wait. With less than the second, it does nothing but wait.
_BURNS, _RESTS = 0.1, 0.01


@dataclass(frozen=True, slots=True)
class Look:
    """What the kernel tells about a silent local worker: its CPU time since it began, whether it is
    blocked now, that is stopped, or in a wait that nothing interrupts, and whether it is stopped.
    """

    cpu_s: float
    blocked: bool
    stopped: bool = False


class Silence:
    """The silence of one worker since it was heard of last. ``blameless``: nothing says that its
    clip is the cause. ``in_function``: a function of the user's was called, and may take long."""

    def __init__(self) -> None:
        self.blameless = False
        self.heard()

    def heard(self, busy: str = "") -> None:
        """The worker was heard of. ``busy``: it begins an "import" now, or calls a "function"."""
        self._importing, self.in_function = busy == "import", busy == "function"
        self._first: Look | None = None
        self._last: Look | None = None
        self._stuck = 0  # times in a row that a reason to kill it was found
        self._asked = self._storage_answers = False

    def patience_s(self, stall_s: float) -> float:
        """How long the worker may be silent, unless something else explains its silence."""
        return stall_s + IMPORT_S * self._importing

    def look(self, look: Look) -> None:
        """What the kernel tells about it now."""
        self._first = self._first or look
        self._last = look

    def asks_storage(self) -> bool:
        """Whether to ask the storage now, once: the worker waits, perhaps for it."""
        if self._asked or self._last is None or self._last.stopped:
            return False
        self._asked = True
        return True

    def storage_answered(self) -> None:
        """The storage was asked, and answers."""
        self._storage_answers = self._asked

    def is_over(self, silent_s: float, stall_s: float, *, has_work: bool, is_alone: bool) -> bool:
        """Whether the worker, silent for longer than ``stall_s``, is to be killed now.
        ``is_alone``: no other local worker was heard of meanwhile."""
        first, last = self._first, self._last
        self.blameless = self._importing
        if self._importing:
            return silent_s > self.patience_s(stall_s)
        if first is None or last is None or not (has_work or last.blocked):
            return True
        burnt_s = last.cpu_s - first.cpu_s
        hangs = burnt_s > _BURNS * stall_s or (self._storage_answers and not last.stopped)
        rests = burnt_s < _RESTS * stall_s
        found = hangs or (rests and not is_alone) or silent_s > stall_s + _PATIENCE_S
        # Twice, because one worker is heard of before the next one when storage comes back.
        self._stuck = self._stuck + 1 if found else 0
        self.blameless = not hangs
        return self._stuck > 1
