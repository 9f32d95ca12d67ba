"""The index of a video file: the number of frames, their order, and where decoding can start.

**Frame i is the i-th frame, in presentation order, of a complete sequential decode.** Headers and
timestamps can be wrong about it. If container index, packet sizes and the headers of all pictures
prove which frames the packets give (see `bitstreams.proofs`), nothing is decoded. If they do not,
one complete decode finds out. It stores a checksum of every frame, and each frame decoded later
must have that checksum.

An index depends only on the bytes of the file. It is found out once on a host (see `indexes`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from videoload.bitstreams.pictures import Ints, compact
from videoload.clips.video_info import VideoInfo, as_plain, from_plain
from videoload.errors import named
from videoload.logs import Log, RateLimitedLog
from videoload.reading.containers import NotedPackets, OpenedVideo, is_named_avi
from videoload.reading.display import Display, display_of
from videoload.reading.frame_decoder import FrameDecoder
from videoload.reading.order import FrameTable
from videoload.reading.packets import PacketTable, read_packets, read_plain
from videoload.reading.placed_video import CHUNK, PlacedPackets, PlacedVideo
from videoload.reading.plain_avi import PlainAvi, read_plain_avi
from videoload.reading.timing import Timing
from videoload.reading.video import VideoReader
from videoload.stopwatch import Stopwatch
from videoload.storage.content import Content
from videoload.storage.files import FIRST_BYTES, Tick
from videoload.storage.video_file import VideoFile

_SLACK_BYTES = 4096  # around packets: headers, a few packets of audio
_MOST_PIXELS = 64 << 20  # of a frame; decoders refuse more
_MOST_ASPECT = 256  # of a pixel
_LATE_S = 0.25  # a label's time is seldom more exact
_MOST_S = 10**12  # more is no time
_MAX_KNOWN = 256  # headers: the files of a dataset have few encoders

_late = RateLimitedLog(Log(__name__))


class VideoIndex(NamedTuple):
    """The index of a video.

    ``positions``: where the data of each packet is, int64 [packets], if the container has them.
    ``placed``: how they are read there. ``noted``: what each packet must be after a seek.
    ``opening``: as `VideoFile.opening`.
    """

    info: VideoInfo
    order: FrameTable
    positions: Ints | None = None
    placed: PlacedPackets | None = None
    noted: NotedPackets | None = None
    opening: Sequence[tuple[int, int]] = ()

    def prefetch(self, file: VideoFile, frames: Iterable[int]) -> None:
        """Prefetch the bytes that these frames need of a file on another host. A small file is
        fetched whole: other clips need the rest of it."""
        if file.fetches:
            opening = self.opening if self.placed is None else ()
            is_small = file.size <= FIRST_BYTES
            file.prefetch(
                [(0, file.size)] if is_small else [*self.byte_ranges(frames, file.size), *opening]
            )

    def byte_ranges(self, frames: Iterable[int], size: int) -> list[tuple[int, int]]:
        """Return the byte ranges of the packets for these frames, as far as the index knows, in a
        file of ``size`` bytes: those from the keyframe before each frame to its own."""
        if self.noted is not None and not self.noted.are_right:
            return []
        lasts: dict[int, int] = {}
        for ordinal in frames:
            group, packet = self.order.group_of(ordinal), self.order.packet(ordinal)
            lasts[group] = max(lasts.get(group, -1), packet)
        found: list[tuple[int, int]] = []
        for group, last in lasts.items():
            begin, end = self.order.start(group).position, self._end(group, last, size)
            if 0 <= begin < end:
                found.append((max(0, begin - _SLACK_BYTES), min(size, end + _SLACK_BYTES)))
        return found

    def _end(self, group: int, last: int, size: int) -> int:
        """Return the end of a packet in a GOP, or that of the GOP."""
        following = last + 1
        if self.positions is None:
            if group + 1 == len(self.order.starts):
                return size
            return self.order.start(group + 1).position
        return size if following >= len(self.positions) else self.positions.item(following)

    @property
    def memory_bytes(self) -> int:
        """The memory that it takes, with what Python adds."""
        info, order = self.info, self.order
        arrays: list[npt.NDArray[Any] | None] = [
            None if info.times is None else np.frombuffer(info.times),
            order.starts, order.starts, order.ordinals, order.ordinals, order.sums,
            order.non_reference,
            self.positions,
            None if self.placed is None else self.placed.sizes,
            None if self.noted is None else self.noted.sums,
        ]  # fmt: skip
        keys = len(info.keys or b"")
        return 2000 + keys + sum(array.nbytes for array in arrays if array is not None)

    def to_bytes(self) -> bytes:
        """It as bytes, for the disk. Numbers that rise are written as their steps, which are small
        and alike."""
        order, placed = self.order, self.placed
        stored = _Stored(
            self.info._replace(keys=None), _steps(order.starts), order.ordinals, order.sums,
            None if placed is not None or self.positions is None else _steps(self.positions),
            placed and placed._replace(positions=_steps(placed.positions - _before(placed.sizes))),
            None if self.noted is None else self.noted.sums,
            order.non_reference, self.opening,
        )  # fmt: skip
        return msgspec.msgpack.encode(stored, enc_hook=as_plain)

    @classmethod
    def from_bytes(cls, data: bytes) -> VideoIndex:
        """Reverse `to_bytes`. Raises ValueError for what it cannot have made."""
        try:
            stored = _STORED.decode(data)
        except msgspec.MsgspecError as error:  # other code wrote it
            raise ValueError(f"not an index: {error}") from None
        placed = stored.placed
        if placed is not None:  # from the end of a packet to the next one
            begins = _summed(placed.positions) + _before(placed.sizes)
            placed = placed._replace(positions=compact(begins))
        positions = stored.positions if stored.positions is None else _summed(stored.positions)
        starts = _summed(stored.starts.reshape(-1, 4))
        order = FrameTable(
            stored.info.num_frames, starts, stored.ordinals, stored.sums, stored.non_reference
        )
        noted = None if stored.noted is None else NotedPackets(stored.noted)
        return cls(
            stored.info._replace(keys=order.keys), order,
            positions if placed is None else placed.positions, placed, noted, stored.opening,
        )  # fmt: skip

    def check(self, size: int) -> None:
        """Check an index of another user for a file of ``size`` bytes: it must not lead outside the
        file, or to more memory than such a file can take. Raises ValueError."""
        info, order, placed, positions = self.info, self.order, self.placed, self.positions
        frames, places = order.frames, order.starts.astype(np.int64)
        noted, sizes = self.noted and self.noted.sums, placed and placed.sizes
        packets = _agreed([order.ordinals, order.non_reference, noted, positions, sizes])
        most = size if packets is None else packets
        across, down = info.coded_size
        for is_right in (
            1 <= frames <= size,
            packets is None or packets <= size,
            order.ordinals is not None or order.sums is not None or frames <= most,
            _lie(order.ordinals, -1, frames - 1),
            order.sums is None or len(order.sums) == frames,
            info.times is None or len(info.times) == frames,
            info.times is None or bool(np.isfinite(np.frombuffer(info.times)).all()),
            _lie(places[:, 0], 0, frames - 1) and bool((np.diff(places[:, 0]) >= 0).all()),
            _lie(places[:, 1], 0, most - 1) and _lie(places[:, 3], -1, size),
            _lie(order.non_reference, 0, most),
            _lie(positions, -1, size),
            all(0 <= begin <= end for begin, end in self.opening),
            min(info.width, info.height) >= 1 and min(info.cut) >= 0,
            across * down <= _MOST_PIXELS,
            0 <= info.quarter_turns <= 3,
            info.fps >= 0,
            -_MOST_S <= (info.begin_stream_s or 0) <= _MOST_S and 0 <= info.late <= _MOST_S,
            1 / _MOST_ASPECT <= info.pixel_aspect_ratio <= _MOST_ASPECT,
        ):
            if not is_right:
                raise ValueError("it contradicts the file")
        if placed is not None:
            self._check_placed(placed, size)

    def _check_placed(self, placed: PlacedPackets, size: int) -> None:
        starts, sizes = placed.positions.astype(np.int64), placed.sizes.astype(np.int64)
        is_stream = placed.stream is None or 0 <= placed.stream <= 99
        if not (is_stream and _lie(starts, CHUNK.size, size) and _lie(sizes, 0, size)):
            raise ValueError("it contradicts the file")
        if not _lie(starts + sizes, CHUNK.size, size):
            raise ValueError("packets are outside the file")
        try:
            FrameDecoder.create(placed.codec, placed.parameters, strict=True)
        except Exception as error:  # PyAV has many kinds
            raise ValueError(f"no decoder can be created: {error}") from None


def _agreed(arrays: Sequence[Any]) -> int | None:
    """Return the length that arrays of packets have. Raises ValueError if it is not one."""
    lengths = {len(each) for each in arrays if each is not None}
    if len(lengths) > 1:
        raise ValueError("it has several numbers of packets")
    return next(iter(lengths), None)


def _lie(numbers: Ints | None, least: int, most: int) -> bool:
    """Return whether all numbers are in a range."""
    if numbers is None or not len(numbers):
        return True
    return bool(least <= numbers.min() and numbers.max() <= most)


def _steps(numbers: Ints) -> Ints:
    whole = numbers.astype(np.int64)
    whole[1:] -= whole[:-1].copy()
    return compact(whole)


def _before(sizes: Ints) -> Ints:
    """Return the bytes of all packets before each."""
    ends: Ints = sizes.cumsum(dtype=np.int64)
    return ends - sizes


def _summed(steps: Ints) -> Ints:
    return compact(steps.cumsum(axis=0, dtype=np.int64))


class _Stored(NamedTuple):
    """An index, as it is written."""

    info: VideoInfo
    starts: Ints
    ordinals: Ints | None
    sums: Ints | None
    positions: Ints | None
    placed: PlacedPackets | None
    noted: Ints | None
    non_reference: Ints | None
    opening: Sequence[tuple[int, int]]


_STORED = msgspec.msgpack.Decoder(_Stored, dec_hook=from_plain)


def open_video(
    file: VideoFile,
    index: VideoIndex,
    *,
    strict: bool = True,
    watch: Stopwatch | None = None,
    decoder: FrameDecoder | None = None,
) -> VideoReader:
    """Open an indexed file for decoding. ``watch``: notes how long seeking takes. ``decoder``: see
    `PlacedVideo`. Raises BrokenFileError."""
    if index.placed is not None:
        return PlacedVideo(file, index.placed, strict=strict, decoder=decoder)
    return OpenedVideo(file, strict=strict, watch=watch, noted=index.noted)


class KnownHeaders:
    """What FFmpeg found in videos that it has opened, for those that begin alike: see
    `plain_avi`."""

    def __init__(self) -> None:
        self._known: LRUCache[bytes, tuple[VideoInfo, PlacedPackets, Fraction]] = LRUCache(
            _MAX_KNOWN
        )

    def index_of(self, avi: PlainAvi, content: Content) -> VideoIndex | None:
        """Return the index of such a file, if FFmpeg need not open it."""
        if avi.headers not in self._known:
            return None
        info, packets, base = self._known[avi.headers]
        table = read_plain(avi, content, packets, base)
        if table is None:
            return None
        rate, times, _ = table.timing
        return _index(info._replace(num_frames=table.pictures.frames, fps=rate, times=times), table)

    def note(self, avi: PlainAvi, index: VideoIndex, base: Fraction | None) -> None:
        """Note the ``base`` of a proven file's times, as FFmpeg found it."""
        packets = index.placed
        is_as_taken = (
            packets is not None
            and packets.codec == "mpeg4"
            and packets.stream == avi.stream
            and np.array_equal(packets.positions, avi.positions)
            and np.array_equal(packets.sizes, avi.sizes)
        )
        if (
            packets is not None
            and base is not None
            and is_as_taken
            and index.info.begin_stream_s == 0
        ):
            self._known[avi.headers] = index.info, packets, base


