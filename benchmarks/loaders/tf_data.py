"""tf.data's map over a Python function: threads of the trainer's process, which decode without the
interpreter's lock."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.loaders import Batches
from benchmarks.loaders.readers import reader
from benchmarks.work import Item, Work


def batches(work: Work, items: Sequence[Item], processes: int, variant: str) -> Batches:
    """Batches in the order in which they get ready. The variant is the decoder."""
    import tensorflow as tf

    own = threading.local()

    def read(file: np.int64, start: np.int64) -> npt.NDArray[np.uint8]:
        if not hasattr(own, "reader"):
            own.reader = reader(variant, work)
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
