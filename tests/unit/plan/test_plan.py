"""The plan: every sample of an epoch once, by random access, and the same for ever."""

from __future__ import annotations

import itertools
import re
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.chances import chi_square
from tests.support.thorough import either
from videoload.catalog.catalog import Catalog
from videoload.catalog.joining import mix
from videoload.clips.clip_spec import ClipSpec
from videoload.errors import SpecError
from videoload.plan.options import StreamOptions
from videoload.plan.plan import Plan, Pool, Sample, check_lengths

patient = settings(deadline=None, max_examples=either(40, 100))


def options(**changes: Any) -> StreamOptions:
    """The default options, but shuffled and in batches of 4."""
    default: dict[str, Any] = {
        "batch_size": 4,
        "shuffle": True,
        "seed": 0,
        "shard": (0, 1),
        "drop_remainder": True,
        "ordered": True,
        "on_error": "substitute",
        "max_bad": 0.01,
    }
    return StreamOptions(**default | changes)


def epoch(plan: Plan, number: int = 0) -> list[list[Sample]]:
    """The batches of one epoch."""
    return [plan[step] for step in range(number * len(plan), (number + 1) * len(plan))]


def frames_at(plan: Plan, step: int) -> int:
    """Frames of each clip in a batch."""
    return plan.frames_of(plan[step][0])


def origins(batches: Iterable[list[Sample]]) -> list[int]:
    return [sample.origin for batch in batches for sample in batch]


# An epoch


@pytest.mark.parametrize("shuffle", [True, False])
def test_clips_of_one_file_stand_together_in_a_shuffled_batch(shuffle: bool) -> None:
    paths = [f"{i % 5}.avi" for i in range(60)]
    catalog = Catalog(paths, starts=range(60))
    how = options(batch_size=16, drop_remainder=False, shuffle=shuffle)
    spec = ClipSpec(frames=1, size=(8, 8), crop="three")
    plan = Plan.of(catalog, spec, how)
    drawn = epoch(plan, 1)
    for batch in drawn:
        runs = [path for path, _ in itertools.groupby(paths[sample.video] for sample in batch)]
        assert len(runs) == len(set(runs)) or not shuffle, "one run of each file"
    rows = Counter((sample.video, sample.crop) for batch in drawn for sample in batch)
    assert rows == {(video, crop): 1 for video in range(60) for crop in range(3)}
    apart = Plan.of(Catalog([f"{i}.avi" for i in range(60)]), spec, how)
    assert [set(batch) for batch in drawn] == [set(batch) for batch in epoch(apart, 1)]
    assert shuffle or drawn == epoch(apart, 1), "the catalog's order"


@patient
@given(
    videos=st.integers(1, 40),
    clips=st.integers(1, 4),
    batch=st.integers(1, 50),
    shuffle=st.booleans(),
    seed=st.integers(-3, 2**70),
    number=st.integers(0, 5),
)
def test_an_epoch_has_every_clip_of_every_video_once(
    videos: int, clips: int, batch: int, shuffle: bool, seed: int, number: int
) -> None:
    plan = Plan(
        videos, clips, options(batch_size=batch, shuffle=shuffle, seed=seed, drop_remainder=False)
    )
    batches = epoch(plan, number)
    samples = [sample for batch in batches for sample in batch]
    assert sorted((s.video, s.clip) for s in samples) == [
        (video, clip) for video in range(videos) for clip in range(clips)
    ]
    assert [len(batch) for batch in batches[:-1]] == [batch] * (len(plan) - 1)
    assert {s.epoch for s in samples} == {number}
    assert all(s.origin == s.video * clips + s.clip and s.attempt == 0 for s in samples)


@patient
@given(videos=st.integers(1, 60), batch=st.integers(1, 20), drop=st.booleans())
def test_only_the_remainder_is_dropped(videos: int, batch: int, drop: bool) -> None:
    wanted = videos // batch if drop else -(-videos // batch)
    if not wanted:
        with pytest.raises(SpecError, match="do not fill one batch"):
            Plan(videos, 1, options(batch_size=batch, drop_remainder=drop))
        return
    plan = Plan(videos, 1, options(batch_size=batch, drop_remainder=drop))
    assert len(plan) == wanted
    seen = origins(epoch(plan))
    assert len(set(seen)) == len(seen) == (wanted * batch if drop else videos)


