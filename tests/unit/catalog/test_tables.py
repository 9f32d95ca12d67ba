"""Catalogs from tables: what a row means, and which rows are taken."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.catalogs import refused, table_of, tree
from videoload.catalog.catalog import Catalog
from videoload.clips.rows import Video

TWO = ("jump", "run")


ROWS: dict[str, tuple[str | bytes, list[Video]]] = {
    "columns in any order, and others between them": (
        'note,frames, end ,label,start,path\n"a, ""quoted""\nnote",300,40,run,20,a.avi\n'
        ",,,jump,,b.avi\n",
        [Video("a.avi", 1, 20, 40, 300), Video("b.avi", 0)],
    ),
    "as Excel writes it, with an empty row": (
        b"\xef\xbb\xbfpath,label\r\na.avi,run\r\n\r\n,\r\n",
        [Video("a.avi", 0)],
    ),
    "spaces around a label": ("path,label\na.avi, run \n", [Video("a.avi", 0)]),
    "quotes": ('"path","label"\r\n"a, b.avi","run"', [Video("a, b.avi", 0)]),
    "semicolons": ("path;label;at\na.avi;run;5\n", [Video("a.avi", 0, at=5)]),
    "tabs": ("path\tlabel\tat\na.avi\trun\t5\n", [Video("a.avi", 0, at=5)]),
    "several segments of a file": (
        "path,label,start,end\na.avi,run,0,9\na.avi,jump,9,\na.avi,run,0,8\n",
        [Video("a.avi", 1, 0, 9), Video("a.avi", 0, 9), Video("a.avi", 1, 0, 8)],
    ),
    "segments in seconds and in frames": (
        "path,start_s,end_s,start,end\na.avi,1.5,2,,\na.avi,,1.5,,\nb.avi,,,3,9\n",
        [
            Video("a.avi", -1, start_s=1.5, end_s=2.0),
            Video("a.avi", -1, end_s=1.5),
            Video("b.avi", -1, 3, 9),
        ],
    ),
}


@pytest.mark.parametrize("what", ROWS)
def test_a_row_is_a_video(what: str, tmp_path: Path) -> None:
    content, videos = ROWS[what]
    catalog = table_of(tmp_path, content)
    assert list(catalog) == videos
    assert list(catalog[1:] if len(videos) > 1 else catalog) == (videos[1:] or videos)
    if catalog[0].at is None:
        whole = Catalog(["c.avi"])
        assert [*Catalog.concat([whole, catalog])][1:] == [*Catalog.concat([catalog, whole])][:-1]
    assert catalog == table_of(tmp_path, content)


def test_a_segment_without_an_end_lasts_to_the_end_of_the_file(tmp_path: Path) -> None:
    catalog = table_of(tmp_path, "path,start\na.avi,7.0\nb.avi,\n", end=None)
    assert list(catalog) == [Video("a.avi", -1, 7), Video("b.avi", -1)]


def test_a_row_may_stand_twice_if_it_is_said(tmp_path: Path) -> None:
    content = "path,x\na.avi,1\na.avi,2\n"
    assert list(table_of(tmp_path, content, duplicates=True)) == [Video("a.avi", -1)] * 2
    with refused("line 3", "line 2"):
        table_of(tmp_path, content)


@pytest.mark.parametrize("cell", ["1 2 3.5 4", "[1, 2, 3.5, 4]", (1, 2, 3.5, 4)])
def test_a_row_may_have_a_moment_and_a_box(cell: Any) -> None:
    table = {"path": ["a.avi"] * 3, "box": [cell, None, cell], "at": [5, 9, 7]}
    catalog = Catalog.from_table(table)
    assert catalog[0] == Video("a.avi", -1, at=5, box=(1, 2, 3.5, 4))
    assert catalog[1] == Video("a.avi", -1, at=9)
    assert list(Catalog.concat([catalog[1:], catalog[:1]])) == [*catalog[1:], *catalog[:1]]


def test_a_box_may_stand_in_four_columns() -> None:
    table = {"path": ["a.avi"], "at_s": [0.5], "left": [1], "top": [2], "right": [3.5], "low": [4]}
    catalog = Catalog.from_table(table, box=["left", "top", "right", "low"])
    assert catalog[0] == Video("a.avi", -1, at_s=0.5, box=(1, 2, 3.5, 4))


# Mistakes are refused in one line that names them

POSES = "path,x,y,speed\na.avi,0.5,-1,3.25\nb.avi,1e3,2,7\n"
NONSENSE: dict[str, tuple[str | bytes, dict[str, Any], list[str]]] = {
    "nothing": ("", {}, []),
    "no rows": ("path,label\n", {}, []),
    "only empty rows": ("path,label\n,\n\n", {}, []),
    "no paths": ("file,label\na,b\n", {}, ["'path'", "file, label"]),
    "another case": ("Path,Label\na,b\n", {}, ["'Path'?"]),
    "more cells than columns": ("path\na.avi,run\n", {}, ["2", "1"]),
    "fewer cells than columns": ("path,label,label\na.avi,run\n", {}, ["2", "3"]),
    "no names of columns": ("\na.avi,run\n", {}, ["2", "0"]),
    "no such target": (POSES, {"targets": "z"}, ["'z'", "targets=", "path, x, y, speed"]),
    "a target in another case": (POSES, {"targets": "X"}, ["'X'", "'x'?"]),
    "no targets": (POSES, {"targets": ()}, ["targets=", "()"]),
    "no named targets": (POSES, {"targets": {}}, ["targets="]),
    "a number as a target": (POSES, {"targets": 5}, ["targets=", "5"]),
    "a target is missing": (
        "path,x\na.avi,1\nb.avi,\n",
        {"targets": "x"},
        ["line 3", "''"],
    ),
    "a comma in a number": ("path;x\na.avi;1,5\n", {"targets": "x"}, ["line 2", "'1,5'"]),
    "a target in two columns": ("path,x,x\na.avi,1,2\n", {"targets": "x"}, ["'x'"]),
    "two columns of labels": ("path,label,labels\na.avi,1,2\n", {}, ["label", "labels"]),
    "labels in the place of targets": (
        "path,labels,x\na.avi,b,2\n",
        {"targets": "x"},
        ["targets="],
    ),
    "the same row twice": ("path,t0\na.avi,0\na.avi,2\n", {}, ["line 3", "line 2", "t0"]),
    "the same segment twice": (
        "path,start_s,end_s\na.avi,1,2\na.avi,1.0,2.0\n",
        {},
        ["line 3", "line 2"],
    ),
    "Latin-1": ("path,label\nübung.avi,run\n".encode("latin-1"), {}, ["UTF-8"]),
    "UTF-16": ("path,label\na.avi,run\n".encode("utf-16"), {}, ["UTF-8"]),
    "a video": (b"RIFF\x00\x01\x02\x03AVI LIST\xff\xfe", {}, ["UTF-8"]),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_a_table_that_cannot_be_meant_is_refused(what: str, tmp_path: Path) -> None:
    content, options, words = NONSENSE[what]
    with refused("t.csv", *words):
        table_of(tmp_path, content, **options)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("b.avi,jump,x,,", ["start", "'x'"]),
        ("b.avi,jump,-1,,", ["'-1'"]),
        ("b.avi,jump,,1.5,", ["'1.5'", "end_s="]),
        ("b.avi,jump,,,many", ["'many'"]),
        ("b.avi,jump,,,99999999999999999999", ["'99999999999999999999'"]),
        ("b.avi,jump,9,9,", ["'b.avi'", " 9"]),
        ("b.avi,jump,9,8,", ["'b.avi'", " 8"]),
        ("b.avi,jump,0,11,10", ["'b.avi'", "10"]),
        ("b.avi,,,,", ["label"]),
        (",jump,,,", ["'path'"]),
        ("/b.avi,jump,,,", ["'/b.avi'"]),
        ("../b.avi,jump,,,", ["'../b.avi'"]),
        ('"b\n.avi",jump,,,', ["'b\\n.avi'"]),
        ("./a.avi,jump,,,", ["line 2", "'a.avi'"]),
        ("b.avi,jump", ["2", "5"]),
        ("b,1.avi,jump,,,", ["6"]),
        ('"b"x.avi,jump,,,', []),
        ('"b.avi,jump,,,', []),
    ],
)
def test_a_bad_row_is_named_with_its_file_and_line(
    tmp_path: Path, row: str, words: list[str]
) -> None:
    line = 4 + row.count("\n")  # the last one of the row
    with refused(f"t.csv, line {line}", *words):
        table_of(tmp_path, f"path,label,start,end,frames\na.avi,run,,,\n\n{row}")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("1,2,3,4", ["'a.avi'", "start_s"]),
        ("2,1,,", ["end_s 1.0 s", "start_s 2.0 s"]),
        ("2,2,,", ["end_s 2.0 s", "start_s 2.0 s"]),
        (",0,,", ["end_s 0.0 s"]),
        ("-1,2,,", ["start_s -1.0 s"]),
        ("0:10,2,,", ["start_s", "'0:10'"]),
    ],
)
def test_a_wrong_segment_is_named_with_its_unit(tmp_path: Path, row: str, words: list[str]) -> None:
    with refused("line 2", *words):
        table_of(tmp_path, f"path,start_s,end_s,start,end\na.avi,{row}\n")


def test_bytes_are_no_path() -> None:
    with refused("row 0", "'path'", "bytes"):
        Catalog.from_table({"path": [b"a.avi"]})


def test_where_a_cell_holds_the_video_itself_the_user_learns_what_to_do() -> None:
    with refused("row 0", "'video'", "bytes", "tars"):
        Catalog.from_table({"video": [{"bytes": b"RIFF", "path": "a.avi"}]}, path="video")


@pytest.mark.parametrize("parts", [3, "path", ["path"], ["path", "path"], {"path"}])
def test_parts_are_several_columns(parts: Any) -> None:
    with refused("parts"):
        Catalog.from_table({"path": ["a.avi"]}, parts=parts)


# Columns


@pytest.mark.parametrize("names", [{"path": 0}, {"label": 1}, {"targets": 1}, {"where": {1: "x"}}])
def test_columns_named_by_numbers_are_given_as_text(names: dict[str, Any]) -> None:
    table = {0: ["a.avi"], 1: ["x"]}
    with refused(next(iter(names))):
        Catalog.from_table(table, **{"path": "0", **names})
    assert Catalog.from_table(table, path="0", label="1").classes == ("x",)


@pytest.mark.parametrize("name", ["{a}", "a*", "a{"])
def test_the_name_of_a_column_is_no_pattern(name: str) -> None:
    assert Catalog.from_table({name: ["x.avi"]}, path=name).paths == ("x.avi",)


def test_the_log_says_which_columns_their_names_chose(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    table = {"path": ["a"], "caption": ["x"], "start": [1], "end": [2], "at_s": [0.1]}
    Catalog.from_table(table, targets="caption")
    (line,) = [line for line in caplog.messages if "start" in line]
    assert "start, end as frames" in line
    assert "at_s as seconds" in line
    assert "caption" not in line
    caplog.clear()
    Catalog.from_table({"path": ["a"], "x": [1], "y": [2]}, start="x", end="y")
    assert not caplog.messages


SEGMENTS = {"start": [1, 20], "end": [8, 30], "start_s": [1, 20], "end_s": [8, 30]}


@pytest.mark.parametrize(("one", "other"), [("start", "end"), ("end", "start")])
@pytest.mark.parametrize("unit", ["", "_s"])
def test_one_side_of_segments_alone_is_an_error_unless_it_is_said(
    one: str, other: str, unit: str
) -> None:
    """The other side may stand in a column whose name nobody guesses."""
    side, unknown = one + unit, "Dauer"
    table: dict[str, list[Any]] = {"path": ["a.avi", "b.avi"], "label": ["x", "y"]}
    table |= {side: SEGMENTS[side], unknown: SEGMENTS[other]}
    with refused(f"{other}=", f"{other}_s=", f"{other}=None", unknown):
        Catalog.from_table(table)
    for name in (other, f"{other}_s"):
        none: dict[str, Any] = {name: None}
        alone = Catalog.from_table(table, **none)
        assert [getattr(video, side) for video in alone] == SEGMENTS[side]
    named: dict[str, Any] = {other + unit: unknown}
    both = Catalog.from_table(table, **named)
    assert [getattr(video, other + unit) for video in both] == SEGMENTS[other]


# Which rows

SPLITS = {"split": ["TRAIN", "VAL"] * 2, "path": ["a.avi", "b.avi", "c.avi", "d.avi"]}
FOLDS = {
    "path": ["a", "b", "c", "d"],
    "split": ["TRAIN", "VAL", "TRAIN", "TEST"],
    "fold": [1, 1, 2.0, 3],
}


@pytest.mark.parametrize(
    ("where", "paths"),
    [
        ({"split": "TRAIN"}, ("a", "c")),
        ({"split": ["TRAIN", "TEST"], "fold": [2, 3]}, ("c", "d")),
        ({"fold": "1"}, ("a", "b")),
        ({"fold": np.array([2, 3])}, ("c", "d")),
        ({"fold": range(2, 4)}, ("c", "d")),
        ({"fold": dict.fromkeys([2, 3]).keys()}, ("c", "d")),
    ],
)
def test_rows_are_picked_by_their_values(where: Any, paths: tuple[str, ...]) -> None:
    assert Catalog.from_table(FOLDS, where=where).paths == paths


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("fold", ["where=", "'fold'"]),
        ({"split": "Train"}, ["'Train'", "'VAL', 'TEST'", "'TRAIN'?"]),
        ({"split": "VAL", "fold": 3}, ["where="]),
        ({"Fold": 1}, ["where=", "'fold'?"]),
    ],
)
def test_a_choice_that_picks_nothing_is_refused(where: Any, words: list[str]) -> None:
    with refused(*words):
        Catalog.from_table(FOLDS, where=where)


def test_a_wrong_row_is_named_by_its_place_in_the_whole_table() -> None:
    with refused("row 3", "'5'", "0..1"):
        Catalog.from_table({**FOLDS, "label": [0, 0, 1, 5]}, classes=TWO, where={"fold": [2, 3]})


def test_rows_that_are_not_picked_need_not_be_right(tmp_path: Path) -> None:
    at = str(tmp_path)
    table = {
        "path": [f"{at}/train/a.avi", None, f"{at}/train/c.avi", f"{at}/val/d.avi"],
        "split": SPLITS["split"],
        "label": ["run", "", "jump", "sit"],
        "x": [1, "?", 2, 3],
    }
    catalog = Catalog.from_table(table, classes=TWO, targets="x", where={"split": "TRAIN"})
    assert catalog.labels.tolist() == [1, 0]
    assert (catalog.root, catalog.paths) == (tmp_path, ("train/a.avi", "train/c.avi")), "of all"
    with refused("row 1"):
        Catalog.from_table(table, classes=TWO, where={"split": "VAL"})


def test_labels_that_count_from_1_are_noticed_in_all_rows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from_1, train = {**SPLITS, "label": [1, 2, 2, 3]}, {"split": "TRAIN"}
    with refused("row 3"):
        Catalog.from_table(from_1, classes=("a", "b", "c"), where=train)
    for classes in (None, ["a", "b", "c", "d"]):
        Catalog.from_table(from_1, classes=classes, where=train)
        assert " 0" in caplog.messages.pop()
    caplog.clear()
    Catalog.from_table({**SPLITS, "label": [1, 2, 2, 0]}, where=train)
    assert not caplog.messages


def test_segments_that_count_from_1_are_noticed_in_all_rows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    segments = {"start": [1, 1, 5, 5], "end": [4, 4, 9, 9], "path": ["a", "b", "a", "b"]}
    Catalog.from_table({**segments, "n": range(4)}, where={"n": [0, 1]})
    assert " 1" in caplog.messages[-1]


# Files


def test_files_are_found_by_their_names(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tree(tmp_path, "x/deep/1.avi", "2.mp4")
    table = {"id": [1, 2, 4], "label": ["run", "jump", "sit"], "at": [1, 2, 3]}
    catalog = Catalog.from_table(table, tmp_path, path="**/{id}.*")
    assert list(catalog) == [Video("x/deep/1.avi", 1, at=1), Video("2.mp4", 0, at=2)]
    assert catalog.classes == (*TWO, "sit"), "as where all files are"
    assert "1 of 3" in caplog.text


def test_a_name_that_two_files_have_or_none_is_refused(tmp_path: Path) -> None:
    tree(tmp_path, "1.avi", "y/3.avi", "z/3.avi")
    with refused("'y/3.avi'", "'z/3.avi'"):
        Catalog.from_table({"id": [3]}, tmp_path, path="**/{id}.*")
    with refused("1"):
        Catalog.from_table({"id": [1]}, tmp_path, path="**/{id}.mkv")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("{subjct}.avi", ["'subjct'", "path=", "'subject'?"]),
        ("{subject", ["{subject"]),
        ("{take:03}", ["row 0", "'take'", "'a'"]),
        ("{none}", ["row 0", "'none'"]),
        ("**/{take}.avi", ["root="]),
        ("{take}.*", ["**/{take}.*"]),
    ],
)
def test_a_wrong_pattern_is_named(pattern: str, words: list[str]) -> None:
    with refused(*words):
        Catalog.from_table({"subject": [1], "take": ["a"], "none": [None]}, path=pattern)
