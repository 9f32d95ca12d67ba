"""Resources of a process on this host: cores, memory, and its CPU time.

A container or a job often gets less than the host has. Its cgroups limit it: those of the process
itself and all those above it, of version 1 or 2 (cgroups(7)).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

NO_THREAD = (
    "no thread can be started: too many run already, or memory is short; raise the limit of the "
    "user (ulimit -u) or of the container (pids), or start fewer workers"
)

_CGROUP = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")  # where this process is in _CGROUP
_MEMINFO = Path("/proc/meminfo")
_SCHEDSTAT_BYTES = 64  # three numbers of 64 bits


def cores(cgroup: Path = _CGROUP, own: Path = _OWN_CGROUP) -> int:
    """Cores that this process may keep busy, by its affinity and its cgroups' CPU quotas.

    It is the number of workers worth starting: 2 in a container with two CPUs of a 64-core host.
    """
    return max(1, min([len(os.sched_getaffinity(0)), *map(math.ceil, _quotas(cgroup, own))]))


def memory_left(
    cgroup: Path = _CGROUP, own: Path = _OWN_CGROUP, host: Path = _MEMINFO
) -> int | None:
    """Return bytes of memory that this process can still take, by its host and its cgroups' limits.

    Beyond that, the kernel kills it or another process of its container without a message. None:
    unknown.
    """
    return min([*_available(host), *_limits(cgroup, own)], default=None)


def runs(pid: int) -> bool:
    """Return whether a thread of a process is on a core, or waits for one."""
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):
            text = stat.read_text()
            if text[text.rindex(")") + 2] == "R":
                return True
    return False


class CoreClock:
    """How long this process's first thread ran on a core, and how long it waited for one
    (proc_schedstat). The file stays open, because opening it takes ten times as long as reading."""

    def __init__(self) -> None:
        try:
            self._file: int | None = os.open("/proc/self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = None

    def read(self) -> tuple[float, float]:
        """Return seconds of both so far. (0, 0) if unknown."""
        try:
            text = b"" if self._file is None else os.pread(self._file, _SCHEDSTAT_BYTES, 0)
            on_core, waited, _ = text.split()
        except (OSError, ValueError):
            return 0.0, 0.0
        return int(on_core) / 1e9, int(waited) / 1e9

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _quotas(cgroup: Path, own: Path) -> Iterable[float]:
    """Yield the CPU quotas that apply to this process, in cores."""
    for version, folder in _cgroups(cgroup, own, "cpu"):
        files = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        with suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = " ".join((folder / file).read_text() for file in files).split()
            if quota not in ("max", "-1"):
                yield int(quota) / int(period)


def _limits(cgroup: Path, own: Path) -> Iterable[int]:
    """Yield bytes left below each memory limit that applies to this process."""
    for version, folder in _cgroups(cgroup, own, "memory"):
        limit, used, prefix = (
            ("memory.max", "memory.current", "")
            if version == 2
            else ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
        )
        with suppress(OSError, ValueError):  # int("max") is a ValueError
            most = int((folder / limit).read_text())
            stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            # The kernel drops cached files if memory is needed. Shared memory is not among them.
            cached = sum(int(stat.get(f"{prefix}{a}active_file", 0)) for a in ("", "in"))
            yield max(0, most - int((folder / used).read_text()) + cached)


def _available(host: Path) -> Iterable[int]:
    with suppress(OSError, ValueError):
        for line in host.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield 1024 * int(line.split()[1])


def _cgroups(cgroup: Path, own: Path, controller: str) -> Iterable[tuple[int, Path]]:
    """Yield the cgroups of this process and those above them: (version, folder)."""
    with suppress(OSError, ValueError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                yield from ((2, folder) for folder in _upwards(cgroup, path))
            elif controller in controllers.split(","):
                yield from ((1, folder) for folder in _upwards(cgroup / controller, path))


def _upwards(top: Path, path: str) -> Iterable[Path]:
    # A container may see the host's path, which does not exist inside it. Then only the top counts.
    folder = top / path.lstrip("/")
    return (found for found in (folder, *folder.parents) if found.is_relative_to(top))