def test_without_shuffle_every_epoch_has_the_order_of_the_catalog() -> None:
    plan = Plan(9, 2, options(shuffle=False, batch_size=3, drop_remainder=False))
    assert origins(epoch(plan)) == origins(epoch(plan, 4)) == list(range(18))


def test_with_shuffle_each_epoch_has_its_own_order() -> None:
    plan = Plan(50, 1, options(batch_size=5))
    orders = {tuple(origins(epoch(plan, number))) for number in range(20)}
    assert len(orders) == 20
    assert tuple(range(50)) not in orders


def test_the_seed_decides_the_order() -> None:
    orders = {tuple(origins(epoch(Plan(50, 1, options(seed=seed))))) for seed in range(-10, 10)}
    assert len(orders) == 20


def test_the_order_does_not_depend_on_the_batch_size() -> None:
    orders = {
        tuple(origins(epoch(Plan(60, 1, options(batch_size=batch))))) for batch in (1, 3, 4, 60)
    }
    assert len(orders) == 1


@patient
@given(
    videos=st.integers(4, 10**6),
    steps=st.lists(st.integers(0, 10**9), min_size=1, max_size=8),
    seed=st.integers(0, 100),
)
def test_a_batch_does_not_depend_on_the_order_in_which_the_plan_is_read(
    videos: int, steps: list[int], seed: int
) -> None:
    plan = Plan(videos, 1, options(seed=seed))
    first = {step: plan[step] for step in steps}
    again = Plan(videos, 1, options(seed=seed))
    assert {step: again[step] for step in reversed(steps)} == first
    assert {step: plan[step] for step in sorted(steps)} == first


def test_a_negative_step_is_an_index_error() -> None:
    with pytest.raises(IndexError, match="at least 0, got -1"):
        Plan(8, 1, options())[-1]


def test_a_plan_over_a_billion_samples_is_instant_and_small() -> None:
    tracemalloc.start()
    began = time.process_time()
    plan = Plan(10**9, 1, options())
    batches = [plan[step] for step in (0, 10**8, 10**12)]
    spent_s = time.process_time() - began
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(plan) == 250_000_000
    assert len(set(origins(batches))) == 12
    assert spent_s < 5, "of this process"
    assert most_bytes < 1_000_000


# Seeds


def test_each_sample_of_each_epoch_has_its_own_seed() -> None:
    plan = Plan(100, 2, options())
    keys = [s.seed for number in range(10) for batch in epoch(plan, number) for s in batch]
    assert len(set(keys)) == len(keys) == 2000
    assert all(0 <= seed < 2**64 for seed in keys)
    assert max(keys) > 2**63 > min(keys)


def test_a_samples_seed_follows_from_seed_epoch_and_sample_alone() -> None:
    def keys(videos: int, **changes: Any) -> dict[int, int]:
        return {s.origin: s.seed for b in epoch(Plan(videos, 1, options(**changes)), 1) for s in b}

    shuffled = keys(40)
    assert keys(40, shuffle=False) == keys(40, batch_size=10) == shuffled
    assert keys(80, shuffle=False).items() > shuffled.items()
    assert keys(40, shard=(1, 2)).items() < shuffled.items()
    assert not set(keys(40, seed=1).values()) & set(shuffled.values())


# Shards


@patient
@given(
    videos=st.integers(1, 60),
    world=st.integers(1, 7),
    batch=st.integers(1, 9),
    drop=st.booleans(),
    shuffle=st.booleans(),
    number=st.integers(0, 3),
)
def test_shards_are_disjoint_equally_long_and_complete_up_to_the_remainder(
    videos: int, world: int, batch: int, drop: bool, shuffle: bool, number: int
) -> None:
    def plan(rank: int) -> Plan:
        return Plan(
            videos,
            1,
            options(batch_size=batch, shard=(rank, world), drop_remainder=drop, shuffle=shuffle),
        )

    if videos // world < (batch if drop else 1):
        for rank in range(world):
            with pytest.raises(
                SpecError,
                match=f"in each of {world} shards" if world > 1 else "do not fill one batch of",
            ):
                plan(rank)
        return
    shards = [epoch(plan(rank), number) for rank in range(world)]
    assert len({len(shard) for shard in shards}) == 1
    seen = origins(itertools.chain.from_iterable(shards))
    assert len(set(seen)) == len(seen)
    left_out = videos - len(seen)
    for step, batches in enumerate(zip(*shards, strict=True)):
        sizes = [len(batch) for batch in batches]
        if drop or step < len(shards[0]) - 1:
            assert set(sizes) == {batch}
        else:
            assert max(sizes) - min(sizes) <= 1
            assert min(sizes) >= 1
    if drop:
        assert left_out < world * batch
    else:
        assert left_out < world
        # It is left out only if the batches that all ranks have are full.
        assert not left_out or all(len(shard[-1]) == batch for shard in shards)


