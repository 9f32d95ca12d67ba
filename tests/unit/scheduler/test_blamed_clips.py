"""A clip that hangs or crashes its workers is named, and no other clip is.

The workers and the clock are simulated."""

from itertools import count

import pytest

from tests.support.desk import SILENCE_S, STALL_S
from tests.support.simulation import RESTART_S, How, Simulation
from tests.support.thorough import in_pairs

VIDEOS = 400  # an epoch
CLIP_S = 0.1
SHARES = {"local": 1.0, "remote": 0.0, "mixed": 0.5}
HOWS: list[How] = ["sleeps", "crashes", "endless"]


def simulated(workers: int, where: str, steps: int = 10_000, **options: object) -> Simulation:
    """A share of the workers is local. The others are spread over two hosts."""
    simulation = Simulation(**{"videos": VIDEOS, **options})  # type: ignore[arg-type]
    for number in range(workers):
        local = number < round(workers * SHARES[where])
        copy = None if local else f"host{number % 2}"
        simulation.add_worker(f"w{number}", CLIP_S, local=local, copy=copy)
    simulation.read(steps=steps)
    return simulation


def named(simulation: Simulation) -> set[int]:
    return set(simulation.streams[0].quarantine.reasons)


def finish(simulation: Simulation, *, at_most_s: float) -> None:
    """The epoch ends in time, and has all its clips once except the bad ones."""
    consumer = simulation.consumers[0]
    simulation.run_until(lambda: len(consumer.taken) == len(consumer.steps), at_most_s=at_most_s)
    assert named(simulation) == set(simulation.bad)
    assert not set(simulation.bad) & {sample.video for sample in simulation.samples}
    assert len(simulation.samples) == len({sample.origin for sample in simulation.samples})
    assert sum(sample.substitution > 0 for sample in simulation.samples) == len(simulation.bad)


@pytest.mark.parametrize(
    ("workers", "where", "how", "batch"), in_pairs([1, 2, 3, 8, 32], SHARES, HOWS, [1, 8])
)
def test_a_clip_that_takes_its_workers_down_is_named_in_time_and_no_other_is(
    workers: int, where: str, how: How, batch: int
) -> None:
    simulation = simulated(workers, where, VIDEOS // batch, batch=batch)
    simulation.bad = {37: how}
    simulation.run_until(lambda: simulation.met is not None, at_most_s=60)
    limit_s = 3 * (RESTART_S + 1.0) if how == "crashes" else 4 * STALL_S + SILENCE_S
    simulation.run_until(lambda: bool(named(simulation)), at_most_s=limit_s)
    finish(simulation, at_most_s=100)


@pytest.mark.parametrize("workers", [6, 8, 32])
def test_it_costs_no_more_than_five_workers_though_others_replace_none(workers: int) -> None:
    simulation = simulated(workers, "remote", 50, kill_s=10_000.0)
    simulation.bad = {37: "sleeps"}
    finish(simulation, at_most_s=100)
    assert sum(worker.hangs is not None for worker in simulation.workers.values()) <= 5


# In all that follows, no video is at fault


@pytest.mark.parametrize(
    ("workers", "where", "down_s"),
    in_pairs([2, 1, 8], ["remote", "one host"], [5.0, 15.0, 100.0]),
)
def test_a_line_that_breaks_again_and_again_names_nothing(
    workers: int, where: str, down_s: float
) -> None:
    simulation = simulated(workers, "remote")
    for _ in range(3):
        simulation.run(3.0)
        for worker in simulation.workers.values():
            if where == "remote" or worker.known.copy == "host1":
                simulation.cut(worker, down_s)
        simulation.run(down_s)
    assert simulation.run(5.0) > 0.8 * min(8, workers) / CLIP_S
    assert not named(simulation)


@pytest.mark.parametrize(
    ("workers", "batch", "where", "down_s"),
    in_pairs([1, 2, 8, 32], [1, 8], SHARES, [300.0, 5.0, 30.0]),
)
def test_storage_that_stands_still_names_nothing(
    workers: int, batch: int, where: str, down_s: float
) -> None:
    simulation = simulated(workers, where, batch=batch)
    simulation.run(2.0)
    simulation.stop_storage()
    simulation.run(down_s)
    assert not named(simulation)
    simulation.start_storage()
    done = len(simulation.taken)
    simulation.run(10.0)
    assert len(simulation.taken) > done
    assert not named(simulation)


@pytest.mark.parametrize(
    ("dying", "lives_s", "local"),
    in_pairs([(1, 1), (8, 1), (16, 4)], [0.3, 0.0, 0.02], [True, False]),
)
def test_workers_that_die_whatever_they_get_name_nothing(
    dying: tuple[int, int], lives_s: float, local: bool
) -> None:
    flapping, good = dying
    simulation = Simulation(slots=24, videos=VIDEOS)
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
    assert simulation.run(6.0) > 0.5 * good / CLIP_S
    assert not named(simulation)


@pytest.mark.parametrize("worked_s", [0.0, 3.0])
def test_remote_workers_that_all_die_whatever_they_get_name_nothing(worked_s: float) -> None:
    simulation = simulated(4, "remote")
    simulation.run(worked_s)
    simulation.bad = dict.fromkeys(range(VIDEOS), "crashes")
    simulation.run(60.0)
    assert simulation.deaths > 50
    assert not named(simulation)
