"""Targets have any kind, follow their videos into other catalogs, and are looked up by batch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.catalogs import refused
from videoload import Boxes, OneOf, PerFrame, Points, Steps
from videoload.catalog import targets
from videoload.catalog.catalog import Catalog
from videoload.catalog.joining import targets_of
from videoload.errors import CatalogError, SpecError

CATALOG = Catalog([f"{i}.avi" for i in range(6)], [0, 0, 0, 1, 1, 1], ["jump", "run"])
FRAMES = np.array([[0, 2], [1, 1]])
VIDEOS = np.array([4, 1])
KINDS = {
    "number": np.arange(6, dtype=np.float32),
    "vector": np.arange(12.0).reshape(6, 2),
    "multi-hot": np.eye(6, 3, dtype=np.uint8),
    "text": np.array(["a", "bb", "", "ccc", "ä", "e"]),
    "per frame": PerFrame([np.arange(3) + 10 * i for i in range(6)]),
    "boxes": PerFrame([np.full((3, 4), i, np.float32) for i in range(6)]),
    "one of": OneOf([[f"{i}{n}" for n in range(i + 1)] for i in range(6)]),
}
EXPECTED: dict[str, Any] = {
    "number": [4, 1],
    "vector": [[8, 9], [2, 3]],
    "multi-hot": [[0, 0, 0], [0, 1, 0]],
    "text": ["ä", "bb"],
    "per frame": [[40, 42], [11, 11]],
    "boxes": [[[4] * 4] * 2, [[1] * 4] * 2],
    "one of": ["42", "11"],
}
SEEDS = np.array([7, 2**64 - 1], np.uint64)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_has_the_rows_of_its_videos_in_their_type(kind: str) -> None:
    got = targets_of(CATALOG.with_targets(KINDS[kind]), VIDEOS, FRAMES, seeds=SEEDS)
    np.testing.assert_array_equal(got, np.array(EXPECTED[kind], got.dtype))
    told = targets.shapes(targets.checked(KINDS[kind], 6), (2,))
    assert isinstance(told, tuple)
    assert got.shape == (2, *told[0])
    assert ("str" if got.dtype == object else got.dtype.name) == told[1]


@pytest.mark.parametrize(
    "change",
    [
        lambda catalog: catalog.subset([5, 0, 2]),
        lambda catalog: catalog[1:4],
        lambda catalog: catalog.split(0.5, seed=3)[0],
        lambda catalog: Catalog.concat([catalog[4:], catalog[:2]]),
        lambda catalog: catalog.subset([1, 1, 0]),
    ],
    ids=["subset", "slice", "split", "join", "duplicates"],
)
def test_targets_follow_their_videos(change: Callable[[Catalog], Catalog]) -> None:
    new = change(CATALOG.with_targets(KINDS))
    old = np.array([int(video.path[0]) for video in new])
    everything = np.arange(len(new))
    shown = np.zeros((len(new), 1), np.int64)
    seeds = np.arange(len(new), dtype=np.uint64)
    got = targets_of(new, everything, shown, seeds=seeds)
    expected = targets_of(CATALOG.with_targets(KINDS), old, shown, seeds=seeds)
    for kind in KINDS:
        np.testing.assert_array_equal(got[kind], expected[kind])


def test_targets_do_not_change_the_catalog_or_follow_the_callers_array() -> None:
    mine = np.arange(6)
    catalog = CATALOG.with_targets(mine)
    mine[4] = 99
    assert CATALOG.targets is None
    assert targets_of(catalog, VIDEOS, FRAMES).tolist() == [4, 1]
    with pytest.raises(ValueError, match="read-only"):
        catalog.targets[0] = 1  # type: ignore[index, assignment]
    mine.flags.writeable = False
    assert CATALOG.with_targets(mine).targets is mine, "nobody changes it: no copy"
    turned = CATALOG.with_targets(np.arange(6, dtype=">i4"))
    assert targets_of(turned, VIDEOS, FRAMES).dtype == np.dtype("int32")


def test_catalogs_are_equal_if_their_targets_are() -> None:
    one, same = CATALOG.with_targets(KINDS), CATALOG.with_targets(dict(KINDS))
    assert one == same
    assert one != CATALOG
    others = [*list(KINDS.values())[1:], KINDS["number"]]
    for kind, other in zip(KINDS.values(), others, strict=True):
        assert CATALOG.with_targets(kind) == CATALOG.with_targets(kind)
        assert CATALOG.with_targets(kind) != CATALOG.with_targets(other)
    assert CATALOG.with_targets([1] * 6) != CATALOG.with_targets([1] * 5 + [2])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        *((lambda wrong=wrong: CATALOG.with_targets(wrong), words) for wrong, words in (
            (np.arange(5), ["5", "6"]),
            ({"x": np.arange(6), "y": np.arange(7)}, ["y", "7", "6"]), (3.0, []),
            ([[1], [1, 2], [3], [4], [5], [6]], ["targets"]), ([object()] * 6, ["targets"]),
            (np.zeros(6, "datetime64[s]"), ["datetime64"]), (np.zeros(6, np.longdouble), ["float"]),
            (np.zeros(6, np.clongdouble), ["complex"]), ({}, ["[]"]),
            ({1: np.arange(6)}, ["[1]"]))),
        *((lambda wrong=wrong: PerFrame(wrong), [])
          for wrong in ([], [np.zeros((3, 2)), np.zeros((3, 1))], [[1], [1.0]])),
    ],
)  # fmt: skip
def test_invalid_targets_are_refused(make: Any, words: list[str]) -> None:
    with refused(*words):
        make()


@pytest.mark.parametrize(
    ("column", "row"),
    [(PerFrame, np.zeros(3)), (Points, np.ones((3, 2, 2))), (Boxes, np.ones((3, 4)))],
)
def test_what_is_wrong_with_targets_of_frames_is_told_of_their_kind(column: Any, row: Any) -> None:
    kind = column.__name__
    with refused(kind, "2", "6"):
        CATALOG.with_targets(column([row] * 2))
    catalog = CATALOG.with_targets(column([row] * 6))
    affine = np.zeros((1, 2, 3), np.float32)
    with pytest.raises(SpecError, match=rf"1\.avi.*{kind}.* 3.* 3"):
        targets_of(catalog, np.array([1]), np.array([[2, 3]]), affine)
    if column is not PerFrame:
        with refused(kind):
            column([row, row[:2, :-1]])


def test_only_targets_of_one_kind_are_joined() -> None:
    numbers, words = CATALOG[:3].with_targets([1, 2, 3]), CATALOG[3:].with_targets(list("abc"))
    with refused("int64", "str"):
        Catalog.concat([numbers, words])
    with refused("targets"):
        Catalog.concat([numbers, CATALOG[3:]])
    other = Catalog(["x.avi"], [0], ["sit", "stand"]).with_targets([1])
    with refused("classes"):
        Catalog.concat([numbers, other])


@pytest.mark.parametrize("offsets", [[0.0, 0.04], [0.5], [True], ["1"], [], [[1], [2]]])
def test_offsets_of_steps_are_whole_numbers(offsets: Any) -> None:
    with pytest.raises(CatalogError, match="offsets"):
        Steps(np.arange(50.0), [0], [50], offsets=offsets)


@pytest.mark.parametrize("place", [0, 1])
def test_bounds_of_steps_are_not_masked(place: int) -> None:
    bounds: list[Any] = [np.arange(2), np.arange(2) + 9]
    Steps(np.arange(50.0), *bounds)
    bounds[place] = np.ma.masked_array(bounds[place], mask=[False, True])
    with pytest.raises(CatalogError, match="begins and ends"):
        Steps(np.arange(50.0), *bounds)


def test_steps_give_the_values_of_their_rows() -> None:
    steps = Steps(np.arange(12), [6, 0], [9, 2], offsets=np.array([0, 1]))
    assert steps.values.tolist() == [6, 7, 8, 0, 1]


def test_a_clip_gets_each_of_its_values_in_some_epoch_and_columns_are_drawn_together() -> None:
    texts = [["a", "b", "c"][: 1 + i % 3] for i in range(6)]
    numbers = [[float(ord(text)) for text in row] for row in texts]
    both = CATALOG.with_targets({"text": OneOf(texts), "number": OneOf(numbers)})
    seen: dict[int, set[str]] = {i: set() for i in range(6)}
    for epoch in range(40):
        seeds = np.random.default_rng(epoch).integers(0, 2**63, 6, np.uint64)
        got = targets_of(both, np.arange(6), np.zeros((6, 1), int), seeds=seeds)
        assert [*map(ord, got["text"])] == got["number"].tolist()
        for i, text in enumerate(got["text"]):
            seen[i].add(text)
    assert [seen[i] for i in range(6)] == [{*row} for row in texts]


def test_a_catalog_explodes_into_a_row_of_each_value() -> None:
    texts = [["a", "b", "c"][: 1 + i % 3] for i in range(6)]
    both = CATALOG.with_targets({"text": OneOf(texts), "n": np.arange(6)})
    rows: Any = both.explode()
    assert len(rows) == 12
    assert rows.targets["text"].tolist() == [text for row in texts for text in row]
    assert rows.targets["n"].tolist() == [i for i in range(6) for _ in texts[i]]
    assert [video.path[0] for video in rows] == [str(i) for i in rows.targets["n"]]
    only: Any = CATALOG.with_targets(OneOf(texts)).explode()
    assert only.targets.tolist() == rows.targets["text"].tolist()
    with refused("several"):
        CATALOG.explode()
    with refused("text"):
        both.explode("n")


@pytest.mark.parametrize("given", [["ab", "cd"], [["a"], []], [["a"], 3], [["a"], [3]]])
def test_values_that_are_no_lists_of_one_type_are_refused(given: Any) -> None:
    with refused("OneOf"):
        OneOf(given)
