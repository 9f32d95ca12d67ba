"""The results: the JSON file, tables, and bars with their spread as PNG."""

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

from videoload import host
from videoload.comparison.loaders import LIMIT

_BUSY = 0.2  # cores that other programs take: more moves the rates by a tenth and more
_PACKAGES = (
    "videoload",
    "av", "tensorflow", "keras", "torch", "torchcodec",
    "opencv-python-headless", "decord", "spdl-core", "spdl-io",
)  # fmt: skip
_HEADINGS = ("clips/s", "from", "to", "of limit")
_STEADY = (*_HEADINGS, "CPU ms", "first s", "MB", "wrong")
_OF_EPOCHS = (*_HEADINGS, "later", "1st/later", "x torchcodec", "wrong")
_OTHER = "DataLoader torchcodec"  # the fastest other loader without changes

_PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # label of the line


class Row(msgspec.Struct):
    """One run. Round 0 is not timed; its frames are checked."""

    work: str
    loader: str
    round: int
    error: str = ""
    clips_s: float = 0.0
    first_batch_s: float = 0.0
    cpu_s_a_clip: float = 0.0
    memory: int = 0
    later_clips_s: float = 0.0
    frames: int = 0
    wrong: int = 0
    missing: int = 0
    others_cores: float = 0.0  # that other programs of this host took meanwhile


class Results(msgspec.Struct):
    """Everything that a table or a plot needs. ``works`` describes the works, ``skipped`` has
    reasons."""

    machine: dict[str, str]
    processes: int
    works: dict[str, str] = {}
    skipped: dict[str, str] = {}
    rows: list[Row] = []


class Summary:
    """The runs of one loader on one work. ``share`` is the median of each run's rate beside the
    limit's in the same round (``limits``), ``times`` beside that of torchcodec's loader
    (``others``), since a machine is not equally fast all the time. ``first`` is the median of the
    first epoch's rate beside that of the later ones, in the same run."""

    def __init__(
        self, loader: str, rows: list[Row], limits: dict[int, float], others: dict[int, float]
    ) -> None:
        self.loader = loader
        self.timed = [row for row in rows if row.round and not row.error]
        self.rates = [row.clips_s for row in self.timed]
        self.clips_s = statistics.median(self.rates) if self.rates else 0.0
        self.error = next((row.error for row in rows if row.error), "")
        checked = next((row for row in rows if not row.round and not row.error), None)
        self.checked = checked is not None
        self.wrong = checked.wrong / max(1, checked.frames) if checked else 0.0
        self.missing = checked.missing if checked else 0
        self.share = _median_beside(self.timed, limits)
        self.times = _median_beside(self.timed, others)
        firsts = [row.clips_s / row.later_clips_s for row in self.timed if row.later_clips_s]
        self.first = statistics.median(firsts) if firsts else None

    def median(self, field: str) -> float:
        """Median of a field over the timed rows."""
        return statistics.median(float(getattr(row, field)) for row in self.timed)

    @property
    def verdict(self) -> str:
        """Verdict on its frames."""
        if self.error:
            return f"failed: {self.error}"
        if self.missing:
            return f"{self.missing} missing"
        if not self.checked:
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


def others_cores(results: Results, work: str) -> float:
    """How many cores other programs took during the runs of a work; 0 if that does not matter."""
    rows = [r.others_cores for r in results.rows if r.work == work and r.round and not r.error]
    busy = statistics.median(rows) if rows else 0.0
    return busy if busy > _BUSY else 0.0


def summaries(results: Results, work: str) -> list[Summary]:
    """The loaders of a work: the limit, then the fastest first."""
    rows: dict[str, list[Row]] = {}
    for row in results.rows:
        if row.work == work:
            rows.setdefault(row.loader, []).append(row)
    limits, others = (
        {row.round: row.clips_s for row in rows.get(name, ()) if row.round and not row.error}
        for name in (LIMIT, _OTHER)
    )
    made = [Summary(loader, mine, limits, others) for loader, mine in rows.items()]
    return sorted(made, key=lambda told: (told.loader != LIMIT, -told.clips_s))


