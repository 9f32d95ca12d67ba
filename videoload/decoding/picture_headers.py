"""What picture headers prove: how many frames coded packets give, and in which order. Pure.

The question is what a complete sequential decode outputs, without decoding. Its answer differs by
codec, and where a header leaves a doubt there is no answer (None), so that a decoder has to tell:

    every packet a frame     MJPEG, raw and lossless codecs, H.263 and its relatives
    VOP types                MPEG-4: B-VOPs, VOPs that are not coded, two VOPs in a packet (packed)
    picture types            MPEG-1, MPEG-2
    show_frame               VP8
    IDR pictures and SPS     H.264: frames only, no gaps; all before an IDR is shown before it

B-pictures are shown before the reference picture that they follow in the file; those that follow
the first reference picture of a file are not shown, since a decoder has nothing to make them of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

HEAD_BYTES = 24  # of a packet, enough for a picture header that stands at its beginning
DATA_BYTES = 8192  # of a packet, enough for what stands before its picture
_MIN_BYTES = 32  # a smaller packet may be a picture that is skipped
_PLACEHOLDER_BYTES = 19  # FFmpeg's MAX_NVOP_SIZE

_FRAME_A_PACKET = {
    "asv1", "asv2", "dvvideo", "ffv1", "ffvhuff", "flv1", "h263", "h263p", "huffyuv", "magicyuv",
    "mjpeg", "msmpeg4v1", "msmpeg4v2", "msmpeg4v3", "rawvideo", "utvideo", "wmv1", "wmv2", "wmv3",
}  # fmt: skip


class Packets(NamedTuple):
    """The coded packets of a video, in the order of the file.

    ``sizes`` int64 [n] in bytes; ``keys`` bool [n], as the container flags them; ``heads()`` uint8
    [n, HEAD_BYTES], zeros where a packet is shorter; ``data(i)`` the first DATA_BYTES of packet i;
    ``whole()`` all of each in turn, or None where that would take reading too much.
    """

    codec: str
    extradata: bytes
    has_b_frames: bool
    sizes: Ints
    keys: npt.NDArray[np.bool_]
    heads: Callable[[], npt.NDArray[np.uint8]]
    data: Callable[[int], bytes]
    whole: Callable[[], Iterable[bytes | None]]


class Pictures(NamedTuple):
    """What is proven: ``frames`` in all; ``starts``, the packets where decoding can begin, rising:
    what is shown from such a picture on needs nothing before it. ``ordinals`` int64 [packets] is
    the frame that each packet gives, -1 for none. Where it is None, packet i gives frame i, or, if
    ``reordered``, that is so of the starts, and the frames in between come in an order that only
    the decoder knows."""

    frames: int
    starts: Ints
    ordinals: Ints | None = None
    reordered: bool = False


def prove(packets: Packets) -> Pictures | None:
    """What a complete decode outputs; None where headers do not tell."""
    if not len(packets.sizes):
        return None
    if packets.codec in _FRAME_A_PACKET:
        doubt = packets.has_b_frames or packets.sizes.min() < _MIN_BYTES or not packets.keys[0]
        return None if doubt else Pictures(len(packets.sizes), np.flatnonzero(packets.keys))
    prover = _PROVERS.get(packets.codec)
    return None if prover is None else prover(packets)


# Picture types, as codes: a reference picture that needs none, one that needs some, one that is no
# reference, and a packet that gives no frame.
_INTRA, _INTER, _B, _NONE = range(4)


def _by_types(types: Sequence[int] | Ints) -> Pictures | None:
    """Pictures of these types, one for each packet, in the order of decoding."""
    if types[0] != _INTRA:
        return None
    kinds = np.asarray(types)
    starts = np.flatnonzero(kinds == _INTRA)
    if (kinds <= _INTER).all():
        return Pictures(len(kinds), starts)
    ordinals = np.full(len(kinds), -1)
    shown = references = 0
    held = -1  # the last reference picture: shown when the next one comes
    for i, kind in enumerate(kinds.tolist()):
        if kind == _B and references > 1:
            ordinals[i] = shown
            shown += 1
        elif kind <= _INTER:
            if held >= 0:
                ordinals[held] = shown
                shown += 1
            held = i
            references += 1
    ordinals[held] = shown
    return Pictures(shown + 1, starts, ordinals)


# MPEG-4

_VOP = b"\0\0\1\xb6"
_VOP_NUMBER = int.from_bytes(_VOP, "little")
_VOL = re.compile(b"\0\0\1[\x20-\x2f]")
_DIVX = re.compile(b"\0\0\1\xb2DivX[0-9]+(?:Build|b)[0-9]+(.)?", re.DOTALL)
_VOP_TYPES = (_INTRA, _INTER, _B, _INTER)  # I, P, B, S (a sprite, or global motion)
_TYPE_OF_VOP = np.array(_VOP_TYPES)


def _mpeg4(packets: Packets) -> Pictures | None:
    first = packets.data(0)
    headers = first[: first.find(_VOP) + 1 or None]  # nobody reads headers behind a picture
    divx = _DIVX.search(headers) or _DIVX.search(packets.extradata)
    if divx is not None and divx[1] == b"p":
        return _mpeg4_packed(packets)
    heads = packets.heads()
    types = _TYPE_OF_VOP[heads[:, 4] >> 6]
    small = packets.sizes < _MIN_BYTES  # only these can be pictures that are not coded
    time_bits = None
    if small.any():
        time_bits = _vop_time_bits(headers) or _vop_time_bits(packets.extradata)
    for i in np.flatnonzero((heads.view("<u4")[:, 0] != _VOP_NUMBER) | small).tolist():
        data = packets.data(i)
        at = data.find(_VOP)
        if at < 0 and len(data) == 1 and divx is not None:
            types[i] = _NONE  # as FFmpeg takes it
        elif at < 0 or len(data) < at + 5 or (small[i] and time_bits is None):
            return None
        else:
            coded = not small[i] or _is_coded(data[at + 4 :], time_bits or 0)
            types[i] = _VOP_TYPES[data[at + 4] >> 6] if coded else _NONE
    return _by_types(types)


def _mpeg4_packed(packets: Packets) -> Pictures | None:
    """A packet with a reference picture may hold a B-VOP as well; FFmpeg keeps that, and decodes it
    in the place of the next packet, whatever that is: a placeholder, if all is well."""
    types: list[int] = []
    kept: bytes | None = None
    for data in packets.whole():
        if data is None:
            return None
        picture = data if kept is None else kept
        at = picture.find(_VOP)
        if 0 <= at < len(picture) - 4:
            if kept is None and len(data) <= _PLACEHOLDER_BYTES:
                return None  # not coded, or a tiny picture: nothing says which
            types.append(_VOP_TYPES[picture[at + 4] >> 6])
        elif len(picture) == 1:
            types.append(_NONE)
        else:
            return None
        following = data.find(_VOP, max(at + 4, 0) if kept is None else 0)
        kept = None
        if 0 <= following < len(data) - 4 and not data[following + 4] & 0x40:
            kept = data[following:]
    return _by_types(types)  # what is kept at the end is never shown


def _vop_time_bits(data: bytes) -> int | None:
    """How many bits a VOP header takes for its time, by the video object layer's header."""
    found = _VOL.search(data)
    if found is None:
        return None
    bits = _Bits(data[found.end() : found.end() + 64])
    try:
        bits.take(9)  # random access, type
        if bits.take(1):  # version, priority
            bits.take(7)
        if bits.take(4) == 15:  # aspect ratio
            bits.take(16)
        if bits.take(1):  # control parameters: chroma, low delay
            bits.take(3)
            if bits.take(1):  # buffer sizes
                bits.take(79)
        if bits.take(2) != 0:  # a shape
            return None
        bits.take(1)
        resolution = bits.take(16)
    except EOFError:
        return None
    return max(1, (resolution - 1).bit_length()) if resolution else None


