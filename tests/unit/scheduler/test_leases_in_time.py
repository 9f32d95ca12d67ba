"""What the choices of the scheduler cost in time. The workers and the clock are simulated."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import pairwise, product

import pytest

from tests.support.simulation import Simulation
from tests.support.thorough import either, in_pairs, rest_nightly


def simulated(
    *clip_s: float, local: bool = False, away_s: float = 0.0, **options: object
) -> Simulation:
    """Workers "0", "1" ... of these speeds, and a stream that they all decode."""
    simulation = Simulation(**options)  # type: ignore[arg-type]
    for number, seconds in enumerate(clip_s):
        simulation.add_worker(str(number), seconds, local=local, away_s=away_s)
    simulation.read()
    return simulation


# A slow worker


@pytest.mark.parametrize(
    ("slower", "local", "ordered"), in_pairs([2, 10, 100], [True, False], [True, False])
)
def test_a_slow_worker_makes_no_stream_slower_than_it_is_without(
    slower: int, local: bool, ordered: bool
) -> None:
    alone = simulated(1 / 222, local=local, ordered=ordered).run(40.0)
    assert alone == pytest.approx(222, rel=0.02)
    both = simulated(1 / 222, slower / 222, local=local, ordered=ordered)
    assert both.run(40.0) > 0.98 * alone
    if slower == 10:
        assert both.workers["1"].clips > 40 * 22.2 / 2, "and it does its part"


@pytest.mark.parametrize(
    ("local", "remote", "line"), [(1, 16, 20.0), (4, 16, 20.0), (2, 16, 100.0)]
)
def test_workers_behind_a_slow_line_make_no_stream_slower(
    local: int, remote: int, line: float
) -> None:
    """Most of the workers are slow then, and do little of the work."""

    def clips_s(remote: int) -> float:
        simulation = Simulation(batch=16, slots=8 + (local + remote) // 4, line=line, videos=4000)
        for number in range(local):
            simulation.add_worker(f"L{number}", 0.02, local=True)
        for number in range(remote):
            host = f"host{number // 4}"
            simulation.add_worker(f"r{number}", 0.02, local=False, away_s=0.001, host=host)
        simulation.read()
        return simulation.run(20.0)

    assert clips_s(remote) > 0.95 * clips_s(0)


def test_a_remote_worker_that_beats_and_never_answers_delays_no_batch() -> None:
    # It becomes a thousand times slower. A local one would have to end before others may write.
    simulation = Simulation()
    simulation.add_worker("good", 1 / 222, local=True)
    simulation.add_worker("stuck", lambda now: (1 if now < 20 else 1000) / 222, local=False)
    simulation.read()
    assert simulation.run(20.0) > 1.9 * 222
    assert simulation.run(60.0) > 0.98 * 222
    waits = [after - before for (before, _), (after, _) in pairwise(simulation.taken)]
    assert max(waits) < 1.0


@pytest.mark.parametrize("local", [True, False])
def test_no_worker_is_taken_for_slow_since_its_clips_are_longer(local: bool) -> None:
    simulation = simulated(
        0.02, 0.1, local=local, batch=32, videos=2000, shuffle=True, buckets=(8, 16, 64, 256)
    )
    assert simulation.run(200.0) > 0.95 * (50 + 10)


@pytest.mark.parametrize("workers", [32, 64])
def test_slots_that_grow_keep_workers_busy_that_come_later(workers: int) -> None:
    simulation = simulated(*[0.05] * workers, away_s=0.002, batch=8, grows=True, videos=4000)
    assert simulation.run(8.0) > 0.9 * workers / 0.05


@pytest.mark.parametrize("workers", [8, 32])
def test_the_first_batch_comes_early_though_workers_dial_in_one_by_one(workers: int) -> None:
    simulation = simulated(1.0, batch=32)
    for number in range(1, workers):
        join = partial(simulation.add_worker, str(number), 1.0, local=False)
        simulation.after(number / workers, join)
    assert simulation.run_until(lambda: bool(simulation.taken), at_most_s=40) < 2 + 32 / workers


# Far away, and a line that is full


@pytest.mark.parametrize(
    ("away_s", "clip_s"),
    [
        *[(0.25, 0.4), (0.1, 0.05), (0.001, 0.002)],
        *rest_nightly(product([0.25, 0.1, 0.05, 0.02, 0.001], [0.4, 0.05, 0.002]), 0),
    ],
)
def test_a_round_trip_costs_no_throughput(away_s: float, clip_s: float) -> None:
    simulation = simulated(*[clip_s] * 4, away_s=away_s, batch=16, slots=64)
    assert simulation.run(20.0 + 400 * clip_s) > 0.97 * 4 / clip_s


def test_workers_far_away_and_near_all_get_their_share() -> None:
    simulation = Simulation(batch=16, slots=32)
    simulation.add_worker("local", 0.05, local=True)
    for name, away_s in (("near", 0.001), ("far", 0.05), ("overseas", 0.2)):
        simulation.add_worker(name, 0.05, local=False, away_s=away_s)
    simulation.read()
    assert simulation.run(40.0) > 0.97 * 4 / 0.05
    clips = [worker.clips for worker in simulation.workers.values()]
    assert min(clips) > 0.9 * max(clips)


@pytest.mark.parametrize("workers", rest_nightly([8, 64, 1, 256], 2))
def test_a_full_line_is_full_whatever_the_number_of_workers(workers: int) -> None:
    simulation = simulated(
        *[0.05] * workers, away_s=0.001, batch=32, slots=8 + 4 * workers // 32, line=49.0
    )
    assert simulation.run(60.0) > 0.97 * min(49.0, workers / 0.05)
    done, least = len(simulation.taken) * 32, 2 * workers + 32  # each has two leases of a clip
    assert simulation.granted - done < max(49.0 * 6, least), "what is out, the line brings in time"


@pytest.mark.parametrize("away_s", [0.6, 1.0, 1.5, 3.0])
def test_a_worker_that_is_cut_off_for_a_moment_is_not_taken_for_slow(away_s: float) -> None:
    """The cut is a hundred times as long as a lease, and there are few slots."""
    simulation = simulated(0.005, 0.005, away_s=0.001, batch=4, slots=4)
    simulation.run(1.0)
    there = simulation.workers["1"]
    simulation.cut(there, away_s)
    simulation.run(away_s + 0.5)
    before = there.clips
    simulation.run(1.0)
    assert there.clips - before > 0.4 / 0.005


# Streams that wait, clips that kill, hosts that keep what they decoded


@pytest.mark.parametrize("readers", [12, 40])
def test_streams_that_all_wait_get_equal_shares(readers: int) -> None:
    simulation = simulated(0.01, 0.01, local=True, batch=4)
    for reader in range(1, readers):
        simulation.read(reader)
    simulation.run(45.0)
    batches = Counter(reader for _, reader in simulation.taken)
    share = len(simulation.taken) / readers
    assert min(batches[reader] for reader in range(readers)) > 0.9 * share
    assert max(batches.values()) < 1.1 * share


EPOCHS, VIDEOS = 10, either(800, 1600)


class Told:
    """What ten epochs show. Clips that a host has kept are ten times as quick."""

    def __init__(
        self, *hosts: tuple[int, float], has_names: bool = True, kept: float = 0.1
    ) -> None:
        """``hosts``: the number of workers, and their speed."""
        simulation = Simulation(batch=32, shuffle=True, videos=VIDEOS, kept=kept)
        for number, (workers, speed) in enumerate(hosts):
            for i in range(workers):
                simulation.add_worker(
                    f"{number}.{i}", 0.02 / speed, local=number == 0, away_s=0.001,
                    host=f"host{number}" if has_names else None, store=f"host{number}",
                )  # fmt: skip
        steps = VIDEOS // 32
        simulation.read(steps=EPOCHS * steps)
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


@pytest.mark.parametrize("hosts", rest_nightly([[(2, 2), (2, 1)], [(4, 1)] * 4]))
def test_preference_costs_nothing_if_nothing_is_kept(hosts: Sequence[tuple[int, float]]) -> None:
    assert Told(*hosts, kept=1).took_s < 1.02 * Told(*hosts, kept=1, has_names=False).took_s
