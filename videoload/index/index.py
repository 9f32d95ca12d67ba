"""What is known of a video file: how many frames, in which order, and where decoding can start.

**Frame i is the i-th picture in display order: the i-th frame that a complete sequential decode
outputs.** Headers and time stamps can be wrong about it. If container index, packet sizes and
picture headers prove which frames the packets give (see `bitstreams.proofs`), nothing is decoded,
and an index takes a fraction of a millisecond. If they do not, one complete decode tells. It keeps
a checksum of every frame, and each frame that comes out later must have that checksum.

An index depends only on the bytes of the file.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable
from contextlib import closing
from fractions import Fraction
from functools import cache
from typing import Any, cast
from zlib import crc32

import av
import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame
from av.video.plane import VideoPlane

from videoload.bitstreams.avi_header import MAX_STRETCHED
from videoload.bitstreams.h264 import may_turn
from videoload.bitstreams.pictures import DATA_BYTES, KeyFrame
from videoload.clips.video_info import VideoInfo
from videoload.index.moov import read_moov, shows_as_stored
from videoload.index.packets import PacketTable, read_packets, read_plain_avi
from videoload.index.timing import Timing
from videoload.reading.avi_video import AviPackets, AviVideo
from videoload.reading.containers import NotedPackets, OpenedVideo, Video
from videoload.reading.display import Display, display_of
from videoload.reading.image_video import ImageVideo, info_of
from videoload.stopwatch import Stopwatch
from videoload.storage.content import Content
from videoload.storage.files import VideoFile
from videoload.storage.images import ImageFolder
from videoload.storage.spans import Range

Tick = Callable[[], None]
Ints = npt.NDArray[np.int64]

_HEADER = struct.Struct("<QQ")
_SLACK_BYTES = 4096  # around a group of pictures: headers, a few packets of sound


class VideoIndex:
    """The index of a video.

    ``keyframes``: where decoding can start, int64 rows of `KeyFrame`. ``ordinals``: as in
    `Pictures`, if the pictures are proven. ``sums``: a checksum for each frame, int64 [frames], if
    the file had to be decoded. ``avi``: where the packets of an AVI are. ``noted``: what each
    packet must be after a seek.
    ``decodable`` caches, per group of pictures, the first and last frame that still decode; it is
    empty if none do.
    """

    def __init__(
        self,
        info: VideoInfo,
        keyframes: Ints,
        *,
        ordinals: Ints | None = None,
        sums: Ints | None = None,
        avi: AviPackets | None = None,
        noted: NotedPackets | None = None,
    ) -> None:
        self.info = info
        self.keyframes = keyframes
        self.ordinals = ordinals
        self.sums = sums
        self.avi = avi
        self.noted = noted
        self.decodable: dict[int, list[int]] = {}
        self._starts: list[int] = keyframes[:, 0].tolist()  # of a proven one, from 0 on
        self._last: tuple[int, KeyFrame] | None = None

    @property
    def is_proven(self) -> bool:
        """Whether this index was made without decoding."""
        return self.sums is None

    @property
    def gives_a_frame_a_packet(self) -> bool:
        """Whether each packet brings one frame, its own picture."""
        return self.is_proven and self.ordinals is None

    def keyframe_before(self, ordinal: int) -> KeyFrame | None:
        """The last place at or before a frame where decoding can start."""
        group = self.group_of(ordinal)
        return None if group < 0 else self.keyframe(group)

    def keyframe(self, group: int) -> KeyFrame:
        """Where a group of pictures starts."""
        last = self._last  # a clip asks for the same one at each of its frames
        if last is None or last[0] != group:
            last = self._last = group, KeyFrame(*self.keyframes[group].tolist())
        return last[1]

    def group_of(self, ordinal: int) -> int:
        """The number of the group of pictures that a frame is in; -1 before the first group."""
        return bisect_right(self._starts, ordinal) - 1

    def end(self, group: int) -> int:
        """The ordinal after the last frame of a group."""
        return [*self._starts[group + 1 : group + 2], self.info.frames][0]

    def ordinal(self, packet: int) -> int:
        """The ordinal of the frame that a packet of a proven video gives; -1 for none."""
        if self.ordinals is None:
            return packet
        return int(self.ordinals[packet]) if packet < len(self.ordinals) else -1

    def byte_ranges(self, frames: Iterable[int], size: int) -> list[Range]:
        """Where the groups of pictures with these frames are, as far as the index tells, in a file
        of ``size`` bytes."""
        found: list[Range] = []
        if self.noted is not None and not self.noted.hold:
            return found
        for group in {self.group_of(ordinal) for ordinal in frames} - {-1}:
            begin = self.keyframe(group).position
            is_last = group + 1 == len(self.keyframes)
            end = size if is_last else self.keyframe(group + 1).position
            if 0 <= begin < end:
                found.append(Range(max(0, begin - _SLACK_BYTES), min(size, end + _SLACK_BYTES)))
        return found

    @property
    def memory_bytes(self) -> int:
        """The memory that it takes, with what Python adds."""
        times = None if self.info.times is None else np.frombuffer(self.info.times)
        places = () if self.avi is None else (self.avi.positions, self.avi.sizes)
        arrays: tuple[npt.NDArray[Any] | None, ...]
        noted = None if self.noted is None else self.noted.sums
        arrays = (self.keyframes, self.ordinals, self.sums, times, noted, *places)
        return 1000 + 8 * len(self._starts) + sum(a.nbytes for a in arrays if a is not None)

    def to_bytes(self) -> bytes:
        """An index that a complete decode made, as bytes. Raises ValueError for any other."""
        if self.sums is None:
            raise ValueError("a proven index is made again, not kept")
        info = self.info.to_bytes()
        head = _HEADER.pack(len(info), len(self.keyframes))
        return head + info + self.keyframes.tobytes() + self.sums.astype(np.uint32).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> VideoIndex:
        """The reverse of `to_bytes`. Raises ValueError for what it cannot have made."""
        try:
            length, count = _HEADER.unpack_from(data)
            starts = _HEADER.size + length
            info = VideoInfo.from_bytes(data[_HEADER.size : starts])
        except (struct.error, ValueError) as error:
            raise ValueError(f"not an index: {error}") from None
        ends = starts + 32 * count
        if len(data) != ends + 4 * info.frames:
            raise ValueError("not an index: its lengths do not add up")
        keyframes = np.frombuffer(data, np.int64, 4 * count, starts).reshape(count, 4)
        sums = np.frombuffer(data, np.uint32, info.frames, ends).astype(np.int64)
        return cls(info, keyframes, sums=sums)


def open_video(
    file: VideoFile, index: VideoIndex, *, strict: bool = True, watch: Stopwatch | None = None
) -> Video:
    """Open an indexed file for decoding. ``watch``: notes how long seeking takes. Raises
    UnreadableError."""
    if isinstance(file, ImageFolder):
        return ImageVideo(file, strict=strict)
    if index.avi is not None:
        return AviVideo(file, index.avi, strict=strict)
    return OpenedVideo(file, strict=strict, watch=watch, noted=index.noted)


def find_index(
    file: VideoFile, tick: Tick, watch: Stopwatch | None = None
) -> tuple[VideoIndex | None, Video | None]:
    """The index of a file, if it can be told without decoding; and the file, if it is open and can
    be used for decoding. Raises UnreadableError, OSError."""
    if isinstance(file, ImageFolder):
        info = info_of(file, tick)
        each = np.arange(info.frames)
        return VideoIndex(info, np.array((each, each, 0 * each, 0 * each - 1)).T), None
    with closing(Content(file)) as content:
        if file.path[-4:].lower() == ".avi" and (plain := read_plain_avi(content)) is not None:
            header, table = plain
            video, (rate, times) = header.video, table.timing
            info = VideoInfo(
                table.pictures.frames, rate, *video.size, 0, _aspect(video.aspect), times=times
            )
            return _index(table, info), None
        watch = watch or Stopwatch()
        with watch.phase("open"):
            opened = OpenedVideo(file, watch=watch)
        file.was_opened()  # a pass may read all of it
        index = prove_index(opened, content, tick)
        # No decoder is made yet: its memory would be cold when the time for it comes.
        if index is not None and index.avi is not None:
            opened.close()
            return index, None
        return index, opened


def prove_index(opened: OpenedVideo, content: Content, tick: Tick) -> VideoIndex | None:
    """The index of a file that FFmpeg has just opened, if it can be told without decoding.
    ``content``: its bytes. Raises OSError."""
    context = opened.decoder.context
    # A palette may come with any packet: a seek would lose it.
    if context.pix_fmt in (None, "pal8") or not (context.width and context.height):
        return None
    table = read_packets(opened, content, tick)
    if table is None:
        return None
    opened.noted = table.noted
    stored = _shows_as_stored(opened, content, table)
    display = Display() if stored else display_of(opened, tick)
    size = context.width, context.height
    return _index(table, info_of_file(opened, table.pictures.frames, size, table.timing, display))


def info_of_file(
    opened: OpenedVideo, frames: int, size: tuple[int, int], timing: Timing, display: Display
) -> VideoInfo:
    """What a clip depends on, of a file whose frames are decoded to this (width, height)."""
    turns, mirrored, (left, top, right, bottom) = display
    rate, times = timing
    return VideoInfo(
        frames, rate, size[0] - left - right, size[1] - top - bottom, turns,
        _aspect(opened.stream.sample_aspect_ratio), mirrored, times, display.cut,
    )  # fmt: skip


def _shows_as_stored(opened: OpenedVideo, content: Content, table: PacketTable) -> bool:
    """Whether headers alone tell that frames are neither turned nor mirrored: `orientation` takes
    more than half of the time of an index."""
    context, first = opened.decoder.context, int(table.positions[0])
    if context.name in ("h264", "mjpeg"):
        if first < 0 or table.noted is not None:
            return False
        begins = content.read(first, DATA_BYTES)
        told = (
            b"Exif" in begins
            if context.name == "mjpeg"
            else may_turn(context.extradata or b"", begins)
        )
        if told:
            return False
    elif context.name == "hevc":
        return False
    if opened.is_avi:
        return True
    return opened.container.format.name.startswith("mov") and shows_as_stored(read_moov(content))


def _index(table: PacketTable, info: VideoInfo) -> VideoIndex:
    positions, times, pictures, _, avi, noted = table
    starts = pictures.starts
    ordinals = starts if pictures.ordinals is None else pictures.ordinals[starts]
    rows = np.array((ordinals, starts, times[starts], positions[starts])).T
    return VideoIndex(info, rows, ordinals=pictures.ordinals, avi=avi, noted=noted)


def _aspect(told: Fraction | None) -> Fraction:
    aspect = Fraction(told or 1)
    return aspect if max(aspect, 1 / aspect) <= MAX_STRETCHED else Fraction(1)


def checksum(frame: VideoFrame) -> int:
    """The CRC of the visible pixels of a frame, its size and format."""
    pixels = frame.format.name
    total = crc32(f"{pixels} {frame.width} {frame.height}".encode())
    for i, pixel_bits in enumerate(_plane_bits(pixels)):
        plane = VideoPlane(frame, i)
        used = -(-plane.width * pixel_bits // 8)  # the rest of a line may hold anything
        lines = np.ndarray(
            (plane.height, used), np.uint8, cast(memoryview, plane), 0, (abs(plane.line_size), 1)
        )
        total = crc32(lines.tobytes(), total)
    return total


@cache
def _plane_bits(pixels: str) -> tuple[int, ...]:
    """Bits that a pixel takes in each plane."""
    layout = av.VideoFormat(pixels)
    if pixels == "pal8":
        return 8, 32  # indices, colours
    if not layout.is_planar:
        return (layout.padded_bits_per_pixel,)
    bits = [0] * 4
    for component in layout.components:
        bits[component.plane] += 16 if component.bits > 8 else 8
    return tuple(filter(None, bits))
