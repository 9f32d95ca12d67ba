"""A video file as what it is: a row of frames.

The truth about an AVI file is in none of its headers: frame counts lie, time stamps are made up
and run backwards, key frame flags and indexes are wrong or missing. What holds is the decoder's
output: **frame i is the i-th frame that a complete sequential decode of the file outputs.**

So the first visit to a file decodes it once from end to end and notes (`VideoIndex`) its frame
count, a checksum of every frame, and for each key frame where its packet lies and which ordinal it
came out as. Later visits go to the last key frame at or before the frame wanted, make sure that the
packet found there is the one noted, and count on from its key frame. A frame is handed out only if
its checksum is the one noted; it is checked once for each way that leads to it. Where anything
does not add up, the file is decoded from its start: slower, never wrong.

Damage: a packet that the decoder refuses is skipped, a frame that it repairs is kept, the end of
what can be read is the end of the video. Everything runs in one thread, because on damaged files
the number of threads changes the pixels. So does a frame that is held while the next one is
decoded: some decoders leave in a broken picture what its recycled memory held before. Therefore no
frame is kept here beyond the call it is given to.
"""

from __future__ import annotations

import os
import platform
import struct
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, cast
from zlib import crc32

import av
import numpy as np
import numpy.typing as npt
from av.codec.context import Flags
from av.container import InputContainer
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.plane import VideoPlane
from av.video.stream import VideoStream
from cachetools import LRUCache

from videoload.spec.clips import Facts

if TYPE_CHECKING:
    _Packet = Packet[VideoStream]

Frame = VideoFrame
Tick = Callable[[], None]
Use = Callable[[int, Frame], None]

# Containers that hold their own pictures; playlists and scripts that name other files are not here.
_CONTAINERS = "avi,mov,mp4,matroska,webm,mpeg,mpegts,mpegvideo,mjpeg,m4v,dv,flv,ogg"
_MAX_PIXELS = 8192 * 8192
_BITEXACT = int(Flags.bitexact)
_ROUTES = 32
# How a decoder came to where it began: as it was made, by a seek after other things, reading on.
_FRESH, _USED, _READ_ON, _WAYS = 0, 1, 2, 3
_OPEN_BYTES = 64 << 20  # what open files may take, by a guess at what their decoders hold
_MOST_OPEN = 64
_FRAMES_IN_DECODER = 6
_WORTH_KEEPING = 0.3  # of the last visits, so many to files that could have been open
_VISITS = 16
_NEAR = 4  # packets that are read on sooner than sought across
_LINES = 8  # every so many are looked at to know a frame again
# What FFmpeg, and PyAV upon strange files, answer with.
_REFUSALS = (av.error.FFmpegError, OSError, ValueError, LookupError, ArithmeticError)
_HEADER = struct.Struct("<Q?IQQIII")

av.logging.set_level(None)  # FFmpeg's own log lines can deadlock with the GIL, and name no file

# What decides the pixels: workers tell it, so that a mixed fleet is noticed.
SOFTWARE = "av {} libavcodec {} {}".format(
    av.__version__, ".".join(map(str, av.library_versions["libavcodec"])), platform.machine()
)


class UnreadableError(Exception):
    """FFmpeg or the file system says no."""


class StaleIndexError(Exception):
    """The file is not the one that the index was made from."""


class Source(NamedTuple):
    """A file, and what the file system just said of it."""

    path: str
    status: os.stat_result

    @property
    def identity(self) -> tuple[int, ...]:
        """Differs where it has become another file, or has changed."""
        status = self.status
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class KeyFrame(NamedTuple):
    """Where decoding can start: output ordinal, and dts and byte position of its packet."""

    ordinal: int
    dts: int
    position: int


