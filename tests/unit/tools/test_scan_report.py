"""The results of a scan: what its page and its summary count, name and leave out."""

import json
import re
from dataclasses import asdict
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.scan_rows import row
from tests.support.videos import make_avi
from videoload.tools import scan_report as report
from videoload.tools.advice import groups_of_copies
from videoload.tools.scan import ScanRow


def content(file: Path) -> dict[str, Any]:
    found = re.search(r'id="data">(.*?)</script>', file.read_text(), re.S)
    assert found
    shown: dict[str, Any] = json.loads(found[1])
    return shown


def page_of(rows: list[ScanRow]) -> dict[str, Any]:
    """What the page of files that are not here shows."""
    with NamedTemporaryFile(suffix=".html") as file:
        report.write(Path(file.name), rows, rows, "set", None)
        return content(Path(file.name))


@given(st.lists(st.integers(1, 10**6) | st.floats(1, 1e6), min_size=1, max_size=30))
def test_a_histogram_has_every_value_once(values: list[float]) -> None:
    rows = [row(str(i), frames=int(n), file_bytes=n) for i, n in enumerate(values)]
    for chart in page_of(rows)["charts"]:
        assert sum(chart["counts"]) == len(rows)
        assert "bars" in chart or len(chart["edges"]) == len(chart["counts"]) + 1


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"frames": 0, "damage": "no frame"}, ["no frame"]),
        ({"frames": 3}, ["3"]),
        ({"frames": 100}, ["250", "100"]),
        ({"frames": 900, "header_frames": 900, "key_frames": 1}, [""]),
        ({"fps": 0.0}, [""]),
        ({"header_frames": 251}, []),
    ],
)
def test_what_is_wrong_is_said_of_each_file(facts: dict[str, Any], words: list[str]) -> None:
    wrong = page_of([row("good"), row("a", **facts)])["wrong"]
    assert [each["path"] for each in wrong] == ["a"] * bool(words)
    assert all(word in "; ".join(each["remarks"]) for each in wrong for word in words)


def test_a_page_has_pictures_of_classes_of_what_is_wrong_and_of_copies(tmp_path: Path) -> None:
    for path, frames in (("run/a.avi", 10), ("walk/c.avi", 12)):
        make_avi(tmp_path / path, frames=frames)
    (tmp_path / "run/b.avi").write_bytes((tmp_path / "run/a.avi").read_bytes())
    rows = [row(path, path.split("/")[0], frames=10, header_frames=10)
            for path in ("run/a.avi", "run/b.avi", "walk/c.avi")]  # fmt: skip
    rows.append(row("run/none.avi", "run", frames=0, damage="is no video"))
    made: list[int] = []
    copies = groups_of_copies(rows, tmp_path)
    out = tmp_path / "out.html"
    report.write(out, rows, rows, "<set>", tmp_path, copies, lambda: made.append(1))
    shown = content(tmp_path / "out.html")
    assert shown["name"] == "<set>"
    assert [(each["name"], len(each["pictures"])) for each in shown["classes"]] == [
        ("run", 2), ("walk", 1),
    ]  # fmt: skip
    assert shown["wrong"][0]["path"] == "run/none.avi"
    assert shown["wrong"][0]["picture"] == ""
    assert len(shown["wrong"]) == 4  # the others are short
    assert [path for _, path in shown["copies"][0]] == ["run/a.avi", "run/b.avi"]
    assert made


def test_a_set_of_one_aspect_and_one_frame_is_a_bar_that_says_so() -> None:
    shown = page_of([row("a", width=64, height=48, frames=1, label="x")] * 3)
    (aspects,) = (each for each in shown["charts"] if each["title"] == "width / height")
    assert aspects["bars"] == [["1.33", 3, None, False]]
    lengths = next(each for each in shown["charts"] if each["title"] == "frames in a file")
    assert "1 frame or more" in lengths["advice"][0]
    assert ["1", "class"] in shown["tiles"]
    one = page_of([row("a", frames=1)])["tiles"]
    assert ["1", "frame"] in one
    assert ["1", "file good"] in one


# On a terminal, and for programs


def test_rows_for_programs_have_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row("a, b.avi"), row("c", damage="cut")]
    report.print_rows(rows)
    assert json.loads(capsys.readouterr().out) == [asdict(each) for each in rows]


def test_control_characters_of_names_do_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [
        row("a\x1b[2J\x9b.avi", "run\x07", codec="h264"),
        row("b.avi", "run\x07", damage="\x1b]0;title\x07"),
        row("c.avi", "walk"),
        *(row(f"{i}.avi", "run\x07", key_frames=1, frames=900) for i in range(3)),
    ]
    report.print_scan(rows, rows, None, None, every=True)
    shown = capsys.readouterr().out
    assert not any(
        ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in shown if letter != "\n"
    )
    assert r"a\x1b[2J\x9b.avi" in shown
    assert r"5 of run\x07, 1 of walk" in shown


def test_a_summary_has_the_buckets_of_segments_not_of_files() -> None:
    segments = [row("a", start=0, end=9), row("a", start=9, end=39)]
    lines = report.scan_summary([row("a")], segments, None, None)
    assert "  buckets=(9, 30)  # padding 0%" in lines
