"""Ctrl-C while the main thread is inside TensorFlow.

Python runs signal handlers in the main thread, between two of its own instructions. While `fit`
waits in C++ for a batch there are none, and if no batch comes, Ctrl-C never takes effect. But the C
handler writes the signal's number to a descriptor at once (`signal.set_wakeup_fd`). So the thread
that waits for the batch reads it there and gives up, TensorFlow returns to Python, and there the
KeyboardInterrupt is raised.
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from contextlib import suppress

_lock = threading.Lock()
_pair: tuple[socket.socket, socket.socket] | None = None
_last = float("-inf")


def listen() -> None:
    """Take note of Ctrl-C from now on. Does nothing outside of the main thread, or where other code
    (asyncio) has set the descriptor already."""
    global _pair  # noqa: PLW0603 - there is one main thread
    if threading.current_thread() is not threading.main_thread():
        return
    if _pair is None:
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)
        _pair = reader, writer
    mine = _pair[1].fileno()
    before = signal.set_wakeup_fd(mine, warn_on_full_buffer=False)
    if before not in (-1, mine):
        signal.set_wakeup_fd(before)


def since(moment: float) -> bool:
    """Whether Ctrl-C came after ``moment`` (of `time.monotonic`) and is to end what the main thread
    does: a handler of the user's own may mean something else by it."""
    global _last  # noqa: PLW0603
    if _pair is None:
        return False
    with _lock, suppress(BlockingIOError):
        while signals := _pair[0].recv(4096):
            if signal.SIGINT in signals:
                _last = time.monotonic()
    return _last > moment and signal.getsignal(signal.SIGINT) is signal.default_int_handler
