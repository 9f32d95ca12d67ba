"""What a test must not leave behind: processes (children and their children), threads, descriptors,
shared memory, sockets.

Descendants are found by an environment variable that they inherit, so descendants whose parent died
are found as well. Each process that runs tests has its own mark.
"""

import gc
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.support.processes import arena_maps, descriptors

_MARK = "VIDEOLOAD_TEST_RUN"
_spared: set[int | str] = set()  # processes; where descriptors lead
_LISTENS = 0x10000  # __SO_ACCEPTCON
_others: dict[int, bytes] = {}  # processes that this one did not start, and when they began


def mark_descendants() -> None:
    """Everything started from now on carries the mark of this process."""
    os.environ[_MARK] = f"{os.getpid()}-{time.time_ns()}"


def spare(pid: int, descriptor: int) -> None:
    """A process that serves several tests, and everything that leads to it, is not a leak of one
    test."""
    _spared.update((pid, str(Path(f"/proc/self/fd/{descriptor}").readlink())))


def collect_garbage() -> None:
    """Free everything that nobody refers to."""
    if "tensorflow" in sys.modules:  # it queues the release of arrays (see frameworks/tfdata.py)
        sys.modules["tensorflow"].constant(0)
    gc.collect()


def kill_descendants() -> None:
    """Kill all processes that carry the mark, and this process's own children."""
    for pid in _marked():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


class Held:
    """Everything that this process and its descendants hold now, each thing under a name of its
    own."""

    def __init__(self) -> None:
        held, sockets = descriptors(), _private_sockets()
        # Under load, a worker of a client that several tests share may dial again at any time. Then
        # its connection is there once, twice or not at all.
        self._descriptors = {
            number: target
            for number, target in held.items()
            if target not in _spared and sockets.get(target, ("", True))[1]
        }
        self._things = {f"process {pid}: {_command(pid)}" for pid in _marked()}
        self._things |= {f"mapping {line}" for line in arena_maps()}
        self._things |= {
            f"thread {thread.name}"
            for thread in threading.enumerate()
            if thread.name.startswith("videoload")
        }
        for task in os.listdir("/proc/self/task"):
            with suppress(OSError):
                if Path("/proc/self/task", task, "comm").read_text().startswith("ZMQ"):
                    self._things.add(f"thread {task} of ZeroMQ")
        self._things |= {
            f"Unix socket {sockets[each][0]}" for each in held.values() if each in sockets
        }

    def beyond(self, before: Self) -> list[str]:
        """Everything that is here now and was not there before."""
        left = self._things - before._things
        if len(self._descriptors) > len(before._descriptors):
            new = self._descriptors.items() - before._descriptors.items()
            left |= {f"descriptor {number}: {target} {_socket(target)}" for number, target in new}
        return sorted(left)


def private_sockets(held: dict[str, str]) -> set[str]:
    """The abstract Unix sockets of a trainer for its own workers, among the descriptors ``held``.
    Anybody on this host can read their names."""
    return {name for where, (name, _) in _private_sockets().items() if where in held.values()}


def _private_sockets() -> dict[str, tuple[str, bool]]:
    """The abstract Unix sockets of trainers on this host, by where a descriptor leads: the name,
    and whether it listens. The others are the trainers' ends of connections."""
    found = {}
    for line in Path("/proc/net/unix").read_text().splitlines():
        if "@videoload" in line:
            fields = line.split()
            found[f"socket:[{fields[6]}]"] = fields[-1], bool(int(fields[3], 16) & _LISTENS)
    return found


def _socket(target: str) -> str:
    """What the kernel tells of a socket: its addresses and state, or its name."""
    inode = target.removeprefix("socket:[").removesuffix("]")
    for kind in ("tcp", "tcp6", "udp", "unix"):
        for line in Path("/proc/net", kind).read_text().splitlines():
            if inode in line.split():
                return f"({kind} {line.strip()})"
    return ""


def _marked() -> list[int]:
    """The processes that come from this one, including its own zombies."""
    found = []
    mark = f"{_MARK}={os.environ[_MARK]}".encode()
    me = os.getpid()
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        if pid == me or pid in _spared:
            continue
        with suppress(OSError):
            fields = _read(pid, "stat").rpartition(b")")[2].split()
            parent, began = int(fields[1]), fields[19]
            if parent == me:
                found.append(pid)
            elif _others.get(pid) != began:
                if mark in _read(pid, "environ").split(b"\0"):
                    found.append(pid)
                else:
                    _others[pid] = began
    return found


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123 - a quarter of the time
        return file.read()


def _command(pid: int) -> str:
    with suppress(OSError):
        return (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode(errors="replace")
            .strip()
        )
    return "gone"
