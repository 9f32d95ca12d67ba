"""Compares loaders on the same clips: ``python -m benchmarks``; see benchmarks/README.md."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import Progress

from benchmarks import report, work
from benchmarks.loaders import LOADERS
from benchmarks.report import Results, Row
from benchmarks.run import Order
from videoload.host import cores

_LIMIT_S = 120  # of one run
_CHECKED_CLIPS = 64


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns 1 if nothing ran, 130 if it was stopped."""
    told = _arguments(arguments)
    if told.videos:
        os.environ[work.OWN] = str(told.videos.resolve())  # each run is a process of its own
        told.work = ["own"]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no run is left behind
    console = Console(stderr=True, highlight=False)
    stopped = False
    if told.plot:
        folder = told.plot.parent
        results = msgspec.json.decode(told.plot.read_bytes(), type=Results)
    else:
        folder = told.out
        results = Results(report.machine(), told.processes)
        for path in (told.folder, folder):
            path.mkdir(parents=True, exist_ok=True)
        try:
            _run(told, results, console)
        except KeyboardInterrupt:
            stopped = True
    for table in report.tables(results):
        Console(width=None if sys.stdout.isatty() else 100).print(table)
    try:
        for file in report.plots(results, folder):
            console.print(f"written: {file}")
    except ImportError:
        console.print("no plots: pip install matplotlib")
    return 130 if stopped else 0 if results.rows else 1


def _run(told: argparse.Namespace, results: Results, console: Console) -> None:
    """Work by work and round by round, run each loader in turn, every other round backwards. The
    results file is complete after each run."""

    def skip(name: str, why: str) -> None:
        results.skipped[name] = why
        console.print(f"{name} is skipped: {why}", markup=False)

    loaders = []
    for name in told.loader or LOADERS:
        if why := LOADERS[name].missing():
            skip(name, why)
        else:
            loaders.append(name)
    rounds = 0 if told.check_only else told.rounds
    for name in told.work or ("ucf", "hd"):
        if why := work.missing(name):
            skip(name, why)
            continue
        with console.status("") as status:
            made = work.load(
                name, told.folder, told.clips, lambda path: status.update(f"making {path}")
            )
        results.works[name] = str(made)
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task("", total=len(loaders) * (1 + rounds))
            for turn in range(1 + rounds):
                for loader in loaders if turn % 2 else loaders[::-1]:
                    progress.update(task, description=f"{name}, round {turn}: {loader}")
                    order = Order(
                        loader, name, str(told.folder), told.processes, made.clips,
                        check=0 if turn else _CHECKED_CLIPS,
                    )  # fmt: skip
                    row = _one(order, turn)
                    results.rows.append(row)
                    if row.error:
                        console.print(f"{name}, {loader}: {row.error}", markup=False)
                    progress.advance(task)
                    _write(told.out / "results.json", results)


def _write(file: Path, results: Results) -> None:
    new = file.with_suffix(".new")
    new.write_bytes(msgspec.json.format(msgspec.json.encode(results)))
    new.replace(file)


def _one(order: Order, turn: int) -> Row:
    """One run, in a process of its own."""
    row = Row(order.work, order.loader, turn)
    quiet = {
        "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "PYTHONWARNINGS": "ignore",
        "VIDEOLOAD_CACHE": "",  # each run has to learn for itself what a file is
    }  # fmt: skip
    with tempfile.NamedTemporaryFile() as result:
        arguments = [msgspec.json.encode(order).decode(), result.name]
        # A session of its own, so that everything that a loader leaves behind can be ended with it.
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.run", *arguments],
            env={**os.environ, **quiet}, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            _, said = child.communicate(timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            row.error = f"not done after {_LIMIT_S} s"
        else:
            if child.returncode:
                row.error = said.decode(errors="replace").strip().rpartition("\n")[2] or "crashed"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        if not row.error:
            told = msgspec.json.decode(Path(result.name).read_bytes())
            row = msgspec.structs.replace(row, **told)
    return row


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--work", action="append", choices=work.WORKS, help="ucf and hd if not given")
    add("--videos", type=Path, metavar="DIR", help="your own AVI files instead (work own)")
    add("--loader", action="append", choices=LOADERS, metavar="NAME", help=", ".join(LOADERS))
    add("--rounds", type=int, default=5)
    add("--processes", type=int, default=cores(), help="decoding processes or threads")
    add("--clips", type=int, help="clips a run; by default about 6 s of work on two cores")
    add("--folder", type=Path, default=work.FOLDER, help="where the AVI files are kept")
    add("--out", type=Path, default=Path("benchmark-results"), help="for results.json and PNGs")
    add("--check-only", action="store_true", help="compare the frames, time nothing")
    add("--plot", type=Path, metavar="JSON", help="tables and plots of earlier results")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
