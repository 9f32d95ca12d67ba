"""Ends a worker process that nobody else ends.

A supervisor kills a worker that hangs. A worker without one (``videoload worker --processes 1``)
has this watchdog. It ends the process if a decoder or a user's function makes no progress any more,
so that its owner can start another. It also ends the process if nothing happens
after a signal.

C code that hangs and holds Python's global lock (GIL) stops the watchdog as well; the trainer then
passes this worker over.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import threading
from collections.abc import Callable

from videoload.processes.counters import Counters
from videoload.processes.still_time import StillTime

_log = logging.getLogger(__name__)

STALL_S = 30.0  # without a lease; with one, its trainer says how long
_END_S = 1.0
_CHECK_S = 0.2


class Watchdog:
    """Checks in a thread of its own, until `close`."""

    def __init__(self, counters: Counters, doing: Callable[[], str], stall_s: float) -> None:
        """``counters`` tell of progress. ``doing()`` says what the worker does, for the log.
        ``stall_s``: how long it may make no progress without a lease."""
        self._counters, self._doing, self._stall_s = counters, doing, stall_s
        self._status: int | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def ends_soon(self, status: int) -> None:
        """The worker was asked to end. After a second without progress it ends with ``status``.
        May be called in a signal handler."""
        self._status = status

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        still = StillTime(_CHECK_S)
        while not self._over.wait(_CHECK_S):
            still_s = still.look(self._counters.pulse.tobytes())
            stall_s = self._counters.stall_s or self._stall_s
            if self._status is not None:
                if still_s >= _END_S:
                    os._exit(self._status)
            elif self._counters.progress is not None and still_s >= stall_s:
                _log.error("nothing came of %s for %g s; this worker ends, for another to take "
                           "its place", self._doing(), stall_s)  # fmt: skip
                faulthandler.dump_traceback()
                os._exit(1)
