"""A worker's counts can be read by every process that maps the same memory."""

from __future__ import annotations

import numpy as np

from videoload.processes.counters import COUNTED, SIZE, Counters
from videoload.transport.slots import Arena


def test_counts_are_seen_through_the_same_memory() -> None:
    arena = Arena(1, SIZE)
    mine, theirs = (Counters(arena.view(0, 0, (SIZE,))) for _ in range(2))
    mine.add("clips", 8)
    mine.add("clips", 4)
    mine.add("decode_seconds", 0.25)
    mine.set("trainers", 2)
    mine.set("trainers", 1)
    mine.pulse[1] = 7
    mine.lease = 1 << 40
    mine.stall_s = 2.5
    arena.close()
    assert theirs.read() == {
        "clips": 12,
        "failures": 0,
        "decode_seconds": 0.25,
        "trainers": 1,
        "refused": 0,
    }
    assert theirs.pulse.tolist() == [0, 7]
    assert (theirs.lease, theirs.stall_s) == (1 << 40, 2.5)


def test_without_memory_it_counts_for_itself() -> None:
    counters = Counters()
    counters.add("failures", 1)
    assert counters.read()["failures"] == 1
    assert counters.pulse.dtype == np.uint8
    assert (counters.lease, counters.stall_s) == (0, 0)
    assert list(counters.read()) == list(COUNTED)
