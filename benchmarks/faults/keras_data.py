"""A PyDataset that spawned processes can import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from benchmarks.faults.subjects import BATCH, Files


class Batched(keras.utils.PyDataset):  # type: ignore[misc]
    """Batches of (clips, (numbers, pids))."""

    def __init__(self, paths: Sequence[str], order: Sequence[int], workers: int) -> None:
        super().__init__(workers=workers, use_multiprocessing=True, max_queue_size=4)
        self.files, self.order = Files(paths), order

    def __len__(self) -> int:
        return len(self.order) // BATCH

    def __getitem__(self, at: int) -> Any:
        rows = [self.files[number] for number in self.order[BATCH * at : BATCH * (at + 1)]]
        numbers, pids = (np.array([row[k] for row in rows]) for k in ("number", "pid"))
        return np.stack([row["clip"] for row in rows]), (numbers, pids)
