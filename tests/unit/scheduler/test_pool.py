"""Workers that leave, are silent, or lose messages."""

import math
import re

import pytest

from tests.support.desk import STALL_S, TICK_S, Desk, PlayedWorker, local, remote
from tests.support.stories import (
    Step,
    answers,
    dies,
    each,
    fails,
    hangs,
    is_asked,
    is_bad,
    is_delivered,
    is_good,
    is_heard,
    is_not_asked,
    is_not_delivered,
    joins,
    leaves,
    play,
    silent_for,
    wait,
)
from videoload.errors import Fault, StorageError
from videoload.scheduler import events
from videoload.scheduler.commands import Stop, Warn
from videoload.scheduler.pool import WorkerPool
from videoload.scheduler.records import Worker

B, C, D = local("B"), local("C"), local("D")

# Workers that leave or die


def test_a_worker_that_says_bye_gives_its_leases_back_as_they_are_and_may_leave_twice() -> None:
    desk = Desk(local("A"), steps=2)
    first, second = desk.granted
    desk.leave("A", "z")
    desk.die("A", "z")
    desk.tell(events.Heard("A"))
    assert desk.table.pool.num_available == 0
    desk.join(local("B"))
    assert [(g.slot, g.rows, g.samples) for g in desk.granted] == [
        (g.slot, g.rows, g.samples) for g in (first, second)
    ]
    desk.answer_lease(first)
    assert desk.steps() == []


def test_the_clips_of_workers_that_leave_together_are_granted_after_the_last_one() -> None:
    desk = Desk(local("A"), local("B"), credit=1, steps=1)
    desk.join(local("C"))
    desk.tell(events.WorkerLeft("A", died=False, more_leave=True))
    desk.heard("C")
    assert desk.leases["C"] == []
    desk.leave("B")
    assert desk.owes("C")


def test_who_is_reliable_is_found_once_until_workers_or_the_time_change() -> None:
    # If each of a crowd of 300 is looked up for each one that dies, the stream stops for 40 s.
    desk = Desk("a", "b")
    pool = desk.table.pool

    def reliable() -> str:
        return "".join(sorted(str(worker.id) for worker in pool.reliable))

    assert reliable() == "ab"
    assert pool.reliable is pool.reliable
    desk.wait(10, "a", "b")
    desk.join("c")
    assert reliable() == "ab"
    desk.wait(9.75, "a", "b", "c")
    assert reliable() == "ab"
    desk.wait(0.5, "a", "b", "c")
    assert reliable() == "abc"
    desk.leave("a")
    assert reliable() == "bc"
    desk.wait(40, "b", "c")
    desk.join("d")
    desk.wait(29.75, "b", "c", "d")
    assert reliable() == "bc"
    desk.wait(0.5, "b", "c", "d")
    assert reliable() == "bcd", "it is here for half a minute"


# Silence


