"""The page of a scan: what it counts, names and leaves out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.scan_rows import row
from tests.support.videos import make_avi
from videoload.errors import VideoloadError
from videoload.scanning import report
from videoload.scanning.advice import groups_of_copies


def content(file: Path) -> dict[str, Any]:
    found = re.search(r'id="data">(.*?)</script>', file.read_text(), re.S)
    assert found
    shown: dict[str, Any] = json.loads(found[1])
    return shown


@given(st.lists(st.integers(1, 10**6), min_size=1) | st.lists(st.floats(0, 1e6), min_size=1))
def test_a_histogram_has_every_value_once(values: list[float]) -> None:
    found = report._histogram("frames", values, [])
    assert sum(found["counts"]) == len(values)
    assert len(found["edges"]) == len(found["counts"]) + 1


def test_kinds_that_are_rare_are_one_bar() -> None:
    found = report._kinds("fps", map(str, [*range(12), 0]), [""])
    assert found["bars"][0][:2] == ("0", 2)
    assert found["bars"][-1][:2] == ("4 others", 4)
    assert found["advice"] == []


def test_what_is_wrong_is_said_of_each_file() -> None:
    for wrong, said in (
        (row("a", frames=0, damage="no frame"), "no frame"),
        (row("a", frames=3), "short: 3 frames"),
        (row("a", frames=100, header_frames=250), "its header says 250 frames, and it has 100"),
        (row("a", frames=900, header_frames=900, key_frames=1), "one key frame"),
        (row("a", fps=0.0), "tells no frame rate"),
    ):
        assert said in "; ".join(report._remarks(wrong)), wrong
    assert report._remarks(row("a", header_frames=251)) == []


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


def test_without_files_here_a_page_has_no_pictures(tmp_path: Path) -> None:
    rows = [row("a.avi"), row("b.avi", "y")]
    report.write(tmp_path / "out.html", rows, rows, "s3://set", None)
    shown = content(tmp_path / "out.html")
    assert [each["pictures"] for each in shown["classes"]] == [[], []]
    assert "buckets=(250,)  # padding 0%" in shown["charts"][0]["advice"][-1]
    assert "2 without a picture" in shown["classes_note"]


def test_what_does_not_fit_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        make_avi(tmp_path / f"{number}.avi", frames=10 + number)
    monkeypatch.setattr(report, "_BYTES", 1)
    monkeypatch.setattr(report, "_WRONG", 2)
    rows = [
        row(f"{number}.avi", f"class {number}", frames=10, header_frames=10) for number in range(5)
    ]
    report.write(tmp_path / "out.html", rows, rows, "set", tmp_path)
    shown = content(tmp_path / "out.html")
    assert "5 files, 2 of them shown" in shown["wrong_note"]
    assert "5 without a picture, for lack of room" in shown["classes_note"]


def test_many_equal_files_are_counted(tmp_path: Path) -> None:
    same = [row(f"{number}.avi") for number in range(500)]
    report.write(tmp_path / "out.html", same, same, "set", None, [same])
    [group] = content(tmp_path / "out.html")["copies"]
    assert [path for _, path in group][-2:] == ["5.avi", "and 494 more"]


def test_a_page_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(VideoloadError, match=r"cannot write .*: No such file"):
        report.write(tmp_path / "none/out.html", [row("a")], [row("a")], "set", None)


def test_lengths_advise_clips_that_fit() -> None:
    rows = [row(str(frames), frames=frames) for frames in np.linspace(40, 400, 50).astype(int)]
    fits = report._of_lengths(rows)
    assert len(fits) == 1
    assert "frames=16, stride=4 fits" in fits[0]
    assert "fewer than 16 frames: 1 file" in report._of_lengths([*rows, row("x", frames=3)])[1]
