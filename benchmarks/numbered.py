"""Recordings whose frames show their numbers, and a model that reads them.

A frame of 64x64 pixels is four times four blocks, black or white: the bits of its number. Blocks
that large survive any codec, so a wrong frame cannot go unseen. An hour takes some seconds to make.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import numpy.typing as npt
from av.video.stream import VideoStream

SIDE, _BLOCK, _BITS = 64, 16, 16
_WEIGHTS = 1 << np.arange(_BITS)


def make_numbered(
    path: Path, frames: int, *, codec: str = "mpeg4", rate: Fraction | int = 25, key_every: int = 12
) -> Path:
    """Write a recording; its container is what its name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = cast(VideoStream, container.add_stream(codec, rate=rate))
        stream.width = stream.height = SIDE
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.codec_context.gop_size = key_every
        stream.codec_context.thread_count = 1
        for number in range(frames):
            container.mux(stream.encode(_picture(number, stream.pix_fmt)))
        container.mux(stream.encode(None))
    return path


def _picture(number: int, pixels: str) -> av.VideoFrame:
    bits = (number >> np.arange(_BITS) & 1).reshape(4, 4).astype(np.uint8)
    luma = np.kron(bits * 219 + 16, np.ones((_BLOCK, _BLOCK), np.uint8))
    planes = np.concatenate((luma, np.full((SIDE // 2, SIDE), 128, np.uint8)))
    return av.VideoFrame.from_ndarray(planes, pixels)


def read_numbers(clips: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """The number of each frame of clips [n, T, 64, 64, C]: float32 [n, T]."""
    blocks = clips[..., 0].reshape(*clips.shape[:2], 4, _BLOCK, 4, _BLOCK)
    bits = blocks[..., 4:-4, :, 4:-4].mean(axis=(3, 5)) > 127
    numbers = bits.reshape(*clips.shape[:2], _BITS) @ _WEIGHTS
    return cast(npt.NDArray[np.float32], numbers.astype(np.float32))
