"""Helpers of all benchmarks: the CPU time of processes, a median with its spread, the facts
of the machine, worker processes that run another module, and results as a table and as JSON.

CPU is what the scheduler counted (user and system), thread by thread, from /proc. Unlike wall-clock
rates, it hardly depends on what else uses the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.report import machine

Row = Mapping[str, Any]  # one line of results: column -> value


class Spread(NamedTuple):
    """A median, and how far it was from lowest to highest."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of one or more values."""
        return cls(statistics.median(values), min(values), max(values))


def cpu_s(pid: int) -> dict[int, float]:
    """CPU seconds of each thread of a process so far, by thread id."""
    seconds = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # the thread has just ended
            seconds[int(task.name)] = int((task / "schedstat").read_text().split()[0]) / 1e9
    return seconds


def client_cpu_s() -> dict[str, float]:
    """CPU seconds so far of this process, which has one client and reads it in this thread."""
    threads = cpu_s(os.getpid())
    io = next(t.native_id for t in threading.enumerate() if t.name == "videoload-io")
    seconds = {"io": threads.pop(io or 0), "consumer": threads.pop(threading.get_native_id())}
    return seconds | {"zmq": sum(threads.values())}


def children(pid: int) -> list[int]:
    """The child processes of a process."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has just ended
            parent = status.read_text().rpartition(")")[2].split()[1]
            if int(parent) == pid:
                found.append(int(status.parent.name))
    return found


@contextmanager
def workers_are(module: str) -> Iterator[None]:
    """Worker processes that start inside the ``with`` run ``python -m module``."""
    with mock.patch("videoload.processes.supervisor.MODULE", module):
        yield


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
