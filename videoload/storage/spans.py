"""Which bytes of a file are in memory, and which are to be fetched. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

_MERGE_BYTES = 32 << 10  # a gap between two ranges that costs less than a request of its own
_PART_BYTES = 1 << 20  # of one request: longer ranges are asked for in parts, side by side


class Range(NamedTuple):
    """The bytes [begin, end)."""

    begin: int
    end: int


class Spans:
    """Bytes of a file, in pieces that do not overlap. If there are too many bytes, the oldest
    pieces go."""

    def __init__(self, max_bytes: int) -> None:
        self.bytes = 0
        self._max = max_bytes
        self._pieces: dict[int, memoryview] = {}  # by where they begin, the oldest first

    def add(self, at: int, data: bytes | memoryview) -> None:
        """Keep the bytes that begin ``at``, as far as they are not here yet."""
        data = memoryview(data)
        for begin, end in self.missing(Range(at, at + len(data))):
            piece = data[begin - at : end - at]
            # A view keeps all of the data in memory.
            self._pieces[begin] = piece if 2 * len(piece) > len(data) else memoryview(bytes(piece))
            self.bytes += end - begin
        while self.bytes > self._max and len(self._pieces) > 1:
            self.bytes -= len(self._pieces.pop(next(iter(self._pieces))))

    def read(self, at: int, length: int) -> memoryview:
        """The bytes from ``at`` on, at most ``length``, as far as they are in one piece; none if
        the first one is not here."""
        for begin, piece in self._pieces.items():
            if begin <= at < begin + len(piece):
                return piece[at - begin : at - begin + length]
        return memoryview(b"")

    def join(self) -> bytes:
        """All bytes that are here, in the order of the file."""
        return b"".join(piece for _, piece in sorted(self._pieces.items()))

    def missing(self, wanted: Range) -> list[Range]:
        """The parts of a range that are not here."""
        return without(wanted, (Range(at, at + len(here)) for at, here in self._pieces.items()))

    def clear(self) -> None:
        """Keep no bytes."""
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


def without(wanted: Range, others: Iterable[Range]) -> list[Range]:
    """The parts of a range that are in none of the others."""
    left = [wanted] if wanted.begin < wanted.end else []
    for begin, end in others:
        if begin < wanted.end and wanted.begin < end:
            cut = [
                part
                for old in left
                for part in (
                    Range(old.begin, min(old.end, begin)),
                    Range(max(old.begin, end), old.end),
                )
            ]
            left = [part for part in cut if part.begin < part.end]
    return left
