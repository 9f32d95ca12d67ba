"""The results of a scan for people: a table and a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from videoload.commands.scan import Row

_FEW = 40  # so many files are listed in any case
# With more frames than this from one key frame to the next, a clip takes long to reach.
_FAR = 250


def scan_table(rows: Sequence[Row], *, every: bool) -> Table:
    """The files; of many, only those with remarks."""
    shown = [row for row in rows if every or len(rows) <= _FEW or _remarks(row)]
    title = f"{len(rows)} files" + ("" if len(shown) == len(rows) else f", {len(shown)} shown")
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("file", overflow="fold", ratio=1)
    table.add_column("codec, size, fps", no_wrap=True)
    for name in ("frames", "header", "key every"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in shown:
        file = Text(row.path)
        for remark in _remarks(row):
            file.append(f"\n  {remark}", style="yellow" if row.good else "red")
        table.add_row(
            file,
            f"{row.codec} {row.width}x{row.height} {row.fps:.5g}" if row.good else "",
            str(row.frames),
            Text(str(row.header_frames), style="" if _header_is_right(row) else "yellow"),
            f"{row.key_distance:.0f}" if row.key_frames else "",
        )
    return table


def scan_verdict(rows: Sequence[Row], output: Path | None) -> Text:
    """The summary that a person can act on."""
    good = [row for row in rows if row.good]
    bad = len(rows) - len(good)
    damaged = sum(bool(row.damage) for row in good)
    kinds = Counter(f"{row.codec} {row.width}x{row.height}" for row in good)
    lines = [
        f"{len(good)} of {len(rows)} files can be decoded, {sum(row.frames for row in good)} frames"
        ": "
        + ", ".join(f"{count} x {kind}" for kind, count in kinds.most_common(5))
        + (f", and {len(kinds) - 5} more kinds" if len(kinds) > 5 else "")
    ]
    if bad:
        lines.append(
            f"{bad} that cannot be decoded: other clips would take their place; better remove them"
            " from the catalog" + (" (the written one leaves them out)" if output else "")
        )
    if damaged:
        lines.append(f"{damaged} damaged but usable: decoding skips or repairs what is broken")
    wrong = sum(not _header_is_right(row) for row in good)
    if wrong:
        lines.append(f"{wrong} with a wrong frame count in the header: nothing relies on it")
    slow = sum(
        row.key_distance > _FAR or (not row.key_frames and row.frames > _FAR) for row in good
    )
    if slow:
        lines.append(
            f"{slow} with key frames more than {_FAR} frames apart, or none to seek to: a clip "
            "takes long to reach; encode them again with a key frame every 12 to 50 frames"
        )
    if output is not None:
        lines.append(f"written to {output}: Catalog.from_csv({str(output)!r}, root=...)")
    return Text("\n".join(lines))


def _remarks(row: Row) -> list[str]:
    remarks = [row.damage] if row.damage else []
    if row.good and not row.key_frames:
        remarks.append("cannot be sought")
    if row.good and row.packets != row.frames:
        remarks.append(f"{row.packets} packets for {row.frames} frames")
    return remarks


def _header_is_right(row: Row) -> bool:
    return row.header_frames == row.frames
