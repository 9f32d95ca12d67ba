"""What the choices of the lease table cost in time. The workers and the clock are simulated."""

from __future__ import annotations

from collections import Counter
from itertools import count, pairwise, product

import pytest

from tests.support.simulation import Simulation
from tests.support.thorough import either, in_pairs, rest_nightly

# A slow worker


@pytest.mark.parametrize(
    ("slower", "local", "ordered"), in_pairs([2, 10, 100], [True, False], [True, False])
)
def test_a_slow_worker_makes_no_stream_slower_than_it_is_without(
    slower: int, local: bool, ordered: bool
) -> None:
    alone, both = Simulation(ordered=ordered), Simulation(ordered=ordered)
    for simulation in (alone, both):
        simulation.add_worker("good", 1 / 222, local=local)
    both.add_worker("slow", slower / 222, local=local)
    rates = []
    for simulation in (alone, both):
        simulation.read()
        rates.append(simulation.run(40.0))
    assert rates[0] == pytest.approx(222, rel=0.02)
    assert rates[1] > 0.98 * rates[0], f"{rates[1]:.0f} with it, {rates[0]:.0f} without"
    if slower == 10:
        assert both.workers["slow"].clips > 40 * 22.2 / 2, "and it does its part"


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


def test_a_worker_that_was_slow_for_a_while_gets_its_full_share_again() -> None:
    simulation = Simulation()
    simulation.add_worker("good", 1 / 222, local=True)
    simulation.add_worker("late", lambda now: (30 if now < 20 else 1) / 222, local=True)
    simulation.read()
    assert simulation.run(20.0) > 0.95 * 222
    assert simulation.run(40.0) > 1.9 * 222


def test_a_worker_far_away_is_not_taken_for_slow_if_clips_are_quick() -> None:
    # A message takes longer than a clip, as long as a lease is one clip.
    simulation = Simulation(batch=32)
    simulation.add_worker("near", 0.0005, local=True)
    simulation.add_worker("far", 0.0005, local=False)
    simulation.workers["far"].trip_s = 0.003
    simulation.read()
    simulation.run(10.0)
    assert simulation.workers["far"].clips > simulation.workers["near"].clips / 2


@pytest.mark.parametrize("local", [True, False])
def test_no_worker_is_taken_for_slow_since_its_clips_are_longer(local: bool) -> None:
    simulation = Simulation(batch=32, videos=2000, shuffle=True, buckets=(8, 16, 64, 256))
    simulation.add_worker("good", 0.02, local=local)
    simulation.add_worker("slow", 0.1, local=local)
    simulation.read()
    assert simulation.run(200.0) > 0.95 * (50 + 10)


# Far away, and a line that is full


@pytest.mark.parametrize(
    ("away_s", "clip_s"),
    [
        *[(0.25, 0.4), (0.1, 0.05), (0.001, 0.002)],
        *rest_nightly(product([0.25, 0.1, 0.05, 0.02, 0.001], [0.4, 0.05, 0.002]), 0),
    ],
)
def test_a_round_trip_costs_no_throughput(away_s: float, clip_s: float) -> None:
    simulation = Simulation(batch=16, slots=64)
    for i in range(4):
        simulation.add_worker(f"w{i}", clip_s, local=False, away_s=away_s)
    simulation.read()
    assert simulation.run(20.0 + 400 * clip_s) > 0.97 * 4 / clip_s


def test_workers_far_away_and_near_all_get_their_share() -> None:
    simulation = Simulation(batch=16, slots=32)
    simulation.add_worker("local", 0.05, local=True)
    for name, away_s in (("near", 0.001), ("far", 0.05), ("overseas", 0.2)):
        simulation.add_worker(name, 0.05, local=False, away_s=away_s)
    simulation.read()
    assert simulation.run(40.0) > 0.97 * 4 / 0.05
    clips = {name: worker.clips for name, worker in simulation.workers.items()}
    assert min(clips.values()) > 0.9 * max(clips.values()), clips


