"""Video files that FFmpeg has opened.

Only containers that hold their own pictures are opened. A playlist or a script that names other
files is refused, and so is every other format; the refusal names what the file is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, cast
from zlib import crc32

import av
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.format import Flags
from av.stream import Disposition
from av.video.stream import VideoStream

from videoload.bitstreams.pictures import Ints, KeyFrame
from videoload.logs import Log
from videoload.reading.clock import Clock
from videoload.reading.frame_decoder import REFUSALS, FrameDecoder, container_parameters
from videoload.reading.refusals import codec_of, kind_of
from videoload.stopwatch import Stopwatch
from videoload.storage.files import MOST_BETWEEN
from videoload.storage.video_file import VideoFile

if TYPE_CHECKING:
    from videoload.reading.frame_decoder import VideoPacket

Source = Callable[[], object]

_CONTAINERS = "avi,mov,mp4,matroska,webm,mpeg,mpegts,mpegvideo,mjpeg,m4v,dv,flv,ogg,h264,hevc,obu"
_OPTIONS = {"format_whitelist": _CONTAINERS, "protocol_whitelist": "file"}
_HEADERS_ONLY = {"codec_whitelist": "none", "probesize": "2048"}
_DEFAULT_WEIGHT = 5_000_000  # pixels: ffmpeg prefers a stream that is flagged as the default one
_NEAR = 4  # reading so many packets on takes less time than a seek

_log = Log(__name__)


class BrokenFileError(Exception):
    """FFmpeg or the file system refuses a file."""


class NotedPackets:
    """A checksum of each packet that a pass over a file found, uint32 [packets]. They ``are_right``
    until a seek has led to other packets: then this file is not seeked any more."""

    def __init__(self, sums: Ints) -> None:
        self.sums = sums
        self.are_right = True

    def have(self, packet: VideoPacket | None, number: int) -> bool:
        """Return whether this packet has the number of the pass; None: the end."""
        if packet is None:
            return number == len(self.sums)
        known = number < len(self.sums) and not changes_decoding(packet)
        return known and bool(self.sums[number] == checksum_of(packet))


def checksum_of(packet: VideoPacket) -> int:
    """Return a checksum of the bytes of a packet and its flags."""
    flags = packet.size, packet.is_keyframe, packet.is_corrupt
    return crc32(memoryview(packet), crc32(repr(flags).encode()))


def changes_decoding(packet: VideoPacket) -> bool:
    """Return whether the container makes the decoder drop the picture or change settings: a decoder
    that starts later would not know them."""
    return packet.is_discard or packet.has_sidedata("new_extradata")


class OpenedVideo:
    """A `Video` that FFmpeg has opened. ``noted``: what a pass found, if the container's index is
    not known to be whole. After a seek each packet must be the one that the pass found."""

    def __init__(
        self,
        file: VideoFile,
        *,
        strict: bool = True,
        watch: Stopwatch | None = None,
        noted: NotedPackets | None = None,
        source: Source | None = None,
        decodes: bool = True,
    ) -> None:
        """``watch``: notes how long seeking takes. ``source``: opens the file for FFmpeg.
        ``decodes``: as in `open_container`. Raises BrokenFileError, and FileReplacedError if the
        path leads to another file by now."""
        self.file = file
        self._source = source
        self._decodes = decodes
        self.noted = noted
        self.watch = watch or Stopwatch()
        self._strict = strict
        self._open()

    def _open(self) -> None:
        self.number = 0
        self.refused: list[int] = []
        self._clock: Clock | None = None
        self.packets = self._open_packets()
        context = self.stream.codec_context
        self.decoder = FrameDecoder(context, container_parameters(context), strict=self._strict)

    def _open_packets(self) -> Iterator[VideoPacket]:
        self.container = open_container(self.file, decodes=self._decodes, source=self._source)
        try:
            self.file.check()
            self.stream = video_stream(self.container, self.file)
        except BaseException:
            self.close()
            raise
        if Flags.ts_discont in Flags(self.container.format.flags):
            self._clock = Clock(self.stream.time_base or Fraction(1))
        return packets(self.container, self.stream)

    @property
    def tag(self) -> str | None:
        """By which four characters the container names the codec; None if they are not ASCII."""
        return self.decoder.parameters.get("codec_tag")

    @property
    def is_avi(self) -> bool:
        """Whether the container is an AVI."""
        return bool(self.container.format.name == "avi")

    @property
    def has_places(self) -> bool:
        """Whether each packet has its own offset in the file, as in an AVI and an MP4."""
        return self.is_avi or self.container.format.name.startswith("mov")

    @property
    def is_joined(self) -> bool:
        """Whether the timestamps passed to `display_time` restarted or jumped."""
        return self._clock is not None and self._clock.is_joined

    def display_time(self, packet: VideoPacket) -> int | None:
        """Return when the picture of a packet is shown, in units of the stream's time base. An AVI
        has no presentation times (FFmpeg guesses some), so decoding times replace them. If
        timestamps may restart, call this for the packets in order."""
        pts = None if self.is_avi else packet.pts
        if self._clock is not None:
            return self._clock.time(packet.dts, pts)
        return packet.dts if pts is None else pts

    def _reopen(self) -> None:
        """Go back to the beginning, where seeking does not lead. Raises BrokenFileError."""
        self.close()
        self._open()

    def seek_to_keyframe(self, start: KeyFrame, last: int = -1) -> VideoPacket | None:
        """Seek, as `VideoReader.seek_to_keyframe`: read on if the packet is near. If the seek leads
        elsewhere, reads on from the beginning."""
        ahead, packet = start.packet - self.number, None
        if self.number >= 0 and 0 <= ahead <= _NEAR:
            self.number = -1
            self.decoder.flush()
            packet = next(islice(self.packets, ahead, None), None)
        if packet is None or start.position not in (packet.pos, -1):
            with self.watch.phase("seek"):
                packet = self._find(start)
        self.number = start.packet
        return packet

    def _find(self, start: KeyFrame) -> VideoPacket | None:
        if start.position >= 0 and (self.noted is None or self.noted.are_right):
            with suppress(*REFUSALS):
                self.seek(start.time)
                for packet in self.packets:
                    at = packet.pos
                    if self.noted is None and at == start.position:
                        return packet
                    # In an MPEG-PS, the rest of the packet before may have this one's position.
                    if (
                        self.noted is not None
                        and at in (start.position, None)
                        and self.noted.have(packet, start.packet)
                    ):
                        self.packets = self._compared(self.packets, start.packet + 1)
                        return packet
                    if at is not None and at > start.position:
                        break
            if self.noted is not None:
                self.noted.are_right = False
        if self.number or self.decoder.used:
            self._reopen()
        return next(islice(self.packets, start.packet, None), None)

    def _compared(self, sought: Iterator[VideoPacket], number: int) -> Iterator[VideoPacket]:
        """Yield the packets from this number on: the ``sought`` ones while they equal those of the
        pass, then those read from the beginning of the file."""
        assert self.noted is not None
        while self.noted.have(packet := next(sought, None), number):
            if packet is None:
                return
            yield packet
            number += 1
        self.noted.are_right = False
        self.container.close()
        yield from islice(self._open_packets(), number, None)

    def seek(self, time: int) -> None:
        """Seek to the last keyframe at or before ``time`` (dts), as far as the container knows.
        Raises one of `REFUSALS`."""
        self.number = -1
        self.decoder.flush()
        self.container.seek(time, stream=self.stream)
        self.packets = packets(self.container, self.stream)

    def reopen(self) -> OpenedVideo:
        """Reopen, as `VideoReader.reopen`."""
        return OpenedVideo(self.file, strict=False, noted=self.noted)

    def close(self) -> None:
        """Close the file."""
        self.container.close()


def packets(container: InputContainer, stream: VideoStream) -> Iterator[VideoPacket]:
    """Yield the coded packets of a stream, from the current position on. An empty packet means no
    change: FFmpeg's own command passes over it. The file ends where FFmpeg finds no packet of any
    stream in more bytes than a picture can have: a recorder that lost power leaves zeros."""
    source, index = container.file.file, stream.index
    source.left = MOST_BETWEEN
    with suppress(*REFUSALS):  # the file cannot be read any further
        for packet in container.demux():
            if source.left > 0:
                source.left = MOST_BETWEEN
            if packet.size and packet.stream_index == index:
                yield cast("VideoPacket", packet)
    if source.left <= 0:
        _log.warning("%s: nothing is found in its last %d MB", source.name, MOST_BETWEEN >> 20)


def open_container(
    file: VideoFile, *, decodes: bool = True, source: Source | None = None
) -> InputContainer:
    """Return a file as FFmpeg opens it, by its own ``source`` or another one. Unless it
    ``decodes``, only headers describe it: FFmpeg decodes the first picture otherwise. Raises
    BrokenFileError."""
    more = {} if decodes else _HEADERS_ONLY
    source = source or file.ffmpeg_source
    try:
        if is_named_avi(file):
            # Asking all of FFmpeg's formats takes as long as the rest of opening such a file.
            with suppress(*REFUSALS):
                return _open_as("avi", source, more)
        return _open_as(None, source, more)
    except REFUSALS as error:
        raise not_opened(error, file) from None


def is_named_avi(file: VideoFile) -> bool:
    """Return whether its name says that it is an AVI."""
    return file.path[-4:].lower() == ".avi"


def not_opened(error: Exception, file: VideoFile) -> BrokenFileError:
    """Return the reason why a file cannot be opened: its real type, or FFmpeg's message."""
    with suppress(OSError):
        if kind := kind_of(file):
            return BrokenFileError(f"is not a video that can be opened: {kind}")
    why = getattr(error, "strerror", None) or error
    return BrokenFileError(f"is not a video that can be opened ({why})")


