"""The clips of one row, in one pass over its files.

    opened      a source for each part of the row: a file, pieces, or stored frames
    drawn       the frames and crop of each clip; pure
    prefetched  the needed bytes are requested
    decoded     demux -> decode -> convert -> write
    audio       the audio of the same time
    transformed by the user's function
    described   the metadata

All parts are opened before the first is decoded, so that files from other hosts are on their way.
Each clip is written where it stays: a part of a row of ``out``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.clips.clip_params import ClipParams, seed_of
from videoload.clips.clip_spec import (
    ClipSpec,
    audio_layout,
    audio_shape,
    clip_shape,
    decoded_dtype,
    decoded_shape,
    is_padded,
    samples_of,
    silent,
)
from videoload.clips.layouts import array_bytes, as_arrays
from videoload.clips.rows import Clip
from videoload.clips.sample_spec import SampleSpec
from videoload.decoding.audio_reader import Wanted
from videoload.decoding.drawn import DecodedClips, draw, fitting, in_part, parts_in
from videoload.decoding.functions import Functions, UserFunction, apply
from videoload.decoding.planes import Buffer
from videoload.decoding.source import DecodingTools, Source
from videoload.errors import FileReplacedError, VideoError, errors_of
from videoload.storage.files import Tick, retry_if_replaced, version_of
from videoload.storage.paths import pieces_of

_US = 1_000_000


class Part(NamedTuple):
    """One of the videos that a sample consists of; or the only one.

    Attributes:
        spec: Of its clips.
        rows: The bytes of its clips in ``out``, uint8 [n, spec.clip_bytes].
        source: The video, open.
        params: What each view of each clip shows.
        clips: Where each of them is decoded to.
        function: The user's, if there is one.
    """

    spec: ClipSpec
    rows: Buffer
    source: Source
    params: list[ClipParams]
    clips: list[Buffer]
    function: UserFunction | None


class OnePass:
    """Clips of a row. They are begun and finished, so that those of several rows can be begun
    together. Both raise VideoError, StorageError, TransformError."""

    def __init__(
        self,
        tools: DecodingTools,
        functions: Functions,
        path: str,
        spec: SampleSpec,
        clips: Sequence[Clip],
        out: Buffer,
    ) -> None:
        """Clips are written into the rows of ``out``, uint8 [n, spec.clip_bytes]."""
        self._tools, self._functions, self._path = tools, functions, path
        self._spec, self._clips, self._out = spec, clips, out
        self._parts: dict[str, Part] = {}  # while they are open

    def begin(self, tick: Tick) -> None:
        """Open, draw and prefetch."""
        with errors_of(self._path), suppress(FileReplacedError):  # `finish` begins again
            self._parts = self._open(tick)

    def finish(self, tick: Tick = lambda: None) -> DecodedClips:
        """Write the clips; if a file was replaced since they were begun, all of it once more.
        Returns what is known of them."""
        with errors_of(self._path):
            return retry_if_replaced(self._path, lambda: self._decode(tick))

    def _open(self, tick: Tick) -> dict[str, Part]:
        """Open the parts, and draw and prefetch their clips. Raises FileReplacedError as well."""
        path, tools, clips, out = self._path, self._tools, self._clips, self._out
        self._paths, spec = parts_in(path, self._spec)
        rows = {"": out.reshape(len(clips), -1)}
        if "" not in spec.clips:
            rows = {name: out[:, place] for name, place in spec.places.items()}
        found = {
            name: None if own.transform is None else self._functions.find(str(own.transform))
            for name, own in spec.clips.items()
        }
        sources: dict[str, Source] = {}
        for name, own in spec.clips.items():
            with self._in_part(name):
                sources[name] = Source(tools, self._paths[name], silent(own), tick)
        with fitting(path):
            drawn = draw(spec, {name: each.info for name, each in sources.items()}, clips)
        self._frames, self._times = drawn.frames, drawn.times
        parts: dict[str, Part] = {}
        for name, own in spec.clips.items():
            places, params = _decoded_to(own, rows[name]), drawn.params[name]
            with self._in_part(name):
                sources[name].prefetch(params, places, tick)
            parts[name] = Part(own, rows[name], sources[name], params, places, found[name])
        return parts

    def _decode(self, tick: Tick) -> DecodedClips:
        by_name, self._parts = self._parts or self._open(tick), {}
        for name, part in by_name.items():
            with self._in_part(name):
                part.source.read(tick)
        for name, part in by_name.items():
            if part.spec.audio_rate:
                with self._in_part(name):
                    _read_audio(part, tick)
        for name, part in by_name.items():
            if part.function is not None:
                with self._tools.watch.phase("transform"):
                    self._apply(self._paths[name], part, part.function, tick)
        parts = list(by_name.values())
        files = [file for part in parts for file in part.source.files]
        params = [  # sample after sample
            each
            for at in range(len(self._clips))
            for part in parts
            for each in part.params[at * part.spec.views : (at + 1) * part.spec.views]
        ]
        is_one_file = "" in by_name and len(pieces_of(self._path)) == 1
        return DecodedClips(
            self._frames, parts[0].source.info, params, self._times,
            from_frame_store=all(file.from_frame_store for file in files),
            frame_store_full=any(file.frame_store_full for file in files),
            version=version_of(files[0].file) if is_one_file else None,
        )  # fmt: skip

    def _in_part(self, name: str) -> AbstractContextManager[None]:
        return in_part(self._path, name, self._paths[name])

    def _apply(self, path: str, part: Part, function: UserFunction, tick: Tick) -> None:
        """Let the user's function change the clips of a part, or make something else of them."""
        spec, seeds = silent(part.spec), (clip.seed for clip in self._clips)
        returned = _returned_to(spec, part.rows)
        own = [seed_of(seed, view) for seed in seeds for view in range(spec.views)]
        for seed, clip, place in zip(own, part.clips, returned, strict=True):
            tick()
            apply(function, spec, path, clip, place, seed)