def _is_coded(header: bytes, time_bits: int) -> bool:
    bits = _Bits(header)
    try:
        bits.take(2)
        while bits.take(1):
            pass
        bits.take(1 + time_bits + 1)
        return bool(bits.take(1))
    except EOFError:
        return False


# MPEG-1 and MPEG-2

_PICTURE, _PICTURE_EXTENSION = b"\0\0\1\0", b"\0\0\1\xb5"
_PICTURE_TYPES = {1: _INTRA, 2: _INTER, 3: _B}


def _mpeg12(packets: Packets) -> Pictures | None:
    types: list[int] = []
    heads = packets.heads()
    for i in range(len(packets.sizes)):
        data = heads[i].tobytes()
        at = data.find(_PICTURE)
        if not 0 <= at < HEAD_BYTES - 18:
            data = packets.data(i)
            at = data.find(_PICTURE)
        kind = _PICTURE_TYPES.get(data[at + 5] >> 3 & 7) if 0 <= at < len(data) - 5 else None
        extension = data.find(_PICTURE_EXTENSION, at, at + 14)
        fields = 0 <= extension < len(data) - 6 and data[extension + 6] & 3 != 3
        if kind is None or fields or (extension < 0 and packets.codec == "mpeg2video"):
            return None
        types.append(kind)
    return _by_types(types)


# VP8


def _vp8(packets: Packets) -> Pictures | None:
    frame_tags = packets.heads()[:, 0]
    if frame_tags[0] & 1 or (packets.sizes < 3).any():
        return None
    types = np.where(frame_tags & 1, _INTER, _INTRA)
    return _by_types(np.where(frame_tags & 0x10, types, _NONE))


