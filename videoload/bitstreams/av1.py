"""Prove the frames of an AV1 video from its headers. Pure.

A packet consists of units (OBUs), each with its kind and its length. A flag marks shown frames; a
hidden frame may be shown later by a header that contains only its number. A sequence header
precedes each keyframe at which a decoder may begin. A keyframe that is shown at once replaces all
references, so decoding can begin there.

**The order hint is the presentation order.** It increases by one between shown frames; otherwise, a
packet is missing, and a decoder may reject any number of later packets. A frame that is shown later
has the hint of the slot that stored it, so this module tracks the slots as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from videoload.bitstreams.pictures import (
    INTER,
    INTRA,
    NONE,
    Bits,
    Packets,
    Pictures,
    by_types,
    only,
)

_SEQUENCE, _HEADER, _FRAME = 1, 3, 6
_OTHERS = (2, 4, 5, 15)  # delimiters, tiles, metadata, padding
_KEY, _INTRA, _SWITCH = 0, 2, 3  # types of frames
_ALL_SLOTS = 0xFF
_CHOSEN_BY_FRAMES = 2  # what a sequence may leave to its frames
_HIGHEST_WITHOUT_TIER = 7
_FRAME_BYTES = 16  # the part of a frame's header that is read is not longer


def prove_av1(packets: Packets) -> Pictures | None:
    """Return the frames if each packet shows at most one, with no layers and one sequence
    header."""
    units = []
    for i in range(len(packets.sizes)):
        data = packets.whole(i)
        try:
            found = [] if data is None else list(_units(data))
        except (EOFError, IndexError):
            return None
        if not found:
            return None
        units.append(found)
    header = only({unit for found in units for kind, unit in found if kind == _SEQUENCE})
    sequence = None if header is None else _sequence(header)
    if sequence is None or sequence.size != packets.size:
        return None
    try:
        types, non_reference = _types(units, sequence)
    except EOFError:
        return None
    pictures = by_types(np.array(types))
    return None if pictures is None else pictures.with_non_reference(np.array(non_reference))


def _types(
    units: list[list[tuple[int, bytes]]], sequence: _Sequence
) -> tuple[list[int], list[int]]:
    """Return the picture type of each packet, and which packets contain only a frame that no slot
    stores. Raises EOFError if in doubt."""
    types, non_reference = [], []
    slots = [_Frame(is_shown=False)] * 8  # the frame in each of them
    due = -1  # the hint of the next frame that is shown
    for packet in units:
        kinds = [kind for kind, _ in packet if kind in (_SEQUENCE, _HEADER, _FRAME)]
        headers = [_frame(unit, sequence) for kind, unit in packet if kind in (_HEADER, _FRAME)]
        if not headers:
            raise EOFError
        shown: list[int] = []
        for header in headers:
            frame, replaced = header, header.replaced
            if header.slot is not None:
                frame = slots[header.slot]
                replaced = _ALL_SLOTS if frame.is_key else 0
            slots = [frame if replaced >> i & 1 else slot for i, slot in enumerate(slots)]
            if header.is_shown:
                shown.append(frame.hint)
        is_start = kinds[:1] == [_SEQUENCE] and headers[0].is_key and headers[0].is_shown
        if len(shown) > 1:
            raise EOFError
        if shown:
            if not is_start and shown[0] != due % (1 << sequence.hint_bits):
                raise EOFError
            due = shown[0] + (sequence.hint_bits > 0)
        types.append((INTRA if is_start else INTER) if shown else NONE)
        alone = headers[0] if len(headers) == 1 else None
        non_reference.append(int(alone is not None and alone.slot is None and not alone.replaced))
    return types, non_reference


def _units(packet: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield kind and offset of each unit. Raises EOFError for unknown units, IndexError if one is
    truncated."""
    at = 0
    while at < len(packet):
        header = packet[at]
        kind, has_layer, has_length = header >> 3, header >> 2 & 1, header >> 1 & 1
        if has_layer or kind not in (_SEQUENCE, _HEADER, _FRAME, *_OTHERS):
            raise EOFError
        at += 1
        length, shift = 0, 0
        while has_length:
            length |= (packet[at] & 127) << shift
            has_length, at, shift = packet[at] >> 7, at + 1, shift + 7
        end = at + length if header >> 1 & 1 else len(packet)
        if end > len(packet):
            raise EOFError
        yield kind, packet[at : end if kind == _SEQUENCE else min(end, at + _FRAME_BYTES)]
        at = end


