"""The properties of a video that decide its clips."""

from __future__ import annotations

import struct
from array import array
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.clips.clip_spec import ClipSpec

_PACKED = struct.Struct("<QQQIIIII4HqQQ")


class VideoInfo(NamedTuple):
    """What a clip depends on.

    ``frames`` is the true frame count; ``fps`` the (mean) frames per second, 0 if the file does not
    say; ``width`` and ``height`` are in pixels, as stored, without what a player does not show:
    ``cut`` pixels at the left, top, right and bottom edge. For display, a frame is turned clockwise
    ``turns`` times by 90 degrees, and then mirrored left to right if ``mirrored``. ``aspect`` is
    the width of a pixel divided by its height. If the frames come at uneven distances, ``times``
    has the time of each, in seconds from the first. ``begins`` is when the first is shown, in
    seconds of the container, where its sound is; None if nothing tells.
    """

    frames: int
    fps: Fraction
    width: int
    height: int
    turns: int = 0
    aspect: Fraction = Fraction(1)
    mirrored: bool = False
    times: array[float] | None = None
    cut: tuple[int, int, int, int] = (0, 0, 0, 0)
    begins: Fraction | None = Fraction()

    @property
    def coded_size(self) -> tuple[int, int]:
        """(width, height) of the frames that the decoder gives."""
        left, top, right, bottom = self.cut
        return left + self.width + right, top + self.height + bottom

    def times_of(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """When a player shows these frames, in seconds from the video's first; NaN if the file does
        not say, and for a number below 0."""
        if self.times is not None:
            times = np.frombuffer(self.times)[np.maximum(frames, 0)]
        else:
            times = frames / (float(self.fps) or np.nan)
        return np.where(frames < 0, np.nan, times)

    @property
    def length(self) -> tuple[int, float]:
        """The number of frames, and when the last one is over, in seconds; NaN if the file does not
        say."""
        if self.times is None or self.frames < 2:
            return self.frames, self.frames / (float(self.fps) or np.nan)
        return self.frames, self.times[-1] * self.frames / (self.frames - 1)

    def rated(self, spec: ClipSpec) -> VideoInfo:
        """With the rate that the spec gives to sequences of images."""
        if spec.images_fps is None or self.fps:
            return self
        return self._replace(fps=Fraction(spec.images_fps).limit_denominator(1_000_000))

    def shown_size(self, spec: ClipSpec) -> tuple[int, int]:
        """(width, height) of the frames that the spec crops."""
        width = self.width
        if spec.square_pixels:
            width = max(1, round(width * self.aspect))
        return (self.height, width) if spec.rotate and self.turns % 2 else (width, self.height)

    def to_bytes(self) -> bytes:
        """The properties as bytes, for the disk."""
        turned, times = self.turns | self.mirrored << 2, self.times or array("d")
        begins = (0, 0) if self.begins is None else self.begins.as_integer_ratio()
        head = _PACKED.pack(
            self.frames, self.fps.numerator, self.fps.denominator, self.width, self.height, turned,
            self.aspect.numerator, self.aspect.denominator, *self.cut, *begins,
            len(times),
        )  # fmt: skip
        return head + times.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> VideoInfo:
        """The reverse of `to_bytes`. Raises ValueError if `to_bytes` did not make ``data``."""
        try:
            frames, rate, scale, width, height, turned, across, down, *cut, begins, of, timed = (
                _PACKED.unpack_from(data)
            )
        except struct.error as error:
            raise ValueError(f"no video's properties: {error}") from None
        sound = frames and scale and width and height and across and down and turned < 8
        if not sound or timed not in (0, frames) or len(data) != _PACKED.size + 8 * timed:
            raise ValueError("no video's properties: they do not add up")
        times = array("d", data[_PACKED.size :]) if timed else None
        fps, aspect = Fraction(rate, scale), Fraction(across, down)
        left, top, right, bottom = cut
        return cls(
            frames, fps, width, height, turned & 3, aspect, turned > 3, times,
            (left, top, right, bottom), Fraction(begins, of) if of else None,
        )  # fmt: skip
