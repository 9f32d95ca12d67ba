"""tf.data's map over a Python function, and Keras's PyDataset: threads of the trainer's process,
which decode without the interpreter's lock, or processes.

The processes of a PyDataset are spawned: forked ones, the default on Linux, hang as soon as they
decode, because TensorFlow's threads are not forked with them.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

from videoload.comparison.loaders import Batches
from videoload.comparison.readers import reader
from videoload.comparison.work import Item, Work

_own = threading.local()  # a reader for each thread, or the one of a process


def batches(work: Work, items: Sequence[Item], processes: int, variant: str) -> Batches:
    """The variant is "keras threads", "keras processes", or the decoder below ``tf.data``."""
    if variant.startswith("keras"):
        return _fitted(work, items, processes, spawned=variant.endswith("processes"))
    return _mapped(work, items, processes, variant)


def _mapped(work: Work, items: Sequence[Item], processes: int, decoder: str) -> Batches:
    """Batches in the order in which they get ready."""
    import tensorflow as tf

    own = threading.local()

    def read(file: np.int64, start: np.int64) -> npt.NDArray[np.uint8]:
        if not hasattr(own, "reader"):
            own.reader = reader(decoder, work)
        return own.reader(work.files[file], int(start))  # type: ignore[no-any-return]

    def clip(number: Any, file: Any, start: Any) -> tuple[Any, Any]:
        pixels = tf.numpy_function(read, [file, start], tf.uint8, stateful=False)
        return number, tf.ensure_shape(pixels, work.clip.shape)

    columns = tuple(np.array(column) for column in zip(*items, strict=True))
    yield from (
        tf.data.Dataset.from_tensor_slices(columns)
        .map(clip, num_parallel_calls=processes, deterministic=False)
        .batch(work.batch, drop_remainder=True)
        .prefetch(2)
    )


class Clips(keras.utils.PyDataset):  # type: ignore[misc]
    """Batches of (clips, numbers)."""

    def __init__(self, work: Work, items: Sequence[Item], workers: int, *, spawned: bool) -> None:
        super().__init__(workers=workers, use_multiprocessing=spawned)
        self._work, self._items = work, items

    def __len__(self) -> int:
        return len(self._items) // self._work.batch

    def __getitem__(self, index: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        if not hasattr(_own, "read"):
            _own.read = reader("pyav", self._work)
        at = index * self._work.batch
        items = self._items[at : at + self._work.batch]
        clips = [_own.read(self._work.files[file], start) for _, file, start in items]
        return np.stack(clips), np.array([item.number for item in items])


def _fitted(work: Work, items: Sequence[Item], processes: int, *, spawned: bool) -> Batches:
    """The adapter that ``fit`` puts around a PyDataset."""
    if spawned:
        multiprocessing.set_start_method("spawn")
    data = Clips(work, items, processes, spawned=spawned)
    adapter = PyDatasetAdapter(data, shuffle=False)
    adapter.on_epoch_begin()
    try:
        for clips, numbers in adapter.get_tf_dataset():
            yield numbers, clips
    finally:
        adapter.enqueuer.stop(drain_queue_and_join=False)
