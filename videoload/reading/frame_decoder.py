"""FFmpeg's decoders, set up so that the same packets give the same pixels everywhere.

Each runs in one thread, because on damaged files the number of threads changes the pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Self, cast
from zlib import crc32

import av
import numpy as np
from av.codec import Codec
from av.codec.context import Flags
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.plane import VideoPlane

from videoload.bitstreams.proofs import jpeg_header

if TYPE_CHECKING:
    from av.packet import Packet
    from av.video.stream import VideoStream

    VideoPacket = Packet[VideoStream]

_TOLERANT = {"max_pixels": str(8192 * 8192)}
_STRICT = {**_TOLERANT, "err_detect": "explode"}
_FLAGS = int(Flags.bitexact)
_PARAMETERS = (
    "extradata", "width", "height", "pix_fmt", "codec_tag", "bits_per_coded_sample", "colorspace",
    "color_range", "color_primaries", "color_trc",
)  # fmt: skip
REORDERS = "reorder_depth"  # also set, if there is no demuxer: pictures held back
_FRAMES_HELD = 6  # by a decoder, as a guess
# What FFmpeg, and PyAV with strange files, answer with.
REFUSALS = (av.error.FFmpegError, OSError, ValueError, LookupError, ArithmeticError)


class FrameDecoder:
    """A decoder. One that `is_strict` refuses whatever is not as it should be, a tolerant one
    repairs what it can. ``used``: it has decoded something."""

    def __init__(
        self, context: VideoCodecContext, parameters: Mapping[str, Any], *, strict: bool
    ) -> None:
        """``parameters``: those that the container gave ``context``, which has decoded nothing."""
        self.parameters = parameters
        self.used = False
        self.is_strict = strict
        self._set_up(context)

    @classmethod
    def create(cls, codec: str, parameters: Mapping[str, Any], *, strict: bool) -> Self:
        """Return a decoder by FFmpeg's name of it, for what `container_parameters` returned."""
        return cls(_context(codec, parameters), parameters, strict=strict)

    def _set_up(self, context: VideoCodecContext) -> None:
        context.thread_type = "NONE"
        context.thread_count = 1
        # The IDCT stays FFmpeg's choice: Xvid files need Xvid's own, and drift with any other.
        context.flags |= _FLAGS  # as an option, in words, FFmpeg takes 40 microseconds to read them
        context.options = _STRICT if self.is_strict else _TOLERANT
        self.context = context
        self._has_tables = self.is_strict and context.name == "mjpeg"  # each picture has its own
        self._tables: frozenset[tuple[int, int]] | None = None  # in all pictures so far
        self._header = b""  # of the last picture

    @property
    def memory_bytes(self) -> int:
        """A guess at what it holds."""
        return _FRAMES_HELD * 2 * self.context.width * self.context.height

    def renew(self) -> None:
        """Replace the decoder by a new one."""
        self._set_up(_context(self.context.codec.name, self.parameters))

    def flush(self) -> None:
        """Flush: the next packets belong to another place."""
        if self.context.is_open:
            self.context.flush_buffers()

    @contextmanager
    def skipping_b_pictures(self) -> Iterator[None]:
        """Within the context, packets are read as far as their picture's header, if that is a
        B-picture."""
        self.context.skip_frame = "NONREF"
        try:
            yield
        finally:
            self.context.skip_frame = "DEFAULT"

    def decode(self, packet: VideoPacket | None) -> list[VideoFrame]:
        """Yield the frames that a packet outputs; None flushes those that are held back. Raises one
        of `REFUSALS` if the decoder refuses the packet."""
        self.used = True
        if self._has_tables and packet is not None:
            self._check_tables(memoryview(packet))
        return self.context.decode(packet)

    def _check_tables(self, picture: memoryview) -> None:
        if self._header and picture[: len(self._header)] == self._header:
            return  # as in most files: reading it all takes a tenth of the time of decoding it
        header = jpeg_header(picture)
        if not header.has_scan or self._tables not in (None, header.tables):
            raise ValueError("it would take pixels or tables from another picture")
        self._tables = header.tables
        self._header = bytes(picture[: header.length])


def container_parameters(context: VideoCodecContext) -> dict[str, Any]:
    """Return the parameters that a container gives a decoder that has decoded nothing; without a
    tag that is not ASCII, which PyAV can neither return nor take."""
    parameters = {}
    for name in _PARAMETERS:
        try:
            parameters[name] = getattr(context, name)
        except UnicodeDecodeError:
            continue
    return parameters


def _context(codec: str, parameters: Mapping[str, Any]) -> VideoCodecContext:
    context = cast(VideoCodecContext, VideoCodecContext.create(_codec(codec), "r"))
    for name in (*_PARAMETERS, REORDERS):  # nothing else, for any index
        if name in parameters:
            setattr(context, name, parameters[name])
    return context


@cache
def _codec(name: str) -> Codec:
    return Codec(name, "r")


def checksum(frame: VideoFrame) -> int:
    """Return the CRC of the visible pixels of a frame, its size and format."""
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
    """Return bits that a pixel takes in each plane."""
    layout = av.VideoFormat(pixels)
    if pixels == "pal8":
        return 8, 32  # indices, colors
    if not layout.is_planar:
        return (layout.padded_bits_per_pixel,)
    bits = [0] * 4
    for component in layout.components:
        bits[component.plane] += 16 if component.bits > 8 else 8
    return tuple(filter(None, bits))
