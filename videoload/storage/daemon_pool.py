"""A few threads that no exit waits for.

Python joins the threads of `concurrent.futures` when it ends: one that waits for a silent server
would hold up the end of its process for as long as the server is silent.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from videoload.errors import StorageError
from videoload.host import NO_THREAD

T = TypeVar("T")

_END_S = 0.2


class DaemonPool:
    """Threads that are started as they are needed. They do up to ``limit`` jobs at once, in the
    order in which they were given. Unless they ``stay``, they end when no job is left."""

    def __init__(self, name: str, limit: int, *, stay: bool = True) -> None:
        self._limit = limit
        self._stay = stay
        self._name = name
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._running = 0
        self._threads: list[threading.Thread] = []
        self._stopped = False

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Run ``work`` in a thread. Return the future of its result, which is cancelled after
        `stop`. Raises StorageError if no thread can be started for it."""
        future: Future[T] = Future()
        if os.getpid() != self._pid:
            self._begin()  # in a forked process: the threads are the parent's
        with self._changed:
            if self._stopped:
                future.cancel()
            else:
                self._jobs.append((future, work))
                self._call_threads()
        return future

    @property
    def jobs(self) -> int:
        """The number of unfinished jobs."""
        return self._running + len(self._jobs)

    def hurry(self, future: Future[Any]) -> None:
        """Do the job of ``future`` next, if it has not begun."""
        with self._changed:
            for job in [job for job in self._jobs if job[0] is future]:
                self._jobs.remove(job)
                self._jobs.appendleft(job)

    def stop(self) -> None:
        """Begin no more jobs, and wait a moment for the threads. The garbage collector may call
        this in any thread, also within another method. In a forked process, there are no threads,
        and one of them may have held the lock."""
        if os.getpid() != self._pid:
            return
        with self._changed:
            self._stopped = True
            for future, _ in tuple(self._jobs):
                future.cancel()
            self._changed.notify_all()
        until = time.monotonic() + _END_S
        for thread in tuple(self._threads):
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))

    def _call_threads(self) -> None:
        now = min(self.jobs, self._limit)
        self._changed.notify(max(0, now - self._running))
        while len(self._threads) < now:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no video is to blame for it
                if self._threads:
                    return  # they do it in turn
                self._jobs.pop()
                raise StorageError(NO_THREAD) from None
            self._threads.append(thread)

    def _run(self) -> None:
        while (job := self._next()) is not None:
            future, work = job
            try:
                if future.set_running_or_notify_cancel():
                    future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
            del job, future, work  # the result would stay in memory until the next job
            with self._changed:
                self._running -= 1

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        with self._changed:
            while not self._stopped:
                if self._jobs:
                    self._running += 1
                    return self._jobs.popleft()
                if not self._stay:
                    self._threads.remove(threading.current_thread())
                    break
                self._changed.wait()
        return None
