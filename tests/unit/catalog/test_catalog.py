"""The catalog: which videos, which labels. Mistakes are refused in one line."""

from __future__ import annotations

import copy
import itertools
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.catalogs import pairs, refused, tables, tree
from tests.support.thorough import either
from videoload.catalog.catalog import Catalog
from videoload.catalog.table import Video

patient = settings(
    deadline=None,
    max_examples=either(25, 60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
TWO = ("jump", "run")


# What a catalog is


def test_a_video_is_what_was_given() -> None:
    catalog = Catalog(
        ["a.avi", "b.avi"], [1, 0], TWO, starts=[5, 0], ends=[9, None], frames=[None, 40]
    )
    assert catalog[0] == Video("a.avi", 1, start=5, end=9, frames=None)
    assert catalog[1] == Video("b.avi", 0, start=0, end=None, frames=40)


def test_a_video_without_a_segment_is_the_whole_file() -> None:
    assert Catalog(["a.avi"], [0], ["jump"])[0] == Video("a.avi", 0)


def test_numbers_of_a_video_are_plain_ints() -> None:
    video = Catalog(["a.avi"], np.array([0], np.uint8), ["jump"], starts=[1], ends=[2], frames=[3])[
        0
    ]
    assert [type(n) for n in video[1:5]] == [int] * 4


def test_negative_indices_count_from_the_end() -> None:
    catalog = Catalog(["a.avi", "b.avi", "c.avi"], [0, 0, 0], ["jump"])
    assert [catalog[-1].path, catalog[-3].path] == ["c.avi", "a.avi"]


@pytest.mark.parametrize("index", [2, -3, 10**30])
def test_an_index_outside_is_an_index_error(index: int) -> None:
    catalog = Catalog(["a.avi", "b.avi"], [0, 0], ["jump"])
    with pytest.raises(IndexError, match="catalog of 2"):
        catalog[index]
    with pytest.raises(TypeError, match=r"as from KFold: catalog\.subset"):
        catalog[[0, 1]]  # type: ignore[call-overload]


class Last:
    def __index__(self) -> int:
        return -1


@pytest.mark.parametrize("index", [np.int64(1), np.uint8(1), Last()])
def test_any_integer_type_can_be_an_index(index: SupportsIndex) -> None:
    assert Catalog(["a.avi", "b.avi"], [0, 0], ["jump"])[index].path == "b.avi"


def test_iteration_gives_every_video_in_order() -> None:
    catalog = Catalog(["c.avi", "a.avi", "b.avi"], [0, 1, 0], TWO)
    assert list(catalog) == [catalog[i] for i in range(3)]
    assert [video.path for video in catalog] == ["c.avi", "a.avi", "b.avi"]


def test_labels_are_int64_and_read_only() -> None:
    labels = Catalog(["a.avi", "b.avi"], [1, 0], TWO).labels
    assert (labels.dtype, labels.tolist()) == (np.dtype(np.int64), [1, 0])
    with pytest.raises(ValueError, match="read-only"):
        labels[0] = 0


def test_arrays_and_lists_of_the_caller_may_change_afterwards() -> None:
    paths, labels, classes = ["a.avi", "b.avi"], np.array([1, 0]), ["jump", "run"]
    catalog = Catalog(paths, labels, classes)
    paths[0], labels[0], classes[0] = "x.avi", 0, "walk"
    assert pairs(catalog) == [("a.avi", "run"), ("b.avi", "jump")]
    assert labels.flags.writeable


@pytest.mark.parametrize("name", ["root", "classes", "labels", "more"])
def test_no_attribute_can_be_set(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(Catalog(["a.avi"], [0], ["jump"]), name, None)


def test_repr_shows_counts_only(tmp_path: Path) -> None:
    paths = [f"{i}.avi" for i in range(100)]
    told = "Catalog(100 rows of 100 files, 2 classes, root=None)"
    assert repr(Catalog(paths, [0] * 100, TWO)) == told
    parts = Catalog(["a.avi"] * 3, starts=[0, 5, 9])
    assert repr(parts) == "Catalog(3 rows of 1 files, 0 classes, root=None)"
    assert repr(Catalog(paths, [0] * 100, TWO, tmp_path)).endswith(f"root={tmp_path})")


def test_the_root_is_absolute_and_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, "real/")
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    assert Catalog(["a.avi"], [0], ["jump"], "link").root == tmp_path / "real"


def test_equal_catalogs_are_equal_and_hash_alike(tmp_path: Path) -> None:
    def make() -> Catalog:
        return Catalog(["a.avi", "b.avi"], [0, 1], TWO, tmp_path, ends=[4, None])

    assert make() == make()
    assert hash(make()) == hash(make())
    assert copy.deepcopy(make()) == make()


@pytest.mark.parametrize(
    "change",
    [
        {"paths": ["a.avi", "c.avi"]},
        {"labels": [0, 0]},
        {"classes": ["jump", "walk"]},
        {"root": "/"},
        {"starts": [0, 1]},
        {"ends": [4, 5]},
        {"ends": None},
        {"frames": [9, None]},
    ],
    ids=str,
)
def test_a_catalog_that_differs_anywhere_is_not_equal(change: dict[str, Any]) -> None:
    given: dict[str, Any] = {
        "paths": ["a.avi", "b.avi"],
        "labels": [0, 1],
        "classes": TWO,
        "ends": [4, None],
    }
    assert Catalog(**given) != Catalog(**{**given, **change})


def test_a_catalog_is_not_equal_to_the_list_of_its_videos() -> None:
    catalog = Catalog(["a.avi"], [0], ["jump"])
    assert catalog != list(catalog)


def test_columns_of_defaults_are_the_same_as_none() -> None:
    plain = Catalog(["a.avi", "b.avi"], [0, 0], ["jump"])
    spelt = Catalog(
        ["a.avi", "b.avi"], [0, 0], ["jump"], starts=[0, 0], ends=[None, -1], frames=[-1, -1]
    )
    assert plain == spelt


def test_segments_of_one_file_share_one_str() -> None:
    twins = ["".join(["a/", "b.avi"]) for _ in range(2)]
    assert twins[0] is not twins[1]
    catalog = Catalog(twins, [0, 0], ["jump"], starts=[0, 5])
    assert catalog[0].path is catalog[1].path


# Paths


@pytest.mark.parametrize(
    ("given_path", "kept"),
    [
        ("a/./b.avi", "a/b.avi"),
        ("a//b.avi", "a/b.avi"),
        ("./a.avi", "a.avi"),
        ("a/../b.avi", "b.avi"),
        ("a/x/../../b.avi", "b.avi"),
        ("a b/c  d.avi", "a b/c  d.avi"),
        ("a\\b.avi", "a\\b.avi"),
        ("..a/b..avi", "..a/b..avi"),
        ("übung/動画.avi", "übung/動画.avi"),
    ],
)
def test_paths_are_normalised_lexically(given_path: str, kept: str) -> None:
    assert Catalog([given_path], [0], ["jump"])[0].path == kept


@pytest.mark.parametrize("path", ["../a.avi", "a/../../b.avi", "..", "a/../..", "/", "//a.avi"])
def test_a_path_that_leaves_the_root_is_refused(path: str) -> None:
    with refused("video 1", repr(path), "inside the root"):
        Catalog(["fine.avi", path], [0, 0], ["jump"])


def test_an_absolute_path_is_refused_even_below_the_root(tmp_path: Path) -> None:
    with refused("video 0", "relative"):
        Catalog([f"{tmp_path}/a.avi"], [0], ["jump"], tmp_path)


@pytest.mark.parametrize("path", ["", ".", "a/.."])
def test_a_path_that_names_no_file_is_refused(path: str) -> None:
    with refused("video 0", repr(path)):
        Catalog([path], [0], ["jump"])


@pytest.mark.parametrize("path", ["a\0b.avi", "a\nb.avi", "a\rb.avi", "a\udcffb.avi"])
def test_a_path_that_is_not_a_line_of_text_is_refused_with_its_repr(path: str) -> None:
    with refused("video 0", repr(path), "rename"):
        Catalog([path], [0], ["jump"])


def test_odd_but_harmless_characters_stay_in_a_path() -> None:
    path = "a\tb\u2028c\u00a0.avi"
    assert Catalog([path], [0], ["jump"])[0].path == path


def test_a_path_that_is_not_a_str_is_refused() -> None:
    with refused("video 0", "b'a.avi' is a bytes, not a str"):
        Catalog([b"a.avi"], [0], ["jump"])  # type: ignore[list-item]


# Duplicates


@pytest.mark.parametrize("twin", ["a.avi", "./a.avi", "x/../a.avi"])
def test_the_same_video_twice_is_refused(twin: str) -> None:
    with refused("video 2", "video 0", "'a.avi'"):
        Catalog(["a.avi", "b.avi", twin], [0, 0, 1], TWO)


def test_the_same_segment_twice_is_refused() -> None:
    with refused("video 3", "video 1", "'a.avi'"):
        Catalog(["a.avi"] * 4, [0] * 4, TWO, starts=[0, 0, 5, 0], ends=[9, 5, 9, 5])


def test_a_whole_file_twice_beside_its_segments_is_refused() -> None:
    with refused("video 2", "video 0"):
        Catalog(["a.avi"] * 3, [0] * 3, TWO, starts=[0, 5, 0], ends=[None, 9, None])


def test_different_segments_of_a_file_are_fine() -> None:
    catalog = Catalog(["a.avi"] * 4, [0, 1, 0, 1], TWO, starts=[0, 0, 5, 5], ends=[5, 6, 9, None])
    assert [video[2:4] for video in catalog] == [(0, 5), (0, 6), (5, 9), (5, None)]


@patient
@given(st.lists(st.tuples(*map(st.sampled_from, ("abc", range(4), (4, 5, 6)))), min_size=1))
def test_duplicates_are_found_at_any_rows(rows: list[tuple[str, int, int]]) -> None:
    paths, starts, ends = map(list, zip(*rows, strict=True))

    def make() -> Catalog:
        return Catalog(paths, [0] * len(rows), TWO, starts=starts, ends=ends)

    if len(set(rows)) == len(rows):
        assert [(video.path, video.start, video.end) for video in make()] == rows
    else:
        with refused("is the same segment as"):
            make()


# Labels, classes, segments


@pytest.mark.parametrize("label", [2, -2, 2**40])
def test_a_label_without_a_class_is_refused(label: int) -> None:
    with refused("video 1", "'b.avi'", f"label {label}", "0..1"):
        Catalog(["a.avi", "b.avi"], [0, label], TWO)


@pytest.mark.parametrize("labels", [[0.0], ["0"], [True], [2**70], np.array([0], np.uint64)])
def test_labels_that_are_not_whole_numbers_are_refused(labels: Any) -> None:
    with refused("labels", "whole numbers"):
        Catalog(["a.avi"], labels, TWO)


@pytest.mark.parametrize("name", ["labels", "starts", "ends", "frames"])
def test_columns_of_different_lengths_are_refused(name: str) -> None:
    columns: dict[str, Any] = {"labels": [0, 0], name: [1, 1, 1]}
    with refused(name, "2 paths", "(3,)"):
        Catalog(["a.avi", "b.avi"], classes=TWO, **columns)


def test_a_catalog_without_videos_is_refused() -> None:
    with refused("at least one"):
        Catalog([], [], TWO)


@pytest.mark.parametrize(
    ("classes", "word"),
    [
        ([], "at least one"),
        ("jump", "'jump'"),
        (["jump", "run", "jump"], "'jump'"),
        (["jump", ""], "''"),
        (["jump", "a\nb"], "'a\\nb'"),
        (["jump", "\udcff"], "'\\udcff'"),
        (["jump", 3], "3"),
    ],
)
def test_invalid_classes_are_refused(classes: Any, word: str) -> None:
    with refused("classes", word):
        Catalog(["a.avi"], [0], classes)


@pytest.mark.parametrize("argument", ["paths", "labels", "classes", "starts", "box"])
@pytest.mark.parametrize("kind", [set, frozenset, dict.fromkeys])
def test_what_has_no_order_is_no_column(argument: str, kind: Any) -> None:
    given: dict[str, Any] = {"paths": ["a.avi"], "labels": [0], "classes": ["a"]}
    values = {"box": ["0 0 2 2"], "starts": [3]}.get(argument, given.get(argument))
    with refused(argument):
        Catalog(**{**given, argument: kind(values)})
    if argument == "paths":
        with refused("subset"):
            Catalog(**given).subset(kind([0]))
        with refused("by="):
            Catalog(["a.avi", "b.avi"]).split(0.5, by=kind([0, 1]))


@pytest.mark.parametrize(
    ("start", "end", "frames", "word"),
    [
        (-1, None, None, "start -1"),
        (5, 5, None, "end 5"),
        (5, 4, None, "end 4"),
        (0, 0, None, "end 0"),
        (0, -7, None, "end -7"),
        (0, 11, 10, "frame 10 "),
        (10, None, 10, "frame 10 "),
        (0, None, 0, "0 frames"),
        (0, None, -5, "-5 frames"),
    ],
)
def test_an_impossible_segment_is_refused(
    start: int, end: int | None, frames: int | None, word: str
) -> None:
    with refused("video 1", "'b.avi'", word):
        Catalog(
            ["a.avi", "b.avi"],
            [0, 0],
            TWO,
            starts=[0, start],
            ends=[None, end],
            frames=[None, frames],
        )


def test_a_segment_may_end_with_the_last_frame() -> None:
    assert Catalog(["a.avi"], [0], TWO, starts=[9], ends=[10], frames=[10])[0][2:5] == (9, 10, 10)


def test_a_root_that_is_not_a_folder_is_refused(tmp_path: Path) -> None:
    with refused(tmp_path / "none"):
        Catalog(["a.avi"], [0], TWO, tmp_path / "none")


# Rebuilt


@patient
@given(catalog=tables())
def test_a_catalog_rebuilt_from_its_videos_is_the_same(catalog: Catalog) -> None:
    paths, labels, starts, ends, frames, *_ = zip(*catalog, strict=True)
    segments: dict[str, Any] = {"starts": starts, "ends": ends, "frames": frames}
    assert Catalog(paths, labels, catalog.classes, **segments) == catalog
    assert catalog.labels.tolist() == list(labels)


# subset


@patient
@given(catalog=tables(), data=st.data())
def test_a_subset_is_its_videos_in_the_order_asked(catalog: Catalog, data: st.DataObject) -> None:
    indices = data.draw(st.permutations(range(len(catalog))))
    indices = indices[: data.draw(st.integers(1, len(catalog)))]
    subset = catalog.subset(indices)
    assert list(subset) == [catalog[i] for i in indices]
    assert (subset.classes, subset.root) == (catalog.classes, catalog.root)
    assert subset == catalog.subset(np.array(indices, np.uint8))


def test_a_subset_of_everything_is_the_catalog(tmp_path: Path) -> None:
    catalog = Catalog(["a.avi", "b.avi"], [0, 1], TWO, tmp_path, starts=[1, 0])
    assert catalog.subset(range(2)) == catalog
    assert catalog.subset(i for i in (-2, -1)) == catalog


def test_a_subset_without_segments_equals_a_catalog_without_them() -> None:
    catalog = Catalog(["a.avi", "b.avi"], [0, 1], TWO, starts=[0, 3], ends=[None, 5])
    assert catalog.subset([0]) == Catalog(["a.avi"], [0], TWO)


def test_a_subset_may_repeat_a_video() -> None:
    catalog = Catalog(["a.avi", "b.avi"], [0, 1], TWO)
    assert catalog.subset([1, 0, -1]).paths == ("b.avi", "a.avi", "b.avi")


def test_an_empty_subset_is_refused() -> None:
    with refused("at least one"):
        Catalog(["a.avi"], [0], TWO).subset([])


@pytest.mark.parametrize("index", [2, -3])
def test_a_subset_outside_the_catalog_is_an_index_error(index: int) -> None:
    with pytest.raises(IndexError):
        Catalog(["a.avi", "b.avi"], [0, 1], TWO).subset([index])


@pytest.mark.parametrize("indices", [np.array([True, False]), [0.0], [[0, 1]]])
def test_a_subset_by_anything_but_whole_numbers_is_refused(indices: Any) -> None:
    with refused("whole numbers", "flatnonzero"):
        Catalog(["a.avi", "b.avi"], [0, 1], TWO).subset(indices)


# split


def files_of(catalog: Catalog) -> set[str]:
    return {video.path for video in catalog}


def files_by_class(catalog: Iterable[Video]) -> dict[int, set[str]]:
    files: dict[int, set[str]] = defaultdict(set)
    for video in catalog:
        files[video.label].add(video.path)
    return files


@st.composite
def splittable(draw: st.DrawFn) -> Catalog:
    """Classes of 1 to 9 files, at least one class with two files; 1 to 3 segments per file."""
    counts = draw(st.lists(st.integers(1, 9), min_size=1, max_size=5).filter(lambda c: max(c) > 1))
    rows = [
        (f"{label}/{file}.avi", label, segment)
        for label, count in enumerate(counts)
        for file in range(count)
        for segment in range(draw(st.integers(1, 3)))
    ]
    paths, labels, starts = zip(*draw(st.permutations(rows)), strict=True)
    return Catalog(paths, labels, [*map(str, range(len(counts))), "empty"], starts=starts)


fractions = st.floats(0, 1, exclude_min=True, exclude_max=True)
seeds = st.integers(-(2**70), 2**70)


@patient
@given(splittable(), fractions, seeds)
def test_a_split_is_a_partition_in_the_original_order(
    catalog: Catalog, fraction: float, seed: int
) -> None:
    first, second = catalog.split(fraction, seed)
    assert sorted([*first, *second]) == sorted(catalog)
    assert files_of(first).isdisjoint(files_of(second))
    assert first.classes == second.classes == catalog.classes
    place = {video: i for i, video in enumerate(catalog)}
    for side in (first, second):
        places = [place[video] for video in side]
        assert places == sorted(places)


@patient
@given(splittable(), fractions, seeds)
def test_a_split_is_stratified_and_leaves_no_class_of_two_on_one_side(
    catalog: Catalog, fraction: float, seed: int
) -> None:
    first, _ = catalog.split(fraction, seed)
    taken = files_by_class(first)
    for label, files in files_by_class(catalog).items():
        n = len(files)
        expected = round(fraction * n)
        if n > 1:
            expected = min(max(expected, 1), n - 1)
        assert len(taken[label]) == expected


@patient
@given(splittable(), fractions, seeds, st.randoms(use_true_random=False))
def test_a_split_depends_on_the_videos_not_on_their_order(
    catalog: Catalog, fraction: float, seed: int, random: Any
) -> None:
    order = list(range(len(catalog)))
    random.shuffle(order)
    first, second = catalog.split(fraction, seed)
    shuffled = catalog.subset(order).split(fraction, seed)
    assert (files_of(shuffled[0]), files_of(shuffled[1])) == (files_of(first), files_of(second))
    assert catalog.split(fraction, seed) == (first, second)


@patient
@given(splittable(), fractions, fractions, seeds)
def test_a_larger_fraction_only_adds_files(
    catalog: Catalog, one: float, other: float, seed: int
) -> None:
    small, large = (catalog.split(fraction, seed)[0] for fraction in sorted((one, other)))
    assert files_of(small) <= files_of(large)


def hundred() -> Catalog:
    return Catalog([f"{i % 2}/{i}.avi" for i in range(100)], [i % 2 for i in range(100)], TWO)


def test_a_split_is_the_same_in_every_release() -> None:
    first, second = hundred().split(0.06, seed=7)
    assert (len(first), len(second)) == (6, 94)
    pinned = ["0/2.avi", "1/27.avi", "1/41.avi", "0/64.avi", "1/83.avi", "0/84.avi"]
    assert [video.path for video in first] == pinned


def test_seeds_split_differently() -> None:
    splits = [frozenset(files_of(hundred().split(0.5, seed)[0])) for seed in (0, 1, -1, 2**200)]
    assert all(one != other for one, other in itertools.combinations(splits, 2))


def test_a_split_does_not_follow_the_names() -> None:
    first, _ = hundred().split(0.5)
    assert 10 < sum(int(video.path[2:-4]) < 50 for video in first) < 40


def test_a_split_keeps_segments_and_root(tmp_path: Path) -> None:
    catalog = Catalog(
        ["a.avi", "b.avi"], [0, 0], TWO, tmp_path, starts=[3, 4], ends=[5, None], frames=[9, 10]
    )
    first, second = catalog.split(0.5)
    assert sorted([*first, *second]) == [
        Video("a.avi", 0, 3, 5, 9), Video("b.avi", 0, 4, None, 10)
    ]  # fmt: skip
    assert first.root == second.root == tmp_path


@pytest.mark.parametrize("step", [1, -1])
def test_a_file_of_several_classes_counts_for_the_rarest(step: int) -> None:
    rows = [(f"{i}.avi", 0, 0) for i in range(8)] + [("6.avi", 1, 5), ("7.avi", 1, 5)]
    paths, labels, starts = zip(*rows[::step], strict=True)
    catalog = Catalog(paths, labels, TWO, starts=starts)
    for seed in range(10):
        for side in catalog.split(0.75, seed):
            assert len(files_of(side) & {"6.avi", "7.avi"}) == 1


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, float("nan"), float("inf"), "x", None])
def test_a_number_that_is_no_fraction_is_refused(fraction: Any) -> None:
    with refused("between 0 and 1", repr(fraction)):
        hundred().split(fraction)


