"""Makes the tables of the documentation again: `python -m benchmarks`; see benchmarks/README.md.

All parts take two hours. ``--only NAME``, repeated, selects some. Other options are those of the
part; without ``--only``, of ``loaders``. Loaders that are not installed are skipped, and named.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple


class Part(NamedTuple):
    """A program that makes one table: its module and arguments, and how long it takes."""

    command: str
    minutes: int


PARTS = {
    "loaders": Part("compare --work ucf --work hd --out benchmark-results/loaders", 25),
    "codecs": Part(
        "compare --work h264 --work hmdb --work set --out benchmark-results/codecs "
        "--loader limit --loader 'videoload without TensorFlow' --loader 'videoload' "
        "--loader 'DataLoader pyav' --loader 'DataLoader torchcodec'",
        12,
    ),
    "robots": Part("robots", 9),
    "gop250": Part("epochs --work gop250 --way aligned --epochs 10", 3),
    "shards": Part("shards", 4),
    "scaling": Part("scaling", 1),
    "store": Part("epochs --work many --json benchmark-results/epochs.json", 12),
    "slow-step": Part("epochs --work many --way frames --epochs 1 --loop --step-ms 20", 1),
    "exam": Part("exam", 30),
    "faults": Part("faults.__main__", 11),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns the status of the last part that failed, 130 if it was stopped."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--only", action="append", choices=PARTS)
    told, options = parser.parse_known_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no part is left behind
    status = 0
    for name in told.only or (["loaders"] if options else PARTS):
        module, *given = shlex.split(PARTS[name].command)
        print(f"## {name}: about {PARTS[name].minutes} minutes", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", f"benchmarks.{module}", *given, *options]
        with subprocess.Popen(command) as part:
            try:
                status = part.wait() or status
            except KeyboardInterrupt:
                part.terminate()
                return 130
    return status


if __name__ == "__main__":
    sys.exit(main())
