"""The worker container's entry: environment -> `videoload worker`, which then takes this process's
place, so that signals reach it.

    VIDEOLOAD_CONNECT    tcp://HOST:PORT of the trainer; several, with commas between them
    VIDEOLOAD_ROOT       the folder of the videos
    VIDEOLOAD_PROCESSES  worker processes; by default one for each core this container may use
    VIDEOLOAD_KEYS       folder of the worker's CURVE keys

Arguments are passed on: `python -m services.worker --insecure`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from videoload.native import cores


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


if __name__ == "__main__":
    replacement = command(os.environ, sys.argv[1:])
    os.execv(replacement[0], replacement)