@pytest.mark.parametrize("fraction", [0.1, 0.9])
def test_a_split_that_leaves_a_side_empty_is_refused(fraction: float) -> None:
    with refused("empty", "2 files", "2 classes"):
        Catalog(["a.avi", "b.avi"], [0, 1], TWO).split(fraction)


def test_segments_of_one_file_cannot_be_split() -> None:
    with refused("empty", "1 files"):
        Catalog(["a.avi"] * 3, [0, 0, 1], TWO, starts=[0, 1, 2]).split(0.5)


def test_a_seed_that_is_not_a_whole_number_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        hundred().split(0.5, seed=0.5)  # type: ignore[arg-type]


# train_and_test


def test_the_recordings_of_ucf_101_are_not_split(tmp_path: Path) -> None:
    for name, groups in (("Bowling", 5), ("Diving", 5), ("YoYo", 1)):
        clips = itertools.product(range(groups), range(4))
        tree(tmp_path, *(f"{name}/v_{name}_g{group:02}_c{clip:02}.avi" for group, clip in clips))
    train, test = Catalog.train_and_test(tmp_path)
    assert set(test.labels) == {0, 1, 2}, "a class of one recording is on both sides all the same"
    (tmp_path / "YoYo").rename(tmp_path.with_name("elsewhere"))
    train, test = Catalog.train_and_test(tmp_path)
    assert (len(train), len(test)) == (32, 8)
    told = [{video.path.split("_c")[0] for video in side} for side in (train, test)]
    assert not told[0] & told[1]
    assert Catalog.train_and_test(tmp_path, seed=1) != (train, test)


