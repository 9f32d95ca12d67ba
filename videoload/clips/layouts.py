"""The shape and type of a sample's array, and of the audio after its pixels.

In a slot and in a message, samples are rows of bytes, one after the other. An array is a view of
them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.arguments import whole
from videoload.errors import SpecError

_ALIGNED = 64  # bytes: where an array begins
_KINDS = "biufc"  # bool, integers, floats, complex: nothing that refers to other memory
_LEAST_RATE, _MOST_RATE = 1_000, 384_000  # samples a second
_CHANNELS = 2  # mono and stereo


def checked_output(output: Any, transform: object) -> tuple[tuple[int, ...], str]:
    """Return the (shape, type) of a ``transform``'s result, with NumPy's name of the type. Raises
    SpecError."""
    if transform is None:
        raise SpecError("output is what a transform returns: give transform")
    if not isinstance(output, tuple | list) or len(output) != 2:
        raise SpecError(f"output must be (shape, type), got {output!r}")
    shape, dtype = output
    if not isinstance(shape, tuple | list):
        raise SpecError(f"output[0] must be a tuple of lengths, got {shape!r}")
    try:
        found = np.dtype(dtype)
    except Exception:  # it parses strings, and does not only raise TypeError
        found = None
    if found is None or found.kind not in _KINDS or not found.isnative or dtype is None:
        raise SpecError(
            "output[1] must be the name of a NumPy type of booleans, integers, floats or complex "
            f"numbers, got {dtype!r}"
        )
    return tuple(whole("output[0]", length) for length in shape), str(found.name)


def array_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Return bytes of an array."""
    return math.prod(shape) * np.dtype(dtype).itemsize


def aligned(length: int) -> int:
    """Return where the next array begins, behind so many bytes."""
    return -(-length // _ALIGNED) * _ALIGNED


def as_arrays(rows: npt.NDArray[np.uint8], shape: tuple[int, ...], dtype: str) -> npt.NDArray[Any]:
    """Return a view of rows of bytes, uint8 [..., bytes] and contiguous, as arrays [...,
    *shape]."""
    return rows.view(dtype).reshape((*rows.shape[:-1], *shape))


def checked_audio(rate: Any, channels: Any, fps: float | None) -> dict[str, int | None]:
    """Return ``audio_rate`` and ``audio_channels`` of a spec. Raises SpecError."""
    channels = whole("audio_channels", channels, 1, _CHANNELS)
    if rate is None:
        if channels != 1:
            raise SpecError(
                "audio_channels needs audio_rate=, samples a second: give audio_rate=16000"
            )
        return {"audio_rate": None, "audio_channels": 1}
    if fps is None:
        raise SpecError(
            "audio_rate needs fps, so that the clips of all files last equally long: give "
            "fps=12.5, frames a second, and neither stride nor span"
        )
    return {
        "audio_rate": whole("audio_rate", rate, _LEAST_RATE, _MOST_RATE),
        "audio_channels": channels,
    }


class AudioLayout(NamedTuple):
    """The places of ``video`` and ``sound`` in a row of ``length`` bytes; the byte ``flag`` is 1 if
    the file has audio."""

    video: slice
    audio: slice
    flag: int
    length: int
