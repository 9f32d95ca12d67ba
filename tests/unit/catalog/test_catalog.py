"""The catalog: which videos, which labels. Mistakes are refused in one line."""

import copy
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.catalogs import pairs, refused, tables, tree
from tests.support.thorough import either
from videoload.catalog.catalog import Catalog
from videoload.clips.rows import Video

patient = settings(
    deadline=None,
    max_examples=either(25, 60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
TWO = ("jump", "run")


# What a catalog is


def test_a_video_is_what_was_given() -> None:
    paths, labels, classes = ["c.avi", "a.avi", "b.avi"], np.array([1, 0, 0], np.uint8), [*TWO]
    catalog = Catalog(
        paths, labels, classes, starts=[5, 0, 0], ends=[9, None, -1], frames=[None, 40, -1]
    )  # fmt: skip
    videos = [Video("c.avi", 1, 5, 9), Video("a.avi", 0, frames=40), Video("b.avi", 0)]
    assert list(catalog) == [catalog[i] for i in range(3)] == videos
    assert [catalog[-1], catalog[-3]] == [videos[2], videos[0]]
    assert {type(n) for n in (catalog[0].label, catalog[0].start, catalog[0].end)} == {int}
    assert [catalog[i] for i in (np.int64(1), np.uint8(1), Last())] == [*videos[1:2] * 2, videos[2]]
    assert (catalog.labels.dtype, catalog.labels.tolist()) == (np.dtype(np.int64), [1, 0, 0])
    paths[0], labels[0], classes[0] = "x.avi", 0, "walk"  # they are the caller's
    assert pairs(catalog) == [("c.avi", "run"), ("a.avi", "jump"), ("b.avi", "jump")]
    with pytest.raises(ValueError, match="read-only"):
        catalog.labels[0] = 0
    for name in ("root", "classes", "labels", "more"):
        with pytest.raises(AttributeError):
            setattr(catalog, name, None)


class Last:
    def __index__(self) -> int:
        return -1


def test_an_index_outside_is_an_index_error() -> None:
    catalog = Catalog(["a.avi", "b.avi"], [0, 0], ["jump"])
    for index in (2, -3, 10**30):
        with pytest.raises(IndexError, match="2"):
            catalog[index]
        with pytest.raises(IndexError):
            catalog.subset([index] if abs(index) < 9 else [3])
    with pytest.raises(TypeError, match="subset"):
        catalog[[0, 1]]  # type: ignore[call-overload]


def test_repr_shows_counts_and_the_root_which_is_absolute_and_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, "real/")
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    catalog = Catalog(["a.avi"] * 3, [0, 1, 0], TWO, "link", starts=[0, 5, 9])
    assert catalog.root == tmp_path / "real"
    assert re.search(rf"3\D* 1\D* 2\D* root={tmp_path}/real", repr(catalog))
    for way, root in (("real", "link"), ("link", "link"), ("real", tmp_path / "real")):
        for made in (Catalog, lambda *given: Catalog.from_table({"path": given[0]}, root=given[3])):
            assert made([f"{tmp_path}/{way}/a.avi"], None, None, root).paths == ("a.avi",)
    assert Catalog([f"{tmp_path}/link/a.avi"], root="/").paths == (f"{tmp_path}/link/a.avi"[1:],)
    with refused(tmp_path / "none"):
        Catalog(["a.avi"], [0], TWO, tmp_path / "none")


@pytest.mark.parametrize(
    "change",
    [
        {"paths": ["a.avi", "c.avi"]}, {"labels": [0, 0]}, {"classes": ["jump", "walk"]},
        {"root": None}, {"starts": [0, 1]}, {"ends": [4, 5]}, {"ends": None}, {"frames": [9, None]},
    ],
    ids=str,
)  # fmt: skip
def test_a_catalog_that_differs_anywhere_is_not_equal(change: dict[str, Any]) -> None:
    given: dict[str, Any] = {
        "paths": ["a.avi", "b.avi"], "labels": [0, 1], "classes": TWO, "ends": [4, None],
        "root": "/",
    }  # fmt: skip
    catalog, same = Catalog(**given), Catalog(**given, starts=[0, 0], frames=[-1, -1])
    assert catalog == same == copy.deepcopy(catalog)
    assert hash(catalog) == hash(same)
    assert catalog != Catalog(**{**given, **change})
    assert catalog != list(catalog)


# Paths


@pytest.mark.parametrize(
    ("given_path", "kept"),
    [
        ("a/./b.avi", "a/b.avi"), ("a//b.avi", "a/b.avi"), ("./a.avi", "a.avi"),
        ("a/../b.avi", "b.avi"), ("a/x/../../b.avi", "b.avi"),
        *((path, path) for path in ("a b/c  d.avi", "a\\b.avi", "..a/b..avi", "übung/動画.avi",
                                    "a\tb\u2028c\u00a0.avi")),
    ],
)  # fmt: skip
def test_paths_are_normalised_lexically(given_path: str, kept: str) -> None:
    assert Catalog([given_path], [0], ["jump"])[0].path == kept


@pytest.mark.parametrize(
    ("path", "word"),
    [
        *((path, "") for path in
          ("../a.avi", "a/../../b.avi", "..", "a/../..", "/", "//a.avi")),
        ("", ""), (".", ""), ("a/..", ""), (f"{Path(__file__).parents[1]}/a.avi", ""),
        *((path, "") for path in ("a\0b.avi", "a\nb.avi", "a\rb.avi", "a\udcffb.avi")),
        (b"a.avi", ""), ("./fine.avi", "video 0"), ("x/../fine.avi", "video 0"),
    ],
)  # fmt: skip
def test_a_path_that_is_no_path_below_the_root_or_comes_twice_is_refused(
    path: Any, word: str
) -> None:
    with refused("video 1", "'fine.avi'" if word == "video 0" else repr(path), word):
        Catalog(["fine.avi", path], [0, 0], ["jump"], Path(__file__).parent)


@patient
@given(st.lists(st.tuples(*map(st.sampled_from, ("abc", range(4), (4, 5, None)))), min_size=1))
def test_duplicates_are_found_at_any_rows(rows: list[tuple[str, int, int | None]]) -> None:
    paths, starts, ends = map(list, zip(*rows, strict=True))

    def make() -> Catalog:
        return Catalog(paths, [0] * len(rows), TWO, starts=starts, ends=ends)

    if len(set(rows)) == len(rows):
        assert [(video.path, video.start, video.end) for video in make()] == rows
    else:
        with refused() as error:
            make()
        second, first = map(int, re.findall(r"video (\d+)", str(error.value)))
        assert first < second
        assert rows[first] == rows[second]


# Labels, classes, segments


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        *(({"labels": [0, label]}, ["video 1", "'b.avi'", str(label), "0..1"])
          for label in (2, -2, 2**40)),
        *(({"labels": labels}, ["labels"])
          for labels in ([0.0, 1.0], [True, False], [2**70, 0], np.array([0, 1], np.uint64))),
        *(({name: [1, 1, 1]}, [name, "2", "(3,)"])
          for name in ("labels", "starts", "ends", "frames")),
        ({"paths": [], "labels": []}, []),
        *(({"classes": classes}, ["classes", word]) for classes, word in (
            ([], "[]"), ("jump", "'jump'"), (["jump", "run", "jump"], "'jump'"),
            (["jump", ""], "''"), (["jump", "a\nb"], "'a\\nb'"), (["jump", "\udcff"], "'\\udcff'"),
            (["jump", 3], "3"))),
        *(({"starts": [0, start], "ends": [None, end], "frames": [None, frames]},
           ["video 1", "'b.avi'", word]) for start, end, frames, word in (
            (-1, None, None, " -1 "), (5, 5, None, "5"), (5, 4, None, "4"),
            (0, 0, None, "0"), (0, -7, None, "-7"), (0, 11, 10, " 10 "),
            (10, None, 10, " 10 "), (0, None, 0, "0"), (0, None, -5, "-5"))),
        *(({"box": [[0, 0, 1, 1], box]}, ["'b.avi'", word]) for box, word in (
            ([3, 2, 1, 4], "[3"), ([1, 4, 3, 4], "[1"), ([0, 0, np.inf, 1], "inf"),
            ([0.2, 0.2, 0.5, 0.7], "0.7"))),
    ],
)  # fmt: skip
def test_an_impossible_column_is_refused(arguments: Any, words: list[str]) -> None:
    usual: dict[str, Any] = {"paths": ["a.avi", "b.avi"], "labels": [0, 0], "classes": TWO}
    with refused(*words):
        Catalog(**usual | arguments)
    assert Catalog(**usual, starts=[0, 9], ends=[None, 10], frames=[1, 10])[1].end == 10