def test_a_folder_with_train_and_test_is_not_split_again(tmp_path: Path) -> None:
    tree(tmp_path, "train/a/1.avi", "train/b/2.avi", "test/b/3.avi", "other/c/4.avi")
    train, test = Catalog.train_and_test(tmp_path)
    assert pairs(train) == [("train/a/1.avi", "a"), ("train/b/2.avi", "b")]
    assert pairs(test) == [("test/b/3.avi", "b")]
    assert train.classes == test.classes == ("a", "b")
    assert train.root == test.root == tmp_path.resolve()


def test_a_folder_of_classes_is_split_and_none_of_it_is_lost(tmp_path: Path) -> None:
    tree(tmp_path, *(f"{kind}/{i}.avi" for kind in "ab" for i in range(10)))
    train, test = Catalog.train_and_test(tmp_path)
    assert (len(train), len(test)) == (16, 4)
    assert sorted([*train, *test]) == sorted(Catalog.from_folder(tmp_path))
    assert Catalog.train_and_test(tmp_path, seed=1) != (train, test)


def test_a_folder_with_train_alone_is_split_like_any_other(tmp_path: Path) -> None:
    tree(tmp_path, *(f"train/{i}.avi" for i in range(5)))
    train, test = Catalog.train_and_test(str(tmp_path))
    assert (len(train), len(test), train.classes) == (4, 1, ("train",))


def test_a_class_that_only_the_test_folder_has_is_refused(tmp_path: Path) -> None:
    tree(tmp_path, "train/a/1.avi", "test/b/2.avi")
    with refused("'b' is not in classes"):
        Catalog.train_and_test(tmp_path)