def _open_as(
    format_: str | None, source: Source, more: Mapping[str, str] = MappingProxyType({})
) -> InputContainer:
    return av.open(
        cast(str, source()),  # PyAV takes what can be read as well
        format=format_,
        metadata_errors="replace",  # a Latin-1 title is no reason to refuse the pictures
        container_options={**_OPTIONS, **more},
    )


def video_stream(container: InputContainer, file: VideoFile) -> VideoStream:
    """Return the stream that the ffmpeg command would take. Raises BrokenFileError."""
    covers = Disposition.attached_pic | Disposition.timed_thumbnails
    streams = [stream for stream in container.streams.video if not stream.disposition & covers]
    if not streams:
        covers_only = " except for a cover picture" if container.streams.video else ""
        raise BrokenFileError(f"has no video stream{covers_only}")
    stream = max(streams, key=_weight)
    if stream.codec_context is None:
        name = codec_of(file)
        hint = f" ({name!r})" if name else ""
        raise BrokenFileError(f"has a video codec that FFmpeg does not know{hint}")
    return stream


def audio_stream(container: InputContainer, video: VideoStream) -> AudioStream | None:
    """Return the audio stream that plays with a video; None: there is none. FFmpeg has no best one
    of those whose rate or channels it does not know yet."""
    best = cast("AudioStream | None", container.streams.best("audio", related=video))
    return best or next(iter(container.streams.audio), None)


def _weight(stream: VideoStream) -> tuple[bool, int]:
    context = stream.codec_context
    if context is None:
        return False, 0
    is_default = bool(stream.disposition & Disposition.default)
    return True, context.width * context.height + _DEFAULT_WEIGHT * is_default
