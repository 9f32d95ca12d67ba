"""What the kernel says about processes."""

import gc
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from tests.support.waiting import SECOND, wait_until


def children_of(pid: int) -> list[int]:
    """The live child processes of ``pid``."""
    return sorted(child for child, parent in _processes() if parent == pid)


def is_alive(pid: int) -> bool:
    """Whether ``pid`` runs (a zombie does not)."""
    return any(pid == other for other, _ in _processes())


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for the signal."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def descriptors(pid: int | str = "self") -> dict[str, str]:
    """The open descriptors of a process, and where they lead."""
    found = {}
    with suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):  # the descriptor of this listing itself
                found[number] = str(Path(f"/proc/{pid}/fd", number).readlink())
    return found


def maps_of(pid: int | str = "self") -> list[str]:
    """The memory mappings of a process, one line each."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    return []


def arena_maps(pid: int | str = "self") -> list[str]:
    """The arenas that a process has mapped."""
    return [line for line in maps_of(pid) if "memfd:videoload" in line]


def arena_bytes() -> int:
    """How much memory the arenas of this process take."""
    ends = (line.split(maxsplit=1)[0].split("-") for line in arena_maps())
    return sum(int(end, 16) - int(begin, 16) for begin, end in ends)


def resident_mb() -> float:
    """Memory of this process, after collecting garbage."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def _processes() -> Iterator[tuple[int, int]]:
    """(pid, parent) of all processes that are not zombies."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError):
                text = Path("/proc", name, "stat").read_text(errors="replace")
                state, parent = text[text.rindex(")") + 2 :].split()[:2]
                if state not in "ZX":
                    yield int(name), int(parent)


def ends_well(works: Callable[[], object]) -> bool:
    """Whether ``works()`` is not False in a forked copy of this process, which ends within 20 s."""
    if not (pid := os.fork()):
        right = False
        try:
            right = works() is not False
        finally:
            os._exit(not right)
    ended: list[int] = []

    def has_ended() -> bool:
        found, status = os.waitpid(pid, os.WNOHANG)
        ended.extend([status] * bool(found))
        return bool(found)

    try:
        wait_until(has_ended, 30 * SECOND, "the forked process ends")
    finally:
        if not ended:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return ended == [0]
