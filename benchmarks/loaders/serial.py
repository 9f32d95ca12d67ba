"""No loader at all: the training loop decodes for itself, one clip after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.loaders import Batches
from benchmarks.plain import Plain
from benchmarks.work import Item, Work


def batches(work: Work, items: Sequence[Item], processes: int, variant: str) -> Batches:
    """Each batch in an array of its own."""
    plain = Plain(work, tables=variant == "tables")
    for at in range(0, len(items), work.batch):
        part = items[at : at + work.batch]
        clips = np.empty((len(part), *work.clip.shape), np.uint8)
        for (_, file, start), clip in zip(part, clips, strict=True):
            plain.read(work.files[file], start, clip)
        yield np.array([item.number for item in part]), clips
