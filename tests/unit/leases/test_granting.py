"""Which worker is granted which lease, and how large."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from types import FrameType

import pytest

from tests.support.desk import HALF, OTHER_HALF, Desk, Given, grants

# Who gets what


def test_nothing_is_granted_before_a_reader_starts() -> None:
    assert Desk().join("A", "b") == []


def test_nothing_is_granted_without_a_worker() -> None:
    assert Desk().start() == []


def test_a_worker_gets_two_leases_one_to_work_on_and_one_to_wait() -> None:
    desk = Desk("A")
    assert desk.start() == [
        desk.lease("A", 1, slot=0, step=0),
        desk.lease("A", 2, slot=1, step=1),
    ]


def test_a_worker_that_joins_later_gets_leases_at_once() -> None:
    desk = Desk()
    desk.start()
    assert desk.join("a") == [
        desk.lease("a", 1, slot=0, step=0),
        desk.lease("a", 2, slot=1, step=1),
    ]


def test_idle_workers_get_one_lease_each_before_any_gets_a_second() -> None:
    desk = Desk("A", "b")
    assert desk.start() == [
        desk.lease("A", 1, slot=0, step=0, rows=HALF),
        desk.lease("b", 2, slot=0, step=0, rows=OTHER_HALF),
        desk.lease("A", 3, slot=1, step=1, rows=HALF),
        desk.lease("b", 4, slot=1, step=1, rows=OTHER_HALF),
    ]


def test_of_idle_workers_the_one_that_has_waited_longest_is_first() -> None:
    desk = Desk("A", "b", "c", credit=1, batch=1)
    first, second, third = grants(desk.start(steps=range(3)))
    desk.answer(second, third, first)
    assert [lease.worker for lease in grants(desk.start(11))] == ["b", "c", "A"]


def test_an_answer_makes_room_for_the_next_lease() -> None:
    desk = Desk("A", "b")
    first = grants(desk.start())
    assert desk.answer(first[0]) == [desk.lease("A", 5, slot=2, step=2, rows=HALF)]
    assert desk.answer(first[3]) == [desk.lease("b", 6, slot=2, step=2, rows=OTHER_HALF)]


def test_a_worker_has_credit_until_it_holds_its_leases_and_again_after_an_answer() -> None:
    desk = Desk(slots=2)
    assert not desk.table.pool.has_credit, "no worker is there"
    desk.join("a")
    assert desk.table.pool.has_credit, "no reader has started"
    first, second = grants(desk.start())
    assert not desk.table.pool.has_credit
    desk.answer(first)
    assert desk.table.pool.has_credit, "the reader holds one slot, the other is being filled"
    assert grants(desk.slot_back(first.slot))
    assert not desk.table.pool.has_credit
    desk.answer(second)
    assert desk.table.pool.has_credit


def test_a_worker_holds_two_more_leases_if_its_files_are_fetched() -> None:
    desk = Desk("a:bucket//", "b:folder", slots=64)
    held = [lease.worker for lease in grants(desk.start())]
    assert (held.count("a:bucket//"), held.count("b:folder")) == (4, 2)
    # A local worker gets its files from where the streams do.
    desk = Desk("A", slots=64, fetched=True)
    desk.join("B")
    held = [lease.worker for lease in grants(desk.start())]
    assert (held.count("A"), held.count("B")) == (4, 4)
    desk = Desk("A", slots=64)
    assert len(grants(desk.start())) == 2
    desk.stream(1, slots=64, fetched=True)
    assert len(grants(desk.start(11, stream=1))) == 2


@pytest.mark.parametrize("credit", [1, 3])
def test_credit_is_the_number_of_leases_that_a_worker_holds(credit: int) -> None:
    desk = Desk("a", "b", credit=credit)
    assert [lease.worker for lease in grants(desk.start())] == ["a", "b"] * credit


@pytest.mark.parametrize(
    ("batch", "workers", "longest"),
    [(1, 1, 1), (4, 3, 2), (5, 2, 3), (40, 2, 14), (33, 1, 11), (7, 9, 1), (32, 2, 16)],
)
def test_chunks_cover_each_batch_exactly_once_and_are_spread_over_the_workers(
    batch: int, workers: int, longest: int
) -> None:
    desk = Desk(*(f"w{i}" for i in range(workers)), batch=batch)
    leases = desk.decode_all(*desk.start(steps=range(3)))
    places = sorted((g.slot, row) for g in leases for row in g.rows)
    assert places == [(slot, row) for slot in range(3) for row in range(batch)]
    assert max(len(lease.samples) for lease in leases) == longest
    assert [desk.ready[10, step].samples for step in range(3)] == [
        tuple(desk.plans[0][step]) for step in range(3)
    ]


def test_chunks_get_smaller_when_more_workers_are_there() -> None:
    desk = Desk("a")
    first = grants(desk.start())
    desk.join("b", "c", "d")
    more = grants(desk.answer(*first))
    assert [len(lease.samples) for lease in (*first, *more)] == [4, 4, 1, 1]


@pytest.mark.parametrize(
    ("clip_s", "slots", "size"),
    [
        (0.05, 8, 2),  # spread over the workers
        (0.02, 8, 4),  # a lease takes at least 50 ms, and all are alike
        (0.001, 4, 4),  # with half of the slots, all workers stay busy
        (0.001, 32, 8),  # never more than the batch
        (5e-324, 4, 4),
        (math.inf, 8, 2),
    ],
)
def test_leases_are_longer_if_clips_are_quick(clip_s: float, slots: int, size: int) -> None:
    desk = Desk("a", "b", "c", "d", batch=8, slots=slots, credit=1)
    first = grants(desk.start())
    assert [len(lease.samples) for lease in first] == [2, 2, 2, 2]
    later = [grant for lease in first for grant in grants(desk.answer(lease, clip_s=clip_s))]
    assert len(later[0].samples) == size


@pytest.mark.parametrize(("lease_clips", "most"), [(3, 3), (1, 1), (0, 1), (99, 14)])
def test_a_lease_holds_no_more_clips_than_fit_into_a_message(lease_clips: int, most: int) -> None:
    desk = Desk("a", batch=40, lease_clips=lease_clips)
    sizes = [len(lease.samples) for lease in desk.decode_all(*desk.start(steps=range(1)))]
    assert max(sizes) == most
    assert sum(sizes) == 40


def sizes_once_known(desk: Desk, clip_s: float) -> list[int]:
    """The clips of each lease of a batch, after another batch has told how long clips take."""
    left = grants(desk.start(10, steps=range(1)))
    while left:
        left += grants(desk.answer(left.pop(0), clip_s=clip_s))
    return [len(lease.samples) for lease in desk.decode_all(*desk.start(11, steps=range(1, 2)))]


@pytest.mark.parametrize(("clip_s", "size"), [(0.001, 32), (0.003, 16)])
def test_clips_of_kept_frames_are_granted_by_the_batch(clip_s: float, size: int) -> None:
    desk = Desk("a", "b", batch=32, lease_clips=99, slots=32, credit=1)
    assert sizes_once_known(desk, clip_s) == [size] * (32 // size)


@pytest.mark.parametrize(
    ("clips", "lease_clips", "clip_s", "sizes"),
    [
        (30, 99, 0.002, [30]),  # all come from one video, in one pass over it
        (10, 99, 0.004, [20, 10]),  # 14 would split the second video
        (10, 5, 0.002, [5, 5, 5, 5, 5, 5]),  # no more fit into a message
        (30, 99, 0.2, [15, 15]),  # they lie far apart: one worker would take 6 s
    ],
)
def test_the_clips_of_a_video_are_one_lease(
    clips: int, lease_clips: int, clip_s: float, sizes: list[int]
) -> None:
    desk = Desk("a", "b", videos=30, batch=30, lease_clips=lease_clips, clips=clips)
    assert sizes_once_known(desk, clip_s) == sizes


def test_clips_of_a_video_are_spread_until_it_is_known_how_long_they_take() -> None:
    desk = Desk("a", "b", videos=30, batch=30, clips=30)
    assert [len(lease.samples) for lease in grants(desk.start(steps=range(1)))] == [15, 15]


def test_the_last_smaller_batch_is_decoded_as_it_is() -> None:
    desk = Desk("A", videos=6)
    leases = grants(desk.start(steps=range(2)))
    assert [len(lease.samples) for lease in leases] == [4, 2]
    desk.answer(*leases)
    assert desk.ready[10, 1].frames.shape == (2, 2)


def test_a_reader_begins_and_ends_at_its_steps() -> None:
    desk = Desk("A", credit=9)
    leases = [desk.lease("A", i + 1, slot=i, step=7 + i) for i in range(3)]
    assert desk.start(steps=range(7, 10)) == leases
    assert desk.answer(*leases) == [Given(10, 7, 0), Given(10, 8, 1), Given(10, 9, 2)]
    assert desk.want() == desk.slot_back(0) == []


def test_no_more_batches_are_open_than_there_are_slots() -> None:
    desk = Desk("A", credit=9, slots=2)
    leases = grants(desk.start())
    assert len(leases) == 2
    assert desk.answer(*leases) == [Given(10, 0, 0), Given(10, 1, 1)]
    assert desk.want() == []
    assert desk.slot_back(1) == [desk.lease("A", 3, slot=1, step=2)]
    assert desk.slot_back(0) == [desk.lease("A", 4, slot=0, step=3)]


def test_a_worker_that_says_hello_twice_is_one_worker() -> None:
    desk = Desk("a")
    leases = grants(desk.start())
    assert desk.join("a") == []
    assert desk.table.pool.taking == 1
    assert len(grants(desk.answer(*leases))) == 2


@pytest.mark.parametrize("hosts", [1, 2, 400])
@pytest.mark.parametrize("are_measured", [False, True])
def test_a_worker_that_joins_a_crowd_costs_no_look_at_each_of_the_others(
    hosts: int, are_measured: bool
) -> None:
    # If it did, a thousand workers that join at once would stop the I/O thread for seconds.
    desk = Desk("A", batch=1, slots=8)
    begun = grants(desk.start())
    for lease in begun if are_measured else ():
        begun += grants(desk.answer(lease, clip_s=0.01))
    desk.wait(1, "A")
    names = [f"host{number % hosts}/worker{number}" for number in range(400)]
    half = calls(lambda: desk.join(*names[:200]))
    assert calls(lambda: desk.join(*names[200:])) < 2 * half


def calls(work: Callable[[], object]) -> int:
    """How many calls of Python functions, and steps of generators, some work is."""
    made = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal made
        made += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return made
