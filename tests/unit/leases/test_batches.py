"""Which answers count, who may write into a slot, and which reader owns the slots."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.desk import Desk
from videoload.leases.commands import Recall

# Answers that count


def test_a_void_lease_counts_as_work_until_it_is_answered_and_blames_nothing() -> None:
    desk = Desk("a", credit=1, steps=1)
    desk.play("a silent=3; b joins+answers; a heard; done")
    assert desk.table.pool.taking == 2
    desk.start(11)
    assert desk.owes("a") == []
    desk.fail("a")
    assert desk.owes("a")
    assert desk.bad == []


# The fence


@pytest.mark.parametrize("ends", ["answers", "dies"])
def test_a_slot_is_not_reused_while_a_local_worker_may_still_write_into_it(ends: str) -> None:
    desk = Desk("A", slots=1, steps=9)
    desk.end()
    desk.start(11, steps=range(5, 9))
    desk.join("B")
    assert desk.owes("A") == desk.owes("B") == []
    desk.answer("A") if ends == "answers" else desk.die("A")
    assert (desk.granted[0].slot, desk.granted[0].samples[0].video) == (0, 20)


# What a consumer gets


@pytest.mark.parametrize("ordered", [True, False])
def test_a_batch_is_handed_over_when_its_last_clip_is_there_and_in_its_turn(ordered: bool) -> None:
    desk = Desk("A", "b", "c", steps=3, ordered=ordered)
    leases = desk.granted
    seen = []
    for step in (1, 2, 0):
        for lease in [lease for lease in leases if lease.slot == step]:
            assert step not in desk.steps()
            desk.answer_lease(lease)
        seen.append(desk.steps())
    assert seen == [[], [], [0, 1, 2]] if ordered else [[1], [1, 2], [1, 2, 0]]
    ready = desk.ready[10, 0]
    assert ready.samples == tuple(desk.streams[0].plan[0])
    assert np.array_equal(ready.frames, [(0, 0), (1, 0), (2, 0), (3, 0)])
    assert ready.frames.dtype == np.int64


# Several streams


def test_the_reader_that_waits_is_served_first_also_for_its_last_batch() -> None:
    desk = Desk("A", credit=1, steps=2)
    desk.stream(1)
    desk.start(20, stream=1)
    desk.answer("A")  # reader 10 has its batch, reader 20 waits
    assert [(lease.stream, lease.slot) for lease in desk.granted] == [(1, 0)]
    desk.want()
    desk.answer("A")
    assert [(lease.stream, lease.slot) for lease in desk.granted] == [(0, 1)]
    desk.leave("A")
    desk.join("B")
    assert [(lease.stream, lease.slot) for lease in desk.granted] == [(0, 1)]


def test_a_dropped_stream_is_forgotten() -> None:
    desk = Desk("A", steps=1)
    desk.stream(1)
    desk.start(11)  # waits for its turn
    desk.table.drop_stream(0)
    desk.start(20, stream=1)
    assert [(g.stream, desk.is_void(g)) for g in desk.granted] == [(0, True), (1, False)]
    assert (desk.table.file_of("A"), desk.table.file_of("z")) == ("", "")
    desk.answer("A")
    assert desk.table.file_of("A") == "0.avi", "the path, as the stream names it"
    desk.table.slot_back(0, 3)
    for reader in (10, 11):
        desk.want(reader)
        desk.end(reader)
    assert {lease.stream for lease in desk.granted} == {1}
    assert desk.said == []


# Several readers of one stream


def test_the_reader_that_is_asked_last_gets_the_slots() -> None:
    desk = Desk("a", credit=3, slots=3, steps=5)
    desk.answer("a")
    desk.start(11, steps=range(50, 60))
    assert desk.take(Recall) == [Recall(10)]
    assert desk.owes("a") == [[200, 201, 202, 203]], "two others are void"
    desk.recalled(0)
    assert len(desk.leases["a"]) == 3
    desk.answer("a", "a")
    assert sorted(lease.slot for lease in desk.granted) == [0, 1, 2]


def test_readers_that_wait_take_turns() -> None:
    desk = Desk("a", steps=99)
    desk.start(11)
    desk.start(12)
    turns: list[int] = []
    for _ in range(40):
        desk.answer("a")
        for reader, step in list(desk.ready):
            turns.append(reader)
            desk.slot_back(step, reader=reader)
            del desk.ready[reader, step]
            desk.want(reader)
        desk.wait(0.25, "a")
        for recall in desk.take(Recall):
            desk.recalled(reader=recall.reader)
    assert set(turns[:3]) == set(turns[3:6]) == {10, 11, 12}


def test_a_reader_that_does_not_wait_or_has_everything_takes_no_turn_from_others() -> None:
    desk = Desk("a", credit=9, slots=2, steps=1)
    desk.answer("a")
    desk.start(11)
    assert desk.take(Recall) == [Recall(10)]
    desk.want()  # said before its last batch came
    desk.answer("a")
    assert desk.steps(11) == [0]
    desk.want()
    desk.wait(5, "a")
    assert desk.take(Recall) == [], "reader 11 was the last to be asked"
