"""The decoder of a process: runs tasks on the rows of one root, and returns metadata.

A task is one pass over the files of a row. Clips of a row are begun and finished (`one_pass`), so
that those of several rows can be begun together. All other tasks are `Decoder.run`. Both retry once
if a file was replaced after it was opened, indexed or drawn for. Nothing else does.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, cast

import numpy as np

from videoload import native
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.rows import Clip, Video
from videoload.clips.sample_spec import SampleSpec, one_clip
from videoload.clips.tasks import (
    Count,
    Fingerprint,
    Found,
    FoundT_co,
    Report,
    Task,
    TaskOfFiles,
    functions_of,
)
from videoload.decoding.audio_reader import AudioReader
from videoload.decoding.clip_frames import ClipStore
from videoload.decoding.drawn import Ordinals
from videoload.decoding.filter_graphs import FilterGraphs
from videoload.decoding.functions import Functions
from videoload.decoding.one_pass import OnePass
from videoload.decoding.open_files import OpenFiles
from videoload.decoding.planes import Buffer
from videoload.decoding.prefetcher import Prefetcher
from videoload.decoding.source import DecodingTools
from videoload.decoding.tasks import count, report
from videoload.decoding.videos import Videos
from videoload.errors import TransformError, errors_of
from videoload.reading import complete_decode
from videoload.reading.index import VideoIndex
from videoload.reading.indexes import Indexes
from videoload.stopwatch import Stopwatch
from videoload.storage.cache_directories import NO_DIRECTORIES, CacheDirectories
from videoload.storage.files import Tick, retry_if_replaced
from videoload.storage.roots import open_storage

_SMALL = ClipSpec(frames=1, resize=32, size=(32, 32))  # shows whether frames can be scaled


class Decoder:
    """Decodes clips of the videos under ``root``, in one thread. A process has one. It holds the
    last files open until `rest`.

    Attributes:
        storage: The bytes of its files.
        videos: What its files are: questions about a path.
        functions: The user's, which are imported.
        watch: Where the time goes, since it was started.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        transforms: Collection[str] | None = None,
        folders: CacheDirectories = NO_DIRECTORIES,
        on_call: Tick = lambda: None,
    ) -> None:
        """``transforms``: the modules whose functions a spec may name; None: any. ``folders``: the
        caches. ``on_call``: called before a function that may take long."""
        native.silence_ffmpeg()
        self.storage = open_storage(root, folders.file_cache, must_exist=True)
        self.expect = self.storage.expect
        self.functions = Functions(transforms, on_call)
        self._files = OpenFiles()
        graphs, store = FilterGraphs(), None
        if folders.frame_store is not None:
            store = ClipStore(folders.frame_store, self.storage.root, graphs)
        self.watch = Stopwatch()
        self._indexes = Indexes(folders, self.storage, self.watch)
        self.prefetch = Prefetcher(self.storage, self._indexes).prefetch
        self.videos = Videos(self.storage, self._indexes)
        self.tools = DecodingTools(
            self.videos, self._files, graphs, store, self.watch, AudioReader()
        )

    # Tasks

    def start(
        self,
        path: str,
        spec: SampleSpec,
        clips: Sequence[Clip],
        out: Buffer,
        tick: Tick = lambda: None,
    ) -> OnePass:
        """Prepare clips up to their first frame, and return a function that decodes them. For
        several rows one after the other, this takes a fifth of the time that it takes between two
        rows, when a decoder has filled the caches.

        Args:
            path: Of the row, below the root.
            spec: What its clips are.
            clips: Which clips of the row.
            out: Where they go, uint8 [n, spec.clip_bytes]: in one pass over the files.
            tick: Called after each packet.

        Raises:
            VideoError: A clip cannot be decoded.
            ShortVideoError: The spec silently skips videos of this length.
            StorageError: The storage does not give its files.
            TransformError: The user's function cannot be imported, or failed.
        """
        self.expect(path, clips[0].row.places)
        made = OnePass(self.tools, self.functions, path, spec, clips, out)
        made.begin(tick)
        return made

    def run(self, task: TaskOfFiles[FoundT_co], row: Video, tick: Tick = lambda: None) -> FoundT_co:
        """Run a task that decodes no clips. Raises VideoError, StorageError."""
        with errors_of(row.path):
            return cast(
                "FoundT_co", retry_if_replaced(row.path, lambda: self._find(task, row, tick))
            )

    def _find(self, task: TaskOfFiles[Any], row: Video, tick: Tick) -> Found:
        match task:
            case Count():
                return count(self.videos, task, row, tick)
            case Report():
                return report(self.videos, self.report, row.path, tick)
            case _:
                return Fingerprint(self.videos.fingerprint(row.path))

    def decode(
        self,
        path: str,
        spec: ClipSpec | SampleSpec,
        clips: Sequence[Clip],
        out: Buffer,
        tick: Tick = lambda: None,
    ) -> Ordinals:
        """Decode clips, as `start`. ``out`` may be [n, *spec.shape]. Returns the ordinals of their
        frames, int64 [n, T] (with k views [n, k * T])."""
        sample = one_clip(spec) if isinstance(spec, ClipSpec) else spec
        return self.start(path, sample, clips, out, tick).finish(tick).frames

    def has_imported(self, task: Task) -> bool:
        """Return whether all modules of a task are imported. Importing one may take long."""
        return all(name in self.functions for name in functions_of(task))

    def import_functions(self, task: Task) -> None:
        """Import them now. The first clip raises what goes wrong."""
        for name in functions_of(task):
            with suppress(TransformError):
                self.functions.find(name)

    def report(
        self, path: str, tick: Tick = lambda: None
    ) -> tuple[VideoIndex, complete_decode.Report]:
        """Return the index of a file, and what a complete decode found. Raises VideoError also if
        there is a kind of frames that cannot be scaled."""
        index, found = self.videos.report(path, tick)
        out = np.empty((1, *_SMALL.shape), np.uint8)
        for ordinal in found.kinds:
            start = min(ordinal, index.info.num_frames - 1)
            row = Video(path, start=start, end=start + 1)
            self.decode(path, _SMALL, [Clip(0, row=row)], out, tick)
        return index, found

    def begin(self) -> None:
        """Note that a training run begins. It may find other files behind a URL than the one
        before."""
        self.storage.begin()
        self._indexes.begin()

    def rest(self) -> None:
        """Close all files: there is nothing to do for now."""
        self._files.close()
