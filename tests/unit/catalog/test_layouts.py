"""The lines of the page on data sets, nine at most, make catalogs of nine public sets."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.catalogs import pairs
from tests.support.layouts import layouts
from tests.support.pages import blocks
from videoload import Catalog
from videoload.catalog.joining import targets_of

pytest.importorskip("pandas")

PAGE = Path(__file__).parents[3] / "docs/data/recipes.md"
LINES = {b.title.removesuffix(".py"): b.code for b in blocks(PAGE.read_text()) if b.title}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(layouts(tmp_path))
    return tmp_path


def run(name: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(LINES["imports"], names)  # of our own page
    exec(LINES[name], names)
    return names


def test_no_data_set_needs_more_than_nine_lines() -> None:
    assert len(LINES) == 1 + 9
    for name, code in LINES.items():
        assert len(code.splitlines()) <= 9 or name == "imports", name


def something(catalog: Catalog) -> None:
    assert catalog.classes == ("Put", "Holding something")
    assert pairs(catalog) == [("78687.webm", "Holding something"), ("42326.webm", "Put")]


def deepethogram(catalog: Catalog) -> None:
    assert catalog.paths == ("mouse0/mouse0.avi", "mouse1/mouse1.avi")
    found = targets_of(catalog, np.array([0, 1]), np.array([[4], [5]]))
    assert found.tolist() == [[[1, 0, 0]]] * 2


def miniscope(catalog: Catalog) -> None:
    pieces = " // ".join(f"{number}.avi" for number in range(12))
    assert catalog.paths == tuple(f"m{mouse}/10_23_51/My_V4_Miniscope/{pieces}" for mouse in (0, 1))
    assert catalog.classes == ()


def jigsaws(catalog: Catalog) -> None:
    assert len(catalog) == 4
    assert catalog.paths[0] == "video/Suturing_B000_capture1.avi\nvideo/Suturing_B000_capture2.avi"
    assert [(v.start, v.end) for v in catalog] == [(40, 91), (91, 151)] * 2
    assert catalog.classes == ("G1", "G5")


def daisee(catalog: Catalog) -> None:
    assert catalog.paths[1] == "DataSet/Train/110002/1100021003/1100021003.avi"
    assert isinstance(catalog.targets, dict)
    assert {n: np.asarray(t).tolist() for n, t in catalog.targets.items()} == {
        "engagement": [3, 1], "boredom": [0, 2],
    }  # fmt: skip


def kth(catalog: Catalog) -> None:
    assert [v.start for v in catalog] == [0, 95, 140, 0, 50]
    assert [v.end for v in catalog] == [95, 140, 200, 50, 99]
    assert catalog.classes == ("boxing", "walking")


def casia_b(catalog: Catalog) -> None:
    assert catalog.classes == ("001", "002")
    assert len(catalog) == 4


CHECKS: list[Callable[[Catalog], None]] = [
    something, deepethogram, miniscope, jigsaws, daisee, kth, casia_b,
]  # fmt: skip


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_data_set_becomes_a_catalog(
    made: Path, check: Callable[[Catalog], None], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        check(run(check.__name__)["catalog"])
    assert not caplog.messages


def test_the_parts_of_a_data_set_become_two_catalogs(made: Path) -> None:
    found = run("rwf_2000")
    assert (len(found["train"]), len(found["test"])) == (6, 4)
    found = run("hmdb51")
    assert pairs(found["test"]) == [(f"{n}/2 (2).avi", n) for n in ("brush_hair", "wave")]
    assert len(found["train"]) == 4
