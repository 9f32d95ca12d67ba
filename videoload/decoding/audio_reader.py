"""Read the audio of a clip as an array: decoded around the clip, and resampled as a part of the
whole."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from av.audio.frame import AudioFrame
from cachetools import LRUCache

from videoload.decoding.audio_resampling import Resampler, Samples, floats, limited, mixed
from videoload.decoding.audio_timeline import Stretch, first_sample, stretch
from videoload.decoding.audio_track import NotSoughtError, Track, UndecodableError
from videoload.reading.containers import BrokenFileError
from videoload.storage.files import Tick
from videoload.storage.video_file import VideoFile

_RESAMPLERS = 8  # that are reused for the next clip, 0.1 MB each
_TYPES = {"u8": "u1", "s16": "i2", "s32": "i4", "s64": "i8", "flt": "f4", "dbl": "f8"}
# FFmpeg's guess if a file has no channel layout.
_LAYOUTS = ("mono", "stereo", "2.1", "4.0", "5.0", "5.1", "6.1", "7.1")


class Wanted(NamedTuple):
    """The audio of a clip: ``samples`` samples with ``channels`` channels, ``rate`` a second."""

    rate: int
    channels: int
    samples: int


class AudioReader:
    """Reads the audio of clips, in one thread."""

    def __init__(self) -> None:
        self._resamplers: LRUCache[tuple[str, int, int, int], Resampler] = LRUCache(_RESAMPLERS)

    def read(self, file: VideoFile, begin: Fraction, wanted: Wanted, tick: Tick) -> Samples | None:
        """Return the audio of a file from ``begin`` on, in seconds of the container, float32
        [channels, samples]; None if it has none. Raises BrokenFileError, UndecodableError."""
        try:
            with closing(Track(file, tick)) as track:
                return self._read(track, begin, wanted, seek=True)
        except NotSoughtError:
            with closing(Track(file, tick)) as track:
                return self._read(track, begin, wanted, seek=False)

    def _read(self, track: Track, begin: Fraction, wanted: Wanted, *, seek: bool) -> Samples | None:
        """Read the audio. Without ``seek``, start at the beginning of the file. Raises
        NotSoughtError."""
        if not track.has_audio:
            return None
        end = begin + Fraction(wanted.samples, wanted.rate)
        with closing(track.decode(begin, end, seek=seek)) as pieces:
            rows = _rows(track, pieces, first_sample(begin, wanted.rate), wanted)
        if rows is None and seek:
            raise NotSoughtError
        if rows is None:
            raise UndecodableError("has audio without timestamps")
        made = [self._resampled(row, track.order, wanted) for row in rows]
        if not made:
            return np.zeros((wanted.channels, wanted.samples), np.float32)
        return limited(sum(made[1:], start=made[0]))

    def _resampled(self, row: _Row, order: list[int], wanted: Wanted) -> Samples:
        whole, part, form = row.samples, row.part, row.form
        if len(order) == len(whole):
            whole = whole[order]
        sound = mixed(floats(whole, form.silence), wanted.channels)
        if len(sound) == wanted.channels and form.rate == wanted.rate:
            return sound[:, part.skip : part.skip + wanted.samples]
        how = form.layout_of(len(sound)), form.rate, wanted.channels, wanted.rate
        resample = self._resamplers.pop(how, None) or Resampler(*how)
        made = resample(sound, part.skip, wanted.samples)
        self._resamplers[how] = resample  # one that raises an error is not used again
        return made


class _Form(NamedTuple):
    """Samples a second, where channels belong, how many there are, and the type of a sample."""

    rate: int
    layout: str
    channels: int
    kind: str

    @property
    def silence(self) -> int:
        """The sample that is silent."""
        return 128 if self.kind.startswith("u8") else 0

    def layout_of(self, channels: int) -> str:
        """FFmpeg's name for where so many channels belong. Raises BrokenFileError."""
        if channels > 2 and not self.layout.endswith("channels"):
            return self.layout
        if channels > len(_LAYOUTS):
            raise BrokenFileError(f"has audio with {channels} channels")
        return _LAYOUTS[channels - 1]


class _Row:
    """The samples of a track that a clip needs, as far as they have this form."""

    def __init__(self, form: _Form, part: Stretch) -> None:
        self.form, self.part = form, part
        kind = _TYPES[form.kind.removesuffix("p")]
        self.samples = np.full((form.channels, part.length), form.silence, kind)

    def write(self, piece: AudioFrame, at: int) -> None:
        """Write a piece that begins with sample number ``at``."""
        part = self.part
        low, high = max(at, part.begin), min(at + piece.samples, part.end)
        if low < high:
            _write(piece, low - at, self.samples[:, low - part.first : high - part.first])

    def end_at(self, seconds: Fraction) -> None:
        """Note that this form is silent from a moment on: there the track changes its form."""
        at = math.ceil(seconds * self.form.rate)
        self.samples[:, max(0, at - self.part.first) :] = self.form.silence


def _rows(
    track: Track, pieces: Iterator[AudioFrame], first: int, wanted: Wanted
) -> list[_Row] | None:
    """Return the samples of a track for a clip, from sample number ``first`` on at the rate of the
    clip: a row for each form; None if no piece has a timestamp. Raises UndecodableError."""
    rows: dict[_Form, _Row] = {}
    row, placing = None, track.placing(1)
    for piece in pieces:
        layout = piece.layout
        form = _Form(piece.sample_rate, layout.name, layout.nb_channels, piece.format.name)
        is_other = row is None or form != row.form
        if row is None or is_other:
            after = None
            if row is not None and placing.end is not None:
                after = Fraction(placing.end, row.form.rate)
            placing = track.placing(form.rate, after)
            part = stretch(first, wanted.samples, wanted.rate, form.rate)
            row = rows.setdefault(form, _Row(form, part))
        ended, at = placing.end, placing.begin(piece.pts, piece.samples)
        if at is None:
            continue
        if not track.has_gaps and ended is not None and at - ended > form.rate:
            raise UndecodableError(
                "is missing over a second of audio here, or has wrong timestamps"
            )
        if at >= row.part.end:
            break
        if is_other:
            for other in rows.values():
                if other is not row:
                    other.end_at(Fraction(at, form.rate))
        row.write(piece, at)
    return None if row is not None and placing.end is None else [*rows.values()]


def _write(piece: AudioFrame, begin: int, out: npt.NDArray[Any]) -> None:
    """Write samples of a piece, from number ``begin`` on. Reads its memory: ``to_ndarray`` takes as
    long as to decode it."""
    channels, end = len(out), begin + out.shape[1]
    planes = cast(Any, piece.planes)[:channels]  # PyAV reports one too many for eight
    if piece.format.is_packed:
        flat = np.frombuffer(planes[0], out.dtype, piece.samples * channels)
        out[:] = flat.reshape(-1, channels)[begin:end].T
    else:
        for plane, to in zip(planes, out, strict=True):
            to[:] = np.frombuffer(plane, out.dtype, piece.samples)[begin:end]
