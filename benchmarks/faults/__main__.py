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
for two minutes hangs. Each is set up as its documentation says (`subjects`), for faults as well.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.faults.judging import Run, Sample, judge
from benchmarks.faults.subjects import LOADERS, RESUMES
from benchmarks.faults.work import LEAST, STALLS
from benchmarks.numbered import make_numbered

FILES, AT, CUT = 64, 4, 37
_MARK = "<!-- Made by python -m benchmarks.faults --page. -->"
HUNG_S, START_S = 120.0, 120.0
FAULTS = (
    "a worker is killed", "a worker is frozen", "a file is cut short", "a read never returns",
    "stop and resume", "three workers",
)  # fmt: skip


def run(
    loader: str, folder: Path, *words: str, strike: Callable[[int, list[int]], None] | None = None,
    batches: int | None = None,
) -> Run:  # fmt: skip
    """Run a subject. ``strike`` is called with its pid and those that made the fourth batch. It is
    killed after so many ``batches``, if that is given."""
    command = [sys.executable, "-m", "benchmarks.faults.subjects", loader, str(folder), *words]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    with tempfile.TemporaryFile("w+") as errors, subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True,
        env=environment,
    ) as process:  # fmt: skip
        began, samples, end, got = time.monotonic(), list[Sample](), "hung", 0
        lines: queue.Queue[str] = queue.Queue()
        assert process.stdout is not None
        reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
        reader.start()
        try:
            while line := lines.get(timeout=HUNG_S if got else START_S):
                told = json.loads(line)
                if told.get("end"):
                    end = ""
                    break
                got += 1
                samples += [Sample(*each) for each in told["samples"]]
                if got == AT and strike is not None:
                    strike(process.pid, told["pids"])
                if got == batches:
                    end = ""
                    break
            else:
                process.wait(10)
                errors.seek(0)
                end = _last_line(errors.read()) or f"exit status {process.returncode}"
        except queue.Empty:
            errors.seek(0)
            if said := _last_line(errors.read()):  # it raised, and its process did not end
                end = f"hung, {said}"
        finally:
            seconds = time.monotonic() - began
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            _end_family(process.pid)
    return Run(samples, end, seconds)


def _read(stream: object, lines: queue.Queue[str]) -> None:
    for line in stream:  # type: ignore[attr-defined]
        if line.startswith("{"):  # some libraries print, too
            lines.put(line)
    lines.put("")


def _end_family(leader: int) -> None:
    """Kill what the subject started and moved to other process groups, as Ray's processes."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            words = status.read_text().rpartition(")")[2].split()
            if int(words[3]) == leader:  # its session
                os.kill(int(status.parent.name), signal.SIGKILL)


def _last_line(text: str) -> str:
    found = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception)\b.*", text, re.M)
    return found[-1].strip()[:80] if found else ""


def _signal(number: int) -> Callable[[int, list[int]], None]:
    return lambda _, pids: os.kill(pids[-1], number)


def fault(loader: str, what: str, good: Run, folder: Path) -> str:
    """What the loader does."""
    files = sorted(folder.glob("*.avi"))
    if what == "a worker is killed":
        return judge(good, run(loader, folder, strike=_signal(signal.SIGKILL)))
    if what == "a worker is frozen":
        return judge(good, run(loader, folder, strike=_signal(signal.SIGSTOP)))
    if what == "three workers":
        return judge(good, run(loader, folder, "--workers", "3"))
    late = files[good.samples[CUT].number]
    if loader == "tf.data service" and what in FAULTS[2:4]:
        return "not tried: it decodes nothing"
    if what == "a file is cut short":
        whole = late.read_bytes()
        late.write_bytes(whole[: len(whole) // 3])
        try:
            return judge(good, run(loader, folder), bad=good.samples[CUT].number)
        finally:
            late.write_bytes(whole)
    if what == "a read never returns":
        mark = Path(str(late) + STALLS)
        if loader == "videoload":
            return "not tried: it reads for itself"
        mark.touch()
        try:
            return judge(good, run(loader, folder))
        finally:
            mark.unlink(missing_ok=True)
    if loader not in RESUMES:
        return "it has no state to go on from"
    with tempfile.TemporaryDirectory() as scratch:
        state = str(Path(scratch, "state"))
        first = run(loader, folder, "--state", state, batches=2 * AT + 1)
        # The state of the last batch may not be written yet when it is killed.
        kept = len(first.samples) - 4
        second = run(loader, folder, "--state", state, "--resume")
    options = [Run([*first.samples[:at], *second.samples], second.end) for at in (kept, kept + 4)]
    found = [judge(good, option) for option in options]
    return next((words for words in found if words == "as without it"), found[0])


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--loader", action="append", choices=LOADERS)
    parser.add_argument("--fault", action="append", choices=FAULTS)
    parser.add_argument("--page", type=Path, help="write the table into this page, docs/faults.md")
    parser.add_argument("--out", type=Path, default=Path("benchmark-results/faults.json"))
    asked = parser.parse_args()
    rows: dict[str, dict[str, str]] = {}
    folder = Path(tempfile.mkdtemp(prefix="videoload-faults-"))
    try:
        for number in range(FILES):
            make_numbered(folder / f"{number:02}.avi", LEAST + number)
        for loader in asked.loader or LOADERS:
            good = run(loader, folder)
            rows[loader] = {}
            if good.end:
                rows[loader] = dict.fromkeys(FAULTS, f"not run: {good.end}")
                continue
            for what in asked.fault or FAULTS:
                began = time.monotonic()
                rows[loader][what] = fault(loader, what, good, folder)
                took = f"{time.monotonic() - began:.0f} s"
                print(f"{loader}, {what}: {rows[loader][what]} ({took})", file=sys.stderr)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(rows, indent=1))
    table = Table("loader", *(asked.fault or FAULTS))
    for loader, found in rows.items():
        table.add_row(loader, *found.values())
    Console().print(table)
    if asked.page is not None:
        text = asked.page.read_text()
        before, mark, _ = text.partition(_MARK)
        asked.page.write_text(f"{before}{mark}\n\n{_table(rows)}")
    return 0


def _table(rows: dict[str, dict[str, str]]) -> str:
    """The rows in Markdown, with short words."""
    lines = ["| loader | " + " | ".join(FAULTS) + " |", "|---" * (1 + len(FAULTS)) + "|"]
    for loader, found in rows.items():
        cells = [
            re.sub(r"^(ended|hung)(?:, | \()?.*after (\d+) of (\d+) samples.*", _short, words)
            for words in found.values()
        ]
        lines.append(f"| {loader} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _short(found: re.Match[str]) -> str:
    what = "error" if found[1] == "ended" else "hangs"
    return f"{what}: {found[2]} of {found[3]} came"


if __name__ == "__main__":
    sys.exit(main())