def _decoded_to(spec: ClipSpec, rows: Buffer) -> list[Buffer]:
    """Return where each view of each clip is decoded: in its row, unless the user's function
    returns another form."""
    shape, dtype = decoded_shape(spec), decoded_dtype(spec)
    if spec.output is not None:
        rows = np.empty((len(rows), spec.views * array_bytes(shape, dtype)), np.uint8)
    elif spec.audio_rate is not None:
        rows = rows[:, audio_layout(spec).video]
    if spec.views == 1:
        return [as_arrays(row, shape, dtype) for row in rows]
    return [clip for row in rows for clip in as_arrays(row.reshape(spec.views, -1), shape, dtype)]


def _returned_to(spec: ClipSpec, rows: Buffer) -> list[npt.NDArray[Any]]:
    """Return where the result of the user's function for each view of each clip is written."""
    pixels = rows[:, : spec.clip_bytes]
    arrays = [as_arrays(row, (spec.views, *clip_shape(spec)), spec.dtype) for row in pixels]
    return [array[view, ...] for array in arrays for view in range(spec.views)]


def _read_audio(part: Part, tick: Tick) -> None:
    """Write the audio of the time that the clips show behind their pixels."""
    spec, source, places = part.spec, part.source, audio_layout(part.spec)
    begins = source.info.begin_stream_s
    if begins is None:
        raise VideoError(source.path, "has no timestamps to align audio with video")
    assert spec.fps is not None
    shown = np.array([each.frame_indices for each in part.params]).reshape(
        len(part.rows), spec.views, -1
    )
    at = (shown >= 0).argmax(-1, keepdims=True)  # those before lie beyond the beginning
    firsts = source.info.times_of(np.take_along_axis(shown, at, -1)) - at / spec.fps
    wanted = Wanted(spec.audio_rate or 0, spec.audio_channels, audio_shape(spec)[-1])
    lengths = np.count_nonzero(shown >= 0, axis=-1)
    for row, times, own in zip(part.rows, firsts[:, :, 0].tolist(), lengths.tolist(), strict=True):
        audio = row[places.audio].view(np.float32)
        audio = audio.reshape(spec.views, wanted.channels, wanted.samples)
        for view, seconds, length in zip(audio, times, own, strict=True):
            begin = begins + Fraction(round(seconds * _US), _US)
            found = source.read_audio(begin, wanted, tick)
            view[...] = 0.0 if found is None else found
            if is_padded(spec):  # padding is silent, without audio after the segment
                view[:, samples_of(spec, length) :] = 0.0
            row[places.flag] = found is not None
