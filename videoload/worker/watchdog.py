"""Ends a worker process that nobody else ends.

A supervisor kills a worker that hangs. A worker without one (``videoload worker --processes 1``)
has this watchdog. It ends the process if a decoder or a user's function makes no progress any more,
so that its owner can start another. It also ends the process if nothing happens
after a signal.

Only progress counts. The checks without progress are counted, and no time is measured: a process
that was stopped or starved makes no checks either, so a worker that is slow is never ended. C code
that hangs and holds Python's global lock (GIL) stops the checks as well; the trainer then passes
this worker over.
"""

from __future__ import annotations

import faulthandler
import logging
import math
import os
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)

STALL_S = 30.0  # without a lease; with one, its trainer says how long
IMPORT_S = 60.0  # an import of the user's module may take so much longer, as at the trainer
_END_S = 1.0
_CHECK_S = 0.2


class Watchdog:
    """Checks in a thread of its own, until `close`."""

    def __init__(
        self, progress: Callable[[], object], doing: Callable[[], str], stall_s: Callable[[], float]
    ) -> None:
        """``progress()`` changes while the worker makes progress; None means that it is not to be
        judged now. ``doing()`` says what the worker does, for the log. ``stall_s()``: how long
        it may make no progress now."""
        self._progress, self._doing = progress, doing
        self._stall_s = stall_s
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
        last: object = None
        still = 0
        while not self._over.wait(_CHECK_S):
            now = self._progress()
            still = still + 1 if now == last else 0
            last = now
            if self._status is not None:
                if still >= _END_S / _CHECK_S:
                    os._exit(self._status)
            elif now is not None and still >= math.ceil(self._stall_s() / _CHECK_S):
                _log.error("nothing came of %s for %g s; this worker ends, for another to take "
                           "its place", self._doing(), self._stall_s())  # fmt: skip
                faulthandler.dump_traceback()
                os._exit(1)
