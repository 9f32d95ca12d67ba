"""What the recipes load, and how long that takes. Workers import this module, without Keras or
TensorFlow."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import numpy.typing as npt

SCALE = 0.1  # scales the sleeps, since an author's run took most of a minute

STORAGE_S = 0.001  # a small file, from storage that is not in memory
VIDEO_S = 0.94 * SCALE  # an AVI file: with its decoding, its author's took a second
BATCH = 32
LOT_S = 0.050  # so many items of a generator; not scaled
RUNNER_S = 0.115 * SCALE * 4  # an item for a QueueRunner: 100 of them took 11.5 s

Floats = npt.NDArray[np.float32]

_left = 0  # of the lot that the generator has made


def warm(name: str, rng: np.random.Generator) -> np.int64:
    """Takes as long as the other workers need to import this module."""
    time.sleep(0.05)
    return np.int64(0)


def seconds(number: int) -> float:
    """How long item ``number`` of the ordered recipe takes: 1 to 2 s, scaled."""
    return SCALE * random.Random(number).uniform(1, 2)


def ordered(name: str, rng: np.random.Generator) -> np.int64:
    time.sleep(seconds(int(name)))
    return np.int64(name)


def npy(path: str, rng: np.random.Generator | None = None) -> Floats:
    """An image from a .npy file, which lies on storage that takes its time."""
    time.sleep(STORAGE_S)
    image: Floats = np.load(path)
    image -= image.mean()
    image /= image.std()
    return image


def slow_video(clip: npt.NDArray[np.uint8], rng: Any = None) -> npt.NDArray[np.uint8]:
    """A clip of a file that took a long time to arrive."""
    time.sleep(VIDEO_S)
    return clip


def digit(name: str, rng: np.random.Generator | None = None) -> Floats:
    """A made image of a digit, 28x28: a bar whose place is its class, under noise. Its generator
    makes as many as a batch has at a time."""
    global _left  # noqa: PLW0603
    if not _left:
        time.sleep(LOT_S)
        _left = BATCH
    _left -= 1
    return drawn(int(name), rng)


def drawn(number: int, rng: np.random.Generator | None = None) -> Floats:
    """The image of `digit`, at once."""
    rng = rng or np.random.default_rng(number)
    image = rng.random((28, 28, 1), np.float32)
    at = 2 * (number % 10)
    image[at + 4 : at + 6] += 0.5
    return image


def loaded(name: str, rng: Any = None) -> Floats:
    """What feeds the QueueRunner's queue."""
    time.sleep(RUNNER_S)
    return np.full((28, 28, 1), float(name), np.float32)


def stumbles(name: str, rng: Any = None) -> Floats:
    """Has a mistake."""
    raise TypeError("a mistake in the loading function")
