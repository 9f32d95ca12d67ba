"""The queue between the I/O thread and a consumer loses, doubles and reorders no batch."""

import threading
import time
import tracemalloc

import numpy as np
import pytest

from tests.support.waiting import SECOND
from videoload import ClosedError
from videoload.engine.reader_queue import ReaderQueue
from videoload.scheduler.commands import Ready

NO_FRAMES = np.empty((0, 0), np.int64)


def batch(step: int) -> Ready:
    return Ready(0, 1, step, step % 8, (), NO_FRAMES)


def steps(batches: list[Ready]) -> list[int]:
    return [got.step for got in batches]


def next_step(queue: ReaderQueue, timeout_s: float = 0) -> int | None:
    got = queue.take(timeout_s)
    return None if got is None else got.step


def test_a_batch_that_was_taken_but_not_handed_over_is_returned_at_the_end() -> None:
    queue = ReaderQueue()
    for step in range(3):
        queue.put(batch(step))
    assert next_step(queue) == 0
    queue.handed_over()
    assert next_step(queue) == 1  # and then a Ctrl-C
    assert sorted(steps(queue.undelivered())) == [1, 2]


def test_an_error_comes_after_the_queued_batches_and_is_raised_each_time() -> None:
    queue = ReaderQueue()
    queue.put(batch(0))
    queue.fail(ClosedError("the client is closed"))
    queue.fail(ClosedError("a later one"))
    assert next_step(queue) == 0
    for _ in range(2):
        with pytest.raises(ClosedError, match="the client is closed"):
            queue.take(30 * SECOND)


def test_a_wait_ends_when_a_batch_comes_or_time_is_out() -> None:
    queue = ReaderQueue()
    for step in range(3):
        queue.put(batch(step))
    assert [next_step(queue) for _ in range(3)] == [0, 1, 2]  # the bell has rung three times
    began = time.monotonic()
    assert queue.take(0.1) is None
    assert time.monotonic() - began >= 0.1
    later = threading.Timer(0.05, queue.put, (batch(7),))
    later.start()
    assert next_step(queue, 30 * SECOND) == 7
    later.join()


def test_a_consumer_that_never_waits_leaves_nothing_behind_at_each_batch() -> None:
    queue = ReaderQueue()

    def pass_batches(count: int) -> None:
        for step in range(count):
            queue.put(batch(step))
            assert next_step(queue) == step
            queue.handed_over()

    pass_batches(10)
    tracemalloc.start()
    pass_batches(10_000)
    grown_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown_bytes < 40_000, "four bytes a batch"
    queue.put(batch(7))
    assert [next_step(queue, 20), next_step(queue)] == [7, None]
