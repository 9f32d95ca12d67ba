"""The sound of a clip: how many samples it has, and where they lie behind its pixels.

In a row of bytes, the pixels come first, then the samples, then one byte that says whether the file
has sound.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.arguments import whole
from videoload.clips.layouts import as_arrays
from videoload.errors import SpecError

_LEAST, _MOST = 1_000, 384_000  # samples a second
_LAYOUTS = 2  # mono and stereo
_ALIGNED = 64  # bytes: where an array begins


def checked_sound(rate: Any, channels: Any, fps: float | None) -> dict[str, int | None]:
    """``sound`` and ``sound_channels`` of a spec. Raises SpecError."""
    channels = whole("sound_channels", channels, 1, _LAYOUTS)
    if rate is None:
        if channels != 1:
            raise SpecError("sound_channels is for sound: give sound=16000, samples a second")
        return {"sound": None, "sound_channels": 1}
    if fps is None:
        raise SpecError(
            "sound needs fps, so that the clips of all files last equally long: give fps=12.5, "
            "frames a second, and neither stride nor span"
        )
    return {"sound": whole("sound", rate, _LEAST, _MOST), "sound_channels": channels}


def sound_shape(
    views: int, channels: int, frames: int, fps: float | None, rate: int | None
) -> tuple[int, ...]:
    """Shape of the sound of a sample."""
    each = Fraction(fps or 1).limit_denominator(1_000_000)  # as the frames are counted
    shape = (*(() if channels == 1 else (channels,)), max(1, round(frames * (rate or 1) / each)))
    return shape if views == 1 else (views, *shape)


class SoundPlaces(NamedTuple):
    """Where the bytes of ``video`` and ``sound`` are in a row of ``length`` bytes; ``told`` is the
    byte that says whether the file has sound."""

    video: slice
    sound: slice
    told: int
    length: int

    @classmethod
    def of(cls, video_bytes: int, sound_bytes: int) -> SoundPlaces:
        """The places for so many bytes."""
        begin = _aligned(video_bytes)
        told = _aligned(begin + sound_bytes)
        return cls(slice(video_bytes), slice(begin, begin + sound_bytes), told, told + _ALIGNED)

    def arrays(
        self,
        rows: npt.NDArray[np.uint8],
        shape: Mapping[str, tuple[int, ...]],
        dtype: Mapping[str, str],
    ) -> dict[str, npt.NDArray[Any]]:
        """The arrays of rows of bytes, [..., length], as views."""
        parts = {"video": rows[..., self.video], "sound": rows[..., self.sound]}
        return {name: as_arrays(parts[name], shape[name], dtype[name]) for name in parts}


def _aligned(length: int) -> int:
    return -(-length // _ALIGNED) * _ALIGNED
