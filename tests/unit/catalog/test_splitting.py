"""All videos of a group go to one side of a split."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.catalogs import refused
from tests.support.thorough import either
from videoload.catalog.catalog import Catalog

CLASSES = ("Archery", "Bowling")
UCF = Catalog(
    [f"{n}/v_{n}_g{g:02d}_c{c:02d}.avi" for n in CLASSES for g in range(1, 26) for c in (1, 2, 3)],
    [label for label in (0, 1) for _ in range(75)],
    CLASSES,
)
RECORDING = r"v_.+_g\d+"


def recordings(catalog: Catalog) -> set[str]:
    return {video.path.rsplit("_", 1)[0] for video in catalog}


def test_no_recording_is_on_both_sides() -> None:
    for seed in range(5):
        train, test = UCF.split(0.8, seed=seed, by=RECORDING)
        assert not recordings(train) & recordings(test)
        assert Counter(train.labels.tolist()) == {0: 60, 1: 60}, "20 of 25 groups of each class"
    train, test = UCF.split(0.8, seed=0)
    assert recordings(train) & recordings(test), "without groups, some are"


def test_a_pattern_names_the_group_by_its_parentheses() -> None:
    train, test = UCF.split(0.8, seed=1, by=r"_(g\d+)_")
    mine, others = ({path[-3:] for path in recordings(part)} for part in (train, test))
    assert not mine & others, "g01 of all classes is one group"
    assert len(mine) == 20


def test_a_pattern_a_function_and_a_list_mean_the_same() -> None:
    by_function = UCF.split(0.6, seed=2, by=lambda video: video.path.split("/")[1][:-8])
    by_list = UCF.split(0.6, seed=2, by=[video.path.split("/")[1][:-8] for video in UCF])
    assert by_function == by_list == UCF.split(0.6, seed=2, by=RECORDING)


@settings(deadline=None, max_examples=either(25, 60))
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), min_size=4, max_size=40),
    st.integers(0, 2**40),
)
def test_a_split_by_groups_is_a_partition_whatever_their_order(
    rows: list[tuple[int, int]], seed: int
) -> None:
    catalog = Catalog([f"{i}.avi" for i in range(len(rows))], [c for c, _ in rows], list("abc"))
    group = [g for _, g in rows]
    groups_of: dict[int, set[int]] = {}  # each group counts for its rarest class
    rarity = Counter(label for label, _ in rows)
    for g in set(group):
        rarest = min((rarity[label], label) for label, other in rows if other == g)
        groups_of.setdefault(rarest[1], set()).add(g)
    if max(map(len, groups_of.values())) < 2:
        with pytest.raises(ValueError, match="no class has two groups"):
            catalog.split(0.5, seed, by=group)
        return
    first, rest = catalog.split(0.5, seed, by=group)
    number = {video.path: g for video, g in zip(catalog, group, strict=True)}
    assert not {number[v.path] for v in first} & {number[v.path] for v in rest}
    assert {v.path for v in first} | {v.path for v in rest} == set(number)
    turned = catalog.subset(range(len(catalog) - 1, -1, -1))
    again, _ = turned.split(0.5, seed, by=group[::-1])
    assert {v.path for v in again} == {v.path for v in first}


def test_groups_that_cannot_be_meant_are_refused() -> None:
    film = Catalog(["a.avi", "a.avi", "b.avi"], [0, 0, 0], ["jump"], starts=[0, 5, 0])
    by: Any
    for catalog, by, words in (
        (UCF, r"(S\d+)", ["'Archery/v_Archery_g01_c01.avi'"]), (UCF, "(", ["("]),
        (UCF, [1, 2], ["by=", "150"]), (UCF, lambda video: "all", ["two groups"]),
        (film, [1, 2, 2], ["'a.avi'", "'1' and '2'"]),  # segments of a file are in one group
    ):  # fmt: skip
        with refused(*words):
            catalog.split(0.5, by=by)
