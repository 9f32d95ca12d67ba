"""A worker's counts can be read by every process that maps the same memory."""

from videoload.activity import Activity
from videoload.wire.slots import Arena
from videoload.worker.counters import COUNTED, SIZE, Counters


def test_counts_are_seen_through_the_same_memory() -> None:
    arena = Arena(1, SIZE)
    mine, theirs = (Counters.from_buffer(arena.view(0, 0, (SIZE,)).data) for _ in range(2))
    assert theirs.progress is None
    assert theirs.read() == dict.fromkeys(COUNTED, 0)
    mine.clips += 12
    mine.decode_seconds += 0.25
    mine.trainers, mine.at, mine.turns, mine.looks = 1, Activity.READING, 1, 1
    mine.lease, mine.stall_s = 1 << 40, 2.5
    arena.close()
    assert theirs.read() == {
        **dict.fromkeys(COUNTED, 0),
        "clips": 12,
        "decode_seconds": 0.25,
        "trainers": 1,
    }
    assert (theirs.lease, theirs.stall_s, theirs.activity) == (1 << 40, 2.5, Activity.READING)
    before = theirs.progress
    mine.packets += 1
    assert theirs.progress not in (None, before)


def test_a_byte_that_is_no_activity_ends_nobody_who_looks() -> None:
    arena = Arena(1, SIZE)
    counters = Counters.from_buffer(arena.view(0, 0, (SIZE,)).data)
    arena.close()
    counters.at, counters.turns, counters.looks = 99, 1, 1
    assert counters.activity is Activity.DECODING
    before = counters.progress
    counters.packets += 1
    assert counters.progress not in (None, before)
