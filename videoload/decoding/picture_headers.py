"""What picture headers prove: how many frames coded packets give, and in which order. Pure.

The question is what a complete sequential decode outputs, without decoding; and whether a decoder
that begins at a key frame goes on as one that comes from the file's beginning. The answers differ
by codec, and where a header leaves a doubt there is none (None), so that a decoder has to tell:

    every packet a frame     MJPEG, raw and lossless codecs, DV, ASUS
    I or P                   H.263 and its relatives, FFV1
    show_frame               VP8
    VOP types                MPEG-4: B-VOPs, VOPs that are not coded, two VOPs in a packet (packed)
    IDR pictures and SPS     H.264: frames only, no gaps; all before an IDR is shown before it

B-pictures are shown before the reference picture that they follow in the file; those that follow
the first reference picture of a file are not shown, since a decoder has nothing to make them of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Buffer = bytes | memoryview  # of bytes

HEAD_BYTES = 24  # of a packet, enough for a picture header that stands at its beginning
DATA_BYTES = 8192  # of a packet, enough for what stands before its picture
_MIN_BYTES = 8  # a smaller packet may stand for a picture that was dropped
_UNCODED_BYTES = 32  # of an MPEG-4 picture that is not coded, at most
_PLACEHOLDER_BYTES = 19  # FFmpeg's MAX_NVOP_SIZE
_SOME = 16  # packets whose tables are compared


class Packets(NamedTuple):
    """The coded packets of a video, in the order of the file.

    ``sizes`` int64 [n] in bytes; ``heads()`` uint8 [n, HEAD_BYTES], zeros where a packet is
    shorter; ``data(i)`` the first DATA_BYTES of packet i, ``whole(i)`` all of it, or None where
    that would take reading too much.
    """

    codec: str
    extradata: bytes
    size: tuple[int, int]  # width, height, as the container tells them
    has_b_frames: bool
    sizes: Ints
    heads: Callable[[], Bytes]
    data: Callable[[int], bytes]
    whole: Callable[[int], bytes | None]


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
    prover = _PROVERS.get(packets.codec)
    return None if prover is None else prover(packets)


# Picture types, as codes: a reference picture that needs none, one that needs some, one that is no
# reference, and a packet that gives no frame.
_INTRA, _INTER, _B, _NONE = range(4)


def _by_types(types: Sequence[int]) -> Pictures | None:
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
        return None if ((types < 0) | (types > 1)).any() else _by_types(types.tolist())

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
    types = np.where(types == 2, _INTER, types)  # no other refers to it
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


def _mjpeg(packets: Packets) -> Pictures | None:
    some = [jpeg_tables(packets.data(i)) for i in range(min(len(packets.sizes), _SOME))]
    # Most pictures bring all tables that there are: none takes them from another, unless damaged.
    return _all_intra(packets) if 2 * some.count(frozenset().union(*some)) > len(some) else None


def jpeg_tables(data: Buffer) -> frozenset[tuple[int, int]]:
    """Which tables a JPEG picture brings: the others are those of a picture before it."""
    tables: set[tuple[int, int]] = set()
    at = 0
    while (found := _MARKER.search(data, at)) is not None:
        marker, at = data[found.start() + 1], found.end()
        if marker == _SCAN:
            break
        if marker in _STANDALONE:
            continue
        end = at + max(2, int.from_bytes(data[at : at + 2], "big"))
        least = {_HUFFMAN: 17, _QUANTIZATION: 65}.get(marker, end)
        at += 2
        while end - at >= least and at < len(data):
            tables.add((marker, data[at] & (0x1F if marker == _HUFFMAN else 0x0F)))
            if marker == _HUFFMAN:
                at += 17 + sum(data[at + 1 : at + 17])
            else:
                at += 129 if data[at] >> 4 else 65
        at = end
    return frozenset(tables)


def _are_settings_known(found: Mapping[int, object], told: object, starts: Iterable[int]) -> bool:
    """Whether a decoder knows the same settings of a codec wherever it begins: those that are
    ``found`` in packets are all the same, and each start has them, or the container ``told`` them.
    """
    settings = set(found.values())
    return not settings or (
        len(settings) == 1 and (told in settings or all(start in found for start in starts))
    )


# MPEG-4

_VOP = b"\0\0\1\xb6"
_VOL = re.compile(b"\0\0\1[\x20-\x2f]")
_TIME_CODE = re.compile(b"\0\0\1\xb3.*?(?=\0\0\1|$)", re.DOTALL)  # of a group: differs by nature
_DIVX = re.compile(b"\0\0\1\xb2DivX[0-9]+(?:Build|b)[0-9]+(.)?", re.DOTALL)
_VOP_TYPES = (_INTRA, _INTER, _B, _INTER)  # I, P, B, S (a sprite, or global motion)


def _mpeg4(packets: Packets) -> Pictures | None:
    first = packets.data(0)
    divx = _DIVX.search(first) or _DIVX.search(packets.extradata)
    layer = _video_object_layer(first) or _video_object_layer(packets.extradata)
    if layer is None:
        return None
    settings: dict[int, bytes] = {}
    if divx is not None and divx[1] == b"p":
        types = _packed_types(packets, settings)
    else:
        types = _vop_types(packets, layer, divx is not None, settings)
    pictures = None if types is None else _by_types(types)
    if pictures is None or not _are_settings_known(settings, packets.extradata, pictures.starts):
        return None
    # Told of no B-VOPs, a decoder holds nothing back until it meets with one.
    told_none = (
        layer.low_delay
        if layer.low_delay is not None
        else (layer.object_type in (1, 17) or (layer.object_type == 0 and divx is None))
    )
    return None if told_none and pictures.ordinals is not None else pictures


def _vop_types(
    packets: Packets, layer: _Layer, is_divx: bool, settings: dict[int, bytes]
) -> list[int] | None:
    """The type of the VOP in each packet; ``settings`` takes what stands before VOPs."""
    heads = packets.heads()
    plain = (heads[:, :4] == np.frombuffer(_VOP, np.uint8)).all(axis=1)
    types = np.asarray(_VOP_TYPES)[heads[:, 4] >> 6]
    small = packets.sizes < _UNCODED_BYTES
    for i in np.flatnonzero(~plain | small).tolist():
        data = packets.data(i)
        at = data.find(_VOP)
        if at < 0 and len(data) == 1 and is_divx:
            types[i] = _NONE  # as FFmpeg takes it
        elif at < 0 or len(data) < at + 5:
            return None
        else:
            _note_settings(settings, i, data[:at])
            coded = not small[i] or _is_coded(data[at + 4 :], layer.time_bits)
            types[i] = _VOP_TYPES[data[at + 4] >> 6] if coded else _NONE
    return list(map(int, types))


def _note_settings(settings: dict[int, bytes], packet: int, before_vop: bytes) -> None:
    if found := _TIME_CODE.sub(b"", before_vop):
        settings[packet] = found


def _packed_types(packets: Packets, settings: dict[int, bytes]) -> list[int] | None:
    """A packet with a reference picture may hold a B-VOP as well. FFmpeg keeps that, and decodes it
    in the place of the next packet: a placeholder, or another B-VOP, which is kept in its turn."""
    types: list[int] = []
    kept = b""
    for i in range(len(packets.sizes)):
        data = packets.whole(i)
        if data is None:
            return None
        is_small = len(data) <= _PLACEHOLDER_BYTES
        picture = kept or data
        at = picture.find(_VOP)
        if not kept and len(data) == 1:
            types.append(_NONE)
        elif not 0 <= at < len(picture) - 4 or (not kept and is_small):
            return None  # nothing says whether it is coded
        else:
            types.append(_VOP_TYPES[picture[at + 4] >> 6])
        if not kept and at >= 0:
            _note_settings(settings, i, data[:at])
        following = data.find(_VOP, 0 if kept else at + 4)
        is_kept = 0 <= following < len(data) - 4 and not data[following + 4] & 0x40
        if kept and not is_small and not (is_kept and following == 0):
            return None  # one of two pictures is lost
        kept = data[following:] if is_kept else b""
    return types  # what is kept at the end is never shown


class _Layer(NamedTuple):
    """Of the header of a video object layer: bits that a VOP header takes for its time; whether no
    B-VOPs come, if it says so."""

    object_type: int
    low_delay: bool | None
    time_bits: int


def _video_object_layer(data: bytes) -> _Layer | None:
    found = _VOL.search(data)
    if found is None:
        return None
    bits = _Bits(data[found.end() : found.end() + 64])
    try:
        bits.take(1)  # random access
        object_type = bits.take(8)
        if bits.take(1):  # version, priority
            bits.take(7)
        if bits.take(4) == 15:  # aspect ratio
            bits.take(16)
        low_delay = None
        if bits.take(1):  # control parameters
            bits.take(2)  # chroma
            low_delay = bool(bits.take(1))
            if bits.take(1):  # buffer sizes
                bits.take(79)
        if bits.take(2) != 0:  # a shape
            return None
        bits.take(1)
        resolution = bits.take(16)
    except EOFError:
        return None
    if not resolution:
        return None
    return _Layer(object_type, low_delay, max(1, (resolution - 1).bit_length()))


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


# VP8


def _vp8(packets: Packets) -> Pictures | None:
    heads = packets.heads()
    frame_tags = heads[:, 0]
    types = np.where(frame_tags & 1, _INTER, _INTRA)
    sizes = heads[:, 6:10].copy().view("<u2")[types == _INTRA] & 0x3FFF
    if (packets.sizes < 3).any() or (sizes != packets.size).any():
        return None
    return _by_types(np.where(frame_tags & 0x10, types, _NONE).tolist())


# H.264

_SLICE, _IDR, _SPS, _PPS = 1, 5, 7, 8
_SETTINGS = (_SPS, _PPS, 13, 15)
_HIGH_PROFILES = (100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135)


def _h264(packets: Packets) -> Pictures | None:
    """Each packet a picture, where there are no fields and no gaps. Which one is an IDR is looked
    up, since containers flag others as well."""
    length_bytes, units = _avc_configuration(packets.extradata)
    told = frozenset(unit for kind, unit in units if kind in _SETTINGS)
    heads = packets.heads()
    begin = np.full(len(heads), length_bytes or 3)  # of the first unit
    if not length_bytes:
        begin += heads[:, 2] == 0  # start codes have three bytes or four
        if heads[:, :2].any() or (heads[np.arange(len(heads)), begin - 1] != 1).any():
            return None
    kinds = heads[np.arange(len(heads)), begin] & 31
    first_of_picture = heads[np.arange(len(heads)), begin + 1] >= 0x80  # macroblock 0
    settings: dict[int, frozenset[bytes]] = {}
    for i in np.flatnonzero((kinds != _SLICE) & (kinds != _IDR)).tolist():
        found = set()
        for kind, unit in _nal_units(packets.data(i), length_bytes):
            if kind in _SETTINGS:
                found.add(unit)
            if _SLICE <= kind <= _IDR:
                kinds[i], first_of_picture[i] = kind, unit[1:2] >= b"\x80"
                break
        if found:
            settings[i] = frozenset(found)
    starts = np.flatnonzero(kinds == _IDR)
    if not ((kinds == _SLICE) | (kinds == _IDR)).all() or not first_of_picture.all():
        return None
    sequences = [unit for unit in told.union(*settings.values()) if unit[0] & 31 == _SPS]
    if not sequences or not all(map(_frames_only, sequences)):
        return None
    if starts[:1].tolist() != [0] or not _are_settings_known(settings, told, starts.tolist()):
        return None
    return Pictures(len(packets.sizes), starts, reordered=packets.has_b_frames)


def _avc_configuration(extradata: bytes) -> tuple[int, list[tuple[int, bytes]]]:
    """How long the length in front of a NAL unit is (0: start codes), and the units told there."""
    if extradata[:1] != b"\1" or len(extradata) < 8:
        return 0, list(_nal_units(extradata, 0))
    units, at = [], 5
    for mask in (31, 255):  # sequence and picture parameter sets
        count, at = extradata[at : at + 1], at + 1
        for _ in range(count[0] & mask if count else 0):
            length = int.from_bytes(extradata[at : at + 2], "big")
            unit = extradata[at + 2 : at + 2 + length]
            at += 2 + length
            if unit:
                units.append((unit[0] & 31, unit))
    return (extradata[4] & 3) + 1, units


def _nal_units(data: bytes, length_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Type and bytes of each NAL unit, as far as ``data`` goes."""
    at = 0
    while length_bytes and at + length_bytes < len(data):
        begin = at + length_bytes
        at = begin + int.from_bytes(data[at:begin], "big")
        if at > begin:
            yield data[begin] & 31, data[begin:at]
    if not length_bytes:
        for unit in re.split(b"\0\0\1", data)[1:]:
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
    "asv1": _all_intra,
    "asv2": _all_intra,
    "dvvideo": _all_intra,
    "ffv1": _without_b(_ffv1_type),
    "ffvhuff": _all_intra,
    "flv": _without_b(_flv1_type),
    "h263": _without_b(_h263_type),
    "h263p": _without_b(_h263_type),
    "h264": _h264,
    "huffyuv": _all_intra,
    "magicyuv": _all_intra,
    "mjpeg": _mjpeg,
    "mpeg4": _mpeg4,
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
