"""The sound of a clip as an array: decoded around it, and resampled as a part of the whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from av.audio.frame import AudioFrame
from cachetools import LRUCache

from videoload.reading.containers import UnreadableError
from videoload.sound.resampling import Resampler, Samples, floats, limited, mixed
from videoload.sound.timeline import first_sample, stretch
from videoload.sound.track import Track
from videoload.storage.files import Tick

_RESAMPLERS = 8  # that go on from one clip to the next, 0.1 MB each
_TYPES = {"u8": "u1", "s16": "i2", "s32": "i4", "s64": "i8", "flt": "f4", "dbl": "f8"}
# FFmpeg's guess if a file does not say where its channels belong.
_LAYOUTS = ("mono", "stereo", "2.1", "4.0", "5.0", "5.1", "6.1", "7.1")


class Wanted(NamedTuple):
    """The sound of a clip: ``samples`` samples with ``channels`` channels, ``rate`` a second."""

    rate: int
    channels: int
    samples: int


class SoundReader:
    """Reads the sound of clips, in one thread."""

    def __init__(self) -> None:
        self._resamplers: LRUCache[tuple[str, int, int, int], Resampler] = LRUCache(_RESAMPLERS)

    def read(
        self, track: Track, begin: Fraction, wanted: Wanted, tick: Tick, *,
        seek: bool = True,
    ) -> Samples | None:  # fmt: skip
        """The sound from ``begin`` on, in seconds of the container, float32 [channels, samples];
        None if the file has no sound. Without ``seek``, all that comes before is read. Raises
        UnreadableError, NotSoughtError."""
        if not track.has_sound:
            return None
        end = begin + Fraction(wanted.samples, wanted.rate)
        with closing(track.decode(begin, end, tick, seek=seek)) as pieces:
            if (piece := next(pieces, None)) is None:
                return np.zeros((wanted.channels, wanted.samples), np.float32)
            first = first_sample(begin, wanted.rate)
            return limited(self._resampled(track, piece, pieces, first, wanted))

    def _resampled(
        self, track: Track, piece: AudioFrame, others: Iterator[AudioFrame], first: int,
        wanted: Wanted,
    ) -> Samples:  # fmt: skip
        """The samples from number ``first`` on, of the pieces around them."""
        form = _form(piece)
        rate, channels, kind = form
        part = stretch(first, wanted.samples, wanted.rate, rate)
        silence = 128 if kind.startswith("u8") else 0
        whole = np.full((channels, part.length), silence, _TYPES[kind.removesuffix("p")])
        placing = track.placing(rate)
        for decoded in chain((piece,), others):
            if _form(decoded) != form:
                continue  # a track that changes is silent from there on
            at = placing.begin(decoded.pts, decoded.samples)
            if at is None:
                continue
            if at >= part.end:
                break
            low, high = max(at, part.begin), min(at + decoded.samples, part.end)
            if low < high:
                _write(decoded, low - at, whole[:, low - part.first : high - part.first])
        sound = mixed(floats(whole[track.order], silence), wanted.channels)
        if len(sound) == wanted.channels and rate == wanted.rate:
            return sound[:, part.skip : part.skip + wanted.samples]
        how = _layout(piece, len(sound)), rate, wanted.channels, wanted.rate
        resample = self._resamplers.pop(how, None) or Resampler(*how)
        made = resample(sound, part.skip, wanted.samples)
        self._resamplers[how] = resample  # one that raises an error is not used again
        return made


def _form(piece: AudioFrame) -> tuple[int, int, str]:
    """Samples a second, channels, and the format of a sample."""
    return piece.sample_rate, piece.layout.nb_channels, piece.format.name


def _write(piece: AudioFrame, begin: int, out: npt.NDArray[Any]) -> None:
    """Write samples of a piece, from number ``begin`` on. Reads its memory: ``to_ndarray`` takes as
    long as to decode it."""
    channels, end = len(out), begin + out.shape[1]
    planes = cast(Any, piece.planes)[:channels]  # PyAV tells one too many for eight
    if piece.format.is_packed:
        flat = np.frombuffer(planes[0], out.dtype, piece.samples * channels)
        out[:] = flat.reshape(-1, channels)[begin:end].T
    else:
        for plane, to in zip(planes, out, strict=True):
            to[:] = np.frombuffer(plane, out.dtype, piece.samples)[begin:end]


def _layout(piece: AudioFrame, channels: int) -> str:
    """FFmpeg's name for where so many channels of a piece belong. Raises UnreadableError."""
    if channels > 2 and not piece.layout.name.endswith("channels"):
        return piece.layout.name
    if channels > len(_LAYOUTS):
        raise UnreadableError(f"has sound with {channels} channels")
    return _LAYOUTS[channels - 1]
