"""Catalogs from tables. Mistakes are refused in one line."""

from __future__ import annotations

import csv
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.catalogs import pairs, refused, text, tree
from videoload.catalog.catalog import Catalog
from videoload.catalog.table import Video
from videoload.errors import VideoloadError

TWO = ("jump", "run")
POSES = "path,x,y,speed\na.avi,0.5,-1,3.25\nb.avi,1e3,2, 7 \n"
MANY = "path,label\na.avi,cook;talk\nb.avi,talk\nc.avi, sit ; cook ;\n"


def read(folder: Path, content: str, **options: Any) -> Catalog:
    return Catalog.from_table(text(folder, content, "t.csv"), root=None, **options)


def test_columns_of_numbers_are_targets(tmp_path: Path) -> None:
    one = read(tmp_path, POSES, targets="speed").targets
    two = read(tmp_path, POSES, targets=("x", "y")).targets
    named = read(tmp_path, POSES, targets={"at": ["y", "x"], "v": "speed"}).targets
    alone = read(tmp_path, POSES, targets=["x"]).targets
    assert isinstance(one, np.ndarray)
    assert isinstance(two, np.ndarray)
    assert isinstance(alone, np.ndarray)
    assert isinstance(named, dict)
    assert one.dtype == two.dtype == np.float32
    assert one.tolist() == [3.25, 7]
    assert two.tolist() == [[0.5, -1], [1000, 2]]
    assert alone.tolist() == [[0.5], [1000]]
    assert {name: column.tolist() for name, column in named.items()} == {  # type: ignore[union-attr]
        "at": [[-1, 0.5], [2, 1000]],
        "v": [3.25, 7],
    }


def test_labels_are_optional_with_targets(tmp_path: Path) -> None:
    without = read(tmp_path, POSES, targets="x")
    assert pairs(without) == [("a.avi", ""), ("b.avi", "")]
    labelled = "path,label,x,at\na.avi,run,1,5\nb.avi,jump,2,6\n"
    assert pairs(read(tmp_path, labelled, targets="x")) == [("a.avi", "run"), ("b.avi", "jump")]
    assert read(tmp_path, labelled, targets="x")[0].at == 5


def test_several_labels_are_multi_hot(tmp_path: Path) -> None:
    catalog = read(tmp_path, MANY)
    assert catalog.classes == ("cook", "sit", "talk")
    assert isinstance(catalog.targets, np.ndarray)
    assert catalog.targets.dtype == np.float32
    assert catalog.targets.tolist() == [[1, 0, 1], [0, 0, 1], [1, 1, 0]]
    assert pairs(catalog) == [("a.avi", "cook"), ("b.avi", "talk"), ("c.avi", "sit")]


def test_names_of_classes_may_be_an_array() -> None:
    catalog = Catalog.from_table({"path": ["a.avi"], "label": ["a"]}, classes=np.array(["b", "a"]))  # type: ignore[arg-type]
    assert repr(catalog.classes) == "('b', 'a')"


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset, np.array])
def test_several_labels_of_a_cell_are_any_collection(kind: Any) -> None:
    cells = [kind(["cook", "talk"]), kind(["talk"])]
    catalog = Catalog.from_table({"path": ["a.avi", "b.avi"], "label": cells})
    assert (catalog.classes, catalog.labels.tolist()) == (("cook", "talk"), [0, 1])
    assert np.asarray(catalog.targets).tolist() == [[1, 1], [0, 1]]


def test_classes_that_are_given_are_the_columns(tmp_path: Path) -> None:
    catalog = read(tmp_path, MANY, classes=["talk", "cook", "sit", "run"])
    assert isinstance(catalog.targets, np.ndarray)
    assert catalog.targets.tolist() == [[1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 1, 0]]
    with refused("t.csv, line 2", "'talk' is not a class"):
        read(tmp_path, MANY, classes=["cook", "sit"])


def test_numbers_may_be_several_labels(tmp_path: Path) -> None:
    catalog = read(tmp_path, "path,label\na.avi,0;3\nb.avi,1\n")
    assert catalog.classes == ("0", "1", "2", "3")
    assert isinstance(catalog.targets, np.ndarray)
    assert catalog.targets.tolist() == [[1, 0, 0, 1], [0, 1, 0, 0]]


