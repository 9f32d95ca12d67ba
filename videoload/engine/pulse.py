"""Notices when the thread that brings batches is held up by whoever waits for one.

Python's garbage collector runs in whichever thread allocates, and frees there what it finds. Some
things are freed by waiting: an iterator of a ``tf.data`` pipeline that is part of a cycle (a caught
exception keeps one), for the thread that prefetches. Where that one waits in a generator over a
stream, it waits for a batch, and so for the thread that is collecting.

The collector could tell of itself (`gc.callbacks`), but a Ctrl-C that comes meanwhile would be
raised in such a callback, which lets no exception through.
"""

from __future__ import annotations

import threading
import time

from videoload.errors import VideoloadError

_LONGEST_S = 20.0  # no collection takes so long, but one that waits for a batch
_STEP_S = 1.0  # between two checks no more is counted: the whole process may have been stopped


class Pulse:
    """Of a thread that beats several times a second, for those that wait for it."""

    def __init__(self) -> None:
        self._beats = self._seen = 0
        self._held_up_s = 0.0
        self._checked = time.monotonic()

    def beat(self) -> None:
        """The thread is alive."""
        self._beats += 1

    def check(self) -> None:
        """Called now and then by whoever waits for that thread. Raises VideoloadError if it seems
        to wait for the caller, which is never the main thread: nothing that it does is garbage."""
        now = time.monotonic()
        self._held_up_s += min(now - self._checked, _STEP_S)
        self._checked = now
        if self._seen != self._beats:
            self._seen, self._held_up_s = self._beats, 0.0
        if (
            self._held_up_s > _LONGEST_S
            and threading.current_thread() is not threading.main_thread()
        ):
            raise VideoloadError(
                f"no batch for {self._held_up_s:.0f} s: the thread that brings them stands still. "
                "It collects garbage and frees what waits for this one, it seems; given up (close "
                "iterators and generators that are left early)"
            )
