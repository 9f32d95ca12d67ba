"""Catalogs from tables. Mistakes are refused in one line."""

import csv
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.catalogs import pairs, refused, text, tree
from videoload.catalog.catalog import Catalog
from videoload.clips.rows import Video
from videoload.storage.content import fingerprint_in, fingerprint_text

TWO = ("jump", "run")
POSES = "path,x,y,speed\na.avi,0.5,-1,3.25\nb.avi,1e3,2, 7 \n"


def read(folder: Path, content: str | bytes, **options: Any) -> Catalog:
    return Catalog.from_table(text(folder, content, "t.csv"), root=None, **options)


def as_pandas(columns: dict[str, list[Any]]) -> Any:
    rows = len(next(iter(columns.values())))
    return pytest.importorskip("pandas").DataFrame(columns, index=[7, 7, 3, 0][:rows])


def as_polars(columns: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("polars").DataFrame(columns, strict=False)


# Targets


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("speed", [3.25, 7]),
        (("x", "y"), [[0.5, -1], [1000, 2]]),
        (["x"], [[0.5], [1000]]),
        ({"at": ["y", "x"], "v": "speed"}, {"at": [[-1, 0.5], [2, 1000]], "v": [3.25, 7]}),
    ],
)
def test_columns_of_numbers_are_targets(tmp_path: Path, asked: Any, expected: Any) -> None:
    catalog = read(tmp_path, POSES, targets=asked)
    found: Any = catalog.targets
    named = found if isinstance(found, dict) else {"": found}
    assert {str(column.dtype) for column in named.values()} == {"float32"}
    lists = {name: column.tolist() for name, column in named.items()}
    assert lists == (expected if isinstance(expected, dict) else {"": expected})
    assert pairs(catalog) == [("a.avi", ""), ("b.avi", "")], "labels are optional"


def test_a_class_and_named_targets_come_together() -> None:
    table = {"path": ["a.avi", "b.avi"], "x": [1.5, 2.5], "label": ["run", "walk"]}
    both: Any = Catalog.from_table(table, targets={"x": "x"}).targets
    assert {name: each.tolist() for name, each in both.items()} == {
        "x": [1.5, 2.5],
        "label": [0, 1],
    }
    assert isinstance(Catalog.from_table(table, targets="x").targets, np.ndarray)


@pytest.mark.parametrize(
    ("cells", "wrong"),
    [
        (["a cat", "7", "8"], "'a cat'"), (["n/a", 1.5, "n/a"], "'n/a'"),
        (["a cat", 7, "a dog"], "'a cat'"), (["NA", "12", "NA"], "'NA'"),
        (["1,5", "2,5", "3"], "'1,5'"), (["nan", "inf", "1e3"], "'nan'"),
        (["0:10", "12 %", "-"], "'0:10'"), ([None, "", None], "None"),
        (["1e39", 1, 2], "'1e39'"), (["-1e39", 1, 2], "'-1e39'"), (["1_000", 1, 2], "'1_000'"),
    ],
)  # fmt: skip
def test_targets_are_numbers_if_most_of_them_are(cells: list[Any], wrong: str) -> None:
    table = {"path": ["a.avi", "b.avi", "c.avi"], "t": cells, "n": [0, 1, 0]}
    for where in (None, {"n": 0}):  # also if the others are
        with refused("t", wrong):
            Catalog.from_table(table, targets="t", where=where)


@pytest.mark.parametrize("odd", ["...", "2024", "\N{GRINNING FACE}", "nan", "Infinity", "-", "7"])
def test_a_caption_may_be_a_number_or_have_no_letter(odd: str) -> None:
    captions = ["A cat jumps.", odd]
    catalog = Catalog.from_table({"path": ["a.avi", "b.avi"], "t": captions}, targets="t")
    assert np.asarray(catalog.targets).tolist() == captions


@pytest.mark.parametrize(
    ("cells", "dtype"),
    [
        ([16777217, 20260101], "int64"), (["16777217", "-3"], "int64"), ([0, 1], "int64"),
        ([-(2**63), 2**63 - 1], "int64"), ([np.uint8(7), 2], "int64"),
        ([16777217.0, 3.0], "int64"), ([1.0, 2.0], "float32"), (["1", "2.5"], "float32"),
    ],
)  # fmt: skip
def test_whole_numbers_keep_their_digits(cells: list[Any], dtype: str) -> None:
    table = {"path": ["a.avi", "b.avi", "c.avi"], "t": [*cells, None], "n": [0, 0, 1]}
    found = np.asarray(Catalog.from_table(table, targets="t", where={"n": 0}).targets)
    assert str(found.dtype) == dtype
    assert found.tolist() == [float(x) if "." in str(x) else int(x) for x in cells]


