"""The work that all loaders do: the last frames of each file, with PyAV, as slow as a larger file.

A file may be cut short, so that `load` fails.
"""

from __future__ import annotations

import time
import zlib

import av
import numpy as np
import numpy.typing as npt

FRAMES, SIDE = 8, 64
LEAST = 40  # frames of a file; each file has another number, so clips differ
SHAPE = (FRAMES, SIDE, SIDE, 3)
TAKES_S = 0.06


def load(path: str) -> npt.NDArray[np.uint8]:
    """The clip of a file, uint8 [T, H, W, 3]."""
    time.sleep(TAKES_S)
    with av.open(path) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    if len(frames) < LEAST:
        raise ValueError(f"{path} has {len(frames)} frames")
    return np.stack(frames[-FRAMES:])


def slow(clip: npt.NDArray[np.uint8], _: np.random.Generator) -> npt.NDArray[np.uint8]:
    """A transform that takes as long as the other loaders' work."""
    time.sleep(TAKES_S)
    return clip


def digest(clip: npt.NDArray[np.generic]) -> int:
    """Of a clip's bytes."""
    return zlib.crc32(np.ascontiguousarray(clip).data)
