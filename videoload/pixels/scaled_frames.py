"""Scaled frames as bytes, for a disk."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from av.video.frame import VideoFrame

from videoload.pixels.chains import FrameFormat
from videoload.pixels.planes import Buffer, planes_of

_LAYOUT = struct.Struct("<II16sII")


class _Plane(NamedTuple):
    """Where a plane lies among the bytes of a frame."""

    begin: int
    end: int
    lines: int
    channels: int


def frame_bytes(scaled: FrameFormat) -> int:
    """The bytes that a scaled frame takes."""
    return _layout(*scaled[:3])[-1].end


def pack_frame(frame: VideoFrame, row: Buffer) -> None:
    """The bytes of a scaled frame, into ``row`` [frame_bytes]."""
    layout = _layout(frame.width, frame.height, frame.format.name)
    for (begin, end, lines, _), (plane,) in zip(layout, planes_of(frame), strict=True):
        row[begin:end].reshape(lines, -1)[...] = plane.reshape(lines, -1)


def unpack_frames(rows: Buffer, scaled: FrameFormat) -> list[Buffer]:
    """The planes [n, height, width, channels] of scaled frames [n, frame_bytes]."""
    return [
        rows[:, begin:end].reshape(len(rows), lines, -1, channels)
        for begin, end, lines, channels in _layout(*scaled[:3])
    ]


@lru_cache(64)
def _layout(width: int, height: int, pixels: str) -> list[_Plane]:
    channels = 3 if pixels == "rgb24" else 1
    luma = width * height * channels
    planes = [_Plane(0, luma, height, channels)]
    if pixels not in ("rgb24", "gray"):
        lines, half = -(-height // 2), -(-height // 2) * -(-width // 2)
        planes += [_Plane(luma + i * half, luma + (i + 1) * half, lines, 1) for i in range(2)]
    return planes


def pack_format(source: FrameFormat) -> bytes:
    """A frame's format as bytes."""
    width, height, name, space, range_ = source
    return _LAYOUT.pack(width, height, name.encode(), space, range_)


def unpack_format(data: bytes) -> FrameFormat:
    """The reverse of `pack_format`. Raises struct.error, UnicodeError."""
    width, height, name, space, range_ = _LAYOUT.unpack(data)
    return FrameFormat(width, height, name.rstrip(b"\0").decode(), space, range_)
