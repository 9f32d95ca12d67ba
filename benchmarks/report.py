"""The results: the JSON file, the table, and what its words mean."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import msgspec
import numpy as np
import zmq
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from benchmarks.loaders import LIMIT
from videoload import host

_PACKAGES = (
    "videoload",
    "av", "tensorflow", "keras", "torch", "torchcodec",
    "opencv-python-headless", "decord", "spdl-core", "spdl-io",
)  # fmt: skip
_HEADINGS = ("clips/s", "from", "to", "of limit", "CPU ms", "first s", "MB", "wrong")


class Row(msgspec.Struct):
    """One run. Its frames were checked if there are ``frames``; in round 0, nothing was timed."""

    work: str
    loader: str
    round: int
    error: str = ""
    not_run: str = ""  # why it cannot be used here
    clips_s: float = 0.0
    first_batch_s: float = 0.0
    cpu_s_a_clip: float = 0.0
    memory: int = 0
    frames: int = 0
    wrong: int = 0


class Results(msgspec.Struct):
    """Everything that a table or a plot needs. ``works`` describes the works."""

    machine: dict[str, str]
    processes: int
    works: dict[str, str] = {}
    rows: list[Row] = []


class Summary:
    """The runs of one loader on one work. ``share`` is the median of each run's rate beside the
    limit's in the same round (``limits``), since a machine is not equally fast all the time."""

    def __init__(self, loader: str, rows: list[Row], limits: dict[int, float]) -> None:
        self.loader = loader
        self.timed = [row for row in rows if row.clips_s]
        self.rates = [row.clips_s for row in self.timed]
        self.clips_s = statistics.median(self.rates) if self.rates else 0.0
        self.error = next((row.error for row in rows if row.error), "")
        self.not_run = next((row.not_run for row in rows if row.not_run), "")
        self.frames = sum(row.frames for row in rows)
        self.wrong = sum(row.wrong for row in rows) / max(1, self.frames)
        self.share = median_beside(self.timed, limits)

    def median(self, field: str) -> float:
        """Median of a field over the timed rows."""
        return statistics.median(float(getattr(row, field)) for row in self.timed)

    @property
    def verdict(self) -> str:
        """That it has no rate, or what its frames are."""
        if self.not_run:
            return "not run"
        if self.error:
            return "failed"
        if not self.frames:
            return ""
        return f"{self.wrong:.0%}" if self.wrong else "none"


def machine() -> dict[str, str]:
    """What the figures were measured on, and when: the machine and its software."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    told = {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cpu": model or platform.processor(),
        "cores": str(host.cores()),
        "memory_gb": f"{memory / 1e9:.1f}",
        "load": str(os.getloadavg()[0]),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "pyzmq": zmq.__version__,
        "libzmq": zmq.zmq_version(),
    }
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            told[name] = metadata.version(name)
    return told


def rows_of(results: Results, work: str) -> dict[str, list[Row]]:
    """The runs on a work by loader."""
    rows: dict[str, list[Row]] = {}
    for row in results.rows:
        if row.work == work:
            rows.setdefault(row.loader, []).append(row)
    return rows


def rates_by_round(rows: list[Row]) -> dict[int, float]:
    """The rates of one loader."""
    return {row.round: row.clips_s for row in rows if row.clips_s}


def summaries(results: Results, work: str) -> list[Summary]:
    """The loaders of a work: the limit, then the fastest first."""
    rows = rows_of(results, work)
    limits = rates_by_round(rows.get(LIMIT, []))
    made = [Summary(loader, mine, limits) for loader, mine in rows.items()]
    return sorted(made, key=lambda told: (told.loader != LIMIT, -told.clips_s))


def tables(results: Results) -> Iterator[Table]:
    """One a work; ``CPU ms`` a clip, ``first s`` to the first batch, ``wrong`` frames. A loader
    without a rate has its reason below."""
    for work, what in results.works.items():
        title = f"{work}: {what}; {results.processes} processes"
        table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        table.add_column("loader", no_wrap=True)
        for name in _HEADINGS[:-1]:
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column(_HEADINGS[-1], no_wrap=True)
        found = summaries(results, work)
        for told in found:
            cells = [""] * (len(_HEADINGS) - 1)
            if told.timed:
                cells = [
                    f"{told.clips_s:.1f}",
                    f"{min(told.rates):.1f}",
                    f"{max(told.rates):.1f}",
                    "" if told.share is None else f"{told.share:.1%}",
                    f"{told.median('cpu_s_a_clip') * 1e3:.2f}",
                    f"{told.median('first_batch_s'):.2f}",
                    f"{told.median('memory') / 1e6:.0f}",
                ]
            table.add_row(told.loader, *cells, told.verdict)
        table.caption = "\n".join(map(escape, _words(found)))
        table.caption_justify = "left"
        yield table


def _words(found: list[Summary]) -> Iterator[str]:
    """Why rows of a table have no rate."""
    yield from (f"{told.loader}: not run: {told.not_run}" for told in found if told.not_run)
    yield from (f"{told.loader}: failed: {told.error}" for told in found if told.error)


def median_beside(rows: list[Row], rates: dict[int, float]) -> float | None:
    """The median of each row's rate beside that of its round."""
    shares = [row.clips_s / rates[row.round] for row in rows if row.round in rates]
    return statistics.median(shares) if shares else None
