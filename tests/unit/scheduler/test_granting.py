"""Which worker is granted which lease, and how large."""

import math
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.desk import Desk, PlayedWorker, local, remote
from tests.support.thorough import either
from videoload.scheduler import events
from videoload.scheduler.commands import Grant
from videoload.scheduler.files import Files


def places(*leases: Grant) -> list[tuple[str, int, list[int]]]:
    return [(str(lease.worker), lease.slot, [*lease.rows]) for lease in leases]


def are_whole(desk: Desk, leases: list[Grant], steps: int) -> bool:
    """Whether each clip was decoded once, and the batches are as planned."""
    plan = desk.streams[0].plan
    rows = sorted((lease.slot, row) for lease in leases for row in lease.rows)
    given_out = [desk.ready[10, step].samples for step in range(steps)]
    return given_out == [tuple(plan[step]) for step in range(steps)] and rows == [
        (slot, row) for slot in range(steps) for row in range(len(plan[slot]))
    ]


# Who gets what


def test_a_worker_that_never_says_a_whole_word_does_not_keep_the_clip_that_is_waited_for() -> None:
    """How far away it is, nobody knows; and a part of a message is a sign of life."""
    desk = Desk("a", "b", batch=1, steps=2)
    desk.answer("b", clip_s=0.01)
    for _ in range(12):
        desk.tell(events.Heard("a", whole=False))
        desk.wait(0.25, "b")
        desk.answer_all("b", clip_s=0.01)
    assert desk.steps() == [0, 1]


@pytest.mark.parametrize("comes_late", [False, True])
@pytest.mark.parametrize(
    ("workers", "rows"),
    [([local("A")], [[0, 1, 2, 3]]), ([local("A"), remote("b")], [[0, 1], [2, 3]])],
    ids=["one", "two"],
)
@pytest.mark.parametrize("credit", [1, 2, 3])
def test_each_worker_gets_one_lease_before_any_gets_the_next_up_to_its_credit(
    credit: int, workers: list[PlayedWorker], rows: list[list[int]], comes_late: bool
) -> None:
    desk = Desk(*workers, credit=credit, slots=4)
    assert not desk.granted, "nobody reads"
    desk.start()
    if comes_late and len(workers) == 1:
        desk = Desk(credit=credit, slots=4, steps=9)
        assert not desk.granted, "nobody is here"
        desk.join(*workers)
    assert places(*desk.granted) == [
        (worker.name, slot, part)
        for slot in range(credit)
        for worker, part in zip(workers, rows, strict=True)
    ]
    assert desk.granted[0].samples == tuple(desk.streams[0].plan[0])[: len(rows[0])]
    desk.answer("A")
    assert places(desk.granted[-1]) == [("A", credit, rows[0])]


def test_a_worker_has_credit_until_it_holds_its_leases_and_again_after_an_answer() -> None:
    desk = Desk(slots=2)
    assert not desk.table.pool.has_credit, "no worker is there"
    desk.join("a")
    assert desk.table.pool.has_credit, "no reader has started"
    desk.start()
    assert not desk.table.pool.has_credit
    desk.answer("a")
    assert desk.table.pool.has_credit, "the reader holds one slot, the other is being filled"
    desk.slot_back(0)
    assert not desk.table.pool.has_credit
    desk.answer("a")
    assert desk.table.pool.has_credit


def test_a_worker_holds_two_more_leases_if_its_files_are_fetched() -> None:
    workers = remote("a", copy="bucket", fetches=True), remote("b", copy="folder")
    desk = Desk(*workers, slots=64, steps=64)
    assert [len(desk.leases[worker]) for worker in desk.workers] == [4, 2]


def test_a_local_worker_fetches_its_files_if_the_stream_does() -> None:
    desk = Desk(local("A"), slots=64, fetched=True, steps=64)
    desk.join(local("B"))
    assert [len(desk.leases[worker]) for worker in "AB"] == [4, 4]


