"""Functions that the tests name as ``transform``; workers import them from here."""

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support.waiting import SECOND

Clip = npt.NDArray[np.uint8]


def invert(clip: Clip, rng: np.random.Generator) -> Clip:
    return 255 - clip


def add_noise(clip: Clip, rng: np.random.Generator) -> Clip:
    """Draws from its own generator, and from those of the process."""
    noise: Clip = rng.integers(0, 4, clip.shape, np.uint8)
    more: Clip = np.random.randint(0, 4, clip.shape, np.uint8)
    return clip ^ noise ^ more ^ np.uint8(random.randrange(4))


def grey_floats(clip: Clip, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """The first channel of each frame, from 0 to 1, with some noise: float32 [T, H, W]."""
    noise = rng.normal(0, 0.01, clip.shape[:3]).astype(np.float32)
    return clip[..., 0].astype(np.float32) / np.float32(255) + noise


def wrong_shape(clip: Clip, rng: np.random.Generator) -> Clip:
    return clip[:1]


def wrong_type(clip: Clip, rng: np.random.Generator) -> Any:
    return clip / 255


def raises(clip: Clip, rng: np.random.Generator) -> Clip:
    raise RuntimeError("no luck")


def exits(clip: Clip, rng: np.random.Generator) -> Clip:
    sys.exit("enough")


def fails_at_times(clip: Clip, rng: np.random.Generator) -> Clip:
    """Fails on one clip in 100, on the same ones in every run."""
    if rng.integers(100) == 0:
        raise RuntimeError("no luck")
    return clip


def sleeps(clip: Clip, rng: np.random.Generator) -> Clip:
    """Sleeps for five milliseconds for each level of the clip, times a factor from this process's
    environment: a slow file, or a slow host, which uses no core."""
    pace = float(os.environ.get("VIDEOLOAD_TEST_PACE", "1"))
    time.sleep(0.005 * float(clip.flat[0]) * pace * SECOND)
    return clip


def takes_long(clip: Clip, rng: np.random.Generator) -> Clip:
    """Sleeps for 2.5 seconds, and writes that it was called for a clip of this level."""
    if folder := os.environ.get("VIDEOLOAD_TEST_CALLS"):
        with Path(folder, f"{clip.flat[0]}.calls").open("a") as calls:
            calls.write("x")
    time.sleep(2.5 * SECOND)
    return clip


def never_returns(clip: Clip, rng: np.random.Generator) -> Clip:
    print("it has begun", file=sys.stderr, flush=True)
    while True:
        time.sleep(1)


def crash_on_white(clip: Clip, rng: np.random.Generator) -> Clip:
    """Crashes, like a bug in a decoder."""
    if clip.mean() > 240:
        os.kill(os.getpid(), signal.SIGSEGV)
    return clip


def killed_on_white(clip: Clip, rng: np.random.Generator) -> Clip:
    """Is killed, as by the kernel when memory runs out."""
    if clip.mean() > 240:
        os.kill(os.getpid(), signal.SIGKILL)
    return clip


def hang_on_white(clip: Clip, rng: np.random.Generator) -> Clip:
    if clip.mean() > 240:
        time.sleep(3600)
    return clip


def burn_on_white(clip: Clip, rng: np.random.Generator) -> Clip:
    while clip.mean() > 240:
        pass
    return clip


not_a_function = 5
