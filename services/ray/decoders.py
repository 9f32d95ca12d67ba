"""Decoders on the nodes of a Ray cluster:

    python decoders.py 16 --connect tcp://TRAINER:5555 --root /data/ucf101 --keys /data/keys/worker

The number counts decoders; other arguments go to ``videoload worker``. Each decoder is a Ray task
with one CPU. Ray spreads them over its nodes, restarts them when a node is lost, and requests nodes
from its autoscaler if it has one. They end with this program, however it ends. It uses the cluster
at ``$RAY_ADDRESS``, otherwise the one of this host.

A script that is connected to a cluster, as in Ray Train, imports `start` and `stop` instead.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import ray

_LOOK_S = 0.2  # a task that blocks in the kernel would not see its cancellation
_LEAVE_S = 5.0  # for a decoder to return its leases
_COMMAND = """
import sys
from videoload.__main__ import main
from videoload.native import die_with_parent

die_with_parent()
sys.argv[0] = "videoload"
main()
"""


def start(decoders: int, arguments: Sequence[str], **options: Any) -> list[Any]:
    """Start decoders on the cluster that this process is connected to.

    Args:
        decoders: Their number.
        arguments: Arguments of ``videoload worker``.
        options: Options of ``ray.remote``, as in ``resources={"decoder": 1}`` or ``num_cpus=2``.

    Returns:
        The Ray tasks, for `stop`. The result of a task is the exit status of its decoder.
    """
    # Spread, because the trainer's own placement group has no free CPUs.
    usual = {"num_cpus": 1, "max_retries": -1, "scheduling_strategy": "SPREAD"}
    task = ray.remote(_decode).options(**{**usual, **options})
    return [task.remote(list(arguments)) for _ in range(decoders)]


def stop(decoders: Sequence[Any]) -> None:
    """Stop decoders. They return their leases."""
    for each in decoders:
        ray.cancel(each)
    if decoders:
        ray.wait(list(decoders), num_returns=len(decoders), timeout=_LEAVE_S)


def _decode(arguments: Sequence[str]) -> int:
    command = [sys.executable, "-c", _COMMAND, "worker", "--workers", "1", *arguments]
    process = subprocess.Popen(command)
    try:
        while process.poll() is None:
            time.sleep(_LOOK_S)
        return process.returncode
    finally:
        process.terminate()
        try:
            process.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            process.kill()


def main() -> int:
    """Run the command. Return 0 after SIGTERM, 130 after Ctrl-C, 1 if all decoders gave up."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("decoders", type=int, help="number of decoders")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of videoload worker")
    options = parser.parse_args()
    ray.init("auto")
    stopped_by: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):  # not earlier: Ray sets its own
        signal.signal(number, lambda number, _: stopped_by.append(number))
    left = start(options.decoders, options.arguments)
    while left and not stopped_by:
        ended, left = ray.wait(left, timeout=_LOOK_S)
        for each in ended:
            print(f"a decoder gave up with exit status {ray.get(each)}; see its output")
    stop(left)
    if not stopped_by:
        return 1
    return 130 if stopped_by[0] == signal.SIGINT else 0


if __name__ == "__main__":
    sys.exit(main())
