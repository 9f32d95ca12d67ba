"""The properties of a video that decide its clips."""

from __future__ import annotations

from array import array
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from videoload.clips.clip_spec import ClipSpec

if TYPE_CHECKING:
    Doubles = array[float]
else:  # msgspec looks at it, and this class takes no parameter yet
    Doubles = array


class VideoInfo(NamedTuple):
    """The metadata of a video that its clips depend on.

    ``num_frames`` is the true frame count; ``fps`` the (mean) frames per second, 0 if unknown;
    ``width`` and ``height`` are in pixels, as stored, without the cropped borders: ``cut`` pixels
    at the left, top, right and bottom edge. For display, a frame is rotated clockwise
    ``quarter_turns`` times by 90 degrees, and then flipped horizontally if ``mirrored``. If the
    frames have uneven intervals, ``times`` has the time of each, in seconds from the first.
    ``begin_stream_s`` is when the first is shown, in seconds of the container, as its audio; None
    if unknown. ``pixel_aspect_ratio`` is the width of a stored pixel by its height, as players show
    it. ``late`` is how many seconds after the beginning of the file the first frame is shown.
    ``keys``: the frames at which decoding can begin, int64, increasing, including the first one;
    None: all.
    """

    num_frames: int
    fps: Fraction
    width: int
    height: int
    quarter_turns: int = 0
    mirrored: bool = False
    times: Doubles | None = None
    cut: tuple[int, int, int, int] = (0, 0, 0, 0)
    begin_stream_s: Fraction | None = Fraction()
    pixel_aspect_ratio: Fraction = Fraction(1)
    late: Fraction = Fraction()
    keys: bytes | None = None

    @property
    def key_frames(self) -> npt.NDArray[np.int64]:
        """The frames at which decoding can begin."""
        return (
            np.arange(self.num_frames) if self.keys is None else np.frombuffer(self.keys, np.int64)
        )

    @property
    def coded_size(self) -> tuple[int, int]:
        """(width, height) of the frames that the decoder gives."""
        left, top, right, bottom = self.cut
        return left + self.width + right, top + self.height + bottom

    def times_of(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return when a player shows these frames, in seconds from the video's first; NaN if
        unknown, and for a number below 0."""
        if self.times is not None:
            times = np.frombuffer(self.times)[np.maximum(frames, 0)]
        else:
            times = frames / (float(self.fps) or np.nan)
        return np.where(frames < 0, np.nan, times)

    def late_s(self, spec: ClipSpec) -> float:
        """Return the moment of the first frame, as the spec counts the seconds of rows."""
        return float(self.late) if spec.seconds == "file" else 0.0

    @property
    def file_summary(self) -> tuple[int, float, float]:
        """Return the number of frames, the end of the last one in seconds (NaN if unknown), and
        their display aspect ratio."""
        across, down = self.pixel_aspect_ratio.as_integer_ratio()
        shape = (across * self.width / (down * self.height)) ** (
            -1 if self.quarter_turns % 2 else 1
        )
        if self.times is None or self.num_frames < 2:
            return self.num_frames, self.num_frames / (float(self.fps) or np.nan), shape
        return self.num_frames, self.times[-1] * self.num_frames / (self.num_frames - 1), shape

    def shown_size(self, spec: ClipSpec) -> tuple[int, int]:
        """Return (width, height) of the frames that the spec crops."""
        width, height = self.width, self.height
        return (height, width) if spec.rotate and self.quarter_turns % 2 else (width, height)

    def displayed_size(self, spec: ClipSpec) -> tuple[int, int]:
        """Return (width, height) of the frames as a player shows them: `shown_size`, with the
        longer side of non-square pixels stretched."""
        width, height = self.width, self.height
        if self.pixel_aspect_ratio > 1:
            width = round(width * self.pixel_aspect_ratio)
        else:
            height = round(height / self.pixel_aspect_ratio)
        return (height, width) if spec.rotate and self.quarter_turns % 2 else (width, height)

    def to_bytes(self) -> bytes:
        """Return the properties as bytes, for the disk."""
        return msgspec.msgpack.encode(self, enc_hook=as_plain)

    @classmethod
    def from_bytes(cls, data: bytes) -> VideoInfo:
        """Reverse `to_bytes`. Raises ValueError if `to_bytes` did not make
        ``data``."""
        try:
            return _DECODER.decode(data)
        except msgspec.MsgspecError as error:
            raise ValueError(f"no video's properties: {error}") from None


def as_plain(value: Any) -> Any:
    """Return a plain value for a fraction, or for an array of any kind."""
    if isinstance(value, Fraction):
        return value.as_integer_ratio()
    return value.tobytes() if isinstance(value, array) else (value.dtype.str, value.tobytes())


def from_plain(kind: Any, value: Any) -> Any:
    """Reverse `as_plain`. Raises TypeError or ValueError, which msgspec converts to its own
    error."""
    try:
        if kind is Fraction:
            return Fraction(*value)
        if isinstance(value, bytes):
            return array("d", value)
        if (dtype := np.dtype(value[0])).kind not in "iu":
            raise ValueError(f"numbers of {dtype}")
        return np.frombuffer(value[1], dtype)
    except (ArithmeticError, LookupError) as error:
        raise ValueError(str(error)) from None


_DECODER = msgspec.msgpack.Decoder(VideoInfo, dec_hook=from_plain)
