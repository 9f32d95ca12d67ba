"""The planes of pictures and clips as arrays [n, height, width, channels] of n frames, and what is
done there: a part is cut out, turned, mirrored, and put into a clip."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame

from videoload.clips.regions import Rectangle, Size

Buffer = npt.NDArray[np.uint8]  # uint16 for gray16


class Crop(NamedTuple):
    """What is done with converted frames: the rectangle at ``corner`` (x, y), of ``size`` (width,
    height), is turned clockwise ``turns`` times by 90 degrees, and mirrored if ``flip``. It is put
    at ``place`` (x, y) into a black frame; None: it is the whole frame."""

    corner: Size
    size: Size
    turns: int
    flip: bool
    pixels: str
    place: Size | None

    def write(self, planes: Sequence[Buffer], out: Buffer) -> None:
        """Make frames of a clip, ``out`` [n, ...], of planes."""
        (x, y), (width, height) = self.corner, self.size
        if self.place is not None:
            blacken(out, self.pixels)
        for plane, to in zip(part_of(planes, (x, y, width, height)), self.inside(out), strict=True):
            turned = np.rot90(plane, -self.turns, (1, 2)) if self.turns else plane
            np.copyto(to, turned[:, :, ::-1] if self.flip else turned)

    def inside(self, out: Buffer) -> list[Buffer]:
        """The planes of what is put into frames of a clip, as views."""
        planes = [out] if self.pixels != "yuv420p" else _planes_of_clip(out)
        if self.place is None:
            return planes
        across, down = self.size[::-1] if self.turns % 2 else self.size
        return part_of(planes, (*self.place, across, down))


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
    """For each plane: the type and the shape of the part, the byte of a line and the line at which
    it begins, and the bytes of a value."""
    x, y, across, down = part or (0, 0, width, height // frames)
    channels = 3 if pixels == "rgb24" else 1
    item, dtype = (2, np.uint16) if pixels.startswith("gray16") else (1, np.uint8)
    return [
        (
            dtype,
            (frames, -(-(y + down) // n) - y // n, -(-(x + across) // n) - x // n, channels),
            x // n * channels * item, y // n, item,
        )
        for n in ((1, 2, 2) if pixels.startswith("yuv") else (1,))
    ]  # fmt: skip


def part_of(planes: Sequence[Buffer], part: Rectangle) -> list[Buffer]:
    """A part (x, y, width, height) of planes, in whole samples."""
    x, y, width, height = part
    return [
        plane[:, y // n : -(-(y + height) // n), x // n : -(-(x + width) // n)]
        for plane, n in zip(planes, (1, 2, 2), strict=False)
    ]


def _planes_of_clip(out: Buffer) -> list[Buffer]:
    """Y, U and V of frames of a clip in yuv420p."""
    n, lines, width = out.shape
    height = lines * 2 // 3
    luma, half = height * width, (n, height // 2, width // 2, 1)
    y, u, v = np.split(out.reshape(n, lines * width), (luma, luma * 5 // 4), 1)
    return [y.reshape(n, height, width, 1), u.reshape(half), v.reshape(half)]


def blacken(out: Buffer, pixels: str) -> None:
    """Make frames of a clip, ``out`` [n, ...], black."""
    out[...] = 0
    if pixels == "yuv420p":  # of limited range
        luma, *chroma = _planes_of_clip(out)
        luma[...] = 16
        for plane in chroma:
            plane[...] = 128
