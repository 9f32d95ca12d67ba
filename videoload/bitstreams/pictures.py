"""Coded packets, and what their picture types prove. Pure.

B-pictures are shown before the reference picture that they follow in the file; those that follow
the first reference picture of a file are not shown, since a decoder has nothing to make them of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

HEAD_BYTES = 72  # of a packet, enough for a picture header, and mostly for what stands before it
DATA_BYTES = 8192  # of a packet, enough for what stands before its picture


class Packets(NamedTuple):
    """The coded packets of a video, in the order of the file.

    ``sizes`` int64 [n] in bytes; ``heads()`` uint8 [n, HEAD_BYTES], zeros where a packet is
    shorter; ``data(i, n)`` the first n bytes of packet i, DATA_BYTES at most; ``whole(i)`` all of
    it, or None where that would take reading too much.
    """

    codec: str
    extradata: bytes
    size: tuple[int, int]  # width, height, as the container tells them
    has_b_frames: bool
    sizes: Ints
    heads: Callable[[], Bytes]
    data: Callable[[int, int], bytes]
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


class KeyFrame(NamedTuple):
    """Where decoding can start: the frame that comes out first, the number, dts and position (-1:
    it cannot be sought) of its packet."""

    ordinal: int
    packet: int
    time: int
    position: int


# Picture types, as codes: a reference picture that needs none, one that needs some, one that is no
# reference, and a packet that gives no frame.
INTRA, INTER, B, NONE = range(4)


def by_types(types: Ints) -> Pictures | None:
    """Pictures of these types, one for each packet, in the order of decoding."""
    if types[0] != INTRA:
        return None
    starts = (types == INTRA).nonzero()[0]
    if types.max() <= INTER:
        return Pictures(len(types), starts)
    ordinals = [-1] * len(types)
    shown = references = 0
    held = -1  # the last reference picture: shown when the next one comes
    for i, kind in enumerate(types.tolist()):
        if kind == B and references > 1:
            ordinals[i] = shown
            shown += 1
        elif kind <= INTER:
            if held >= 0:
                ordinals[held] = shown
                shown += 1
            held = i
            references += 1
    ordinals[held] = shown
    return Pictures(shown + 1, starts, np.array(ordinals))


def are_settings_known(found: Mapping[int, object], told: object, starts: Iterable[int]) -> bool:
    """Whether a decoder knows the same settings of a codec wherever it begins: those that are
    ``found`` in packets are all the same, and each start has them, or the container ``told`` them.
    """
    settings = set(found.values())
    return not settings or (
        len(settings) == 1 and (told in settings or all(start in found for start in starts))
    )


class Bits:
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
        """An Exp-Golomb code, unsigned, of at most 65 bits."""
        zeros = 0
        while not self.take(1):
            zeros += 1
            if zeros > 32:
                raise EOFError
        return (1 << zeros) - 1 + self.take(zeros)
