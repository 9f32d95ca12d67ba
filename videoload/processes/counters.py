"""What a worker process tells whoever started it, without a message: memory that both map.

    byte 0      turns of its loop, modulo 255, from 1 on; 0 before the first
    byte 1      packets that it decoded, modulo 256
    bytes 8..   counts since it began, a float64 each, in the order of `COUNTED`
    last 8      the number of the lease that it is at, 0 between two: an answer that it sent right
                before it died may be lost, and then this alone tells what it died over

It alone writes. A reader may see a count that is a moment old, never half of one: each is one
aligned word.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

COUNTED = ("clips", "failures", "decode_seconds", "trainers")
_BEGIN = 8
_LEASE = _BEGIN + 8 * len(COUNTED)
SIZE = _LEASE + 8


class Counters:
    """The counts in ``memory``, uint8 [SIZE]; or in memory of its own, which nobody reads."""

    def __init__(self, memory: npt.NDArray[np.uint8] | None = None) -> None:
        memory = np.zeros(SIZE, np.uint8) if memory is None else memory
        self.pulse = memory[:2]
        self._counts = memory[_BEGIN:_LEASE].view(np.float64)
        self._lease = memory[_LEASE:SIZE].view(np.int64)

    @property
    def lease(self) -> int:
        """The lease that it is at; 0: none."""
        return int(self._lease[0])

    @lease.setter
    def lease(self, number: int) -> None:
        self._lease[0] = number

    def add(self, name: str, value: float) -> None:
        """Count so much more."""
        self._counts[COUNTED.index(name)] += value

    def set(self, name: str, value: float) -> None:
        """It is so many now."""
        self._counts[COUNTED.index(name)] = value

    def read(self) -> dict[str, float]:
        """All counts by name."""
        return dict(zip(COUNTED, self._counts.tolist(), strict=True))
