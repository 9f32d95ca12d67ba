"""The lines of a table."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from videoload.catalog.catalog import Catalog
from videoload.errors import SpecError
from videoload.predictions.table import WindowTable
from videoload.predictions.windows import FileScores

FILE = FileScores(
    'a "b",c.avi', np.array([[0.1, 0.7, 0.2], [1 / 3, 0.0, 1e-9]], np.float32),
    np.array([0, 1200 + 1 / 15]), np.array([0.5, np.nan]),
)  # fmt: skip


def test_a_window_has_a_line_for_each_of_its_best_classes() -> None:
    assert WindowTable(2, ("x", "y", "z")).lines(FILE).splitlines() == [
        '"a ""b"",c.avi",0,0.5,y,0.7',
        '"a ""b"",c.avi",0,0.5,z,0.2',
        '"a ""b"",c.avi",1200.066667,,x,0.3333333',
        '"a ""b"",c.avi",1200.066667,,z,1e-09',
    ]
    unnamed = WindowTable(1, ("one",)).lines(FILE).splitlines()
    assert [line.split(",")[-2] for line in unnamed] == ["1", "0"], "names do not fit: numbers"


def test_features_are_no_table() -> None:
    with pytest.raises(SpecError, match=r"\[4, 3\]: to_npy="):
        WindowTable(1, ()).lines(FILE._replace(scores=np.zeros((2, 4, 3))))


@pytest.mark.parametrize("name", ["=1+cmd|x!A0", "+1", "@x", "-2+3+cmd|' /C calc'!A0"])
def test_no_cell_is_a_formula(name: str, tmp_path: Path) -> None:
    WindowTable(1, (name, "z", name)).write(tmp_path / "t.csv", FILE._replace(path=f"{name}.avi"))
    _, *lines = csv.reader((tmp_path / "t.csv").read_text().splitlines())
    assert not [cell for line in lines for cell in line if cell.startswith(("=", "+", "@", "-"))]
    catalog = Catalog.from_table(tmp_path / "t.csv", label="class", classes=["z", name])
    assert catalog[0].path == f"{name}.avi"
    assert catalog.labels.tolist() == [0, 1], "read back, they are themselves"


def test_a_name_that_begins_with_a_hyphen_stays_as_it_is() -> None:
    lines = WindowTable(1, ("-1",)).lines(FILE._replace(path="-3B32lodo2M.mp4"))
    assert lines.startswith("-3B32lodo2M.mp4,")
