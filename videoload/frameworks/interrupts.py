"""Ctrl-C while the main thread is inside TensorFlow.

Python runs signal handlers in the main thread, between two of its instructions. While `fit` waits
in C++ for a batch there are none, so without a batch, Ctrl-C has no effect. But the C handler
writes the signal's number to a descriptor at once (`signal.set_wakeup_fd`). A thread reads it there
and notes the time. A thread that waits for a batch then gives up (`is_due`), TensorFlow returns to
Python, and the KeyboardInterrupt is raised there.

A batch that arrives soon is still delivered. The main thread then returns to Python by itself,
without an error that looks like any other.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

_GRACE_S = 0.5  # A batch that arrives this soon after Ctrl-C is still delivered.
# A thread that begins to wait this soon after Ctrl-C gives up, too. The main thread may have raised
# the KeyboardInterrupt and be in a destructor of TensorFlow that waits for all readers.
_AFTERMATH_S = 2.0


class Interrupts:
    """Notes each Ctrl-C from the first `listen` on."""

    def __init__(self, grace_s: float = _GRACE_S) -> None:
        self._grace_s = grace_s
        self._pipe: tuple[int, int] | None = None  # open as long as the process lives
        self._behind = -1  # the wakeup descriptor that was set before
        self._came = self._terminated = float("-inf")
        self._on_signal: Callable[[int], None] | None = None

    def listen(self) -> None:
        """Note each Ctrl-C from now on. Outside of the main thread, this does nothing. Handlers
        stay, and signals are passed on to a descriptor of other code, like asyncio's."""
        if threading.current_thread() is not threading.main_thread():
            return
        if self._pipe is None:
            self._pipe = os.pipe()
            os.set_blocking(self._pipe[1], False)
            os.register_at_fork(after_in_child=self._forget)
            threading.Thread(target=self._note, name="videoload-signals", daemon=True).start()
        mine = self._pipe[1]
        before = signal.set_wakeup_fd(mine, warn_on_full_buffer=False)
        if before != mine:
            self._behind = before

    def _forget(self) -> None:
        """Forget the pipe in a forked process: it is the parent's, and must not note signals of
        this process."""
        before = signal.set_wakeup_fd(-1)
        if self._pipe is not None and before != self._pipe[1]:
            signal.set_wakeup_fd(before)
        self._pipe = None

    def on_signal(self, call: Callable[[int], None] | None) -> None:
        """Call ``call`` in another thread with the number of each signal that has a Python handler.
        None ends this."""
        self._on_signal = call

    def is_due(self, began: float, requested: float) -> bool:
        """Return whether to interrupt a thread that has waited for a batch since ``requested``, in
        an iteration since ``began`` (both of `time.monotonic`): if Ctrl-C was pressed since or just
        before, and the handler is Python's. Another handler may mean something else. An iteration
        that began after the Ctrl-C continues.
        """
        late = time.monotonic() - self._grace_s
        if not max(began, requested - _AFTERMATH_S) < self._came < late:
            return False
        return signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def was_terminated(self, since: float) -> bool:
        """Return whether a SIGTERM for a handler of Python's came after ``since``."""
        return self._terminated > since

    def _note(self) -> None:
        assert self._pipe is not None
        while signals := os.read(self._pipe[0], 4096):
            if signal.SIGINT in signals:
                self._came = time.monotonic()
            if signal.SIGTERM in signals:
                self._terminated = time.monotonic()
            if self._behind >= 0:
                with suppress(OSError):  # It is full, or closed.
                    os.write(self._behind, signals)
            if self._on_signal is not None:
                for number in signals:
                    self._on_signal(number)


INTERRUPTS = Interrupts()  # of this process
