"""Keeps Python's garbage collector out of threads that the collector may have to wait for.

It runs in whichever thread allocates, and frees there what it finds. An iterator of a ``tf.data``
pipeline that is part of a cycle (an exception that was caught keeps one) is freed by waiting: for
the thread that prefetches, which waits for a batch, and for the end of its reader. So the I/O
thread, which alone brings batches, must not be the one that collects, and nobody may who holds a
lock that those two take.
"""

from __future__ import annotations

import gc
import os
import threading


class Collection:
    """Of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pauses = 0
        self._was_enabled = False
        os.register_at_fork(after_in_child=self._begin_anew)

    def pause(self) -> None:
        """None begins before as many `resume`. Not for the main thread, where a Ctrl-C may strike
        in between."""
        with self._lock:
            if not self._pauses:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._pauses += 1

    def resume(self) -> None:
        """As it was before `pause`, if nobody else has paused it."""
        with self._lock:
            self._pauses -= 1
            if not self._pauses and self._was_enabled:
                gc.enable()

    def _begin_anew(self) -> None:
        """A fork's copy: those who paused it are not there."""
        self._lock = threading.Lock()
        if self._pauses and self._was_enabled:
            gc.enable()
        self._pauses = 0


collection = Collection()
