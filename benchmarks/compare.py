"""Runs the loaders in turn, each in a process of its own, and shows the table.

Each loader runs once a round, every other round backwards. Its first run also checks its frames.
The results file is complete after each run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console

from benchmarks import report
from benchmarks.loaders import Loader
from benchmarks.report import Results, Row
from benchmarks.run import Order, encoded
from benchmarks.work import Work

_LATE_S = 45  # beyond its time, after which a run is ended
_CHECKED_CLIPS = 64
_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "PYTHONWARNINGS": "ignore",
    "VIDEOLOAD_CACHE": "",  # each run has to learn for itself what a file is
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Comparison:
    """What to compare, and where. ``rounds``: 0 only checks the frames. ``run_s``: of one run."""

    works: Sequence[Work]
    loaders: Sequence[Loader]
    rounds: int
    processes: int
    out: Path
    run_s: float


def compare(told: Comparison) -> tuple[Results, int]:
    """The results, and an exit status: 1 if nothing ran, 130 if it was stopped."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no run is left behind
    names = {work.name: str(work) for work in told.works}
    results = Results(report.machine(), told.processes, names)
    told.out.mkdir(parents=True, exist_ok=True)
    try:
        for work in told.works:
            _rounds(told, work, results)
    except KeyboardInterrupt:
        return results, 130
    return results, 0 if any(row.clips_s or row.frames for row in results.rows) else 1


def show(results: Results) -> None:
    """Print the tables."""
    for table in report.tables(results):
        Console(width=None if sys.stdout.isatty() else 120).print(table)


def say(line: str) -> None:
    """A line of progress, also where nobody watches a terminal."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(line, markup=False)


def _rounds(told: Comparison, work: Work, results: Results) -> None:
    loaders = list(told.loaders)
    for turn in range(1, told.rounds + 1) if told.rounds else (0,):
        for place, loader in enumerate(loaders if turn % 2 else loaders[::-1]):
            seconds, checked = told.run_s if turn else 0.0, _CHECKED_CLIPS if turn < 2 else 0
            order = Order(loader, work, told.processes, seconds, checked)
            row = _one(order, turn)
            results.rows.append(row)
            _write(told.out / "results.json", results)
            came = row.not_run or row.error or (f"{row.clips_s:.1f} clips/s" if turn else "checked")
            say(f"{work.name}, round {turn}, {place + 1} of {len(loaders)}: {loader.name}: {came}")
        dead = {row.loader for row in results.rows if row.not_run or row.error}
        loaders = [loader for loader in loaders if loader.name not in dead]


def _write(file: Path, results: Results) -> None:
    new = file.with_suffix(".new")
    new.write_bytes(msgspec.json.format(msgspec.json.encode(results)))
    new.replace(file)


def _one(order: Order, turn: int) -> Row:
    """One run, in a process of its own."""
    row = Row(order.work.name, order.loader.name, turn)
    paths = os.pathsep.join(map(os.path.abspath, sys.path))
    with tempfile.TemporaryDirectory() as folder:
        asked, result = Path(folder, "order.json"), Path(folder, "result.json")
        asked.write_bytes(encoded(order))
        # A session of its own, so that everything that a loader leaves behind can be ended with it.
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.run", str(asked), str(result)],
            env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": paths}, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            _, said = child.communicate(timeout=order.seconds + _LATE_S)
        except subprocess.TimeoutExpired:
            row.error = f"not done after {order.seconds + _LATE_S:.0f} s"
        else:
            if child.returncode:
                row.error = said.decode(errors="replace").strip().rpartition("\n")[2] or "crashed"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        if not row.error:
            told = msgspec.json.decode(result.read_bytes())
            row = msgspec.structs.replace(row, **told)
    return row
