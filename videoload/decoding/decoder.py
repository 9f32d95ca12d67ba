"""Clips of a video as arrays in the caller's buffer."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from videoload import native
from videoload.clips.clip_params import ClipParams
from videoload.clips.clip_spec import ClipSpec, silent
from videoload.clips.rows import Clip, Video
from videoload.clips.sample_spec import SampleSpec, one_clip, transforms_of
from videoload.clips.video_info import VideoInfo
from videoload.decoding.expected import Expected
from videoload.decoding.open_files import OpenFiles
from videoload.decoding.prepared import Made, Make, Ordinals, fitting
from videoload.decoding.recording_clips import RecordingClips, Recordings, find_file
from videoload.decoding.samples import of_recording, prepare_counts, prepare_samples
from videoload.decoding.sounds import Sounds, prepare_with_sound
from videoload.decoding.transforms import prepare_transformed
from videoload.decoding.video_clips import DecodingTools, VideoClips, WantedClips
from videoload.errors import TransformError, errors_of
from videoload.frame_store.clip_frames import ClipStore
from videoload.index.complete_decode import Report
from videoload.index.index import VideoIndex
from videoload.index.indexes import Indexes
from videoload.pixels.filter_graphs import FilterGraphs
from videoload.pixels.planes import Buffer
from videoload.stopwatch import Stopwatch
from videoload.storage.cache_directories import NO_DIRECTORIES, CacheDirectories
from videoload.storage.files import Tick, version_by, version_of
from videoload.storage.paths import fingerprint_of, parts_of, pieces_of
from videoload.storage.roots import open_storage
from videoload.user_code.functions import Functions

_SMALL = ClipSpec(frames=1, resize=32, size=(32, 32))  # shows whether frames can be scaled


class Decoder:
    """Decodes clips of the videos under ``root``, in one thread. A process has one.

    It keeps the last files open until `rest`.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        transforms: Collection[str] | None = None,
        folders: CacheDirectories = NO_DIRECTORIES,
        on_call: Tick = lambda: None,
    ) -> None:
        """``transforms``: the modules whose functions a spec may name; None: any. ``folders``:
        where to keep what can be used again. ``on_call``: called before a function that may take
        long."""
        native.silence_ffmpeg()
        self._storage = open_storage(root, folders.keep)
        self._functions = Functions(transforms, on_call)
        self._files = OpenFiles()
        self._sounds = Sounds(self._storage)
        graphs, keeper = FilterGraphs(), None
        if folders.frame_store is not None:
            keeper = ClipStore(folders.frame_store, self._storage.root, graphs)
        self.watch = Stopwatch()  # where the time goes, since it was started
        self._indexes = Indexes(folders, self._storage, self.watch)
        self._expected = Expected(self._storage, self._indexes)
        self._recordings = Recordings(self._storage, self._indexes)
        self._tools = DecodingTools(
            self._storage, self._indexes, self._files, graphs, keeper, self.watch
        )

    def decode(
        self,
        path: str,
        spec: ClipSpec | SampleSpec,
        requests: Sequence[Clip],
        out: Buffer,
        tick: Tick = lambda: None,
    ) -> Ordinals:
        """Write clips of ``path`` (relative to the root) into ``out``, uint8 [n, spec.clip_bytes]
        or [n, *spec.shape], in one pass over the file. Returns the ordinals of their frames, int64
        [n, T] (with k views [n, k * T]).

        ``tick`` is called after each packet. Raises VideoError if a clip cannot be decoded,
        ShortVideoError if the spec silently skips videos of this length, and TransformError.
        """
        sample = one_clip(spec) if isinstance(spec, ClipSpec) else spec
        return self.prepare(path, sample, requests, out, tick)(tick).frames

    def prepare(
        self,
        path: str,
        spec: SampleSpec,
        requests: Sequence[Clip],
        out: Buffer,
        tick: Tick = lambda: None,
    ) -> Make:
        """Do what `decode` does before it reads a frame, and return what does the rest. For several
        videos in a row, this takes a fifth of the time that it takes between two videos, when a
        decoder has filled the caches.

        Raises what `decode` raises.
        """
        with errors_of(path), fitting(path):
            make = self._prepare(path, spec, requests, out, tick)

        def make_it(tick: Tick) -> Made:
            with errors_of(path):
                return make(tick)

        return make_it

    def _prepare(
        self, path: str, spec: SampleSpec, requests: Sequence[Clip], out: Buffer, tick: Tick
    ) -> Make:
        info_of = partial(self.info, tick=tick)
        if spec.asks == "counts":
            return prepare_counts(path, spec, requests, out, info_of)
        if "" in spec.clips:
            return self._prepare_clips(path, spec.leader, requests, out, tick)
        spec = of_recording(path, spec)

        def prepare(
            name: str, path: str, params: list[ClipParams], of: VideoInfo, out: Buffer
        ) -> Make:
            return self._prepare_clips(path, spec.clips[name], requests, out, tick, params, of)

        return prepare_samples(path, spec, requests, out, info_of, prepare)

    def _prepare_clips(
        self, path: str, spec: ClipSpec, requests: Sequence[Clip], out: Buffer, tick: Tick,
        given: list[ClipParams] | None = None, of: VideoInfo | None = None,
    ) -> Make:  # fmt: skip
        name = spec.transform
        transform = None if name is None else self._functions.find(str(name))
        wanted = WantedClips(path, silent(spec), requests, given, of)
        clips: VideoClips | RecordingClips
        if len(pieces_of(path)) == 1:
            clips = VideoClips(self._tools, wanted)
            hear = partial(self._sounds.hear, path)
        else:
            clips = RecordingClips(self._tools, self._recordings, wanted)
            hear = partial(clips.hear, self._sounds.hear)
        decoded = partial(clips.prepare, tick)

        def prepare(spec: ClipSpec, out: Buffer) -> Make:
            return prepare_transformed(path, spec, requests, out, transform, self.watch, decoded)

        if not spec.sound:
            return prepare(spec, out)
        version, is_part = partial(self.version, path), given is not None
        return prepare_with_sound(path, spec, out, prepare, hear, version, is_part=is_part)

    @property
    def root(self) -> str:
        """The folder that paths are relative to, resolved; or the URL."""
        return self._storage.root

    @property
    def fetches(self) -> bool:
        """Whether files come from another host, so that it helps to `expect` them."""
        return self._storage.fetches

    @property
    def storage_says(self) -> str:
        """What the storage says instead of giving the bytes that are waited for."""
        return self._storage.says

    def expect(self, path: str, spec: SampleSpec, requests: Sequence[Clip]) -> None:
        """These clips are needed soon: fetch what they need of files on another host, as far as
        that is known. `prepare` raises what is wrong."""
        self._expected.expect(path, spec, requests)

    def has_imported(self, spec: SampleSpec) -> bool:
        """Whether all modules for clips of ``spec`` are imported. Importing one may take long."""
        return all(name in self._functions for name in transforms_of(spec))

    def check_code(self, code: Mapping[str, str]) -> None:
        """Compare digests of modules with those that this process has imported. Raises
        TransformError."""
        self._functions.check(code)

    def import_function(self, spec: SampleSpec) -> None:
        """Import them now. The first clip raises what goes wrong."""
        for name in transforms_of(spec):
            with suppress(TransformError):
                self._functions.find(name)

    def info(self, path: str, tick: Tick = lambda: None) -> VideoInfo:
        """What a clip of ``path`` depends on: a file, or a recording in pieces. Raises VideoError,
        StorageError."""
        if len(pieces_of(path)) > 1:
            return self._recordings.find(path, tick).info
        return self.index(path, tick).info

    def index(self, path: str, tick: Tick = lambda: None) -> VideoIndex:
        """The index of a file by its path below the root. Raises VideoError, StorageError."""
        return find_file(self._storage, self._indexes, path, tick)[1]

    def report(self, path: str, tick: Tick = lambda: None) -> tuple[VideoIndex, Report]:
        """The index of ``path``, and what a complete decode tells of it. Raises StorageError, and
        VideoError also if there is a kind of frames that cannot be scaled."""

        def look() -> tuple[VideoIndex, Report]:
            return self._indexes.report(path, self._storage.resolve(path), tick)

        with errors_of(path):
            index, report = self._storage.run(path, look, tick)
        out = np.empty((1, *_SMALL.shape), np.uint8)
        for ordinal in report.kinds:
            start = min(ordinal, index.info.frames - 1)
            row = Video(path, start=start, end=start + 1)
            self.decode(path, _SMALL, [Clip(0, row=row)], out, tick)
        return index, report

    def sound(self, path: str, tick: Tick = lambda: None) -> str:
        """The codec of the sound that clips of ``path`` have; "" if they have none, "unknown" if it
        cannot be read. Raises VideoError, StorageError."""
        with errors_of(path):
            return self._sounds.codec(path, tick)

    def fingerprint(self, path: str, salt: int = 0) -> int:
        """63 bits that two copies of a file, or of a sample's files, have in common. Raises
        VideoError, StorageError."""

        def one(file: str) -> int:
            return self._storage.fingerprint(file, salt)

        if len(pieces_of(path)) == 1:
            return fingerprint_of(path, one)
        return self._recordings.fingerprint(path, salt, lambda path: fingerprint_of(path, one))

    def version(self, path: str) -> int:
        """63 bits that differ if the file here was changed or replaced; 0: nobody can tell. Raises
        VideoError, StorageError."""
        parts = (part for part in parts_of(path) if len(pieces_of(part)) > 1)
        recordings = filter(None, map(self._recordings.known, parts))
        known = {file: b for each in recordings for file, b in each.files.items()}

        def one(path: str) -> int:
            if (identity := known.get(path)) is None:
                return version_of(self._storage.resolve(path))
            return version_by(identity)

        return fingerprint_of(path, one)

    def begin(self) -> None:
        """A training begins. It may find other files behind a URL than the one before."""
        self._storage.begin()
        self._indexes.begin()

    def rest(self) -> None:
        """Keep no file open: there is nothing to do for now."""
        self._files.close()
