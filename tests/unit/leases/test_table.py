"""Which answers count, which come too late, and which worker may write into a slot.

`test_leases_at_random` tries random events."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.desk import Desk, Given, given, grants, passed_over
from videoload.leases.commands import Evict, Grant

# Answers that do not count


def place(desk: Desk, grant: Grant) -> tuple[int, int, Sequence[int]] | None:
    """Where the answer to a lease goes, if it counts."""
    lease = desk.table.lease(grant.worker, grant.lease)
    return (lease.stream, lease.slot, lease.rows) if lease and lease.is_owed else None


def test_an_answer_without_a_lease_is_dropped() -> None:
    desk = Desk("A", "b")
    first, second, *_ = grants(desk.start())
    for worker, lease in (("b", first.lease), ("z", first.lease), ("A", 99)):
        assert desk.table.lease(worker, lease) is None
    assert place(desk, first) == (0, 0, range(2))
    assert place(desk, second) == (0, 0, range(2, 4))
    assert desk.quarantines[0].videos == []


def test_a_second_answer_to_a_lease_is_dropped() -> None:
    desk = Desk("A", "b")
    first, second, *_ = grants(desk.start(steps=range(1)))
    desk.answer(first)
    assert desk.is_void(first)
    assert desk.answer(first) == []
    assert desk.fail(first) == []
    assert desk.answer(second) == [Given(10, 0, 0)]


def test_the_first_answer_wins_and_the_later_one_is_void() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    first, again = passed_over(desk)
    assert desk.answer(again) == [Given(10, 0, 0)]
    assert desk.is_void(first)
    assert desk.answer(first) == []


def test_a_late_answer_of_a_remote_worker_counts_if_it_is_the_first() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    first, again = passed_over(desk)
    assert place(desk, first) == (0, 0, range(4))
    assert desk.answer(first) == [Given(10, 0, 0)]
    assert desk.is_void(again)
    assert desk.answer(again) == []


def test_after_a_late_answer_the_chunk_is_not_granted_again() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    [first] = grants(desk.join("a"))
    assert desk.wait(3) == []  # the chunk waits for another worker
    assert desk.answer(first) == [Given(10, 0, 0)]
    assert desk.join("b") == []


def test_a_void_lease_counts_as_work_until_it_is_answered() -> None:
    desk = Desk(credit=1)
    desk.start(10, steps=range(1))
    first, again = passed_over(desk)
    desk.answer(again)
    desk.wait(0.25, "a", "b")
    assert desk.table.pool.taking == 2
    assert [lease.worker for lease in grants(desk.start(11))] == ["b"]  # a is still busy
    assert [lease.worker for lease in grants(desk.answer(first))] == ["a"]


def test_a_failure_of_a_void_lease_blames_no_video() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    first, again = passed_over(desk)
    desk.answer(again)
    assert desk.fail(first) == []
    assert desk.quarantines[0].videos == []


# The fence


def test_a_lease_that_writes_into_shared_memory_makes_the_remote_ones_void() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    [first] = grants(desk.join("a"))
    desk.wait(3)
    [local] = grants(desk.join("B"))
    assert local == desk.lease("B", 2, slot=0, step=0)
    assert desk.is_void(first)  # its pixels must not overwrite those of B
    assert desk.answer(first) == []
    assert desk.answer(local) == [Given(10, 0, 0)]


def test_the_chunk_of_a_local_worker_is_granted_to_no_other() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    desk.join("a")
    desk.wait(3)
    desk.join("B")  # has the chunk now
    assert desk.join("c", "D") == []
    assert desk.wait(15, "a", "c", "D") == [Evict("B")]
    assert desk.leave("a") == desk.leave("c") == []
    assert [g.worker for g in grants(desk.die("B"))] == ["D"]


def test_a_slot_is_not_reused_while_a_local_worker_may_still_write_into_it() -> None:
    desk = Desk("A", slots=1)
    [first] = grants(desk.start(10))
    assert desk.end(10) == []
    assert desk.start(11, steps=range(5, 9)) == []  # the only slot waits for A
    assert desk.is_void(first)
    assert desk.answer(first) == [desk.lease("A", 2, slot=0, step=5)]


def test_a_dead_local_worker_frees_the_slot_that_waited_for_it() -> None:
    desk = Desk("A", slots=1)
    desk.start(10)
    desk.end(10)
    desk.start(11, steps=range(5, 9))
    assert desk.join("B") == []
    assert desk.die("A") == [desk.lease("B", 2, slot=0, step=5)]


def test_a_slot_waits_for_a_worker_that_is_to_be_killed_as_well() -> None:
    desk = Desk("A", slots=1)
    desk.start(10)
    assert desk.wait(11) == [Evict("A")]
    desk.end(10)
    desk.join("B")
    assert desk.start(11, steps=range(5, 9)) == []
    assert desk.die("A") == [desk.lease("B", 2, slot=0, step=5)]


def test_a_slot_waits_for_all_its_local_writers_and_comes_back_once() -> None:
    desk = Desk("A", "B", "C", slots=1, batch=3)
    leases = grants(desk.start(10))
    desk.end(10)
    desk.start(11, steps=range(5, 9))
    assert desk.answer(leases[1]) == []
    assert desk.die("A") == []
    assert len(grants(desk.answer(leases[2]))) == 2
    free = desk.table._streams[0].free
    assert free == []


def test_a_slot_does_not_wait_for_remote_workers() -> None:
    desk = Desk("a", slots=1)
    [first] = grants(desk.start(10))
    assert desk.end(10) == []
    assert desk.start(11, steps=range(5, 9)) == [desk.lease("a", 2, slot=0, step=5)]
    assert desk.is_void(first)


def test_a_doubted_clip_is_given_up_if_the_only_other_worker_is_silent() -> None:
    desk = Desk("a:x", "b:x", credit=1, slots=1, batch=1, on_error="skip")
    first, *_ = grants(desk.start(steps=range(2)))
    other = "b:x" if first.worker == "a:x" else "a:x"
    [second] = grants(desk.fail(first))
    assert second.worker == other
    seen = desk.wait(3, str(first.worker))  # the other one is silent, and there is no third
    assert given(seen) == [Given(10, 0, 0)]
    assert desk.is_void(second), "the slot is the consumer's"
    assert given(desk.answer(second)) == []
