"""Calls that other threads have made in one thread, which polls."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable

_WAKE_BYTES = 4096  # at most so many are taken in one go


class Mailbox:
    """Anyone posts; the thread that polls `socket` is woken by it, and makes the calls."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._calls: deque[Callable[[], object]] = deque()
        self._bell, self.socket = socket.socketpair()
        self._bell.setblocking(False)
        self.socket.setblocking(False)

    def post(self, call: Callable[[], object], *, wake: bool = True) -> None:
        """Have ``call`` made, soon, or without ``wake`` whenever the thread wakes next. Never
        blocks, takes no lock (finalizers use it), and does nothing in a fork's copy."""
        if os.getpid() != self._pid:
            return
        self._calls.append(call)
        if not wake:
            return
        try:
            self._bell.send(b"\0")
        except BlockingIOError:
            pass  # full: it is awake
        except OSError:
            self._calls.clear()  # closed: no call is made any more, and calls hold memory

    def __len__(self) -> int:
        """Calls that are to be made."""
        return len(self._calls)

    def woken(self) -> None:
        """The thread has seen that `socket` is readable."""
        self.socket.recv(_WAKE_BYTES)

    def make_calls(self) -> None:
        """Make those that are there by now; those that these leave have their turn next time."""
        for _ in range(len(self._calls)):
            self._calls.popleft()()

    def close(self) -> None:
        """No call is made any more."""
        self._bell.close()
        self.socket.close()
        self._calls.clear()
