"""The plan: every sample of an epoch once, by random access, and the same for ever."""

import itertools
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.thorough import either
from videoload.catalog.catalog import Catalog, table_of
from videoload.catalog.joining import mix
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.sample_spec import Shape, one_clip
from videoload.errors import SpecError
from videoload.plan.batches import Sample
from videoload.plan.identity import fixed_ranks
from videoload.plan.options import CheckedOptions, checked_options
from videoload.plan.plan import Plan, Pool
from videoload.plan.windows import check_lengths, with_windows

patient = settings(deadline=None, max_examples=either(40, 100))


def options(**changes: Any) -> CheckedOptions:
    return checked_options(**{"batch_size": 4, "shuffle": True, "drop_remainder": True} | changes)


def epoch(plan: Plan, number: int = 0) -> list[list[Sample]]:
    """The batches of one epoch."""
    return [plan[step] for step in range(number * len(plan), (number + 1) * len(plan))]


def shape_at(plan: Plan, step: int) -> Shape:
    """The shape of the clips in a batch."""
    return plan.shape_of(plan[step][0])


def origins(batches: Iterable[list[Sample]]) -> list[int]:
    return [sample.origin for batch in batches for sample in batch]


# An epoch


@pytest.mark.parametrize("shuffle", [True, False])
def test_clips_of_one_file_stand_together_in_a_shuffled_batch(shuffle: bool) -> None:
    paths = [f"{i % 5}.avi" for i in range(60)]
    catalog = Catalog(paths, starts=range(60))
    how = options(batch_size=16, drop_remainder=False, shuffle=shuffle)
    spec = ClipSpec(frames=1, size=(8, 8), crop="three")
    plan = Plan.of(catalog, one_clip(spec), how)
    drawn = epoch(plan, 1)
    for batch in drawn:
        runs = [path for path, _ in itertools.groupby(paths[sample.video] for sample in batch)]
        assert len(runs) == len(set(runs)) or not shuffle, "one run of each file"
    rows = Counter((sample.video, sample.crop) for batch in drawn for sample in batch)
    assert rows == {(video, crop): 1 for video in range(60) for crop in range(3)}
    apart = Plan.of(Catalog([f"{i}.avi" for i in range(60)]), one_clip(spec), how)
    assert [set(batch) for batch in drawn] == [set(batch) for batch in epoch(apart, 1)]
    assert shuffle or drawn == epoch(apart, 1), "the catalog's order"


@patient
@given(
    counts=st.integers(1, 4) | st.lists(st.integers(0, 4), min_size=1, max_size=30).filter(any),
    videos=st.integers(1, 30), crops=st.integers(1, 5), world=st.integers(1, 7),
    size=st.integers(1, 20), drop=st.booleans(), shuffle=st.booleans(),
    seed=st.integers(-3, 2**70), number=st.integers(0, 3),
)  # fmt: skip
def test_an_epoch_has_every_clip_once_shared_out_among_the_ranks(
    counts: int | list[int], videos: int, crops: int, world: int, size: int, drop: bool,
    shuffle: bool, seed: int, number: int,
) -> None:  # fmt: skip
    each = counts if isinstance(counts, list) else [counts] * videos
    clips = counts if isinstance(counts, int) else np.array(counts, np.int64)
    listed = [(video, clip) for video, count in enumerate(each) for clip in range(count)]

    def plan(rank: int) -> Plan:
        how = options(
            batch_size=size, shard=(rank, world), drop_remainder=drop, shuffle=shuffle, seed=seed
        )
        return Plan(len(each), clips, how, crops=crops)

    def alone(**changes: Any) -> list[Sample]:
        how = options(batch_size=7, seed=seed, drop_remainder=False, **changes)
        return [s for batch in epoch(Plan(len(each), clips, how), number) for s in batch]

    # The catalog's order, and that of the epoch: seeds depend on neither ranks, size nor order.
    unshuffled, whole = alone(shuffle=False), alone(shuffle=shuffle)
    assert [(s.video, s.clip) for s in unshuffled] == listed
    assert all((s.origin, s.epoch) == (at, number) for at, s in enumerate(unshuffled))
    assert sorted(whole, key=lambda s: s.origin) == unshuffled
    assert shuffle or whole == unshuffled
    if len(listed) // world * crops < (size if drop else 1):
        for rank in range(world):
            with pytest.raises(SpecError, match=f"{world} shards" if world > 1 else "batch"):
                plan(rank)
        return
    plans = [plan(rank) for rank in range(world)]
    assert (plans[0].samples, plans[0].videos) == (len(listed), sum(map(bool, each)))
    shards = [epoch(plan, number) for plan in plans]
    for rank, batches in enumerate(shards):
        rows = [s for batch in batches for s in batch]
        share = [clip._replace(crop=crop) for clip in whole[rank::world] for crop in range(crops)]
        assert rows == share[: len(rows)]
    for step, of_step in enumerate(zip(*shards, strict=True)):
        sizes = [len(batch) for batch in of_step]
        full = drop or step < len(shards[0]) - 1
        assert set(sizes) == {size} if full else max(sizes) - min(sizes) <= crops
        assert 1 <= min(sizes) <= max(sizes) <= size
    left_out = len(listed) * crops - sum(len(batch) for shard in shards for batch in shard)
    assert 0 <= left_out <= (world - 1) * crops + (world * (size - 1) if drop else 0)
    # Without drop, a clip is left out only if the batches that all ranks have are full.
    assert drop or crops > 1 or not left_out or all(len(shard[-1]) == size for shard in shards)


