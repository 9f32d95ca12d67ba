"""How long readers waited, and how fast they would read, computed from made-up times."""

from __future__ import annotations

import math
from typing import Any

import pytest

from videoload.stats.waiting import Figures, Taken, figures


def run(*waits_and_steps: tuple[float, float], reader: int = 0, began: float = 0.0) -> list[Taken]:
    """A reader that waits and steps in turn, for batches of 8 clips."""
    taken, now = [], began
    for wait, step in waits_and_steps:
        taken.append(Taken(reader, now, now + wait, 8))
        now += wait + step
    return taken


def of(taken: list[Taken]) -> Any:
    """(clips_per_s, wait_share) when all is over."""
    found = figures(taken, {}, 1e6)
    return found.clips_per_s, found.wait_share


def test_time_counts_from_the_first_request_to_the_last_batch() -> None:
    assert of(run((2, 6), (0, 1), (1, 1000))) == pytest.approx((2.4, 0.3))


def test_time_without_a_reader_does_not_count() -> None:
    once = run(*[(0.1, 0.1)] * 10)
    later = run(*[(0.1, 0.1)] * 10, reader=1, began=3600.0)
    assert of(once + later) == pytest.approx(of(once))


@pytest.mark.parametrize("pause_s", [2.0, 3600.0])
def test_a_pause_between_two_batches_is_no_training(pause_s: float) -> None:
    steps = [(0.1, 0.1)] * 10
    whole = run(*steps[:-1], (0.1, pause_s), *steps)
    # Only the step that the pause replaced is missing.
    assert of(whole) == pytest.approx((160 / 3.8, 2.0 / 3.8))


def test_if_one_step_in_eight_is_long_it_is_not_a_pause() -> None:
    """Eight batches are taken together, and then trained on for 2 s."""
    _, share = of(run(*([*[(0.1, 0.0)] * 7, (0.1, 2.0)] * 20)))
    assert share == pytest.approx(16 / 54)


def test_steps_of_under_a_second_are_never_pauses() -> None:
    assert of(run(*[(0.0, 0.001)] * 50, (0.0, 0.95), (0.05, 0))) == pytest.approx(
        (52 * 8 / 1.05, 0.05 / 1.05)
    )


def test_two_readers_that_each_wait_half_of_the_time_wait_half_of_the_time() -> None:
    both = run(*[(1, 1)] * 9, (1, 0)) + run(*[(1, 1)] * 9, (1, 0), reader=1, began=1.0)
    rate, share = of(sorted(both, key=lambda taken: taken.got))
    assert share == pytest.approx(10 / 19)
    assert rate == pytest.approx(160 / 20)  # of both, in the time of one


def test_a_wait_that_goes_on_counts() -> None:
    taken = run(*[(0.0, 1.0)] * 9)
    assert figures(taken, {0: 9.0}, 9.0).wait_share == 0.0
    stalled = figures(taken, {0: 9.0}, 21.0)
    assert [stalled.wait_share, stalled.stalled_s] == pytest.approx([12 / 21, 12])
    assert stalled.clips_per_s == pytest.approx(72 / 21)


def test_a_window_counts_the_batches_that_came_in_it() -> None:
    taken = run(*[(1.0, 0.0)] * 10, *[(0.0, 1.0)] * 10, (0.0, 0.0))
    recent = figures(taken, {}, 20.0, since=15.0)
    assert (recent.batches, recent.clips) == (5, 40)
    assert [recent.clips_per_s, recent.wait_share] == pytest.approx([8, 0])
    half = figures(taken, {0: 20.0}, 25.0, since=15.0)
    assert half.wait_share == pytest.approx(0.5)
    assert figures(taken, {0: 20.0}, 32.0, since=31.0).stalled_s == 12.0


def test_without_batches_all_figures_are_zero() -> None:
    assert figures([], {}, 5.0) == Figures(0, 0, 0.0, 0.0, 0.0)


def test_the_demand_of_readers_does_not_depend_on_their_waiting() -> None:
    for wait_s in (0.0, 0.1, 3.0):
        found = figures(run(*[(wait_s, 0.5)] * 10, (wait_s, 0.0)), {}, 1e6)
        assert found.demand == pytest.approx(88 / 5)
    both = run(*[(1, 1)] * 9, (1, 0)) + run(*[(1, 1)] * 9, (1, 0), reader=1)
    assert figures(both, {}, 1e6).demand == pytest.approx(2 * 80 / 9), "of both readers"
    assert figures(run(*[(1, 0)] * 9), {}, 1e6).demand == math.inf


def test_waiting_for_first_batches_is_counted_separately() -> None:
    found = figures(run((5.0, 1.0), *[(0.0, 1.0)] * 4, (0.0, 0.0)), {}, 1e6)
    assert (found.first_s, found.wait_share, found.later_share) == (5.0, 0.5, 0.0)
    anew = run((1.0, 1.0), (0.5, 0.0)) + run((1.0, 1.0), (0.5, 0.0), reader=1, began=10.0)
    assert figures(anew, {}, 1e6).first_s == 2.0
    assert figures(anew, {}, 1e6).later_share == pytest.approx(1 / 3)
    assert figures(run((1.0, 0.0)), {}, 1e6).later_share == 0.0
