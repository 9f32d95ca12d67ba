"""Which clips a worker is granted, if workers of several hosts are connected."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.support.desk import Desk, grants
from tests.support.simulation import Simulation
from tests.support.thorough import either, rest_nightly
from videoload.leases.affinity import best, keys
from videoload.leases.commands import Grant

EPOCHS, VIDEOS = 10, either(800, 1600)
CLIP_S = 0.02


def preferred(video: int, *hosts: str) -> str:
    return hosts[int(best(keys([str(video)]), keys(hosts), np.ones(len(hosts)))[0])]


def hosts_of(lease: Grant, *hosts: str) -> set[str]:
    return {preferred(sample.video, *hosts) for sample in lease.samples}


def test_a_worker_gets_the_clips_that_prefer_its_host_from_any_open_batch() -> None:
    desk = Desk("x/A", "y/b", batch=8)
    for lease in grants(desk.start()):
        assert hosts_of(lease, "x", "y") == {str(lease.worker)[0]}
        planned = desk.plans[0][lease.slot]
        assert [planned[row] for row in lease.rows] == list(lease.samples)
        assert list(lease.rows) == sorted(lease.rows)


def test_the_workers_of_one_host_get_consecutive_clips() -> None:
    desk = Desk("x/A", "x/b", batch=8)
    assert all(isinstance(lease.rows, range) for lease in desk.decode_all(*desk.start()))


@pytest.mark.parametrize("hosts", [2, 3])
def test_all_clips_are_decoded_once_whoever_decodes_them(hosts: int) -> None:
    desk = Desk(*(f"{host}/w{n}" for host in "xyz"[:hosts] for n in range(2)), batch=7, videos=56)
    leases = desk.decode_all(*desk.start(steps=range(8)))
    places = sorted((g.slot, row) for g in leases for row in g.rows)
    assert places == [(slot, row) for slot in range(8) for row in range(7)]
    assert [desk.ready[10, step].samples for step in range(8)] == [
        tuple(desk.plans[0][step]) for step in range(8)
    ]


def test_an_idle_worker_takes_what_prefers_another_host() -> None:
    desk = Desk("x/a", "y/b", batch=8)
    first = grants(desk.start(steps=range(8)))
    slow = [lease for lease in first if lease.worker == "x/a"]
    quick = desk.decode_all(*[lease for lease in first if lease.worker == "y/b"])
    assert desk.table.pool.held("x/a") == 2
    rows = [(lease.slot, row) for lease in (*slow, *quick) for row in lease.rows]
    assert sorted(rows) == [(slot, row) for slot in range(8) for row in range(8)]
    assert any("x" in hosts_of(lease, "x", "y") for lease in quick)


def test_the_clips_of_a_host_that_left_go_to_the_others() -> None:
    desk = Desk("x/a", "y/b", batch=8, slots=2)
    leases = grants(desk.start(steps=range(2)))
    leases += grants(desk.die("x/a"))
    desk.decode_all(*[lease for lease in leases if lease.worker == "y/b"])
    assert len(desk.ready) == 2


# Simulated: what hosts keep


class Told:
    """What a simulation of ten epochs shows. Clips that a host has kept are ten times as quick."""

    def __init__(
        self, *hosts: tuple[int, float], has_names: bool = True, kept: float = 0.1
    ) -> None:
        """``hosts``: the number of workers, and their speed."""
        simulation = Simulation(batch=32, shuffle=True, videos=VIDEOS, kept=kept)
        for number, (workers, speed) in enumerate(hosts):
            for i in range(workers):
                simulation.add_worker(
                    f"{number}.{i}", CLIP_S / speed, local=number == 0, away_s=0.001,
                    host=f"host{number}" if has_names else None, store=f"host{number}",
                )  # fmt: skip
        simulation.read(steps=EPOCHS * (VIDEOS // 32))
        steps = VIDEOS // 32
        simulation.run_until(lambda: len(simulation.taken) >= steps, at_most_s=1e4)
        first = simulation.from_store
        simulation.run_until(lambda: len(simulation.taken) >= EPOCHS * steps, at_most_s=1e4)
        self.took_s = simulation.now
        self.shares = [len(simulation.stores[f"host{n}"]) / VIDEOS for n in range(len(hosts))]
        self.from_store = (simulation.from_store - first) / ((EPOCHS - 1) * steps * 32)


def test_each_of_two_hosts_keeps_its_half_and_nine_clips_in_ten_come_from_a_store() -> None:
    told, before = Told((2, 1), (2, 1)), Told((2, 1), (2, 1), has_names=False)
    assert max(told.shares) < 0.6
    assert told.from_store > 0.9
    assert min(before.shares) > 0.95
    assert told.took_s < 0.85 * before.took_s


def test_a_host_with_more_workers_keeps_more_and_little_is_kept_twice() -> None:
    told = Told((4, 1), (2, 1))
    assert told.shares[0] > 1.5 * told.shares[1]
    assert sum(told.shares) < 1.35
    assert told.from_store > 0.95


@pytest.mark.parametrize("hosts", rest_nightly([[(2, 2), (2, 1)], [(4, 1)] * 4]))
def test_preference_costs_nothing_if_nothing_is_kept(hosts: Sequence[tuple[int, float]]) -> None:
    assert Told(*hosts, kept=1).took_s < 1.02 * Told(*hosts, kept=1, has_names=False).took_s
