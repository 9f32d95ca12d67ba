"""What the trainer could do if loading cost nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from videoload.arguments import whole
from videoload.trainer.stream import Stream


def head_room(stream: Stream, train: Callable[[Any, Any], object], steps: int = 20) -> float:
    """Measure the trainer's own ceiling: how many steps a second it takes on one batch, over and
    over, while nothing is decoded.

    From then on, `Stream.stats` compares with that. Without it, the ceiling is told from the steps
    of the training itself, between which workers may take cores from the trainer.

        vl.head_room(stream, model.train_on_batch)

    The model is trained by these steps: measure before its weights are loaded or saved, or with a
    copy of it.

    Args:
        stream: The first batch of it is taken; where the stream is read, does not change.
        train: Called with (clips, labels), returns when the step is done. Once more in the
            beginning, which does not count.
        steps: How many steps to time, at least 1. Default 20.

    Returns:
        Steps per second.

    Raises:
        VideoloadError: What reading the stream raises.
    """
    steps = whole("steps", steps, 1)
    reader = stream.readers.read(range(1), counts=False)
    try:
        clips, labels = next(reader)
    finally:
        reader.close()
    train(clips, labels)
    began = time.perf_counter()
    for _ in range(steps):
        train(clips, labels)
    rate = steps / (time.perf_counter() - began)
    stream.readers.meter.ceiling = rate
    return rate
