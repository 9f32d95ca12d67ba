"""Arguments, tables and JSON files of benchmarks."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.report import machine

Row = Mapping[str, Any]  # one line of results: column -> value


def parser(doc: str | None) -> argparse.ArgumentParser:
    """A benchmark's arguments, with --json."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    return made


def save(file: Path | None, benchmark: str, rows: Sequence[Row], **settings: object) -> None:
    """Write results as JSON, if a file was given: machine, settings and rows."""
    if file is not None:
        document = {
            "benchmark": benchmark,
            "machine": machine(),
            "settings": settings,
            "rows": rows,
        }
        file.write_text(json.dumps(document, indent=1, default=str) + "\n")


def show(title: str, rows: Sequence[Row], columns: Mapping[str, str]) -> None:
    """Print rows as a table. ``columns``: heading -> format, "{clips_per_s:,.0f}"."""
    table = Table(title=title, box=box.SIMPLE_HEAD)
    for heading in columns:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*(form.format(**row) for form in columns.values()))
    Console(width=None if sys.stdout.isatty() else 110).print(table)
