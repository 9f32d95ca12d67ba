"""Prove the frames of a video from its picture headers. Pure.

The question has two parts. How many frames does a complete sequential decode output, and in which
order? And does a decoder that begins at a keyframe output the same frames as one that began with
the file? The answers differ by codec. If a header leaves a doubt, nothing is proven (None), and a
complete decode counts the frames. A codec that few files have is not worth a prover: the complete
decode is right for it too.

    every packet is a frame    MJPEG, DV, ProRes, DNxHD, JPEG 2000, raw and lossless codecs
    I and P pictures           MS-MPEG4, FFV1
    show_frame                 VP8, VP9, AV1
    VOP types                  MPEG-4: B-VOPs, VOPs that are not coded, two in a packet (packed)
    picture order counts       H.264, HEVC: as shown by a decoder that holds back so many
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from videoload.bitstreams.av1 import prove_av1
from videoload.bitstreams.h264 import prove_h264
from videoload.bitstreams.hevc import prove_hevc
from videoload.bitstreams.mpeg4 import prove_mpeg4
from videoload.bitstreams.pictures import (
    DATA_BYTES,
    INTER,
    INTRA,
    NONE,
    Buffer,
    Bytes,
    Ints,
    Packets,
    Pictures,
    by_types,
)
from videoload.bitstreams.vp9 import prove_vp9

# Each packet is an intra picture. (FFmpeg calls some others intra, too.)
UNCOMPRESSED = frozenset(
    ("avrp", "r10k", "r210", "rawvideo", "v210", "v308", "v408", "v410", "y41p", "yuv4")
)
INTRA_ONLY = UNCOMPRESSED | {
    "asv1", "asv2", "dnxhd", "dvvideo", "ffvhuff", "huffyuv", "jpeg2000", "jpegls", "magicyuv",
    "prores", "speedhq", "utvideo",
}  # fmt: skip
_MIN_BYTES = 8  # a smaller packet may stand for a picture that was dropped


def prove(packets: Packets) -> Pictures | None:
    """Return the frames that a complete decode outputs. None if headers do not prove them."""
    if not len(packets.sizes):
        return None
    prover = _PROVERS.get(packets.codec)
    return None if prover is None else prover(packets)


# Every packet is a picture


def _all_intra(packets: Packets) -> Pictures | None:
    if packets.sizes.min() < _MIN_BYTES:
        return None
    return Pictures(len(packets.sizes), np.arange(len(packets.sizes)))


def _without_b(type_of: Callable[[Bytes], Ints]) -> Callable[[Packets], Pictures | None]:
    """Return the prover of a codec that has no B-pictures. ``type_of`` returns, from the heads of
    packets: 0 for I, 1 for P."""

    def prove(packets: Packets) -> Pictures | None:
        if packets.sizes.min() < _MIN_BYTES:
            return None
        types = type_of(packets.heads())
        return None if (types > 1).any() else by_types(types)

    return prove


def _two_bits(at: int) -> Callable[[Bytes], Ints]:
    """Return the number in the two bits from bit number ``at`` on of each head."""

    def number(heads: Bytes) -> Ints:
        pairs = heads[:, at >> 3 : (at >> 3) + 2].astype(np.int64)
        found: Ints = (pairs[:, 0] << 8 | pairs[:, 1]) >> 14 - at % 8 & 3
        return found

    return number


def _ffv1_type(heads: Bytes) -> Ints:
    # The first bit that is range coded.
    return (heads[:, 0] * np.int64(256) + heads[:, 1] < 0x7F80).astype(np.int64)


# MJPEG

_MARKER = re.compile(b"\xff[\xc0-\xfe]")
_STANDALONE = frozenset(range(0xD0, 0xDA))
_HUFFMAN, _QUANTIZATION, _SCAN = 0xC4, 0xDB, 0xDA
_FRAMES = frozenset(range(0xC0, 0xD0)) - {_HUFFMAN, 0xC8, 0xCC}
_BEGINS = b"\xff\xd8\xff"


def _mjpeg(packets: Packets) -> Pictures | None:
    """Return one frame per packet, if all contain the same tables, so that none uses those of
    another picture, and if each is a whole frame."""
    first = packets.data(0, DATA_BYTES)
    header = jpeg_header(first)
    begins, is_field = first[: header.length], header.height < _least_height(packets)
    for i in range(len(packets.sizes)):
        if not is_field and packets.data(i, len(begins)) == begins:
            continue
        found = jpeg_header(packets.data(i, DATA_BYTES))
        is_whole = found.has_scan and _is_frame(packets, i, found.height)
        if found.tables != header.tables or not is_whole:
            return None
    return _all_intra(packets)


def _least_height(packets: Packets) -> int:
    """Return the least height of a frame: FFmpeg takes lower pictures for fields."""
    return packets.size[1] * 3 // 4


def _is_frame(packets: Packets, i: int, height: int) -> bool:
    """Return whether packet ``i``, whose first picture has this height, is a frame: one picture, or
    two fields."""
    if height >= _least_height(packets):
        return True
    whole = packets.whole(i)
    return whole is not None and whole.count(_BEGINS) == 2


class JpegHeader(NamedTuple):
    """The header before the first scan of a JPEG picture. ``tables``: its tables; the decoder takes
    others from the picture before it. ``has_scan``: a scan follows. ``length``: of the header, in
    bytes. ``height``: of the picture, 0 if unknown.
    """

    tables: frozenset[tuple[int, int]]
    has_scan: bool
    length: int
    height: int


def jpeg_header(data: Buffer) -> JpegHeader:
    """Return the header of a picture, as far as ``data`` has it."""
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
    **dict.fromkeys(INTRA_ONLY, _all_intra),
    "ffv1": _without_b(_ffv1_type),
    "h264": prove_h264,
    "hevc": prove_hevc,
    "libdav1d": prove_av1,
    "mjpeg": _mjpeg,
    "mpeg4": prove_mpeg4,
    "msmpeg4": _without_b(_two_bits(0)),
    "msmpeg4v1": _without_b(_two_bits(37)),
    "msmpeg4v2": _without_b(_two_bits(0)),
    "vp8": _vp8,
    "vp9": prove_vp9,
}

PROVABLE = frozenset(_PROVERS)  # FFmpeg's names of decoders
