"""What the headers of AV1 frames prove. Pure.

A packet consists of units (OBUs), each with its kind and its length. Frames say whether they are
shown; one that was hidden may be shown later by a header that is nothing but its number. A sequence
header stands before each key frame at which a decoder may begin.

A key frame that is shown at once replaces all that a decoder holds, so decoding can begin there.
"""

from __future__ import annotations

from collections.abc import Iterator

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
_HIGHEST_WITHOUT_TIER = 7
# The first four bits of a frame: it shows another one (1), its type (2), whether it is shown (1).
_SHOWS_ANOTHER, _IS_SHOWN, _SHOWN_KEY = 0b1000, 0b0001, 0b0001


def prove_av1(packets: Packets) -> Pictures | None:
    """Each packet shows one frame or none, if there are no layers and one sequence header."""
    types = []
    sequences: set[bytes] = set()
    for i in range(len(packets.sizes)):
        data = packets.whole(i)
        try:
            units = [] if data is None else list(_units(data))
        except (EOFError, IndexError):
            return None
        sequences |= {unit for kind, unit in units if kind == _SEQUENCE}
        frames = [unit[0] >> 4 for kind, unit in units if kind in (_HEADER, _FRAME)]
        shown = [frame for frame in frames if frame & (_SHOWS_ANOTHER | _IS_SHOWN)]
        if not units or len(shown) > 1:
            return None
        kinds = [kind for kind, _ in units if kind in (_SEQUENCE, _HEADER, _FRAME)]
        is_start = frames[:1] == [_SHOWN_KEY] and kinds[0] == _SEQUENCE
        types.append((INTRA if is_start else INTER) if shown else NONE)
    sequence = only(sequences)
    if sequence is None or _size(sequence) != packets.size:
        return None
    return by_types(np.array(types))


def _units(packet: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and content of each unit. Raises EOFError if there are other units than are understood,
    IndexError if one is cut off."""
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
        if end > len(packet) or (at == end and kind in (_HEADER, _FRAME)):
            raise EOFError
        yield kind, packet[at:end]
        at = end


def _size(sequence: bytes) -> tuple[int, int] | None:
    """Width and height that a sequence header tells, if the video has one layer."""
    bits = Bits(sequence)
    try:
        bits.take(4)  # profile, still picture
        if bits.take(1):  # a short header
            return None
        delay_bits = 0
        if bits.take(1):  # timing
            bits.take(64)
            if bits.take(1):
                bits.golomb()
            if bits.take(1):  # decoder model
                delay_bits = bits.take(5) + 1
                bits.take(42)
        has_delay = bits.take(1)
        for point in range(bits.take(5) + 1):  # which layers, at which level
            if bits.take(12) and not point:
                return None
            if bits.take(5) > _HIGHEST_WITHOUT_TIER:
                bits.take(1)
            if delay_bits and bits.take(1):
                bits.take(2 * delay_bits + 1)
            if has_delay and bits.take(1):
                bits.take(4)
        width_bits, height_bits = bits.take(4) + 1, bits.take(4) + 1
        return bits.take(width_bits) + 1, bits.take(height_bits) + 1
    except EOFError:
        return None
