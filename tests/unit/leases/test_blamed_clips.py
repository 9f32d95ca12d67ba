"""A clip that hangs or crashes its workers is named, and no other clip is.

The workers and the clock are simulated."""

from __future__ import annotations

import random
from functools import partial
from itertools import count, product

import pytest

from tests.support.simulation import RESTART_S, SILENCE_S, STALL_S, How, Simulation
from tests.support.thorough import in_pairs, rest_nightly

VIDEOS = 400  # an epoch
CLIP_S = 0.1
SHARES = {"local": 1.0, "remote": 0.0, "mixed": 0.5}


def add_workers(simulation: Simulation, workers: int, where: str, *, hosts: int = 2) -> None:
    """A share of the workers is local. The others are spread over some hosts."""
    for number in range(workers):
        if number < round(workers * SHARES[where]):
            simulation.add_worker(f"L{number}", CLIP_S, local=True)
        else:
            simulation.add_worker(f"r{number}", CLIP_S, local=False, copy=f"host{number % hosts}")


def named(simulation: Simulation) -> list[str]:
    return sorted(video.path for video in simulation.quarantines[0].videos)


def finish(simulation: Simulation, steps: int, *, at_most_s: float, bad: set[int]) -> None:
    """The epoch ends in time, and has all its clips once except the bad ones."""
    simulation.run_until(lambda: len(simulation.taken) == steps, at_most_s=at_most_s)
    assert named(simulation) == sorted(f"{video}.avi" for video in bad)
    videos = [sample.video for sample in simulation.samples]
    assert not bad & set(videos)
    assert len(videos) == len({sample.origin for sample in simulation.samples})
    assert sum(sample.attempt > 0 for sample in simulation.samples) == len(bad)


@pytest.mark.parametrize(
    ("workers", "where", "how", "batch"),
    in_pairs([1, 2, 3, 8, 32], SHARES, ["sleeps", "crashes", "endless"], [1, 8]),
)
def test_a_clip_that_takes_its_workers_down_is_named_in_time_and_no_other_is(
    workers: int, where: str, how: How, batch: int
) -> None:
    simulation = Simulation(batch=batch, videos=VIDEOS)
    simulation.bad = {37: how}
    add_workers(simulation, workers, where)
    steps = VIDEOS // batch
    simulation.read(steps=steps)
    simulation.run_until(lambda: simulation.met is not None, at_most_s=60)
    took_s = simulation.run_until(
        lambda: bool(named(simulation)), at_most_s=4 * STALL_S + SILENCE_S
    )
    if how == "crashes":
        assert took_s <= 3 * (RESTART_S + 1.0)
    finish(simulation, steps, at_most_s=100, bad={37})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "where", "how", "bad"),
    in_pairs(
        [1, 2, 8], SHARES, ["sleeps", "crashes"], [{3, 4}, {0, 9, 18, 27}, {397, 398, 399}, {399}]
    ),
)
def test_several_of_them_are_all_named_wherever_they_stand(
    workers: int, where: str, how: How, bad: set[int]
) -> None:
    simulation = Simulation(videos=VIDEOS)
    simulation.bad = dict.fromkeys(bad, how)
    add_workers(simulation, workers, where)
    simulation.read(steps=50)
    finish(simulation, 50, at_most_s=60 + len(bad) * 5 * STALL_S, bad=bad)


@pytest.mark.parametrize("workers", [6, 8, 32])
def test_it_costs_no_more_than_five_workers_though_others_replace_none(workers: int) -> None:
    simulation = Simulation(kill_s=10_000.0, videos=VIDEOS)
    simulation.bad = {37: "sleeps"}
    add_workers(simulation, workers, "remote")
    simulation.read(steps=50)
    finish(simulation, 50, at_most_s=100, bad={37})
    assert sum(worker.hangs is not None for worker in simulation.workers.values()) <= 5