SILENT: dict[str, list[Step]] = {
    # The clips of a silent remote worker go to others after two seconds, and to one at a time.
    "passed over": [
        each("a", joins, hangs),
        wait(1),
        each([B], joins),
        wait(1),
        each("B", is_not_asked),
        wait(0.25),
        each("B", is_asked),
        wait(60),
        each("B", answers),
        is_delivered,
    ],
    "the first answer counts": [
        each("a", joins, silent_for(3)),
        each("b", joins, answers),
        is_delivered,
        each("a", answers),
        is_good,
    ],
    "also a late one": [
        each("a", joins, silent_for(3)),
        each("b", joins, is_asked),
        each("a", answers),
        is_delivered,
        each("b", answers),
        is_good,
    ],
    "a failure counts for all": [
        each("a", joins, silent_for(3)),
        each("b", joins, is_asked),
        each("a", fails),
        is_bad(),
        each("b", answers),
        is_not_delivered,
    ],
    "before another is asked": [
        each("a", joins, silent_for(3), answers),
        is_delivered,
        each("b", joins, is_not_asked),
    ],
    "heard again": [
        each("a", joins, hangs),
        wait(3),
        each("bc", joins),
        each("b", is_asked),
        each("c", is_not_asked),
        each("b", hangs),
        each("a", is_heard),
        wait(3),
        each("c", is_not_asked),
        each("a", hangs),
        each("b", is_heard),
        wait(3),
        each("c", is_not_asked),
        each("a", leaves),
        each("c", is_not_asked),
        each("b", leaves),
        each("c", is_asked),
    ],
    "two are silent": [
        each("a", joins, hangs),
        wait(3),
        each("b", joins, hangs),
        each("c", joins),
        wait(7),
        each("c", is_asked),
        each("d", joins),
        each("b", leaves),
        each("d", is_not_asked),
        each("c", leaves),
        each("d", is_asked),
    ],
    "it ends": [
        each("a", joins, silent_for(3), leaves),
        each([B], joins, is_asked),
        each([C], joins, is_not_asked),
    ],
    "it dies": [
        each("a", joins, silent_for(3), dies),
        each([B], joins, is_asked),
        each([C], joins, is_not_asked),
    ],
    # The fence: a local one may write until it is dead.
    "a local one hangs": [
        each([B], joins, hangs),
        each(["c", D], joins),
        wait(60),
        each("cD", is_not_asked),
        each("c", leaves),
        each("B", dies),
        each("D", is_asked),
    ],
    "its answer counts": [
        each([B], joins, silent_for(11), answers),
        is_delivered,
    ],
    "remote answers count no more": [
        each("a", joins, silent_for(3)),
        each([B], joins, is_asked),
        each("a", is_not_asked, answers),
        is_not_delivered,
        each("B", answers),
        is_delivered,
    ],
}


@pytest.mark.parametrize("story", SILENT)
def test_who_is_asked_for_the_clip_of_a_silent_worker(story: str) -> None:
    play(Desk(batch=1, steps=1), *SILENT[story])


# Late workers


@pytest.mark.parametrize(
    ("worker", "asked"),
    [
        (remote("a", copy="copy"), True),
        (local("a"), False),
        (remote("a", copy="http://host", fetches=True), False),
    ],
    ids=["remote", "local", "fetches"],
)
def test_an_idle_worker_is_asked_as_well_while_a_consumer_waits_for_a_late_one(
    worker: PlayedWorker, asked: bool
) -> None:
    """Not if that one fetches its files: another would fetch them again, over the same line."""
    desk = Desk(worker, batch=1, credit=1, slots=2, steps=2)
    desk.answer("a", clip_s=0.1)
    desk.join(remote("b", copy="copy"))
    desk.wait(1.5, "a", "b")
    assert desk.leases["b"] == [], "nobody waits"
    desk.want()
    desk.wait(0.25, "a", "b")
    assert desk.owes("b") == [[1]] * asked


@pytest.mark.parametrize(("seconds", "asked"), [(0.25, []), (0.5, [[1]])])
def test_a_worker_is_late_after_three_times_what_it_should_take(
    seconds: float, asked: list[list[int]]
) -> None:
    desk = Desk("a", batch=1, credit=1, slots=2, frame_s=math.inf, steps=2)
    desk.answer("a", clip_s=0.1)
    desk.join("b")
    desk.beat("a")
    desk.want()
    desk.wait(seconds, "a", "b")
    assert desk.owes("b") == asked


def test_a_slow_worker_is_asked_as_well_once_it_would_have_been_done_itself() -> None:
    """The others may all be late: here, the line of the only one lets a byte through now and then.
    A worker that was not measured yet is slow."""
    desk = Desk("a", batch=1, credit=1, slots=2, frame_s=math.inf, steps=5)
    for step in range(4):
        desk.answer("a", clip_s=0.1)
        desk.want()
        desk.slot_back(step)
    desk.join("b")
    for seconds, asked in [(1.0, []), (3.0, [[4]])]:
        desk.wait(seconds, "a", "b")
        assert desk.owes("b") == asked


