"""Video files that are open: the container, its stream, and the decoder.

Only containers that hold their own pictures are opened; a playlist or a script that names other
files is refused. Everything runs in one thread, because on damaged files the number of threads
changes the pixels.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import av
from av.codec.context import Flags
from av.container import InputContainer
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from cachetools import LRUCache

from videoload.decoding.storage import VideoFile
from videoload.spec.clips import VideoInfo

if TYPE_CHECKING:
    VideoPacket = Packet[VideoStream]

_CONTAINERS = "avi,mov,mp4,matroska,webm,mpeg,mpegts,mpegvideo,mjpeg,m4v,dv,flv,ogg"
_MAX_PIXELS = 8192 * 8192
_BITEXACT = int(Flags.bitexact)
_OPEN_BYTES = 64 << 20  # what open files may take, by a guess at what their decoders hold
_MAX_OPEN = 64
_FRAMES_IN_DECODER = 6
_WORTH_KEEPING = 0.3  # of the last visits, so many to files that could have been open
_VISITS = 16
# What FFmpeg, and PyAV upon strange files, answer with.
REFUSALS = (av.error.FFmpegError, OSError, ValueError, LookupError, ArithmeticError)

# What decides the pixels: workers tell it, so that a mixed fleet is noticed.
SOFTWARE = "av {} libavcodec {} {}".format(
    av.__version__, ".".join(map(str, av.library_versions["libavcodec"])), platform.machine()
)


class UnreadableError(Exception):
    """FFmpeg or the file system says no."""


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

    def take(self, file: VideoFile) -> OpenedVideo | None:
        """The file, if it is here and still the one that the path leads to."""
        path = file.path
        self._again += ((path in self._last) - self._again) / _VISITS
        opened = self._files.pop(path, None)
        if opened is not None and opened.file.identity != file.identity:
            opened.close()
            return None
        return opened

    def put(self, opened: OpenedVideo) -> None:
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
    """A file and its decoder."""

    def __init__(self, file: VideoFile, facts: VideoInfo) -> None:
        self.file = file
        self.used = False  # the decoder has done something already
        self.container = open_video(file.path)
        try:
            self.stream = video_stream(self.container)
        except UnreadableError:
            self.close()
            raise
        self.codec = self.stream.codec_context
        self.packets = packets(self.container, self.stream)
        frame_bytes = 2 * facts.width * facts.height
        self.memory_bytes = max(_FRAMES_IN_DECODER * frame_bytes, _OPEN_BYTES // _MAX_OPEN)

    def close(self) -> None:
        self.container.close()


class _ClosingCache(LRUCache[str, OpenedVideo]):
    def popitem(self) -> tuple[str, OpenedVideo]:
        path, opened = super().popitem()
        opened.close()
        return path, opened


def packets(container: InputContainer, stream: VideoStream) -> Iterator[VideoPacket]:
    """The packets from where the file stands; an empty one at the end brings the last frames."""
    try:
        yield from container.demux(stream)
    except REFUSALS:  # the file cannot be read any further: flush
        yield cast("VideoPacket", Packet())


def decode(codec: VideoCodecContext, packet: VideoPacket) -> list[VideoFrame] | None:
    """What comes out upon a packet; None if the decoder refuses it."""
    try:
        return codec.decode(packet if packet.size else None)
    except REFUSALS:
        return None


def open_video(path: str) -> InputContainer:
    try:
        return av.open(
            path,
            metadata_errors="replace",  # a Latin-1 title is no reason to refuse the pictures
            container_options={
                "format_whitelist": _CONTAINERS,
                "protocol_whitelist": "file",
            },
        )
    except REFUSALS as error:
        why = getattr(error, "strerror", None) or error
        raise UnreadableError(f"is not a video that can be opened ({why})") from None


def video_stream(container: InputContainer) -> VideoStream:
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
