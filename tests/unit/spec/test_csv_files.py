"""Tables with targets in them, and with several labels of a video."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.catalogs import pairs, refused, text
from videoload.errors import VideoloadError
from videoload.spec.catalog import Catalog

POSES = "path,x,y,speed\na.avi,0.5,-1,3.25\nb.avi,1e3,2, 7 \n"
MANY = "path,label\na.avi,cook;talk\nb.avi,talk\nc.avi, sit ; cook ;\n"


def read(folder: Path, content: str, **options: Any) -> Catalog:
    return Catalog.from_csv(text(folder, content, "t.csv"), root=None, **options)


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


def test_with_targets_the_labels_may_be_missing(tmp_path: Path) -> None:
    without = read(tmp_path, POSES, targets="x")
    assert pairs(without) == [("a.avi", "all"), ("b.avi", "all")]
    labelled = "path,label,x,start\na.avi,run,1,5\nb.avi,jump,2,\n"
    assert pairs(read(tmp_path, labelled, targets="x")) == [("a.avi", "run"), ("b.avi", "jump")]
    assert read(tmp_path, labelled, targets="x")[0].start == 5


def test_several_labels_are_multi_hot(tmp_path: Path) -> None:
    catalog = read(tmp_path, MANY)
    assert catalog.classes == ("cook", "sit", "talk")
    assert isinstance(catalog.targets, np.ndarray)
    assert catalog.targets.dtype == np.float32
    assert catalog.targets.tolist() == [[1, 0, 1], [0, 0, 1], [1, 1, 0]]
    assert pairs(catalog) == [("a.avi", "cook"), ("b.avi", "talk"), ("c.avi", "sit")]


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


def test_a_column_called_labels_is_always_multi_hot(tmp_path: Path) -> None:
    catalog = read(tmp_path, "path,labels\na.avi,cook\nb.avi,talk\n")
    assert isinstance(catalog.targets, np.ndarray)
    assert catalog.targets.tolist() == [[1, 0], [0, 1]]
    assert read(tmp_path, "path,label\na.avi,cook\nb.avi,talk\n").targets is None


def test_a_class_may_have_a_semicolon_in_its_name_if_it_is_given(tmp_path: Path) -> None:
    catalog = read(tmp_path, "path,label\na.avi,a;b\n", classes=["a;b", "c"])
    assert catalog.targets is None
    assert catalog[0].label == 0


def test_a_segment_may_stand_there_twice_where_it_is_wanted(tmp_path: Path) -> None:
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
        (POSES, {"targets": "z"}, ["columns path and z", "path,x,y,speed"]),
        (POSES, {"targets": ()}, ["names no column"]),
        (POSES, {"targets": {}}, ["names no column"]),
        (POSES, {}, ["columns path and label"]),
        ("path,x\na.avi,1\nb.avi,\n", {"targets": "x"}, ["line 3", "number, not ''"]),
        ("path,x\na.avi,nan\n", {"targets": "x"}, ["line 2", "number, not 'nan'"]),
        ("path,x,x\na.avi,1,2\n", {"targets": "x"}, ["each once"]),
        ("path,label,labels\na.avi,1,2\n", {}, ["each once"]),
        ("path,labels,x\na.avi,b,2\n", {"targets": "x"}, ["not both"]),
        ("path,labels\na.avi,b\nb.avi,;\n", {}, ["line 3", "label ''"]),
    ],
)
def test_tables_that_cannot_be_meant_are_refused(
    tmp_path: Path, content: str, options: Any, words: list[str]
) -> None:
    with refused("t.csv", *words):
        read(tmp_path, content, **options)


def test_what_is_wrong_is_told_in_few_words(tmp_path: Path) -> None:
    for table in (
        f"path,label,end\na.avi,run,{'9' * 100_000}\n",
        f"path,label\na.avi,-{'9' * 5000}\n",
    ):
        with pytest.raises(VideoloadError) as error:
            read(tmp_path, table)
        assert len(str(error.value)) < 300 + len(str(tmp_path))
    with refused("t.csv", "targets= takes names of columns, not 5"):
        read(tmp_path, "path,x\na.avi,1\n", targets=5)


def test_a_target_that_float32_cannot_hold_is_refused(tmp_path: Path) -> None:
    for number in ("1e39", "-1e39", "inf", "nan", "1_000", "0x1"):
        with refused("t.csv, line 2", "must be a number"):
            read(tmp_path, f"path,x\na.avi,{number}\n", targets="x")