@pytest.mark.parametrize(
    ("cells", "classes", "hot"),
    [
        (["a;b", "-1", "b"], ("a", "b"), [[1, 1], [0, 0], [0, 1]]),
        ([["a", "b"], [-1], ["b"]], ("a", "b"), [[1, 1], [0, 0], [0, 1]]),
        (["0;1", "-1", "1"], ("0", "1"), [[1, 1], [0, 0], [0, 1]]),
    ],
)
def test_a_row_without_a_label_has_none_of_several(cells: Any, classes: Any, hot: Any) -> None:
    catalog = Catalog(["a.avi", "b.avi", "c.avi"], cells)
    assert (catalog.classes, catalog.labels.tolist()) == (classes, [0, -1, 1])
    assert np.asarray(catalog.targets).tolist() == hot
    with refused("video 3: -1 is no label, and others stand beside it"):
        Catalog([*catalog.paths, "d.avi"], [*cells, "-1;b"])


def test_a_column_called_labels_is_always_multi_hot(tmp_path: Path) -> None:
    catalog = read(tmp_path, "path,labels\na.avi,cook\nb.avi,talk\n")
    assert isinstance(catalog.targets, np.ndarray)
    assert catalog.targets.tolist() == [[1, 0], [0, 1]]
    assert read(tmp_path, "path,label\na.avi,cook\nb.avi,talk\n").targets is None


def test_a_class_may_have_a_semicolon_in_its_name_if_it_is_given(tmp_path: Path) -> None:
    catalog = read(tmp_path, "path,label\na.avi,a;b\n", classes=["a;b", "c"])
    assert catalog.targets is None
    assert catalog[0].label == 0


def test_duplicates_are_allowed_if_asked_for(tmp_path: Path) -> None:
    captions = "path,label,x\na.avi,run,1\na.avi,run,2\n"
    with refused("t.csv, line 3", "same segment", "t.csv, line 2"):
        read(tmp_path, captions, targets="x")
    twice = read(tmp_path, captions, targets="x", duplicates=True)
    assert isinstance(twice.targets, np.ndarray)
    assert twice.targets.tolist() == [1, 2]
    assert len(twice) == 2
    assert twice.files == 1


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (POSES, {"targets": "z"}, ["no column 'z' for targets=", "path, x, y, speed"]),
        (POSES, {"targets": "X"}, ["no column 'X'", "did you mean 'x'?"]),
        (POSES, {"targets": ()}, ["takes names of columns, not ()"]),
        (POSES, {"targets": {}}, ["names no column"]),
        ("path,x\na.avi,1\nb.avi,\n", {"targets": "x"}, ["line 3", "number, not ''"]),
        ("path,x\na.avi,nan\n", {"targets": "x"}, ["line 2", "number, not 'nan'"]),
        ("path,x,x\na.avi,1,2\n", {"targets": "x"}, ["two columns are named 'x'"]),
        ("path,label,labels\na.avi,1,2\n", {}, ["columns label and labels: give one"]),
        ("path,labels,x\na.avi,b,2\n", {"targets": "x"}, ["not both"]),
        ("path,labels\na.avi,b\nb.avi,;\n", {}, ["line 3", "there is no label"]),
    ],
)
def test_contradicting_tables_are_refused(
    tmp_path: Path, content: str, options: Any, words: list[str]
) -> None:
    with refused("t.csv", *words):
        read(tmp_path, content, **options)


def test_a_message_shortens_long_fields(tmp_path: Path) -> None:
    for table in (
        f"path,label,at\na.avi,run,{'9' * 100_000}\n",
        f"path,label\na.avi,-{'9' * 5000}\n",
    ):
        with pytest.raises(VideoloadError) as error:
            read(tmp_path, table)
        assert len(str(error.value)) < 300 + len(str(tmp_path))
    with refused("t.csv", "targets= takes names of columns, not 5"):
        read(tmp_path, "path,x\na.avi,1\n", targets=5)


def test_a_target_that_float32_cannot_hold_is_refused(tmp_path: Path) -> None:
    for number in ("1e39", "-1e39", "inf", "nan", "1_000"):
        with refused("t.csv, line 2", "must be a number"):
            read(tmp_path, f"path,x\na.avi,{number}\n", targets="x")


# The contents of a table


