"""The table and the summary of a scan, and its rows for programs."""

import json
from dataclasses import asdict

import pytest

from tests.support.scan_rows import row
from videoload.tools import scan_table as tables


def test_rows_for_programs_have_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row("a, b.avi"), row("c", damage="cut")]
    tables.print_rows(rows)
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
    tables.print_scan(rows, rows, None, None, every=True)
    shown = capsys.readouterr().out
    assert not any(
        ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in shown if letter != "\n"
    )
    assert r"a\x1b[2J\x9b.avi" in shown
    assert r"5 of run\x07, 1 of walk" in shown


def test_a_summary_has_the_buckets_of_segments_not_of_files() -> None:
    segments = [row("a", start=0, end=9), row("a", start=9, end=39)]
    lines = tables.scan_summary([row("a")], segments, None, None)
    assert "  buckets=(9, 30)  # padding 0%" in lines