@pytest.mark.parametrize("cells", [[16777217, 0.5], [2**63 + 1, 1], ["16777217", "0.5"]])
def test_whole_numbers_that_would_be_rounded_are_refused(cells: list[Any]) -> None:
    with refused("row 0", "t", str(cells[0])):
        Catalog.from_table({"path": ["a.avi", "b.avi"], "t": cells}, targets="t")


# Odd columns


DURATIONS = np.array([0, 40], "timedelta64[ms]")


@pytest.mark.parametrize(
    "column",
    [
        DURATIONS, DURATIONS.astype("timedelta64[ns]"), DURATIONS.tolist(),
    ],
)  # fmt: skip
@pytest.mark.parametrize("make", [dict, as_pandas, as_polars])
def test_durations_are_seconds_and_no_frames(column: Any, make: Any) -> None:
    table = make({"path": ["a.avi", "a.avi"], "t": column})
    scalars = {"path": ["a.avi", "a.avi"], "t": list(DURATIONS)}
    for each in (table, scalars):
        found = Catalog.from_table(each, start_s="t", end_s=None)
        assert [video.start_s or 0 for video in found] == [0, 0.04]
    with refused("row", "start"):
        Catalog.from_table(table, end=None, start="t")
    with refused("row", "t"):
        Catalog.from_table(table, targets="t")


def test_times_of_day_are_no_numbers() -> None:
    times = np.array([0, 1], "datetime64[ns]")
    for roles in ({"start": "t"}, {"start_s": "t"}, {"targets": "t"}):
        options: dict[str, Any] = {"end": None, **roles}
        with refused("row 0"):
            Catalog.from_table({"path": ["a", "b"], "t": times}, **options)
    for other in (DURATIONS, np.array([0, 40], "datetime64[ns]"), DURATIONS.astype("m8[ns]")):
        for given in (other, list(other)):
            with refused("starts_s"):
                Catalog(["a", "b"], starts_s=given)


def test_masked_cells_are_empty() -> None:
    masked = np.ma.masked_array([1, 7], mask=[False, True])
    paths = ["a.avi", "b.avi"]
    table = {"path": paths, "t": masked}
    assert [video.start for video in Catalog.from_table(table, start="t", end=None)] == [1, 0]
    assert [video.end for video in Catalog(paths, ends=masked)] == [1, None]
    with refused("row 1"):
        Catalog.from_table(table, targets="t")
    durations = np.ma.masked_array(DURATIONS, mask=[True, False])
    found = Catalog.from_table({**table, "t": durations}, end_s="t", start_s=None)
    assert [video.end_s for video in found] == [None, 0.04]
    for given in (masked, list(masked)):
        with refused("1", "no label"):
            Catalog(paths, given)
    for rows in (masked, [masked, masked], {"x": masked}):
        with refused("masked"):
            Catalog(paths).with_targets(rows)
    assert [video.end for video in Catalog(paths, ends=list(masked))] == [1, None]


def test_a_column_stands_once(tmp_path: Path) -> None:
    twice = pytest.importorskip("pyarrow").table([["a"], ["b"]], names=["path", "path"])
    for table in (twice, text(tmp_path, '{"path": "a", "path": "b"}', "t.jsonl")):
        with refused("'path'"):
            Catalog.from_table(table)


@pytest.mark.parametrize(
    "cell", [b"run", {"run": 1}, [["run"]], [{"run": 1}], [b"run"], object(), iter("a")]
)
def test_odd_labels_are_refused(cell: Any) -> None:
    with refused("row 1", "label"):
        Catalog.from_table({"path": ["a", "b"], "label": ["run", cell]})


@pytest.mark.parametrize("names", [{"path": 0}, {"label": 1}, {"targets": 1}, {"where": {1: "x"}}])
def test_columns_named_by_numbers_are_given_as_text(names: dict[str, Any]) -> None:
    table = {0: ["a.avi"], 1: ["x"]}
    with refused(next(iter(names))):
        Catalog.from_table(table, **{"path": "0", **names})
    assert Catalog.from_table(table, path="0", label="1").classes == ("x",)


def test_odd_paths_and_parts_are_refused() -> None:
    with refused("row 0", "'path'", "bytes"):
        Catalog.from_table({"path": [b"a.avi"]})
    with refused("row 0", "'video'", "bytes", "tars"):
        Catalog.from_table({"video": [{"bytes": b"RIFF", "path": "a.avi"}]}, path="video")
    for parts in (3, "path", ["path"], ["path", "path"], {"path"}):
        with refused("parts"):
            Catalog.from_table({"path": ["a.avi"]}, parts=parts)  # type: ignore[arg-type]


def test_the_name_of_a_column_is_no_pattern() -> None:
    for name in ("{a}", "a*", "a{"):
        assert Catalog.from_table({name: ["x.avi"]}, path=name).paths == ("x.avi",)


