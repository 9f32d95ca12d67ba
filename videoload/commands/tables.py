"""The results of a scan: a table and a summary for people, rows for programs."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Literal, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from videoload.commands import advice
from videoload.commands.scan import Journal, Row
from videoload.host import cores

Format = Literal["table", "csv", "json"]

_FEW = 40  # so many files are listed in any case
_COLUMNS = 56  # that the other columns take, about
_NARROWEST = 24


def show_scan(
    rows: Sequence[Row], journal: Journal | None, root: Path | None, *, every: bool
) -> None:
    """Print both. Where it is no terminal that is printed to, no name is broken or cut."""
    console = Console(emoji=False)
    if not console.is_terminal:
        longest = max((len(row.path) for row in rows), default=0)
        console.width = max(console.width, longest + _COLUMNS)
    table = scan_table(rows, every=every, width=console.width)
    if table is not None:
        console.print(table)
    console.print(scan_verdict(rows, journal, root, cores()), highlight=False, soft_wrap=True)


def write_rows(rows: Sequence[Row], form: Format, out: TextIO) -> None:
    """All rows for another program: CSV as in ``--output``, or a list in JSON."""
    if form == "json":
        json.dump([asdict(row) for row in rows], out, indent=1)
        out.write("\n")
        return
    writer = csv.DictWriter(out, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(asdict, rows))


def scan_table(rows: Sequence[Row], *, every: bool, width: int = 80) -> Table | None:
    """The files; of many, only those with remarks; None where there is nothing to list."""
    shown = [row for row in rows if every or len(rows) <= _FEW or _remarks(row)]
    if not shown:
        return None
    title = f"{len(rows)} files" + ("" if len(shown) == len(rows) else f", {len(shown)} shown")
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("file", overflow="fold", ratio=1)
    table.add_column("codec, size, fps", no_wrap=True)
    for name in ("frames", "header", "key every"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in shown:
        file = Text(folded(row.path, max(_NARROWEST, width - _COLUMNS)))
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


def folded(path: str, width: int) -> str:
    """A path in lines of ``width`` characters, broken after a ``/`` where there is one."""
    lines = [""]
    for part in path.replace("/", "/\n").split("\n"):
        if lines[-1] and len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def scan_verdict(
    rows: Sequence[Row], journal: Journal | None, root: Path | None, cores: int
) -> Text:
    """The summary that a person can act on. With the ``root``, files are read for it again: some,
    to see how fast that is, and those that may be the same."""
    good = [row for row in rows if row.good]
    bad = len(rows) - len(good)
    damaged = sum(bool(row.damage) for row in good)
    kinds = Counter(f"{row.codec} {row.width}x{row.height}" for row in good)
    lines = [
        f"{len(good)} of {len(rows)} files can be decoded, {sum(row.frames for row in good)} "
        f"frames, {advice.size(rows)}: "
        + ", ".join(f"{count} x {kind}" for kind, count in kinds.most_common(5))
        + (f", and {len(kinds) - 5} more kinds" if len(kinds) > 5 else "")
    ]
    written = journal is not None and journal.file.exists()  # where any row was good
    if bad:
        left_out = "the written one leaves them out; " if written else ""
        lines.append(
            f"{bad} that cannot be decoded: other clips would take their place; better remove them"
            " from the catalog" + (f" ({left_out}{journal.bad} lists them)" if journal else "")
        )
    if damaged:
        lines.append(f"{damaged} damaged but usable: decoding skips or repairs what is broken")
    wrong = sum(not _header_is_right(row) for row in good)
    if wrong:
        lines.append(f"{wrong} with a wrong frame count in the header: nothing relies on it")
    lines += advice.long_groups(rows, root)
    lines.append(advice.balance(rows))
    if root is not None:
        lines += [*advice.duplicates(rows, root), advice.speed(rows, root, cores)]
    if journal is not None and written:
        classes = f", classes={str(journal.classes)!r}" if journal.classes else ""
        lines.append(
            f"written to {journal.file}: Catalog.from_csv({str(journal.file)!r}, root=...{classes})"
        )
    return Text("\n".join(filter(None, lines)))


def _remarks(row: Row) -> list[str]:
    remarks = [row.damage] if row.damage else []
    if row.good and not row.key_frames:
        remarks.append("cannot be sought")
    if row.good and row.packets != row.frames:
        remarks.append(f"{row.packets} packets for {row.frames} frames")
    return remarks


def _header_is_right(row: Row) -> bool:
    return row.header_frames == row.frames
