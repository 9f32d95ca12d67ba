"""Processor time and memory of this process and all its descendants, from /proc.

Every measured process imports this module, so it must stay light.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_LEAST_S = 2.0  # for warm-up and clock, also where a run is late
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Span(NamedTuple):
    """When a run should be over, by the clock that processes share (`time.monotonic`). Half of what
    is left after its start is for the warm-up."""

    until: float

    def warm_until(self) -> float:
        """When the warm-up that begins now ends at the latest."""
        now = time.monotonic()
        return now + max(_LEAST_S, self.until - now) / 2

    def clock_until(self) -> float:
        """When the clock that starts now stops."""
        return max(self.until, time.monotonic() + _LEAST_S / 2)


class Timing(NamedTuple):
    """One timed run. ``memory``: resident bytes of all processes, shared pages counted once."""

    clips_s: float
    first_batch_s: float
    cpu_s_a_clip: float
    memory: int


def cpu_s() -> float:
    """Processor seconds so far, those of ended children included."""
    return sum(map(sum, (ticks for _, ticks in _tree().values()))) * _TICK_S


def bytes_read() -> int:
    """Bytes that calls to read files have returned so far, those of ended children included."""
    total = 0
    for pid in _tree():
        with suppress(OSError):
            total += int(Path(f"/proc/{pid}/io").read_text().split()[1])
    return total


def resident_bytes() -> int:
    """Resident memory; a page that n processes share counts 1/n for each."""
    total = 0
    for pid in _tree():
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total * 1024


def _tree() -> dict[int, tuple[int, list[int]]]:
    """pid -> (parent, ticks: user, system, and both of its ended children)."""
    every: dict[int, tuple[int, list[int]]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                every[int(entry.name)] = int(fields[1]), [int(ticks) for ticks in fields[11:15]]
    tree = {os.getpid(): every[os.getpid()]}
    while more := {pid: told for pid, told in every.items() if told[0] in tree and pid not in tree}:
        tree |= more
    return tree
