"""A Ray cluster of two nodes on this host: `python -m tests.support.ray_cluster FOLDER`.

It prints its address. SIGUSR1 cuts its last node off, like a host that loses power; SIGTERM ends
it.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import warnings
from pathlib import Path

CPUS = 3  # of each of the two nodes


def main() -> None:
    """Run it."""
    numbers = (signal.SIGUSR1, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # before Ray starts its threads
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.cluster_utils import Cluster
    # Ray notes the cluster there as well, and makes this folder only without a `temp_dir`.
    Path(tempfile.gettempdir(), "ray").mkdir(exist_ok=True)
    soon = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 300,
            "health_check_timeout_ms": 20_000, "health_check_failure_threshold": 2}  # fmt: skip
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": CPUS, "include_dashboard": False, "temp_dir": sys.argv[1],
            "_system_config": soon,
        },
    )  # fmt: skip
    nodes = [cluster.add_node(num_cpus=CPUS)]
    print("the cluster is at", cluster.address, flush=True)
    while signal.sigwait(numbers) == signal.SIGUSR1:
        cluster.remove_node(nodes.pop(), allow_graceful=False)
        print("cut off", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
