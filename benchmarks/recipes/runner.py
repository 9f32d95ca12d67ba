"""FIFOQueue, QueueRunner and Coordinator in the place of feeding by hand.

100 steps; loading for one takes 115 ms and training 65 ms, as its author's figures say: 18 s by
hand, 11.5 s with a queue (31 % and 43 % of the GPU). Here four tenths of that. One thread feeds the
queue there; here one worker does, or two. An error in loading reaches the trainer in both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import tensorflow as tf

import videoload as vl
from benchmarks.recipes import Row, items, train, warm_up

STEPS, CAPACITY = 100, 16
STEP_S = 0.065 / 0.115 * items.RUNNER_S

v1 = tf.compat.v1


def run(steps: int = STEPS) -> Iterator[Row]:
    by_hand, _ = train((items.loaded(str(n)) for n in range(steps)), STEP_S)
    queued, stopped = recipe("loaded", steps)
    with suppress(tf.errors.OpError, TypeError):
        recipe("stumbles", steps)
        raise RuntimeError("the error did not reach the trainer")
    for workers in (1, 2):
        ours, closed = videoload("loaded", workers, steps)
        least = steps * max(STEP_S, items.RUNNER_S / workers)
        note = f"by hand {by_hand:.1f} s; stops in {closed:.2f} s, recipe {stopped:.2f} s"
        yield Row(f"5 QueueRunner, {workers} workers", "18 -> 11.5 s", queued, ours, least, note)
    with suppress(vl.TransformError):
        videoload("stumbles", 1, steps)
        raise RuntimeError("the error did not reach the trainer")


def recipe(name: str, steps: int) -> tuple[float, float]:
    """Seconds, and those that it took to stop."""
    numbers = iter(range(1 << 30))

    def load() -> Any:
        return getattr(items, name)(str(next(numbers)))

    with tf.Graph().as_default():
        queue = v1.FIFOQueue(CAPACITY, [tf.float32], [(28, 28, 1)])
        enqueue = queue.enqueue(v1.py_func(load, [], tf.float32))
        following = queue.dequeue()
        runner = v1.train.QueueRunner(queue, [enqueue])
        with v1.Session() as session:
            coordinator = v1.train.Coordinator()
            threads = runner.create_threads(session, coordinator, start=True)

            def batches() -> Iterator[np.ndarray[Any, Any]]:
                for _ in range(steps):
                    if coordinator.should_stop():
                        return
                    try:
                        yield session.run(following)
                    except tf.errors.OutOfRangeError:  # closed by a runner that failed
                        return

            seconds, _ = train(batches(), STEP_S)
            began = time.perf_counter()
            coordinator.request_stop()
            session.run(queue.close(cancel_pending_enqueues=True))
            coordinator.join(threads)  # raises what a runner raised
            return seconds, time.perf_counter() - began


def videoload(name: str, workers: int, steps: int) -> tuple[float, float]:
    """Seconds, and those that it took to stop."""
    names = vl.Catalog([str(n) for n in range(steps)])
    item = vl.ItemSpec(f"benchmarks.recipes.items:{name}", (28, 28, 1), "float32", files=False)
    client = vl.Client(workers=workers)
    try:
        warm_up(client, workers)
        seconds, _ = train(client.stream(names, item, 1), STEP_S)
    finally:
        began = time.perf_counter()
        client.close()
    return seconds, time.perf_counter() - began