class VideoIndex:
    """What one complete decode told. ``keys`` are int64 rows (ordinal, dts, byte position) of the
    key frames that may be sought, ``sums`` uint16, one a frame; ``file_bytes`` is the file's size.
    """

    def __init__(
        self,
        facts: Facts,
        file_bytes: int,
        keys: npt.NDArray[np.int64],
        sums: npt.NDArray[np.uint16],
        *,
        damaged: bool,
    ) -> None:
        self.facts = facts
        self.damaged = damaged
        self.file_bytes = file_bytes
        self.keys = keys
        self.sums = sums
        self._checked = array("I", bytes(4 * len(sums)))  # by ordinal, a bit for each route
        self.starts = [KeyFrame(*row) for row in keys.tolist()]
        self._ordinals = [start.ordinal for start in self.starts]

    def key_before(self, ordinal: int) -> int:
        """Which of the ``starts`` is the last at or before a frame; -1 if there is none."""
        return bisect_right(self._ordinals, ordinal) - 1

    def forbid_seeking(self) -> None:
        """A seek gave wrong frames: from now on the file is decoded from its start."""
        self.keys = self.keys[:0]
        self.starts, self._ordinals = [], []

    def agrees(self, ordinal: int, frame: VideoFrame, route: int) -> bool:
        """Whether this is frame ``ordinal``. Of an undamaged file, it is looked at once a route."""
        if route < _ROUTES and self._checked[ordinal] >> route & 1:
            return True
        same = _checksum(frame) == int(self.sums[ordinal])
        if same and route < _ROUTES and not self.damaged:
            self._checked[ordinal] |= 1 << route
        return same

    @property
    def memory_bytes(self) -> int:
        """What it costs to keep, with what Python adds."""
        return 1000 + self.keys.nbytes + 6 * len(self.sums) + 44 * len(self.keys)

    def to_bytes(self) -> bytes:
        """About 2 bytes a frame and 24 a key frame."""
        facts = self.facts
        header = _HEADER.pack(
            self.file_bytes, self.damaged, facts.frames, facts.fps.numerator, facts.fps.denominator,
            facts.width, facts.height, len(self.keys),
        )  # fmt: skip
        return header + self.keys.tobytes() + self.sums.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> VideoIndex:
        """Raises ValueError for what `to_bytes` cannot have made."""
        try:
            size, damaged, frames, rate, scale, width, height, keys = _HEADER.unpack_from(data)
        except struct.error as error:
            raise ValueError(f"not an index: {error}") from None
        ends = _HEADER.size + 24 * keys
        if not (frames and scale and width and height) or len(data) != ends + 2 * frames:
            raise ValueError("not an index: its lengths do not add up")
        table = np.frombuffer(data, np.int64, 3 * keys, _HEADER.size).reshape(keys, 3)
        sums = np.frombuffer(data, np.uint16, frames, ends)
        facts = Facts(frames, Fraction(rate, scale), width, height)
        return cls(facts, size, table, sums, damaged=damaged)


class Report(NamedTuple):
    """What a complete decode of a file told about it, for people. ``refused`` counts the packets
    that the decoder did not take, ``repaired`` the frames that it had to mend."""

    container: str
    codec: str
    pixels: str
    header_frames: int
    packets: int
    refused: int
    repaired: int


def read_index(source: Source, tick: Tick) -> tuple[VideoIndex, Report]:
    """Decode the whole file once. Raises UnreadableError if no frame comes out of it."""
    sums: list[int] = []
    keys: list[tuple[int, int, int]] = []
    packets = refused = repaired = 0
    with _open(source.path) as container:
        stream = _video_stream(container)
        codec = stream.codec_context
        codec.copy_opaque = True  # brings each frame the mark of its own packet
        width = height = 0
        pixels = ""
        for packet in _packets(container, stream):
            if packet.is_keyframe and packet.dts is not None and (packet.pos or -1) >= 0:
                packet.opaque = (packet.dts, packet.pos)
            frames = _decode(codec, packet)
            tick()
            packets += bool(packet.size)
            refused += frames is None
            while frames:
                frame = frames.pop(0)
                if not sums:
                    width, height, pixels = frame.width, frame.height, frame.format.name
                if frame.key_frame and frame.opaque is not None:
                    dts, position = cast(tuple[int, int], frame.opaque)
                    keys.append((len(sums), dts, position))
                repaired += frame.is_corrupt
                sums.append(_checksum(frame))
                del frame
        if not sums:
            raise UnreadableError("has no frame that can be decoded")
        rate = stream.average_rate or stream.guessed_rate or Fraction(0)
        report = Report(
            container.format.name, stream.codec.name, pixels, stream.frames, packets, refused,
            repaired,
        )  # fmt: skip
    facts = Facts(len(sums), Fraction(rate), width, height)
    table = np.array(keys, np.int64).reshape(-1, 3)
    index = VideoIndex(
        facts, source.status.st_size, table, np.array(sums, np.uint16),
        damaged=bool(refused or repaired),
    )  # fmt: skip
    return index, report


