"""A source: an open video, whose clips are read from its files or from the frame store.

    source = Source(tools, path, spec, tick)    opened: `info` is the video's metadata
    source.prefetch(params, clips, tick)        request the bytes that these clips need
    source.read(tick)                           demux -> decode -> convert -> write
    source.read_audio(begin, wanted, tick)

Nothing is retried here: a replaced file raises FileReplacedError, and `one_pass` runs the whole
task again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from av.video.frame import VideoFrame

from videoload.clips.clip_params import ClipParams
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.edges import pictures
from videoload.clips.pieces import Pieces
from videoload.clips.video_info import VideoInfo
from videoload.decoding.audio_reader import AudioReader, Wanted
from videoload.decoding.audio_resampling import Samples
from videoload.decoding.audio_track import UndecodableError
from videoload.decoding.clip_frames import ClipFrames, ClipStore, FormatChangedError
from videoload.decoding.clip_pixels import ClipPixels
from videoload.decoding.conversions import Conversion
from videoload.decoding.filter_graphs import FilterGraphs
from videoload.decoding.planes import Buffer
from videoload.decoding.videos import Videos, in_piece
from videoload.errors import FileReplacedError, OneClipError, VideoError
from videoload.reading.containers import BrokenFileError
from videoload.reading.frames import ReadPosition, StaleIndexError, read_frames
from videoload.reading.index import VideoIndex
from videoload.reading.video import VideoReader
from videoload.stopwatch import Stopwatch
from videoload.storage.files import Tick
from videoload.storage.paths import pieces_of
from videoload.storage.video_file import VideoFile


class OpenVideos(Protocol):
    """Holds files open that may be read again."""

    def open(self, file: VideoFile, index: VideoIndex, watch: Stopwatch) -> VideoReader:
        """Return the file, if it is here and has not changed; else open it. Raises
        BrokenFileError."""

    def put(self, opened: VideoReader) -> None:
        """Leave the file open, or close it."""


@dataclass(frozen=True)
class DecodingTools:
    """What a decoder has for all videos below its root. ``position``: reading resumes where the
    last clip has ended."""

    videos: Videos
    files: OpenVideos
    graphs: FilterGraphs
    store: ClipStore | None
    watch: Stopwatch
    audio: AudioReader
    position: ReadPosition | None = None


class Source:
    """A video: a file, or a recording in pieces.

    Attributes:
        path: Below the root.
        info: What clips are drawn for.
        files: The files that are read, once it is known which clips are.
    """

    def __init__(
        self,
        tools: DecodingTools,
        path: str,
        spec: ClipSpec,
        tick: Tick,
        pinned: Mapping[str, bytes] | None = None,
    ) -> None:
        """``spec``: of the clips, without audio. ``pinned``: the identities of files, whose place
        no others may take. Raises VideoError, StorageError, FileReplacedError."""
        self.path, self.files = path, list[FileSource]()
        self._tools, self._spec, self._pinned = tools, spec, pinned
        self._pieces: Pieces | None = None
        if len(pieces_of(path)) == 1:
            self.files.append(FileSource(tools, path, spec, tick, pinned))
            self.info = self.files[0].info
        else:
            found = tools.videos.find_recording(path, tick)
            self._identities, self._pieces = found.files, found.pieces
            self.info = found.pieces.info

    def prefetch(self, params: Sequence[ClipParams], clips: Sequence[Buffer], tick: Tick) -> None:
        """Set which frames are written to which ``clips``, and prefetch their bytes. Raises the
        errors of `Source`."""
        if self._pieces is None:
            self.files[0].prefetch(params, clips, tick)
            return
        drawn: dict[int, tuple[list[ClipParams], list[Buffer]]] = {}
        for each, clip in zip(params, clips, strict=True):
            for run in self._pieces.runs(pictures(each.frame_indices)):
                own, places = drawn.setdefault(run.piece, ([], []))
                own.append(each._replace(frame_indices=run.frames))
                places.append(clip[run.place])
        for number, (own, places) in sorted(drawn.items()):
            path, info = pieces_of(self.path)[number], self._pieces.infos[number]
            with in_piece(self.path, path):
                file = FileSource(self._tools, path, self._spec, tick, self._pinned, info)
                file.prefetch(own, places, tick)
            self.files.append(file)

    def read(self, tick: Tick) -> None:
        """Write the clips. Raises the errors of `Source`."""
        if self._pieces is None:
            self.files[0].read(tick)
            return
        for file in self.files:
            with in_piece(self.path, file.path):
                file.read(tick)

    def read_audio(self, begin: Fraction, wanted: Wanted, tick: Tick) -> Samples | None:
        """Return the audio from ``begin`` on, in seconds of the container, or from the first frame
        of a recording; None if there is none. Each piece gives the audio of its own time; one that
        has none is silent. Raises the errors of `Source`."""
        if self._pieces is None:
            return _read_audio(self._tools, self.path, self.files[0].file, begin, wanted, tick)
        stretches, found = self._pieces.stretches(begin, wanted.samples, wanted.rate), []
        for number, at, samples in stretches:
            path, since = pieces_of(self.path)[number], self._pieces.infos[number].begin_stream_s
            with in_piece(self.path, path):
                file = self._tools.videos.storage.resolve(path)
                if file.identity != self._identities[path]:
                    raise FileReplacedError(path)
                piece, own = (since or Fraction()) + at, wanted._replace(samples=samples)
                found.append(_read_audio(self._tools, path, file, piece, own, tick))
        if all(samples is None for samples in found):
            return None
        silence = (np.zeros((wanted.channels, each.samples), np.float32) for each in stretches)
        both = zip(found, silence, strict=True)
        return np.concatenate([none if got is None else got for got, none in both], axis=1)


class FileSource:
    """A file, or a piece of a recording: its frames are decoded, or read from the frame store.

    Attributes:
        path: Below the root.
        file: The version that was opened.
        info: What clips are drawn for.
    """

    def __init__(
        self,
        tools: DecodingTools,
        path: str,
        spec: ClipSpec,
        tick: Tick,
        pinned: Mapping[str, bytes] | None = None,
        info: VideoInfo | None = None,
    ) -> None:
        """``info``: for which clips were drawn already. The rest is as in `Source`."""
        self.path, self._tools, self._spec = path, tools, spec
        self._stored: ClipFrames | None = None
        self._opened: VideoReader | None = None
        self._found = None
        with tools.videos.storage.reading(path, tick):
            with tools.watch.phase("open"):
                file = self.file = tools.videos.storage.resolve(path)
            if pinned is not None and pinned[path] != file.identity:
                raise VideoError(path, "has changed since it was opened")
            if tools.store is not None:
                found = tools.store.find(path, file, spec, tick)
                if found is not None and info in (None, found.info):
                    self._found = found
            self.info = self._index_of(tick).info if self._found is None else self._found.info
        if info not in (None, self.info):
            raise FileReplacedError(path)

    def _index_of(self, tick: Tick) -> VideoIndex:
        self._index, self._opened = self._tools.videos.indexes.find(self.path, self.file, tick)
        return self._index

    def prefetch(self, params: Sequence[ClipParams], clips: Sequence[Buffer], tick: Tick) -> None:
        """Prefetch, as `Source.prefetch`."""
        tools, store, file = self._tools, self._tools.store, self.file
        self._clips, self._pixels = clips, list[ClipPixels]()
        self._places: dict[int, list[tuple[ClipPixels, int]]] = {}
        if store is not None:
            stored = self._stored = store.frames_of(
                self.path, file, self._spec, self.info, params, self._found
            )
            if self.from_frame_store:
                file.prefetch(())  # whether it is still this file
                return
            if self._found is not None:
                with tools.videos.storage.reading(self.path, tick, file):
                    if self._index_of(tick).info != self.info:
                        self._exclude()
            if stored is not None:
                stored.reserve_extra_frames(self._index.order)
                self._index.prefetch(file, [*stored.missing, *stored.extra])
                return
        for drawn, clip in zip(params, clips, strict=True):
            made = ClipPixels(self._spec, self.info, drawn, tools.graphs, clip)
            self._pixels.append(made)
            for at, ordinal in enumerate(pictures(drawn.frame_indices).tolist()):
                if ordinal >= 0:
                    self._places.setdefault(ordinal, []).append((made, at))
        self._index.prefetch(file, self._places)

    @property
    def from_frame_store(self) -> bool:
        """Whether all frames are in the frame store."""
        return self._stored is not None and not self._stored.missing

    @property
    def frame_store_full(self) -> bool:
        """Whether the frame store has no room for the video."""
        store = self._tools.store
        return store is not None and store.is_full_for(self._spec, self._stored)

    def _exclude(self) -> None:
        """Exclude the file from the frame store. Raises FileReplacedError, to begin again without
        it."""
        assert self._tools.store is not None
        self._tools.store.exclude(self.path, self.file)
        raise FileReplacedError(f"{self.path}, as it is stored")

    def read(self, tick: Tick) -> None:
        """Read, as `Source.read`."""
        tools, videos = self._tools, self._tools.videos
        with videos.storage.reading(self.path, tick, self.file):
            try:
                if self._stored is not None and self.from_frame_store:
                    with tools.watch.phase("scale"):
                        self._stored.show(self._clips)
                    if self.file.fetches:
                        self.file.check()
                else:
                    self._decode(tick)
            except BrokenFileError as error:
                raise OneClipError(self.path, str(error)) from None
            except FormatChangedError:
                self._exclude()
            except StaleIndexError:
                if videos.indexes.forget(self.path, self._index):
                    raise FileReplacedError(f"{self.path}, as it is indexed") from None
                raise VideoError(self.path, "decodes differently on each read") from None

    def _decode(self, tick: Tick) -> None:
        tools, index, stored = self._tools, self._index, self._stored
        places, clock, scaling_s = self._places, self._tools.watch.clock, 0.0

        def write(ordinal: int, frame: VideoFrame) -> None:
            nonlocal scaling_s
            began = clock()
            if stored is not None:
                stored.take(ordinal, frame)
            else:
                shown = places[ordinal]
                scaled: dict[Conversion, VideoFrame] | None = {} if len(shown) > 1 else None
                for clip, at in shown:
                    clip.take(frame, at, scaled)
            scaling_s += clock() - began

        try:
            with tools.watch.phase("open"):
                opened = self._opened or tools.files.open(self.file, index, tools.watch)
            self._opened = None
            wanted = sorted(places) if stored is None else stored.missing
            extra = () if stored is None else stored.extra
            if read_frames(opened, index.order, wanted, write, tick, extra, tools.position):
                tools.files.put(opened)
                if stored is not None:
                    stored.commit()
            began = clock()
            if stored is not None:
                stored.show(self._clips)
            for clip in self._pixels:
                clip.finish()
            scaling_s += clock() - began
        finally:
            tools.watch.move(scaling_s, "scale")


def _read_audio(
    tools: DecodingTools, path: str, file: VideoFile, begin: Fraction, wanted: Wanted, tick: Tick
) -> Samples | None:
    with tools.videos.storage.reading(path, tick, file):
        try:
            return tools.audio.read(file, begin, wanted, tick)
        except UndecodableError as error:
            raise OneClipError(path, str(error)) from None
        except BrokenFileError as error:
            raise VideoError(path, str(error)) from None
        finally:
            file.check()
