"""What `videoload bench` says: rates, reasons, and a word where the host is busy."""

from __future__ import annotations

import io

from rich.console import Console

from videoload.comparison.report import Results, Row, others_cores, tables


def shown(*more: Row, others: float = 0.0) -> str:
    """The table of a loader, one that failed, one that is not installed, and more."""
    rows = [
        Row("own", "limit", 1, clips_s=200.0, frames=8),
        Row("own", "videoload", 1, clips_s=190.0, frames=8),
        Row("own", "videoload", 2, clips_s=190.0),
        Row("own", "serial", 1, error="[Errno 28] No space left"),
        Row("own", "SPDL", 1, not_run="spdl.io is not installed"), *more,
    ]  # fmt: skip
    for row in rows:
        row.others_cores = others
    results = Results({}, 2, {"own": "32 files"}, rows)
    assert others_cores(results, "own") == (others if others > 0.2 else 0.0)
    console = Console(file=io.StringIO(), width=160)
    with console.capture() as capture:
        for table in tables(results):
            console.print(table)
    return " ".join(capture.get().split())


def test_each_row_without_a_rate_has_its_reason() -> None:
    text = shown(others=0.1)
    assert "videoload 190.0 190.0 190.0 95.0%" in text
    assert "serial: failed: [Errno 28] No space left" in text
    assert "SPDL: not run: spdl.io is not installed" in text
    assert "busy" not in text


def test_a_busy_host_is_told_and_no_share_of_the_limit() -> None:
    text = shown(others=1.3)
    assert "This host is busy: other programs took 1.3 of its" in text
    assert "95.0%" not in text
    assert "190.0" in text


def test_what_is_wrong_or_failed_is_explained_below_for_others_and_for_this_loader() -> None:
    text = shown()
    assert "failed: this loader ended with that error" in text
    assert "wrong: " not in text
    assert "of videoload:" not in text
    text = shown(
        Row("own", "DataLoader pyav", 1, clips_s=180.0, frames=256, wrong=256),
        Row("own", "videoload frame store", 1, error="a.avi: cannot be decoded"),
    )
    assert "100%" in text
    assert "wrong: the share of 256 frames that are not those asked for" in text
    assert "failed, of videoload: it stops at the first file that it cannot read." in text
    text = shown(Row("own", "videoload tcp", 1, clips_s=180.0, frames=256, wrong=1))
    assert "wrong, of videoload: it gives other frames" in text