@patient
@given(videos=st.integers(1, 60), world=st.integers(1, 5), batch=st.integers(1, 9))
def test_batch_k_of_all_ranks_together_is_a_contiguous_part_of_the_epoch(
    videos: int, world: int, batch: int
) -> None:
    if videos < world:
        return
    ranks = [
        Plan(videos, 1, options(batch_size=batch, shard=(rank, world), drop_remainder=False))
        for rank in range(world)
    ]
    whole = origins(epoch(Plan(videos, 1, options(drop_remainder=False))))
    for step in range(len(ranks[0])):
        together = set(origins(plan[step] for plan in ranks))
        first = step * batch * world
        assert together == set(whole[first : first + len(together)])


def test_a_shard_takes_every_worldth_sample() -> None:
    plan = Plan(10, 1, options(batch_size=2, shard=(1, 3), shuffle=False))
    assert origins(epoch(plan)) == [1, 4]
    rest = Plan(10, 1, options(batch_size=2, shard=(0, 3), shuffle=False, drop_remainder=False))
    assert origins(epoch(rest)) == [0, 3, 6, 9]


def test_the_error_about_too_few_samples_says_what_to_do() -> None:
    with pytest.raises(SpecError, match=r"^3 clips do not fill one batch of 4: "):
        Plan(3, 1, options())
    with pytest.raises(SpecError, match=r"or set drop_remainder=False$"):
        Plan(3, 1, options())
    with pytest.raises(SpecError, match=r"lower batch_size$"):
        Plan(3, 1, options(shard=(0, 4)))


# Several clips from each video


@patient
@given(
    counts=st.lists(st.integers(0, 5), min_size=1, max_size=30).filter(any),
    number=st.integers(0, 3),
    shuffle=st.booleans(),
)
def test_an_epoch_has_all_clips_of_each_video_if_their_numbers_differ(
    counts: list[int], number: int, shuffle: bool
) -> None:
    clips = np.array(counts, np.int64)
    plan = Plan(len(counts), clips, options(drop_remainder=False, shuffle=shuffle))
    samples = sorted(s for batch in epoch(plan, number) for s in batch)
    wanted = [(video, clip) for video, count in enumerate(counts) for clip in range(count)]
    assert [(s.video, s.clip) for s in samples] == wanted
    assert [s.origin for s in samples] == list(range(len(wanted)))
    assert plan.samples == len(wanted)
    assert plan.videos == sum(count > 0 for count in counts)


def test_one_number_of_clips_and_an_array_of_it_give_the_same_plan() -> None:
    one = Plan(20, 3, options())
    other = Plan(20, np.full(20, 3), options())
    assert epoch(one) == epoch(other)
    assert [one.substitute(s) for s in one[0]] == [other.substitute(s) for s in other[0]]
    assert one.videos == other.videos == 20


def test_a_substitute_is_a_video_that_has_clips() -> None:
    plan = Plan(4, np.array([0, 2, 0, 1]), options(batch_size=1))
    stand_ins = [plan.substitute(Sample(0, origin, 0, 1, 0, 0)) for origin in range(100)]
    assert {(other.video, other.clip) for other in stand_ins} == {(1, 0), (1, 1), (3, 0)}


def catalog(*lengths: int | None, **columns: Any) -> Catalog:
    names = [f"v{i}.avi" for i in range(len(lengths))]
    return Catalog(names, [0] * len(names), ["class"], frames=lengths, **columns)


DENSE = ClipSpec(frames=4, stride=2, size=(8, 8), sampling="dense", hop=5)  # a clip spans 7


def test_dense_takes_all_windows_of_each_video() -> None:
    plan = Plan.of(catalog(7, 11, 12, 100, 3), DENSE, options(drop_remainder=False))
    counts = Counter(s.video for batch in epoch(plan) for s in batch)
    assert counts == {0: 1, 1: 1, 2: 2, 3: 19, 4: 1}


