"""Notices when Python's garbage collector holds up the thread that brings batches.

It runs in whichever thread allocates, and frees there what it finds. Some things are freed by
waiting: an iterator of a ``tf.data`` pipeline that is part of a cycle (a caught exception keeps
one), for the thread that prefetches. Where that one waits in a generator over a stream, it waits
for a batch, and so for the thread that is collecting.
"""

from __future__ import annotations

import gc
import math
import threading
import time

from videoload.errors import VideoloadError

_LONGEST_S = 20.0  # no collection takes so long, but one that waits for a batch


class CollectionWatch:
    """Of the thread that enters it."""

    def __init__(self) -> None:
        self._thread = 0
        self._since = math.inf

    def __enter__(self) -> None:
        self._thread = threading.get_ident()
        gc.callbacks.append(self._note)

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._note)

    def check(self) -> None:
        """Called now and then by whoever waits for that thread. Raises VideoloadError if it seems
        to wait for the caller, which is never the main thread: nothing that it does is garbage."""
        held_up_s = time.monotonic() - self._since
        if held_up_s > _LONGEST_S and threading.current_thread() is not threading.main_thread():
            raise VideoloadError(
                f"no batch for {held_up_s:.0f} s: the thread that brings them collects garbage and "
                "frees what waits for this one, it seems; given up (close iterators and generators "
                "that are left early)"
            )

    def _note(self, phase: str, _: object) -> None:
        if threading.get_ident() == self._thread:
            self._since = time.monotonic() if phase == "start" else math.inf
