"""The frames of videos on their way into the frame store, and out of it into clips."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from av.video.frame import VideoFrame
from cachetools import LRUCache

from videoload.clips.choices import FROM_SCALED
from videoload.clips.clip_params import ClipParams
from videoload.clips.clip_spec import ClipSpec, pixel_format, scaling_key
from videoload.clips.edges import pictures
from videoload.clips.video_info import VideoInfo
from videoload.decoding.clip_pixels import ClipPixels
from videoload.decoding.conversions import Conversion, FrameFormat, scaling_conversion
from videoload.decoding.filter_graphs import FilterGraph, FilterGraphs
from videoload.decoding.planes import Buffer
from videoload.decoding.scaled_frames import (
    frame_bytes,
    pack_format,
    pack_frame,
    unpack_format,
    unpack_frames,
)
from videoload.decoding.software import software_and_code
from videoload.decoding.store_pace import StorePace
from videoload.reading.order import FrameTable
from videoload.storage.cache_directories import CacheDirectory
from videoload.storage.files import Tick
from videoload.storage.record_file import Head, RecordFile
from videoload.storage.record_store import RecordSet, RecordStore
from videoload.storage.video_file import VideoFile

_BYTES_A_S = 5e8  # what memory takes at least: a disk that takes less is slow
_FILE_S = 2e-3  # a new file takes less, unless the disk is slow
_RUN = 12  # frames that are written at once take half the time of single ones
_MOST_EXCLUDED = 10_000  # videos
TOLD_AFTER = 1000  # times that a slow disk was not used, until it is logged


def is_keepable(spec: ClipSpec) -> bool:
    """Return whether frames can be stored for such clips: their scaling is not random."""
    return not _why_not(spec)


def _why_not(spec: ClipSpec) -> str:
    """Return the reason why frames cannot be stored for such clips; "" if they can."""
    if spec.resize is None and spec.crop in FROM_SCALED:
        return (
            f'crop="{spec.crop}" without resize=, because each clip scales another part of its '
            "frames: with resize=, the part is one of the resized frame"
        )
    if not pixel_format(spec).is_stored:
        return f'pixels="{spec.pixels}"'
    return 'scaling="nearest"' if spec.scaling == "nearest" else ""


class FoundVideo(NamedTuple):
    """What the store has of a video."""

    stored: RecordFile
    info: VideoInfo
    source: FrameFormat


class ClipStore:
    """The frame store of the videos under one root, as clips read it: a `RecordStore`, with a set
    for each way of scaling, whose records are frames.

    Attributes:
        records: The files.
        graphs: What scales.
        pace: How much of the time a slow disk may take.
        decode_s: What it took to decode and scale each of the last frames.
    """

    def __init__(self, keep: CacheDirectory, root: str, graphs: FilterGraphs) -> None:
        folder = keep.own("frames")
        self.records = RecordStore(folder, keep.max_bytes, "frame store", "decoded")
        self.graphs = graphs
        self.pace = StorePace()
        self.decode_s = math.inf
        self._about = {"root": root, "software": software_and_code()}
        self._sets: dict[ClipSpec, RecordSet] = {}
        self._skipped = 0
        self._excluded: LRUCache[tuple[str, bytes], bool] = LRUCache(_MOST_EXCLUDED)

    def set_of(self, spec: ClipSpec) -> RecordSet:
        """Return the frames that are scaled for such clips: specs that scale alike share them."""
        if (known := self._sets.get(spec)) is None:
            about = json.dumps(self._about | {"scaling": scaling_key(spec)})
            is_anywhere = spec.sampling in ("random", "dense") and spec.align is None
            known = self._sets[spec] = RecordSet(about, whole=is_anywhere)
        return known

    def find(self, path: str, file: VideoFile, spec: ClipSpec, tick: Tick) -> FoundVideo | None:
        """Return the stored frames of a video. ``tick`` is called meanwhile, and while its frames
        are written."""
        self.records.tick = tick
        if why := _why_not(spec):
            self.records.tell(f"stores nothing for {why}")
            return None
        if not file.has_version:
            self.records.tell(
                "stores nothing of files whose server sends no ETag or time of change"
            )
            return None
        if (path, file.identity) in self._excluded or not self.has_time:
            return None
        stored = self.records.open(path, file.identity, self.set_of(spec))
        if stored is None:
            return None
        source, _, info = stored.head.about.partition(b"\n")
        try:
            return FoundVideo(stored, VideoInfo.from_bytes(info), unpack_format(source))
        except ValueError:
            return None

    def frames_of(
        self,
        path: str,
        file: VideoFile,
        spec: ClipSpec,
        info: VideoInfo,
        params: Sequence[ClipParams],
        found: FoundVideo | None,
    ) -> ClipFrames | None:
        """Return the frames of these clips, as far as the store has them. None if it has none of
        the video and no room for it."""
        if not (is_keepable(spec) and file.has_version):
            return None
        if (path, file.identity) in self._excluded:
            return None
        if found is None and not (self.records.has_room and self.has_time):
            return None
        return ClipFrames(self, path, file.identity, spec, info, params, found)

    def exclude(self, path: str, file: VideoFile) -> None:
        """Stop reading and writing frames of a video: they cannot be stored."""
        self._excluded[path, file.identity] = True

    def is_full_for(self, spec: ClipSpec, frames: ClipFrames | None) -> bool:
        """Return whether the store is full, and takes no more frames of the video of some clips."""
        is_stored = frames is not None and frames.from_frame_store
        return is_keepable(spec) and not is_stored and self.records.is_full

    @property
    def has_time(self) -> bool:
        """Whether the disk may be used now, by its pace."""
        if self.pace.has_time:
            return True
        self._skipped += 1
        if self._skipped == TOLD_AFTER:
            self.records.tell(
                f"is on a slow disk: {TOLD_AFTER} times, frames were decoded meanwhile"
            )
        return False


class FormatChangedError(Exception):
    """The frames of a video change their format, so they are not stored."""


class ClipFrames:
    """The frames of some clips of a video: from the store, or decoded and on their way into it.

    Attributes:
        missing: Frames that have to be decoded, increasing.
        extra: Frames to write beside them: see `reserve_extra_frames`.
    """

    def __init__(
        self,
        store: ClipStore,
        path: str,
        identity: bytes,
        spec: ClipSpec,
        info: VideoInfo,
        params: Sequence[ClipParams],
        found: FoundVideo | None,
    ) -> None:
        self._store, self._path, self._identity = store, path, identity
        self._spec, self._info, self._params = spec, info, params
        self._set = store.set_of(spec)
        shown = [pictures(drawn.frame_indices).tolist() for drawn in params]
        wanted = sorted({ordinal for each in shown for ordinal in each} - {-1})
        self._row_of = {ordinal: row for row, ordinal in enumerate(wanted)}
        self._conversion: Conversion | None = None  # of source frames to scaled ones
        self._rows = np.empty((0, 0), np.uint8)  # the scaled frames of the clips, [n, frame_bytes]
        self._stored = None if found is None else found.stored
        self._target: RecordFile | None = None  # where frames that are decoded are written
        self._graph_kept: FilterGraph | None = None
        self._run: list[Buffer] = []  # of consecutive frames, which are written at once
        self._run_end = 0
        self._sums: dict[int, int] = {}
        self.extra: list[int] = []
        self._began_s = 0.0  # CPU time at the first frame
        self.missing = wanted
        if found is not None:
            self._begin(found.source)
            self.missing = self._read(wanted)

    @property
    def from_frame_store(self) -> bool:
        """Whether the frames that are decoded are written."""
        return self._target is not None

    def _begin(self, source: FrameFormat) -> None:
        conversion = self._conversion = scaling_conversion(
            self._spec, self._info, self._params[0], source
        )
        self._rows = np.empty((len(self._row_of), frame_bytes(conversion.scaled)), np.uint8)
        if self._stored is not None and self._stored.head.record_bytes != self._rows.shape[1]:
            self._stored = None

    def _read(self, wanted: list[int]) -> list[int]:
        """Read what is stored; returns what is not."""
        if self._stored is None:
            return wanted
        try:
            # Those between them and those before would have to be decoded, too.
            with self._store.pace.expecting(2 * len(wanted) * self._store.decode_s):
                return self._stored.read(wanted, self._rows)
        except OSError as error:
            self._stored = None
            self._store.records.failed_to_read(error)
            return wanted

    def reserve_extra_frames(self, order: FrameTable) -> None:
        """Choose the ``extra`` frames, and take room for what is written of a video that is stored
        already. When a video is met for the first time, they are the others that are decoded on
        the way. Later they are all frames of the groups of pictures: that costs more once, and less
        in all epochs together."""
        if not self.missing:
            return
        stored = self._stored
        last = order.frames - 1 if stored is not None else self.missing[-1]
        groups = {order.group_of(ordinal) for ordinal in self.missing} - {-1}
        for members in map(order.members, groups if self._set.whole else ()):
            others = range(members.start, min(members.stop, last + 1))
            self.extra += others if stored is None else stored.absent(others)
        if stored is not None and self._store.records.takes(stored, self._set, self._written):
            self._target = stored
        elif stored is not None:
            self.extra = []

    @property
    def _written(self) -> list[int]:
        return sorted({*self.missing, *self.extra})

    def take(self, ordinal: int, frame: VideoFrame) -> None:
        """A frame was decoded. Raises BrokenFileError, FormatChangedError."""
        source = FrameFormat.of(frame)
        if self._conversion is None:
            self._create(source)
        elif source != self._conversion.source:
            raise FormatChangedError
        assert self._conversion is not None
        at, is_written = self._row_of.get(ordinal), self._target is not None
        is_written = is_written and self._store.has_time
        if at is None and not is_written:
            return
        self._began_s = self._began_s or time.process_time()  # no wait for the disk
        graph = self._graph_kept = self._graph_kept or self._store.graphs[self._conversion]
        row = np.empty(self._rows.shape[1], np.uint8) if at is None else self._rows[at]
        pack_frame(graph.through(frame), row)
        if is_written:
            if ordinal != self._run_end or len(self._run) >= _RUN:
                self._write()
            self._run.append(row)
            self._run_end = ordinal + 1

    def _create(self, source: FrameFormat) -> None:
        self._begin(source)
        about = pack_format(source) + b"\n" + self._info.to_bytes()
        head = Head(self._identity, self._info.num_frames, self._rows.shape[1], about)
        with self._store.pace.expecting(_FILE_S):
            records = self._store.records
            self._target = records.create(self._path, head, self._set, self._written)

    def _write(self) -> None:
        run, self._run = self._run, []
        if not run or self._target is None:
            return
        began, first = time.perf_counter(), self._run_end - len(run)
        try:
            self._sums |= self._target.write(first, [row.data for row in run])
        except OSError as error:
            self._give_up(error)
        expected = sum(map(len, run)) / _BYTES_A_S
        self._store.pace.took(time.perf_counter() - began, expected)

    def commit(self) -> None:
        """Note that the pass was without damage: its frames are valid from now on."""
        self._write()
        if self._target is not None:
            try:
                self._target.commit(self._sums)
            except OSError as error:
                self._give_up(error)
        if self._sums:
            self._store.decode_s = (time.process_time() - self._began_s) / len(self._sums)

    def show(self, clips: Sequence[Buffer]) -> None:
        """Make the clips. Raises BrokenFileError."""
        for drawn, clip in zip(self._params, clips, strict=True):
            made = ClipPixels(self._spec, self._info, drawn, self._store.graphs, clip)
            shown = pictures(drawn.frame_indices)
            if at := np.flatnonzero(shown >= 0).tolist():  # else it is black
                assert self._conversion is not None
                rows = [self._row_of[ordinal] for ordinal in shown[at].tolist()]
                in_order = rows == list(range(len(self._rows)))
                scaled = self._rows if in_order else self._rows.take(rows, 0)
                made.take_scaled(
                    self._conversion.source, unpack_frames(scaled, self._conversion.scaled), at
                )
            made.finish()

    def _give_up(self, error: OSError) -> None:
        self._target = None
        self._store.records.failed_to_write(error)