@patient
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=60),
    rows=st.sampled_from([8, 12, 24]), crops=st.sampled_from([1, 3]),
    buckets=st.none() | st.just((10, 20, 40)), weighted=st.booleans(), shuffle=st.booleans(),
    step=st.integers(0, 30),
)  # fmt: skip
def test_a_step_of_all_ranks_has_the_same_samples_however_many_ranks_share_it(
    lengths: list[int], rows: int, crops: int, buckets: tuple[int, ...] | None, weighted: bool,
    shuffle: bool, step: int,
) -> None:  # fmt: skip
    catalog = Catalog([f"{i}.avi" for i in range(len(lengths))], frames=lengths)
    spec = ClipSpec(
        "all" if buckets else 40, max_frames=40 if buckets else None, size=(8, 8),
        crop="three" if crops == 3 else "center", clips_per_video=2, sampling="uniform",
    )  # fmt: skip
    balance = [1 + i % 3 for i in range(len(lengths))] if weighted and buckets is None else None
    found: set[Any] = set()
    for world in (1, 2, 4, 8):
        every = [
            checked_options(
                rows // world, shuffle=shuffle, drop_remainder=True, shard=(rank, world),
                balance=balance, buckets=buckets,
            )
            for rank in range(world)
        ]  # fmt: skip
        if rows % world or fixed_ranks(catalog, one_clip(spec), every[0]):
            continue
        try:
            plans = [Plan.of(catalog, one_clip(spec), each) for each in every]
        except SpecError:  # they do not fill one batch
            found.add(None)
            continue
        samples = sorted(sample for plan in plans for sample in plan[step])
        found.add((len(plans[0]), *samples, *map(plans[0].substitute, samples)))
    assert len(found) <= 1, found  # with no more than some numbers of ranks


def test_a_negative_step_is_an_index_error() -> None:
    with pytest.raises(IndexError, match="-1"):
        Plan(8, 1, options())[-1]


def test_plans_over_a_billion_samples_and_over_large_buckets_are_instant_and_small() -> None:
    pools = {Shape(size): Pool(range(size * 10**6), 1) for size in (5, 10, 20)}
    tracemalloc.start()
    began = time.process_time()
    plan = Plan(10**9, 1, options())
    batches = [plan[step] for step in (0, 10**8, 10**12)]
    buckets = Plan(35 * 10**6, 1, options(batch_size=8), buckets=pools)
    assert {len(buckets[step]) for step in (0, 10**6, 10**12)} == {8}
    spent_s = time.process_time() - began
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(plan) == 250_000_000
    assert len(set(origins(batches))) == 12
    assert spent_s < 5, "of this process"
    assert most_bytes < 2_000_000, "of both"


# Several clips from each video


def catalog(*lengths: int | None, **columns: Any) -> Catalog:
    names = [f"v{i}.avi" for i in range(len(lengths))]
    return Catalog(names, [0] * len(names), ["class"], frames=lengths, **columns)


DENSE = ClipSpec(frames=4, stride=2, size=(8, 8), sampling="dense", hop=5)  # a clip spans 7