# H.264

_START_CODE = b"\0\0\1"
_SLICE, _IDR, _SPS = 1, 5, 7
_HIGH_PROFILES = (100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135)


def _h264(packets: Packets) -> Pictures | None:
    """Each packet a picture, where there are no fields and no gaps: so far headers tell of all
    packets at once. Which packet is an IDR is looked up, since containers flag others as well."""
    length_bytes, told = _avc_configuration(packets.extradata)
    parameter_sets = set(told)
    starts = []
    for i in np.flatnonzero(packets.keys).tolist():
        for kind, unit in _nal_units(packets.data(i), length_bytes):
            if kind == _SPS:
                parameter_sets.add(unit)
            elif kind == _IDR:
                starts.append(i)
                break
            elif _SLICE <= kind < _IDR:
                break
    if not parameter_sets or not all(map(_frames_only, parameter_sets)):
        return None
    if starts[:1] != [0] or packets.sizes.min() < 8:
        return None
    return Pictures(len(packets.sizes), np.array(starts), reordered=packets.has_b_frames)


def _avc_configuration(extradata: bytes) -> tuple[int, list[bytes]]:
    """How long the length in front of a NAL unit is (0: start codes), and the SPS told there."""
    if extradata[:1] != b"\1" or len(extradata) < 8:
        return 0, [unit for kind, unit in _nal_units(extradata, 0) if kind == _SPS]
    units, at = [], 6
    for _ in range(extradata[5] & 31):
        length = int.from_bytes(extradata[at : at + 2], "big")
        units.append(extradata[at + 2 : at + 2 + length])
        at += 2 + length
    return (extradata[4] & 3) + 1, units


def _nal_units(data: bytes, length_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Type and bytes of each NAL unit, as far as ``data`` goes."""
    at = 0
    while length_bytes and at + length_bytes < len(data):
        begin = at + length_bytes
        at = begin + int.from_bytes(data[at:begin], "big")
        yield data[begin] & 31, data[begin:at]
    if not length_bytes:
        end = data.find(_START_CODE)
        while end >= 0:
            begin = end + len(_START_CODE)
            end = data.find(_START_CODE, begin)
            unit = data[begin : None if end < 0 else end]
            if unit:
                yield unit[0] & 31, unit.rstrip(b"\0")


@lru_cache(256)  # encoders write the same one into all their files
def _frames_only(sps: bytes) -> bool:
    """Whether all that a sequence parameter set describes are frames without gaps in between."""
    bits = _Bits(sps.replace(b"\0\0\3", b"\0\0"))
    try:
        bits.take(8)
        profile = bits.take(8)
        bits.take(16)
        bits.golomb()
        if profile in _HIGH_PROFILES:
            chroma = bits.golomb()
            if chroma == 3:
                bits.take(1)
            bits.golomb(), bits.golomb()
            bits.take(1)
            if bits.take(1):
                for i in range(12 if chroma == 3 else 8):
                    if bits.take(1):
                        _skip_scaling_list(bits, 16 if i < 6 else 64)
        bits.golomb()
        order_type = bits.golomb()
        if order_type == 0:
            bits.golomb()
        elif order_type == 1:
            bits.take(1)
            bits.golomb(), bits.golomb()
            for _ in range(bits.golomb()):
                bits.golomb()
        bits.golomb()
        gaps = bits.take(1)
        bits.golomb(), bits.golomb()
        return not gaps and bool(bits.take(1))
    except EOFError:
        return False


def _skip_scaling_list(bits: _Bits, length: int) -> None:
    last = following = 8
    for _ in range(length):
        if following:
            code = bits.golomb()
            following = (last + (code + 1) // 2 * (1 if code % 2 else -1)) % 256
        last = following or last


class _Bits:
    """Bits from the most significant one on. Raises EOFError behind the last."""

    def __init__(self, data: bytes) -> None:
        self._value = int.from_bytes(data, "big")
        self._left = 8 * len(data)

    def take(self, count: int) -> int:
        """The next ``count`` bits as a number."""
        self._left -= count
        if self._left < 0:
            raise EOFError
        return self._value >> self._left & (1 << count) - 1

    def golomb(self) -> int:
        """An Exp-Golomb code, unsigned."""
        zeros = 0
        while not self.take(1):
            zeros += 1
        return (1 << zeros) - 1 + self.take(zeros)


_PROVERS: dict[str, Callable[[Packets], Pictures | None]] = {
    "h264": _h264,
    "mpeg1video": _mpeg12,
    "mpeg2video": _mpeg12,
    "mpeg4": _mpeg4,
    "vp8": _vp8,
}