def test_a_table_of_names_is_a_catalog(tmp_path: Path) -> None:
    table = text(tmp_path, "path,label\nx/a.avi,run\ny/b.avi,jump\nc.avi,run\n")
    catalog = Catalog.from_table(table, tmp_path)
    assert (catalog.root, catalog.classes) == (tmp_path, TWO)
    assert pairs(catalog) == [("x/a.avi", "run"), ("y/b.avi", "jump"), ("c.avi", "run")]


def test_whole_numbers_are_class_indices(tmp_path: Path) -> None:
    catalog = Catalog.from_table(text(tmp_path, "path,label\na.avi,10\nb.avi,2\nc.avi,02\n"), None)
    assert catalog.labels.tolist() == [10, 2, 2]
    assert catalog.classes == tuple(map(str, range(11)))


def test_given_classes_name_whole_number_labels(tmp_path: Path) -> None:
    catalog = Catalog.from_table(text(tmp_path, "path,label\na.avi,1\nb.avi,0\n"), None, TWO)
    assert pairs(catalog) == [("a.avi", "run"), ("b.avi", "jump")]


def test_given_classes_look_names_up(tmp_path: Path) -> None:
    catalog = Catalog.from_table(
        text(tmp_path, "path,label\na.avi,jump\n"), None, ["walk", "run", "jump"]
    )
    assert (catalog.classes, catalog[0].label) == (("walk", "run", "jump"), 2)


def test_labels_are_names_if_class_names_are_numbers(tmp_path: Path) -> None:
    table = text(tmp_path, "path,label\na.avi,1\nb.avi,3\n")
    assert Catalog.from_table(table, None, ["1", "2", "3"]).labels.tolist() == [0, 2]


def test_labels_are_names_if_one_of_them_is_no_number(tmp_path: Path) -> None:
    catalog = Catalog.from_table(text(tmp_path, "path,label\na.avi,7\nb.avi,run\n"), None)
    assert (catalog.classes, catalog.labels.tolist()) == (("7", "run"), [0, 1])


@pytest.mark.parametrize("labels", [["1", "2.5"], ["0.1", "1e-3"], [".5"]])
def test_numbers_that_are_not_whole_are_no_classes(labels: list[str], tmp_path: Path) -> None:
    rows = "".join(f"{i}.avi,{label}\n" for i, label in enumerate(labels))
    table = text(tmp_path, f"path,label\n{rows}")
    wrong = next(label for label in labels if not label.isdigit())
    with refused(table, f"line {labels.index(wrong) + 2}", repr(wrong), "give classes="):
        Catalog.from_table(table, None)
    assert Catalog.from_table(table, None, labels).labels.tolist() == list(range(len(labels)))


def test_a_whole_number_may_have_a_point_as_pandas_writes_it(tmp_path: Path) -> None:
    table = text(tmp_path, "path,label,start\na.avi,0.0,7.0\nb.avi,3.0,\n")
    catalog = Catalog.from_table(table, end=None)
    assert catalog.labels.tolist() == [0, 3]
    assert [video.start for video in catalog] == [7, 0]


def test_columns_have_any_order_and_others_are_ignored(tmp_path: Path) -> None:
    table = text(
        tmp_path,
        "note,frames, end ,label,start,path\n"
        '"a, ""quoted""\nnote",300,40,run,20,a.avi\n'
        ",,,jump,,b.avi\n",
    )
    assert list(Catalog.from_table(table, None)) == [
        Video("a.avi", 1, 20, 40, 300),
        Video("b.avi", 0, 0, None, None),
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfpath,label\r\na.avi,run\r\n\r\n,\r\n",
        b"path,label\na.avi, run \n",
        b'"path","label"\r\n"a.avi","run"',
    ],
)
def test_a_table_may_have_a_byte_order_mark_any_line_ends_blanks_and_quotes(
    tmp_path: Path, content: bytes
) -> None:
    assert pairs(Catalog.from_table(text(tmp_path, content), None)) == [("a.avi", "run")]


def test_a_path_with_a_comma_is_quoted(tmp_path: Path) -> None:
    catalog = Catalog.from_table(text(tmp_path, 'path,label\n"a, b.avi",run\n'), None)
    assert catalog[0].path == "a, b.avi"


