"""Which bytes of a file are at hand, and which are to be fetched. Pure."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from typing import NamedTuple

_MERGE_BYTES = 32 << 10  # a gap between two ranges that costs less than a request of its own
_PART_BYTES = 1 << 20  # of one request: longer ranges are asked for in parts, side by side


class Range(NamedTuple):
    """The bytes [begin, end)."""

    begin: int
    end: int


class Spans:
    """Bytes of a file, in pieces that do not overlap; the oldest go where they are too many."""

    def __init__(self, max_bytes: int) -> None:
        self.bytes = 0
        self._max = max_bytes
        self._begins: list[int] = []
        self._pieces: dict[int, memoryview] = {}  # by where they begin, the oldest first

    def add(self, at: int, data: bytes | memoryview) -> None:
        """Keep the bytes that begin ``at``, as far as they are not here yet."""
        data = memoryview(data)
        for begin, end in self.missing(at, at + len(data)):
            piece = data[begin - at : end - at]
            # A view has all of the data stay in memory.
            self._pieces[begin] = piece if 2 * len(piece) > len(data) else memoryview(bytes(piece))
            insort(self._begins, begin)
            self.bytes += end - begin
        while self.bytes > self._max and len(self._pieces) > 1:
            oldest = next(iter(self._pieces))
            self.bytes -= len(self._pieces.pop(oldest))
            self._begins.remove(oldest)

    def read(self, at: int, length: int) -> memoryview:
        """The bytes from ``at`` on, no more than ``length``, as far as they are in one piece; none
        if the first one is not here."""
        i = bisect_right(self._begins, at) - 1
        if i < 0:
            return memoryview(b"")
        begin = self._begins[i]
        return self._pieces[begin][at - begin : at - begin + length]

    def join(self) -> bytes:
        """All bytes that are here, in their order."""
        return b"".join(self._pieces[begin] for begin in self._begins)

    def missing(self, begin: int, end: int) -> list[Range]:
        """What is not here of a range."""
        found = []
        at = begin
        i = max(0, bisect_right(self._begins, begin) - 1)
        for piece in self._begins[i:]:
            if piece >= end or at >= end:
                break
            if piece > at:
                found.append(Range(at, piece))
            at = max(at, piece + len(self._pieces[piece]))
        return [*found, Range(at, end)] if at < end else found

    def clear(self) -> None:
        """Keep none."""
        self._begins.clear()
        self._pieces.clear()
        self.bytes = 0


def requests(ranges: Iterable[Range]) -> list[Range]:
    """The same bytes, and a few in between, in as many requests as are best."""
    merged: list[Range] = []
    for wanted in sorted(ranges):
        if merged and wanted.begin <= merged[-1].end + _MERGE_BYTES:
            merged[-1] = Range(merged[-1].begin, max(merged[-1].end, wanted.end))
        elif wanted.begin < wanted.end:
            merged.append(wanted)
    return [
        Range(at, min(end, at + _PART_BYTES))
        for begin, end in merged
        for at in range(begin, end, _PART_BYTES)
    ]


def without(wanted: Range, coming: Iterable[Range]) -> list[Range]:
    """What of a range is not on its way."""
    left = [wanted]
    for begin, end in coming:
        left = [
            part
            for old in left
            for part in (Range(old.begin, min(old.end, begin)), Range(max(old.begin, end), old.end))
            if part.begin < part.end
        ]
    return left