class _Frame(NamedTuple):
    """A frame header: whether it is shown; the ``slot`` of an existing frame that it shows; its
    order hint; the slots that store it, one bit each."""

    is_shown: bool
    slot: int | None = None
    hint: int = 0
    replaced: int = 0
    is_key: bool = False


def _frame(unit: bytes, sequence: _Sequence) -> _Frame:
    """Return the header of a frame. Raises EOFError."""
    bits = Bits(unit)
    if bits.take(1):
        return _Frame(is_shown=True, slot=bits.take(3))
    kind, is_shown = bits.take(2), bool(bits.take(1))
    if not is_shown:
        bits.take(1)  # whether it may be shown later
    is_shown_key = is_shown and kind == _KEY
    is_resilient = bool(is_shown_key or kind == _SWITCH or bits.take(1))
    bits.take(1)
    is_screen = sequence.screen
    if is_screen == _CHOSEN_BY_FRAMES:
        is_screen = bits.take(1)
    if is_screen and sequence.whole_motion == _CHOSEN_BY_FRAMES:
        bits.take(1)
    bits.take(sequence.number_bits)
    if kind != _SWITCH:
        bits.take(1)  # another size
    hint = bits.take(sequence.hint_bits)
    if kind not in (_KEY, _INTRA) and not is_resilient:
        bits.take(3)
    replaced = _ALL_SLOTS if is_shown_key or kind == _SWITCH else bits.take(8)
    return _Frame(is_shown, None, hint, replaced, kind == _KEY)


class _Sequence(NamedTuple):
    """A sequence header. ``size``: width, height. ``screen``, ``whole_motion``: whether frames have
    tools for screens, and motion in whole pixels. ``number_bits``, ``hint_bits``: of a frame's
    number and of its order hint."""

    size: tuple[int, int]
    number_bits: int
    screen: int
    whole_motion: int
    hint_bits: int


@lru_cache(256)  # encoders write the same one into all their files
def _sequence(header: bytes) -> _Sequence | None:
    """Return a sequence header, if the video has one layer and no model of a decoder."""
    bits = Bits(header)
    try:
        bits.take(4)  # profile, still picture
        if bits.take(1):  # a short header
            return None
        if bits.take(1):  # timing
            bits.take(64)
            if bits.take(1):
                bits.golomb()
            if bits.take(1):
                return None
        has_delay = bits.take(1)
        for point in range(bits.take(5) + 1):  # which layers, at which level
            if bits.take(12) and not point:
                return None
            if bits.take(5) > _HIGHEST_WITHOUT_TIER:
                bits.take(1)
            if has_delay and bits.take(1):
                bits.take(4)
        width_bits, height_bits = bits.take(4) + 1, bits.take(4) + 1
        size = bits.take(width_bits) + 1, bits.take(height_bits) + 1
        number_bits = 0
        if bits.take(1):
            number_bits = bits.take(4) + 2
            number_bits += bits.take(3) + 1
        bits.take(7)  # tools
        has_hints = bits.take(1)
        if has_hints:
            bits.take(2)
        screen = _CHOSEN_BY_FRAMES if bits.take(1) else bits.take(1)
        whole_motion = _CHOSEN_BY_FRAMES
        if screen and not bits.take(1):
            whole_motion = bits.take(1)
        hint_bits = bits.take(3) + 1 if has_hints else 0
        return _Sequence(size, number_bits, screen, whole_motion, hint_bits)
    except EOFError:
        return None
