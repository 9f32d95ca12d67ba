"""Work in a few threads that no exit waits for, and that interrupt no other thread.

The standard library's pool has its threads joined when Python ends: one that waits for a silent
server would hold up the end of its process for as long as that is silent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from videoload.native import stay_in_background

T = TypeVar("T")

_END_S = 0.2


class _Job(NamedTuple):
    future: Future[Any]
    work: Callable[[], Any]


class DaemonPool:
    """At most ``threads`` of them, made as they are needed. What they do is begun in its order."""

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._most = threads
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._free = threading.Semaphore(0)  # threads that are done with what they were given
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Have ``work`` done; what comes of it."""
        future: Future[T] = Future()
        self._jobs.put(_Job(future, work))
        if not self._free.acquire(blocking=False) and len(self._threads) < self._most:
            thread = threading.Thread(
                target=_run, args=(self._jobs, self._free), name=self._name, daemon=True
            )
            self._threads.append(thread)
            thread.start()
        return future

    def stop(self) -> None:
        """Begin nothing more, and wait a moment for what goes on."""
        with suppress(Empty):
            while True:
                if (job := self._jobs.get_nowait()) is not None:
                    job.future.cancel()
        threads, self._threads = self._threads, []
        for _ in threads:
            self._jobs.put(None)
        until = time.monotonic() + _END_S
        for thread in threads:
            if thread is not threading.current_thread():  # the garbage collector calls anywhere
                thread.join(max(0.0, until - time.monotonic()))


def _run(jobs: SimpleQueue[_Job | None], free: threading.Semaphore) -> None:
    stay_in_background()
    while (job := jobs.get()) is not None:
        if job.future.set_running_or_notify_cancel():
            try:
                job.future.set_result(job.work())
            except BaseException as error:
                job.future.set_exception(error)
        del job  # what came of it would be in memory until the next one comes
        free.release()
