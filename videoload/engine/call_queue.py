"""A queue of calls from other threads to one thread, and a check that this thread still runs."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from videoload.errors import VideoloadError
from videoload.worker.stall_clock import StallClock

_WAKE_BYTES = 4096  # read in one go, at most
_MAX_STUCK_S = 20.0  # no garbage collection takes this long, unless it waits for a batch
_STEP_S = 1.0  # counted between two checks, at most: the whole process may have been stopped


class CallQueue:
    """Any thread posts a call. One thread polls `socket`, which wakes it, and takes the calls."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._pid = os.getpid()
        self._calls: deque[Callable[[], object]] = deque()
        self._wake, self.socket = socket.socketpair()
        self._wake.setblocking(False)
        self.socket.setblocking(False)
        self._turns = 0
        self._stall = StallClock(_STEP_S, clock)

    def post(self, call: Callable[[], object], *, wake: Callable[[], bool] = lambda: True) -> None:
        """Queue ``call``. Unless ``wake()``, it waits until the thread wakes next. This is checked
        when the call is in the queue: a thread checks the queue last before it sleeps.

        It never blocks and takes no lock, since finalizers use it. In a forked process, it does
        nothing.
        """
        if os.getpid() != self._pid:
            return
        self._calls.append(call)
        if not wake():
            return
        try:
            self._wake.send(b"\0", socket.MSG_NOSIGNAL)
        except BlockingIOError:
            pass  # The socket is full, so the thread is already woken.
        except OSError:
            self._calls.clear()  # The queue is closed. Calls would only hold memory.

    def __len__(self) -> int:
        return len(self._calls)

    def clear_wake(self) -> None:
        """Empty `socket` after it became readable."""
        self.socket.recv(_WAKE_BYTES)

    def take(self) -> Iterator[Callable[[], object]]:
        """Yield the queued calls. A call that one of them posts is made the next time."""
        self._turns += 1
        for _ in range(len(self._calls)):
            yield self._calls.popleft()

    def check_thread(self) -> None:
        """Raise VideoloadError if the thread has not called `take` for 20 s.

        A thread that waits for a batch calls this several times a second. Python's garbage
        collector runs in any thread that allocates, and some objects wait while they are freed: an
        iterator of a ``tf.data`` pipeline that is part of a cycle waits for the thread that
        prefetches. If the collector runs in the I/O thread, and the prefetching thread waits for a
        batch, both would wait for ever. The main thread is never freed as garbage, so it continues
        to wait. (`gc.callbacks` cannot be used: they would swallow a Ctrl-C.)
        """
        stuck_s = self._stall.look(self._turns)
        if stuck_s > _MAX_STUCK_S and threading.current_thread() != threading.main_thread():
            raise VideoloadError(
                f"no batch for {stuck_s:.0f} s: videoload's I/O thread is blocked, probably in a "
                "garbage collection that waits for this thread. Close iterators and generators "
                "that you leave early"
            )

    def close(self) -> None:
        """Drop all queued calls. No further call is made."""
        self._wake.close()
        self.socket.close()
        self._calls.clear()
