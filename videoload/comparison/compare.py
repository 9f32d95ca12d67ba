"""Runs the loaders in turn, each in a process of its own, and shows the table.

First each loader's frames are checked. Then each runs once a round, every other round backwards,
for as many rounds as were asked for, or as there is time for. The results file is complete after
each run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import Progress

from videoload.comparison import report, work
from videoload.comparison.loaders import LIMIT, LOADERS, WITH_STORE
from videoload.comparison.report import Results, Row
from videoload.comparison.run import Order
from videoload.errors import CatalogError
from videoload.host import cores
from videoload.storage.keep import Keep

_LIMIT_S = 120  # of one run
_BENCH = (
    LIMIT, "videoload", "videoload without TensorFlow", "DataLoader torchcodec",
    "DataLoader opencv", "DataLoader pyav", "SPDL", "tf.data opencv", "Keras threads", "serial",
)  # fmt: skip
_BENCH_CLIPS, _BENCH_CHECKED, _BENCH_ROUNDS = 640, 16, 99
_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "PYTHONWARNINGS": "ignore",
    "VIDEOLOAD_CACHE": "",  # each run has to learn for itself what a file is
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Comparison:
    """What to compare, and where. ``seconds``: no further round begins after so many."""

    works: Sequence[str]
    loaders: Sequence[str]
    rounds: int
    processes: int
    folder: Path
    out: Path
    clips: int | None = None
    checked_clips: int = 64
    videos: str = ""
    seconds: float = float("inf")
    frame_store: Keep | None = None  # None: in ``folder``


def bench(videos: Path | None, seconds: float, out: Path, frame_store: Keep | None) -> int:
    """The command ``videoload bench``. ``frame_store``: also with kept frames. Returns its exit
    status."""
    found = "" if videos is None else str(videos.resolve())
    loaders = _BENCH if frame_store is None else (*_BENCH, WITH_STORE)
    told = Comparison(
        ["own" if found else "ucf"], loaders, _BENCH_ROUNDS, cores(), work.FOLDER, out,
        _BENCH_CLIPS, _BENCH_CHECKED, found, seconds, frame_store,
    )  # fmt: skip
    return compare(told)


def compare(told: Comparison) -> int:
    """Compare, print the tables, and draw the plots. Returns 1 if nothing ran, 130 if it was
    stopped. Raises CatalogError if there are no videos."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no run is left behind
    console = Console(stderr=True, highlight=False)
    results = Results(report.machine(), told.processes)
    for path in (told.folder, told.out):
        path.mkdir(parents=True, exist_ok=True)
    stopped = False
    try:
        _run(told, results, console)
    except KeyboardInterrupt:
        stopped = True
    show(results, told.out, console)
    return 130 if stopped else 0 if results.rows else 1


def show(results: Results, folder: Path, console: Console) -> None:
    """Print the tables, and draw the plots into ``folder``."""
    for table in report.tables(results):
        Console(width=None if sys.stdout.isatty() else 120).print(table)
    try:
        for file in report.plots(results, folder):
            console.print(f"written: {file}")
    except ImportError:
        console.print("no plots: pip install matplotlib")


def _run(told: Comparison, results: Results, console: Console) -> None:
    until = time.monotonic() + told.seconds
    loaders = []
    with console.status("looking which loaders are installed"):
        for name in told.loaders:
            if why := LOADERS[name].missing():
                results.skipped[name] = why
            else:
                loaders.append(name)
    for name in told.works:
        if why := work.missing(name, told.videos):
            raise CatalogError(f"the work {name} cannot be made here: {why}")
        with console.status("") as status:
            made = work.load(
                name, told.folder, told.clips, lambda path: status.update(f"making {path}"),
                videos=told.videos,
            )  # fmt: skip
        results.works[name] = str(made)
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task("", total=None)
            for turn in range(1 + told.rounds):
                if turn > 1 and time.monotonic() > until:
                    break
                for loader in loaders if turn % 2 else loaders[::-1]:
                    doing = f"round {turn}" if turn else "checking frames"
                    progress.update(task, description=f"{name}, {doing}: {loader}")
                    order = Order(
                        loader, name, str(told.folder), told.processes, made.clips,
                        check=0 if turn else told.checked_clips, videos=told.videos,
                        frame_store=told.frame_store or Keep(str(told.folder / "frames"), None),
                    )  # fmt: skip
                    results.rows.append(_one(order, turn))
                    _write(told.out / "results.json", results)
                    if turn > 1 and time.monotonic() > until:
                        break


def _write(file: Path, results: Results) -> None:
    new = file.with_suffix(".new")
    new.write_bytes(msgspec.json.format(msgspec.json.encode(results)))
    new.replace(file)


def _one(order: Order, turn: int) -> Row:
    """One run, in a process of its own."""
    row = Row(order.work, order.loader, turn)
    paths = os.pathsep.join(map(os.path.abspath, sys.path))
    with tempfile.NamedTemporaryFile() as result:
        arguments = [msgspec.json.encode(order).decode(), result.name]
        # A session of its own, so that everything that a loader leaves behind can be ended with it.
        child = subprocess.Popen(
            [sys.executable, "-m", "videoload.comparison.run", *arguments],
            env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": paths}, start_new_session=True,
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
