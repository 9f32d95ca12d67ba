"""What a worker process tells the process that started it, in memory that both map.

    byte 0      turns of its loop, modulo 255, from 1 on; 0 before the first turn
    byte 1      packets that it has decoded, modulo 256
    byte 2      what it is at, an `Activity`
    bytes 8..   counts since its start, one float64 each, in the order of `COUNTED`
    8 more      the lease that it works on, 0 between two leases. If it dies, an answer that it sent
                just before may be lost, and then only this tells what it died over
    last 8      how many seconds it may make no progress at that lease, float64; 0 between two

Only the worker writes. A reader may see a count that is a moment old, but never half of one: each
is one aligned word.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from videoload.activity import Activity

COUNTED = ("clips", "failures", "decode_seconds", "trainers", "refused")
_BEGIN = 8
_LEASE = _BEGIN + 8 * len(COUNTED)
_STALL = _LEASE + 8
SIZE = _STALL + 8


class Counters:
    """The counts in ``memory``, uint8 [SIZE], or in memory that nobody else reads."""

    def __init__(self, memory: npt.NDArray[np.uint8] | None = None) -> None:
        memory = np.zeros(SIZE, np.uint8) if memory is None else memory
        self.pulse, self.at = memory[:2], memory[2:3]
        self._counts = memory[_BEGIN:_LEASE].view(np.float64)
        self._lease = memory[_LEASE:_STALL].view(np.int64)
        self._stall = memory[_STALL:SIZE].view(np.float64)

    @property
    def progress(self) -> bytes | None:
        """Changes with each turn, and with each packet at a lease; None before the first turn:
        imports may take long where the disk is slow."""
        return self.pulse.tobytes() if self.pulse[0] else None

    @property
    def activity(self) -> Activity:
        """What the worker is at."""
        return Activity(int(self.at[0]))

    @property
    def lease(self) -> int:
        """The lease that the worker works on, 0 if none."""
        return int(self._lease[0])

    @lease.setter
    def lease(self, number: int) -> None:
        self._lease[0] = number

    @property
    def stall_s(self) -> float:
        """How long the worker may make no progress at its lease, 0 if it has none."""
        return float(self._stall[0])

    @stall_s.setter
    def stall_s(self, seconds: float) -> None:
        self._stall[0] = seconds

    def add(self, name: str, value: float) -> None:
        self._counts[COUNTED.index(name)] += value

    def set(self, name: str, value: float) -> None:
        self._counts[COUNTED.index(name)] = value

    def read(self) -> dict[str, float]:
        return dict(zip(COUNTED, self._counts.tolist(), strict=True))