def find_index(
    file: VideoFile,
    tick: Tick,
    watch: Stopwatch | None = None,
    headers: KnownHeaders | None = None,
) -> tuple[VideoIndex | None, VideoReader | None]:
    """Return the index of a file, if headers prove it; and the file, if it is open and can be used
    for decoding. ``headers``: of files requested before. Raises BrokenFileError, OSError."""
    watch, headers = watch or Stopwatch(), headers or KnownHeaders()
    with closing(Content(file)) as content:
        avi = read_plain_avi(content.in_memory()) if is_named_avi(file) else None
        if avi is not None and (index := headers.index_of(avi, content)) is not None:
            return index, None
        # For an AVI, FFmpeg only reads header and index.
        source = content.ffmpeg_source if is_named_avi(file) else None
        with watch.phase("open"):
            opened = OpenedVideo(file, watch=watch, source=source)
        index = prove_index(opened, content, tick)
        if avi is not None and index is not None:
            headers.note(avi, index, opened.stream.time_base)
    # No decoder is created yet: its memory would be cold when it is used.
    if index is not None and index.placed is not None:
        opened.close()
        return index, None
    return index, opened


def prove_index(opened: OpenedVideo, content: Content, tick: Tick) -> VideoIndex | None:
    """Return the index of a file that FFmpeg has just opened, if it can be known without decoding.
    ``content``: its bytes. Raises OSError."""
    context = opened.decoder.context
    # Any packet may contain a palette: a seek would lose it.
    if context.pix_fmt in (None, "pal8") or not (context.width and context.height):
        return None
    table = read_packets(opened, content, tick)
    if table is None:
        return None
    opened.noted = table.noted
    size = context.width, context.height
    frames = table.pictures.frames
    ordinals = table.pictures.ordinals
    display = display_of(opened, tick, begins=ordinals is None or ordinals[0] == 0)
    info = info_of_file(opened, frames, size, table.timing, display)
    return _index(info, table, opened.file.opening)


