"""Files that are pieces of one recording, by their names."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.catalogs import refused, tree
from videoload import Catalog
from videoload.catalog.chains import chained, gaps, natural

MINISCOPE = [f"m{mouse}/10_23/{number}.avi" for mouse in (1, 2) for number in range(12)]


def recordings(paths: list[str], pattern: str) -> list[str]:
    return chained(sorted(paths), None, pattern, "here")[0]


def test_files_of_a_recording_are_one_row_in_natural_order(tmp_path: Path) -> None:
    catalog = Catalog.from_folder(tree(tmp_path, *MINISCOPE), chain=r"(.*)/\d+\.avi", label=None)
    numbers = " // ".join(f"{number}.avi" for number in range(12))
    assert catalog.paths == (f"m1/10_23/{numbers}", f"m2/10_23/{numbers}")


def test_groups_may_name_it_wherever_they_are_and_names_are_in_natural_order() -> None:
    gopro = ["GX010001.MP4", "GX020001.MP4", "GX010002.MP4"]
    wanted = ["GX010001.MP4 // GX020001.MP4", "GX010002.MP4"]
    assert recordings(gopro, r"GX\d\d(\d{4})") == wanted
    names = ["1_9.avi", "1_10.avi", "009.avi", "9.avi", "10.avi", "a"]
    assert sorted({*names}, key=natural) == names


def test_other_files_stay_as_they_are_and_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    found = recordings(["m1/0.avi", "m1/1.avi", "m1/behaviour.avi"], r"(m\d)/\d")
    assert found == ["m1/0.avi // 1.avi", "m1/behaviour.avi"]
    (told,) = caplog.messages
    assert "chain=" in told
    assert "1" in told


@pytest.mark.parametrize(
    ("numbers", "missing"),
    [
        ((0, 1, 2, 4, 5, 6), [(2, 4)]),
        ((0, 2), [(0, 2)]),
        ((5, 6, 9, 11, 12), [(6, 9), (9, 11)]),
        ((0, 1800, 3600, 7200), [(3600, 7200)]),  # each has the number of its first frame
        ((0, 2, 4, 6), []),
        ((9, 10, 11), []),
        ((1200, 1210), []),  # times
        ((93012, 94055, 101107), []),
    ],
)
def test_a_missing_number_is_named(
    numbers: tuple[int, ...], missing: list[tuple[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    assert len(recordings([f"m1/r{number}.avi" for number in numbers], "(m1)")) == 1
    assert len(caplog.messages) == bool(missing)
    for before, after in missing:
        assert f"m1/r{before}.avi and m1/r{after}.avi" in caplog.text


MICE = [f"{mouse}/rec_{number}.avi" for mouse in ("mouse1", "mouse2") for number in range(3)]


@pytest.mark.parametrize(
    ("paths", "pattern", "two"),
    [
        (MICE, r"(\w+)_\d+\.avi", ("mouse1/rec_2.avi", "mouse2/rec_0.avi")),
        ([f"day/{path}" for path in MICE], r"^(day)", ("mouse1/rec_2.avi", "mouse2/rec_0.avi")),
        (["b/0.avi", "a/3.avi", "b/1.avi"], r"()\d", ("a/3.avi", "b/0.avi")),
        (["a/0.avi", "b/0.avi"], r"()\d", ("a/0.avi", "b/0.avi")),
        (["a/begin.avi", "a/end.avi", "b/begin.avi"], "()a", ("a/end.avi", "b/begin.avi")),
        (["x_mouseA_0.avi", "x_mouseA_1.avi", "x_mouseB_0.avi"], "(x)", ("A_1.avi", "B_0.avi")),
        (["rec (1).avi", "rec.avi"], "(rec)", ("rec (1).avi", "rec.avi")),
    ],
)
def test_recordings_whose_numbers_begin_anew_are_not_one(
    paths: list[str], pattern: str, two: tuple[str, str]
) -> None:
    with refused("chain=", *two):
        recordings(paths, pattern)


@pytest.mark.parametrize(
    ("paths", "pattern"),
    [
        (MICE, r"(.*)_\d"),
        (["100GOPRO/1.avi", "100GOPRO/2.avi", "101GOPRO/3.avi"], r"(GOPRO)"),
        (["a_1a.avi", "a_1b.avi", "a_2a.avi", "a_2b.avi"], "(a)_"),
        (["r_10-59-30.avi", "r_11-00-00.avi"], "(r)"),
        (["begin.avi", "end.avi"], "()e"),
        (["GOPR0123.MP4", "GP010123.MP4", "GP020123.MP4"], r"(0123)"),
    ],
)
def test_numbers_that_go_on_are_one_recording(paths: list[str], pattern: str) -> None:
    assert len(recordings(paths, pattern)) == (2 if paths is MICE else 1)
    assert gaps(["1_1.avi", "2_7.avi"]) == gaps(["1", "a"]) == gaps(paths[:2]) == []


def test_a_recording_has_the_class_of_its_files(tmp_path: Path) -> None:
    root = tree(tmp_path, "calm/x_0.avi", "calm/x_1.avi", "wild/y_0.avi", "wild/y_1.avi")
    catalog = Catalog.from_folder(root, chain=r"(\w)_\d")
    assert [(video.path, video.label) for video in catalog] == [
        ("calm/x_0.avi // x_1.avi", 0), ("wild/y_0.avi // y_1.avi", 1),
    ]  # fmt: skip
    with refused("chain="):
        Catalog.from_folder(root, chain=r"_(\d)")


def test_a_pattern_that_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    root = tree(tmp_path, "calm/x_0.avi")
    for pattern, told in (
        ("(", "("), (r"\d+\.avi", ""), ("(z)", "(z)"),
    ):  # fmt: skip
        with refused("chain=", told):
            Catalog.from_folder(root, chain=pattern)


def test_lists_of_paths_are_recordings(tmp_path: Path) -> None:
    root = tree(tmp_path, "a/0.avi", "a/1.avi", "b/0.avi", "c.avi")
    expected = ("a/0.avi // 1.avi // ../b/0.avi", "c.avi")
    lists: list[Any] = [["a/0.avi", "a/1.avi", "./b/0.avi"], "c.avi"]
    assert Catalog(lists, root=root).paths == expected
    absolute: list[Any] = [[root / name for name in lists[0]], str(root / "c.avi")]
    assert Catalog(absolute).paths == expected
    assert Catalog(absolute).root == root
    assert Catalog.from_table({"path": lists}, root).paths == expected
    (root / "all.csv").write_text(f"path\n{expected[0]}\nc.avi\n")
    assert Catalog.from_table(root / "all.csv", root).paths == expected
    # What was written without care is no list of pieces.
    assert Catalog(["a//0.avi"], root=root).paths == ("a/0.avi",)
    wrong: Any = [[]], [["a/0.avi", 3]]
    for paths in wrong:
        with refused("not a str"):
            Catalog(paths, root=root)
