"""Prove the frames of an MPEG-4 video from the headers of its VOPs. Pure.

B-VOPs, VOPs that are not coded, and two VOPs in a packet ("packed") with the placeholder that
follows are understood as FFmpeg understands them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.bitstreams.pictures import (
    DATA_BYTES,
    HEAD_BYTES,
    INTER,
    INTRA,
    NONE,
    B,
    Bits,
    Bytes,
    Ints,
    Packets,
    Pictures,
    are_settings_known,
    by_types,
)

_LAYER_BYTES = 32  # the part of a layer's header that is read
_VOP_BYTES = 64  # a picture's header is not longer
_USUAL_VOP_BYTES = 16  # nearly all are not longer than this
_PLACEHOLDER_BYTES = 19  # FFmpeg's MAX_NVOP_SIZE
VOP = b"\0\0\1\xb6"  # begins a picture
_VOP_NUMBER = int.from_bytes(VOP, "little")
_VOL = re.compile(b"\0\0\1[\x20-\x2f]")
_TIME_CODE_BEGINS = b"\0\0\1\xb3"  # a group of VOPs begins with one
_TIME_CODE = re.compile(_TIME_CODE_BEGINS + b"(.*?)(?=\0\0\1|$)", re.DOTALL)
_DIVX = re.compile(b"\0\0\1\xb2DivX[0-9]+(?:Build|b)[0-9]+(.)?", re.DOTALL)
# The last bits of a layer's header: overlapped blocks, no sprite, 8 bits, no matrices of its own,
# quarters of a pixel, no estimates of complexity, marks, partitions, no new predictions, a reduced
# resolution, no other layer. The first version has fewer.
_ENDS = (
    re.compile("[01]00(0|100)1[01](0|1[01])0"),
    re.compile("[01]000(0|100)[01]1[01](0|1[01])0[01]0"),
)
_TYPES = (INTRA, INTER, B, INTER)  # I, P, B, S (a sprite, or global motion)
_VOP_TYPES = np.repeat(_TYPES, 64)  # by the byte behind the start code


def prove_mpeg4(packets: Packets) -> Pictures | None:
    """Return the frames, one per coded VOP, if this module understands how FFmpeg handles all
    VOPs."""
    first = packets.data(0, DATA_BYTES)
    first = first[: first.find(VOP) + len(VOP)]
    divx, layer, before = _settings(first, packets.extradata)
    if layer is None:
        return None
    heads, pictures_of = packets.heads(), dict[int, bytes]()
    begins, begun = _begins(heads, first)
    closed: npt.NDArray[np.bool_] | None = None  # no B-VOP is pending after the packet
    if divx is not None and divx[1] == b"p":
        closed = np.full(len(heads), True)
        if (unpacked := _unpack(packets, closed)) is None:
            return None
        pictures_of = dict(enumerate(unpacked))
        rows = b"".join(data[:_USUAL_VOP_BYTES].ljust(_USUAL_VOP_BYTES, b"\0") for data in unpacked)
        heads = begins = np.frombuffer(rows, np.uint8).reshape(-1, _USUAL_VOP_BYTES)
        begun = begun[:0]
    types, fields = _VOP_TYPES.take(begins[:, 4]), _usual_fields(begins, layer)
    odd = (_begin_otherwise(begins) | ~fields.are_coded).nonzero()[0]
    vops = dict[int, _Vop | None]()
    settings = dict.fromkeys(begun[fields.are_coded[begun]].tolist(), before)
    is_skipped = False
    for i in odd.tolist():
        data = pictures_of.get(i) or packets.data(i, DATA_BYTES)
        if len(data) == 1 and divx is not None:
            types[i] = NONE  # FFmpeg skips it
            continue
        at, vop = data.find(VOP), _vop(data, layer)
        if vop is None:
            return None
        if not vop.is_coded and i == len(types) - 1:
            return None  # at the end of the file, FFmpeg shows the last picture once more
        vops[i] = vop
        types[i] = vop.type if vop.is_coded else NONE
        is_skipped |= not vop.is_coded
        if at and (before := _TIME_CODE.sub(b"", data[:at])):
            settings[i] = before
    pictures = by_types(types)
    read, given = (
        {i: _as_read(each) for i, each in settings.items()},
        _as_read(packets.extradata),
    )
    if pictures is None or not are_settings_known(read, given, pictures.starts):
        return None
    if (types != B).all():
        return pictures._replace(are_settings_given={given}.issuperset(read.values()))
    # FFmpeg uses the distance between the fields of the first B-VOP that it meets.
    if layer.is_interlaced:
        return None
    # If nothing announces B-VOPs, a decoder holds no picture back until it meets the first.
    unsaid = layer.type in (1, 17) or (layer.type == 0 and divx is None)
    if is_skipped or (unsaid if layer.low_delay is None else layer.low_delay):
        return None
    non_reference = (types == B).astype(np.int64)
    if closed is not None:
        # A decoder that skips a packet has no B-VOP of it, so the following ones are lost as well.
        for i in (non_reference & ~closed).nonzero()[0][::-1].tolist():
            following = non_reference[i + 1] if i + 1 < len(types) else 0
            non_reference[i] = following + 1 if following else 0
        # A decoder that starts after a pending B-VOP misses it, and takes the placeholder for a
        # picture.
        closed[0] = True
        pictures = pictures._replace(starts=pictures.starts[closed[pictures.starts]])
    for i in settings.keys() - vops.keys():
        vops[i] = _vop(heads[i].tobytes(), layer)
    usual = map(_Vop, types.tolist(), fields.seconds.tolist(), fields.units.tolist())
    every = [vops.get(i, vop) for i, vop in enumerate(usual) if vop.type != NONE]
    return pictures.with_non_reference(non_reference) if _are_times_right(every, layer) else None


@lru_cache(256)  # the files of a dataset have few encoders
def _settings(first: bytes, extradata: bytes) -> tuple[re.Match[bytes] | None, Layer | None, bytes]:
    """Return DivX's encoder string, the layer, and all bytes before the first picture, except a
    time code."""
    divx = _DIVX.search(first) or _DIVX.search(extradata)
    layer = video_object_layer(first) or video_object_layer(extradata)
    return divx, layer, _TIME_CODE.sub(b"", first[: -len(VOP)])


@lru_cache(256)
def _as_read(settings: bytes) -> bytes:
    """Return the headers before a picture, with its layer as FFmpeg reads it. DivX's encoder omits
    the buffer sizes from all layers but the first."""
    found = _VOL.search(settings)
    layer = video_object_layer(settings)
    if found is None or layer is None or layer.read is None:
        return settings
    end = settings.find(b"\0\0\1", found.end())
    return settings[: found.end()] + repr(layer.read).encode() + settings[end:] * (end > 0)


class _Fields(NamedTuple):
    """The fields of usual VOP headers: see `_Vop`. A VOP that is not in ``are_coded`` may also have
    an unusual form, such as a time of two seconds after the last VOP."""

    seconds: Ints
    units: Ints
    are_coded: npt.NDArray[np.bool_]


def _usual_fields(vops: Bytes, layer: Layer) -> _Fields:
    """Return the fields of VOPs, by their first bytes."""
    bits = np.ascontiguousarray(vops[:, 4:12]).view(">u8")[:, 0].astype(np.uint64)
    seconds, unit_bits = bits >> 61 & 1, _unit_bits(layer.resolution)
    # Behind the type and the seconds: a 0, a marker, the units, a marker, whether it is coded.
    begins, ends = bits >> 60 - seconds, bits >> 58 - unit_bits - seconds
    units = ends >> 2 & (1 << unit_bits) - 1
    return _Fields(seconds, units, (begins & 3 == 1) & (ends & 3 == 3))


def _begins(heads: Bytes, first: bytes) -> tuple[Bytes, Ints]:
    """Return the first bytes of the VOP of each packet, and the packets that have the same before
    it as the first one, except for a time code: the keyframes of most files. Other packets should
    begin with their VOP."""
    begins, at = heads[:, :_USUAL_VOP_BYTES].copy(), first.find(VOP)
    if not 0 <= at <= HEAD_BYTES - _USUAL_VOP_BYTES:
        return begins, np.empty(0, np.int64)
    headed = _begin_otherwise(begins).nonzero()[0]
    same = heads[headed, : at + 4] == heads[0, : at + 4]
    code = first.find(_TIME_CODE_BEGINS, 0, at)
    if 0 <= code <= at - 7:
        same[:, code + 4 : code + 7] = True
    begun = headed[same.all(axis=1)]
    begins[begun] = heads[begun, at : at + _USUAL_VOP_BYTES]
    return begins, begun


def _begin_otherwise(begins: Bytes) -> npt.NDArray[np.bool_]:
    """Return which of these bytes do not begin with a VOP."""
    found: npt.NDArray[np.bool_] = begins[:, :4].view("<u4")[:, 0] != _VOP_NUMBER
    return found


def _unpack(packets: Packets, closed: npt.NDArray[np.bool_]) -> list[bytes] | None:
    """Return the VOP that FFmpeg decodes for each packet. A packet with a reference picture may
    contain a B-VOP as well. FFmpeg stores the B-VOP and decodes it instead of the next packet,
    which is a placeholder or contains another B-VOP to store."""
    pictures: list[bytes] = []
    kept = b""
    for i in range(len(packets.sizes)):
        data = packets.whole(i)
        if data is None:
            return None
        is_small = len(data) <= _PLACEHOLDER_BYTES
        if is_small and len(data) > 1 and not kept:
            return None  # not coded, or a tiny picture
        pictures.append(kept or data)
        following = data.find(VOP, 0 if kept else data.find(VOP) + 4)
        is_kept = 0 <= following < len(data) - 4 and not data[following + 4] & 0x40
        if kept and not is_small and not (is_kept and following == 0):
            return None  # one of two pictures is lost
        kept = data[following:] if is_kept else b""
        closed[i] = not kept
    return pictures  # a B-VOP pending at the end is never shown


class Layer(NamedTuple):
    """The header of a video object layer. ``low_delay``: whether there are no B-VOPs; None if
    unknown. ``resolution``: units of time in a second. ``is_interlaced``: there may be fields.
    ``read``: the fields that FFmpeg reads and uses; None: an unusual form."""

    type: int
    low_delay: bool | None
    resolution: int
    is_interlaced: bool
    read: tuple[int | str, ...] | None


def video_object_layer(data: bytes) -> Layer | None:
    """Return the first header of a layer in the beginning of a packet, if it is understood."""
    found = _VOL.search(data)
    return None if found is None else _layer(data[found.end() : found.end() + _LAYER_BYTES])


@lru_cache(256)  # the files of a dataset have few encoders
def _layer(data: bytes) -> Layer | None:
    bits, read = Bits(data), list[int]()

    def take(count: int) -> int:
        read.append(bits.take(count))
        return read[-1]

    try:
        take(1)  # random access
        layer_type, version = take(8), 1
        if take(1):
            version = take(4)
            take(3)  # priority
        if take(4) == 15:  # the aspect of pixels is written in full
            take(16)
        low_delay = None
        if take(1):  # control parameters
            take(2)  # chroma
            low_delay = bool(take(1))
            if bits.take(1):  # buffer sizes, which FFmpeg skips
                bits.take(79)
        if take(2) != 0:  # a shape
            return None
        take(1)
        resolution = take(16)
        take(1)
        if take(1):  # all pictures take the same time
            take(_unit_bits(resolution))
        take(29)  # the size
        is_interlaced = bool(take(1))
    except EOFError:
        return None
    if not resolution:
        return None
    end = _ENDS[version != 1].match(bits.rest())
    return Layer(layer_type, low_delay, resolution, is_interlaced, end and (*read, end[0]))


def _unit_bits(resolution: int) -> int:
    return max(1, (resolution - 1).bit_length())


class _Vop(NamedTuple):
    """The header of a VOP. Its time is so many whole ``seconds`` after the last VOPs, and
    ``units``. ``time_code``: the seconds that a time code before it sets, if there is one."""

    type: int
    seconds: int
    units: int
    is_coded: bool = True
    time_code: int | None = None


def _vop(data: bytes, layer: Layer) -> _Vop | None:
    at = data.find(VOP)
    if at < 0:
        return None
    time_code = None
    for code in _TIME_CODE.finditer(data[:at]) if at else ():
        hours, minutes, _, seconds = map(Bits(code[1][:3].ljust(3, b"\0")).take, (5, 6, 1, 6))
        time_code = seconds + 60 * (minutes + 60 * hours)
    # The type, a 1 for each second and a 0, a marker, units, a marker, whether it is coded.
    bits, seconds = Bits(data[at + 4 : at + _VOP_BYTES]), 0
    with suppress(EOFError):
        kind = _TYPES[bits.take(2)]
        while bits.take(1):
            seconds += 1
        bits.take(1)
        units, marker, is_coded = map(bits.take, (_unit_bits(layer.resolution), 1, 1))
        if marker:  # if not, FFmpeg would try another resolution
            return _Vop(kind, seconds, units, bool(is_coded), time_code)
    return None


def _are_times_right(vops: Iterable[_Vop | None], layer: Layer) -> bool:
    """Return whether the time of each B-VOP is between its references. FFmpeg skips other
    B-VOPs."""
    second = before = references = 0  # seconds of the last reference, and of the one before
    last = distance = 0  # the time of the last reference, and its distance to the one before
    for vop in vops:
        if vop is None:
            return False
        if vop.time_code is not None:
            second = vop.time_code
        if vop.type == B:
            time = (before + vop.seconds) * layer.resolution + vop.units
            if references > 1 and not 0 < distance - (last - time) < distance:
                return False
        else:
            before, second = second, second + vop.seconds
            time = second * layer.resolution + vop.units
            distance, last = time - last, time
            references += 1
    return True