def test_the_name_of_a_table_is_no_pattern(tmp_path: Path) -> None:
    for name in ("fold[1]", "fold1", "fol?1"):
        as_polars({"path": [f"{name}.avi"]}).write_parquet(tmp_path / f"{name}.parquet")
    for name in ("fold[1]", "fold1", "fol?1"):
        assert Catalog.from_table(tmp_path / f"{name}.parquet").paths == (f"{name}.avi",)


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


# Labels


@pytest.mark.parametrize("rows", [[[0, 0, 1], [1, 0, 0]], [[0, 1], [1, 0]], [[True, False]] * 2,
                                  [[0.0, 1.0], [1.0, 0.0]], np.eye(2)])  # fmt: skip
def test_one_hot_rows_are_no_labels(rows: Any) -> None:
    with refused("0", "targets="):
        Catalog.from_table({"path": ["a", "b"], "labels": list(rows)})
    with refused("0", "targets="):
        Catalog(["a", "b"], list(rows))


def test_classes_that_look_alike_are_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[Callable[[list[str]], Catalog]] = [
        lambda labels: Catalog(["a", "b", "c"], [*labels, "other"]),
        lambda labels: Catalog.from_folder(tree(tmp_path, *(f"{x}/v.avi" for x in labels))),
        lambda labels: Catalog.concat([Catalog([x], [x]) for x in labels]),
    ]
    for one, other in (("Sit", "sit"), ("ice  hockey", "icehockey"), ("caf\xe9", "cafe\u0301")):
        for make in made:
            caplog.clear()
            make([one, other])
            (line,) = [line for line in caplog.messages if ascii(one) in line]
            assert ascii(other) in line
            for folder in tmp_path.iterdir():
                shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("labels", "given", "classes", "numbers"),
    [
        (["run", "jump", "run"], None, TWO, [1, 0, 1]),
        (["10", "2", "02"], None, tuple(map(str, range(11))), [10, 2, 2]),
        (["0.0", "3.0"], None, tuple("0123"), [0, 3]),  # as pandas writes whole numbers
        (["1", "0"], TWO, TWO, [1, 0]),
        (["jump"], ["walk", "run", "jump"], ("walk", "run", "jump"), [2]),
        (["1", "3"], ["1", "2", "3"], ("1", "2", "3"), [0, 2]),  # names that are numbers
        (["7", "run"], ["7", "run"], ("7", "run"), [0, 1]),
        (["None", "run"], ["None", "run"], ("None", "run"), [0, 1]),
        (["NA", "-"], None, (), [-1, -1]),
        (["0.1", "1e-3"], ["0.1", "1e-3"], ("0.1", "1e-3"), [0, 1]),
        (["a"], np.array(["b", "a"]), ("b", "a"), [1]),
        (["a;b"], ["a;b", "c"], ("a;b", "c"), [0]),  # a class may have a semicolon if it is given
        (["", ""], None, (), [-1, -1]),
        (["-1", "-1"], None, (), [-1, -1]),
        (["-1", "run", "jump"], None, TWO, [-1, 1, 0]),
        (["-1", "2"], None, ("0", "1", "2"), [-1, 2]),
    ],
)
def test_what_a_label_means(
    tmp_path: Path, labels: list[str], given: Any, classes: tuple[str, ...], numbers: list[int]
) -> None:
    rows = "".join(f"{i}.avi,{label}\n" for i, label in enumerate(labels))
    catalog = read(tmp_path, f"path,label\n{rows}", classes=given)
    assert (repr(catalog.classes), catalog.labels.tolist()) == (repr(classes), numbers)
    assert catalog.targets is None
    both = Catalog.concat([catalog, Catalog(["d.avi"])])
    assert both.labels.tolist() == [*numbers, -1]


@pytest.mark.parametrize(
    ("labels", "classes", "words"),
    [
        (["run", "walk"], TWO, ["'walk'", "jump, run"]),
        (["0", "2"], TWO, ["'2'", "0..1"]),
        (["0", "-2"], TWO, ["'-2'", "0..1"]),
        (["0", "-2"], None, ["'-2'", "0.."]),
        (["0", "1699999999999"], None, ["'1699999999999'", "0..999999"]),
        (["0", "9" * 5000], None, ["0..999999"]),
        (["1", "0"], ["1", "2"], ["'0'", "1, 2"]),
        (["1", "2"], TWO, [" 2 "]),
        (["k0", "x"], [f"k{i}" for i in range(9)], ["'x'", "k0, k1, k2, k3, k4, ... 4 more"]),
        (["1", "2.5"], None, ["'2.5'", "classes="]),
        (["1", ".5"], None, ["'.5'", "targets="]),
        (["run", ""], None, ["-1"]),
        (["0", ""], None, ["-1"]),
        *(
            (["0", word], None, ["line 3", "-1"])
            for word in ("NA", "nan", "null", "None", "N/A", "-")
        ),
        (["run", "NA"], None, ["line 3", "-1"]),
        (["run", "NA"], ["run"], ["line 3", "-1"]),
        (["0", "run", "2"], None, ["line 2", "'run'", "classes="]),
        (["2.5", "run"], None, ["line 3", "'run'", "classes="]),
        (["0", "cook;1", "talk"], None, ["line 2", "'cook'", "classes="]),
        (["0", "1;2;1"], None, ["line 3", "targets=", "labels="]),
        (["run", "\"['cook', 'talk']\""], None, ["line 3", "targets=", "labels="]),
        (["0", "[0 1 0]"], None, ["targets=", "labels="]),
        (["cook;talk", ";"], None, ["label"]),
        (["cook;sit", "talk"], ["cook", "sit"], ["'talk'"]),
        (["cook;sit", "-1;sit"], None, ["-1"]),
    ],
)
def test_a_label_that_is_no_class_is_named_with_its_line(
    tmp_path: Path, labels: list[str], classes: Any, words: list[str]
) -> None:
    with refused("t.csv, line 3", *words):
        read(tmp_path, f"path,label\na.avi,{labels[0]}\nb.avi,{labels[1]}\n", classes=classes)