def test_many_segments_of_a_file_are_many_videos(tmp_path: Path) -> None:
    table = text(tmp_path, "path,label,start,end\na.avi,run,0,9\na.avi,jump,9,\na.avi,run,0,8\n")
    assert [video[1:4] for video in Catalog.from_table(table, None)] == [
        (1, 0, 9),
        (0, 9, None),
        (1, 0, 8),
    ]


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("file,label", "has no column 'path' for path=: its columns are file, label"),
        ("Path,Label", "did you mean 'Path'?"),
        ("path", "2 fields, the header has 1"),
        ("path,label,label", "2 fields, the header has 3"),
        ("", "2 fields, the header has 0"),
    ],
)
def test_a_header_without_the_columns_is_refused(tmp_path: Path, header: str, told: str) -> None:
    table = text(tmp_path, f"{header}\na.avi,run\n")
    with refused(table, told):
        Catalog.from_table(table, None)


@pytest.mark.parametrize("content", ["", "path,label\n", "path,label\n,\n\n"])
def test_a_table_without_videos_is_refused(tmp_path: Path, content: str) -> None:
    table = text(tmp_path, content)
    with refused(table):
        Catalog.from_table(table, None)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("b.avi,jump,x,,", ["'x'", "whole number"]),
        ("b.avi,jump,-1,,", ["'-1'", "whole number"]),
        ("b.avi,jump,,1.5,", ["'1.5'"]),
        ("b.avi,jump,,,many", ["'many'"]),
        ("b.avi,jump,,,99999999999999999999", ["'99999999999999999999'"]),
        ("b.avi,jump,9,9,", ["'b.avi'", "end 9"]),
        ("b.avi,jump,9,8,", ["'b.avi'", "end 8"]),
        ("b.avi,jump,0,11,10", ["'b.avi'", "10 frames"]),
        ("b.avi,,,,", ["there is no label"]),
        (",jump,,,", ["there is no file in the column 'path'"]),
        ("/b.avi,jump,,,", ["'/b.avi'", "relative"]),
        ("../b.avi,jump,,,", ["'../b.avi'"]),
        ('"b\n.avi",jump,,,', ["'b\\n.avi'"]),
        ("./a.avi,jump,,,", ["line 2", "'a.avi'", "same segment"]),
        ("b.avi,jump", ["2 fields", "5", "quotes"]),
        ("b,1.avi,jump,,,", ["6 fields", "quotes"]),
        ('"b"x.avi,jump,,,', ["expected after"]),
        ('"b.avi,jump,,,', ["unexpected end"]),
    ],
)
def test_a_bad_row_is_named_with_its_file_and_line(
    tmp_path: Path, row: str, words: list[str]
) -> None:
    table = text(tmp_path, f"path,label,start,end,frames\na.avi,run,,,\n\n{row}")
    with refused(f"{table}, line {4 + row.count(chr(10))}", *words):
        Catalog.from_table(table, None)


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
        (["k0", "x"], [f"k{i}" for i in range(9)], ["'x'", "k0, k1, k2, k3, k4, ... 4 more"]),
    ],
)
def test_a_label_that_is_no_class_is_named_with_its_line(
    tmp_path: Path, labels: list[str], classes: Sequence[str] | None, words: list[str]
) -> None:
    table = text(tmp_path, f"path,label\na.avi,{labels[0]}\nb.avi,{labels[1]}\n")
    with refused(f"{table}, line 3", *words):
        Catalog.from_table(table, None, classes)


@pytest.mark.parametrize(
    "content",
    [
        "path,label\nübung.avi,run\n".encode("latin-1"),
        "path,label\na.avi,run\n".encode("utf-16"),
        b"RIFF\x00\x01\x02\x03AVI LIST\xff\xfe",
        bytes(range(256)),
    ],
)
def test_a_table_that_is_not_utf_8_text_is_refused(tmp_path: Path, content: bytes) -> None:
    table = text(tmp_path, content)
    with refused(table, "UTF-8"):
        Catalog.from_table(table, None)


def test_a_table_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with refused(tmp_path / "none.csv", "No such file"):
        Catalog.from_table(tmp_path / "none.csv", None)


def test_a_root_given_to_a_table_must_exist(tmp_path: Path) -> None:
    with refused(tmp_path / "none"):
        Catalog.from_table(text(tmp_path, "path,label\na.avi,run\n"), tmp_path / "none")


