"""Clips of one video: which frames they show, and how these come out of the file or out of the
frame store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np
from av.video.frame import VideoFrame

from videoload.clips.clip_params import ClipParams
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.edges import pictures
from videoload.clips.rows import Clip
from videoload.clips.video_info import VideoInfo
from videoload.decoding.prepared import Made, Make, OtherFileError, draw, fitting
from videoload.errors import OneClipError, VideoError
from videoload.frame_store.clip_frames import ClipFrames, ClipStore, FormatChangedError
from videoload.index.index import open_video
from videoload.index.indexes import Indexes
from videoload.pixels.clip_pixels import ClipPixels
from videoload.pixels.conversions import Conversion
from videoload.pixels.filter_graphs import FilterGraphs
from videoload.pixels.planes import Buffer
from videoload.reading.containers import BrokenFileError
from videoload.reading.frames import ReadPosition, StaleIndexError, read_frames
from videoload.reading.video import Video
from videoload.stopwatch import Stopwatch
from videoload.storage.files import Storage, Tick, VideoFile, version_of


class OpenVideos(Protocol):
    """Keeps files open that may be read again."""

    def take(self, file: VideoFile) -> Video | None:
        """The file, if it is here and has not changed."""

    def put(self, opened: Video) -> None:
        """Keep the file, or close it."""


@dataclass(frozen=True)
class DecodingTools:
    """What a decoder has for all videos below its root. ``position``: reading goes on where the
    last clip has ended."""

    storage: Storage
    indexes: Indexes
    files: OpenVideos
    graphs: FilterGraphs
    store: ClipStore | None
    watch: Stopwatch
    position: ReadPosition | None = None


class WantedClips(NamedTuple):
    """Some clips of one path, for the arguments of `Decoder.decode`.

    Attributes:
        path: A file, or a recording in pieces.
        spec: Of the clips, without sound.
        requests: Which clips.
        given: What they show, if they are a part of samples, or of a recording in pieces.
        of: The file for which that was drawn.
        identities: Of files by their paths that no others may take the place of.
    """

    path: str
    spec: ClipSpec
    requests: Sequence[Clip]
    given: list[ClipParams] | None = None
    of: VideoInfo | None = None
    identities: Mapping[str, bytes] = MappingProxyType({})

    def drawn_for(self, info: VideoInfo) -> list[ClipParams]:
        """What the clips show of a file. Raises OtherFileError, UnfitError."""
        if self.of not in (None, info):
            raise OtherFileError
        return self.given or draw(self.spec, info, self.requests)


class VideoClips:
    """Some clips of a video."""

    def __init__(self, tools: DecodingTools, wanted: WantedClips) -> None:
        self._tools, self._wanted = tools, wanted
        self._path, self._spec = wanted.path, wanted.spec

    def prepare(self, tick: Tick, clips: Sequence[Buffer]) -> Make:
        """Find out what the clips show, and ask for the bytes that this needs. ``clips``: where
        each is decoded to."""
        self._clips = clips
        self._tools.storage.run(self._path, partial(self._prepare, tick), tick)
        return self._make

    def _prepare(self, tick: Tick) -> None:
        tools, path, spec = self._tools, self._path, self._spec
        store, stored, found = tools.store, None, None
        with tools.watch.phase("open"):
            file = self._file = tools.storage.resolve(path)
        if self._wanted.identities.get(path, file.identity) != file.identity:
            raise OtherFileError
        if store is not None and (found := store.find(path, file, spec, tick)) is not None:
            self._params = self._wanted.drawn_for(found.info)
            self._stored = stored = store.frames_of(
                path, file, spec, found.info, self._params, found
            )
            if stored is not None and not stored.missing:
                self._info = found.info
                return
        index, self._opened = tools.indexes.find(path, file, tick)
        self._index = index
        self._params = self._wanted.drawn_for(index.info)
        if store is not None and (found is None or found.info != index.info):
            stored = store.frames_of(path, file, spec, index.info, self._params, None)
        self._places: dict[int, list[tuple[ClipPixels, int]]] = {}
        self._made: list[ClipPixels] = []
        if stored is None:
            self._make_places()
        wanted = [*stored.missing, *stored.extra_frames(index.order)] if stored else self._places
        index.want(file, wanted)
        self._stored = stored
        self._info = index.info

    def _make_places(self) -> None:
        """Say where each frame goes."""
        for drawn, clip in zip(self._params, self._clips, strict=True):
            made = ClipPixels(self._spec, self._index.info, drawn, self._tools.graphs, clip)
            self._made.append(made)
            for at, ordinal in enumerate(pictures(drawn.frames).tolist()):
                if ordinal >= 0:
                    self._places.setdefault(ordinal, []).append((made, at))

    def _make(self, tick: Tick) -> Made:
        tools, decode, anew = self._tools, partial(self._decode, tick), partial(self._anew, tick)
        tools.storage.run(self._path, decode, tick, self._file, anew)
        # What is told of the clips is of the file that they were made of: see `_anew`.
        shown = np.concatenate([drawn.frames for drawn in self._params])
        return Made(
            shown.reshape(len(self._wanted.requests) or 1, -1), self._info, self._params,
            are_kept=self._stored is not None and not self._stored.missing,
            lacks_room=tools.store is not None and tools.store.lacks_room(self._spec, self._stored),
            version=version_of(self._file),
        )  # fmt: skip

    def _decode(self, tick: Tick) -> None:
        if self._stored is None or self._stored.missing:
            return self._read(self._stored, tick)
        with self._tools.watch.phase("scale"):
            try:
                self._stored.show(self._clips)
            except BrokenFileError as error:
                raise OneClipError(self._path, str(error)) from None

    def _read(self, stored: ClipFrames | None, tick: Tick) -> None:
        tools, index, clock, scaling_s = self._tools, self._index, self._tools.watch.clock, 0.0

        def write(ordinal: int, frame: VideoFrame) -> None:
            nonlocal scaling_s
            began = clock()
            if stored is not None:
                stored.take(ordinal, frame)
            else:
                places = self._places[ordinal]
                scaled: dict[Conversion, VideoFrame] | None = {} if len(places) > 1 else None
                for clip, at in places:
                    clip.take(frame, at, scaled)
            scaling_s += clock() - began

        try:
            opened, self._opened = self._opened or tools.files.take(self._file), None
            if opened is None:
                with tools.watch.phase("open"):
                    opened = open_video(self._file, index, watch=tools.watch)
            wanted, extra = sorted(self._places), []
            if stored is not None:
                wanted, extra = stored.missing, stored.extra_frames(index.order)
            if read_frames(opened, index.order, wanted, write, tick, extra, tools.position):
                tools.files.put(opened)
                if stored is not None:
                    stored.commit()
            began = clock()
            if stored is not None:
                stored.show(self._clips)
            for clip in self._made:
                clip.finish()
            scaling_s += clock() - began
        except FormatChangedError:
            self._make_places()
            return self._read(None, tick)
        except BrokenFileError as error:
            raise OneClipError(self._path, str(error)) from None
        except StaleIndexError:
            if tools.indexes.forget(self._path, index):
                return self._anew(tick)
            raise VideoError(self._path, "gives other frames each time it is read") from None
        finally:
            tools.watch.move(scaling_s, "scale")

    def _anew(self, tick: Tick) -> None:
        """Do all of it again: the file is not the one that the index was made from."""
        with fitting(self._path):
            self._prepare(tick)
        self._decode(tick)
