"""PyTorch's DataLoader: a process a core, each makes whole batches."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.utils.data import DataLoader

from benchmarks.loaders import Batches
from benchmarks.loaders.readers import Reader, reader
from benchmarks.work import Item, Work


class Clips:
    """A map-style data set; its reader is made in the worker."""

    def __init__(self, work: Work, items: Sequence[Item], variant: str) -> None:
        self._work, self._items, self._variant = work, items, variant
        self._read: Reader | None = None

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor]:
        if self._read is None:
            self._read = reader(self._variant, self._work)
        number, file, start = self._items[index]
        return number, torch.from_numpy(self._read(self._work.files[file], start))


def batches(work: Work, items: Sequence[Item], processes: int, variant: str) -> Batches:
    """uint8 all the way; batches are stacked in the worker, in shared memory, and come as they get
    ready."""
    yield from DataLoader(
        Clips(work, items, variant),
        batch_size=work.batch,
        num_workers=processes,
        prefetch_factor=2,
        persistent_workers=True,
        in_order=False,
    )
