"""Workers that leave, are silent, or lose messages."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

import pytest

from tests.support.desk import SILENCE_S, STALL_S, Desk, Given, Seen, grants, passed_over, rest
from videoload.leases.commands import (
    AskStorage,
    Evict,
)
from videoload.leases.pool import WorkerPool
from videoload.leases.records import Worker
from videoload.leases.silence import Look

# Workers that leave or die


def test_a_dead_workers_lease_goes_to_another() -> None:
    desk = Desk("A", "b", batch=2)
    first, second = grants(desk.start(steps=range(1)))
    assert desk.die("A") == [], "b has another lease"
    assert desk.answer(first) == []
    assert desk.answer(second) == [desk.lease("b", 3, slot=0, step=0, rows=slice(0, 1))]
    assert desk.decode_all(desk.lease("b", 3, slot=0, step=0, rows=slice(0, 1)))
    assert desk.ready[10, 0].samples == tuple(desk.plans[0][0])


def test_a_worker_that_says_bye_gives_its_leases_back_as_they_are() -> None:
    desk = Desk("A")
    first, second = grants(desk.start(steps=range(2)))
    assert desk.leave("A") == []
    assert desk.join("B") == [
        desk.lease("B", 3, slot=0, step=0),
        desk.lease("B", 4, slot=1, step=1),
    ]
    assert desk.answer(first, second) == []


def test_the_clips_of_workers_that_leave_together_are_granted_after_the_last_one() -> None:
    desk = Desk("A", "B", credit=1)
    begun = grants(desk.start(steps=range(2)))
    desk.table.worker_left("A", died=True, more_leave=True)
    assert desk.seen() == []
    again = grants(desk.join("C") + desk.die("B") + desk.join("D"))
    assert sum(len(lease.samples) for lease in again) == sum(len(lease.samples) for lease in begun)


def test_who_is_reliable_is_found_once_until_workers_or_the_time_change() -> None:
    # If each of a crowd of 300 is looked up for each one that dies, the stream stops for 40 s.
    pool = WorkerPool([], credit=2, stall_s=STALL_S, silence_s=SILENCE_S)

    def join(*workers: str) -> None:
        for worker in workers:
            pool.join(Worker(worker, local=False, joined=pool.now, host=worker))

    def reliable() -> list[str]:
        return sorted(str(worker.id) for worker in pool.reliable)

    pool.clock(0.0)
    join("a", "b")
    assert reliable() == ["a", "b"]
    assert pool.reliable is pool.reliable
    pool.clock(10.0)
    join("c")
    assert reliable() == ["a", "b"]
    pool.clock(30.0)
    assert reliable() == ["a", "b", "c"]
    pool.leave("a")
    assert reliable() == ["b", "c"]


def test_a_worker_may_leave_twice_or_without_having_joined() -> None:
    desk = Desk("A")
    desk.start()
    assert desk.leave("z") == desk.die("z") == []
    assert not desk.table.heard("z", 1.0)
    desk.leave("A")
    assert desk.die("A") == []
    assert not desk.table.heard("A", 1.0)
    assert desk.table.pool.taking == 0


def test_earlier_steps_are_granted_again_before_later_ones_are_begun() -> None:
    desk = Desk("A", "B", batch=2)
    desk.start()
    assert desk.leave("B") == []
    freed = desk.leave("A")
    assert freed == []
    assert desk.join("C", "D") == [
        desk.lease("C", 5, slot=0, step=0, rows=slice(1, 2)),
        desk.lease("C", 6, slot=0, step=0, rows=slice(0, 1)),
        desk.lease("D", 7, slot=1, step=1, rows=slice(1, 2)),
        desk.lease("D", 8, slot=1, step=1, rows=slice(0, 1)),
    ]


def test_a_silent_local_worker_is_killed_once_and_its_lease_waits_for_its_death() -> None:
    desk = Desk("A", batch=1)
    [first] = grants(desk.start(steps=range(1)))
    desk.join("B")
    assert desk.wait(STALL_S, "B") == []
    assert desk.wait(5, "B") == [Evict("A")]  # and nothing is granted: A may still write
    assert not desk.is_void(first)
    assert desk.die("A") == [desk.lease("B", 2, slot=0, step=0)]
    assert desk.wait(5, "B") == []


def test_a_worker_that_beats_is_never_killed() -> None:
    desk = Desk("A", "b")
    desk.start(steps=range(1))
    assert desk.wait(60, "A", "b") == []


def test_a_worker_that_is_to_be_killed_gets_no_leases() -> None:
    desk = Desk("A")
    assert desk.wait(11) == [Evict("A")]
    assert desk.table.pool.taking == 0
    assert desk.start() == []
    assert [lease.worker for lease in grants(desk.join("B"))] == ["B", "B"]


def test_a_local_worker_that_was_only_slow_keeps_its_lease() -> None:
    desk = Desk("A")
    [first] = grants(desk.start(steps=range(1)))
    assert desk.wait(11) == [Evict("A")]
    assert desk.answer(first) == [Given(10, 0, 0)]  # its answer came before the signal


def test_a_silent_remote_worker_is_passed_over_at_once() -> None:
    desk = Desk()
    desk.start(steps=range(2))
    first, second = grants(desk.join("a"))
    desk.wait(1)
    desk.join("B")
    assert desk.wait(1, "B") == []
    assert desk.table.pool.taking == 2
    assert desk.wait(0.25, "B") == [
        desk.lease("B", 3, slot=0, step=0),
        desk.lease("B", 4, slot=1, step=1),
    ]
    assert desk.table.pool.taking == 1
    assert desk.wait(60, "B") == []
    assert desk.is_void(first)
    assert desk.is_void(second)


def test_a_remote_worker_that_is_heard_again_is_given_work_again() -> None:
    desk = Desk("a")
    desk.wait(5)
    assert desk.start() == []
    desk.table.heard("a", desk.now)
    assert desk.table.pool.taking == 1
    assert [lease.worker for lease in grants(desk.wait(0.25, "a"))] == ["a", "a"]


def test_a_chunk_stays_granted_as_long_as_one_of_its_workers_is_heard_of() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    first, again = passed_over(desk)
    desk.join("c")
    assert desk.leave("a") == []  # b works on it
    [third] = grants(desk.leave("b"))
    assert third == desk.lease("c", 3, slot=0, step=0)
    assert desk.is_void(first)
    assert desk.is_void(again)


def test_a_chunk_stays_granted_if_a_silent_worker_is_heard_again() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    passed_over(desk)
    desk.join("c")
    assert desk.wait(3, "a", "c") == []  # b falls silent, a works on it again
    assert desk.wait(3, "b", "c") == []  # and the other way round
    assert desk.leave("b") == [desk.lease("c", 3, slot=0, step=0)]  # now no worker has it


def test_a_chunk_stays_granted_if_another_of_its_workers_leaves() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    passed_over(desk)
    desk.join("c")
    [third] = grants(desk.wait(3, "c"))
    assert third.worker == "c"
    desk.join("d")
    assert desk.leave("b") == []  # a is silent, but c works on it
    assert desk.leave("c") == [desk.lease("d", 4, slot=0, step=0)]


def test_a_chunk_whose_silent_worker_leaves_waits_once() -> None:
    desk = Desk("a")
    desk.start(steps=range(1))
    desk.wait(3)
    desk.leave("a")
    assert desk.join("B") == [desk.lease("B", 2, slot=0, step=0)]
    assert desk.join("C") == []


def test_a_chunk_whose_silent_worker_dies_is_granted_clip_by_clip_alone() -> None:
    desk = Desk("a", credit=9)
    desk.start(steps=range(1))
    desk.wait(3)
    desk.die("a")
    assert [(g.rows[0], len(g.samples)) for g in desk.decode_all(*desk.join("B"))] == [
        (0, 1), (1, 1), (2, 1), (3, 1),
    ]  # fmt: skip


def test_a_chunk_of_two_silent_workers_goes_to_a_third_once() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    passed_over(desk)
    desk.join("c")
    assert grants(desk.wait(7, "c")) == [desk.lease("c", 3, slot=0, step=0)]


# Silence that the kernel explains


class Kernel:
    """What the kernel tells about silent workers: the ``share`` of a core that they take, and their
    state."""

    def __init__(self, desk: Desk, share: float, *, blocked: bool = False) -> None:
        self.desk, self.share, self.blocked = desk, share, blocked

    def wait(self, seconds: float, *beating: str) -> list[Seen]:
        """As `Desk.wait`, with a look at silent workers before each tick."""
        commands: list[Seen] = []
        for _ in range(round(seconds * 4)):
            for worker in self.desk.table.pool.silent():
                if worker not in beating:
                    cpu_s = 7.0 + self.share * self.desk.now
                    self.desk.table.pool.look(worker, Look(cpu_s, blocked=self.blocked))
            commands += self.desk.wait(0.25, *beating)
        return commands


def test_if_all_workers_are_silent_and_blocked_none_is_killed() -> None:
    desk = Desk("A", "B")
    desk.start()
    asked = [AskStorage("A", 0, (0, 1)), AskStorage("B", 0, (2, 3))]
    assert Kernel(desk, 0.0, blocked=True).wait(STALL_S + 59) == asked
    assert Kernel(desk, 0.0, blocked=True).wait(5, "A", "B") == []


def test_a_worker_that_is_silent_for_a_minute_is_killed_and_its_clip_is_not_blamed() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    for worker in "ABCD":
        desk.join(worker)
        assert Evict(worker) in Kernel(desk, 0.0, blocked=True).wait(STALL_S + 62)
        desk.die(worker)
    assert desk.quarantines[0].videos == []


def test_a_worker_that_sleeps_is_waited_for_while_the_storage_does_not_answer() -> None:
    desk = Desk("A")
    desk.start(steps=range(1))
    kernel = Kernel(desk, 0.0)
    assert kernel.wait(STALL_S + 50) == [AskStorage("A", 0, (0, 1, 2, 3))]
    assert kernel.wait(1, "A") == []
    assert kernel.wait(STALL_S) == [AskStorage("A", 0, (0, 1, 2, 3))], "it is asked anew"


def test_a_worker_that_sleeps_while_the_storage_answers_hangs_and_its_clip_is_blamed() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    for worker in "ABC":
        desk.join(worker)
        assert Kernel(desk, 0.0).wait(STALL_S - 1) == [AskStorage(worker, 0, (0,))]
        desk.table.pool.storage_answered(worker)
        assert Kernel(desk, 0.0).wait(2) == [Evict(worker)]
        desk.die(worker)
    assert [path for path, _ in desk.quarantines[0].videos] == ["v0.avi"]


def test_an_answer_of_the_storage_in_an_earlier_silence_does_not_count() -> None:
    desk = Desk("A")
    desk.start(steps=range(1))
    kernel = Kernel(desk, 0.0)
    kernel.wait(STALL_S - 1)
    desk.table.pool.storage_answered("A")
    kernel.wait(1, "A")
    desk.table.pool.storage_answered("A")
    desk.table.pool.storage_answered("Z")
    assert Evict("A") not in kernel.wait(STALL_S + 50)


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_a_silent_worker_that_burns_cpu_hangs_and_its_clip_is_blamed(share: float) -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    for worker in "ABC":
        desk.join(worker)
        assert Evict(worker) in Kernel(desk, share).wait(STALL_S + 1)
        desk.die(worker)
    assert [path for path, _ in desk.quarantines[0].videos] == ["v0.avi"]


def test_a_worker_that_burns_little_on_a_busy_host_is_killed_later() -> None:
    desk = Desk("A", "B")
    desk.start()
    kernel = Kernel(desk, 0.05)
    assert Evict("A") not in kernel.wait(STALL_S + 10, "B")
    assert Evict("A") in kernel.wait(10, "B")


def test_a_worker_that_alone_is_blocked_is_killed_and_its_clip_is_not_blamed() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    for worker in "BCDE":
        desk.join(worker)
        desk.join("A")  # has nothing to do, and says so
        seen = Kernel(desk, 0.0, blocked=True).wait(STALL_S + 1, "A")
        assert seen == [AskStorage(worker, 0, (0,)), Evict(worker)]
        desk.leave("A")
        desk.die(worker)
    assert desk.quarantines[0].videos == []


def test_if_all_stood_still_none_is_killed_when_the_first_is_heard_again() -> None:
    desk = Desk("A", "B")
    desk.start()
    Kernel(desk, 0.0, blocked=True).wait(STALL_S + 5)
    assert Kernel(desk, 0.0, blocked=True).wait(0.25, "A") == []
    assert Kernel(desk, 0.0, blocked=True).wait(5, "A", "B") == []


def test_a_blocked_worker_with_nothing_to_do_is_waited_for_like_the_others() -> None:
    desk = Desk("A")
    assert Kernel(desk, 0.0, blocked=True).wait(STALL_S + 5) == []
    assert Kernel(desk, 0.0).wait(0.5) == [Evict("A")], "and if it sleeps, it is not the storage"


def test_a_worker_that_imports_may_be_silent_for_a_minute_more_and_no_clip_is_blamed() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    for worker in "ABC":
        desk.join(worker)
        desk.table.heard(worker, desk.now, 0, busy="import")
        assert Evict(worker) not in Kernel(desk, 1.0).wait(STALL_S + 59)
        assert Evict(worker) in Kernel(desk, 1.0).wait(2)
        desk.die(worker)
    assert desk.quarantines[0].videos == []
    desk.join("D")
    desk.table.heard("D", desk.now, 0, busy="import")
    desk.table.heard("D", desk.now, 0)
    assert Evict("D") in Kernel(desk, 1.0).wait(STALL_S + 1), "it has imported"


def test_a_lost_message_blames_no_clip() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    for worker in "ABCD":
        desk.join(worker)
        assert beat(desk, worker, ticks=IDLE + 1, frames=repeat(7)) == [Evict(worker)]
        desk.die(worker)
    assert desk.quarantines[0].videos == []


# Late workers


@pytest.mark.parametrize("copy", ["a:copy", "a:http://host//"])
def test_a_late_worker_is_left_alone_if_it_fetches_its_files(copy: str) -> None:
    """Another worker would fetch them a second time, over the same line."""
    desk = Desk(copy, batch=1, credit=1, slots=2)
    first, *_ = grants(desk.start(steps=range(2)))
    desk.answer(first, clip_s=0.1)
    desk.join("b:copy")
    desk.want()
    again = grants(desk.wait(1.5, copy, "b:copy"))
    assert [grant.worker for grant in again] == ([] if "//" in copy else ["b:copy"])


# Messages that are lost on the way


IDLE = 12  # after so many idle ticks, a message counts as lost


def beat(desk: Desk, worker: str, *, ticks: int, frames: Iterable[int]) -> list[Seen]:
    """So many ticks. Before each, the worker tells how many frames it has decoded."""
    for _, count in zip(range(ticks), frames, strict=False):
        desk.now += 0.25
        assert desk.table.heard(worker, desk.now, count)
        desk.table.tick(desk.now)
    return desk.seen()


@pytest.mark.parametrize("worker", ["A", "a"])
def test_a_worker_that_idles_while_it_has_a_lease_is_admitted_anew(worker: str) -> None:
    desk = Desk(worker)
    desk.start(steps=range(1))
    assert beat(desk, worker, ticks=IDLE, frames=repeat(7)) == []  # the first tells nothing
    assert beat(desk, worker, ticks=1, frames=repeat(7)) == [Evict(worker)]
    assert desk.join("B") == []
    assert desk.leave(worker) == [desk.lease("B", 2, slot=0, step=0)]


def test_a_worker_that_makes_progress_does_not_idle() -> None:
    desk = Desk("A")
    desk.start(steps=range(1))
    for frames in range(5):
        assert beat(desk, "A", ticks=IDLE, frames=repeat(frames)) == []


def test_a_worker_that_answers_does_not_idle() -> None:
    desk = Desk("A", batch=1)
    lease, _ = grants(desk.start())
    for _ in range(5):
        assert beat(desk, "A", ticks=IDLE - 1, frames=repeat(7)) == []
        desk.table.heard("A", desk.now)
        lease = grants(desk.answer(lease))[0]
        desk.slot_back(0)


def test_a_worker_without_a_lease_may_idle() -> None:
    desk = Desk("A")
    assert beat(desk, "A", ticks=100, frames=repeat(7)) == []
    desk.start(steps=range(1))
    assert beat(desk, "A", ticks=IDLE - 1, frames=repeat(7)) == []


def test_a_worker_that_says_nothing_between_two_ticks_does_not_idle_in_that_time() -> None:
    desk = Desk("A")
    desk.start(steps=range(1))
    beat(desk, "A", ticks=7, frames=repeat(7))  # six of them idle
    assert desk.wait(9) == []
    assert beat(desk, "A", ticks=IDLE - 7, frames=repeat(7)) == []
    assert beat(desk, "A", ticks=1, frames=repeat(7)) == [Evict("A")]


# This process was stopped


def test_a_pause_of_this_process_kills_no_worker() -> None:
    desk = Desk("A", "b")
    desk.start()
    desk.wait(1, "A", "b")
    desk.now += 3600
    assert rest(desk.wait(1)) == []
    assert desk.table.pool.taking == 2


def test_a_pause_counts_as_one_second_of_silence() -> None:
    desk = Desk("A", "b")
    desk.wait(1, "A", "b")
    desk.now += 3600
    assert desk.wait(1.25) == []
    assert desk.table.pool.taking == 2
    assert desk.wait(0.25) == []
    assert desk.table.pool.taking == 1  # b is passed over
    assert desk.wait(8) == [Evict("A")]


def test_many_short_pauses_hide_no_stall() -> None:
    desk = Desk("A")
    commands = []
    for _ in range(20):
        desk.now += 0.75
        commands += desk.wait(0.25)
    assert commands == [Evict("A")]


def test_the_first_tick_may_be_late() -> None:
    desk = Desk()
    desk.now = 1000.0
    desk.join("A")
    assert desk.wait(1) == []