@pytest.mark.parametrize(
    ("fetches", "waited_s", "held"), [(True, 0.004, 4), (True, 0.03, 16), (False, 0.03, 2)]
)
def test_a_worker_that_waits_for_its_storage_gets_more_leases_ahead(
    fetches: bool, waited_s: float, held: int
) -> None:
    """It gets them until it waits no more, up to a bound. With files on its disk it gets none."""
    desk = Desk(remote("a", copy="copy", fetches=fetches), batch=1, slots=99, steps=99)
    for _ in range(40):
        desk.answer("a", clip_s=0.1, waited_s=waited_s)
    assert len(desk.leases["a"]) == held


@pytest.mark.parametrize("hosts", [1, 2, 400])
@pytest.mark.parametrize("are_measured", [False, True])
def test_a_worker_that_joins_a_crowd_costs_no_look_at_each_of_the_others(
    hosts: int, are_measured: bool
) -> None:
    # If it did, a thousand workers that join at once would stop the I/O thread for seconds.
    desk = Desk(local("A"), batch=1, steps=8)
    if are_measured:
        desk.answer_all(clip_s=0.01)
    desk.wait(1, "A")
    workers = [remote(f"worker{n}", host=f"host{n % hosts}") for n in range(400)]
    half = calls(lambda: desk.join(*workers[:200]))
    assert calls(lambda: desk.join(*workers[200:])) < 2 * half


def test_a_slot_that_comes_back_costs_no_look_at_the_workers_of_hosts_without_clips() -> None:
    # If it did, 200 hosts would cost the I/O thread ten times what one costs, at each clip.
    def looks(hosts: int) -> int:
        workers = [remote(f"worker{n}", host=f"host{n}") for n in range(hosts)]
        desk = Desk(*workers, batch=1, slots=hosts, steps=999)
        assert sum(desk.table.pool.would_take(worker) for worker in desk.workers.values()) > 5
        desk.answer_lease(next(lease for lease in desk.granted if lease.slot == 0))
        return calls(lambda: desk.slot_back(0))

    assert looks(200) < 1.5 * looks(20)


def test_a_worker_of_the_own_copy_does_not_wait_for_files_of_others_on_its_host() -> None:
    files = Files(400, has_own=True)
    beside, own = remote("beside", copy="copy", host="x"), remote("own", host="x")
    elsewhere = remote("elsewhere", copy="copy", host="y")
    desk = Desk(beside, own, elsewhere, batch=8, files=files, steps=8)
    assert desk.leases["beside"] == [], "it is not known yet which files it must have"
    assert len(desk.leases["own"]) == 2


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


# How large


def sizes(desk: Desk, *, steps: int = 1) -> list[int]:
    """The clips of each lease of some batches."""
    desk.start(steps=steps)
    leases = desk.answer_all()
    assert are_whole(desk, leases, steps)
    return [len(lease.samples) for lease in leases]


@pytest.mark.parametrize(
    ("clip_s", "batch", "workers", "slots", "longest"),
    [
        (math.inf, 40, 2, 8, 1),  # nobody knows how long a clip takes
        (1.0, 40, 2, 8, 1),
        (0.035, 40, 2, 8, 3),  # 0.1 s of work
        (0.001, 40, 2, 8, 14),  # 16 at most, and all alike
        (5e-324, 33, 1, 8, 11),
        (0.001, 8, 4, 2, 2),  # its share of a batch
        (0.001, 7, 9, 2, 1),
        (0.001, 8, 4, 8, 4),  # ... or of what half of the slots hold, two times
        (0.001, 8, 4, 32, 8),  # never more than the batch
    ],
)
def test_a_lease_is_100_ms_of_work_and_no_more_than_a_workers_share(
    clip_s: float, batch: int, workers: int, slots: int, longest: int
) -> None:
    desk = Desk(*"abcdefghi"[:workers], batch=batch, slots=slots, frame_s=clip_s)
    assert max(sizes(desk, steps=2)) == longest


@pytest.mark.parametrize(("lease_clips", "most"), [(3, 3), (1, 1), (0, 1), (99, 14)])
def test_a_lease_holds_no_more_clips_than_fit_into_a_message(lease_clips: int, most: int) -> None:
    found = sizes(Desk("a", batch=40, lease_clips=lease_clips))
    assert (max(found), sum(found)) == (most, 40)


