"""The kill test: `python -m benchmarks.faults`.

Each loader gives one epoch of 64 files in batches of 4, by two workers, and something fails after
the fourth batch:

    a worker is killed      SIGKILL to a process that has just made a clip
    a worker is frozen      SIGSTOP to it
    a file is cut short     to a third, before the epoch
    a read never returns    the first one of one file, as if the storage did not answer
    stop and resume         the trainer is killed; the next one goes on from the loader's own state
    three workers           and not two: nothing fails

What comes is compared with an epoch of the same loader without a fault. A loader that gives nothing
for two minutes hangs, or for 20 times its own longest wait without a fault. Each is set up as its
documentation says (`subjects`), for faults as well. Hanging takes no core, so four runs go on at
once (``--lanes``).
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.faults.judging import Run, judge, short
from benchmarks.faults.running import AT, HUNG_S, TIMES, run
from benchmarks.faults.stalling import FIRST, build
from benchmarks.faults.subjects import LOADERS, RESUMES
from benchmarks.faults.work import LEAST
from benchmarks.figures import table
from benchmarks.numbered import make_numbered

FILES, CUT = 64, 37
FAULTS = (
    "a worker is killed", "a worker is frozen", "a file is cut short", "a read never returns",
    "stop and resume", "three workers",
)  # fmt: skip
Rows = dict[str, dict[str, str]]


class KillTest:
    """All loaders and faults that are asked for, each in a copy of the same files."""

    def __init__(self, scratch: Path, out: Path, rows: Rows) -> None:
        """``rows``: what is known already. ``out``: where it is written after each run."""
        self._scratch, self._out, self.rows = scratch, out, rows
        self._files = scratch / "files"
        self._files.mkdir()
        for number in range(FILES):
            make_numbered(self._files / f"{number:02}.avi", LEAST + number)
        self._preload = build(scratch)
        self._good: dict[str, Run] = {}
        self._lock = threading.Lock()

    def run(self, loaders: Iterable[str], faults: Iterable[str], lanes: int) -> None:
        """Fill the rows."""
        loaders, faults = list(loaders), list(faults)
        wanted = [
            (loader, what) for what in faults for loader in loaders
            if what not in self.rows.setdefault(loader, {})
        ]  # fmt: skip
        with ThreadPoolExecutor(lanes) as pool:
            needed = sorted({loader for loader, _ in wanted}, key=loaders.index)
            self._good.update(zip(needed, pool.map(self._without_fault, needed), strict=True))
            for done in [pool.submit(self._try, *each) for each in wanted]:
                done.result()

    def _without_fault(self, loader: str) -> Run:
        found = run(loader, self._files)
        return run(loader, self._files) if found.end else found  # the machine may be too busy

    def _try(self, loader: str, what: str) -> None:
        began, good = time.monotonic(), self._good[loader]
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        try:
            for file in self._files.iterdir():
                shutil.copy(file, folder)
            found = f"not run: {good.end}" if good.end else self._fault(loader, what, good, folder)
        finally:
            shutil.rmtree(folder)
        took = f"{time.monotonic() - began:.0f} s"
        print(f"{loader}, {what}: {found} ({took})", file=sys.stderr, flush=True)
        with self._lock:
            self.rows[loader][what] = found
            self._out.write_text(json.dumps(self.rows, indent=1) + "\n")

    def _fault(self, loader: str, what: str, good: Run, folder: Path) -> str:
        """What the loader does."""
        hung_s = max(HUNG_S, TIMES * good.longest_s)
        number = good.samples[CUT].number
        late = folder / f"{number:02}.avi"
        if what == "a worker is killed":
            return judge(good, run(loader, folder, strike=signal.SIGKILL, hung_s=hung_s))
        if what == "a worker is frozen":
            return judge(good, run(loader, folder, strike=signal.SIGSTOP, hung_s=hung_s))
        if what == "three workers":
            return judge(good, run(loader, folder, "--workers", "3", hung_s=hung_s))
        if what == "a file is cut short":
            if loader == "tf.data service":
                return "not tried: it decodes nothing"
            late.write_bytes(late.read_bytes()[: late.stat().st_size // 3])
            return judge(good, run(loader, folder, hung_s=hung_s), bad=number)
        if what == "a read never returns":
            if self._preload is None:
                return "not tried: no C compiler here"
            mark = Path(str(late) + FIRST)
            mark.touch()
            found = judge(good, run(loader, folder, preload=self._preload, hung_s=hung_s))
            return "not tried: nothing read the file" if mark.exists() else found
        if loader not in RESUMES:
            return "it has no state to go on from"
        state = str(folder / "state")
        stopped = 2 * AT + 1  # it is killed before it is told to go on, and saves the state
        first = run(loader, folder, "--state", state, batches=stopped, hung_s=hung_s)
        second = run(loader, folder, "--state", state, "--resume", hung_s=hung_s)
        kept = len(first.samples) - len(first.samples) // stopped
        return judge(good, Run([*first.samples[:kept], *second.samples], second.end))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--loader", action="append", choices=LOADERS)
    parser.add_argument("--fault", action="append", choices=FAULTS)
    parser.add_argument("--lanes", type=int, default=4, help="runs at once")
    parser.add_argument("--out", type=Path, default=Path("benchmark-results/faults.json"))
    parser.add_argument("--go-on", action="store_true", help="keep what --out has already")
    asked = parser.parse_args()
    loaders, faults = asked.loader or LOADERS, asked.fault or FAULTS
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    rows: Rows = json.loads(asked.out.read_text()) if asked.go_on and asked.out.exists() else {}
    scratch = Path(tempfile.mkdtemp(prefix="videoload-faults-"))
    try:
        KillTest(scratch, asked.out, rows).run(loaders, faults, asked.lanes)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    told = [{"loader": name} | {w: short(rows[name][w]) for w in faults} for name in loaders]
    print(table(told, {head: f"{{{head}}}" for head in ("loader", *faults)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