def test_dense_takes_the_windows_of_a_segment() -> None:
    videos = catalog(100, 100, None, starts=[90, 0, 10], ends=[None, 12, 24])
    plan = Plan.of(videos, DENSE, options(batch_size=1))
    counts = Counter(s.video for batch in epoch(plan) for s in batch)
    assert counts == {0: 1, 1: 2, 2: 2}


def test_dense_leaves_out_short_videos_if_they_are_dropped() -> None:
    spec = replace(DENSE, short="drop")
    plan = Plan.of(catalog(6, 7, 6), spec, options(batch_size=1))
    assert (plan.samples, plan.videos) == (1, 1)
    assert plan[0][0].video == 1
    with pytest.raises(SpecError, match='short="drop" leaves none of the 2 videos'):
        Plan.of(catalog(6, 6), spec, options(batch_size=1))


def test_other_samplings_need_no_frame_counts() -> None:
    spec = ClipSpec(frames=4, size=(8, 8), sampling="uniform", clips_per_video=3)
    plan = Plan.of(catalog(None, 5), spec, options(batch_size=6))
    assert sorted((s.video, s.clip) for s in plan[0]) == [
        (video, clip) for video in range(2) for clip in range(3)
    ]


# Several crops of a clip


def rows(plan: Plan) -> list[tuple[int, int, int]]:
    return [(s.video, s.clip, s.crop) for batch in epoch(plan) for s in batch]


@patient
@given(
    videos=st.integers(1, 20),
    clips=st.integers(1, 4),
    crops=st.integers(1, 5),
    world=st.integers(1, 4),
    batch_size=st.integers(1, 9),
    shuffle=st.booleans(),
)
def test_crops_of_a_clip_follow_each_other_on_one_rank_and_none_is_left_out(
    videos: int, clips: int, crops: int, world: int, batch_size: int, shuffle: bool
) -> None:
    assume(videos * clips >= world)
    how: dict[str, Any] = {"batch_size": batch_size, "shuffle": shuffle, "drop_remainder": False}
    plans = [
        Plan(videos, clips, options(**how, shard=(rank, world)), crops=crops)
        for rank in range(world)
    ]
    assert len({len(plan) for plan in plans}) == 1
    seen: list[tuple[int, int, int]] = []
    for plan in plans:
        samples = [sample for batch in epoch(plan) for sample in batch]
        assert [sample.crop for sample in samples] == [i % crops for i in range(len(samples))]
        for i in range(0, len(samples), crops):
            assert len({sample._replace(crop=0) for sample in samples[i : i + crops]}) == 1
        seen += rows(plan)
    assert len(seen) == len(set(seen))
    assert len(seen) > (videos * clips - world) * crops
    if world == 1:
        assert sorted(seen) == list(itertools.product(range(videos), range(clips), range(crops)))


def test_crops_change_neither_the_order_of_clips_nor_their_seeds() -> None:
    one = [s for batch in epoch(Plan(10, 2, options())) for s in batch]
    three = [s for batch in epoch(Plan(10, 2, options(), crops=3)) for s in batch]
    assert [s for s in three if s.crop == 0] == one


def test_the_substitutes_of_all_crops_are_crops_of_one_clip() -> None:
    plan = Plan(1000, 3, options(), crops=3)
    instead = [plan.substitute(sample) for sample in plan[0][:3]]
    assert [sample.crop for sample in instead] == [0, 1, 2]
    assert len({sample._replace(crop=0) for sample in instead}) == 1


def test_the_number_of_rows_follows_from_the_spec() -> None:
    spec = ClipSpec(4, size=(8, 8), sampling="uniform", clips_per_video=10, crop="three")
    plan = Plan.of(catalog(None, None), spec, options(batch_size=30))
    assert len(plan) == 2
    dense = replace(DENSE, crop="five")
    one, five = (Plan.of(catalog(11, 20), s, options(batch_size=1)) for s in (DENSE, dense))
    assert len(five) == 5 * len(one)


# Substitutes


def test_a_substitute_is_another_clip_in_the_same_place() -> None:
    plan = Plan(1000, 3, options())
    sample = plan[0][0]
    other = plan.substitute(sample)
    assert (other.epoch, other.origin, other.attempt) == (sample.epoch, sample.origin, 1)
    assert (other.video, other.clip) != (sample.video, sample.clip)
    assert other.seed != sample.seed


