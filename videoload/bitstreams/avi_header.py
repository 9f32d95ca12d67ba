"""The header of a plain AVI file of MPEG-4, read as FFmpeg reads it. Pure.

Nearly all files of UCF-101, HMDB-51 and similar data sets are plain: one video stream, perhaps
sound, a list of packets and an index behind it. The header and the first packet of a plain file
tell what FFmpeg tells after it has opened the file and decoded a picture, in a fifth of the time.
What is not plain or not understood is left to FFmpeg (None).
"""

from __future__ import annotations

import re
import struct
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from videoload.bitstreams.mpeg4 import video_object_layer

HEADER_BYTES = 1 << 14  # the header must end within so many bytes
PACKET_BYTES = 512  # ... and the first picture begin within so many bytes of the first packet
CHUNK = struct.Struct("<4sI")  # a chunk's header: name, length
MAX_STRETCHED = 8  # a pixel whose sides differ by more is a mistake

_STREAM = struct.Struct("<4s4s12xIII")  # kind, handler, scale, rate, start
_BITMAP = struct.Struct("<4xii2xH4s20x")  # width, height, bits, codec
_ASPECT = struct.Struct("<20xHHII4x")  # aspect of the picture, down and across; its pixels
_STREAM_BYTES = 48  # a stream's header has at least so many
_LISTS = (b"hdrl", b"strl", b"odml")
_TOLD = (b"avih", b"strh", b"strf", b"vprp", b"dmlh")
_PASSED = (b"JUNK", b"strn", b"IDIT")
_MPEG4 = frozenset(
    b"3IV2 DIVX DX50 FMP4 HDX4 M4S2 MP4S MP4V RMP4 SEDG SMP4 UMP4 WV1F XVID XVIX ZMP4".split()
)
_PICTURES = (b"\0\0\1\xb3", b"\0\0\1\xb6")  # a group of pictures begins, or a picture
_LAYER = re.compile(b"\0\0\1[\x20-\x2f]")
_STUDIO = re.compile(b"\0\0\1\xb0[\xe1-\xe8]")  # profiles of another kind of stream
_PALETTE_BITS = 8  # pixels of up to so many bits may have a palette
_MIN_RATE, _MAX_RATE = 5, 100  # frames a second; beyond them, FFmpeg looks at the pictures too


class DecoderSettings(NamedTuple):
    """What a decoder is told before its first packet."""

    extradata: bytes
    size: tuple[int, int]  # width, height
    tag: str  # four characters
    bits: int  # of a pixel, as the container says


class AviHeader(NamedTuple):
    """What the header says: the number of the video stream, how many streams there are, and where
    the name ``movi`` stands."""

    stream: int
    streams: int
    movi: int
    video: VideoHeader


class VideoHeader(NamedTuple):
    """What the header says of the pictures. ``aspect``: width of a pixel divided by its height;
    None if the codec tells it."""

    size: tuple[int, int]  # width, height
    tag: str
    bits: int
    extradata: bytes
    rate: Fraction  # frames per second
    aspect: Fraction | None

    def settings(self, packet: bytes) -> DecoderSettings | None:
        """The settings of a decoder, from the first `PACKET_BYTES` of the first packet."""
        begins = [at for code in _PICTURES if (at := packet.find(code)) >= 0]
        before = packet[: min(begins, default=0)]
        told = DecoderSettings(self.extradata or before, self.size, self.tag, self.bits)
        return _checked(told, before, must_be_square=self.aspect is None)


@lru_cache(256)  # the files of a data set are made by few encoders
def _checked(
    settings: DecoderSettings, before: bytes, *, must_be_square: bool
) -> DecoderSettings | None:
    """The settings, if a decoder keeps them when it sees what stands ``before`` the first
    picture."""
    every = [data for data in (settings.extradata, before) if _LAYER.search(data)]
    layers = set(map(video_object_layer, every))
    layer = layers.pop() if len(layers) == 1 else None
    if layer is None or layer.size != settings.size or any(map(_STUDIO.search, every)):
        return None
    return settings if layer.is_square or not must_be_square else None


def read_avi_header(data: bytes) -> AviHeader | None:
    """The header of a file that begins with ``data``."""
    if data[:4] != b"RIFF" or data[8:12] != b"AVI ":
        return None
    kinds: list[bytes] = []  # of the streams so far
    told: dict[bytes, bytes] = {}  # chunks of the video stream
    at, end = 12, 0
    while at + 12 <= len(data):
        name, length = CHUNK.unpack_from(data, at)
        at += CHUNK.size
        if name == b"LIST":
            kind = data[at : at + 4]
            if kind == b"movi":
                video = _video(told.get(b"strh", b""), told.get(b"strf", b""), told.get(b"vprp"))
                if video is None or kinds.count(b"auds") < len(kinds) - 1:
                    return None
                return AviHeader(kinds.index(b"vids"), len(kinds), at, video)
            if kind == b"INFO":
                at = _behind_texts(data, at + 4, at + length)
                if at < 0:
                    return None
                continue
            if kind not in _LISTS:
                return None
            end = at + length
            at += 4
            continue
        if name in _TOLD:
            if length & 1 or at + length > end:
                return None  # FFmpeg may understand it differently
            if name == b"strh":
                kinds.append(data[at : at + 4])
                if length < _STREAM_BYTES:
                    return None
            if kinds and kinds[-1] == b"vids":
                if name in told:
                    return None
                told[name] = data[at : at + (_STREAM.size if name == b"strh" else length)]
        elif name not in _PASSED:
            return None
        at += length + (length & 1)
    return None


def _behind_texts(data: bytes, at: int, end: int) -> int:
    """Where a list of texts ends, if its chunks fill it; else -1. FFmpeg does not look for streams
    inside."""
    while at + CHUNK.size <= min(end, len(data)):
        _, length = CHUNK.unpack_from(data, at)
        at += CHUNK.size + length + (length & 1)
    return at if at == end else -1


@lru_cache(256)
def _video(stream: bytes, bitmap: bytes, properties: bytes | None) -> VideoHeader | None:
    """What ``strh``, ``strf`` and ``vprp`` of a stream say."""
    if len(stream) < _STREAM.size or len(bitmap) < _BITMAP.size:
        return None
    _, handler, scale, rate, start = _STREAM.unpack(stream)
    width, height, bits, tag = _BITMAP.unpack_from(bitmap)
    extradata = bitmap[_BITMAP.size :]
    if tag.upper() not in _MPEG4 or min(width, height) < 1 or (extradata and bits <= _PALETTE_BITS):
        return None
    if start or not scale or not _MIN_RATE * scale <= rate <= _MAX_RATE * scale:
        return None
    aspect = None
    if properties and len(properties) > _ASPECT.size:
        high, wide, across, down = _ASPECT.unpack_from(properties)
        if wide and high and across and down:
            aspect = Fraction(wide * down, high * across)
            if max(aspect, 1 / aspect) > MAX_STRETCHED:
                return None  # FFmpeg may correct it
    tag = handler if handler == b"XVID" else tag
    return VideoHeader(
        (width, height), tag.decode(), bits, extradata, Fraction(rate, scale), aspect
    )
