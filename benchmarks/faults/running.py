"""Run a subject in a process of its own, and strike it."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from benchmarks.faults.judging import Run, Sample

AT = 4  # batches before something fails
HUNG_S, TIMES = 120.0, 20  # or so many times the longest wait of a run without a fault
_START_S = 180.0  # imports and the first batch, on a busy machine


def run(
    loader: str, folder: Path, *words: str, strike: int | None = None,
    batches: int | None = None, preload: Path | None = None, hung_s: float = HUNG_S,
) -> Run:  # fmt: skip
    """Run a subject. It goes on after each batch when it is told to, so it is never ahead of what
    was read here.

    Args:
        loader: Its name.
        folder: The files.
        words: More options of `benchmarks.faults.subjects`.
        strike: The signal for a process that has just made a clip, after batch `AT`.
        batches: The subject is killed after so many. Default None: never.
        preload: A library for it.
        hung_s: It hangs if it gives nothing for so long.
    """
    command = [sys.executable, "-m", "benchmarks.faults.subjects", loader, str(folder), *words]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    if preload is not None:
        environment["LD_PRELOAD"] = str(preload)
    with tempfile.TemporaryFile("w+") as errors, subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
        start_new_session=True, env=environment,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdin is not None
        lines: queue.Queue[str] = queue.Queue()
        reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
        reader.start()
        samples, end, got, longest = list[Sample](), "hung", 0, 0.0
        try:
            asked = time.monotonic()
            while line := lines.get(timeout=hung_s if got else _START_S):
                longest = max(longest, time.monotonic() - asked) if got else 0.0
                told = json.loads(line)
                if told.get("end"):
                    end = ""
                    break
                got += 1
                samples += [Sample(*each) for each in told["samples"]]
                if got == AT and strike is not None:
                    os.kill(told["pids"][-1], strike)
                if got == batches:
                    end = ""
                    break
                asked = time.monotonic()
                with suppress(BrokenPipeError):
                    process.stdin.write("\n")
                    process.stdin.flush()
            else:
                process.wait(60)
                errors.seek(0)
                end = _last_error(errors.read()) or f"exit status {process.returncode}"
        except (queue.Empty, subprocess.TimeoutExpired):
            errors.seek(0)
            if said := _last_error(errors.read()):  # it raised, and its process did not end
                end = f"hung, {said}"
        finally:
            _kill_session(process.pid)
            with suppress(BrokenPipeError):
                process.stdin.close()
    return Run(samples, end, longest)


def _read(stream: IO[str], lines: queue.Queue[str]) -> None:
    for line in stream:
        if line.startswith("{"):  # some libraries print, too
            lines.put(line)
    lines.put("")


def _kill_session(leader: int) -> None:
    """Kill the subject and all that it started, other process groups too, as Ray makes them."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            words = status.read_text().rpartition(")")[2].split()
            if int(words[3]) == leader:  # its session
                os.kill(int(status.parent.name), signal.SIGKILL)


def _last_error(text: str) -> str:
    found = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception)\b.*", text, re.M)
    return found[-1].strip()[:80] if found else ""
