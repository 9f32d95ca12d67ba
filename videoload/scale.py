"""A source frame as pixels in their place: scaled, converted, cropped, mirrored.

Interpolation, matrix and range are pinned, so that every worker gives the same pixels.
"""

from __future__ import annotations

import ctypes
import platform
import time
from contextlib import suppress
from functools import cache
from typing import cast

import av
import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter

from videoload.clips import Choice, ClipSpec, Facts

Buffer = npt.NDArray[np.uint8]

# swscale widens the bilinear filter when it shrinks, so there is no aliasing. 320x240 to 170x128:
# 74 microseconds a frame; with ACCURATE_RND 105 for half a grey level, BICUBIC 91.
_SCALING = int(Interpolation.BILINEAR | Interpolation.BITEXACT)
SLOW_GATHER = 0x2000000  # AV_CPU_FLAG_SLOW_GATHER
_TRIALS = 10


class Scaler:
    """Source frames of one size -> the spec's pixels at their place in a clip.

    4:2:0 sources are scaled in their own planes and converted to RGB at the small size, which is
    half the work of doing both at once; other formats take one step. Two contexts that live on, in
    one thread: PyAV's default makes one a frame, with threads of its own.
    """

    def __init__(self, spec: ClipSpec, facts: Facts) -> None:
        avoid_slow_gathers()
        self._spec = spec
        self._size = (facts.width, facts.height)
        self._same = VideoReformatter()
        self._scale = VideoReformatter()
        self._convert = VideoReformatter()

    def write(self, frame: VideoFrame, choice: Choice, out: Buffer) -> None:
        """Scale, convert, crop and mirror ``frame`` into ``out``: one frame of ``spec.shape``."""
        if (frame.width, frame.height) != self._size:  # the size changed within the file
            frame = _to(self._same, frame, self._size, frame.format.name)
        x, y, width, height = choice.region
        if (width, height) != self._size:
            frame = _to(self._same, frame, self._size, "rgb24")
            frame = _cut(frame, x, y, width, height)
        pixels = frame.format.name
        if pixels in ("yuv420p", "yuvj420p"):
            frame = _to(self._scale, frame, choice.scaled, pixels)
        frame = _to(self._convert, frame, choice.scaled, self._spec.pixels)
        if self._spec.pixels != "yuv420p" and not choice.flip:
            _copy_lines(frame, choice.corner, out)
            return
        for plane, place in zip(
            _planes(frame, choice.corner, self._spec), _places(out, self._spec), strict=True
        ):
            np.copyto(place, plane[:, ::-1] if choice.flip else plane)


@cache
def avoid_slow_gathers() -> None:
    """Have swscale shrink without AVX2's gather instructions where it is quicker so. They are slow
    on AMD's processors, and on Intel's since their firmware closes a leak (Downfall): on Zen 5 a
    frame of 1280x720 takes 370 microseconds with them, 245 without. FFmpeg knows a few such
    processors; to try it takes a millisecond once a process, and knows them all.

    The pixels are the same. It is left as it is where this FFmpeg has no such switch.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        return
    with suppress(AttributeError, OSError):
        ffmpeg = ctypes.CDLL(av._core.__file__)  # finds what this is linked with, too
        known = ffmpeg.av_get_cpu_flags()
        spent = {}
        for flags in (known, known | SLOW_GATHER):
            ffmpeg.av_force_cpu_flags(flags)
            spent[flags] = _shrinking_s()
        ffmpeg.av_force_cpu_flags(min(spent, key=spent.__getitem__))


def _shrinking_s() -> float:
    frame, reformatter, spent = VideoFrame(320, 240, "yuv420p"), VideoReformatter(), []
    for _ in range(_TRIALS):
        began = time.perf_counter()
        _to(reformatter, frame, (170, 128), "yuv420p")
        spent.append(time.perf_counter() - began)
    return min(spent)


# AVCOL_SPC_* of a frame -> the matrix to convert with; whatever says nothing is BT.601, limited
# range.
_BT601 = int(Colorspace.ITU601)
_MATRICES = {
    1: int(Colorspace.ITU709),
    4: int(Colorspace.FCC),
    7: int(Colorspace.SMPTE240M),
    9: int(Colorspace.BT2020),
    10: int(Colorspace.BT2020),
}
_LIMITED, _FULL = int(ColorRange.MPEG), int(ColorRange.JPEG)
_RANGES = {"rgb24": _FULL, "gray": _FULL, "yuv420p": _LIMITED}


def _to(
    reformatter: VideoReformatter, frame: VideoFrame, size: tuple[int, int], pixels: str
) -> VideoFrame:
    """The frame at another size, in other pixels, or in both."""
    source = frame.format.name
    matrix, to_matrix, range_, to_range = _colours(
        source, pixels, frame.colorspace, frame.color_range
    )
    # By position: names cost a microsecond a frame.
    return reformatter.reformat(
        frame, *size, pixels, matrix, to_matrix, _SCALING, range_, to_range, None, None, 1
    )


@cache
def _colours(source: str, pixels: str, space: int, told: int) -> tuple[int, int, int, int]:
    """Matrix and range of a frame that tells of itself ``space`` and ``told``, before and after.
    Plain integers, since PyAV takes three microseconds to look at an enum's value."""
    matrix = _MATRICES.get(int(space), _BT601)
    range_ = _FULL if source.startswith("yuvj") else int(told) or _LIMITED
    if pixels == source:
        return matrix, matrix, range_, range_
    return matrix, _BT601, range_, _RANGES[pixels]


def _cut(frame: VideoFrame, x: int, y: int, width: int, height: int) -> VideoFrame:
    """A region of an rgb24 frame, as a frame of its own."""
    pixels = cast(Buffer, frame.to_ndarray())
    region = np.ascontiguousarray(pixels[y : y + height, x : x + width])
    return VideoFrame.from_ndarray(region, format="rgb24")


def _copy_lines(frame: VideoFrame, corner: tuple[int, int], out: Buffer) -> None:
    """The crop of a packed frame into ``out`` [height, width, channels], line by line."""
    x, y = corner
    height, width, channels = out.shape
    plane = frame.planes[0]
    stride = plane.line_size
    begin = y * stride + x * channels
    cut = np.ndarray((height, width * channels), np.uint8, memoryview(plane), begin, (stride, 1))
    np.copyto(out.reshape(cut.shape), cut)


def _planes(frame: VideoFrame, corner: tuple[int, int], spec: ClipSpec) -> list[Buffer]:
    """The cropped planes of a frame in the spec's pixels, as views [height, width, channels]."""
    x, y = corner
    channels = 3 if spec.pixels == "rgb24" else 1
    planes = []
    for i, plane in enumerate(frame.planes):
        shrink = 2 if i else 1  # chroma of 4:2:0
        rows = np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)
        pixels = rows[:, : plane.width * channels].reshape(plane.height, plane.width, channels)
        top, left = y // shrink, x // shrink
        height, width = spec.height // shrink, spec.width // shrink
        planes.append(pixels[top : top + height, left : left + width])
    return planes


def _places(out: Buffer, spec: ClipSpec) -> list[Buffer]:
    """Where the planes go, as views [height, width, channels] of one frame of a clip."""
    if spec.pixels != "yuv420p":
        return [out]
    height, width = spec.height, spec.width
    luma, chroma = height * width, height * width // 4
    flat = out.reshape(-1)
    return [
        flat[:luma].reshape(height, width, 1),
        flat[luma : luma + chroma].reshape(height // 2, width // 2, 1),
        flat[luma + chroma :].reshape(height // 2, width // 2, 1),
    ]
