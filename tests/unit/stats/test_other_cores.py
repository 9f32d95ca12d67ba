"""The cores that other programs use are what the host spent and this training did not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from videoload.stats import other_cores
from videoload.stats.other_cores import OtherCores


class Host:
    """A host with a clock, a training with workers, and other programs."""

    def __init__(self) -> None:
        self.busy, self.own = 1000.0, 5.0
        self.workers = {7: 3.0}

    def busy_s(self) -> float:
        return self.busy

    def cpu_time(self, pid: int) -> tuple[float, str] | None:
        return (self.workers[pid], "R") if pid in self.workers else None


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host()
    monkeypatch.setattr(other_cores, "host", made)
    monkeypatch.setattr(other_cores, "time", SimpleNamespace(process_time=lambda: made.own))
    return made


def test_what_this_training_spends_is_not_that_of_others(machine: Host) -> None:
    cores = OtherCores()
    assert cores.since(0.0) == 0.0, "nothing is known yet"
    for now in (100.0, 110.0, 120.0, 130.0):
        cores.sample(now, [7])
        assert cores.since(0.0) == pytest.approx(0.0 if now < 120 else 1.5)
        machine.busy += 10 * (0.5 + 1.0 + 1.5)
        machine.own += 10 * 0.5
        machine.workers[7] += 10 * 1.0


def test_a_worker_that_came_or_ended_is_no_other_program(machine: Host) -> None:
    cores = OtherCores()
    for now in (100.0, 110.0, 120.0):
        cores.sample(now, list(machine.workers))
    machine.workers = {9: 4.0}  # it began after the last sample
    machine.busy += 4.0
    cores.sample(130.0, [9])
    assert cores.since(0.0) == pytest.approx(0.0)


def test_a_window_counts_its_own_samples(machine: Host) -> None:
    cores = OtherCores()
    for step in range(8):
        cores.sample(100.0 + 10 * step, [7])
        machine.busy += 20.0 if step < 3 else 5.0
    assert cores.since(0.0) > 0.9
    assert cores.since(140.0) == pytest.approx(0.5)
    assert cores.since(1e9) == pytest.approx(0.5), "the last two samples"
