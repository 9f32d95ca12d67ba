"""Prove the frames of a VP9 video from its headers. Pure.

A packet has one coded frame, or several and an index of their sizes at its end (a superframe). A
flag marks shown frames. An encoder hides a reference frame in the packet of the next shown frame,
and may show it later by a frame that contains only its number. A keyframe that is shown replaces
all references, so decoding can begin there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from videoload.bitstreams.pictures import INTER, INTRA, NONE, Bits, Packets, Pictures, by_types

_HEADER_BYTES = 16  # of a keyframe, up to its size
_RGB = 7


def prove_vp9(packets: Packets) -> Pictures | None:
    """Return the frames if each packet shows at most one."""
    types = []
    for i in range(len(packets.sizes)):
        data = packets.whole(i)
        frames = [] if data is None else [_frame(each) for each in _frames(data)]
        shown = [frame for frame in frames if frame is not None and frame.is_shown]
        if not frames or None in frames or len(shown) > 1:
            return None
        is_start = shown == frames[:1] and shown[0].is_key
        types.append((INTRA if is_start else INTER) if shown else NONE)
    first = packets.data(0, _HEADER_BYTES)
    if types[0] != INTRA or _size(first) != packets.size:
        return None
    return by_types(np.array(types))


class _Frame(NamedTuple):
    is_shown: bool
    is_key: bool


def _frame(data: bytes) -> _Frame | None:
    """Return the header of a coded frame, if it is one."""
    bits = int.from_bytes(data[:2].ljust(2, b"\0"), "big")
    if bits >> 14 != 2:
        return None
    at = 10 if bits >> 12 & 3 == 3 else 11  # behind the profile
    if bits >> at & 1:
        return _Frame(is_shown=True, is_key=False)
    return _Frame(is_shown=bool(bits >> at - 2 & 1), is_key=not bits >> at - 1 & 1)


def _size(key: bytes) -> tuple[int, int]:
    """Return width and height of a keyframe."""
    bits = Bits(key.ljust(_HEADER_BYTES, b"\0"))
    bits.take(2)
    profile = bits.take(1) | bits.take(1) << 1
    bits.take(1 if profile == 3 else 0)
    bits.take(4 + 24)  # what `_frame` reads, and a code for synchronization
    bits.take(1 if profile >= 2 else 0)  # depth
    if bits.take(3) != _RGB:
        bits.take(4 if profile & 1 else 1)  # range, kind of chroma
    else:
        bits.take(1 if profile & 1 else 0)
    return bits.take(16) + 1, bits.take(16) + 1


def _frames(packet: bytes) -> list[bytes]:
    """Return the coded frames of a packet; none if its index is wrong."""
    last = packet[-1]
    count, size_bytes = (last & 7) + 1, (last >> 3 & 3) + 1
    begins = len(packet) - 2 - count * size_bytes
    if last >> 5 != 0b110 or begins < 0 or packet[begins] != last:
        return [packet]
    frames, at = [], 0
    for i in range(begins + 1, begins + 1 + count * size_bytes, size_bytes):
        end = at + int.from_bytes(packet[i : i + size_bytes], "little")
        if not at < end <= begins:
            return []
        frames.append(packet[at:end])
        at = end
    return frames
