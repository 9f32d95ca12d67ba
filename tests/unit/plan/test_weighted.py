"""Rows and frames come as often as their weights say, in every epoch, on every rank."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.thorough import either
from videoload.catalog.catalog import Catalog
from videoload.catalog.target_columns import PerFrame
from videoload.clips.clip_spec import ClipSpec
from videoload.errors import SpecError
from videoload.plan.options import StreamOptions
from videoload.plan.plan import Plan, Sample

patient = settings(deadline=None, max_examples=either(30, 80))
AROUND = ClipSpec(frames=5, size=(8, 8), sampling="at", edges="hold", clips_per_video=20)


def catalog_of(rows: int, **columns: Any) -> Catalog:
    return Catalog([f"{i}.avi" for i in range(rows)], **columns)


def plan_of(catalog: Catalog, balance: Any, spec: ClipSpec, **changes: Any) -> Plan:
    how: dict[str, Any] = {"batch_size": 3, "shuffle": True, "drop_remainder": False}
    return Plan.of(catalog, spec, StreamOptions(**how | changes, balance=balance))


def epoch(plan: Plan, number: int = 0) -> list[Sample]:
    steps = range(number * len(plan), (number + 1) * len(plan))
    return [sample for step in steps for sample in plan[step]]


@patient
@given(
    weights=st.lists(st.sampled_from([0.0, 0.1, 1.0, 2.5, 40.0]), min_size=1, max_size=9).filter(
        any
    ),
    clips=st.integers(1, 4),
    seed=st.integers(0, 99),
    world=st.integers(1, 3),
    shuffle=st.booleans(),
    classes=st.lists(st.integers(0, 2), min_size=9, max_size=9),
)
def test_a_row_and_a_class_come_as_often_as_their_weights_say_rounded_down_or_up(
    weights: list[float], clips: int, seed: int, world: int, shuffle: bool, classes: list[int]
) -> None:
    spec = ClipSpec(frames=4, size=(8, 8), sampling="uniform", clips_per_video=clips)
    labels = classes[: len(weights)]
    catalog = catalog_of(len(weights), labels=labels)
    how: dict[str, Any] = {"seed": seed, "shuffle": shuffle}
    everything = epoch(plan_of(catalog, np.array(weights), spec, **how), 2)
    assert len(everything) == clips * np.count_nonzero(weights)
    drawn = Counter(sample.video for sample in everything)
    of_class = Counter(labels[sample.video] for sample in everything)
    for label in range(3):
        share = sum(w for w, own in zip(weights, labels, strict=True) if own == label)
        assert abs(of_class[label] - len(everything) * share / sum(weights)) < 1 + 1e-6
    for row, weight in enumerate(weights):
        wanted = len(everything) * weight / sum(weights)
        assert abs(drawn[row] - wanted) < 1 + 1e-6
        of_row = Counter(sample.clip for sample in everything if sample.video == row)
        assert set(of_row) <= set(range(clips))
        if weight:
            assert max(of_row.values(), default=0) - min(map(of_row.__getitem__, range(clips))) < 2
    if len(everything) < world:
        return
    shares = [
        epoch(plan_of(catalog, weights, spec, **how, shard=(rank, world)), 2)
        for rank in range(world)
    ]
    assert len({-(-len(share) // 3) for share in shares}) == 1
    found = {(s.origin, s.video, s.clip, s.seed) for share in shares for s in share}
    assert found <= {(s.origin, s.video, s.clip, s.seed) for s in everything}
    assert len(found) == sum(map(len, shares)) > len(everything) - world


def test_equal_weights_are_every_clip_once() -> None:
    spec = ClipSpec(frames=4, size=(8, 8), sampling="uniform", clips_per_video=3)
    for number in range(3):
        drawn = epoch(plan_of(catalog_of(40), [0.3] * 40, spec), number)
        assert len({(sample.video, sample.clip) for sample in drawn}) == len(drawn) == 120


def test_rows_that_take_turns_in_the_catalog_come_in_every_epoch() -> None:
    spec = ClipSpec(frames=4, size=(8, 8), sampling="uniform")
    weights = plan_of(catalog_of(100), [1.0, 3.0] * 50, spec)
    catalog = catalog_of(100).with_targets({"doing": PerFrame([[0] * 20 + [1] * 20] * 100)})
    frames = plan_of(catalog, "doing", replace(AROUND, clips_per_video=1))
    for plan, usual in ((weights, 25), (frames, 50)):
        even = [sum(s.video % 2 == 0 for s in epoch(plan, number)) for number in range(20)]
        assert all(abs(count - usual) < 20 for count in even)
        assert abs(np.mean(even) - usual) < 6
        assert len({frozenset(s.video for s in epoch(plan, number)) for number in range(9)}) > 5


LABELS = st.lists(st.sampled_from([-1, 0, 0, 0, 0, 1, 7]), min_size=1, max_size=60)


@patient
@given(arrays=st.lists(LABELS, min_size=1, max_size=4), seed=st.integers(0, 9), data=st.data())
def test_each_behaviour_comes_equally_often_and_no_frame_without_a_label(
    arrays: list[list[int]], seed: int, data: st.DataObject
) -> None:
    starts = [data.draw(st.integers(0, len(array) - 1)) for array in arrays]
    ends = [data.draw(st.sampled_from([-1, start + 1, 70])) for start in starts]
    catalog = catalog_of(len(arrays), starts=starts, ends=ends)
    catalog = catalog.with_targets({"doing": PerFrame(arrays)})
    inside = [
        array[start : len(array) if end < 0 else end]
        for array, start, end in zip(arrays, starts, ends, strict=True)
    ]
    there = {label for labels in inside for label in labels if label >= 0}
    if not there:
        with pytest.raises(SpecError, match="no frame has a label"):
            plan_of(catalog, "doing", AROUND)
        return
    drawn = epoch(plan_of(catalog, "doing", AROUND, seed=seed), 1)
    rows = sum(any(label >= 0 for label in labels) for labels in inside)
    assert len(drawn) == 20 * rows
    shown = Counter[int]()
    for sample in drawn:
        assert sample.at is not None
        assert starts[sample.video] <= sample.at < starts[sample.video] + len(inside[sample.video])
        shown[arrays[sample.video][sample.at]] += 1
    assert set(shown) <= there
    assert all(abs(shown[label] - len(drawn) / len(there)) < 1 + 1e-6 for label in there)


def test_all_frames_of_a_behaviour_come_before_one_comes_often() -> None:
    array = np.zeros(200, np.int64)
    array[[3, 50, 51, 52, 199]] = 1
    catalog = catalog_of(1).with_targets(PerFrame([array]))
    plan = plan_of(catalog, "targets", AROUND)
    drawn = Counter(sample.at for number in range(5) for sample in epoch(plan, number))
    assert {drawn[at] for at in (3, 50, 51, 52, 199)} == {10}
    assert len(drawn) > 40


@pytest.mark.parametrize(
    ("array", "share"),
    [
        (["", "rest", "rest", "groom"], [0, 0.25, 0.25, 0.5]),
        ([[0, 0], [1, 0], [1, 1], [-1, 0]], [1 / 3, 1 / 6, 1 / 6 + 1 / 3, 0]),
        ([0.0, 1.0, 3.0, 0.0], [0, 0.25, 0.75, 0]),
        ([True, False, False, False], [1 / 2, 1 / 6, 1 / 6, 1 / 6]),
        (np.array([3, 3, 9, 3], np.uint8), [1 / 6, 1 / 6, 1 / 2, 1 / 6]),
    ],
)
def test_a_frame_may_have_a_word_several_classes_or_a_weight(array: Any, share: Any) -> None:
    catalog = catalog_of(1).with_targets({"doing": PerFrame([array])})
    spec = ClipSpec(frames=5, size=(8, 8), sampling="at", edges="zero", clips_per_video=1200)
    drawn = Counter(sample.at for sample in epoch(plan_of(catalog, "doing", spec)))
    assert [drawn[at] for at in range(4)] == pytest.approx(1200 * np.array(share), abs=2)


def test_what_cannot_be_drawn_by_is_named() -> None:
    catalog = catalog_of(2).with_targets({"y": PerFrame([[0, 1]] * 2), "x": [1.0, 2.0]})
    windows = ClipSpec(frames=4, size=(8, 8), sampling="random")
    for given_catalog, balance, spec, words in (
        (catalog, "x", AROUND, r"'x' is none of \['y'\]"),
        (catalog_of(2), "y", AROUND, r"'y' is none of \[\]"),
        (catalog, "y", windows, r'give sampling="at" and edges='),
        (catalog_of(2, at=[1, 2]).with_targets({"y": PerFrame([[0, 1]] * 2)}), "y", AROUND,
         "leave at and at_s out"),
        (catalog_of(2, starts_s=[0, 1]).with_targets({"y": PerFrame([[0, 1]] * 2)}), "y", AROUND,
         "give segments start and end, not seconds"),
        (catalog_of(1).with_targets({"y": PerFrame([np.zeros((4, 2, 2))])}), "y", AROUND,
         r"a frame has a class .*, not float64\[2, 2\]"),
        (catalog_of(1).with_targets({"y": PerFrame([[1.0, np.inf]])}), "y", AROUND,
         "a weight is infinite"),
        (catalog, "y", replace(AROUND, crop="box"), 'crop="box" needs boxes'),
        (catalog, [1.0, 2.0, 3.0], windows, "balance= has 3 weights, and the catalog 2 rows"),
    ):  # fmt: skip
        with pytest.raises(SpecError, match=words):
            plan_of(given_catalog, balance, spec)


def test_a_bad_row_of_much_weight_is_replaced() -> None:
    spec = ClipSpec(frames=4, size=(8, 8))
    plan = plan_of(catalog_of(3), [1000.0, 1e-6, 1e-6], spec)
    for sample in epoch(plan):
        replaced = sample
        for _ in range(40):
            replaced = plan.substitute(replaced)
            if replaced.video != 0:
                break
        assert replaced.video != 0
        assert replaced.origin == sample.origin


def test_a_weighted_stream_is_the_same_in_every_release() -> None:
    plan = plan_of(catalog_of(4), [1, 0, 2, 5], ClipSpec(4, size=(8, 8), clips_per_video=4))
    assert [sample.video for sample in epoch(plan)] == [3, 3, 3, 0, 3, 3, 2, 3, 3, 2, 2, 3]
    array = [0, 0, 0, 0, 1, 0, 0, 1]
    catalog = catalog_of(1).with_targets(PerFrame([array]))
    drawn = [sample.at for sample in epoch(plan_of(catalog, "targets", AROUND))]
    assert drawn == [0, 2, 7, 5, 0, 4, 3, 1, 6, 2, 4, 7, 6, 7, 7, 4, 4, 3, 7, 4]
