"""The frames of videos on their way into the frame store, and out of it into clips."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
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
from videoload.decoding.store import FrameStore, Scaling
from videoload.decoding.stored_video import Head, StoredVideo
from videoload.reading.order import FrameTable
from videoload.storage.cache_directories import CacheDirectory
from videoload.storage.files import Tick, VideoFile

_BYTES_A_S = 5e8  # what memory takes at least: a disk that takes less is slow
_FILE_S = 2e-3  # a new file takes less, unless the disk is slow
_RUN = 12  # frames that are written at once take half the time of single ones
_MOST_EXCLUDED = 10_000  # videos


def is_keepable(spec: ClipSpec) -> bool:
    """Whether frames can be kept for such clips: what is scaled of a frame is not drawn."""
    return not _why_not(spec)


def _why_not(spec: ClipSpec) -> str:
    """Why frames cannot be kept for such clips; "" if they can."""
    if spec.resize is None and spec.crop in FROM_SCALED:
        return (
            f'crop="{spec.crop}" without resize=, because each clip scales another part of its '
            "frames: with resize=, the part is one of the resized frame"
        )
    if not pixel_format(spec).is_stored:
        return f'pixels="{spec.pixels}"'
    return 'scaling="nearest"' if spec.scaling == "nearest" else ""


@lru_cache(64)
def scaling_of(spec: ClipSpec) -> Scaling:
    """What decides how a frame is scaled, beside the frame itself: specs that agree in it share
    their frames."""
    is_anywhere = spec.sampling in ("random", "dense") and spec.align is None
    return Scaling(scaling_key(spec), is_anywhere)


class FoundVideo(NamedTuple):
    """What the store has of a video."""

    stored: StoredVideo
    info: VideoInfo
    source: FrameFormat


class ClipStore:
    """The frame store of the videos under one root, as clips are made from it."""

    def __init__(self, keep: CacheDirectory, root: str, graphs: FilterGraphs) -> None:
        self.store = FrameStore(keep.own("frames"), keep.max_bytes, root, software_and_code())
        self.graphs = graphs
        self._excluded: LRUCache[tuple[str, bytes], bool] = LRUCache(_MOST_EXCLUDED)

    def find(self, path: str, file: VideoFile, spec: ClipSpec, tick: Tick) -> FoundVideo | None:
        """What the store has of a video. ``tick`` is called meanwhile, and while its frames are
        written."""
        self.store.tick = tick
        if why := _why_not(spec):
            self.store.tell(f"keeps nothing for {why}")
            return None
        if not file.has_version:
            self.store.tell("keeps nothing of files whose server tells no ETag or time of change")
            return None
        if (path, file.identity) in self._excluded:
            return None
        stored = self.store.open(path, file.identity, scaling_of(spec))
        if stored is None:
            return None
        try:
            info = VideoInfo.from_bytes(stored.head.info)
            return FoundVideo(stored, info, unpack_format(stored.head.layout))
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
        """The frames of these clips, as far as the store has them. None if it has none of the video
        and no room for it."""
        if not (is_keepable(spec) and file.has_version):
            return None
        if (path, file.identity) in self._excluded or (found is None and not self.store.has_room):
            return None
        return ClipFrames(self, path, file.identity, spec, info, params, found)

    def exclude(self, path: str, file: VideoFile) -> None:
        """Neither read nor write frames of a video from now on: they cannot be kept."""
        self._excluded[path, file.identity] = True

    def is_full_for(self, spec: ClipSpec, frames: ClipFrames | None) -> bool:
        """Whether the store is full, and takes no more frames of the video of some clips."""
        return is_keepable(spec) and not (frames and frames.from_frame_store) and self.store.is_full


class FormatChangedError(Exception):
    """The frames of a video change their format, so they are not kept."""


class ClipFrames:
    """The frames of some clips of a video: from the store, or decoded and on their way into it.

    Attributes:
        missing: Frames that have to be decoded, increasing.
        extra: Frames to write beside them: see `reserve_extra_frames`.
    """

    def __init__(
        self,
        keeper: ClipStore,
        path: str,
        identity: bytes,
        spec: ClipSpec,
        info: VideoInfo,
        params: Sequence[ClipParams],
        found: FoundVideo | None,
    ) -> None:
        self._store, self._path, self._identity = keeper.store, path, identity
        self._spec, self._info, self._params = spec, info, params
        self._scaling, self._graphs = scaling_of(spec), keeper.graphs
        shown = [pictures(drawn.frame_indices).tolist() for drawn in params]
        wanted = sorted({ordinal for each in shown for ordinal in each} - {-1})
        self._row_of = {ordinal: row for row, ordinal in enumerate(wanted)}
        self._conversion: Conversion | None = None  # of source frames to scaled ones
        self._rows = np.empty((0, 0), np.uint8)  # the scaled frames of the clips, [n, frame_bytes]
        self._stored = None if found is None else found.stored
        self._target: StoredVideo | None = None  # where frames that are decoded are written
        self._graph_kept: FilterGraph | None = None
        self._run: list[Buffer] = []  # of consecutive frames, which are written at once
        self._run_end = 0
        self._sums: dict[int, int] = {}
        self.extra: list[int] = []
        self._began_s = 0.0  # on a core, when the first frame came
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
        if self._stored is not None and self._stored.head.frame_bytes != self._rows.shape[1]:
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
            self._store.failed_to_read(error)
            return wanted

    def reserve_extra_frames(self, order: FrameTable) -> None:
        """Choose the ``extra`` frames, and take room for what is written of a video that is stored
        already. When a video is met for the first time, they are the others that are decoded on
        the way. Later they are all frames of the groups of pictures: that costs more once, and less
        in all epochs together."""
        if self._scaling.all_frames and self.missing:
            self.extra = self._choose(order)
        if self._stored is not None and self.missing:
            if self._store.takes(self._stored, self._scaling, self._written):
                self._target = self._stored
            else:
                self.extra = []

    @property
    def _written(self) -> list[int]:
        return sorted({*self.missing, *self.extra})

    def _choose(self, order: FrameTable) -> list[int]:
        groups = {order.group_of(ordinal) for ordinal in self.missing} - {-1}
        last = self.missing[-1] if self._stored is None else order.frames
        stored = () if self._stored is None else self._stored.ordinals
        return [
            ordinal
            for group in groups
            for ordinal in order.members(group)
            if ordinal <= last and ordinal not in stored
        ]

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
        graph = self._graph_kept = self._graph_kept or self._graphs[self._conversion]
        row = np.empty(self._rows.shape[1], np.uint8) if at is None else self._rows[at]
        pack_frame(graph.through(frame), row)
        if is_written:
            if ordinal != self._run_end or len(self._run) >= _RUN:
                self._write()
            self._run.append(row)
            self._run_end = ordinal + 1

    def _create(self, source: FrameFormat) -> None:
        self._begin(source)
        layout, info = pack_format(source), self._info.to_bytes()
        head = Head(self._identity, self._info.num_frames, self._rows.shape[1], layout, info)
        with self._store.pace.expecting(_FILE_S):
            self._target = self._store.create(self._path, self._scaling, head, self._written)

    def _write(self) -> None:
        run, self._run = self._run, []
        if not run or self._target is None:
            return
        began, first = time.perf_counter(), self._run_end - len(run)
        try:
            sums = self._target.write(first, run)
            self._sums.update(zip(range(first, self._run_end), sums, strict=True))
        except OSError as error:
            self._give_up(error)
        expected = sum(map(len, run)) / _BYTES_A_S
        self._store.pace.took(time.perf_counter() - began, expected)

    def commit(self) -> None:
        """The pass met with no complaint: its frames count as kept from now on."""
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
            made = ClipPixels(self._spec, self._info, drawn, self._graphs, clip)
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
        self._store.failed_to_write(error)