@pytest.mark.parametrize(
    ("cells", "given", "classes", "hot"),
    [
        (["a;b", "-1", " b ; "], None, ("a", "b"), [[1, 1], [0, 0], [0, 1]]),
        (["a;b", "-1", "b"], ["b", "c", "a"], ("b", "c", "a"), [[1, 0, 1], [0, 0, 0], [1, 0, 0]]),
        (["0;3", "-1", "1"], None, tuple("0123"), [[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]]),
        *(([kind(["a", "b"]), kind([-1]), kind(["b"])], None, ("a", "b"), [[1, 1], [0, 0], [0, 1]])
          for kind in (list, tuple, set, frozenset, np.array)),
    ],
)  # fmt: skip
def test_several_labels_are_multi_hot(cells: Any, given: Any, classes: Any, hot: Any) -> None:
    paths = ["a.avi", "b.avi", "c.avi"]
    catalog = Catalog.from_table({"path": paths, "label": cells}, classes=given)
    assert (catalog.classes, catalog.labels.tolist()[1]) == (classes, -1)
    assert isinstance(catalog.targets, np.ndarray)
    assert catalog.targets.dtype == np.float32
    assert catalog.targets.tolist() == hot
    assert given or Catalog(paths, cells) == catalog


# Rows


@pytest.mark.parametrize(
    ("content", "options", "videos"),
    [
        ('note,frames, end ,label,start,path\n"a, ""quoted""\nnote",300,40,run,20,a.avi\n'
         ",,,jump,,b.avi\n", {}, [Video("a.avi", 1, 20, 40, 300), Video("b.avi", 0)]),
        (b"\xef\xbb\xbfpath,label\r\na.avi,run\r\n\r\n,\r\n", {}, [Video("a.avi", 0)]),
        (b"path,label\na.avi, run \n", {}, [Video("a.avi", 0)]),
        (b'"path","label"\r\n"a, b.avi","run"', {}, [Video("a, b.avi", 0)]),
        ("path;label;at\na.avi;run;5\n", {}, [Video("a.avi", 0, at=5)]),
        ("path\tlabel\tat\na.avi\trun\t5\n", {}, [Video("a.avi", 0, at=5)]),
        ("path,start\na.avi,7.0\nb.avi,\n", {"end": None}, [Video("a.avi", -1, 7),
                                                         Video("b.avi", -1)]),
        ("path,label,start,end\na.avi,run,0,9\na.avi,jump,9,\na.avi,run,0,8\n", {},
         [Video("a.avi", 1, 0, 9), Video("a.avi", 0, 9), Video("a.avi", 1, 0, 8)]),
        ("path,start_s,end_s,start,end\na.avi,1.5,2,,\na.avi,,1.5,,\nb.avi,,,3,9\n", {},
         [Video("a.avi", -1, start_s=1.5, end_s=2.0), Video("a.avi", -1, end_s=1.5),
          Video("b.avi", -1, 3, 9)]),
        ("path,x\na.avi,1\na.avi,2\n", {"duplicates": True}, [Video("a.avi", -1)] * 2),
    ],
)  # fmt: skip
def test_a_row_is_a_video(tmp_path: Path, content: Any, options: Any, videos: Any) -> None:
    catalog = read(tmp_path, content, **options)
    assert list(catalog) == videos
    assert list(catalog[1:] if len(videos) > 1 else catalog) == (videos[1:] or videos)
    if catalog[0].at is None:
        whole = Catalog(["c.avi"])
        assert [*Catalog.concat([whole, catalog])][1:] == [*Catalog.concat([catalog, whole])][:-1]
    assert catalog == read(tmp_path, content, **options)


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("", {}, []), ("path,label\n", {}, []), ("path,label\n,\n\n", {}, []),
        ("file,label\na,b\n", {}, ["'path'", "file, label"]),
        ("Path,Label\na,b\n", {}, ["'Path'?"]),
        ("path\na.avi,run\n", {}, ["2", "1"]),
        ("path,label,label\na.avi,run\n", {}, ["2", "3"]),
        ("\na.avi,run\n", {}, ["2", "0"]),
        (POSES, {"targets": "z"}, ["'z'", "targets=", "path, x, y, speed"]),
        (POSES, {"targets": "X"}, ["'X'", "'x'?"]),
        (POSES, {"targets": ()}, ["targets=", "()"]),
        (POSES, {"targets": {}}, ["targets="]),
        (POSES, {"targets": 5}, ["targets=", "5"]),
        ("path,x\na.avi,1\nb.avi,\n", {"targets": "x"}, ["line 3", "''"]),
        ("path;x\na.avi;1,5\n", {"targets": "x"}, ["line 2", "'1,5'"]),
        ("path,x,x\na.avi,1,2\n", {"targets": "x"}, ["'x'"]),
        ("path,label,labels\na.avi,1,2\n", {}, ["label", "labels"]),
        ("path,labels,x\na.avi,b,2\n", {"targets": "x"}, ["targets="]),
        ("path,t0\na.avi,0\na.avi,2\n", {}, ["line 3", "line 2", "t0"]),
        ("path,start_s,end_s\na.avi,1,2\na.avi,1.0,2.0\n", {}, ["line 3", "line 2"]),
        ("path,label\nübung.avi,run\n".encode("latin-1"), {}, ["UTF-8"]),
        ("path,label\na.avi,run\n".encode("utf-16"), {}, ["UTF-8"]),
        (b"RIFF\x00\x01\x02\x03AVI LIST\xff\xfe", {}, ["UTF-8"]),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_meant_is_refused(
    tmp_path: Path, content: str | bytes, options: Any, words: list[str]
) -> None:
    with refused("t.csv", *words):
        read(tmp_path, content, **options)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("b.avi,jump,x,,", ["start", "'x'"]), ("b.avi,jump,-1,,", ["'-1'"]),
        ("b.avi,jump,,1.5,", ["'1.5'", "end_s="]), ("b.avi,jump,,,many", ["'many'"]),
        ("b.avi,jump,,,99999999999999999999", ["'99999999999999999999'"]),
        ("b.avi,jump,9,9,", ["'b.avi'", " 9"]), ("b.avi,jump,9,8,", ["'b.avi'", " 8"]),
        ("b.avi,jump,0,11,10", ["'b.avi'", "10"]),
        ("b.avi,,,,", ["label"]), (",jump,,,", ["'path'"]),
        ("/b.avi,jump,,,", ["'/b.avi'"]), ("../b.avi,jump,,,", ["'../b.avi'"]),
        ('"b\n.avi",jump,,,', ["'b\\n.avi'"]),
        ("./a.avi,jump,,,", ["line 2", "'a.avi'"]),
        ("b.avi,jump", ["2", "5"]), ("b,1.avi,jump,,,", ["6"]),
        ('"b"x.avi,jump,,,', []), ('"b.avi,jump,,,', []),
    ],
)  # fmt: skip
def test_a_bad_row_is_named_with_its_file_and_line(
    tmp_path: Path, row: str, words: list[str]
) -> None:
    with refused(f"t.csv, line {4 + row.count(chr(10))}", *words):
        read(tmp_path, f"path,label,start,end,frames\na.avi,run,,,\n\n{row}")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("1,2,3,4", ["'a.avi'", "start_s"]),
        ("2,1,,", ["end_s 1.0 s", "start_s 2.0 s"]), ("2,2,,", ["end_s 2.0 s", "start_s 2.0 s"]),
        (",0,,", ["end_s 0.0 s"]), ("-1,2,,", ["start_s -1.0 s"]),
        ("0:10,2,,", ["start_s", "'0:10'"]),
    ],
)  # fmt: skip
def test_a_wrong_segment_is_named_with_its_unit(tmp_path: Path, row: str, words: list[str]) -> None:
    with refused("line 2", *words):
        read(tmp_path, f"path,start_s,end_s,start,end\na.avi,{row}\n")


