"""How fast the trainer would be if loading cost nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from videoload.arguments import whole
from videoload.trainer.stream import Stream


def head_room(stream: Stream, train: Callable[[Any, Any], object], steps: int = 20) -> float:
    """Measure the trainer's own ceiling: how many steps it takes per second on one batch, over and
    over, while nothing is decoded.

    `Stream.stats` compares with it from then on. Without it, the ceiling is estimated from the
    training's own steps, during which workers may take cores from the trainer.

        vl.head_room(stream, model.train_on_batch)

    These steps train the model. So measure before its weights are loaded or saved, or use a copy.

    Args:
        stream: Its first batch is used. It is read from the same place afterwards.
        train: Called with (clips, labels), returns when the step is done. The first call is not
            timed.
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
