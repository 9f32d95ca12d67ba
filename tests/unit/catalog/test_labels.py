"""What a label means, in a table or a list: a class by its name or its number, or several."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.catalogs import as_pandas, as_polars, refused, table_of, tree
from videoload.catalog.catalog import Catalog

TWO = ("jump", "run")


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
    catalog = table_of(tmp_path, f"path,label\n{rows}", classes=given)
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
        table_of(tmp_path, f"path,label\na.avi,{labels[0]}\nb.avi,{labels[1]}\n", classes=classes)


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


@pytest.mark.parametrize("rows", [[[0, 0, 1], [1, 0, 0]], [[0, 1], [1, 0]], [[True, False]] * 2,
                                  [[0.0, 1.0], [1.0, 0.0]], np.eye(2)])  # fmt: skip
def test_one_hot_rows_are_no_labels(rows: Any) -> None:
    with refused("0", "targets="):
        Catalog.from_table({"path": ["a", "b"], "labels": list(rows)})
    with refused("0", "targets="):
        Catalog(["a", "b"], list(rows))


@pytest.mark.parametrize(
    "cell", [b"run", {"run": 1}, [["run"]], [{"run": 1}], [b"run"], object(), iter("a")]
)
def test_odd_labels_are_refused(cell: Any) -> None:
    with refused("row 1", "label"):
        Catalog.from_table({"path": ["a", "b"], "label": ["run", cell]})


@pytest.mark.parametrize(
    ("one", "other"),
    [("Sit", "sit"), ("ice  hockey", "icehockey"), ("caf\xe9", "cafe\u0301")],
)
def test_classes_that_look_alike_are_warned_of_once(
    one: str, other: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    makes: list[Callable[[], Catalog]] = [
        lambda: Catalog(["a", "b", "c"], [one, other, "other"]),
        lambda: Catalog.from_folder(tree(tmp_path, f"{one}/v.avi", f"{other}/v.avi")),
        lambda: Catalog.concat([Catalog(["a"], [one]), Catalog(["b"], [other])]),
    ]
    for make in makes:
        caplog.clear()
        make()
        (line,) = [line for line in caplog.messages if ascii(one) in line]
        assert ascii(other) in line


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
    paths = ["a.avi", "b.avi", "c.avi", "d.avi"]
    table: dict[str, list[Any]] = {"path": paths, "split": ["TRAIN", "VAL"] * 2, "label": labels}
    if make is as_polars and len({type(label) for label in labels}) > 2:
        table["label"] = [None if label is None else str(label) for label in labels]
    for split, expected in (("TRAIN", train), ("VAL", val)):
        found = Catalog.from_table(make(table), where={"split": [split]})
        assert (found.classes, found.labels.tolist()) == (classes, expected)
        assert (found.targets is None) == (";" not in str(labels)), "several, in all parts or none"
