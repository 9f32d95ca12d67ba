"""The reserve: descriptors that a client holds for operations that must not fail.

A training script may reach its limit of open files, and strangers may connect until none is left.
Then the memory of a stream cannot be allocated, no worker can be started, and libzmq ends the whole
process (SIGABRT) if one of its own workers connects (4.3.5, ipc_listener.cpp: EMFILE). So a client
holds `_SIZE` descriptors that stand for nothing, and no stranger can take what is held:

  * `let_go` closes them while memory is allocated or a process is started, and takes them again;
  * `lend` closes them until an expected worker has connected: workers request it first.

There is one reserve in a process, for all of its clients.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SIZE = 32  # a process is started with a dozen


class Reserve:
    """Descriptors that are held. It has none before `open`, and after as many calls of `close`."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._held: list[int] = []
        self._clients = 0
        self._lent = 0  # to so many blocks, and workers that may connect now

    def open(self) -> None:
        with self._lock:
            self._clients += 1
            self.fill()

    def close(self) -> None:
        with self._lock:
            self._clients -= 1
            if not self._clients:
                self._empty()

    def fill(self) -> None:
        """Take the missing descriptors, if possible. Lent ones stay free."""
        with self._lock:
            try:
                while self._clients and not self._lent and len(self._held) < _SIZE:
                    self._held.append(os.eventfd(0, os.EFD_CLOEXEC))
            except OSError:
                pass

    @contextmanager
    def let_go(self) -> Iterator[None]:
        """Release all of them in this block, and in blocks within it."""
        with self._lock:
            self._empty()
            self._lent += 1
            try:
                yield
            finally:
                self._lent -= 1
                self.fill()

    def lend(self) -> bool:
        """Let go of them for a worker that connects. False: none was held."""
        with self._lock:
            self.fill()
            if self._clients and not self._lent and not self._held:
                return False
            self._empty()
            self._lent += 1
            return True

    def take_back(self) -> None:
        """Note that a worker to which it was lent has connected, or has ended."""
        with self._lock:
            self._lent -= 1
            self.fill()

    def _empty(self) -> None:
        while self._held:
            os.close(self._held.pop())


RESERVE = Reserve()
