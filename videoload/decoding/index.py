"""What is known of a video file: how many frames, in which order, and where decoding can start.

**Frame i is the i-th picture in display order: the i-th frame that a complete sequential decode
outputs.** Headers lie about it, and so do time stamps. Where container index, packet sizes and
picture headers prove that every coded picture gives one frame (`picture_headers`), they tell, and
nothing is decoded: an index takes a fraction of a millisecond, and whoever opens a file makes it.
Where they prove nothing, one complete decode tells, and a checksum of every frame is kept with it.

An index is a function of the file's bytes alone.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

import av
import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame
from av.video.plane import VideoPlane

from videoload.decoding.open_files import OpenedVideo
from videoload.decoding.packets import read_packets
from videoload.spec.clips import VideoInfo

Tick = Callable[[], None]
Ints = npt.NDArray[np.int64]

_LINES = 8  # every so many are looked at to know a frame again
_HEADER = struct.Struct("<QQQIIQ")


class KeyFrame(NamedTuple):
    """Where decoding can start: the frame that comes out first, the number, dts and position of its
    packet."""

    ordinal: int
    packet: int
    time: int
    position: int


class VideoIndex:
    """``info`` of a video and where decoding can start: ``keyframes`` int64 rows of `KeyFrame`.

    Of a video whose pictures are proven, ``ordinals`` and ``reordered`` are as in `Pictures`. Of
    one that had to be decoded, ``sums`` is a checksum for each frame, int64 [frames].
    """

    def __init__(
        self,
        info: VideoInfo,
        keyframes: Ints,
        *,
        ordinals: Ints | None = None,
        reordered: bool = False,
        sums: Ints | None = None,
    ) -> None:
        self.info = info
        self.keyframes = keyframes
        self.ordinals = ordinals
        self.reordered = reordered
        self.sums = sums
        self._starts: list[int] = keyframes[:, 0].tolist()

    @property
    def is_proven(self) -> bool:
        """Whether nothing was decoded for this index."""
        return self.sums is None

    @property
    def gives_a_frame_a_packet(self) -> bool:
        """Whether each packet brings one frame, that of its own picture."""
        return self.is_proven and self.ordinals is None and not self.reordered

    def keyframe_before(self, ordinal: int) -> KeyFrame | None:
        """The last place to start at, at or before a frame."""
        at = bisect_right(self._starts, ordinal) - 1
        return None if at < 0 else KeyFrame(*self.keyframes[at].tolist())

    @property
    def memory_bytes(self) -> int:
        """What it costs to keep, with what Python adds."""
        arrays = (self.keyframes, self.ordinals, self.sums)
        return 1000 + 8 * len(self._starts) + sum(a.nbytes for a in arrays if a is not None)

    def to_bytes(self) -> bytes:
        """An index that a complete decode made, to be kept. Raises ValueError for another."""
        if self.sums is None:
            raise ValueError("a proven index is made again, not kept")
        info = self.info
        header = _HEADER.pack(
            info.frames, info.fps.numerator, info.fps.denominator, info.width, info.height,
            len(self.keyframes),
        )  # fmt: skip
        return header + self.keyframes.tobytes() + self.sums.astype(np.uint32).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> VideoIndex:
        """Raises ValueError for what `to_bytes` cannot have made."""
        try:
            frames, rate, scale, width, height, count = _HEADER.unpack_from(data)
        except struct.error as error:
            raise ValueError(f"not an index: {error}") from None
        ends = _HEADER.size + 32 * count
        if not (frames and scale and width and height) or len(data) != ends + 4 * frames:
            raise ValueError("not an index: its lengths do not add up")
        keyframes = np.frombuffer(data, np.int64, 4 * count, _HEADER.size).reshape(count, 4)
        sums = np.frombuffer(data, np.uint32, frames, ends).astype(np.int64)
        return cls(VideoInfo(frames, Fraction(rate, scale), width, height), keyframes, sums=sums)


def prove_index(opened: OpenedVideo, tick: Tick) -> VideoIndex | None:
    """The index of a file that was just opened, if it can be told without decoding."""
    table = read_packets(opened, tick)
    pictures, codec = table.pictures, opened.codec
    # A palette may come with any packet: a seek would lose it.
    if pictures is None or codec.pix_fmt in (None, "pal8") or not (codec.width and codec.height):
        return None
    packets = pictures.starts
    ordinals = packets if pictures.ordinals is None else pictures.ordinals[packets]
    rows = np.array((ordinals, packets, table.times[packets], table.positions[packets])).T.copy()
    info = VideoInfo(pictures.frames, frame_rate(opened), codec.width, codec.height)
    return VideoIndex(
        info, rows[rows[:, 3] >= 0],
        ordinals=pictures.ordinals, reordered=pictures.reordered,
    )  # fmt: skip


def frame_rate(opened: OpenedVideo) -> Fraction:
    """Frames a second, as the container says; 0 if it does not."""
    return Fraction(opened.stream.average_rate or opened.stream.guessed_rate or 0)


def checksum(frame: VideoFrame) -> int:
    """The CRC of every eighth line of the first plane (and of the palette): enough to tell a frame
    from its neighbours, and from one that was decoded without what it refers to, since what refers
    to other frames does so in blocks of eight lines or more."""
    plane = VideoPlane(frame, 0)  # `frame.planes` makes all three
    pixels = frame.format.name
    shape, strides = _lines(pixels, plane.width, plane.height, abs(plane.line_size))
    total = crc32(np.ndarray(shape, np.uint8, memoryview(plane), 0, strides).tobytes())
    return crc32(frame.planes[1], total) if pixels == "pal8" else total


@lru_cache(256)
def _lines(
    pixels: str, width: int, height: int, stride: int
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Shape and strides of what `checksum` looks at, in bytes of the first plane."""
    layout = av.VideoFormat(pixels)
    bits = layout.padded_bits_per_pixel
    if layout.is_planar:
        bits = 16 if layout.components[0].bits > 8 else 8
    used = width * bits // 8  # the rest of a line may hold anything
    return (-(-height // _LINES), used), (_LINES * stride, 1)
