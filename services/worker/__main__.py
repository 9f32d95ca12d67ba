"""The worker container's entry: environment -> `videoload worker`, which then takes this process's
place, so that signals reach it.

    VIDEOLOAD_CONNECT    tcp://HOST:PORT of the trainer; several, with commas between them
    VIDEOLOAD_ROOT       the folder of the videos
    VIDEOLOAD_PROCESSES  worker processes; by default one for each core this container may use
    VIDEOLOAD_KEYS       folder of the worker's CURVE keys

Arguments are passed on: `python -m services.worker --insecure`.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_CPU_MAX = Path("/sys/fs/cgroup/cpu.max")  # "QUOTA PERIOD" in microseconds, or "max PERIOD"


def command(environ: Mapping[str, str], arguments: Sequence[str] = ()) -> list[str]:
    """The `videoload worker` command that ``environ`` asks for."""
    flags = []
    for address in environ.get("VIDEOLOAD_CONNECT", "").replace(",", " ").split():
        flags += ["--connect", address]
    for flag in ("root", "keys"):
        if value := environ.get(f"VIDEOLOAD_{flag.upper()}"):
            flags += [f"--{flag}", value]
    flags += ["--processes", environ.get("VIDEOLOAD_PROCESSES") or str(cores())]
    return [sys.executable, "-m", "videoload", "worker", *flags, *arguments]


def cores(cpu_max: Path = _CPU_MAX) -> int:
    """CPU cores that this process may keep busy: its affinity, and its cgroup's quota."""
    allowed = len(os.sched_getaffinity(0))
    try:
        quota, period = cpu_max.read_text().split()
    except OSError:  # no cgroup v2, or its root
        return allowed
    return allowed if quota == "max" else min(allowed, math.ceil(int(quota) / int(period)))


if __name__ == "__main__":
    replacement = command(os.environ, sys.argv[1:])
    os.execv(replacement[0], replacement)
