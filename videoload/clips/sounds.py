"""The sound of a clip: what a spec may ask for, and where it lies behind the pixels."""

from __future__ import annotations

from typing import Any, NamedTuple

from videoload.arguments import whole
from videoload.errors import SpecError

_LEAST, _MOST = 1_000, 384_000  # samples a second
_LAYOUTS = 2  # mono and stereo


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


class SoundPlaces(NamedTuple):
    """Where the bytes of ``video`` are in a row of ``length`` bytes, then those of ``sound``;
    ``flag`` is the byte that says whether the file has sound."""

    video: slice
    sound: slice
    flag: int
    length: int