def tables(results: Results) -> Iterator[Table]:
    """One a work; ``CPU ms`` a clip, ``first s`` to the first batch, ``wrong`` frames. Of a work of
    epochs, all rates but ``later`` are the first epoch's; ``x torchcodec`` is beside that of a
    DataLoader over torchcodec. On a busy host there is no share of the limit, since both sides of
    it depend on the others. A loader that could not run has its reason."""
    for work, what in results.works.items():
        title = f"{work}: {what}; {results.processes} processes"
        table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        table.add_column("loader", no_wrap=True)
        found = summaries(results, work)
        of_epochs = any(told.first for told in found)
        headings = _OF_EPOCHS if of_epochs else _STEADY
        for name in headings[:-1]:
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column(headings[-1], overflow="fold")
        if busy := others_cores(results, work):
            table.caption = (
                f"This host is busy: other programs took {busy:.1f} of its {host.cores()} cores "
                "meanwhile. So rates say little, and there is no share of the limit. Repeat it "
                "when the host is quiet."
            )
            table.caption_justify = "left"
        for told in found:
            cells = [""] * (len(headings) - 1)
            if told.timed:
                cells = [
                    f"{told.clips_s:.1f}",
                    f"{min(told.rates):.1f}",
                    f"{max(told.rates):.1f}",
                    "" if busy else _percent(told.share, ".1%"),
                    *(_epoch_cells(told) if of_epochs else _steady_cells(told)),
                ]
            table.add_row(told.loader, *cells, escape(told.verdict))
        for name, why in results.skipped.items():
            table.add_row(name, *[""] * (len(headings) - 1), escape(f"not run: {why}"))
        yield table


def _steady_cells(told: Summary) -> Iterator[str]:
    yield f"{told.median('cpu_s_a_clip') * 1e3:.2f}"
    yield f"{told.median('first_batch_s'):.2f}"
    yield f"{told.median('memory') / 1e6:.0f}"


def _epoch_cells(told: Summary) -> Iterator[str]:
    yield f"{told.median('later_clips_s'):.1f}" if told.first else ""
    yield _percent(told.first, ".1%")
    yield "" if told.times is None else f"{told.times:.2f}"


def plots(results: Results, folder: Path) -> Iterator[Path]:
    """One PNG a work: median rates, lines from the lowest to the highest, the limit dashed."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    for work, what in results.works.items():
        found = [told for told in summaries(results, work) if told.timed][::-1]
        if not found:
            continue
        limit = next((told.clips_s for told in found if told.loader == LIMIT), 0.0)
        figure, axes = pyplot.subplots(figsize=(8, 1.1 + 0.34 * len(found)), layout="constrained")
        for place, told in enumerate(found):
            colour = "#b0b0b0" if told.loader == LIMIT else "#8fb4d9"
            axes.barh(place, told.clips_s, 0.72, color="#d9662b" if _is_ours(told) else colour)
            low, high = min(told.rates), max(told.rates)
            axes.plot([low, high], [place, place], color="black", linewidth=1.2)
            text = f"{told.clips_s:.0f}" if told.clips_s >= 100 else f"{told.clips_s:.1f}"
            text += f"  {_percent(told.share, '.0%')}"
            text += f"  {told.wrong:.0%} wrong frames" if told.wrong else ""
            axes.text(high, place, f" {text}", va="center", fontsize=8, bbox=_PAPER)
        if limit:
            axes.axvline(limit, color="#606060", linestyle="--", linewidth=1)
        axes.set_yticks(range(len(found)), [told.loader for told in found])
        axes.set_xlim(0, 1.2 * max(max(told.rates) for told in found))
        axes.set_xlabel(f"clips a second ({results.processes} processes), and share of the limit")
        axes.set_title(f"{work}: {what}", fontsize=9, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        file = folder / f"{work}.png"
        figure.savefig(file, dpi=150)
        pyplot.close(figure)
        yield file


def _median_beside(rows: list[Row], rates: dict[int, float]) -> float | None:
    """The median of each row's rate beside that of its round."""
    shares = [row.clips_s / rates[row.round] for row in rows if row.round in rates]
    return statistics.median(shares) if shares else None


def _percent(share: float | None, form: str) -> str:
    return "" if share is None else format(share, form)


def _is_ours(told: Summary) -> bool:
    return told.loader.startswith("videoload")
