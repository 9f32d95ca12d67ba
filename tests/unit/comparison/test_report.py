"""What `videoload bench` says: rates, reasons, and a word where the host is busy."""

from __future__ import annotations

import io

from rich.console import Console

from videoload.comparison.report import Results, Row, others_cores, tables


def shown(others: float = 0.0) -> str:
    """The table of two loaders, one that failed and one that is not installed."""
    rows = [
        Row("ucf", "limit", 0, frames=8), Row("ucf", "limit", 1, clips_s=200.0),
        Row("ucf", "videoload", 0, frames=8), Row("ucf", "videoload", 1, clips_s=190.0),
        Row("ucf", "serial", 0, error="[Errno 28] No space left"),
    ]  # fmt: skip
    for row in rows:
        row.others_cores = others
    results = Results({}, 2, {"ucf": "32 files"}, {"SPDL": "spdl.io is not installed"}, rows)
    assert others_cores(results, "ucf") == (others if others > 0.2 else 0.0)
    console = Console(file=io.StringIO(), width=160)
    with console.capture() as capture:
        for table in tables(results):
            console.print(table)
    return " ".join(capture.get().split())


def test_each_row_without_a_rate_has_its_reason() -> None:
    text = shown(others=0.1)
    assert "videoload 190.0 190.0 190.0 95.0%" in text
    assert "serial failed: [Errno 28] No space left" in text
    assert "SPDL not run: spdl.io is not installed" in text
    assert "busy" not in text


def test_a_busy_host_is_told_and_no_share_of_the_limit() -> None:
    text = shown(others=1.3)
    assert "This host is busy: other programs took 1.3 of its" in text
    assert "95.0%" not in text
    assert "190.0" in text
