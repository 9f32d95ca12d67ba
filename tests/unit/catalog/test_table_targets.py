"""Columns of a table as targets: numbers keep their digits, and text stays text."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.catalogs import pairs, refused, table_of
from videoload.catalog.catalog import Catalog

POSES = "path,x,y,speed\na.avi,0.5,-1,3.25\nb.avi,1e3,2, 7 \n"


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
    catalog = table_of(tmp_path, POSES, targets=asked)
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
