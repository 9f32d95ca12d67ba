"""The batches of one reader, from the I/O thread to the thread of its consumer."""

from __future__ import annotations

import copy
import threading
import time
from collections import deque
from queue import Empty, SimpleQueue

from videoload.errors import VideoloadError
from videoload.scheduler.commands import Ready


class ReaderQueue:
    """The batches of one reader. The I/O thread puts them in. The consumer's thread takes them out.

    Each batch is handed over; or, after the consumer's end or if a Ctrl-C strikes it between two
    steps, `never_handed_over` returns it.
    """

    def __init__(self) -> None:
        # A plain lock: a Ctrl-C in Condition.__enter__ would leave it locked.
        self._lock = threading.Lock()
        self._ready: deque[Ready] = deque()
        self._taken: list[Ready] = []  # but not handed over yet
        self._error: VideoloadError | None = None
        self._wakeup: SimpleQueue[None] = SimpleQueue()  # empty, or rung: look again

    # While the I/O thread has the lock, it creates nothing that may start Python's garbage
    # collector: that may wait for the consumer's thread (see `frameworks.tfdata`).

    def put(self, batch: Ready) -> None:
        with self._lock:
            self._ready.append(batch)
        self._ring()

    def fail(self, error: VideoloadError) -> None:
        """End the queue: the consumer gets ``error`` after the batches that are queued."""
        with self._lock:
            self._error = self._error or error
        self._ring()

    def _ring(self) -> None:
        """Have the consumer look again. It empties the bell before it looks."""
        if self._wakeup.empty():
            self._wakeup.put(None)

    def take(self, wait_s: float) -> Ready | None:
        """Return the next batch, or None if there is none within ``wait_s``. Raises the error of
        `fail`."""
        deadline = time.monotonic() + wait_s
        while True:
            with self._lock:
                if self._ready:
                    batch = self._ready[0]
                    self._taken.append(batch)
                    self._ready.popleft()
                    return batch
                error = self._error
            if error is not None:
                raise copy.copy(error)  # a raised error holds the frames of its consumer
            try:
                self._wakeup.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                return None

    @property
    def ready(self) -> int:
        """The number of batches that the consumer has not taken."""
        return len(self._ready)

    def handed_over(self) -> None:
        """From now on, the consumer gives back the slot of the batch that it took."""
        self._taken.clear()

    def undelivered(self) -> list[Ready]:
        """Return, after the consumer's end, the batches whose slots are not returned otherwise."""
        return [*self._ready, *self._taken]
