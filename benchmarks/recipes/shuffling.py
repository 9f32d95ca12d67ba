"""TensorFlow's RandomShuffleQueue (capacity 2000, at least 1000 in it) that N threads fill from a
Python generator, for a small CNN on 28x28 images, validated after each epoch.

The generator sleeps 50 ms for a batch of 32, as its author's, and makes the images; what that takes
is measured. Its author: the 1 875 iterations of an epoch in 103 s with one thread (18.1 a second),
in 26 s with four (69.6). Here one thread makes the first part of an epoch, and four a whole one.

The queue mixes what is near: an item moves by as many places as the queue holds. The stream's
order is a shuffle of the whole epoch (`mixing`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

import videoload as vl
from benchmarks.recipes import Row, items, warm_up
from videoload.plan.options import StreamOptions
from videoload.plan.plan import Plan

AUTHOR = {1: "18.1 it/s", 4: "69.6 it/s"}
STEPS = {1: 400, 4: 1875}
CHECKED = 10  # so many batches to validate
CAPACITY, LEAST = 2000, 1000
LOTS = 10  # to measure what one takes
MIXED = 60_000
QUIET: dict[str, Any] = {"verbose": 0, "shuffle": False}


def run() -> Iterator[Row]:
    lot_s = timed_lot()
    for workers, told in AUTHOR.items():
        steps = STEPS[workers]
        model = make_model()
        images = np.stack([items.drawn(n) for n in range(items.BATCH)])
        labels = np.arange(items.BATCH) % 10
        again = tf.data.Dataset.from_tensors((images, labels)).repeat()
        checked = again.take(CHECKED)
        model.fit(again, steps_per_epoch=5, validation_data=checked, **QUIET)
        began = time.perf_counter()
        model.fit(again, steps_per_epoch=steps, validation_data=checked, **QUIET)
        alone = time.perf_counter() - began
        done = steps + CHECKED
        least = max(alone, done * lot_s / workers)
        theirs = recipe(workers, steps)
        ours, accuracy = videoload(workers, steps)
        note = f"{done / ours:.1f} it/s, recipe {done / theirs:.1f}; accuracy {accuracy:.2f}"
        name = f"4 RandomShuffleQueue, small CNN, {workers} workers"
        yield Row(name, told, theirs, ours, least, note)


def timed_lot() -> float:
    """Seconds that the generator takes for a batch."""
    rng = np.random.default_rng(0)
    began = time.perf_counter()
    for number in range(LOTS * items.BATCH):
        items.digit(str(number), rng)
    return (time.perf_counter() - began) / LOTS


def make_model() -> Any:
    """A small CNN."""
    layers = keras.layers
    model = keras.Sequential([
        keras.Input((28, 28, 1)),
        layers.Conv2D(8, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(10),
    ])  # fmt: skip
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    return model


def recipe(workers: int, steps: int) -> float:
    """Seconds, with TensorFlow's queue and threads."""
    model = make_model()
    batch = tf.zeros((items.BATCH, 28, 28, 1)), tf.zeros(items.BATCH, tf.int64)
    model.train_on_batch(*batch)
    model.test_on_batch(*batch)
    began = time.perf_counter()
    train, check = _Queue(workers), _Queue(workers)
    try:
        for _ in range(steps):
            model.train_on_batch(*train.next())
        for _ in range(CHECKED):
            model.test_on_batch(*check.next())
        return time.perf_counter() - began
    finally:
        for queue in (train, check):
            queue.close()


class _Queue:
    """A RandomShuffleQueue, filled by threads from a generator each."""

    def __init__(self, workers: int) -> None:
        self._queue = tf.queue.RandomShuffleQueue(
            CAPACITY, LEAST, [tf.float32, tf.int64], [(28, 28, 1), ()]
        )
        self._over = False
        self._threads = [
            threading.Thread(target=self._fill, args=(n,), daemon=True) for n in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def _fill(self, first: int) -> None:
        for number in range(first, 1 << 30, len(self._threads)):
            if self._over:
                return
            numbers = np.arange(number * items.BATCH, (number + 1) * items.BATCH)
            time.sleep(items.LOT_S)
            images = np.stack([items.drawn(n) for n in numbers.tolist()])
            try:
                self._queue.enqueue_many([images, numbers % 10])
            except (tf.errors.CancelledError, tf.errors.AbortedError):
                return

    def next(self) -> tuple[Any, Any]:
        images, labels = self._queue.dequeue_many(items.BATCH)
        return images, labels

    def close(self) -> None:
        self._over = True
        self._queue.close(cancel_pending_enqueues=True)
        for thread in self._threads:
            thread.join()


def videoload(workers: int, steps: int) -> tuple[float, float]:
    """Seconds, and the last accuracy of validation, with Keras' ``fit`` and its progress bar."""
    item = vl.ItemSpec("benchmarks.recipes.items:digit", (28, 28, 1), "float32", files=False)
    model = make_model()
    with vl.Client(workers=workers) as client:
        warm_up(client, workers)
        train = client.stream(
            _names(steps * items.BATCH), item, items.BATCH, shuffle=True,
            slots=CAPACITY // items.BATCH,
        )  # fmt: skip
        check = client.stream(_names(CHECKED * items.BATCH), item, items.BATCH)
        warm = client.stream(_names(items.BATCH), item, items.BATCH).dataset()
        model.fit(warm, validation_data=warm, **QUIET)
        began = time.perf_counter()
        told = model.fit(train.dataset(), validation_data=check.dataset(), shuffle=False)
        return time.perf_counter() - began, told.history["val_accuracy"][-1]


def mixing() -> dict[str, npt.NDArray[np.int64]]:
    """Where the items of an epoch of 60 000 stand, in each of the two ways: their numbers in the
    order of the data, by position."""
    draw = np.random.default_rng(0)
    held, queued = list(range(CAPACITY)), iter(range(CAPACITY, MIXED))
    given = []
    while held:
        at = int(draw.integers(len(held)))
        given.append(held[at])
        held[at] = held[-1]
        held.pop()
        if (following := next(queued, None)) is not None:
            held.append(following)
    options = StreamOptions(1000, True, 0, (0, 1), True, True, "substitute", 0.01)
    plan = Plan(MIXED, 1, options)
    ours = [sample.video for step in range(len(plan)) for sample in plan[step]]
    return {"RandomShuffleQueue, 2000": np.array(given), "videoload": np.array(ours)}


def _names(count: int) -> vl.Catalog:
    return vl.Catalog(
        [str(n) for n in range(count)], [n % 10 for n in range(count)], list("0123456789")
    )