def test_a_chain_of_substitutes_moves_on_and_is_the_same_in_every_run() -> None:
    def chain(plan: Plan) -> list[Sample]:
        sample, found = plan[3][1], []
        for _ in range(20):
            sample = plan.substitute(sample)
            found.append(sample)
        return found

    first = chain(Plan(1000, 1, options()))
    assert chain(Plan(1000, 1, options())) == first
    assert [sample.attempt for sample in first] == list(range(1, 21))
    assert len({sample.video for sample in first}) > 15
    assert len({sample.seed for sample in first}) == 20


def test_substitutes_differ_between_samples_and_between_epochs() -> None:
    plan = Plan(10**6, 1, options())
    others = [plan.substitute(s) for step in (0, len(plan)) for s in plan[step]]
    assert len({other.video for other in others}) == 8
    seeded = Plan(10**6, 1, options(seed=1))
    assert seeded.substitute(plan[0][0]) != plan.substitute(plan[0][0])


def test_every_clip_is_equally_likely_as_a_substitute() -> None:
    videos, clips, tries = 5, 2, 4000
    plan = Plan(videos, clips, options(batch_size=1))
    hits = Counter[tuple[int, int]]()
    for origin in range(tries):
        other = plan.substitute(Sample(0, origin, 0, 0, 0, 0))
        hits[other.video, other.clip] += 1
    # 9 degrees of freedom: below 27.9 with probability 0.999
    assert chi_square(hits, 10) < 27.9


# What a release must not change


def test_the_order_and_the_seeds_never_change() -> None:
    plan = Plan(10, 1, options())
    assert [origins([plan[step]]) for step in range(3)] == [
        [7, 6, 3, 2],
        [0, 4, 9, 5],
        [0, 5, 9, 4],
    ]
    assert plan[0][0] == Sample(0, 7, 0, 7, 0, 1055144352801279116)
    assert plan[2][0] == Sample(1, 0, 0, 0, 0, 3645061807790173498)


def test_shards_and_substitutes_never_change() -> None:
    plan = Plan(1000, 3, options(seed=7, shard=(1, 3), batch_size=2))
    assert len(plan) == 500
    assert plan[499] == [
        Sample(0, 2419, 0, 806, 1, 1527648844766625377),
        Sample(0, 1773, 0, 591, 0, 9100577261158761474),
    ]
    first = plan.substitute(plan[0][0])
    assert first == Sample(0, 184, 1, 649, 1, 12662769747936514976)
    assert plan.substitute(first) == Sample(0, 184, 2, 604, 1, 353175189214674244)


# Balance


def classes(*sizes: int) -> Catalog:
    labels = [label for label, size in enumerate(sizes) for _ in range(size)]
    names = [f"class {label}" for label in range(len(sizes) + 1)]  # One of them has no videos.
    return Catalog([f"{i}.avi" for i in range(len(labels))], labels, names)


def balanced(catalog: Catalog, clips: int = 1, **changes: Any) -> Plan:
    spec = ClipSpec(frames=4, size=(8, 8), sampling="uniform", clips_per_video=clips)
    return Plan.of(catalog, spec, options(balance="class", **changes))


def test_rows_without_a_label_are_left_out_of_the_balance() -> None:
    catalog = Catalog([f"{i}.avi" for i in range(9)], [-1, 0, 0, 0, -1, 1, -1, 1, -1], ["a", "b"])
    plan = balanced(catalog, batch_size=2)
    assert plan.videos == 5
    drawn = Counter(s.video for n in range(6) for batch in epoch(plan, n) for s in batch)
    assert set(drawn) == {1, 2, 3, 5, 7}
    with pytest.raises(SpecError, match='balance="class" needs labels: all are -1'):
        balanced(catalog.subset([0, 4, 6]))


@pytest.mark.parametrize("shuffle", [True, False])
def test_every_class_comes_equally_often_in_an_epoch(shuffle: bool) -> None:
    catalog = classes(50, 7, 3)
    plan = balanced(catalog, batch_size=9, shuffle=shuffle)
    assert len(plan) == 60 // 9
    everything = balanced(catalog, batch_size=9, shuffle=shuffle, drop_remainder=False)
    for number in range(3):
        drawn = [catalog.labels[s.video] for b in epoch(everything, number) for s in b]
        assert Counter(drawn) == {0: 20, 1: 20, 2: 20}
    counts = Counter(catalog.labels[s.video] for b in epoch(plan, 1) for s in b)
    assert max(counts.values()) - min(counts.values()) <= 2


