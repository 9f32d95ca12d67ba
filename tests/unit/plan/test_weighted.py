"""Rows come as often as their weights say, in every epoch, on every rank."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.chances import chi_square
from tests.support.thorough import either
from videoload.catalog.catalog import Catalog
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.sample_spec import one_clip
from videoload.errors import SpecError
from videoload.plan.batches import Sample
from videoload.plan.options import checked_options
from videoload.plan.plan import Plan

patient = settings(deadline=None, max_examples=either(30, 80))


def catalog_of(rows: int, **columns: Any) -> Catalog:
    return Catalog([f"{i}.avi" for i in range(rows)], **columns)


def plan_of(catalog: Catalog, balance: Any, spec: ClipSpec, **changes: Any) -> Plan:
    how: dict[str, Any] = {"batch_size": 3, "shuffle": True, "drop_remainder": False}
    return Plan.of(catalog, one_clip(spec), checked_options(**how | changes, balance=balance))


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


def test_each_row_needs_a_weight() -> None:
    windows = ClipSpec(frames=4, size=(8, 8), sampling="random")
    with pytest.raises(SpecError, match=r"balance= .*3 .* 2 "):
        plan_of(catalog_of(2), [1.0, 2.0, 3.0], windows)


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
    alike = plan_of(catalog_of(4), [1.0] * 4, spec, shuffle=False)
    instead = [alike.substitute(sample).video for n in range(99) for sample in epoch(alike, n)]
    assert chi_square(Counter(instead), 4) < 16.3  # 3 degrees of freedom: p = 0.001


def test_a_weighted_stream_is_the_same_in_every_release() -> None:
    plan = plan_of(catalog_of(4), [1, 0, 2, 5], ClipSpec(4, size=(8, 8), clips_per_video=4))
    assert [sample.video for sample in epoch(plan)] == [3, 3, 3, 0, 3, 3, 2, 3, 3, 2, 2, 3]
