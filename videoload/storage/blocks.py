"""A file in blocks of one size: which are in memory, and how to request the others. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

BLOCK_BYTES = 32 << 10  # a gap between two needed blocks costs less than another request
_REQUEST_BLOCKS = 32  # 1 MB: more are fetched by several requests at once


class Blocks:
    """Blocks of a file of ``size`` bytes. If there are too many, the oldest go."""

    def __init__(self, size: int, max_bytes: int) -> None:
        self.size, self.max_bytes = size, max_bytes
        self.bytes = 0
        self._blocks: dict[int, memoryview] = {}  # by their numbers, the oldest first

    def __contains__(self, number: int) -> bool:
        return number in self._blocks

    def add(self, at: int, data: memoryview) -> None:
        """Store the whole blocks in ``data``, which begins ``at`` the beginning of a block."""
        for begin in range(0, len(data), BLOCK_BYTES):
            block, number = data[begin : begin + BLOCK_BYTES], (at + begin) // BLOCK_BYTES
            is_whole = len(block) == min(BLOCK_BYTES, self.size - at - begin)
            if is_whole and number not in self._blocks:
                self._blocks[number] = block
                self.bytes += len(block)
        while self.bytes > self.max_bytes and len(self._blocks) > 1:
            self.bytes -= len(self._blocks.pop(next(iter(self._blocks))))

    def read(self, at: int, length: int) -> memoryview | None:
        """Return the bytes from ``at`` on, at most ``length`` and to the end of a block; None if
        they are not here."""
        block = self._blocks.get(at // BLOCK_BYTES)
        within = at % BLOCK_BYTES
        return None if block is None else block[within : within + length]

    def clear(self) -> None:
        """Drop all blocks."""
        self._blocks.clear()
        self.bytes = 0


def numbers_of(ranges: Iterable[tuple[int, int]], size: int) -> set[int]:
    """Return the blocks that hold these bytes [begin, end) of a file, and single blocks between
    them."""
    found = {
        number
        for begin, end in ranges
        if begin < min(end, size)
        for number in range(max(0, begin) // BLOCK_BYTES, -(-min(end, size) // BLOCK_BYTES))
    }
    return found | {number + 1 for number in found if number + 2 in found}


def requests(numbers: Collection[int]) -> list[range]:
    """Return the blocks of each request."""
    return [
        range(first, min(run.stop, first + _REQUEST_BLOCKS))
        for run in runs(sorted(numbers))
        for first in range(run.start, run.stop, _REQUEST_BLOCKS)
    ]


def runs(numbers: Iterable[int]) -> list[range]:
    """Yield the runs of consecutive numbers among increasing ones."""
    found: list[range] = []
    for number in numbers:
        if found and number == found[-1].stop:
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return found