def test_a_pool_repeats_no_clip_before_all_had_their_turn() -> None:
    plan = balanced(classes(50, 7, 3), drop_remainder=False, batch_size=6)
    seen = Counter(s.video for batch in epoch(plan) for s in batch)
    assert {seen[video] for video in range(50)} == {0, 1}
    assert {seen[video] for video in range(50, 57)} <= {2, 3}
    assert {seen[video] for video in range(57, 60)} <= {6, 7}
    later = Counter(s.video for n in range(5) for batch in epoch(plan, n) for s in batch)
    assert {later[video] for video in range(50)} == {2}, "it goes on in the next epoch"


def test_the_videos_of_a_class_come_equally_often() -> None:
    first: Counter[int] = Counter()
    for seed in range(either(200, 600)):
        plan = balanced(classes(9, 1), batch_size=5, seed=seed)
        first.update(s.video for s in epoch(plan)[0] if s.video < 9)
    assert chi_square(first, 9) < 26.1, "8 degrees of freedom"


@patient
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=5),
    st.integers(1, 3),
    st.integers(1, 4),
    st.booleans(),
)
def test_each_rank_is_balanced_and_no_two_share_clips(
    sizes: list[int], clips: int, world: int, shuffle: bool
) -> None:
    catalog = classes(*sizes)
    every: list[tuple[int, int]] = []
    for rank in range(world):
        plan = balanced(
            catalog, clips, shard=(rank, world), batch_size=3, drop_remainder=False, shuffle=shuffle
        )
        mine = [(s.video, s.clip) for batch in epoch(plan) for s in batch]
        counts = Counter(int(catalog.labels[video]) for video, _ in mine)
        assert len(set(counts.values())) == 1
        assert set(counts) == set(range(len(sizes)))
        every += mine
    seen = Counter(every)
    for label in range(len(sizes)):
        of_class = [
            seen[video, clip]
            for video in np.flatnonzero(catalog.labels == label).tolist()
            for clip in range(clips)
        ]
        assert max(of_class) - min(of_class) <= 1, "no clip again before all had their turn"


def test_a_substitute_is_of_the_same_class() -> None:
    catalog = classes(20, 5)
    for sample in balanced(catalog)[2]:
        other = replace_all(balanced(catalog), sample)
        assert {catalog.labels[video] for video in other} == {catalog.labels[sample.video]}


def replace_all(plan: Plan, sample: Sample) -> list[int]:
    found = []
    for _ in range(8):
        sample = plan.substitute(sample)
        found.append(sample.video)
    return found


def test_a_balanced_stream_is_the_same_in_every_release() -> None:
    plan = balanced(classes(5, 2, 1), batch_size=6)
    assert [s.video for s in plan[0]] == [6, 7, 7, 3, 5, 4]


# Buckets of clips of any length

ANY = ClipSpec("all", max_frames=20, stride=2, size=(8, 8))


@st.composite
def bucketed(draw: st.DrawFn) -> tuple[Catalog, dict[str, Any]]:
    """A catalog and the options of its stream."""
    lengths = draw(st.lists(st.integers(1, 60), min_size=1, max_size=60))
    smaller = draw(st.lists(st.integers(1, 19), max_size=4, unique=True).map(sorted))
    size = {draw(st.sampled_from(["batch_size", "batch_frames"])): draw(st.integers(1, 30))}
    how = {"shuffle": draw(st.booleans()), "drop_remainder": draw(st.booleans()), "seed": 3}
    return catalog(*lengths), {"batch_size": None, "buckets": (*smaller, 20)} | size | how


SEVERAL = [{}, {"crop": "three"}, {"clips_per_video": 2, "sampling": "uniform"}]


