"""How quick a worker is taken to be, with a simulated clock."""

from __future__ import annotations

import math

import pytest

from videoload.leases.paces import Pace, Paces


def measured(*took_s: float, local: bool = True, trip_s: float = 0.0, clip_s: float = 0.1) -> Pace:
    """The pace of a worker that had leases of one clip, and took so long for each."""
    pace, now = Pace(local=local), 0.0
    for seconds in took_s:
        pace.begins(now)
        granted, now = now, now + trip_s + seconds
        pace.answered(now, granted=granted, decode_s=seconds, clips=1, clip_s=clip_s)
    return pace


def test_a_pace_is_known_after_three_leases_and_guessed_before() -> None:
    assert not measured(0.2, 0.2).is_known
    assert measured(0.2, 0.2).value == 10
    assert measured(0.2, 0.2, 0.2).is_known
    assert measured(0.2, 0.2, 0.2).value == pytest.approx(2)


def test_a_lease_without_a_time_measures_nothing() -> None:
    assert not measured(0.2, 0.2, 0.2, clip_s=math.inf).is_known, "what a clip takes is not known"
    assert not measured(0.0, 0.0, 0.0).is_known


def test_one_long_lease_makes_no_worker_slow_and_two_in_a_row_do() -> None:
    assert measured(*[0.1] * 5, 3.0).value == pytest.approx(1)
    assert measured(*[0.1] * 5, 3.0, 0.1, 3.0, 0.1).value == pytest.approx(1)
    assert measured(*[0.1] * 5, 3.0, 3.0).value == pytest.approx(1 + 29 / 4)
    assert measured(*[0.1] * 5, 0.3).value == pytest.approx(1.5), "no leap"
    assert measured(3.0, 3.0, 3.0).value == pytest.approx(30), "nothing is known of it before"


def test_a_worker_is_no_quicker_than_its_answers_come() -> None:
    pace = Pace(local=True)
    for turn in range(4):
        pace.answered(turn + 1.0, granted=turn, decode_s=0.01, clips=1, clip_s=0.1)
    assert pace.value == pytest.approx(10)


def test_the_way_there_and_back_is_no_work() -> None:
    """It gets more leases, which are on the way meanwhile."""
    far = measured(*[0.1] * 8, local=False, trip_s=1.0)
    assert far.trip_s == pytest.approx(1)
    assert far.value == pytest.approx(1)
    assert far.on_the_way == 20
    assert measured(*[0.1] * 8).on_the_way == 0


def test_a_worker_is_slow_if_it_takes_twice_as_long_as_the_quick_ones() -> None:
    paces = Paces()
    quick, slower, slow = (measured(*[seconds] * 5) for seconds in (0.1, 0.19, 0.21))
    new = Pace(local=True)
    assert not paces.is_slow(new), "as long as nobody is known"
    paces.compare([quick, slower, slow, new])
    slows = [paces.is_slow(pace) for pace in (quick, slower, slow, new)]
    assert slows == [False, False, True, True]


def test_a_slow_worker_gets_no_clip_that_would_hold_up_the_others() -> None:
    """Four quick workers decode 40 clips while it decodes one. Now and then it may try again."""
    paces, quick, slow = Paces(), [measured(*[0.1] * 5) for _ in range(4)], measured(*[1.0] * 5)
    paces.compare([*quick, slow])
    assert paces.would_hold_up(slow, 6.0, 64, is_compared=True)
    assert not paces.would_hold_up(slow, 6.0, 100, is_compared=True), "that many are made ahead"
    assert not paces.would_hold_up(slow, 5.0 + 101, 64, is_compared=True), "it may try"
    assert not paces.would_hold_up(quick[0], 6.0, 1, is_compared=True)
    paces.compare(quick)
    assert paces.would_hold_up(slow, 6.0, 64, is_compared=False)


def test_workers_far_away_hold_more_leases() -> None:
    paces, far = Paces(), measured(*[0.1] * 8, local=False, trip_s=1.0)
    paces.compare([far, far, measured(0.1)])
    assert paces.on_the_way == 2 * far.on_the_way


def test_a_worker_that_waits_for_its_storage_gets_more_leases_ahead() -> None:
    """It gets them until it waits no more, up to a bound. With files on its disk it gets none."""
    near, far, own = (Pace(local=True) for _ in range(3))
    near.fetches = far.fetches = True
    for turn in range(40):
        granted, now = turn * 0.1, turn * 0.1 + 0.1
        for pace, waited_s in ((near, 0.004), (far, 0.03), (own, 0.03)):
            pace.answered(
                now, granted=granted, decode_s=0.1, clips=1, clip_s=0.1, waited_s=waited_s
            )
    assert (near.on_the_way, far.on_the_way, own.on_the_way) == (2, 14, 0)