@pytest.mark.parametrize(
    ("videos", "changes", "rows"),
    [
        (catalog(7, 11, 12, 100, 3), {}, {0: 1, 1: 1, 2: 2, 3: 19, 4: 1}),
        (catalog(7, 11, 12, 100, 3), {"crop": "five"}, {0: 5, 1: 5, 2: 10, 3: 95, 4: 5}),
        (catalog(100, 100, None, starts=[90, 0, 10], ends=[None, 12, 24]), {}, {0: 1, 1: 2, 2: 2}),
        (catalog(6, 7, 6), {"short": "drop"}, {1: 1}),
        (catalog(None, 5), {"sampling": "uniform", "hop": None, "clips_per_video": 3},
         {0: 3, 1: 3}),
    ],
)  # fmt: skip
def test_a_video_has_as_many_rows_as_its_length_and_the_spec_give(
    videos: Catalog, changes: dict[str, Any], rows: dict[int, int]
) -> None:
    plan = Plan.of(videos, one_clip(replace(DENSE, **changes)), options(batch_size=1))
    assert Counter(s.video for batch in epoch(plan) for s in batch) == rows
    assert (len(plan), plan.videos) == (sum(rows.values()), len(rows))


def test_if_dense_finds_no_window_at_all_the_error_says_why() -> None:
    with pytest.raises(SpecError, match=r"short=.* 2 "):
        Plan.of(catalog(6, 6), one_clip(replace(DENSE, short="drop")), options(batch_size=1))


def test_steps_that_nobody_can_count_are_refused() -> None:
    plan = Plan(10, 3, options())
    assert len(plan.steps(2**61, None)) <= len(plan)
    for start, epochs, named in ((10**30, None, "start_step"), (0, 10**30, "epochs")):
        with pytest.raises(SpecError, match=named):
            plan.steps(start, epochs)


# Substitutes


def chain(plan: Plan, sample: Sample, length: int = 20) -> list[Sample]:
    """The sample, and its substitutes one after the other."""
    found = [sample]
    while len(found) <= length:
        found.append(plan.substitute(found[-1]))
    return found


def test_substitutes_are_other_clips_in_the_same_place_and_the_same_in_every_run() -> None:
    plan, again = (Plan(10**6, 3, options(), crops=3) for _ in range(2))
    first, seeds = plan[0][0], set()
    for sample in (first, plan[0][3], plan[len(plan)][0]):
        found = chain(plan, sample)
        assert found == chain(again, sample)
        assert [s.substitution for s in found] == list(range(21))
        assert {(s.epoch, s.origin, s.crop) for s in found} == {(*sample[:2], sample.crop)}
        assert len({s.video for s in found}) == 21
        seeds |= {s.seed for s in found}
    assert len(seeds) == 3 * 21
    assert Plan(10**6, 3, options(seed=1)).substitute(first) != plan.substitute(first)
    crops = [plan.substitute(sample) for sample in plan[0][:3]]
    assert crops == [crops[0]._replace(crop=crop) for crop in range(3)]


# What a release must not change


def test_the_order_and_the_seeds_never_change() -> None:
    plan = Plan(10, 1, options())
    orders = [origins([plan[step]]) for step in range(3)]
    assert orders == [[7, 6, 3, 2], [0, 4, 9, 5], [0, 5, 9, 4]]
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
    return Plan.of(catalog, one_clip(spec), options(balance="class", **changes))


def test_rows_without_a_label_are_left_out_of_the_balance() -> None:
    catalog = Catalog([f"{i}.avi" for i in range(9)], [-1, 0, 0, 0, -1, 1, -1, 1, -1], ["a", "b"])
    plan = balanced(catalog, batch_size=2)
    assert plan.videos == 5
    drawn = Counter(s.video for n in range(6) for batch in epoch(plan, n) for s in batch)
    assert set(drawn) == {1, 2, 3, 5, 7}
    with pytest.raises(SpecError, match=r"balance.*labels"):
        balanced(catalog.subset([0, 4, 6]))


