"""Scaled frames as bytes, for a disk: their planes, one behind the other."""

from __future__ import annotations

from functools import lru_cache

from av.video.frame import VideoFrame

from videoload.decoding.conversions import FrameFormat
from videoload.decoding.planes import Buffer, planes_of


def frame_bytes(scaled: FrameFormat) -> int:
    """Return the bytes that a scaled frame takes."""
    return _layout(*scaled[:3])[-1][1]


def pack_frame(frame: VideoFrame, row: Buffer) -> None:
    """The bytes of a scaled frame, into ``row`` [frame_bytes]."""
    layout = _layout(frame.width, frame.height, frame.format.name)
    for (begin, end, shape), (plane,) in zip(layout, planes_of(frame), strict=True):
        row[begin:end].reshape(shape)[...] = plane


def unpack_frames(rows: Buffer, scaled: FrameFormat) -> list[Buffer]:
    """Return the planes [n, height, width, channels] of scaled frames [n, frame_bytes]."""
    layout = _layout(*scaled[:3])
    return [rows[:, begin:end].reshape(-1, *shape) for begin, end, shape in layout]


@lru_cache(64)
def _layout(width: int, height: int, pixels: str) -> list[tuple[int, int, tuple[int, int, int]]]:
    """Return the place of each plane in the bytes of a frame, and its shape."""
    halves, channels = (2, 2) if pixels.startswith("yuv") else (), 3 if pixels == "rgb24" else 1
    made, begin = [], 0
    for n in (1, *halves):
        shape = -(-height // n), -(-width // n), channels
        end = begin + shape[0] * shape[1] * channels
        made.append((begin, end, shape))
        begin = end
    return made


def pack_format(source: FrameFormat) -> bytes:
    """Return a frame's format as bytes."""
    return " ".join(map(str, source)).encode()


def unpack_format(data: bytes) -> FrameFormat:
    """Reverse `pack_format`. Raises ValueError."""
    width, height, pixels, space, range_ = data.decode().split()
    return FrameFormat(int(width), int(height), pixels, int(space), int(range_))