@pytest.mark.parametrize(
    ("clips", "lease_clips", "clip_s", "expected"),
    [
        (30, 99, 0.002, [30]),  # all come from one video, in one pass over it
        (10, 99, 0.02, [10, 10, 10]),
        (10, 5, 0.002, [5, 5, 5, 5, 5, 5]),  # no more fit into a message
        (30, 99, 0.2, [3] * 10),  # they lie far apart: one worker would take 6 s
        (30, 99, math.inf, [1] * 30),  # nobody knows how long they take
    ],
)
def test_the_clips_of_a_video_are_one_lease(
    clips: int, lease_clips: int, clip_s: float, expected: list[int]
) -> None:
    desk = Desk("a", videos=30, batch=30, lease_clips=lease_clips, clips=clips, frame_s=clip_s)
    assert sizes(desk) == expected


# Which host a clip prefers

NAMES = st.lists(
    st.text("abcxyz012é\udcff", min_size=1, max_size=9), min_size=2, max_size=5, unique=True
)


def preferred(*hosts: str, videos: int = 1000) -> list[str]:
    """The host that decodes each video first, if each name in ``hosts`` is a worker's."""
    workers = [remote(f"w{number}", host=host) for number, host in enumerate(hosts)]
    desk = Desk(*workers, credit=99, videos=videos, batch=videos, slots=1, steps=1)
    host_of = {
        sample.video: str(desk.workers[str(lease.worker)].host)
        for lease in desk.granted
        for sample in lease.samples
    }
    return [host_of[video] for video in range(videos)]


@settings(max_examples=either(10, 100))
@given(NAMES)
def test_a_host_that_leaves_moves_only_its_own_videos_and_each_has_its_share(
    hosts: list[str],
) -> None:
    before, after = preferred(*hosts), preferred(*hosts[1:])
    moved = {old for old, new in zip(before, after, strict=True) if old != new}
    assert moved == {hosts[0]}
    assert preferred(*hosts[::-1]) == before, "whatever the order in which they came"
    for share in Counter(before).values():
        assert share / 1000 == pytest.approx(1 / len(hosts), abs=0.08)


def test_a_host_with_more_workers_wins_videos_and_none_move_between_the_others() -> None:
    before, after = preferred(*"abcdefgh"), preferred(*"abcdefgh", *"aa")
    assert {new for old, new in zip(before, after, strict=True) if old != new} == {"a"}
    assert Counter(after)["a"] / 1000 == pytest.approx(3 / 10, abs=0.05)


def test_a_worker_gets_clips_of_its_host_from_any_open_batch_and_others_once_it_is_idle() -> None:
    desk = Desk(local("A", host="x"), remote("b", host="y"), batch=8, videos=64, steps=8)
    own = preferred(*"xy", videos=64)
    for lease in desk.granted:
        host = desk.workers[str(lease.worker)].host
        assert {own[sample.video] for sample in lease.samples} == {host}
        assert [desk.streams[0].plan[lease.slot][row] for row in lease.rows] == [*lease.samples]
        assert [*lease.rows] == sorted(lease.rows)
    quick = desk.answer_all("b")
    assert len(desk.leases["A"]) == 2
    rows = sorted((g.slot, row) for g in (*desk.leases["A"], *quick) for row in g.rows)
    assert rows == [(slot, row) for slot in range(8) for row in range(8)]
    assert any(own[sample.video] == "x" for lease in quick for sample in lease.samples)


def test_clips_of_unknown_files_are_looked_at_for_each_host_and_not_for_each_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # If each of 800 workers were asked at each event, the I/O thread would do nothing else.
    are_known, looks = Files.are_known, list[Any]()

    def counted(*asked: Any) -> bool:
        looks.append(asked)
        return are_known(*asked)

    monkeypatch.setattr(Files, "are_known", counted)
    workers = [remote(f"w{n}", copy=f"copy{n % 5}", host=f"host{n % 5}") for n in range(50)]
    desk = Desk(*workers, slots=8, files=Files(400, has_own=True), steps=8)
    assert len(looks) < 6 * 8
    desk.identified(*range(64), file=7)
    assert desk.granted
