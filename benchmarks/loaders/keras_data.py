"""Keras's PyDataset, as ``fit`` reads it, in threads of the trainer's process. Spawned processes
are slower; forked ones hang as soon as they decode, since TensorFlow's threads are not forked."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import keras
import numpy as np
import numpy.typing as npt
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

from benchmarks.loaders import Batches
from benchmarks.loaders.readers import reader
from benchmarks.work import Item, Work

_own = threading.local()  # a reader for each thread


class Clips(keras.utils.PyDataset):  # type: ignore[misc]
    """Batches of (clips, numbers)."""

    def __init__(self, work: Work, items: Sequence[Item], workers: int) -> None:
        super().__init__(workers=workers)
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
    """The adapter that ``fit`` puts around a PyDataset."""
    adapter = PyDatasetAdapter(Clips(work, items, processes), shuffle=False)
    adapter.on_epoch_begin()
    try:
        for clips, numbers in adapter.get_tf_dataset():
            yield numbers, clips
    finally:
        adapter.enqueuer.stop(drain_queue_and_join=False)
