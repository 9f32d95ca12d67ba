"""The table and the summary of a scan, and its rows for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.support.scan_rows import row
from videoload.scanning import tables
from videoload.scanning.journal import Journal


def test_rows_for_programs_have_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row("a, b.avi"), row("c", damage="cut")]
    tables.print_rows(rows)
    assert json.loads(capsys.readouterr().out) == [asdict(each) for each in rows]


def test_there_is_no_table_without_remarks() -> None:
    rows = [row(f"{i}") for i in range(60)]
    assert tables.scan_table(rows, every=False) is None
    table = tables.scan_table([*rows, row("bad", damage="cut")], every=False)
    assert table is not None
    assert "61 files, 1 " in str(table.title)


def test_control_characters_of_names_do_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [
        row("a\x1b[2J\x9b.avi", "run\x07", codec="h264"),
        row("b.avi", "run\x07", damage="\x1b]0;title\x07"),
        row("c.avi", "walk"),
        *(row(f"{i}.avi", "run\x07", key_frames=1, frames=900) for i in range(3)),
    ]
    tables.print_scan(rows, rows, None, None, every=True)
    shown = capsys.readouterr().out
    assert not any(
        ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in shown if letter != "\n"
    )
    assert r"a\x1b[2J\x9b.avi" in shown
    assert r"5 of run\x07, 1 of walk" in shown


def test_a_summary_has_the_buckets_of_segments_not_of_files() -> None:
    segments = [row("a", start=0, end=9), row("a", start=9, end=39)]
    lines = tables.scan_summary([row("a")], segments, None, None, 2)
    assert "  buckets=(9, 30)  # padding 0%" in lines


def test_a_summary_without_good_files_says_that_no_table_was_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "t.csv")
    lines = tables.scan_summary([row("a", frames=0)], [], journal, None, 2)
    bad, none = lines[1:]
    assert str(tmp_path / "t.bad.csv") in bad
    assert str(tmp_path / "t.csv") in none
