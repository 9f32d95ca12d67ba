"""Compares loaders on the same clips: `python -m benchmarks.compare`; see benchmarks/README.md.

Each loader runs once a round, in a process of its own, every other round backwards. Its first run
also checks its frames. The results file is complete after each run; with ``--go-on``, the rounds
are added to those that it has.
"""

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

from benchmarks.figures import machine
from benchmarks.loaders import LOADERS, USUAL
from benchmarks.report import Results, Row, tables
from benchmarks.run import Order, encoded
from benchmarks.work import Work
from benchmarks.works import FOLDER, WORKS, decoded_share, load
from videoload.errors import CatalogError
from videoload.host import cores

_LATE_S = 45  # beyond its time, after which a run is ended
_CHECKED_CLIPS = 64
_RESULTS = "results.json"
_ROUNDS, _RUN_S = 3, 15.0
_OWN_ROUNDS, _OWN_RUN_S = 1, 6.0  # of a user's videos: about two minutes
_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "PYTHONWARNINGS": "ignore",
    "VIDEOLOAD_CACHE": "",  # each run has to learn for itself what a file is
}  # fmt: skip


def say(line: str) -> None:
    """A line of progress, also where nobody watches a terminal."""
    print(line, file=sys.stderr, flush=True)


def _rounds(told: argparse.Namespace, work: Work, results: Results) -> None:
    loaders = [LOADERS[name] for name in told.loader]
    begin = 1 + max((row.round for row in results.rows if row.work == work.name), default=0)
    for turn in (0,) if told.check_only else range(begin, begin + told.rounds):
        for place, loader in enumerate(loaders if turn % 2 else loaders[::-1]):
            seconds, checked = told.seconds if turn else 0.0, _CHECKED_CLIPS if turn < 2 else 0
            order = Order(loader, work, told.processes, seconds, checked)
            row = _one(order, turn)
            results.rows.append(row)
            _write(told.out / _RESULTS, results)
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


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns 1 if nothing ran, 130 if it was stopped."""
    told = _arguments(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no run is left behind
    names, videos = told.work or ["ucf", "hd"], ""
    if told.videos:
        names, videos = ["own"], str(told.videos.resolve())
    told.loader = told.loader or (USUAL if told.videos else list(LOADERS))
    told.rounds = told.rounds or (_OWN_ROUNDS if told.videos else _ROUNDS)
    told.seconds = told.seconds or (_OWN_RUN_S if told.videos else _RUN_S)
    told.folder.mkdir(parents=True, exist_ok=True)
    told.out.mkdir(parents=True, exist_ok=True)
    results, status = Results(machine(), told.processes), 0
    if told.go_on and (file := told.out / _RESULTS).exists():
        results = msgspec.json.decode(file.read_bytes(), type=Results)
    try:
        for name in names:
            work = load(name, told.folder, say, videos=videos)
            results.works[name] = str(work)
            say(
                f"{name}: of the pictures from a keyframe to the last one of a clip, videoload "
                f"decodes {decoded_share(work):.0%}"
            )
            _rounds(told, work, results)
    except CatalogError as error:
        print(error, file=sys.stderr)
    except KeyboardInterrupt:
        status = 130
    print(*tables(results), sep="\n")
    return status or int(not any(row.clips_s or row.frames for row in results.rows))


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--work", action="append", choices=WORKS, help="ucf and hd if not given")
    add("--videos", type=Path, metavar="DIR", help="your own videos instead (work own)")
    add("--loader", action="append", choices=LOADERS, metavar="NAME", help=", ".join(LOADERS))
    add("--rounds", type=int, help=f"{_ROUNDS}, or {_OWN_ROUNDS} of your own videos")
    add("--processes", type=int, default=cores(), help="decoding processes or threads")
    add(
        "--seconds", type=float, help=f"of a run, with its start: {_RUN_S:.0f}, or {_OWN_RUN_S:.0f}"
    )
    add("--folder", type=Path, default=FOLDER, help="where the AVI files are kept")
    add("--out", type=Path, default=Path("benchmark-results"), help="for results.json")
    add("--go-on", action="store_true", help="add the rounds to those in --out")
    add("--check-only", action="store_true", help="compare the frames, time nothing")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
