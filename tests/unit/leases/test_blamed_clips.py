"""A clip that hangs or crashes its workers is named, and no other clip is.

The workers and the clock are simulated."""

from __future__ import annotations

from itertools import count

import pytest

from tests.support.quick import rest_slow
from tests.support.shop import RESTART_S, SILENCE_S, STALL_S, How, Shop

VIDEOS = 400  # an epoch
CLIP_S = 0.1
SHARES = {"local": 1.0, "remote": 0.0, "mixed": 0.5}


def hire(shop: Shop, workers: int, where: str, *, hosts: int = 2) -> None:
    """A share of the workers is local. The others are spread over some hosts."""
    for number in range(workers):
        if number < round(workers * SHARES[where]):
            shop.hire(f"L{number}", CLIP_S, local=True)
        else:
            shop.hire(f"r{number}", CLIP_S, local=False, copy=f"host{number % hosts}")


def named(shop: Shop) -> list[str]:
    return sorted(video.path for video in shop.quarantines[0].videos)


def finish(shop: Shop, steps: int, *, at_most_s: float, bad: set[int]) -> None:
    """The epoch ends in time, and has all its clips once except the bad ones."""
    shop.run_until(lambda: len(shop.taken) == steps, at_most_s=at_most_s)
    assert named(shop) == sorted(f"{video}.avi" for video in bad)
    videos = [sample.video for sample in shop.samples]
    assert not bad & set(videos)
    assert len(videos) == len({sample.origin for sample in shop.samples})
    assert sum(sample.attempt > 0 for sample in shop.samples) == len(bad)


@pytest.mark.parametrize("batch", [1, 8], ids=["one clip a lease", "many"])
@pytest.mark.parametrize("how", ["sleeps", "crashes", "endless"])
@pytest.mark.parametrize("where", ["local", "remote", "mixed"])
@pytest.mark.parametrize("workers", [1, 2, 3, 8, 32])
def test_a_clip_that_takes_its_workers_down_is_named_in_time_and_no_other_is(
    workers: int, where: str, how: How, batch: int
) -> None:
    shop = Shop(batch=batch, videos=VIDEOS)
    shop.bad = {37: how}
    hire(shop, workers, where)
    steps = VIDEOS // batch
    shop.read(steps=steps)
    shop.run_until(lambda: shop.met is not None, at_most_s=60)
    took_s = shop.run_until(lambda: bool(named(shop)), at_most_s=4 * STALL_S + SILENCE_S)
    if how == "crashes":
        assert took_s <= 3 * (RESTART_S + 1.0)
    finish(shop, steps, at_most_s=100, bad={37})


@pytest.mark.slow
@pytest.mark.parametrize("bad", [{3, 4}, {0, 9, 18, 27}, {397, 398, 399}, {399}])
@pytest.mark.parametrize("how", ["sleeps", "crashes"])
@pytest.mark.parametrize("where", ["local", "remote", "mixed"])
@pytest.mark.parametrize("workers", [1, 2, 8])
def test_several_of_them_are_all_named_wherever_they_stand(
    workers: int, where: str, how: How, bad: set[int]
) -> None:
    shop = Shop(videos=VIDEOS)
    shop.bad = dict.fromkeys(bad, how)
    hire(shop, workers, where)
    shop.read(steps=50)
    finish(shop, 50, at_most_s=60 + len(bad) * 5 * STALL_S, bad=bad)


@pytest.mark.parametrize("workers", [6, 8, 32])
def test_it_costs_no_more_than_five_workers_though_others_replace_none(workers: int) -> None:
    shop = Shop(kill_s=10_000.0, videos=VIDEOS)
    shop.bad = {37: "sleeps"}
    hire(shop, workers, "remote")
    shop.read(steps=50)
    finish(shop, 50, at_most_s=100, bad={37})
    assert sum(hand.hangs is not None for hand in shop.hands.values()) <= 5


# In all that follows, no video is at fault