class OpenFiles:
    """The files that were read last, still open: the next visit to one of them spares what opening
    costs, as much as decoding two or three frames, and more where a file is long.

    That is where files are met again. In a large data set they are not, and then each is closed
    before the next one is opened, whose decoder so gets its memory while it is in the cache: to go
    round among many costs 2 %.
    """

    def __init__(self) -> None:
        self._files = _Shelf(_OPEN_BYTES, lambda opened: opened.memory_bytes)
        # Those that would be open if all were kept, and how often a visit was to one of them.
        self._last: LRUCache[str, int] = LRUCache(_OPEN_BYTES, lambda memory_bytes: memory_bytes)
        self._again = 0.0

    def take(self, source: Source) -> _Opened | None:
        """The file, if it is here and still the one that the path leads to."""
        path = source.path
        self._again += ((path in self._last) - self._again) / _VISITS
        opened = self._files.pop(path, None)
        if opened is not None and opened.source.identity != source.identity:
            opened.close()
            return None
        return opened

    def put(self, opened: _Opened) -> None:
        """Keep the file until others need its place, if that may be worth it."""
        if opened.memory_bytes > _OPEN_BYTES:
            opened.close()
            return
        path = opened.source.path
        self._last[path] = opened.memory_bytes
        if self._again < _WORTH_KEEPING:
            opened.close()
        else:
            self._files[path] = opened

    def close(self) -> None:
        """Keep none."""
        while self._files:
            self._files.popitem()

    def __del__(self) -> None:
        self.close()