@pytest.mark.parametrize("argument", ["paths", "labels", "classes", "starts", "box"])
@pytest.mark.parametrize("kind", [set, frozenset, dict.fromkeys])
def test_what_has_no_order_is_no_column(argument: str, kind: Any) -> None:
    given: dict[str, Any] = {"paths": ["a.avi"], "labels": [0], "classes": ["a"]}
    values = {"box": ["0 0 2 2"], "starts": [3]}.get(argument, given.get(argument))
    with refused(argument):
        Catalog(**{**given, argument: kind(values)})
    if argument == "paths":
        with refused():
            Catalog(**given).subset(kind([0]))
        with refused("by="):
            Catalog(["a.avi", "b.avi"]).split(0.5, by=kind([0, 1]))


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


@pytest.mark.parametrize("indices", [[], np.array([True, False]), [0.0], [[0, 1]]])
def test_a_subset_by_anything_but_whole_numbers_is_refused(indices: Any) -> None:
    with refused():
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
@given(splittable(), fractions, fractions, seeds, st.randoms(use_true_random=False))
def test_a_split_is_a_stratified_partition_that_depends_on_the_videos_alone(
    catalog: Catalog, fraction: float, other: float, seed: int, random: Any
) -> None:
    first, second = catalog.split(fraction, seed)
    assert Counter([*first, *second]) == Counter(catalog)
    assert files_of(first).isdisjoint(files_of(second))
    assert first.classes == second.classes == catalog.classes
    place = {video: i for i, video in enumerate(catalog)}
    for side in (first, second):
        places = [place[video] for video in side]
        assert places == sorted(places)
    taken = files_by_class(first)
    for label, files in files_by_class(catalog).items():
        n = len(files)
        expected = round(fraction * n)
        assert len(taken[label]) == (min(max(expected, 1), n - 1) if n > 1 else expected)
    order = list(range(len(catalog)))
    random.shuffle(order)
    shuffled = catalog.subset(order).split(fraction, seed)
    assert [*map(files_of, shuffled)] == [*map(files_of, (first, second))]
    assert catalog.split(fraction, seed) == (first, second)
    small, large = (catalog.split(each, seed)[0] for each in sorted((fraction, other)))
    assert files_of(small) <= files_of(large), "a larger fraction only adds files"