@patient
@given(bucketed(), st.integers(1, 4), st.integers(0, 2), st.sampled_from(SEVERAL))
def test_each_clip_is_once_in_a_batch_of_the_smallest_bucket_that_holds_it(
    given: tuple[Catalog, dict[str, Any]], world: int, number: int, several: Any
) -> None:
    videos, how = given
    spec, crops = replace(ANY, **several), 3 if "crop" in several else 1
    lengths = np.minimum(-(-np.array([video.frames for video in videos]) // 2), 20)
    drop, buckets = how["drop_remainder"], np.array(how["buckets"])
    of_clips = lengths.repeat(spec.clips_per_video)
    in_bucket = Counter(buckets[np.searchsorted(buckets, of_clips)].tolist())

    def size(frames: int) -> int:
        return int(how["batch_size"] or max(1, how["batch_frames"] // frames))

    try:
        plans = [Plan.of(videos, spec, options(**how, shard=(r, world))) for r in range(world)]
    except SpecError:
        shares = [(clips // world * crops, size(frames)) for frames, clips in in_bucket.items()]
        assert all(own < (least if drop else 1) for own, least in shares)
        return
    shards = [epoch(plan, number) for plan in plans]
    samples = [sample for shard in shards for batch in shard for sample in batch]
    assert max(Counter((s.video, s.clip, s.crop) for s in samples).values()) == 1
    assert max(Counter((s.origin, s.crop) for s in samples).values()) == 1
    assert len({s.seed for s in samples}) == len({s.origin for s in samples})
    for step in range(len(plans[0])):
        at = number * len(plans[0]) + step
        (frames,) = {frames_at(plan, at) for plan in plans}
        for plan, shard in zip(plans, shards, strict=True):
            batch = shard[step]
            fitting = buckets[np.searchsorted(buckets, lengths[[s.video for s in batch]])]
            assert set(fitting.tolist()) == {frames} == {plan.frames_of(s) for s in batch}
            assert len(batch) == size(frames) if drop else 0 < len(batch) <= size(frames)
        rows = [len(shard[step]) for shard in shards]
        assert max(rows) - min(rows) <= crops
    for frames, clips in in_bucket.items():
        seen = sum(plans[0].frames_of(s) == frames for s in samples)
        left_out = clips * crops - seen
        assert left_out < (world * (size(frames) + crops) if drop else world * crops)
    if world == 1 and not drop:
        assert len(samples) == len(of_clips) * crops
    told = {sentence.split()[5] for sentence in plans[0].never_comes()}
    assert told == {str(frames) for frames in in_bucket if frames not in plans[0].sizes}


@patient
@given(bucketed(), st.lists(st.integers(0, 10**6), min_size=1, max_size=8))
def test_buckets_are_read_in_any_order(
    given: tuple[Catalog, dict[str, Any]], steps: list[int]
) -> None:
    videos, how = given
    try:
        plan, again = (Plan.of(videos, ANY, options(**how)) for _ in range(2))
    except SpecError:
        return
    found = {step: (frames_at(plan, step), plan[step]) for step in steps}
    assert {step: (frames_at(again, step), again[step]) for step in sorted(steps)} == found
    for step in steps:
        other = again.substitute(again.substitute(again[step][0]))
        assert again.frames_of(other) == frames_at(plan, step), "it is in the same batch"
        assert plan.substitute(plan.substitute(plan[step][0])) == other


LENGTHS = [4, 4, 4, 4, 4, 4, 9, 9, 30, 30, 60]
BUCKETS = {"buckets": (2, 10, 20), "batch_size": 2}


def test_batches_of_all_buckets_come_in_turn_if_they_are_shuffled() -> None:
    plan = Plan.of(catalog(*LENGTHS), ANY, options(**BUCKETS, shuffle=False, drop_remainder=False))
    kinds = [frames_at(plan, step) for step in range(len(plan))]
    assert kinds == [2, 2, 2, 10, 20, 20]
    assert [s.video for batch in epoch(plan) for s in batch] == list(range(11))
    assert plan.sizes == {2: 2, 10: 2, 20: 2}
    drawn = Plan.of(catalog(*LENGTHS), ANY, options(**BUCKETS, drop_remainder=False))
    orders = {
        tuple(frames_at(drawn, 6 * number + step) for step in range(6)) for number in range(20)
    }
    assert len(orders) > 10
    assert {tuple(sorted(order)) for order in orders} == {tuple(kinds)}
    assert len({tuple(sorted(s.video for s in drawn[step])) for step in range(600)}) > 12, "pairs"


def test_a_batch_of_frames_has_as_many_clips_as_fill_it() -> None:
    how = {"buckets": (2, 10, 20), "batch_size": None, "batch_frames": 22}
    plan = Plan.of(catalog(*LENGTHS), ANY, options(**how, shuffle=False, drop_remainder=False))
    assert plan.sizes == {2: 11, 10: 2, 20: 1}
    assert [len(batch) for batch in epoch(plan)] == [6, 2, 1, 1, 1]


def test_one_bucket_is_as_none() -> None:
    videos = catalog(*LENGTHS)
    one, none = (Plan.of(videos, ANY, options(buckets=each)) for each in ((20,), None))
    assert epoch(one, 3) == epoch(none, 3)
    assert frames_at(one, 5) == frames_at(none, 5) == 20


def test_a_substitute_is_of_the_same_bucket_unless_all_of_it_are_bad() -> None:
    plan = Plan.of(catalog(*[4] * 50, *[9] * 50, 60), ANY, options(**BUCKETS, drop_remainder=False))
    for first in [s for batch in epoch(plan) for s in batch]:
        chain = [first]
        while len(chain) < 40:
            chain.append(plan.substitute(chain[-1]))
        videos = [s.video for s in chain]
        own = {0: range(50), 1: range(50, 100), 2: range(100, 101)}[first.video // 50]
        assert all(video in own for video in videos[:8])
        assert not all(video in own for video in videos)


def test_clips_of_a_bucket_that_fills_no_batch_are_told() -> None:
    plan = Plan.of(catalog(*LENGTHS), ANY, options(buckets=(2, 10, 20), batch_size=3))
    assert set(plan.sizes) == {2, 20}
    (told,) = plan.never_comes()
    assert told.startswith(
        "the 2 clips of bucket 10 never come: they do not fill one batch of 3; join"
    )
    assert told.endswith("join buckets, or set drop_remainder=False")
    how: dict[str, Any] = {"buckets": (2, 10, 20), "batch_size": 1, "drop_remainder": False}
    (told,) = Plan.of(catalog(*LENGTHS), ANY, options(**how, shard=(0, 3))).never_comes()
    assert told.endswith("not fill one batch of 1 in each of 3 shards; join buckets"), (
        "nothing is dropped already"
    )
    with pytest.raises(SpecError, match=r"lower batch_size$"):
        Plan.of(catalog(1, 9, 60), ANY, options(**how, shard=(0, 2)))


def test_an_epoch_without_a_whole_batch_of_any_bucket_is_refused() -> None:
    how: dict[str, Any] = {"buckets": (2, 10, 20), "batch_size": None, "batch_frames": 200}
    words = "11 clips do not fill one batch of 10 in any bucket: lower batch_f"
    with pytest.raises(SpecError, match=words):
        Plan.of(catalog(*LENGTHS), ANY, options(**how))


def test_a_plan_of_large_buckets_is_small() -> None:
    pools = {size: Pool(range(size * 10**6), 1) for size in (5, 10, 20)}
    tracemalloc.start()
    plan = Plan(35 * 10**6, 1, options(batch_size=8), buckets=pools)
    assert {len(plan[step]) for step in (0, 10**6, 10**12)} == {8}
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 1_000_000


@pytest.mark.parametrize(
    ("spec", "changes", "words"),
    [
        (ANY, {"buckets": (10, 30)}, "the last of buckets must be max_frames=20, got (10, 30)"),
        (ANY, {"buckets": (10,)}, "the last of buckets must be max_frames=20, got (10,)"),
        (DENSE, {"buckets": (4,)}, 'are for clips of any length: give ClipSpec(frames="all"'),
        (DENSE, {"batch_frames": 8, "batch_size": None}, "are for clips of any length"),
        (replace(ANY, frames=10), {}, 'give frames="all", or frames=10 without max_frames'),
        (ANY, {"buckets": (20,), "balance": "class"}, "balance= has weights, and in buckets"),
    ],
)
def test_options_that_contradict_the_lengths_of_clips_are_refused(
    spec: ClipSpec, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError, match=re.escape(words)):
        check_lengths(catalog(4, 9), spec, options(**changes))
    mixed = mix({"a": (catalog(4, 9), 1)})
    with pytest.raises(SpecError, match="a mixture has shares"):
        check_lengths(mixed, ANY, options(buckets=(20,)))
    check_lengths(mixed, ANY, options())