class _Opened:
    """A file and its decoder."""

    def __init__(self, source: Source, facts: Facts) -> None:
        self.source = source
        self.used = False  # the decoder has done something already
        self.container = _open(source.path)
        try:
            self.stream = _video_stream(self.container)
        except UnreadableError:
            self.close()
            raise
        self.codec = self.stream.codec_context
        self.packets = _packets(self.container, self.stream)
        frame_bytes = 2 * facts.width * facts.height
        self.memory_bytes = max(_FRAMES_IN_DECODER * frame_bytes, _OPEN_BYTES // _MOST_OPEN)

    def close(self) -> None:
        self.container.close()


class _Shelf(LRUCache[str, _Opened]):
    def popitem(self) -> tuple[str, _Opened]:
        path, opened = super().popitem()
        opened.close()
        return path, opened


def read_frames(
    source: Source, index: VideoIndex, wanted: list[int], use: Use, tick: Tick, files: OpenFiles
) -> None:
    """Call ``use`` with each of the frames of these ordinals (rising), in one pass over the file.
    It may be one of ``files``, and is one of them afterwards if it is sound.

    Raises UnreadableError, and StaleIndexError if the file is not the one indexed.
    """
    left = deque(wanted)
    if index.key_before(wanted[-1]) >= 0:
        opened = files.take(source)
        if opened is not None:
            _visit(opened, index, left, use, tick, files)
        if left:
            _visit(_Opened(source, index.facts), index, left, use, tick, files)
        if left:
            index.forbid_seeking()
    if left:
        _from_start(source.path, index, left, use, tick)


def _from_start(path: str, index: VideoIndex, left: deque[int], use: Use, tick: Tick) -> None:
    at = 0
    with _open(path) as container:
        stream = _video_stream(container)
        codec = stream.codec_context
        for packet in _packets(container, stream):
            frames = _decode(codec, packet)
            tick()
            while frames:
                frame = frames.pop(0)
                if at == left[0]:
                    if not index.agrees(at, frame, _ROUTES):
                        raise StaleIndexError
                    use(left.popleft(), frame)
                    if not left:
                        return
                at += 1
                del frame
    raise StaleIndexError


def _visit(
    opened: _Opened, index: VideoIndex, left: deque[int], use: Use, tick: Tick, files: OpenFiles
) -> None:
    sound = False
    try:
        _by_seeking(opened, index, left, use, tick)
        sound = not left and not index.damaged
    finally:
        if sound:
            files.put(opened)
        else:
            opened.close()


def _by_seeking(opened: _Opened, index: VideoIndex, left: deque[int], use: Use, tick: Tick) -> None:
    """As far as seeking goes: ends early where anything is not as the index says.

    What lies between a wanted frame and the key frame before the next wanted one is not decoded.
    """
    way, opened.used = _USED if opened.used else _FRESH, True
    at = -1 if way == _USED else 0  # ordinal of the next frame; -1: who knows
    begun = -1  # the key frame that was gone to last
    within = 0  # packets that the decoder holds back, since a later picture may be shown earlier
    frames: list[VideoFrame] | None = None
    while left:
        target = left[0]
        key = index.key_before(target)
        start = index.starts[key]
        # The decoder has done those already; after a seek it would have to take as many anew.
        if key >= 0 and (at < 0 or start.ordinal > at + within):
            near = at >= 0 and start.ordinal - at - within <= _NEAR
            packet = _read_on(opened, start) if near else None
            if packet is not None:
                way = _READ_ON
            else:
                way = _FRESH if way == _FRESH and at <= 0 else _USED
                packet = _seek(opened, start)
            if packet is None:
                return
            frames, within = _begin(opened, packet, tick)
            if frames is None:
                return
            begun, at = key, start.ordinal
        elif at < 0:
            return
        # What comes out right one way may come out wrong another: of a decoder that began at an
        # earlier key frame, that has done other things before, or whose packets were sought.
        route = _WAYS * (key - begun) + way
        while at <= target:
            if not frames:
                packet = next(opened.packets, None)
                if packet is None:
                    return
                frames = _decode(opened.codec, packet)
                within += 1 - len(frames or ())
                tick()
            elif at < target:
                frames.pop(0)
                at += 1
            else:
                frame = frames.pop(0)
                if not index.agrees(at, frame, route):
                    return
                use(left.popleft(), frame)
                at += 1
                del frame


def _read_on(opened: _Opened, key: KeyFrame) -> _Packet | None:
    """The packet of a key frame that is one of the next few. The decoder does not see those before
    it, so it has to begin anew."""
    opened.codec.flush_buffers()
    near = islice(opened.packets, _NEAR + 1)
    return next((packet for packet in near if packet.pos == key.position), None)


def _seek(opened: _Opened, key: KeyFrame) -> _Packet | None:
    """The packet of a key frame; None where the seek fails or lands on another one."""
    try:
        opened.container.seek(key.dts, stream=opened.stream)
    except _REFUSALS:
        return None
    opened.packets = _packets(opened.container, opened.stream)
    packet = next(opened.packets, None)
    return None if packet is None or packet.pos != key.position else packet


def _begin(opened: _Opened, packet: _Packet, tick: Tick) -> tuple[list[VideoFrame] | None, int]:
    """Decode from a key frame's packet on until it comes out: the frames from it on, and how many
    packets the decoder holds back then. None if it never does."""
    within = 0
    for following in chain((packet,), opened.packets):
        frames = _decode(opened.codec, following)
        tick()
        within += 1
        while frames and not frames[0].key_frame:
            frames.pop(0)
            within -= 1
        if frames:
            return frames, within - len(frames)
    return None, 0


def _packets(container: InputContainer, stream: VideoStream) -> Iterator[_Packet]:
    """The packets from where the file stands; an empty one at the end brings the last frames."""
    try:
        yield from container.demux(stream)
    except _REFUSALS:  # the file cannot be read any further: flush
        yield cast("_Packet", Packet())


def _decode(codec: VideoCodecContext, packet: _Packet) -> list[VideoFrame] | None:
    """What comes out upon a packet; None if the decoder refuses it."""
    try:
        return codec.decode(packet if packet.size else None)
    except _REFUSALS:
        return None


def _open(path: str) -> InputContainer:
    try:
        return av.open(
            path,
            metadata_errors="replace",  # a Latin-1 title is no reason to refuse the pictures
            container_options={
                "format_whitelist": _CONTAINERS,
                "protocol_whitelist": "file",
            },
        )
    except _REFUSALS as error:
        why = getattr(error, "strerror", None) or error
        raise UnreadableError(f"is not a video that can be opened ({why})") from None


def _video_stream(container: InputContainer) -> VideoStream:
    if not container.streams.video:
        raise UnreadableError("has no video stream")
    stream = container.streams.video[0]
    context = stream.codec_context
    if context is None:
        raise UnreadableError("has a video codec that FFmpeg does not know")
    context.thread_type = "NONE"
    context.thread_count = 1
    # The IDCT stays FFmpeg's choice: Xvid files ask for Xvid's own, and drift with any other.
    context.flags |= _BITEXACT  # as an option, in words, it takes FFmpeg 40 microseconds to read
    context.options = {"max_pixels": str(_MAX_PIXELS)}
    return stream


def _checksum(frame: VideoFrame) -> int:
    """16 bits of the CRC of every eighth line of the first plane (and of the palette): enough to
    tell a frame from its neighbours, and from one that was decoded without what it refers to, since
    what refers to other frames does so in blocks of eight lines or more. 3.5 us at 320x240."""
    plane = VideoPlane(frame, 0)  # `frame.planes` makes all three
    pixels = frame.format.name
    shape, strides = _lines(pixels, plane.width, plane.height, abs(plane.line_size))
    total = crc32(np.ndarray(shape, np.uint8, memoryview(plane), 0, strides).tobytes())
    if pixels == "pal8":
        total = crc32(frame.planes[1], total)
    return total & 0xFFFF


@lru_cache(256)
def _lines(
    pixels: str, width: int, height: int, stride: int
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Shape and strides of what `_checksum` looks at, in bytes of the first plane."""
    layout = av.VideoFormat(pixels)
    bits = layout.padded_bits_per_pixel
    if layout.is_planar:
        bits = 16 if layout.components[0].bits > 8 else 8
    used = width * bits // 8  # the rest of a line may hold anything
    return (-(-height // _LINES), used), (_LINES * stride, 1)