def hundred() -> Catalog:
    return Catalog([f"{i % 2}/{i}.avi" for i in range(100)], [i % 2 for i in range(100)], TWO)


def test_a_split_is_the_same_in_every_release() -> None:
    first, second = hundred().split(0.06, seed=7)
    assert (len(first), len(second)) == (6, 94)
    pinned = ["0/2.avi", "1/27.avi", "1/41.avi", "0/64.avi", "1/83.avi", "0/84.avi"]
    assert [video.path for video in first] == pinned


@pytest.mark.parametrize("step", [1, -1])
def test_a_file_of_several_classes_counts_for_the_rarest(step: int) -> None:
    rows = [(f"{i}.avi", 0, 0) for i in range(8)] + [("6.avi", 1, 5), ("7.avi", 1, 5)]
    paths, labels, starts = zip(*rows[::step], strict=True)
    catalog = Catalog(paths, labels, TWO, starts=starts)
    for seed in range(10):
        for side in catalog.split(0.75, seed):
            assert len(files_of(side) & {"6.avi", "7.avi"}) == 1


def test_a_split_that_cannot_be_is_refused() -> None:
    fractions: list[Any] = [0, 1, -0.1, 1.5, float("nan"), float("inf"), "x", None]
    for fraction in fractions:
        with refused(repr(fraction)):
            hundred().split(fraction)
    for fraction in (0.1, 0.9):
        with refused("2 files"):
            Catalog(["a.avi", "b.avi"], [0, 1], TWO).split(fraction)
    with refused("1 files"):
        Catalog(["a.avi"] * 3, [0, 0, 1], TWO, starts=[0, 1, 2]).split(0.5)
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
    train, test = Catalog.train_and_test(str(tmp_path))
    assert (len(train), len(test)) == (16, 4)
    assert {*train, *test} == {*Catalog.from_folder(tmp_path)}
    assert Catalog.train_and_test(tmp_path, seed=1) != (train, test)
    tree(tmp_path / "b", *(f"train/{i}.avi" for i in range(5)))  # alone, it is like any other
    (tmp_path / "b/train").rename(tmp_path / "train")
    train, _ = Catalog.train_and_test(tmp_path)
    assert (len(train), train.classes) == (20, ("a", "b", "train"))


def test_a_class_that_only_the_test_folder_has_is_refused(tmp_path: Path) -> None:
    tree(tmp_path, "train/a/1.avi", "test/b/2.avi")
    with refused("'b'"):
        Catalog.train_and_test(tmp_path)


# split: all videos of a group go to one side

CLASSES = ("Archery", "Bowling")
UCF = Catalog(
    [f"{n}/v_{n}_g{g:02d}_c{c:02d}.avi" for n in CLASSES for g in range(1, 26) for c in (1, 2, 3)],
    [label for label in (0, 1) for _ in range(75)],
    CLASSES,
)
RECORDING = r"v_.+_g\d+"


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
        with pytest.raises(ValueError, match=r"0\.5"):
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
        (UCF, [1, 2], ["by=", "150"]), (UCF, lambda video: "all", ["groups"]),
        (film, [1, 2, 2], ["'a.avi'", "'1'", "'2'"]),  # segments of a file are in one group
    ):  # fmt: skip
        with refused(*words):
            catalog.split(0.5, by=by)


def test_paths_alone_are_a_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Catalog(["a.avi", "b.avi"]).labels.tolist() == [-1, -1]
    assert Catalog(["a.avi", "b.avi"], ["run", "jump"]).classes == TWO
    tree(tmp_path, "x/a.avi", "y/b.avi")
    far = Catalog(sorted(tmp_path.rglob("*.avi")))
    assert (far.root, far.paths) == (tmp_path, ("x/a.avi", "y/b.avi"))
    assert Catalog.from_table({"path": [f"{tmp_path}/x/a.avi", f"{tmp_path}/y/b.avi"]}) == far
    monkeypatch.chdir(tmp_path / "x")
    assert Catalog(["a.avi"]).root == tmp_path / "x"
    assert Catalog(["a.avi", "b.avi"]).root is None, "other hosts have them"
    with refused("paths", "a.avi"):
        Catalog("a.avi")
