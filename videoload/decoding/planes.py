"""The places of bytes: the planes of pictures and clips as arrays [n, height, width, channels] of n
frames. A part is cropped, rotated, flipped, and written into a clip."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from av.video.format import VideoFormat
from av.video.frame import VideoFrame
from av.video.plane import VideoPlane

from videoload.clips.choices import PIXEL_FORMATS
from videoload.clips.clip_params import ClipParams
from videoload.clips.regions import Rectangle

Buffer = npt.NDArray[np.uint8]  # or uint16
# Shape, type, first byte and strides of values in a plane, as `np.ndarray` takes them.
Place = tuple[tuple[int, ...], np.dtype[np.integer[Any]], int, tuple[int, ...]]


class Picture:
    """Frames below each other in one picture, so that FFmpeg converts them in one go."""

    def __init__(self, width: int, height: int, pixels: str, frames: int) -> None:
        self.frames = frames
        self.frame = VideoFrame(width, height * frames, pixels)
        self.planes = planes_of(self.frame, frames)


def planes_of(picture: VideoFrame, frames: int = 1, part: Rectangle | None = None) -> list[Buffer]:
    """Views of the planes of ``frames`` frames that stand below each other in one picture, or of a
    ``part`` (x, y, width, height) of each, in whole samples. The format is that of a clip, or
    4:2:0."""
    places = _places(picture.format.name, picture.width, picture.height, frames, part)
    planes = []
    for plane, (dtype, shape, x, y, item) in zip(picture.planes, places, strict=True):
        stride = plane.line_size
        # A negative one: it stands upside down in memory.
        begin = x + stride * (y if stride > 0 else y + 1 - plane.height)
        strides = plane.height // frames * stride, stride, shape[3] * item, item
        planes.append(np.ndarray(shape, dtype, cast(memoryview, plane), begin, strides))
    return planes


@lru_cache(256)
def _places(
    pixels: str, width: int, height: int, frames: int, part: Rectangle | None
) -> list[tuple[type[np.integer[Any]], tuple[int, int, int, int], int, int, int]]:
    """Return for each plane: the type and shape of the part, the byte of a line and the line at
    which it begins, and the bytes of a value."""
    x, y, across, down = part or (0, 0, width, height // frames)
    parts = VideoFormat(pixels).components
    channels = sum(part.plane == 0 for part in parts)
    item, dtype = (2, np.uint16) if parts[0].bits > 8 else (1, np.uint8)
    return [
        (
            dtype,
            (frames, -(-(y + down) // n) - y // n, -(-(x + across) // n) - x // n, channels),
            x // n * channels * item, y // n, item,
        )
        for n in ((1, 2, 2) if pixels.startswith("yuv") else (1,))
    ]  # fmt: skip


def part_of(planes: Sequence[Buffer], part: Rectangle) -> list[Buffer]:
    """Return a part (x, y, width, height) of planes, in whole samples."""
    x, y, width, height = part
    return [
        plane[:, y // n : -(-(y + height) // n), x // n : -(-(x + width) // n)]
        for plane, n in zip(planes, (1, 2, 2), strict=False)
    ]


def turned(planes: Sequence[Buffer], turns: int, *, flip: bool) -> list[Buffer]:
    """Return views of planes, rotated clockwise ``turns`` times by 90 degrees, and then flipped if
    ``flip``."""
    shown = [np.rot90(plane, -turns, (1, 2)) if turns else plane for plane in planes]
    return [plane[:, :, ::-1] for plane in shown] if flip else shown


def place_of(shown: Buffer, plane: VideoPlane) -> Place:
    """Return the place of a view of one frame in its plane."""
    [shown] = shown
    whole = np.frombuffer(cast(memoryview, plane), np.uint8)
    begin = shown.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return shown.shape, shown.dtype, begin, shown.strides


def planes_of_clip(out: Buffer, pixels: str, params: ClipParams) -> list[Buffer]:
    """Return the planes of what is shown in the frames ``out`` [T, ...] of a clip. What is not
    shown there becomes black."""
    is_halved = PIXEL_FORMATS[pixels].is_halved
    planes = _planes_in_one(out) if is_halved else [out]
    missing = np.flatnonzero(params.frame_indices == -1)
    for i, plane in enumerate(planes):
        black = (128 if i else 16) if is_halved else 0
        if params.place is not None:
            plane[...] = black
        elif len(missing):
            plane[missing] = black
    if params.place is None:
        return planes
    across, down = params.size[::-1] if params.turns % 2 else params.size
    return part_of(planes, (*params.place, across, down))


def _planes_in_one(out: Buffer) -> list[Buffer]:
    """Y, U and V of frames of a clip in yuv420p."""
    n, lines, width = out.shape
    height = lines * 2 // 3
    luma, half = height * width, (n, height // 2, width // 2, 1)
    y, u, v = np.split(out.reshape(n, lines * width), (luma, luma * 5 // 4), 1)
    return [y.reshape(n, height, width, 1), u.reshape(half), v.reshape(half)]