def _index(
    info: VideoInfo, table: PacketTable, opening: Sequence[tuple[int, int]] = ()
) -> VideoIndex:
    frames, starts, ordinals, non_reference, _ = table.pictures
    firsts = starts if ordinals is None else ordinals[starts]
    rows = np.array((firsts, starts, table.times[starts], table.positions[starts])).T
    ordinals = None if ordinals is None else compact(ordinals)
    order = FrameTable(frames, compact(rows), ordinals, non_reference=non_reference)
    positions: Ints | None = None
    if table.noted is None:
        positions = compact(table.positions) if table.placed is None else table.placed.positions
    info = info._replace(keys=order.keys)
    return VideoIndex(info, order, positions, table.placed, table.noted, opening)


def info_of_file(
    opened: OpenedVideo, frames: int, size: tuple[int, int], timing: Timing, display: Display
) -> VideoInfo:
    """Return the metadata of a file whose frames are decoded to this (width, height)."""
    turns, mirrored, (left, top, right, bottom), _ = display
    rate, times, begins = timing
    late = _late_of(opened, begins)
    return VideoInfo(
        frames, rate, size[0] - left - right, size[1] - top - bottom, turns, mirrored, times,
        display.cut, None if opened.is_joined else begins, display.aspect, late,
    )  # fmt: skip


def _late_of(opened: OpenedVideo, begins: Fraction | None) -> Fraction:
    """Return how many seconds the first frame begins after the file, perhaps after its audio. A
    player counts from the beginning of the file, rows from the first frame: the log names such
    files. Times before 0 do not count: players skip them (an encoder's delay)."""
    start = opened.container.start_time  # of all streams, in microseconds
    if start is None or begins is None or opened.is_joined:
        return Fraction()
    late = max(Fraction(), begins - Fraction(max(start, 0), 1_000_000))
    late = min(late, Fraction(_MOST_S)).limit_denominator(1_000_000)
    if late > _LATE_S:
        _late.add(
            f"{named(opened.file.path)}: the picture begins {float(late):.3g} s after the audio, "
            "and start_s, end_s and at_s count from the first frame, unless ClipSpec has "
            'seconds="file": as players count',
            time.monotonic(),
        )
    return late