@pytest.mark.parametrize("seconds", [STALL_S - 1, STALL_S + 1])
def test_another_is_asked_as_well_for_a_clip_that_was_tried_once_a_decoder_would_hang(
    seconds: float,
) -> None:
    desk = Desk(local("A"), "a", batch=1, credit=1, slots=1, steps=1)
    desk.leave("A", died=True)
    desk.join("b")
    desk.want()
    assert desk.owes("a") == [[0]]
    desk.wait(seconds, "a", "b")
    assert desk.owes("b") == [[0]] * (seconds > STALL_S)


@pytest.mark.parametrize("told", [False, True])
def test_who_waits_for_a_storage_that_refuses_takes_nothing_and_keeps_nobody_waiting(
    told: bool,
) -> None:
    workers = (remote(name, copy=name, fetches=True) for name in "ab")
    desk = Desk(*workers, batch=1, slots=4, steps=99)
    kept = desk.granted[0]
    for _ in range(9):
        desk.wait(0.25, "a", "b")
        desk.beat("a", storage="it refuses" * told)
        desk.answer_all("b")
        desk.want()
    assert desk.table.pool.num_available == 2 - told
    assert desk.is_void(kept) is told
    assert (desk.steps() != []) is told
    before = len(desk.leases["a"])
    desk.answer_lease(kept)
    assert len(desk.leases["a"]) < before
    desk.beat("a")
    assert desk.table.pool.num_available == 2


# A storage that is silent


def stands(desk: Desk, worker: str, seconds: float, claims_s: float = 0.0) -> bool:
    """A worker stands in a read for so long, or claims to do for ``claims_s`` longer; whether the
    root is known to be away then. The others are well."""
    others = [each for each in desk.workers if each != worker]
    for tick in range(round(4 * seconds)):
        desk.wait(0.25, *others)
        desk.beat(worker, storage="/v/a.avi", storage_s=claims_s + 0.25 * (tick + 1))
    return desk.table.roots.failure_of("v") is not None


@pytest.mark.parametrize("worker", [remote("a"), local("a")])
@pytest.mark.parametrize("claims_s", [0, 1e9])
def test_a_root_that_is_silent_for_long_is_away_whatever_a_worker_claims(
    worker: PlayedWorker, claims_s: float
) -> None:
    desk = Desk(worker, batch=1, steps=9, root="v")
    assert not stands(desk, "a", 4.5, claims_s)
    assert stands(desk, "a", 1, claims_s + 4.5)
    [warned] = desk.take(Warn)
    assert "/v/a.avi" in warned.reason
    desk.answer_all("a")
    assert desk.table.roots.failure_of("v") is None


def test_people_are_told_once_that_a_root_is_away_and_that_it_is_back() -> None:
    desk = Desk(local("a"), local("b"), credit=1, batch=1, slots=2, steps=99, root="/v")

    def lines(seconds: float, fault: Fault | None) -> list[str]:
        """What is said while the workers answer so."""
        for _ in range(round(seconds / TICK_S)):
            for lease in desk.granted:
                if fault is None:
                    desk.answer_lease(lease)
                else:
                    desk.fail_lease(lease, fault=fault, reason="it is empty")
            desk.slot_back(*desk.steps())
            desk.ready.clear()
            desk.wait(TICK_S, "a", "b")
        return [warn.reason for warn in desk.take(Warn) if warn.worker is None]

    assert lines(4.5, Fault.AWAY) == [], "it may be a moment"
    [line] = lines(40, Fault.AWAY)
    assert re.search(r"/v for 5 s: 2 of 2 workers .*: it is empty", line)
    [line] = lines(1, None)
    assert re.search(r"/v .* after 4\d s", line)
    assert lines(3, Fault.AWAY) + lines(1, None) == []
    assert desk.table.roots.unread_s("/v", 0.0, desk.now) == pytest.approx(47.5, abs=1)
    assert desk.table.roots.unread_s("/v", 40.0, desk.now) == pytest.approx(7.5, abs=1)


