"""Tables of every kind, in memory and in files, and what their cells are."""

import csv
import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.catalogs import as_pandas, as_polars, refused, text
from videoload.catalog.catalog import Catalog
from videoload.clips.rows import Video

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
    assert catalog.classes == ("jump", "run")


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


@pytest.mark.parametrize("name", ["none.parquet", "none.jsonl", "none.tsv", "none.csv"])
def test_a_table_that_is_not_there_is_named(name: str, tmp_path: Path) -> None:
    with refused(tmp_path / name):
        Catalog.from_table(tmp_path / name)


def test_a_root_that_is_not_there_is_named(tmp_path: Path) -> None:
    with refused(tmp_path / "none"):
        Catalog.from_table(text(tmp_path, "path,label\na.avi,run\n"), tmp_path / "none")


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
@pytest.mark.parametrize("content", ["path\n", '{"path": "a.avi"}\n["b.avi"]', "5"])
def test_a_file_of_another_kind_than_its_name_says_is_refused(
    content: str, suffix: str, tmp_path: Path
) -> None:
    with refused(f"t{suffix}"):
        Catalog.from_table(text(tmp_path, content, f"t{suffix}"))


def test_a_parquet_file_that_no_package_reads_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_column_stands_once(tmp_path: Path) -> None:
    twice = pytest.importorskip("pyarrow").table([["a"], ["b"]], names=["path", "path"])
    for table in (twice, text(tmp_path, '{"path": "a", "path": "b"}', "t.jsonl")):
        with refused("'path'"):
            Catalog.from_table(table)


def test_the_name_of_a_table_is_no_pattern(tmp_path: Path) -> None:
    for name in ("fold[1]", "fold1", "fol?1"):
        as_polars({"path": [f"{name}.avi"]}).write_parquet(tmp_path / f"{name}.parquet")
    for name in ("fold[1]", "fold1", "fol?1"):
        assert Catalog.from_table(tmp_path / f"{name}.parquet").paths == (f"{name}.avi",)


# Cells with a unit of their own, and empty ones

DURATIONS = np.array([0, 40], "timedelta64[ms]")


@pytest.mark.parametrize(
    ("make", "column"),
    [
        *product([dict, as_pandas, as_polars], [DURATIONS, DURATIONS.astype("m8[ns]")]),
        *product([dict, as_pandas, as_polars], [DURATIONS.tolist()]),
        (dict, list(DURATIONS)),
    ],
)
def test_durations_are_seconds_and_no_frames(make: Any, column: Any) -> None:
    table = make({"path": ["a.avi", "a.avi"], "t": column})
    found = Catalog.from_table(table, start_s="t", end_s=None)
    assert [video.start_s or 0 for video in found] == [0, 0.04]
    with refused("row", "start"):
        Catalog.from_table(table, end=None, start="t")
    with refused("row", "t"):
        Catalog.from_table(table, targets="t")


@pytest.mark.parametrize("role", ["start", "start_s", "targets"])
def test_times_of_day_are_no_numbers(role: str) -> None:
    times: dict[str, Any] = {"path": ["a", "b"], "t": np.array([0, 1], "datetime64[ns]")}
    options: dict[str, Any] = {"end": None, role: "t"}
    with refused("row 0"):
        Catalog.from_table(times, **options)


@pytest.mark.parametrize(
    "column",
    [
        DURATIONS,
        DURATIONS.astype("timedelta64[ns]"),
        np.array([0, 40], "datetime64[ns]"),
    ],
)
def test_a_catalog_takes_seconds_as_numbers_only(column: Any) -> None:
    """A table's column has a name that says what it is; an argument ``starts_s`` does not."""
    for given in (column, list(column)):
        with refused("starts_s"):
            Catalog(["a", "b"], starts_s=given)


# Empty cells of NumPy's masked arrays

PATHS = ["a.avi", "b.avi"]
MASKED = np.ma.masked_array([1, 7], mask=[False, True])


def test_masked_cells_of_segments_are_empty() -> None:
    table = {"path": PATHS, "t": MASKED}
    assert [video.start for video in Catalog.from_table(table, start="t", end=None)] == [1, 0]
    for ends in (MASKED, list(MASKED)):
        assert [video.end for video in Catalog(PATHS, ends=ends)] == [1, None]
    durations = np.ma.masked_array(DURATIONS, mask=[True, False])
    found = Catalog.from_table({**table, "t": durations}, end_s="t", start_s=None)
    assert [video.end_s for video in found] == [None, 0.04]


def test_masked_cells_are_no_labels_and_no_targets() -> None:
    with refused("row 1"):
        Catalog.from_table({"path": PATHS, "t": MASKED}, targets="t")
    for labels in (MASKED, list(MASKED)):
        with refused("1", "no label"):
            Catalog(PATHS, labels)
    for targets in (MASKED, [MASKED, MASKED], {"x": MASKED}):
        with refused("masked"):
            Catalog(PATHS).with_targets(targets)