@pytest.mark.parametrize("workers", rest_nightly([8, 64, 1, 256], 2))
def test_a_full_line_is_full_whatever_the_number_of_workers(workers: int) -> None:
    simulation = Simulation(batch=32, slots=8 + 4 * workers // 32, line=49.0)
    for i in range(workers):
        simulation.add_worker(f"w{i}", 0.05, local=False, away_s=0.001)
    simulation.read()
    assert simulation.run(60.0) > 0.97 * min(49.0, workers / 0.05)
    done = len(simulation.taken) * 32
    assert simulation.granted - done < 49.0 * 3 + 32, "what is out, the line brings in time"
    assert simulation.table.pool.line_is_full is (workers > 8)


def test_a_line_that_gets_wider_is_filled_again() -> None:
    simulation = Simulation(batch=32, slots=40, line=49.0)
    for i in range(64):
        simulation.add_worker(f"w{i}", 0.05, local=False, away_s=0.001)
    simulation.read()
    simulation.run(30.0)
    simulation.line = 1000.0
    assert simulation.run(10.0) > 0.97 * 1000
    assert not simulation.table.pool.line_is_full


def test_workers_that_were_cut_off_get_their_share_again_within_two_seconds() -> None:
    simulation = Simulation(batch=8, slots=40)
    for i in range(16):
        simulation.add_worker(f"w{i}", 0.05, local=False, away_s=0.02)
    simulation.read()
    assert simulation.run(10.0) > 0.97 * 16 / 0.05
    for i in range(8):
        simulation.workers[f"w{i}"].cut_until = simulation.now + 30.0
    simulation.run(5.0)
    assert simulation.run(25.0) > 0.97 * 8 / 0.05
    simulation.run(1.0)
    assert simulation.run(2.0) > 0.97 * 16 / 0.05, "of the second second"


@pytest.mark.parametrize("away_s", [0.6, 1.0, 1.5, 3.0])
def test_a_worker_that_is_cut_off_for_a_moment_is_not_taken_for_slow(away_s: float) -> None:
    """The cut is a hundred times as long as a lease, and there are few slots."""
    simulation = Simulation(batch=4, slots=4)
    for name in ("here", "there"):
        simulation.add_worker(name, 0.005, local=False, away_s=0.001)
    simulation.read()
    simulation.run(1.0)
    simulation.workers["there"].cut_until = simulation.now + away_s
    simulation.run(away_s + 0.5)
    before = simulation.workers["there"].clips
    simulation.run(1.0)
    assert simulation.workers["there"].clips - before > 0.4 / 0.005


def test_a_local_worker_does_not_wait_for_the_line() -> None:
    simulation = Simulation(batch=8, slots=16, line=5.0)
    simulation.add_worker("local", 0.05, local=True)
    for i in range(8):
        simulation.add_worker(f"w{i}", 0.05, local=False)
    simulation.read()
    assert simulation.run(60.0) > 0.8 * 25


# Streams that wait


@pytest.mark.parametrize("readers", [12, 40])
def test_streams_that_all_wait_get_equal_shares(readers: int) -> None:
    simulation = Simulation(batch=4)
    simulation.add_worker("a", 0.01, local=True)
    simulation.add_worker("b", 0.01, local=True)
    for reader in range(readers):
        simulation.read(reader)
    simulation.run(45.0)
    batches = Counter(reader for _, reader in simulation.taken)
    share = len(simulation.taken) / readers
    assert min(batches[reader] for reader in range(readers)) > 0.9 * share
    assert max(batches.values()) < 1.1 * share


# Workers that die by themselves


def test_workers_that_die_and_return_in_a_loop_condemn_no_video() -> None:
    workers = either(16, 64)
    simulation = Simulation(batch=16, slots=24)
    for i in range(workers):
        simulation.add_worker(f"good{i}", 0.1, local=False)
    numbers = count()

    def join_and_die() -> None:
        name = f"dying{next(numbers)}"
        simulation.add_worker(name, 0.1, local=False)
        simulation.after(0.1, lambda: simulation.end_worker(name))
        simulation.after(0.15, join_and_die)

    for _ in range(workers):
        join_and_die()
    simulation.read()
    assert simulation.run(5.0) > 0.9 * workers / 0.1
    assert not simulation.quarantines[0].videos


@pytest.mark.parametrize("workers", rest_nightly([2, 1, 16], 2))
def test_a_video_that_kills_is_found_though_its_workers_come_back_at_once(workers: int) -> None:
    simulation = Simulation(batch=4)
    simulation.bad = {5: "crashes"}
    for i in range(workers):
        simulation.add_worker(f"w{i}", 0.03, local=False)
    simulation.read()
    assert simulation.run(60.0) > 0
    assert [video.path for video in simulation.quarantines[0].videos] == ["5.avi"]
