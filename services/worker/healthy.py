"""Does every worker process of this container get on? Exit status 0 or 1, for a health check.

    python -m services.worker.healthy [--within S] [--kill] [--below PID]

A worker that hangs in a decoder or in the kernel keeps its process and its connection, so neither
of them tells. What tells is its one thread, seen from outside: when idle it goes to sleep in its
poll five times a second, and when busy it wakes its I/O thread for each heartbeat, four times a
second, which is a write. A thread that neither sleeps of its own accord nor writes hangs. Tried on
a loop in C, an endless read, a lock that never opens, and SIGSTOP.

What it does not see: a decoder that goes round and sleeps between two attempts. The trainer does:
it waits for progress, and gives the clips to another worker after two seconds.

Compose only marks a container as unhealthy. With ``--kill``, processes that hang are killed: a lone
one ends its container, which the restart policy starts again; one of several is replaced by their
supervisor, which would have found it by itself after half a minute. Kubernetes kills for itself.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import time
from pathlib import Path

_PROC = Path("/proc")
_COUNTED = re.compile(r"^(?:voluntary_ctxt_switches|syscw):\s*(\d+)$", re.MULTILINE)
_NAMES = {"videoload", "videoload.worker"}
_LOOK_S = 0.1


def workers(below: int) -> set[int]:
    """The worker processes among ``below`` and its descendants, their supervisor included."""
    parents = {}
    for status in _PROC.glob("[0-9]*/stat"):
        try:
            # pid (name, which may hold anything) state parent ...
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
    family, last = {below}, set[int]()
    while family != last:
        last, family = family, family | {pid for pid in parents if parents[pid] in family}
    return {pid for pid in family if _is_worker(pid)}


def activity(pid: int) -> int:
    """How often the main thread of ``pid`` went to sleep by itself, or wrote; -1 if it is gone."""
    thread = _PROC / f"{pid}/task/{pid}"
    try:
        text = (thread / "status").read_text() + (thread / "io").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return -1
    return sum(map(int, _COUNTED.findall(text)))


def hanging(pids: set[int], within_s: float) -> set[int]:
    """Those of ``pids`` that do nothing for ``within_s`` seconds; returns as soon as none does."""
    before = {pid: activity(pid) for pid in pids}
    still = set(pids)
    deadline = time.monotonic() + within_s
    while still and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
        # One more proves nothing: it may be the sleep from which the thread never wakes.
        still = {pid for pid in still if 0 <= activity(pid) <= before[pid] + 1}
    return still


def _is_worker(pid: int) -> bool:
    try:
        words = (_PROC / f"{pid}/cmdline").read_text().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(Path(word).name in _NAMES for word in words)


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="healthy", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--within", type=float, default=10.0, metavar="S",
        help="a process that does nothing for so many seconds hangs (default: 10)",
    )  # fmt: skip
    parser.add_argument("--kill", action="store_true", help="kill the processes that hang")
    parser.add_argument(
        "--below", type=int, default=1, metavar="PID",
        help="look at this process and its descendants (default: 1, the container)",
    )  # fmt: skip
    arguments = parser.parse_args()
    own = os.getpid()
    found = workers(arguments.below) - {own}
    if not found:
        print("no worker process")
        return 1
    own_before = activity(own)
    still = hanging(found, arguments.within)
    if activity(own) == own_before:
        print("cannot tell: this kernel does not count what a thread does")
        return 1
    for pid in sorted(still):
        print(f"worker process {pid} has done nothing for {arguments.within:g} s")
        if arguments.kill:
            os.kill(pid, signal.SIGKILL)
    return 1 if still else 0


if __name__ == "__main__":
    sys.exit(main())
