"""The header of a plain AVI file of MPEG-4, as FFmpeg takes it. Pure.

Nearly all files of UCF-101, HMDB-51 and their like are plain: one video stream, perhaps sound, a
list of packets and an index behind it. Of those, the header and the first packet tell what FFmpeg
tells after it has opened the file and decoded a picture, in a fifth of the time. What is not plain,
or not understood, is left to FFmpeg (None).
"""

from __future__ import annotations

import re
import struct
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from videoload.decoding.mpeg4_headers import video_object_layer

HEADER_BYTES = 1 << 16  # of a file, in which its header has to end

_CHUNK = struct.Struct("<4sI")  # name, length
_STREAM = struct.Struct("<4s4s12xIII")  # what it is, handler, scale, rate, start
_BITMAP = struct.Struct("<4xii2xH4s")  # width, height, bits, codec
_ASPECT = struct.Struct("<20xHHII")  # of the picture as it is shown, down and across; its pixels
_LISTS = (b"hdrl", b"strl", b"odml", b"INFO")
_KNOWN = (b"avih", b"strh", b"strf", b"vprp", b"dmlh")
_STREAM_BYTES, _BITMAP_BYTES, _ASPECT_BYTES = 48, 40, 37
_PALETTE_BITS = 8  # of a pixel, at most
_MAX_STRETCHED = 8  # pixels that are longer are a mistake, which FFmpeg may correct
_MPEG4 = frozenset(
    b"3IV2 DIVX DX50 FMP4 HDX4 M4S2 MP4S MP4V RMP4 SEDG SMP4 UMP4 WV1F XVID XVIX ZMP4".split()
)
_PICTURES = (b"\0\0\1\xb3", b"\0\0\1\xb6")  # where a group of pictures begins, and a picture
_LAYER = re.compile(b"\0\0\1[\x20-\x2f]")
_STUDIO = re.compile(b"\0\0\1\xb0[\xe1-\xe8]")  # profiles of another kind of stream
_RATES = 5, 100  # frames a second; beyond them, FFmpeg looks at more than the header


class DecoderSettings(NamedTuple):
    """What a decoder is told before its first packet."""

    extradata: bytes
    size: tuple[int, int]  # width, height
    tag: str  # four characters
    bits: int  # of a pixel, as the container has it


class AviHeader(NamedTuple):
    """What the header says: the number of the video stream, of how many; where ``movi`` is named;
    the pictures, and the ``aspect`` of their pixels (None: the codec tells)."""

    stream: int
    streams: int
    movi: int
    size: tuple[int, int]  # width, height
    tag: str
    bits: int
    extradata: bytes
    rate: Fraction  # frames per second
    aspect: Fraction | None

    def settings(self, packet: bytes) -> DecoderSettings | None:
        """Those of a decoder, by the beginning of the first packet."""
        begins = [at for code in _PICTURES if (at := packet.find(code)) >= 0]
        before = packet[: min(begins, default=0)]
        extradata = self.extradata or before
        told = {video_object_layer(data) for data in (extradata, before) if _LAYER.search(data)}
        layer = told.pop() if len(told) == 1 else None
        if layer is None or layer.size != self.size or _STUDIO.search(extradata + before):
            return None
        if self.aspect is None and not layer.is_square:
            return None
        return _interned(DecoderSettings(extradata, self.size, self.tag, self.bits))


@lru_cache(256)
def _interned(settings: DecoderSettings) -> DecoderSettings:
    return settings  # the files of a data set are made by few encoders


def read_avi_header(data: bytes) -> AviHeader | None:
    """The header of a file that begins with ``data``."""
    found = _chunks(data)
    if found is None:
        return None
    chunks, movi = found
    begins = [i for i, (name, _, _) in enumerate(chunks) if name == b"strh"]
    kinds = [data[chunks[i][1] :][:4] for i in begins]
    if kinds.count(b"vids") != 1 or kinds.count(b"auds") != len(kinds) - 1:
        return None
    stream = kinds.index(b"vids")
    own = chunks[begins[stream] : [*begins, len(chunks)][stream + 1]]
    told = {name: (begin, length) for name, begin, length in own}
    if len(told) < len(own) - sum(name == b"JUNK" for name, _, _ in own) or b"strf" not in told:
        return None
    begin, length = told[b"strh"]
    _, handler, scale, rate, start = _STREAM.unpack_from(data, begin)
    if length < _STREAM_BYTES or start or not scale:
        return None
    fps = Fraction(rate, scale)
    begin, length = told[b"strf"]
    width, height, bits, tag = _BITMAP.unpack_from(data, begin)
    extradata = data[begin + _BITMAP_BYTES : begin + length]
    if length < _BITMAP_BYTES or tag.upper() not in _MPEG4 or min(width, height) < 1:
        return None
    if extradata and bits <= _PALETTE_BITS:
        return None
    if not _RATES[0] <= fps <= _RATES[1]:
        return None
    tag = handler if handler == b"XVID" else tag
    aspect = None
    if told.get(b"vprp", (0, 0))[1] >= _ASPECT_BYTES:
        high, wide, across, down = _ASPECT.unpack_from(data, told[b"vprp"][0])
        if wide and high and across and down:
            aspect = Fraction(wide * down, high * across)
            if max(aspect, 1 / aspect) > _MAX_STRETCHED:
                return None
    return AviHeader(
        stream, len(kinds), movi, (width, height), tag.decode(), bits, extradata, fps, aspect
    )


def _chunks(data: bytes) -> tuple[list[tuple[bytes, int, int]], int] | None:
    """Name, beginning and length of the chunks of a header, and where ``movi`` is named."""
    if data[:4] != b"RIFF" or data[8:12] != b"AVI ":
        return None
    chunks: list[tuple[bytes, int, int]] = []
    at, end = 12, 0
    while at + 12 <= len(data):
        name, length = _CHUNK.unpack_from(data, at)
        at += 8
        if name == b"LIST":
            kind = data[at : at + 4]
            if kind == b"movi":
                return chunks, at
            if kind not in _LISTS:
                return None
            end = at + length
            at += 4
            continue
        is_text = name[:1] == b"I" or name in (b"JUNK", b"strn")
        if not is_text and (name not in _KNOWN or length & 1 or at + length > end):
            return None
        chunks.append((name, at, length))
        at += length + (length & 1)
    return None
