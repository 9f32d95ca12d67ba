"""The results of a scan: a table and a summary for people, rows for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from videoload.catalog.tables import classes_file
from videoload.errors import count, named, printable
from videoload.tools import advice
from videoload.tools.scan import ScanRow, bad_file

_FEW = 40  # up to this many files are all listed
_COLUMNS = 48  # the width of the other columns, about


def print_scan(
    rows: Sequence[ScanRow], segments: Sequence[ScanRow], output: Path | None,
    root: Path | None, copies: Sequence[Sequence[ScanRow]] = (), *, every: bool,
) -> None:  # fmt: skip
    """Print the table and the summary. In a pipe, no line of the table is broken."""
    console = Console(emoji=False)
    if not console.is_terminal:
        texts = (
            text for row in rows for text in (named(row.path), *map(printable, advice.remarks(row)))
        )
        console.width = max(console.width, max(map(len, texts), default=0) + _COLUMNS)
    table = scan_table(rows, every=every)
    if table is not None:
        console.print(table)
    lines = scan_summary(rows, segments, output, root, copies)
    console.print(Text("\n".join(map(printable, lines))), highlight=False, soft_wrap=True)


def print_rows(rows: Sequence[ScanRow]) -> None:
    """Print all rows for another program, as a list in JSON."""
    print(json.dumps([asdict(row) for row in rows], indent=1))


def scan_table(rows: Sequence[ScanRow], *, every: bool) -> Table | None:
    """The files, or only those with remarks if there are many. None: there is nothing to list."""
    shown = [row for row in rows if every or len(rows) <= _FEW or advice.remarks(row)]
    if not shown:
        return None
    title = count(len(rows), "file") + ("" if len(shown) == len(rows) else f", {len(shown)} shown")
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("file", overflow="fold", ratio=1)
    table.add_column("codec, size, fps", no_wrap=True)
    for name in ("frames", "key every"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in shown:
        file = Text(named(row.path))
        for remark in advice.remarks(row):
            file.append(f"\n  {printable(remark)}", style="yellow" if row.good else "red")
        table.add_row(
            file,
            f"{row.codec} {row.width}x{row.height} {row.fps:.5g}" if row.good else "",
            str(row.frames),
            f"{row.mean_gop_frames:.0f}" if row.key_frames else "",
        )
    return table


def scan_summary(
    rows: Sequence[ScanRow], segments: Sequence[ScanRow], output: Path | None,
    root: Path | None, copies: Sequence[Sequence[ScanRow]] = (),
) -> list[str]:  # fmt: skip
    """Lines that a person can act on. ``copies``: what `advice.groups_of_copies` found."""
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
    if bad:
        listed = "" if output is None else f"; {bad_file(output)} lists them"
        lines.append(
            f"{bad} cannot be decoded: in training, other clips take their place. Remove them from "
            f"the catalog{listed}"
        )
    if damaged:
        lines.append(f"{damaged} damaged but usable: decoding skips or repairs what is broken")
    lines += [*advice.buckets(segments), *advice.sizes(segments)]
    lines.append(advice.store(rows))
    lines += [*advice.long_groups(rows, root), *advice.aligned(segments)]
    lines += [advice.balance(rows), advice.recordings(rows)]
    lines += advice.copies_lines(copies)
    if output is not None and output.exists():
        classes = classes_file(output)
        given = f", classes={str(classes)!r}" if classes.exists() else ""
        lines.append(f"written to {output}: Catalog.from_table({str(output)!r}, root=...{given})")
    elif output is not None:
        lines.append(f"{output} is not there: it would have no row")
    return [line for line in lines if line]
