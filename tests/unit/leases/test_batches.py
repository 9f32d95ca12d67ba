"""Batches: the order in which they are opened and handed over, and which reader owns the slots."""

from __future__ import annotations

import numpy as np

from tests.support.desk import Desk, Given, given, grants, rest
from videoload.leases.commands import (
    Recall,
)

# What a consumer gets


def test_a_batch_is_handed_over_when_its_last_chunk_is_answered() -> None:
    desk = Desk("A", "b")
    first, second = grants(desk.start(steps=range(1)))
    assert desk.answer(second) == []
    assert desk.answer(first) == [Given(10, 0, 0)]
    ready = desk.ready[10, 0]
    assert ready.samples == tuple(desk.plans[0][0])
    assert np.array_equal(ready.frames, [(0, 0), (1, 0), (2, 0), (3, 0)])
    assert ready.frames.dtype == np.int64


def test_ordered_batches_wait_for_those_before_them() -> None:
    desk = Desk("A", "b", "c")
    leases = grants(desk.start(steps=range(3)))
    by_step = [[g for g in leases if g.slot == step] for step in range(3)]
    assert rest(desk.answer(*by_step[1])) == []
    assert rest(desk.answer(*by_step[2])) == []
    assert rest(desk.answer(*by_step[0])) == [Given(10, 0, 0), Given(10, 1, 1), Given(10, 2, 2)]


def test_unordered_batches_are_handed_over_at_once() -> None:
    desk = Desk("A", "b", "c", ordered=False)
    leases = grants(desk.start(steps=range(3)))
    by_step = [[g for g in leases if g.slot == step] for step in range(3)]
    assert rest(desk.answer(*by_step[1])) == [Given(10, 1, 1)]
    assert rest(desk.answer(*by_step[2])) == [Given(10, 2, 2)]
    assert rest(desk.answer(*by_step[0])) == [Given(10, 0, 0)]


# Several streams


def test_the_reader_that_waits_is_served_first() -> None:
    desk = Desk("A", credit=1)
    desk.stream(1)
    [lease] = grants(desk.start(10))
    assert desk.start(20, stream=1) == []
    commands = desk.answer(lease)  # reader 10 has its batch, reader 20 waits
    assert commands == [Given(10, 0, 0), desk.lease("A", 2, stream=1, slot=0, step=0)]
    desk.want(10)
    commands = desk.answer(*grants(commands))
    assert commands == [Given(20, 0, 0), desk.lease("A", 3, slot=1, step=1)]


def test_a_reader_that_waits_for_its_last_batch_is_served_first() -> None:
    desk = Desk("a", credit=1)
    desk.stream(1)
    [lease] = grants(desk.start(10, steps=range(2)))
    desk.answer(lease)
    desk.start(20, stream=1)
    [other] = grants(desk.join("b"))
    [other] = grants(desk.answer(other))
    assert desk.want(10) == desk.leave("a") == []  # b is busy
    assert grants(desk.answer(other)) == [desk.lease("b", 5, slot=1, step=1)]


def test_if_no_reader_waits_the_one_least_ahead_is_served_first() -> None:
    desk = Desk("A")
    desk.stream(1)
    leases = desk.decode_all(*desk.start(10), *desk.start(20, stream=1))
    assert [lease.stream for lease in leases] == [0, 0, 1, 1, *[0, 1] * 6]


def test_streams_have_slots_of_their_own() -> None:
    desk = Desk("A", credit=9, slots=2)
    desk.stream(1, slots=3)
    leases = [*grants(desk.start(10)), *grants(desk.start(20, stream=1))]
    assert [(g.stream, g.slot) for g in leases] == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
    desk.answer(*leases)
    assert {g.stream for g in grants(desk.slot_back(0, stream=1))} == {1}


def test_a_dropped_stream_is_forgotten() -> None:
    desk = Desk("A")
    desk.stream(1)
    [lease] = grants(desk.start(10, steps=range(1)))
    desk.start(11)  # waits for its turn
    desk.table.drop_stream(0)
    assert desk.seen() == []
    assert desk.is_void(lease)
    assert desk.start(20, stream=1) == [desk.lease("A", 2, stream=1, slot=0, step=0)]
    assert desk.answer(lease) == [desk.lease("A", 3, stream=1, slot=1, step=1)]
    assert desk.slot_back(3, stream=0) == desk.want(10) == desk.want(11) == desk.end(10) == []


# Several consumers of one stream


def test_the_reader_that_is_asked_last_gets_the_slots() -> None:
    desk = Desk("a", credit=3, slots=3)
    first = grants(desk.start(10, steps=range(5)))
    assert desk.answer(first[0]) == [Given(10, 0, 0)]
    assert desk.start(11, steps=range(50, 60)) == [
        Recall(10),
        desk.lease("a", 4, slot=2, step=50),
    ]
    assert all(map(desk.is_void, first))
    assert desk.recalled(10, Given(10, 0, 0)) == []  # a has three leases, two of them void
    assert [g.slot for g in grants(desk.answer(*first[1:]))] == [0, 1]


