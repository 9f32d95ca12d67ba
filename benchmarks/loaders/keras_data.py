"""Keras's PyDataset, as ``fit`` reads it: threads of the trainer's process, or spawned processes.

Forked processes, the default on Linux, hang as soon as they decode, because TensorFlow's threads
are not forked with them.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Sequence

import keras
import numpy as np
import numpy.typing as npt
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

from benchmarks.loaders import Batches
from benchmarks.loaders.readers import reader
from benchmarks.work import Item, Work

_own = threading.local()  # a reader for each thread, or the one of a process


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


def batches(work: Work, items: Sequence[Item], processes: int, variant: str) -> Batches:
    """The adapter that ``fit`` puts around a PyDataset; the variant is "threads" or "processes"."""
    spawned = variant == "processes"
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
