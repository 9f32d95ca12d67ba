"""Coded packets, and the frames that their picture types prove. Pure.

B-pictures are shown before the reference picture that they follow in the file. After the first
reference picture of a file they are not shown, because their other reference is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from heapq import heappush, heappushpop
from operator import lt
from typing import NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.integer]
Buffer = bytes | memoryview
T = TypeVar("T")

HEAD_BYTES = 72  # the first bytes of a packet mostly have the whole header of its picture
DATA_BYTES = 8192  # the first bytes of a packet have all that stands before its picture


class Packets(NamedTuple):
    """The coded packets of a video, in the order of the file.

    ``sizes``: int64 [n] in bytes. ``heads()``: uint8 [n, HEAD_BYTES], filled with zeros if a packet
    is shorter. ``data(i, n)``: the first n bytes of packet i, at most DATA_BYTES. ``whole(i)``: all
    of it, or None if that is too much to read.
    """

    codec: str
    extradata: bytes
    size: tuple[int, int]  # width, height, as the container has them
    sizes: Ints
    heads: Callable[[], Bytes]
    data: Callable[[int, int], bytes]
    whole: Callable[[int], bytes | None]


class Pictures(NamedTuple):
    """The proven frames. ``frames``: their number. ``starts``: the packets where decoding can
    begin, increasing; frames shown from there on need no earlier packet. ``ordinals``: the frame of
    each packet, -1 for none, int64 [packets]. None: packet i is frame i. ``non_reference``: the
    number of packets, from each one on, that must be skipped together, because their pictures share
    packets. Their pictures are not referenced, so skipping them does not change other frames. 0 for
    a packet that may not be skipped, int [packets]; None if none may. ``are_settings_given``:
    packets of MPEG-4 without B-VOPs have no settings but those of the container, so a decoder can
    continue with another such file.
    """

    frames: int
    starts: Ints
    ordinals: Ints | None = None
    non_reference: Ints | None = None
    are_settings_given: bool = False

    def with_non_reference(self, counts: Ints) -> Pictures:
        """Return the same, with these `non_reference` packets."""
        return self._replace(non_reference=compact(counts) if counts.any() else None)


class KeyFrame(NamedTuple):
    """A place where decoding can start: its first frame; the number, dts and position of its
    packet. A position of -1 means that the packet cannot be sought."""

    ordinal: int
    packet: int
    time: int
    position: int


# Types: a reference picture that needs no other, one that needs others, a picture that is no
# reference, and a packet that gives no frame.
INTRA, INTER, B, NONE = range(4)


_KINDS = [
    (kind, np.iinfo(kind).min, np.iinfo(kind).max)
    for kind in (np.uint16, np.int16, np.uint32, np.int32)
]


def compact(numbers: Ints) -> Ints:
    """Return the same numbers in as few bytes as each of them needs."""
    low, high = numbers.min(initial=0), numbers.max(initial=0)
    for kind, least, most in _KINDS:
        if least <= low and high <= most:
            return numbers.astype(kind)
    return numbers.astype(np.int64)


def by_types(types: Ints) -> Pictures | None:
    """Return the frames that these picture types prove, one type per packet, in decoding order."""
    if types[0] != INTRA:
        return None
    starts = (types == INTRA).nonzero()[0]
    if types.max() <= INTER:
        return Pictures(len(types), starts)
    ordinals = [-1] * len(types)
    shown = references = 0
    held = -1  # the last reference picture: shown when the next one follows
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


def is_shown_in_order(counts: Sequence[tuple[int, int]], held: int) -> bool:
    """Return whether a decoder shows each picture once and in the order of ``counts`` if it holds
    back so many, and otherwise shows the lowest one of them and the next."""
    waiting: list[tuple[int, int]] = []
    shown = []
    for count in counts:
        if len(waiting) < held:
            heappush(waiting, count)
        else:
            shown.append(heappushpop(waiting, count))
    shown += sorted(waiting)
    return all(map(lt, shown, shown[1:]))


def by_counts(counts: Sequence[tuple[int, int]], starts: Ints) -> Pictures | None:
    """Return the frames of pictures shown in the order of ``counts``, if each of the ``starts`` is
    shown before all pictures that follow it in the file, and after all earlier ones."""
    each = np.arange(len(counts))
    order = sorted(each.tolist(), key=counts.__getitem__)
    ordinals = np.empty_like(each)
    ordinals[order] = each
    if (ordinals[starts] != starts).any():
        return None
    return Pictures(len(each), starts, None if np.array_equal(order, each) else ordinals)


def only(values: Set[T]) -> T | None:
    """Return the value, if there is one and no other."""
    return next(iter(values)) if len(values) == 1 else None


def are_settings_known(found: Mapping[int, object], given: object, starts: Iterable[int]) -> bool:
    """Return whether a decoder knows the same settings of a codec wherever it begins. The settings
    ``found`` in packets must all be the same, and each start must have them, unless those that are
    ``given`` by the container are the same."""
    settings = set(found.values())
    return not settings or (
        len(settings) == 1 and (given in settings or all(start in found for start in starts))
    )


class Bits:
    """Reads bits from the most significant one on. Raises EOFError after the last."""

    def __init__(self, data: bytes) -> None:
        self._value = int.from_bytes(data, "big")
        self._left = 8 * len(data)

    @classmethod
    def until_stop(cls, data: bytes) -> Self:
        """Return the bits before the last 1, which only marks their end."""
        bits = cls(data)
        after = (bits._value & -bits._value).bit_length()
        bits._value >>= after
        bits._left -= after
        return bits

    def take(self, count: int) -> int:
        """Return the next ``count`` bits as a number."""
        self._left -= count
        if self._left < 0:
            raise EOFError
        return self._value >> self._left & (1 << count) - 1

    def rest(self) -> str:
        """Return all remaining bits, as text."""
        return f"{self._value & (1 << self._left) - 1:0{self._left}b}" if self._left else ""

    def golomb(self) -> int:
        """Return an Exp-Golomb code, unsigned, of at most 65 bits."""
        rest = self._value & (1 << self._left) - 1
        zeros = self._left - rest.bit_length()
        self._left -= 2 * zeros + 1
        if zeros > 32 or self._left < 0:
            raise EOFError
        return (rest >> self._left) - 1

    def signed_golomb(self) -> int:
        """Return an Exp-Golomb code, signed."""
        code = self.golomb()
        return (code + 1) // 2 * (1 if code % 2 else -1)
