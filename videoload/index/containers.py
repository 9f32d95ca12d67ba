"""Video files that are open: the container, its stream, and the decoder.

Only containers that hold their own pictures are opened; a playlist or a script that names other
files is refused. Everything runs in one thread, because on damaged files the number of threads
changes the pixels.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import av
from av.codec import Codec
from av.codec.context import Flags
from av.container import InputContainer
from av.packet import Packet
from av.stream import Disposition
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from cachetools import LRUCache

from videoload.bitstreams.pictures import KeyFrame
from videoload.bitstreams.proofs import jpeg_header
from videoload.index.stopwatch import Stopwatch
from videoload.index.timing import Timing, timing_of
from videoload.storage.files import VideoFile

if TYPE_CHECKING:
    VideoPacket = Packet[VideoStream]

_CONTAINERS = "avi,mov,mp4,matroska,webm,mpeg,mpegts,mpegvideo,mjpeg,m4v,dv,flv,ogg"
_TOLERANT = {"max_pixels": str(8192 * 8192)}
_STRICT = {**_TOLERANT, "err_detect": "explode"}
_FLAGS = int(Flags.bitexact | Flags.copy_opaque)  # a frame has the mark of its packet
_TOLD_BY_CONTAINER = (
    "extradata", "width", "height", "pix_fmt", "codec_tag", "bits_per_coded_sample", "colorspace",
    "color_range", "color_primaries", "color_trc",
)  # fmt: skip
_DEFAULT_WEIGHT = 5_000_000  # pixels: ffmpeg prefers a stream that is flagged as the default one
_OPEN_BYTES = 64 << 20  # what open files may take, by a guess at what their decoders hold
_MAX_OPEN = 64
_FRAMES_IN_DECODER = 6
_NEAR = 4  # packets that are read on sooner than sought across
_WORTH_KEEPING = 0.3  # of the last visits, so many to files that could have been open
_VISITS = 16
# What FFmpeg, and PyAV upon strange files, answer with.
REFUSALS = (av.error.FFmpegError, OSError, ValueError, LookupError, ArithmeticError)

# What decides how many frames a file is found to have.
SOFTWARE = "av {} libavcodec {} {}".format(
    av.__version__, ".".join(map(str, av.library_versions["libavcodec"])), platform.machine()
)


class UnreadableError(Exception):
    """FFmpeg or the file system says no."""


class Video(Protocol):
    """A file and its decoder, which is strict (it refuses whatever is not as it should be) or
    repairs what it can.

    ``used``: the file is no longer at its beginning, or the decoder not as it was made.
    `decode_all` counts the packets that were ``taken`` and those that were ``refused``.
    """

    file: VideoFile
    codec: VideoCodecContext
    packets: Iterator[VideoPacket]  # from where the file stands; an empty one ends them
    used: bool
    taken: int
    refused: int

    @property
    def memory_bytes(self) -> int:
        """A guess at what it holds."""

    def go_to(self, start: KeyFrame, ahead: int = -1) -> VideoPacket | None:
        """The packet of a key frame, for a decoder that begins anew; None if there is none.
        ``ahead``: it comes after so many others, if that is known (else -1)."""

    def decode(self, packet: VideoPacket) -> list[VideoFrame]:
        """What comes out upon a packet. Raises one of `REFUSALS` if the decoder takes it not."""

    def renew_decoder(self) -> None:
        """A decoder that has decoded nothing, in the place of this one."""

    def close(self) -> None:
        """Close the file."""


def decode_all(
    video: Video,
    tick: Callable[[], None],
    packets: Iterator[VideoPacket] | None = None,
    number: int = 0,
) -> Iterator[tuple[PacketMark | None, VideoFrame]]:
    """Every frame of the packets from here on, with a mark of the packet that it is of; the first
    one is number ``number``. What the decoder refuses is passed over. No frame is to be kept while
    the next one is decoded: what some decoders leave in a broken picture is what its recycled
    memory held before."""
    for packet in packets or video.packets:
        if packet.size:
            packet.opaque = PacketMark.of(packet, number + video.taken)
            video.taken += 1
        try:
            frames = video.decode(packet)
        except REFUSALS:
            video.refused += 1
            frames = []
        tick()
        while frames:
            yield cast("PacketMark | None", frames[0].opaque), frames.pop(0)


class OpenFiles:
    """The files that were read last, still open: the next visit to one of them spares what opening
    costs, as much as decoding two or three frames, and more where a file is long.

    That is where files are met again. In a large data set they are not, and then each is closed
    before the next one is opened, whose decoder so gets its memory while it is in the cache: to go
    round among many costs 2 %.
    """

    def __init__(self) -> None:
        self._files = _ClosingCache(_OPEN_BYTES, lambda opened: opened.memory_bytes)
        # Those that would be open if all were kept, and how often a visit was to one of them.
        self._last: LRUCache[str, int] = LRUCache(_OPEN_BYTES, lambda memory_bytes: memory_bytes)
        self._again = 0.0

    def take(self, file: VideoFile) -> Video | None:
        """The file, if it is here and still the one that the path leads to."""
        path = file.path
        self._again += ((path in self._last) - self._again) / _VISITS
        opened = self._files.pop(path, None)
        if opened is not None and opened.file.identity != file.identity:
            opened.close()
            return None
        return opened

    def put(self, opened: Video) -> None:
        """Keep the file until others need its place, if that may be worth it."""
        if opened.memory_bytes > _OPEN_BYTES:
            opened.close()
            return
        path = opened.file.path
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


class OpenedVideo:
    """A `Video` that FFmpeg has opened."""

    def __init__(
        self, file: VideoFile, *, strict: bool = True, watch: Stopwatch | None = None
    ) -> None:
        """``watch``: notes what seeking takes. Raises UnreadableError."""
        self.file = file
        self.watch = watch or Stopwatch()
        self._strict = strict
        self._open()

    @property
    def memory_bytes(self) -> int:
        """A guess at what it holds."""
        return guessed_bytes(self.codec)

    def _open(self) -> None:
        self.used = False
        self.taken = self.refused = 0
        self._tables: frozenset[tuple[int, int]] | None = None  # that all pictures so far brought
        self._header = b""  # of the last one of them
        self.container = _container(self.file)
        try:
            self.stream = _video_stream(self.container, strict=self._strict)
        except UnreadableError:
            self.close()
            raise
        self.codec = self.stream.codec_context
        self._has_tables = self._strict and self.codec.name == "mjpeg"  # in each picture, its own
        self.packets = packets(self.container, self.stream)

    @property
    def tag(self) -> str | None:
        """The four characters by which the container names the codec; None if they are not ASCII,
        so that PyAV can neither tell them nor hand them on to another decoder."""
        try:
            return self.codec.codec_tag
        except UnicodeDecodeError:
            return None

    def display_time(self, packet: VideoPacket) -> int | None:
        """When the picture of a packet is shown, in units of the stream's time base. An AVI has no
        times of display (FFmpeg guesses some), so its decoding times stand for them."""
        is_avi = self.container.format.name == "avi"
        return packet.dts if is_avi or packet.pts is None else packet.pts

    def timing(self, shown: Sequence[int | None]) -> Timing:
        """The timing of pictures that are shown then, by `display_time`."""
        stream = self.stream
        return timing_of(shown, stream.time_base, (stream.average_rate, stream.guessed_rate))

    def reopen(self) -> None:
        """Back to the beginning, where seeking does not lead. Raises UnreadableError."""
        self.close()
        self._open()

    def renew_decoder(self) -> None:
        """A decoder that has decoded nothing, in the place of this one."""
        told = {name: getattr(self.codec, name) for name in _TOLD_BY_CONTAINER}
        self.codec = new_decoder(self.codec.codec, told, strict=self._strict)

    def go_to(self, start: KeyFrame, ahead: int = -1) -> VideoPacket | None:
        """The packet of a key frame: read on to where it is near, else by a seek, or where that
        leads elsewhere by reading on from the beginning. Raises UnreadableError."""
        if 0 <= ahead <= _NEAR:
            if self.codec.is_open:
                self.codec.flush_buffers()
            packet = next(islice(self.packets, ahead, None), None)
            if packet and start.position in (packet.pos, -1):
                return packet
        with self.watch.phase("seek"):
            return self._find(start)

    def _find(self, start: KeyFrame) -> VideoPacket | None:
        try:
            if start.position >= 0:
                self.seek(start.time)
                packet = next(self.packets, None)
                while packet is not None and packet.size and (packet.pos or 0) < start.position:
                    packet = next(self.packets, None)
                if packet is not None and packet.pos == start.position:
                    return packet
        except REFUSALS:
            pass
        if self.used:
            self.reopen()
        coded = (packet for packet in self.packets if packet.size)
        return next(islice(coded, start.packet, None), None)

    def seek(self, time: int) -> None:
        """To the last key frame at or before ``time`` (dts), as far as the container knows.
        Raises one of `REFUSALS`."""
        self.used = True
        self.container.seek(time, stream=self.stream)
        self.packets = packets(self.container, self.stream)

    def decode(self, packet: VideoPacket) -> list[VideoFrame]:
        """What comes out upon a packet. Raises one of `REFUSALS` if the decoder takes it not."""
        self.used = True
        if self._has_tables and packet.size:
            self._check_tables(memoryview(packet))
        return self.codec.decode(packet if packet.size else None)

    def _check_tables(self, picture: memoryview) -> None:
        if self._header and picture[: len(self._header)] == self._header:
            return  # as in most files: to read it all takes as long as a tenth of decoding it
        header = jpeg_header(picture)
        if not header.has_scan or self._tables not in (None, header.tables):
            raise ValueError("it would take pixels or tables from another picture")
        self._tables = header.tables
        self._header = bytes(picture[: header.length])

    def close(self) -> None:
        """Close the file."""
        self.container.close()


class PacketMark(NamedTuple):
    """A packet: its number, its dts, and its position if it can be sought, else -1."""

    number: int
    time: int
    position: int

    @classmethod
    def of(cls, packet: VideoPacket, number: int) -> PacketMark:
        """The mark of packet ``number`` of a file."""
        can_be_sought = packet.is_keyframe and packet.dts is not None and packet.pos is not None
        return cls(number, packet.dts or 0, (packet.pos or 0) if can_be_sought else -1)


class _ClosingCache(LRUCache[str, Video]):
    def popitem(self) -> tuple[str, Video]:
        path, opened = super().popitem()
        opened.close()
        return path, opened


def packets(container: InputContainer, stream: VideoStream) -> Iterator[VideoPacket]:
    """The packets from where the file stands; an empty one at the end brings the last frames."""
    try:
        yield from container.demux(stream)
    except REFUSALS:  # the file cannot be read any further: flush
        yield cast("VideoPacket", Packet())


def _container(file: VideoFile) -> InputContainer:
    try:
        if file.path[-4:].lower() == ".avi":
            # To ask all of FFmpeg's formats takes as long as the rest of opening such a file.
            with suppress(*REFUSALS):
                return _open_as("avi", file)
        return _open_as(None, file)
    except REFUSALS as error:
        raise not_opened(error) from None


def not_opened(error: Exception) -> UnreadableError:
    """What a file that cannot be opened is told to be."""
    why = getattr(error, "strerror", None) or error
    return UnreadableError(f"is not a video that can be opened ({why})")


def _open_as(format_: str | None, file: VideoFile) -> InputContainer:
    # PyAV tells apart what is read and what is written by the type of a path alone.
    source = cast(str, file.ffmpeg_source())
    return av.open(
        source,
        format=format_,
        metadata_errors="replace",  # a Latin-1 title is no reason to refuse the pictures
        container_options={"format_whitelist": _CONTAINERS, "protocol_whitelist": "file"},
    )


def _video_stream(container: InputContainer, *, strict: bool) -> VideoStream:
    """The stream that the ffmpeg command would take. Raises UnreadableError."""
    covers = Disposition.attached_pic | Disposition.timed_thumbnails
    streams = [stream for stream in container.streams.video if not stream.disposition & covers]
    if not streams:
        raise UnreadableError("has no video stream")
    stream = max(streams, key=_weight)
    context = stream.codec_context
    if context is None:
        raise UnreadableError("has a video codec that FFmpeg does not know")
    _set_up(context, strict=strict)
    return stream


def _weight(stream: VideoStream) -> tuple[bool, int]:
    context = stream.codec_context
    if context is None:
        return False, 0
    is_default = bool(stream.disposition & Disposition.default)
    return True, context.width * context.height + _DEFAULT_WEIGHT * is_default


def new_decoder(codec: Codec, told: Mapping[str, Any], *, strict: bool) -> VideoCodecContext:
    """A decoder that is told so by the container."""
    decoder = cast(VideoCodecContext, VideoCodecContext.create(codec, "r"))
    for name, value in told.items():
        setattr(decoder, name, value)
    _set_up(decoder, strict=strict)
    return decoder


def guessed_bytes(codec: VideoCodecContext) -> int:
    """What an open file and its decoder may hold."""
    return max(_FRAMES_IN_DECODER * 2 * codec.width * codec.height, _OPEN_BYTES // _MAX_OPEN)


def _set_up(context: VideoCodecContext, *, strict: bool) -> None:
    context.thread_type = "NONE"
    context.thread_count = 1
    # The IDCT stays FFmpeg's choice: Xvid files ask for Xvid's own, and drift with any other.
    context.flags |= _FLAGS  # as an option, in words, FFmpeg takes 40 microseconds to read them
    context.options = _STRICT if strict else _TOLERANT