SECONDS = """path,label,start_s,end_s,start,end
a.avi,run,1.5,2,,
a.avi,run,,1.5,,
b.avi,run,,,3,9
"""


def test_segments_are_in_frames_or_in_seconds(tmp_path: Path) -> None:
    catalog = read(tmp_path, SECONDS)
    assert list(catalog) == [
        Video("a.avi", 0, start_s=1.5, end_s=2.0),
        Video("a.avi", 0, end_s=1.5),
        Video("b.avi", 0, 3, 9),
    ]
    assert catalog._table.segment_frames.tolist() == [-1, -1, 6]
    assert list(catalog[1:]) == list(catalog)[1:]
    assert catalog == read(tmp_path, SECONDS)
    assert catalog != read(tmp_path, SECONDS.replace("1.5,2", "1.5,3"))
    assert list(Catalog.join([catalog[:1], catalog[1:]])) == list(catalog)
    whole = Catalog(["c.avi"], [0], ["run"])
    assert list(Catalog.join([whole, catalog])) == [*whole, *catalog]


@pytest.mark.parametrize(
    ("row", "flaw"),
    [
        ("a.avi,run,1,2,3,4", "give start and end (frames) or start_s and end_s (seconds), not bo"),
        ("a.avi,run,2,1,,", "end_s 1.0 s is not after start_s 2.0 s"),
        ("a.avi,run,2,2,,", "end_s 2.0 s is not after start_s 2.0 s"),
        ("a.avi,run,,0,,", "end_s 0.0 s is not after start_s 0.0 s"),
        ("a.avi,run,-1,2,,", "start_s -1.0 s is negative"),
        ("a.avi,run,0:10,2,,", "start_s must be a number of seconds, not '0:10'"),
        (
            "a.avi,run,,,1.5,4",
            "start must be a whole number from 0, not '1.5': start counts frames, start_s= is in s",
        ),
    ],
)
def test_a_wrong_segment_is_named_with_its_unit(tmp_path: Path, row: str, flaw: str) -> None:
    with refused("line 2", flaw):
        read(tmp_path, f"path,label,start_s,end_s,start,end\n{row}\n")


def test_the_same_seconds_twice_are_the_same_segment(tmp_path: Path) -> None:
    with refused("line 3", "the same segment as", "line 2"):
        read(tmp_path, "path,label,start_s,end_s\na.avi,run,1,2\na.avi,run,1.0,2.0\n")


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
    for name in ("none.parquet", "none.jsonl", "none.tsv"):
        with refused(tmp_path / name):
            Catalog.from_table(tmp_path / name)
    for content in ("path\n", '{"path": "a.avi"}\n["b.avi"]', "5"):
        for suffix in (".parquet", ".jsonl"):
            with refused(f"t{suffix}"):
                Catalog.from_table(text(tmp_path, content, f"t{suffix}"))
    for module in ("polars", "pyarrow.parquet", "pandas"):
        monkeypatch.setitem(sys.modules, module, None)
    with refused("pip install polars"):
        Catalog.from_table(text(tmp_path, "", "t.parquet"))


@pytest.mark.parametrize(
    ("cells", "wrong"),
    [
        (["a cat", "7", "a dog"], "'a cat'"),
        (["n/a", 1.5, "n/a"], "'n/a'"),
        (["1,5", "2,5", "3"], "'1,5'"),
        (["nan", "inf", "1e3"], "'nan'"),
        (["0:10", "12 %", "-"], "'0:10'"),
        ([None, "", None], "None"),
    ],
)
def test_targets_are_text_only_if_all_of_them_are(cells: list[Any], wrong: str) -> None:
    table = {"path": ["a.avi", "b.avi", "c.avi"], "t": cells, "n": [0, 1, 0]}
    for where in (None, {"n": 0}):  # also if the others are
        with refused("t must be a number", wrong):
            Catalog.from_table(table, targets="t", where=where)


# Tables of all kinds


COLUMNS: dict[str, list[Any]] = {
    "subject": [1, 12, 7], "take": ["a", "b", "c"], "kind": ["run", "jump", "run"],
    "onset": [0.5, 2, None], "off": [1.25, 9.5, 3], "speed": [1.5, 2, 3],
}  # fmt: skip


def as_pandas(columns: dict[str, list[Any]]) -> Any:
    rows = len(next(iter(columns.values())))
    return pytest.importorskip("pandas").DataFrame(columns, index=[7, 7, 3, 0][:rows])