# Tables of all kinds


COLUMNS: dict[str, list[Any]] = {
    "subject": [1, 12, 7], "take": ["a", "b", "c"], "kind": ["run", "jump", "run"],
    "onset": [0.5, 2, None], "off": [1.25, 9.5, 3], "speed": [1.5, 2, 3],
}  # fmt: skip


def as_rows(columns: dict[str, list[Any]]) -> Any:
    return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def as_arrays(columns: dict[str, list[Any]]) -> Any:
    found = {name: np.array(column) for name, column in columns.items() if name != "onset"}
    return {**found, "onset": np.array([0.5, 2, np.nan], np.float32)}


@pytest.mark.parametrize("make", [dict, as_pandas, as_polars, as_rows, as_arrays])
def test_any_kind_of_table_gives_the_same_catalog(make: Any) -> None:
    catalog = Catalog.from_table(
        make(COLUMNS), path="s{subject:03}/{take}.avi", label="kind", start_s="onset", end_s="off",
        targets={"v": "speed"},
    )  # fmt: skip
    assert list(catalog) == [
        Video("s001/a.avi", 1, start_s=0.5, end_s=1.25),
        Video("s012/b.avi", 0, start_s=2.0, end_s=9.5),
        Video("s007/c.avi", 1, end_s=3.0),
    ]
    targets: Any = catalog.targets
    assert targets["v"].tolist() == [1.5, 2, 3]
    assert catalog.classes == TWO