@pytest.mark.parametrize("first", rest_nightly(range(0, 400, 50)))
def test_whatever_else_happens_these_clips_are_named_and_no_others(first: int) -> None:
    """Hosts that sleep, lines that break, lost answers, slots, and workers, all at random."""
    for seed in range(first, first + 50):
        draw = random.Random(seed)
        batch, videos = draw.choice([1, 3, 8, 32]), draw.choice([40, 160])
        simulation = Simulation(
            batch=batch, videos=videos, slots=draw.choice([4, 8, 16]),
            ordered=draw.random() < 0.7, kill_s=draw.choice([STALL_S, 30.0]),
        )  # fmt: skip
        hows: list[How] = ["sleeps", "crashes", "endless"]
        bad = draw.sample(range(videos), draw.choice([0, 1, 1, 2]))
        simulation.bad = {video: draw.choice(hows) for video in bad}
        clip_s, local = draw.choice([0.01, 0.1, 0.5]), draw.choice([0.0, 0.0, 0.5, 1.0])
        for number in range(draw.choice([1, 2, 3, 4, 6, 8, 12])):
            name, away_s = f"w{number}", draw.choice([0.0, 0.02])
            if draw.random() < local:
                simulation.add_worker(name, clip_s, local=True)
            else:
                simulation.add_worker(
                    name, clip_s, local=False, copy=f"host{number % 3}", away_s=away_s
                )

        def cut(simulation: Simulation, draw: random.Random) -> None:
            host, away_s = f"host{draw.randrange(3)}", draw.choice([0.5, 3.0, 12.0, 40.0])
            for worker in simulation.workers.values():
                if worker.copy == host:
                    worker.cut_until = simulation.now + away_s
            simulation.after(draw.uniform(20.0, 60.0), partial(cut, simulation, draw))

        if draw.random() < 0.5:
            simulation.after(draw.uniform(1.0, 30.0), partial(cut, simulation, draw))
        simulation.read(steps=-(-videos // batch))
        finish(simulation, -(-videos // batch), at_most_s=600, bad=set(bad))


# In all that follows, no video is at fault


@pytest.mark.parametrize(
    ("workers", "down_s"),
    rest_nightly([(1, 5.0), (2, 100.0), (8, 15.0), *product([1, 2, 8, 32], [1, 5, 15, 100])], 3),
)
def test_a_line_that_breaks_for_all_names_nothing(workers: int, down_s: float) -> None:
    simulation = Simulation(videos=VIDEOS)
    add_workers(simulation, workers, "remote")
    simulation.read()
    for _ in range(3):
        simulation.run(3.0)
        for worker in simulation.workers.values():
            worker.cut_until = simulation.now + down_s
        simulation.run(down_s)
    assert simulation.run(5.0) > 0.8 * min(8, workers) / CLIP_S
    assert not named(simulation)


@pytest.mark.parametrize(
    ("workers", "batch", "where", "down_s"),
    in_pairs([1, 2, 8, 32], [1, 8], SHARES, [300.0, 5.0, 30.0, 1000.0]),
)
def test_storage_that_stands_still_names_nothing(
    workers: int, batch: int, where: str, down_s: float
) -> None:
    simulation = Simulation(batch=batch, videos=VIDEOS)
    add_workers(simulation, workers, where)
    simulation.read()
    simulation.run(2.0)
    simulation.stop_storage()
    simulation.run(down_s)
    assert not named(simulation)
    simulation.start_storage()
    done = len(simulation.taken)
    simulation.run(10.0)
    assert len(simulation.taken) > done
    assert not named(simulation)


@pytest.mark.parametrize("where", rest_nightly(["mixed", "remote"]))
def test_a_host_that_sleeps_again_and_again_names_nothing(where: str) -> None:
    simulation = Simulation(videos=VIDEOS)
    add_workers(simulation, 8, where)
    simulation.read()
    for asleep_s in (1.0, 3.0, 12.0, 40.0, 200.0):
        simulation.run(5.0)
        for worker in simulation.workers.values():
            if worker.copy == "host1":
                worker.cut_until = simulation.now + asleep_s
        simulation.run(asleep_s)
    assert not named(simulation)
    assert len(simulation.taken) > 200


@pytest.mark.parametrize(
    ("dying", "lives_s", "local"),
    in_pairs([(1, 1), (8, 1), (32, 4)], [0.3, 0.0, 0.02], [True, False]),
)
def test_workers_that_die_whatever_they_get_name_nothing(
    dying: tuple[int, int], lives_s: float, local: bool
) -> None:
    flapping, good = dying
    simulation = Simulation(slots=16, videos=VIDEOS)
    for number in range(good):
        simulation.add_worker(f"good{number}", CLIP_S, local=False, copy="good")
    numbers = count()

    def join_and_die() -> None:
        name = f"dying{next(numbers)}"
        simulation.add_worker(name, CLIP_S, local=local, copy=None if local else "good")
        simulation.after(lives_s, lambda: simulation.end_worker(name))
        simulation.after(lives_s + 0.1, join_and_die)

    simulation.run(1.0)
    simulation.read()
    for _ in range(flapping):
        join_and_die()
    assert simulation.run(10.0) > 0.5 * good / CLIP_S
    assert not named(simulation)


@pytest.mark.parametrize("workers", [1, 4])
def test_remote_workers_that_all_die_whatever_they_get_name_nothing(workers: int) -> None:
    simulation = Simulation(videos=VIDEOS)
    simulation.bad = dict.fromkeys(range(VIDEOS), "crashes")
    add_workers(simulation, workers, "remote")
    simulation.read()
    simulation.run(200.0)
    assert simulation.deaths > 50
    assert not named(simulation)


@pytest.mark.parametrize("takes_s", [9.0, 20.0])
@pytest.mark.parametrize("workers", [3, 8])
def test_a_clip_that_takes_long_at_a_remote_worker_is_waited_for(
    workers: int, takes_s: float
) -> None:
    """A worker that decodes it says nothing meanwhile."""
    simulation = Simulation(batch=1, videos=VIDEOS)
    simulation.slow = {37: takes_s}
    add_workers(simulation, workers, "remote")
    simulation.read(steps=VIDEOS)
    finish(simulation, VIDEOS, at_most_s=60, bad=set())