@pytest.mark.parametrize("down_s", [1.0, 5.0, 15.0, 100.0])
@pytest.mark.parametrize("workers", [1, 2, 8, 32])
def test_a_line_that_breaks_for_all_names_nothing(workers: int, down_s: float) -> None:
    shop = Shop(videos=VIDEOS)
    hire(shop, workers, "remote")
    shop.read()
    for _ in range(3):
        shop.run(3.0)
        for hand in shop.hands.values():
            hand.cut_until = shop.now + down_s
        shop.run(down_s)
    assert shop.run(5.0) > 0.8 * min(8, workers) / CLIP_S
    assert not named(shop)


@pytest.mark.parametrize("down_s", rest_slow([300.0, 5.0, 30.0, 1000.0]))
@pytest.mark.parametrize("where", ["local", "remote", "mixed"])
@pytest.mark.parametrize(("workers", "batch"), [(1, 1), (1, 8), (2, 8), (8, 1), (8, 8), (32, 8)])
def test_storage_that_stands_still_names_nothing(
    workers: int, batch: int, where: str, down_s: float
) -> None:
    shop = Shop(batch=batch, videos=VIDEOS)
    hire(shop, workers, where)
    shop.read()
    shop.run(2.0)
    shop.stop_storage()
    shop.run(down_s)
    assert not named(shop)
    shop.start_storage()
    done = len(shop.taken)
    shop.run(10.0)
    assert len(shop.taken) > done
    assert not named(shop)


@pytest.mark.parametrize("where", ["remote", "mixed"])
def test_a_host_that_sleeps_again_and_again_names_nothing(where: str) -> None:
    shop = Shop(videos=VIDEOS)
    hire(shop, 8, where)
    shop.read()
    for asleep_s in (1.0, 3.0, 12.0, 40.0, 200.0):
        shop.run(5.0)
        for hand in shop.hands.values():
            if hand.copy == "host1":
                hand.cut_until = shop.now + asleep_s
        shop.run(asleep_s)
    assert not named(shop)
    assert len(shop.taken) > 200


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("lives_s", rest_slow([0.3, 0.0, 0.02]))
@pytest.mark.parametrize(("flapping", "good"), [(1, 1), (8, 1), (32, 4)])
def test_workers_that_die_whatever_they_get_name_nothing(
    flapping: int, good: int, lives_s: float, local: bool
) -> None:
    shop = Shop(slots=16, videos=VIDEOS)
    for number in range(good):
        shop.hire(f"good{number}", CLIP_S, local=False, copy="good")
    numbers = count()

    def join_and_die() -> None:
        name = f"dying{next(numbers)}"
        shop.hire(name, CLIP_S, local=local, copy=None if local else "good")
        shop.after(lives_s, lambda: shop.fire(name))
        shop.after(lives_s + 0.1, join_and_die)

    shop.run(1.0)
    shop.read()
    for _ in range(flapping):
        join_and_die()
    assert shop.run(10.0) > 0.5 * good / CLIP_S
    assert not named(shop)


@pytest.mark.parametrize("workers", [1, 4])
def test_remote_workers_that_all_die_whatever_they_get_name_nothing(workers: int) -> None:
    shop = Shop(videos=VIDEOS)
    shop.bad = dict.fromkeys(range(VIDEOS), "crashes")
    hire(shop, workers, "remote")
    shop.read()
    shop.run(200.0)
    assert shop.deaths > 50
    assert not named(shop)


@pytest.mark.parametrize("takes_s", [9.0, 20.0])
@pytest.mark.parametrize("workers", [3, 8])
def test_a_clip_that_takes_long_at_a_remote_worker_is_waited_for(
    workers: int, takes_s: float
) -> None:
    """A worker that decodes it says nothing meanwhile."""
    shop = Shop(batch=1, videos=VIDEOS)
    shop.slow = {37: takes_s}
    hire(shop, workers, "remote")
    shop.read(steps=VIDEOS)
    finish(shop, VIDEOS, at_most_s=60, bad=set())