def in_a_file(folder: Path, suffix: str, columns: dict[str, list[Any]]) -> Path:
    file = folder / f"t{suffix}"
    rows = [*as_rows(columns)]
    if suffix == ".jsonl":
        file.write_text("\n\n".join(map(json.dumps, rows)))
    elif suffix == ".parquet":
        as_polars(columns).write_parquet(file)
    else:
        with file.open("w", newline="") as lines:
            table = csv.DictWriter(lines, columns, delimiter="," if suffix == ".csv" else "\t")
            table.writeheader()
            table.writerows(rows)
    return file


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_any_file_of_a_table_gives_the_same_catalog(suffix: str, tmp_path: Path) -> None:
    columns = COLUMNS | {"said, in words;": ["one, two; three", "é", None]}
    file = in_a_file(tmp_path, suffix, columns)
    how: Any = {"path": "s{subject}/{take}.avi", "label": "kind", "start_s": "onset",
                "end_s": "off", "targets": "said, in words;"}  # fmt: skip
    catalog = Catalog.from_table(file, **how)
    assert catalog == Catalog.from_table(columns, **how)
    assert np.asarray(catalog.targets).tolist() == ["one, two; three", "é", ""]
    assert all(type(text) is str for text in np.asarray(catalog.targets))
    with refused(file, "'onsets'"):
        Catalog.from_table(file, **how | {"start_s": "onsets"})


def test_a_file_that_is_no_such_table_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("none.parquet", "none.jsonl", "none.tsv", "none.csv"):
        with refused(tmp_path / name):
            Catalog.from_table(tmp_path / name)
    with refused(tmp_path / "none"):
        Catalog.from_table(text(tmp_path, "path,label\na.avi,run\n"), tmp_path / "none")
    for content in ("path\n", '{"path": "a.avi"}\n["b.avi"]', "5"):
        for suffix in (".parquet", ".jsonl"):
            with refused(f"t{suffix}"):
                Catalog.from_table(text(tmp_path, content, f"t{suffix}"))
    for module in ("polars", "pyarrow.parquet", "pandas"):
        monkeypatch.setitem(sys.modules, module, None)
    with refused("t.parquet"):
        Catalog.from_table(text(tmp_path, "", "t.parquet"))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (5, ["5"]), ({("path", "a.avi")}, []), ("t.csv", ["t.csv"]),
        ({"path": ["a"], "label": ["x", "y"]}, ["path", "label"]),
        ({"path": "a.avi"}, ["'path'"]), ({"path": {"a.avi"}}, ["'path'"]),
        ({"path": ["a.avi"], "label": {"run": 1}}, ["'label'"]),
        ([("a.avi", "run")], ["row 0"]), ([], []), ({"path": []}, []),
        ([{"path": "a.avi"}, {"label": "x"}], ["row 1", "'path'"]),
        *(({"path": ["a.avi"], "box": [box]}, ["row 0", "box"])
          for box in ("1 2 3", [3, 2, 1, 4], [1, 4, 3, 4], "x")),
        ({"path": ["a.avi", "b.avi"], "at": [5, None]}, ["row 1", "at_s"]),
        *(({"path": ["a.avi"], "at": [5], "start": [start], "end": [end]}, ["row 0", "at 5"])
          for start, end in ((0, 5), (6, None))),
    ],
)  # fmt: skip
def test_what_is_no_table_is_refused(table: Any, words: list[str]) -> None:
    with refused(*words):
        Catalog.from_table(table)


@pytest.mark.parametrize("cell", ["1 2 3.5 4", "[1, 2, 3.5, 4]", (1, 2, 3.5, 4)])
def test_a_row_may_have_a_moment_and_a_box(cell: Any) -> None:
    table = {"path": ["a.avi"] * 3, "box": [cell, None, cell], "at": [5, 9, 7]}
    catalog = Catalog.from_table(table)
    assert catalog[0] == Video("a.avi", -1, at=5, box=(1, 2, 3.5, 4))
    assert catalog[1] == Video("a.avi", -1, at=9)
    assert list(Catalog.concat([catalog[1:], catalog[:1]])) == [*catalog[1:], *catalog[:1]]
    four = dict(zip("ltrb", ([1], [2], [3.5], [4]), strict=True))
    of_four = Catalog.from_table({"path": ["a.avi"], "at_s": [0.5], **four}, box=list("ltrb"))
    assert of_four[0] == Video("a.avi", -1, at_s=0.5, box=(1, 2, 3.5, 4))


