"""Which answers count, who may write into a slot, and which reader owns the slots."""

import pytest

from tests.support.desk import Desk
from videoload.leases.commands import Recall

# Answers that count


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
