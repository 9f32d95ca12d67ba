"""Clips with the sound of their own time: the pixels first, and then the sound behind them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from fractions import Fraction

import numpy as np

from videoload.clips.clip_spec import ClipSpec, heard_shape, samples_of, silent, sound_places
from videoload.decoding.prepared import Made, Make, OtherFileError, renewing
from videoload.errors import OneClipError, VideoError
from videoload.pixels.planes import Buffer
from videoload.reading.containers import BrokenFileError
from videoload.sound.reader import SoundReader, Wanted
from videoload.sound.resampling import Samples
from videoload.sound.track import NotSoughtError, Track, UndecodableError
from videoload.storage.files import Storage, Tick, VideoFile

_US = 1_000_000


class Sounds:
    """The sound of the files below a root."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._reader = SoundReader()

    def hear(self, path: str, tick: Tick, begin: Fraction, wanted: Wanted) -> Samples | None:
        """The sound of a file from ``begin`` on, in seconds of its container; None if it has none.
        Raises VideoError, StorageError."""

        def read() -> Samples | None:
            try:
                return self._read(self._storage.resolve(path), begin, wanted, tick)
            except UndecodableError as error:
                raise OneClipError(path, str(error)) from None
            except BrokenFileError as error:
                raise VideoError(path, str(error)) from None

        return self._storage.run(path, read, tick)

    def codec(self, path: str, tick: Tick) -> str:
        """As `Decoder.sound`."""

        def find() -> str:
            try:
                with closing(Track(self._storage.resolve(path), tick)) as track:
                    return track.codec
            except BrokenFileError:
                return "unknown"

        return self._storage.run(path, find, tick)

    def _read(self, file: VideoFile, begin: Fraction, wanted: Wanted, tick: Tick) -> Samples | None:
        try:
            with closing(Track(file, tick)) as track:
                return self._reader.read(track, begin, wanted)
        except NotSoughtError:
            with closing(Track(file, tick)) as track:
                return self._reader.read(track, begin, wanted, seek=False)


def prepare_with_sound(
    path: str,
    spec: ClipSpec,
    out: Buffer,
    prepare: Callable[[ClipSpec, Buffer], Make],
    hear: Callable[[Tick, Fraction, Wanted], Samples | None],
    version: Callable[[], int],
    *,
    is_part: bool,
) -> Make:
    """Prepare clips of a file into ``out``: the pixels first, and then the sound behind them.
    ``prepare`` is called with the spec without sound, and where its pixels go: into one block of
    memory. ``hear`` returns the sound from a moment of the container on; None if there is none.
    ``version`` tells whether the file was replaced between the two: then both are read once more;
    of a part of samples, raises OtherFileError."""
    rows, places = out.reshape(-1, spec.clip_bytes), sound_places(spec)
    pixels = rows[:, places.video]
    if len(rows) > 1:
        pixels = np.empty(pixels.shape, np.uint8)
    begun: list[tuple[int, Make]] = []

    def prepare_both() -> None:
        begun[:] = [(version(), prepare(silent(spec), pixels))]

    def make_both(tick: Tick) -> Made:
        ((before, make),) = begun
        made = make(tick)
        if len(rows) > 1:
            rows[:, places.video] = pixels
        assert made.info is not None
        begins = made.info.begins
        if begins is None:
            raise VideoError(path, "does not say when its frames are shown beside its sound")
        assert spec.fps is not None
        shown = made.frames.reshape(len(rows), spec.views, -1)
        at = (shown >= 0).argmax(-1, keepdims=True)  # those before lie beyond the beginning
        firsts = made.info.times_of(np.take_along_axis(shown, at, -1)) - at / spec.fps
        wanted = Wanted(spec.sound or 0, spec.sound_channels, heard_shape(spec)[-1])
        lengths = np.count_nonzero(shown >= 0, axis=-1)
        for row, times, own in zip(rows, firsts[:, :, 0].tolist(), lengths.tolist(), strict=True):
            sound = row[places.sound].view(np.float32)
            sound = sound.reshape(spec.views, wanted.channels, wanted.samples)
            for view, seconds, length in zip(sound, times, own, strict=True):
                heard = hear(tick, begins + Fraction(round(seconds * _US), _US), wanted)
                view[...] = 0.0 if heard is None else heard
                if spec.max_frames is not None:  # what follows a segment is not heard in padding
                    view[:, samples_of(spec, length) :] = 0.0
                row[places.flag] = heard is not None
        if version() != before:
            raise OtherFileError
        return made

    if is_part:
        prepare_both()
        return make_both
    return renewing(path, prepare_both, make_both)
