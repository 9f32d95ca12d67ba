"""How quick a worker is taken to be, and how much the workers are asked for at once."""

from __future__ import annotations

import pytest

from tests.support.desk import Desk

MB = 1 << 20
CLIP_MB = 8


class Measured:
    """A worker beside "A", which says that a clip takes 0.1 s."""

    def __init__(
        self, *took_s: float, worker: str = "B", trip_s: float = 0.0, came_s: float = 0.0,
        credit: int = 1,
    ) -> None:  # fmt: skip
        """It says that its clips took so long. The answers come after that, and a round trip, or
        even later."""
        self.desk = desk = Desk("A", worker, credit=credit, batch=1, slots=999, videos=999)
        desk.start(steps=999)
        for seconds in took_s:
            for _ in range(40):
                desk.answer("A", clip_s=0.1)
            desk.now += max(seconds + trip_s, came_s)
            desk.heard("A", worker)
            desk.table.tick(desk.now)
            desk.answer(worker, clip_s=seconds)
        desk.wait(0.25, "A", worker)
        self.pace = desk.workers[worker].pace.value
        self.holds = len(desk.leases[worker])


def test_a_pace_is_known_after_three_leases_and_guessed_before() -> None:
    assert Measured(0.2, 0.2).pace == 10
    assert Measured(0.2, 0.2, 0.2).pace == pytest.approx(2, rel=0.01)
    assert Measured(0.0, 0.0, 0.0).pace == 10, "that measures nothing"


@pytest.mark.parametrize(
    ("took_s", "pace"),
    [
        ([*[0.1] * 5, 3.0], 1),
        ([*[0.1] * 5, 3.0, 0.1, 3.0, 0.1], 1),
        ([*[0.1] * 5, 3.0, 3.0], 1 + 29 / 4),
        ([*[0.1] * 5, 0.3], 1.5),  # no leap
        ([3.0, 3.0, 3.0], 30),  # nothing is known of it before
        ([0.1] * 3, 1),
    ],
)
def test_one_long_lease_makes_no_worker_slow_and_two_in_a_row_do(
    took_s: list[float], pace: float
) -> None:
    assert Measured(*took_s).pace == pytest.approx(pace, rel=0.02)


def test_a_worker_is_no_quicker_than_its_answers_come() -> None:
    assert Measured(*[0.01] * 4, came_s=1.0).pace == pytest.approx(10, rel=0.02)


@pytest.mark.parametrize(("took_s", "holds"), [(0.1, 2), (0.19, 2), (0.21, 1)])
def test_a_worker_that_takes_twice_as_long_as_the_quick_ones_has_one_lease_at_a_time(
    took_s: float, holds: int
) -> None:
    assert Measured(*[took_s] * 5, credit=2).holds == holds


@pytest.mark.parametrize(
    ("trip_ms", "lease_ms", "more"),
    [
        *[(0.3, 50, 0), (10, 50, 0), (20, 50, 1), (50, 50, 2), (100, 50, 4), (100, 400, 0)],
        *[(1, 2, 1), (1000, 100, 20), (10_000, 1e-6, 32), (10_000, 0, 0)],
    ],
)
def test_a_worker_holds_twice_what_fills_a_round_trip(
    trip_ms: float, lease_ms: float, more: int
) -> None:
    """It holds no more than a socket has room for, and no more before it is measured."""
    far = Measured(*[lease_ms / 1000] * 8, worker="b", trip_s=trip_ms / 1000)
    assert far.holds == 1 + more


@pytest.mark.parametrize(
    ("slots", "holds", "later"),
    [(64, 0, 1), (100, 1, 1)],  # what is made ahead lasts while it decodes a clip, or does not
)
def test_a_slow_worker_gets_no_clip_that_would_hold_up_the_others(
    slots: int, holds: int, later: int
) -> None:
    """Four quick workers decode 40 clips while it decodes one. Now and then it may try again."""
    desk = Desk(*"ABCDe", credit=1, batch=1, slots=slots, ordered=False, steps=4000, videos=4000)
    for turn in range(60):
        desk.now += 0.1
        desk.heard(*"ABCDe")
        desk.answer(*"ABCD", clip_s=0.1)
        if turn % 10 == 9 and desk.leases["e"]:
            desk.answer("e", clip_s=1.0)
        desk.table.tick(desk.now)
        desk.slot_back(*desk.steps())
        desk.ready.clear()
        desk.want()
    assert len(desk.leases["e"]) == holds
    desk.wait(101, *"ABCDe")
    desk.answer("A", clip_s=0.1)
    assert len(desk.leases["e"]) == later


# All remote workers share one line


class Line:
    """Many remote workers, each of which is asked for a clip of eight megabytes."""

    def __init__(self) -> None:
        workers = [f"w{number}" for number in range(80)]
        self.desk = Desk(
            *workers, credit=1, batch=1, slots=200, videos=9999, clip_bytes=CLIP_MB * MB, steps=9999
        )
        self.desk.wait(1, *workers)

    def brings(self, mb_a_second: int, seconds: int, work_s: float = 0.0) -> int:
        """So much comes in each second. Returns how much is asked for then."""
        for _ in range(4 * seconds):
            self.desk.now += 0.25
            self.desk.heard(*self.desk.workers)
            for lease in self.desk.granted[: mb_a_second // 4 // CLIP_MB]:
                self.desk.answer_lease(lease, work_s)
            self.desk.slot_back(*self.desk.steps())
            self.desk.ready.clear()
            self.desk.want()
        return self.asked_mb

    @property
    def asked_mb(self) -> int:
        return CLIP_MB * len(self.desk.granted)


def test_until_something_came_the_line_is_taken_for_a_gigabit_and_after_a_pause_again() -> None:
    line = Line()
    assert line.asked_mb == 128
    assert line.brings(384, 3) > 300
    line.desk.wait(12, *line.desk.workers)
    assert line.brings(32, 1) < 384
    assert line.desk.table.pool.line_is_full
    line.desk.join("L")
    assert line.desk.leases["L"], "it needs no line"


@pytest.mark.parametrize(("mb_a_second", "work_s"), [(192, 0.0), (384, 0.0), (256, 1.0)])
def test_what_is_asked_for_is_what_comes_in_the_time_of_the_work_and_a_second(
    mb_a_second: int, work_s: float
) -> None:
    asked = Line().brings(mb_a_second, 8, work_s)
    assert asked == pytest.approx(mb_a_second * (1 + work_s), rel=0.1)


def test_a_slower_line_is_believed_after_ten_seconds_and_a_quicker_one_at_once() -> None:
    line = Line()
    line.brings(384, 3)
    assert line.brings(192, 6) > 360
    assert line.brings(192, 6) == pytest.approx(192, rel=0.1)
    assert line.brings(500, 2) > 400


def test_what_a_silent_worker_owes_takes_no_room() -> None:
    desk = Desk("a", credit=99, batch=32, slots=99, clip_bytes=2 * MB, steps=99)
    assert len(desk.granted) > 3
    desk.join("b")
    assert not desk.leases["b"], "the line is full"
    desk.wait(2.25, "b")
    assert desk.leases["b"]