@patient
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=5), st.integers(1, 3), st.integers(1, 4),
    st.booleans(), st.integers(1, 3),
)  # fmt: skip
def test_each_rank_is_balanced_and_no_clip_comes_again_before_all_had_their_turn(
    sizes: list[int], clips: int, world: int, shuffle: bool, epochs: int
) -> None:
    catalog, seen = classes(*sizes), Counter[tuple[int, int]]()
    for rank, number in itertools.product(range(world), range(epochs)):
        plan = balanced(
            catalog, clips, shard=(rank, world), batch_size=3, drop_remainder=False, shuffle=shuffle
        )
        mine = [(s.video, s.clip) for batch in epoch(plan, number) for s in batch]
        counts = Counter(int(catalog.labels[video]) for video, _ in mine)
        assert len(set(counts.values())) == 1
        assert set(counts) == set(range(len(sizes)))
        seen.update(mine)
    for label in range(len(sizes)):
        videos = np.flatnonzero(catalog.labels == label).tolist()
        of_class = [seen[each] for each in itertools.product(videos, range(clips))]
        assert max(of_class) - min(of_class) <= 1


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
    shown = draw(st.lists(SHOWN, min_size=len(lengths), max_size=len(lengths)))
    counts = [np.minimum(-(-np.array(lengths) // 2), 20), [0] * len(lengths), *np.transpose(shown)]
    videos = with_windows(catalog(*lengths), np.array(counts))
    return videos, {"batch_size": None, "buckets": (*smaller, 20)} | size | how


SHOWN = st.tuples(st.integers(1, 40), st.integers(1, 40))  # width and height
SIZES = ((8, 16), (16, 8), (10, 10), (12, 10))
SEVERAL: list[dict[str, Any]] = [
    {}, {"crop": "three"}, {"size": SIZES}, {"size": SIZES[:1]},
    {"clips_per_video": 2, "sampling": "uniform", "size": SIZES[1:]},
]  # fmt: skip


@patient
@given(bucketed(), st.integers(1, 4), st.integers(0, 2), st.sampled_from(SEVERAL))
def test_each_clip_is_once_in_a_batch_of_its_size_and_of_the_smallest_bucket_that_holds_it(
    given: tuple[Catalog, dict[str, Any]], world: int, number: int, several: Any
) -> None:
    videos, how = given
    spec, crops = replace(ANY, **several), 3 if "crop" in several else 1
    lengths = np.minimum(-(-np.array([video.frames for video in videos]) // 2), 20)
    drop, buckets = how["drop_remainder"], np.array(how["buckets"])
    sizes = several.get("size", ())
    counts = table_of(videos).windows
    assert counts is not None
    shown = counts[2:].T.tolist()

    def fitting(video: int) -> Shape:
        width, height = shown[video]
        wide = [np.log(w / h) - np.log(width / height) for h, w in sizes]
        near = (sizes[int(np.argmin(np.round(np.abs(wide), 9)))],) if sizes else ()
        return Shape(int(buckets[np.searchsorted(buckets, lengths[video])]), near)

    of_clips = [fitting(video) for video in range(len(lengths))] * spec.clips_per_video
    in_bucket, largest = Counter(of_clips), max((h * w for h, w in sizes), default=1)

    def size(shape: Shape) -> int:
        frames = shape.frames * shape.pixels
        return int(how["batch_size"] or max(1, how["batch_frames"] * largest // frames))

    try:
        plans = [
            Plan.of(videos, one_clip(spec), options(**how, shard=(r, world))) for r in range(world)
        ]
    except SpecError:
        shares = [(clips // world * crops, size(shape)) for shape, clips in in_bucket.items()]
        assert all(own < (least if drop else 1) for own, least in shares)
        return
    shards = [epoch(plan, number) for plan in plans]
    samples = [sample for shard in shards for batch in shard for sample in batch]
    assert max(Counter((s.video, s.clip, s.crop) for s in samples).values()) == 1
    assert max(Counter((s.origin, s.crop) for s in samples).values()) == 1
    assert len({s.seed for s in samples}) == len({s.origin for s in samples})
    for step in range(len(plans[0])):
        at = number * len(plans[0]) + step
        (shape,) = {shape_at(plan, at) for plan in plans}
        for plan, shard in zip(plans, shards, strict=True):
            batch = shard[step]
            assert {fitting(s.video) for s in batch} == {shape} == {plan.shape_of(s) for s in batch}
            assert len(batch) == size(shape) if drop else 0 < len(batch) <= size(shape)
        rows = [len(shard[step]) for shard in shards]
        assert max(rows) - min(rows) <= crops
    for shape, clips in in_bucket.items():
        seen = sum(plans[0].shape_of(s) == shape for s in samples)
        left_out = clips * crops - seen
        assert left_out < (world * (size(shape) + crops) if drop else world * crops)
    if world == 1 and not drop:
        assert len(samples) == len(of_clips) * crops
    told, every = plans[0].left_out(), len(of_clips) * crops
    never = [shape for shape in in_bucket if shape not in plans[0].sizes]
    assert bool(told) == (len(in_bucket) > 1 and (bool(never) or len(samples) < 0.95 * every))
    if told:
        assert f"{len(samples)} of {every} clips" in told
        assert not never or any(str(shape) in told for shape in never)


@patient
@given(bucketed(), st.integers(1, 4), st.integers(0, 2), st.sampled_from(SEVERAL))
def test_with_repeat_each_clip_comes_and_ranks_have_as_many(
    given: tuple[Catalog, dict[str, Any]], world: int, number: int, several: Any
) -> None:
    videos, how = given
    how = {**how, "drop_remainder": "repeat"}
    spec, crops = replace(ANY, **several), 3 if "crop" in several else 1
    plans = [
        Plan.of(videos, one_clip(spec), options(**how, shard=(r, world))) for r in range(world)
    ]
    shards = [epoch(plan, number) for plan in plans]
    for batches in zip(*shards, strict=True):
        assert len({len(batch) for batch in batches}) == 1
        assert len({plans[0].shape_of(sample) for batch in batches for sample in batch}) == 1
    times = Counter((s.video, s.clip, s.crop) for shard in shards for b in shard for s in b)
    assert len(times) == len(videos) * spec.clips_per_video * crops
    assert times.total() - len(times) < len(plans[0].sizes) * world * crops
    assert not plans[0].left_out()


def test_what_buckets_leave_out_is_told_in_one_line_with_what_would_help() -> None:
    lengths = [length for length in range(1, 41) for _ in range(3)]
    how = {"buckets": range(1, 21), "batch_size": 4, "shard": (0, 2)}
    text = Plan.of(catalog(*lengths, 60, 60, 60), one_clip(ANY), options(**how)).left_out()
    # 19 buckets of 6 clips, and the last of 9: two ranks fill a batch of 4 each.
    assert "8 of 123 clips" in text
    assert "20 buckets" in text
    assert "4 x 2 ranks" in text
    assert "6 in bucket 1, 6 in bucket 2, 6 in bucket 3, 96 in 16 more" in text
    assert "too few for another batch: 1 in bucket 20" in text
    assert "drop_remainder=False delivers 122, in 20 steps instead of 1" in text
    assert "drop_remainder='repeat' delivers 123 and repeats 1, in 21 steps" in text


@patient
@given(bucketed(), st.lists(st.integers(0, 10**6), min_size=1, max_size=8))
def test_buckets_are_read_in_any_order(
    given: tuple[Catalog, dict[str, Any]], steps: list[int]
) -> None:
    videos, how = given
    try:
        plan, again = (Plan.of(videos, one_clip(ANY), options(**how)) for _ in range(2))
    except SpecError:
        return
    found = {step: (shape_at(plan, step), plan[step]) for step in steps}
    assert {step: (shape_at(again, step), again[step]) for step in sorted(steps)} == found
    for step in steps:
        other = again.substitute(again.substitute(again[step][0]))
        assert again.shape_of(other) == shape_at(plan, step), "it is in the same batch"
        assert plan.substitute(plan.substitute(plan[step][0])) == other


BUCKETS = {"buckets": (2, 10, 20), "batch_size": 2}


def test_a_substitute_is_of_the_same_bucket_unless_all_of_it_are_bad() -> None:
    plan = Plan.of(
        catalog(*[4] * 50, *[9] * 50, 60), one_clip(ANY), options(**BUCKETS, drop_remainder=False)
    )
    for first in [s for batch in epoch(plan) for s in batch]:
        videos = [s.video for s in chain(plan, first, 39)]
        own = {0: range(50), 1: range(50, 100), 2: range(100, 101)}[first.video // 50]
        assert all(video in own for video in videos[:8])
        assert not all(video in own for video in videos)


MIXED = mix({"a": (catalog(4, 9), 1)})


@pytest.mark.parametrize(
    ("videos", "spec", "changes", "words"),
    [
        (catalog(4, 9), ANY, {"buckets": (10, 30)}, "buckets.* max_frames=20"),
        (catalog(4, 9), ANY, {"buckets": (10,)}, "buckets.* max_frames=20"),
        (catalog(4, 9), DENSE, {"buckets": (4,)}, "max_frames"),
        (catalog(4, 9), DENSE, {"batch_frames": 8, "batch_size": None}, "batch_frames.*max_frames"),
        (catalog(4, 9), replace(ANY, frames=10), {}, "frames=10"),
        (catalog(4, 9), ANY, {"buckets": (20,), "balance": "class"}, "balance=.*buckets"),
        (MIXED, ANY, {"buckets": (20,)}, "mixture.*buckets"),
    ],
)
def test_options_that_contradict_the_lengths_of_clips_are_refused(
    videos: Catalog, spec: ClipSpec, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        check_lengths(videos, one_clip(spec), options(**changes))
    check_lengths(MIXED, one_clip(ANY), options())
