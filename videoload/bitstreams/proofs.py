"""What picture headers prove: how many frames coded packets give, and in which order. Pure.

The question is what a complete sequential decode outputs, without decoding; and whether a decoder
that begins at a key frame goes on as one that comes from the file's beginning. The answers differ
by codec, and where a header leaves a doubt there is none (None), so that a decoder has to tell:

    every packet a frame     MJPEG, raw and lossless codecs, DV, ASUS
    I or P                   H.263 and its relatives, FFV1
    show_frame               VP8
    VOP types                MPEG-4: B-VOPs, VOPs that are not coded, two VOPs in a packet (packed)
    picture types            MPEG-1 and MPEG-2: B-pictures; frames only, no fields
    IDR pictures and SPS     H.264: frames only, no gaps; all before an IDR is shown before it
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from videoload.bitstreams.h264 import prove_h264
from videoload.bitstreams.looks import spread
from videoload.bitstreams.mpeg4 import prove_mpeg4
from videoload.bitstreams.mpeg12 import prove_mpeg12
from videoload.bitstreams.pictures import (
    DATA_BYTES,
    HEAD_BYTES,
    INTER,
    INTRA,
    NONE,
    Bytes,
    Ints,
    Packets,
    Pictures,
    by_types,
)

Buffer = bytes | memoryview  # of bytes

_MIN_BYTES = 8  # a smaller packet may stand for a picture that was dropped
_SOME = 8  # packets at the beginning, and further ones, whose tables are compared
_READ_BYTES = 4 << 20  # of packets in all, of which a look at each does not take long
_LOOKS = 64  # ... else so many


def prove(packets: Packets) -> Pictures | None:
    """What a complete decode outputs; None where headers do not tell."""
    if not len(packets.sizes):
        return None
    prover = _PROVERS.get(packets.codec)
    return None if prover is None else prover(packets)


# Every packet a picture, I or P


def _all_intra(packets: Packets) -> Pictures | None:
    if packets.sizes.min() < _MIN_BYTES:
        return None
    return Pictures(len(packets.sizes), np.arange(len(packets.sizes)))


def _without_b(type_of: Callable[[Packets, Bytes], Ints]) -> Callable[[Packets], Pictures | None]:
    """The prover of a codec that has I and P pictures alone: ``type_of`` tells by heads of packets,
    0 for I and 1 for P."""

    def prove(packets: Packets) -> Pictures | None:
        if packets.has_b_frames or packets.sizes.min() < _MIN_BYTES:
            return None
        types = type_of(packets, packets.heads())
        return None if ((types < 0) | (types > 1)).any() else by_types(types)

    return prove


def _field(heads: Bytes, first: int | Ints, count: int) -> Ints:
    """The number in so many bits from bit number ``first`` on of each head."""
    rows, found = np.arange(len(heads)), np.zeros(len(heads), np.int64)
    for bit in range(count):
        at = first + bit
        found = 2 * found + (heads[rows, at >> 3] >> (7 - (at & 7)) & 1)
    return found


def _h263_type(packets: Packets, heads: Bytes) -> Ints:
    extended = _field(heads, 35, 3) == 7
    told = _field(heads, 38, 3) == 1  # optional fields before the type
    types = _field(heads, np.where(told, 59, 41), 3)
    types = np.where(extended, types, _field(heads, 38, 1))
    return np.where(_field(heads, 0, 22) == 0x20, types, -1)


def _flv1_type(packets: Packets, heads: Bytes) -> Ints:
    form = _field(heads, 30, 3)  # of the size: 8 bits, 16 bits, or one of these
    types = _field(heads, 33 + np.select([form == 0, form == 1], [16, 32]), 2)
    types = np.where(types == 2, INTER, types)  # no other refers to it
    named = np.array(
        [(0, 0), (0, 0), (352, 288), (176, 144), (128, 96), (320, 240), (160, 120), (0, 0)]
    )
    width, height = named[form].T
    for code, bits in ((0, 8), (1, 16)):
        width = np.where(form == code, _field(heads, 33, bits), width)
        height = np.where(form == code, _field(heads, 33 + bits, bits), height)
    is_right = (
        (_field(heads, 0, 17) == 1) & (width == packets.size[0]) & (height == packets.size[1])
    )
    return np.where(is_right, types, -1)


def _ffv1_type(packets: Packets, heads: Bytes) -> Ints:
    return (_field(heads, 0, 16) < 0x7F80).astype(np.int64)  # the first bit that is range coded


def _wmv3_type(packets: Packets, heads: Bytes) -> Ints:
    settings = np.frombuffer(packets.extradata[:4].ljust(4, b"\0"), np.uint8)[None]
    ranges, interpolates = (int(_field(settings, bit, 1)[0]) for bit in (24, 30))
    return _field(heads, interpolates + 2 + ranges, 1)


# MJPEG

_MARKER = re.compile(b"\xff[\xc0-\xfe]")
_STANDALONE = frozenset(range(0xD0, 0xDA))
_HUFFMAN, _QUANTIZATION, _SCAN = 0xC4, 0xDB, 0xDA
_FRAMES = frozenset(range(0xC0, 0xD0)) - {_HUFFMAN, 0xC8, 0xCC}
_BEGINS = b"\xff\xd8\xff"


def _mjpeg(packets: Packets) -> Pictures | None:
    """Each packet a picture, if each brings all tables that there are, so that none takes them from
    another. Besides the first ones, some are looked at that do not begin as the very first does."""
    others = _unlike_first(packets)
    some = others[spread(len(others), _SOME)].tolist()
    looked = sorted({*range(min(len(packets.sizes), _SOME)), *some})
    found = {i: jpeg_header(packets.data(i, DATA_BYTES)) for i in looked}
    tables = frozenset[tuple[int, int]]().union(*(header.tables for header in found.values()))
    for i, header in found.items():
        if header.tables != tables or not _is_frame(packets, i, header.height):
            return None
    return _all_intra(packets)


def _unlike_first(packets: Packets) -> Ints:
    """Those packets that do not begin as the first one does; of a long file, which would have to be
    read for it, no more than some."""
    if packets.sizes.sum() <= _READ_BYTES:
        heads = packets.heads()
        unlike: Ints = (heads != heads[0]).any(axis=1).nonzero()[0]
        return unlike
    first = packets.data(0, HEAD_BYTES)
    looked = spread(len(packets.sizes), _LOOKS).tolist()
    return np.array([i for i in looked if packets.data(i, HEAD_BYTES) != first], np.int64)


def _is_frame(packets: Packets, i: int, height: int) -> bool:
    """Whether packet ``i``, whose first picture is so high, is a frame: FFmpeg takes low pictures
    for fields, of which there are two."""
    if height >= packets.size[1] * 3 // 4:
        return True
    whole = packets.whole(i)
    return whole is not None and whole.count(_BEGINS) == 2


class JpegHeader(NamedTuple):
    """What stands before the first scan of a JPEG picture: which tables it brings (the others are
    those of a picture before it), whether a scan follows, in how many bytes that is said; how high
    the picture is, 0 if that is not said."""

    tables: frozenset[tuple[int, int]]
    has_scan: bool
    length: int
    height: int


def jpeg_header(data: Buffer) -> JpegHeader:
    """The header of a picture, as far as ``data`` goes."""
    tables: set[tuple[int, int]] = set()
    at = height = 0
    has_scan = False
    while (found := _MARKER.search(data, at)) is not None:
        marker, at = data[found.start() + 1], found.end()
        if marker == _SCAN:
            has_scan = True
            break
        if marker in _STANDALONE:
            continue
        end = at + max(2, int.from_bytes(data[at : at + 2], "big"))
        if marker in _FRAMES:
            height = int.from_bytes(data[at + 3 : at + 5], "big")
        least = {_HUFFMAN: 17, _QUANTIZATION: 65}.get(marker, end)
        at += 2
        while end - at >= least and at < len(data):
            tables.add((marker, data[at] & (0x1F if marker == _HUFFMAN else 0x0F)))
            if marker == _HUFFMAN:
                at += 17 + sum(data[at + 1 : at + 17])
            else:
                at += 129 if data[at] >> 4 else 65
        at = end
    return JpegHeader(frozenset(tables), has_scan, at, height)


# VP8


def _vp8(packets: Packets) -> Pictures | None:
    heads = packets.heads()
    frame_tags = heads[:, 0]
    types = np.where(frame_tags & 1, INTER, INTRA)
    sizes = heads[:, 6:10].copy().view("<u2")[types == INTRA] & 0x3FFF
    if (packets.sizes < 3).any() or (sizes != packets.size).any():
        return None
    return by_types(np.where(frame_tags & 0x10, types, NONE))


_PROVERS: dict[str, Callable[[Packets], Pictures | None]] = {
    "asv1": _all_intra,
    "asv2": _all_intra,
    "dvvideo": _all_intra,
    "ffv1": _without_b(_ffv1_type),
    "ffvhuff": _all_intra,
    "flv": _without_b(_flv1_type),
    "h263": _without_b(_h263_type),
    "h263p": _without_b(_h263_type),
    "h264": prove_h264,
    "huffyuv": _all_intra,
    "magicyuv": _all_intra,
    "mjpeg": _mjpeg,
    "mpeg1video": prove_mpeg12,
    "mpeg2video": prove_mpeg12,
    "mpeg4": prove_mpeg4,
    "msmpeg4": _without_b(lambda packets, heads: _field(heads, 0, 2)),
    "msmpeg4v1": _without_b(lambda packets, heads: _field(heads, 37, 2)),
    "msmpeg4v2": _without_b(lambda packets, heads: _field(heads, 0, 2)),
    "rawvideo": _all_intra,
    "utvideo": _all_intra,
    "vp8": _vp8,
    "wmv1": _without_b(lambda packets, heads: _field(heads, 0, 2)),
    "wmv2": _without_b(lambda packets, heads: _field(heads, 0, 1)),
    "wmv3": _without_b(_wmv3_type),
}

PROVABLE = frozenset(_PROVERS)  # decoders, by FFmpeg's names