# What is decided from all rows


WHERE = {"split": ["TRAIN", "VAL"] * 2, "path": ["a.avi", "b.avi", "c.avi", "d.avi"]}


def test_rows_are_picked_by_their_values() -> None:
    table = {"path": ["a", "b", "c", "d"], "split": ["TRAIN", "VAL", "TRAIN", "TEST"],
             "fold": [1, 1, 2.0, 3]}  # fmt: skip

    def picked(**where: Any) -> tuple[str, ...]:
        return Catalog.from_table(table, where=where).paths

    assert picked(split="TRAIN") == ("a", "c")
    assert picked(split=["TRAIN", "TEST"], fold=[2, 3]) == ("c", "d")
    assert picked(fold="1") == ("a", "b")
    for folds in (np.array([2, 3]), range(2, 4), dict.fromkeys([2, 3]).keys()):
        assert picked(fold=folds) == ("c", "d")
    with refused("where=", "'fold'"):
        Catalog.from_table(table, where="fold")  # type: ignore[arg-type]
    for where, words in (
        ({"split": "Train"}, ["'Train'", "'VAL', 'TEST'", "'TRAIN'?"]),
        ({"split": "VAL", "fold": 3}, ["where="]),
        ({"Fold": 1}, ["where=", "'fold'?"]),
    ):
        with refused(*words):
            picked(**where)
    with refused("row 3", "'5'", "0..1"):  # the place in the whole table
        Catalog.from_table({**table, "label": [0, 0, 1, 5]}, classes=TWO, where={"fold": [2, 3]})


@pytest.mark.parametrize(
    ("labels", "classes", "train", "val"),
    [
        (["cook", "run", "sit", "walk"], ("cook", "run", "sit", "walk"), [0, 2], [1, 3]),
        ([3, 0, 5, 1], tuple("012345"), [3, 5], [0, 1]),
        ([3.0, np.nan, 0.0, np.nan], tuple("0123"), [3, 0], [-1, -1]),
        ([True, False, True, False], ("False", "True"), [1, 1], [0, 0]),
        (["cook;talk", "talk", "cook", "-1"], ("cook", "talk"), [0, 0], [1, -1]),
        (["run", None, "cook", None], ("cook", "run"), [1, 0], [-1, -1]),
        (["run", -1, "cook", "run"], ("cook", "run"), [1, 0], [-1, 1]),
    ],
)
@pytest.mark.parametrize("make", [dict, as_pandas, as_polars])
def test_parts_of_a_table_have_the_classes_of_all_rows(
    labels: list[Any], classes: Any, train: list[int], val: list[int], make: Any
) -> None:
    table = {**WHERE, "label": labels}
    if make is as_polars and len({type(label) for label in labels}) > 2:
        table["label"] = [None if label is None else str(label) for label in labels]
    for split, expected in (("TRAIN", train), ("VAL", val)):
        found = Catalog.from_table(make(table), where={"split": [split]})
        assert (found.classes, found.labels.tolist()) == (classes, expected)
        assert (found.targets is None) == (";" not in str(labels)), "several, in all parts or none"


def test_rows_that_are_not_picked_need_not_be_right(tmp_path: Path) -> None:
    at = str(tmp_path)
    table = {
        "path": [f"{at}/train/a.avi", None, f"{at}/train/c.avi", f"{at}/val/d.avi"],
        "split": WHERE["split"], "label": ["run", "", "jump", "sit"], "x": [1, "?", 2, 3],
    }  # fmt: skip
    catalog = Catalog.from_table(table, classes=TWO, targets="x", where={"split": "TRAIN"})
    assert catalog.labels.tolist() == [1, 0]
    assert (catalog.root, catalog.paths) == (tmp_path, ("train/a.avi", "train/c.avi")), "of all"
    with refused("row 1"):
        Catalog.from_table(table, classes=TWO, where={"split": "VAL"})


def test_what_counts_from_1_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    table = {**WHERE, "label": [1, 2, 2, 3]}
    with refused("row 3"):
        Catalog.from_table(table, classes=("a", "b", "c"), where={"split": "TRAIN"})
    for classes in (None, ["a", "b", "c", "d"]):
        Catalog.from_table(table, classes=classes, where={"split": "TRAIN"})
        assert " 0" in caplog.messages.pop()
    caplog.clear()
    Catalog.from_table({**table, "label": [1, 2, 2, 0]}, where={"split": "TRAIN"})
    segments = {"start": [1, 1, 5, 5], "end": [4, 4, 9, 9], "path": ["a", "b", "a", "b"]}
    assert not caplog.messages
    Catalog.from_table({**segments, "n": range(4)}, where={"n": [0, 1]})
    assert " 1" in caplog.messages[-1]