def as_polars(columns: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("polars").DataFrame(columns, strict=False)


def as_rows(columns: dict[str, list[Any]]) -> Any:
    return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def as_arrays(columns: dict[str, list[Any]]) -> Any:
    found = {name: np.array(column) for name, column in columns.items() if name != "onset"}
    return {**found, "onset": np.array([0.5, 2, np.nan], np.float32)}


@pytest.mark.parametrize("make", [dict, as_pandas, as_polars, as_rows, as_arrays])
def test_any_kind_of_table_gives_the_same_catalog(make: Any) -> None:
    table = make(COLUMNS)
    catalog = Catalog.from_table(
        table, path="s{subject:03}/{take}.avi", label="kind", start_s="onset", end_s="off",
        targets={"v": "speed"},
    )  # fmt: skip
    assert list(catalog) == [
        Video("s001/a.avi", 1, start_s=0.5, end_s=1.25),
        Video("s012/b.avi", 0, start_s=2.0, end_s=9.5),
        Video("s007/c.avi", 1, end_s=3.0),
    ]
    assert isinstance(catalog.targets, dict)
    assert np.asarray(catalog.targets["v"]).tolist() == [1.5, 2, 3]
    assert catalog.classes == TWO
    assert catalog.paths[0] == "s001/a.avi"


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (5, "a table is a DataFrame, a dict of columns, a list of rows or a file, not 5"),
        ("t.csv", "t.csv cannot be read: No such file"),
        ({"path": ["a"], "label": ["x", "y"]}, "columns need as many rows each: path has 1, label"),
        ({"path": "a.avi"}, "'path'"),
        ({"path": {"a.avi"}}, "'path'"),
        ({"path": ["a.avi"], "label": {"run": 1}}, "'label'"),
        ({("path", "a.avi")}, "table"),
        ([("a.avi", "run")], "row 0: a row is a dict of its cells"),
        ([], "lists no videos"),
        ({"path": []}, "lists no videos"),
        ([{"path": "a.avi"}, {"label": "x"}], "row 1: there is no file in the column 'path'"),
    ],
)
def test_what_is_no_table_is_refused(table: Any, told: str) -> None:
    with refused(told):
        Catalog.from_table(table)


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
    with refused("where= is a dict, {\"column\": value}, not 'fold'"):
        Catalog.from_table(table, where="fold")  # type: ignore[arg-type]
    with refused("asks for 'Train' in 'split', which has 'TRAIN', 'VAL', 'TEST'", "mean 'TRAIN'?"):
        picked(split="Train")
    with refused("where={'split': 'VAL', 'fold': 3} picks no row"):
        picked(split="VAL", fold=3)
    with refused("no column 'Fold' for where= (did you mean 'fold'?)"):
        picked(Fold=1)
    with refused("row 3", "label '5' is not in 0..1"):  # the place in the whole table
        Catalog.from_table({**table, "label": [0, 0, 1, 5]}, classes=TWO, where={"fold": [2, 3]})


SIDES = {"start": [1, 20], "end": [8, 30], "start_s": [1, 20], "end_s": [8, 30]}


# What is decided from all rows


WHERE = {"split": ["TRAIN", "VAL"] * 2, "path": ["a.avi", "b.avi", "c.avi", "d.avi"]}


