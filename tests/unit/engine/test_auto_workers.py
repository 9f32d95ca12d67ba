"""How many workers are kept: the last findings decide, and not a single one."""

from __future__ import annotations

import math

import pytest

from videoload.engine.auto_workers import AutoWorkers
from videoload.stats.stats import WorkerRecord
from videoload.stats.verdict import workers_needed
from videoload.stats.waiting import Figures
from videoload.stats.work import Work


def decided(auto: AutoWorkers, have: int, needs: list[float | None], elsewhere: int = 0) -> object:
    """The last decision."""
    return [auto.decide(have, elsewhere, need) for need in needs][-1]


@pytest.mark.parametrize(
    ("need", "kept"), [(0.01, 1), (0.8, 1), (0.9, 2), (2.0, 3), (4.8, None), (9.0, None)]
)
def test_a_quarter_more_than_needed_is_kept(need: float, kept: int | None) -> None:
    assert decided(AutoWorkers(6), 6, [need] * 3) == kept


def test_workers_are_stopped_only_after_three_findings_in_a_row() -> None:
    assert decided(AutoWorkers(6), 6, [1.0] * 2) is None
    assert decided(AutoWorkers(6), 6, [1.0, 1.0, None, 1.0, 1.0]) is None
    assert decided(AutoWorkers(6), 6, [1.0, 4.0, 1.0]) == 5, "the largest of the three"


def test_an_unknown_need_decides_nothing() -> None:
    no_step = Figures(1, 8, 8.0, 1.0, 0.0, demand=math.inf, first_s=1.0, reading_s=1.0)
    worker = WorkerRecord("a:1", "a", 1, True, "idle", "", Work(clips=8, leases=1, busy_s=1.0))
    need = workers_needed(no_step, [worker])
    assert decided(AutoWorkers(6), 6, [need] * 9) is None
    assert decided(AutoWorkers(6), 6, [1.0, 1.0, need, 1.0, 1.0]) is None


def test_a_decision_clears_the_findings() -> None:
    auto = AutoWorkers(6)
    assert decided(auto, 6, [1.0] * 3) == 2
    assert decided(auto, 2, [1.0] * 9) is None


def test_stopped_workers_are_started_again_up_to_the_maximum() -> None:
    auto = AutoWorkers(6)
    assert decided(auto, 2, [3.0, 3.0]) is None
    assert decided(auto, 2, [3.0]) == 4
    assert decided(auto, 4, [100.0] * 3) == 6


def test_workers_on_other_hosts_count_and_one_stays_here() -> None:
    assert decided(AutoWorkers(4), 4, [4.0] * 3, elsewhere=3) == 2
    assert decided(AutoWorkers(4), 4, [4.0] * 3, elsewhere=50) == 1