def test_a_reader_that_was_left_continues_where_its_consumer_was() -> None:
    desk = Desk("a", slots=3, credit=9)
    first = grants(desk.start(10, steps=range(9)))
    desk.answer(first[0], first[1], first[2])
    desk.start(11, steps=range(50, 51))
    # step 0 was consumed, 1 and 2 were not
    [other] = grants(desk.recalled(10, Given(10, 1, 1), Given(10, 2, 2)))
    assert desk.answer(other) == [Given(11, 50, other.slot)]
    desk.ready.clear()
    again = desk.want(10)
    assert again[0] == Recall(11)
    leases = desk.decode_all(
        *again, *desk.recalled(11), *desk.slot_back(0), *desk.slot_back(other.slot)
    )
    assert [g.samples[0].origin // 4 for g in leases] == [1, 2, 3]
    assert list(desk.ready) == [(10, 1), (10, 2), (10, 3)]


def test_an_unordered_reader_that_was_left_gets_the_rest_and_nothing_twice() -> None:
    desk = Desk("a", slots=3, credit=9, ordered=False)
    first = grants(desk.start(10, steps=range(6)))
    assert desk.answer(first[1]) == [Given(10, 1, 1)]
    assert desk.answer(first[2]) == [Given(10, 2, 2)]
    other = desk.start(11, steps=range(50, 51))
    assert other[0] == Recall(10)
    desk.recalled(10, Given(10, 2, 2))  # step 1 was consumed
    desk.decode_all(*other)
    del desk.ready[10, 2]
    leases = desk.decode_all(
        *desk.want(10), *desk.slot_back(1), *desk.slot_back(desk.ready[11, 50].slot)
    )
    assert [g.samples[0].origin // 4 for g in leases] == [0, 2, 3]


def test_a_reader_that_waits_gets_a_batch_before_another_takes_over() -> None:
    desk = Desk("a")
    first, _ = grants(desk.start(10))
    assert desk.start(11) == desk.want(11) == []
    assert rest(desk.answer(first)) == [Given(10, 0, 0)]
    assert desk.want(11)[0] == Recall(10)


def test_readers_that_wait_take_turns() -> None:
    desk = Desk("a")
    queue = grants(desk.start(10))
    desk.start(11)
    desk.start(12)
    turns = []
    for _ in range(40):
        commands = desk.answer(queue.pop(0))
        for batch in given(commands):
            turns.append(batch.reader)
            commands += desk.slot_back(batch.slot)
            commands += desk.want(batch.reader)
        commands += desk.wait(0.25, "a")
        for command in list(commands):
            if isinstance(command, Recall):
                commands += desk.recalled(command.reader)
        queue += grants(commands)
    assert set(turns[:3]) == set(turns[3:6]) == {10, 11, 12}


def test_a_reader_that_does_not_wait_gets_no_turn() -> None:
    desk = Desk("a", credit=9, slots=2)
    [first, _] = grants(desk.start(10))
    desk.answer(first)
    [other] = grants(desk.start(11))
    assert given(desk.answer(other)) == [Given(11, 0, other.slot)]
    assert desk.wait(5, "a") == []  # reader 10 does not wait


def test_a_complete_batch_that_waited_for_an_earlier_one_is_decoded_again() -> None:
    desk = Desk("a", credit=9, slots=4)
    first, _, third = grants(desk.start(10, steps=range(3)))
    assert desk.answer(third, first) == [Given(10, 0, 0)]
    desk.decode_all(*desk.start(11, steps=range(50, 51)))
    one, two = grants(desk.want(10))
    assert desk.answer(one) == [Given(10, 1, one.slot)]
    assert desk.answer(two) == [Given(10, 2, two.slot)]


def test_a_reader_that_waits_continues_when_another_ends() -> None:
    desk = Desk("a", slots=2)
    desk.start(10)
    desk.start(11)
    assert [g.samples[0].origin for g in grants(desk.end(10))] == []  # a is busy with void leases
    desk.leave("a")
    assert desk.join("b") == [
        desk.lease("b", 3, slot=1, step=0),
        desk.lease("b", 4, slot=0, step=1),
    ]


def test_a_reader_that_has_everything_takes_no_turn_from_others() -> None:
    desk = Desk("a", credit=1)
    [first] = grants(desk.start(10, steps=range(1)))
    desk.answer(first)
    [other] = grants(desk.start(11))
    assert desk.want(10) == []  # said before its last batch came
    assert rest(desk.answer(other)) == [Given(11, 0, other.slot)]
    assert desk.want(10) == []


def test_a_reader_that_has_ended_may_end_again() -> None:
    desk = Desk("A")
    desk.start()
    desk.end()
    assert desk.end() == desk.want() == []


def test_batches_that_were_not_taken_free_their_slots_when_the_reader_ends() -> None:
    desk = Desk("a", "b", slots=2, batch=2)
    leases = grants(desk.start(10))
    desk.answer(*leases[2:])  # step 1 is complete and waits for step 0
    desk.end(10)
    assert sorted(desk.table._streams[0].free) == [0, 1]