def test_a_root_that_is_read_no_more_is_not_said_to_be_back() -> None:
    desk = Desk(local("a"), batch=1, steps=9, root="/v")
    for _ in range(40):
        desk.fail("a", fault=Fault.AWAY)
        desk.wait(2, "a")
    desk.end()
    desk.wait(1, "a")
    assert len([warn for warn in desk.take(Warn) if warn.worker is None]) == 1


@pytest.mark.parametrize("seconds", [1.5, 3])
def test_who_stands_in_a_slow_read_takes_leases_and_who_stands_longer_does_not(
    seconds: float,
) -> None:
    desk = Desk("a", batch=1, steps=99, root="v")
    stands(desk, "a", seconds)
    assert desk.table.pool.num_available == (seconds < 2)
    assert not desk.workers["a"].is_silent
    desk.beat("a")
    assert desk.table.pool.num_available == 1


def test_a_root_that_others_read_is_not_away() -> None:
    desk = Desk("a", "b", batch=1, steps=99, slots=40, root="v")
    for _ in range(12):
        assert not stands(desk, "a", 1)
        desk.answer_all("b")
        desk.beat("b")
        desk.want()
    assert not stands(desk, "a", 4)
    assert stands(desk, "a", 2, 4)


@pytest.mark.parametrize("takes", [False, True])
def test_a_worker_without_a_lease_tells_of_all_roots_if_nobody_takes(takes: bool) -> None:
    desk = Desk("a", *["b"] * takes, root="v")
    desk.start(steps=0)
    assert stands(desk, "a", 6) is not takes


def test_the_streams_of_a_root_that_nobody_reads_for_too_long_end() -> None:
    desk = Desk("a", batch=1, steps=9, root="v", storage_timeout_s=20)
    desk.stream(1, root="w")
    desk.start(11, stream=1)
    assert stands(desk, "a", 18)
    assert desk.take(Stop) == []
    stands(desk, "a", 4, 18)
    [stop] = desk.take(Stop)
    assert (stop.stream, type(stop.error)) == (0, StorageError)
    assert desk.streams[1].ended is None


def test_what_was_silent_for_nobody_counts_from_when_it_is_read() -> None:
    desk = Desk("a", root="v")
    stands(desk, "a", 60)
    desk.start(steps=9)
    assert not stands(desk, "a", 4, 60)
    assert stands(desk, "a", 2, 64)


# Messages that are lost


@pytest.mark.parametrize("worker", [local("a"), remote("a")])
def test_what_a_worker_is_done_with_and_did_not_answer_is_granted_again(
    worker: PlayedWorker,
) -> None:
    desk = Desk(worker, batch=1, steps=2)
    first, second = desk.granted
    for done in (0, first.lease - 1):
        desk.beat("a", done=done)
        assert desk.granted == [first, second]
    desk.beat("a", done=first.lease)
    assert (desk.is_void(first), desk.is_void(second)) == (True, False)
    assert [lease.samples for lease in desk.granted[2:]] == [first.samples]
    assert desk.bad == []


# This process was stopped


def test_a_pause_of_this_process_counts_as_one_second_of_silence() -> None:
    desk = Desk("a", "b", steps=9)
    desk.wait(1, "a", "b")
    desk.now += 3600
    desk.wait(1.25, "a")
    assert desk.table.pool.num_available == 2
    desk.wait(0.25, "a")
    assert desk.table.pool.num_available == 1, "b is passed over"


def test_many_short_pauses_hide_no_silence_and_the_first_tick_may_be_late() -> None:
    desk = Desk()
    desk.now = 1000.0
    desk.join("a")
    desk.wait(1)
    assert desk.table.pool.num_available == 1
    for _ in range(4):
        desk.now += 0.75
        desk.wait(0.25)
    assert desk.table.pool.num_available == 0


def test_who_looks_before_a_worker_has_joined_finds_it_here() -> None:
    """Other threads list workers while the I/O thread admits one."""
    pool = WorkerPool(credit=2, stall_s=10.0, silence_s=2.0)
    assert not pool.is_gone(Worker("w", local=False, joined=1.0))
