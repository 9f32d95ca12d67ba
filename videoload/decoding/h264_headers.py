"""What the headers of H.264 pictures prove. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from videoload.decoding.pictures import DATA_BYTES, Bits, Packets, Pictures, are_settings_known

_SLICE, _IDR, _SPS, _PPS = 1, 5, 7, 8
_SETTINGS = (_SPS, _PPS, 13, 15)
_HIGH_PROFILES = (100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135)


def prove_h264(packets: Packets) -> Pictures | None:
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
        for kind, unit in _nal_units(packets.data(i, DATA_BYTES), length_bytes):
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
    if starts[:1].tolist() != [0] or not are_settings_known(settings, told, starts.tolist()):
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
    bits = Bits(sps.replace(b"\0\0\3", b"\0\0"))
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


def _skip_scaling_list(bits: Bits, length: int) -> None:
    last = following = 8
    for _ in range(length):
        if following:
            code = bits.golomb()
            following = (last + (code + 1) // 2 * (1 if code % 2 else -1)) % 256
        last = following or last
