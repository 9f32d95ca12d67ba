"""What the headers of H.264 pictures prove. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.bitstreams.pictures import (
    DATA_BYTES,
    Bits,
    Bytes,
    Ints,
    Packets,
    Pictures,
    are_settings_known,
)

_SLICE, _IDR, _SEI, _SPS, _PPS = 1, 5, 6, 7, 8
_ORIENTATION = 47  # a kind of SEI message
_SETTINGS = (_SPS, _PPS, 13, 15)
_MACROBLOCK_0 = 0x80
_LOSSLESS_PROFILE = 244
_MAX_SPS_BYTES = 8192  # more than all that the standard allows takes
_MAX_CYCLE = 255  # frames in a cycle of picture order counts, by the standard
_MAX_BUFFERS = 32  # of a hypothetical reference decoder, by the standard
_X264 = re.compile(rb"x264 - core (\d+)")
_X264_AS_SPECIFIED = 151  # from this build on, without loss as well
_HIGH_PROFILES = (100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135)


def prove_h264(packets: Packets) -> Pictures | None:
    """Each packet is a picture, if there are no fields and no gaps. IDR pictures are found in the
    packets, because containers flag others as key frames too."""
    length_bytes, units = _avc_configuration(packets.extradata)
    told = frozenset(unit for kind, unit in units if kind in _SETTINGS)
    heads = packets.heads()
    begin = np.full(len(heads), length_bytes or 3)  # where the first unit begins
    if not length_bytes:
        begin += heads[:, 2] == 0  # start codes have three bytes or four
        if heads[:, :2].any() or (heads[np.arange(len(heads)), begin - 1] != 1).any():
            return None
    kinds = heads[np.arange(len(heads)), begin] & 31
    slices = heads[np.arange(len(heads)), begin + 1]  # first macroblock, type
    settings: dict[int, frozenset[bytes]] = {}
    for i in np.flatnonzero((kinds != _SLICE) & (kinds != _IDR)).tolist():
        found = set()
        for kind, unit in _nal_units(packets.data(i, DATA_BYTES), length_bytes):
            if kind in _SETTINGS:
                found.add(unit)
            if _SLICE <= kind <= _IDR:
                kinds[i], slices[i] = kind, unit[1] if len(unit) > 1 else 0
                break
        if found:
            settings[i] = frozenset(found)
    starts = np.flatnonzero(kinds == _IDR)
    if not ((kinds == _SLICE) | (kinds == _IDR)).all() or (slices < _MACROBLOCK_0).any():
        return None
    units_told = told.union(*settings.values())
    sequences = [_sequence(unit) for unit in units_told if unit[0] & 31 == _SPS]
    if not sequences or not all(sequence.frames_only for sequence in sequences):
        return None
    # If nothing says how far pictures are reordered, a decoder finds out while it decodes, and
    # drops the pictures for which it finds out too late.
    if not all(sequence.tells_order for sequence in sequences) and _is_b(slices).any():
        return None
    if starts[:1].tolist() != [0] or not are_settings_known(settings, told, starts.tolist()):
        return None
    if any(sequence.profile == _LOSSLESS_PROFILE for sequence in sequences):
        starts = _with_encoder(packets, starts)
    return Pictures(len(packets.sizes), starts, reordered=packets.has_b_frames)


def _is_b(slices: Bytes) -> npt.NDArray[np.bool_]:
    """Whether slices are B-slices, from the byte after their header: a 1 for macroblock 0, then 010
    or 00111."""
    found: npt.NDArray[np.bool_] = (slices & 0x70 == 0x20) | (slices & 0x7C == 0x1C)
    return found


def _with_encoder(packets: Packets, starts: Ints) -> Ints:
    """The starts that name the encoder, if that matters: a decoder treats lossless pictures of an
    old x264 differently. Most files name it in the first packet only."""
    said = _X264.search(packets.data(0, DATA_BYTES))
    if said is None or int(said[1]) >= _X264_AS_SPECIFIED:
        return starts
    say = [i for i in starts.tolist() if said[0] in packets.data(i, DATA_BYTES)]
    return np.array(say, np.int64)


def may_turn(extradata: bytes, data: bytes) -> bool:
    """Whether the first packet, which begins with ``data``, may say how its picture is to be
    turned (the SEI message "display orientation")."""
    length_bytes, _ = _avc_configuration(extradata)
    for kind, unit in _nal_units(data, length_bytes):
        if _SLICE <= kind <= _IDR:
            return False
        if kind == _SEI and _ORIENTATION in _messages(unit):
            return True
    return True  # there is more than these bytes


def _messages(sei: bytes) -> set[int]:
    """The kinds of messages in a SEI unit; all that are asked for, if it is not as it should be."""
    data, kinds, at = sei.replace(b"\0\0\3", b"\0\0"), set(), 1
    while at < len(data) - 1 or data[at : at + 1] not in (b"\x80", b""):
        numbers = []
        for _ in range(2):  # kind, length
            number = 0
            while data[at : at + 1] == b"\xff":
                number, at = number + 255, at + 1
            number += int.from_bytes(data[at : at + 1], "big")
            numbers.append(number)
            at += 1
        kinds.add(numbers[0])
        at += numbers[1]
        if at > len(data):
            return {_ORIENTATION}
    return kinds


def _avc_configuration(extradata: bytes) -> tuple[int, list[tuple[int, bytes]]]:
    """How many bytes the length before a NAL unit has (0: start codes), and the units in it."""
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
    """Type and bytes of each NAL unit in ``data``."""
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


class _Sequence(NamedTuple):
    """A sequence parameter set. ``frames_only``: all pictures are frames, without gaps between
    them. ``tells_order``: it says how far they are reordered. Both are False if it is cut off."""

    profile: int = 0
    frames_only: bool = False
    tells_order: bool = False


@lru_cache(256)  # encoders write the same one into all their files
def _sequence(sps: bytes) -> _Sequence:
    bits = Bits(sps[:_MAX_SPS_BYTES].replace(b"\0\0\3", b"\0\0"))
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
            cycle = bits.golomb()
            if cycle > _MAX_CYCLE:
                return _Sequence()
            for _ in range(cycle):
                bits.golomb()
        bits.golomb()
        gaps = bits.take(1)
        bits.golomb(), bits.golomb()
        frames_only = not gaps and bool(bits.take(1))
        tells_order = order_type == 2 or (frames_only and _is_restricted(bits))
    except EOFError:
        return _Sequence()
    return _Sequence(profile, frames_only, tells_order)


def _is_restricted(bits: Bits) -> bool:
    """Whether the rest of a set has restrictions of the bitstream at its end."""
    with suppress(EOFError):
        bits.take(1)
        if bits.take(1):  # cropping
            bits.golomb(), bits.golomb(), bits.golomb(), bits.golomb()
        if not bits.take(1):  # usability information
            return False
        if bits.take(1) and bits.take(8) == 255:  # aspect ratio
            bits.take(32)
        if bits.take(1):  # overscan
            bits.take(1)
        if bits.take(1):  # signal
            bits.take(4)
            if bits.take(1):  # colours
                bits.take(24)
        if bits.take(1):  # place of chroma
            bits.golomb(), bits.golomb()
        if bits.take(1):  # timing
            bits.take(65)
        models = 0
        for _ in range(2):
            if bits.take(1):
                models += 1
                _skip_decoder_model(bits)
        bits.take(2 if models else 1)
        return bool(bits.take(1))
    return False


def _skip_decoder_model(bits: Bits) -> None:
    """Skip the parameters of a hypothetical reference decoder."""
    count = bits.golomb() + 1
    if count > _MAX_BUFFERS:
        raise EOFError
    bits.take(8)
    for _ in range(count):
        bits.golomb(), bits.golomb()
        bits.take(1)
    bits.take(20)


def _skip_scaling_list(bits: Bits, length: int) -> None:
    last = following = 8
    for _ in range(length):
        if following:
            code = bits.golomb()
            following = (last + (code + 1) // 2 * (1 if code % 2 else -1)) % 256
        last = following or last
