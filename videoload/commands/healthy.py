"""Check that the worker processes of a container respond.

A worker that hangs in a decoder or in the kernel keeps its process and its connection, so neither
shows it. Its main thread does: an idle one sleeps in its poll five times a second, and a busy one
wakes its I/O thread for a heartbeat four times a second, which is a write. A thread that neither
sleeps by itself nor writes hangs. Tried with a loop in C, an endless read, a deadlock, and SIGSTOP.

It does not see a decoder that loops and sleeps between two attempts. The trainer does: it waits for
progress, and gives the clips to another worker after two seconds.
"""

from __future__ import annotations

import os
import re
import time
from itertools import pairwise
from pathlib import Path

from videoload.errors import WorkerError

_PROC = Path("/proc")
_COUNTED = re.compile(r"^(?:voluntary_ctxt_switches|syscw):\s*(\d+)$", re.MULTILINE)
_LOOK_S = 0.1


def hanging(below: int, within_s: float) -> list[int]:
    """The worker processes among ``below`` and its descendants that do nothing for ``within_s``.

    Returns as soon as all of them did something. Raises WorkerError if there is no worker process,
    or if the kernel does not count what threads do.
    """
    own = os.getpid()
    found = _workers(below) - {own}
    if not found:
        raise WorkerError("no worker process")
    before = {pid: _activity(pid) for pid in found}
    own_before = _activity(own)
    still = set(found)
    deadline = time.monotonic() + within_s
    while still and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
        # One sleep more proves nothing: the thread may never wake from it.
        still = {pid for pid in still if 0 <= _activity(pid) <= before[pid] + 1}
    if _activity(own) == own_before:
        raise WorkerError("cannot check: this kernel does not count what a thread does")
    return sorted(still)


def _workers(below: int) -> set[int]:
    """The worker processes among ``below`` and its descendants, their supervisor included."""
    parents = {}
    for status in _PROC.glob("[0-9]*/stat"):
        try:
            # pid (any name) state parent ...
            parents[int(status.parent.name)] = int(_read(status).rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it just ended
    family, last = {below}, set[int]()
    while family != last:
        last, family = family, family | {pid for pid in parents if parents[pid] in family}
    return {pid for pid in family if _is_worker(pid)}


def _is_worker(pid: int) -> bool:
    """Whether it runs `videoload worker` or `videoload.worker` in this Python. A shell, or the init
    process of a container, may have the same words on its command line."""
    process = _PROC / str(pid)
    try:
        if not (process / "exe").samefile(_PROC / "self/exe"):
            return False
        words = [Path(word).name for word in _read(process / "cmdline").split("\0")]
    except OSError:  # it just ended, or belongs to another user
        return False
    return "videoload.worker" in words or ("videoload", "worker") in pairwise(words)


def _activity(pid: int) -> int:
    """How often the main thread of ``pid`` slept by itself or wrote; -1 if it ended."""
    thread = _PROC / f"{pid}/task/{pid}"
    try:
        text = _read(thread / "status") + _read(thread / "io")
    except (FileNotFoundError, ProcessLookupError):
        return -1
    return sum(map(int, _COUNTED.findall(text)))


def _read(file: Path) -> str:
    return file.read_text(errors="replace")  # names and arguments are bytes
