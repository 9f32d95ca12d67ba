"""What takes long in a recipe. Workers import this module."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

SCALE = 0.1  # scales the sleeps, since an author's run took most of a minute
VIDEO_S = 0.94 * SCALE  # an AVI file: with its decoding, its author's took a second


def slow_video(clip: npt.NDArray[np.uint8], rng: Any = None) -> npt.NDArray[np.uint8]:
    """A clip of a file that took a long time to arrive."""
    time.sleep(VIDEO_S)
    return clip