SIDES = {"start": [1, 20], "end": [8, 30], "start_s": [1, 20], "end_s": [8, 30]}


@pytest.mark.parametrize(("one", "other"), [("start", "end"), ("end", "start")])
@pytest.mark.parametrize("unit", ["", "_s"])
def test_one_side_of_segments_alone_is_an_error_unless_it_is_said(
    one: str, other: str, unit: str
) -> None:
    side, name = one + unit, "Dauer"
    table = {"path": ["a.avi", "b.avi"], side: SIDES[side], name: SIDES[other], "label": ["x", "y"]}
    with refused(f"{other}=", f"{other}_s=", f"{other}=None", name):
        Catalog.from_table(table)
    for none in ({other: None}, {f"{other}_s": None}):
        alone: Any = Catalog.from_table(table, **none)  # type: ignore[arg-type]
        assert [getattr(video, side) for video in alone] == SIDES[side]
    both: Any = Catalog.from_table(table, **{other + unit: name})  # type: ignore[arg-type]
    assert [getattr(video, other + unit) for video in both] == SIDES[other]


# Files


def test_files_are_found_by_their_names(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tree(tmp_path, "x/deep/1.avi", "2.mp4", "y/3.avi", "z/3.avi")
    table = {"id": [1, 2, 4], "label": ["run", "jump", "sit"], "at": [1, 2, 3]}
    catalog = Catalog.from_table(table, tmp_path, path="**/{id}.*")
    assert list(catalog) == [Video("x/deep/1.avi", 1, at=1), Video("2.mp4", 0, at=2)]
    assert catalog.classes == (*TWO, "sit"), "as where all files are"
    assert "1 of 3" in caplog.text
    with refused("'y/3.avi'", "'z/3.avi'"):
        Catalog.from_table({"id": [3]}, tmp_path, path="**/{id}.*")
    with refused("1"):
        Catalog.from_table({"id": [1]}, tmp_path, path="**/{id}.mkv")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("{subjct}.avi", ["'subjct'", "path=", "'subject'?"]), ("{subject", ["{subject"]),
        ("{take:03}", ["row 0", "'take'", "'a'"]), ("{none}", ["row 0", "'none'"]),
        ("**/{take}.avi", ["root="]), ("{take}.*", ["**/{take}.*"]),
    ],
)  # fmt: skip
def test_a_wrong_pattern_is_named(pattern: str, words: list[str]) -> None:
    with refused(*words):
        Catalog.from_table({"subject": [1], "take": ["a"], "none": [None]}, path=pattern)


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


# What a scan found of a file

PRINTS = [0x0123456789ABCDEF, 1, (1 << 63) - 1]


def scanned() -> Catalog:
    rows = [{"path": f"{n}.avi", "fingerprint": fingerprint_text(x)} for n, x in enumerate(PRINTS)]
    return Catalog.from_table(rows)


def test_a_fingerprint_is_read_as_it_was_written_and_nothing_else_is_one() -> None:
    assert [fingerprint_in(fingerprint_text(fingerprint)) for fingerprint in PRINTS] == PRINTS
    hexes = "0123456789abcdef", "xxh3-", "xxh3-0123456789abcde", "xxh3-0123456789ABCDE+"
    assert {fingerprint_in(cell) for cell in (None, "", 7, *hexes)} == {None}


def test_it_goes_with_its_video() -> None:
    catalog = scanned()
    assert [video.fingerprint for video in catalog] == PRINTS
    first, rest = catalog.subset([2, 0]), catalog[1:2]
    joined = Catalog.concat([first, rest, Catalog(["9.avi"])])
    wanted = [PRINTS[2], PRINTS[0], PRINTS[1], None]
    assert [video.fingerprint for video in joined] == wanted
    catalog = Catalog.side_by_side(rgb=scanned(), depth=scanned().subset([1, 2, 0]))
    assert {video.fingerprint for video in catalog} == {None}


def test_it_tells_no_two_rows_apart() -> None:
    rows = {"path": ["a.avi", "a.avi"], "fingerprint": list(map(fingerprint_text, PRINTS[:2]))}
    with refused("row 1"):
        Catalog.from_table(rows)


@pytest.mark.parametrize(
    ("cell", "found"), [("whorl", None), (fingerprint_text(PRINTS[0]), PRINTS[0])]
)
def test_another_column_of_that_name_is_not_used(
    cell: str, found: int | None, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "list.csv").write_text(f"path,fingerprint\na.avi,{cell}\n")
    caplog.set_level("INFO")
    catalog = Catalog.from_table(tmp_path / "list.csv")
    assert catalog[0].fingerprint == found
    assert ("fingerprint" in caplog.text) is (found is None)