@pytest.mark.parametrize(
    ("labels", "classes", "train", "val"),
    [
        (["cook", "run", "sit", "walk"], ("cook", "run", "sit", "walk"), [0, 2], [1, 3]),
        ([3, 0, 5, 1], tuple("012345"), [3, 5], [0, 1]),
        ([3.0, np.nan, 0.0, np.nan], tuple("0123"), [3, 0], [-1, -1]),
        ([True, False, True, False], ("False", "True"), [1, 1], [0, 0]),
        (["1", "run", "0", "1"], ("0", "1", "run"), [1, 0], [2, 1]),
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


@pytest.mark.parametrize("labels", [["a;b", "b", "a", "c"], [["a", "b"], ["b"], ["a"], ["c"]]])
def test_parts_of_a_table_are_multi_hot_together(labels: list[Any]) -> None:
    of_parts = [
        np.asarray(Catalog.from_table({**WHERE, "label": labels}, where={"split": split}).targets)
        for split in ("TRAIN", "VAL")
    ]
    assert [part.tolist() for part in of_parts] == [[[1, 1, 0], [1, 0, 0]], [[0, 1, 0], [0, 0, 1]]]


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


def test_labels_that_count_from_1_are_noticed(caplog: pytest.LogCaptureFixture) -> None:
    table = {**WHERE, "label": [1, 2, 2, 3]}
    with refused("row 3", "counts from 0", "subtract 1"):
        Catalog.from_table(table, classes=("a", "b", "c"), where={"split": "TRAIN"})
    for classes in (None, ["a", "b", "c", "d"]):
        Catalog.from_table(table, classes=classes, where={"split": "TRAIN"})
        assert "counts from 0" in caplog.messages.pop()
    caplog.clear()
    Catalog.from_table({**table, "label": [1, 2, 2, 0]}, where={"split": "TRAIN"})
    segments = {"start": [1, 1, 5, 5], "end": [4, 4, 9, 9], "path": ["a", "b", "a", "b"]}
    assert not caplog.messages
    Catalog.from_table({**segments, "n": range(4)}, where={"n": [0, 1]})
    assert "counted from 1" in caplog.messages[-1]


@pytest.mark.parametrize(("one", "other"), [("start", "end"), ("end", "start")])
@pytest.mark.parametrize("unit", ["", "_s"])
@pytest.mark.parametrize("name", ["n_frames", "Dauer"])
def test_one_side_of_segments_alone_is_an_error_unless_it_is_said(
    one: str, other: str, unit: str, name: str
) -> None:
    side = one + unit
    table = {"path": ["a.avi", "b.avi"], side: SIDES[side], name: SIDES[other], "label": ["x", "y"]}
    with refused(f"{other}=", f"{other}_s=", f"{other}=None", name):
        Catalog.from_table(table)
    for none in ({other: None}, {f"{other}_s": None}):
        alone: Any = Catalog.from_table(table, **none)  # type: ignore[arg-type]
        assert [getattr(video, side) for video in alone] == SIDES[side]
    both: Any = Catalog.from_table(table, **{other + unit: name})  # type: ignore[arg-type]
    assert [getattr(video, other + unit) for video in both] == SIDES[other]


@pytest.mark.parametrize(
    ("header", "level"), [("path,label,x", "INFO"), ("path,Label,x", "WARNING")]
)
def test_columns_that_are_not_used_are_named_louder_if_nothing_is_learned(
    tmp_path: Path, header: str, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        read(tmp_path, f"{header}\na.avi,0,2\n")
    (record,) = caplog.records
    assert record.levelname == level
    assert record.getMessage().endswith("x")


def test_who_repeats_a_segment_is_told_what_was_not_used(tmp_path: Path) -> None:
    with refused("line 3", "same segment", "which columns tell them apart? Not used: t0, t1"):
        read(tmp_path, "path,t0,t1\na.avi,0,2\na.avi,2,4\n")


def test_labels_are_optional_and_may_be_missing_in_single_rows(tmp_path: Path) -> None:
    assert read(tmp_path, "path\na.avi\n").labels.tolist() == [-1]
    assert read(tmp_path, "path,label\na.avi,\nb.avi,\n").labels.tolist() == [-1, -1]
    some = read(tmp_path, "path,label\na.avi,-1\nb.avi,run\nc.avi,jump\n")
    assert some.labels.tolist() == [-1, 1, 0]
    numbered = read(tmp_path, "path,label\na.avi,-1\nb.avi,2\n")
    assert (numbered.labels.tolist(), numbered.classes) == ([-1, 2], ("0", "1", "2"))
    for label in ("run", "0"):
        with refused("line 3", "there is no label: write -1 for a row without one"):
            read(tmp_path, f"path,label\na.avi,{label}\nb.avi,\n")
    both = Catalog.join([some, Catalog(["d.avi"])])
    assert both.labels.tolist() == [-1, 1, 0, -1]


@pytest.mark.parametrize("cell", ["1 2 3.5 4", "[1, 2, 3.5, 4]", (1, 2, 3.5, 4)])
def test_a_row_may_have_a_moment_and_a_box(cell: Any) -> None:
    table = {"path": ["a.avi"] * 3, "box": [cell, None, cell], "at": [5, 9, 7]}
    catalog = Catalog.from_table(table)
    assert catalog[0] == Video("a.avi", -1, at=5, box=(1, 2, 3.5, 4))
    assert catalog[1] == Video("a.avi", -1, at=9)
    assert list(Catalog.join([catalog[1:], catalog[:1]])) == [*catalog[1:], *catalog[:1]]
    four = dict(zip("ltrb", ([1], [2], [3.5], [4]), strict=True))
    of_four = Catalog.from_table({"path": ["a.avi"], "at_s": [0.5], **four}, box=list("ltrb"))
    assert of_four[0] == Video("a.avi", -1, at_s=0.5, box=(1, 2, 3.5, 4))
    for wrong in ("1 2 3", [3, 2, 1, 4], "x"):
        with refused("row 0", "box must be left, top, right, bottom in pixels"):
            Catalog.from_table({"path": ["a.avi"], "box": [wrong]})
    with refused("row 1", "there is no moment (at, at_s), and other rows have one"):
        Catalog.from_table({"path": ["a.avi", "b.avi"], "at": [5, None]})
    for start, end in ((0, 5), (6, None)):
        with refused("row 0", "the moment at 5 lies outside its segment"):
            Catalog.from_table({"path": ["a.avi"], "at": [5], "start": [start], "end": [end]})


def test_files_are_found_by_their_names(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tree(tmp_path, "x/deep/1.avi", "2.mp4", "y/3.avi", "z/3.avi")
    table = {"id": [1, 2, 4], "label": ["run", "jump", "sit"], "at": [1, 2, 3]}
    catalog = Catalog.from_table(table, tmp_path, path="**/{id}.*")
    assert list(catalog) == [Video("x/deep/1.avi", 1, at=1), Video("2.mp4", 0, at=2)]
    assert catalog.classes == (*TWO, "sit"), "as where all files are"
    assert "1 of 3 videos are not in" in caplog.text
    with refused("'3.*' may be 'y/3.avi' or 'z/3.avi': give the paths"):
        Catalog.from_table({"id": [3]}, tmp_path, path="**/{id}.*")
    with refused("has none of them"):
        Catalog.from_table({"id": [1]}, tmp_path, path="**/{id}.mkv")


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("{subjct}.avi", "no column 'subjct' for path= (did you mean 'subject'?)"),
        ("{subject", "is no pattern"),
        ("{take:03}", "row 0: 'take' is 'a'"),
        ("{none}", "row 0: the column 'none', of which the path is made, is empty"),
        ("**/{take}.avi", "give root="),
        ("{take}.*", "**/{take}.*"),
    ],
)
def test_a_wrong_pattern_is_named(pattern: str, told: str) -> None:
    with refused(told):
        Catalog.from_table({"subject": [1], "take": ["a"], "none": [None]}, path=pattern)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_csv_file_may_have_any_usual_separator(tmp_path: Path, separator: str) -> None:
    rows = "path,label,at\na.avi,run,5\n".replace(",", separator)
    assert read(tmp_path, rows)[0] == Video("a.avi", 0, at=5)
    with refused("line 2", "speed must be a number, not '1,5' (write decimals with a point)"):
        read(tmp_path, "path;speed\na.avi;1,5\n", targets="speed")


def test_paths_alone_are_a_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Catalog(["a.avi", "b.avi"]).labels.tolist() == [-1, -1]
    assert Catalog(["a.avi", "b.avi"], ["run", "jump"]).classes == TWO
    several = Catalog(["a.avi", "b.avi"], ["run;jump", "run"])
    assert np.asarray(several.targets).tolist() == [[1, 1], [0, 1]]
    tree(tmp_path, "x/a.avi", "y/b.avi")
    far = Catalog(sorted(tmp_path.rglob("*.avi")))
    assert (far.root, far.paths) == (tmp_path, ("x/a.avi", "y/b.avi"))
    assert Catalog.from_table({"path": [f"{tmp_path}/x/a.avi", f"{tmp_path}/y/b.avi"]}) == far
    monkeypatch.chdir(tmp_path / "x")
    assert Catalog(["a.avi"]).root == tmp_path / "x"
    assert Catalog(["a.avi", "b.avi"]).root is None, "other hosts have them"
    with refused("paths", "a.avi"):
        Catalog("a.avi")
