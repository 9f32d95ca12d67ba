"""A Ray cluster on this host, of two nodes that run tasks: `python -m tests.support.ray_cluster
FOLDER`.

It prints its address. SIGUSR1 cuts one of these nodes off, like a host that loses power, and adds
another one; SIGTERM ends the cluster.
"""

import os
import signal
import sys
import warnings
from pathlib import Path

CPUS = 3  # of each node


def main() -> None:
    """Run it."""
    numbers = (signal.SIGUSR1, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # before Ray starts its threads
    # Ray notes there which cluster is this host's: another one that runs here stays that.
    os.environ["RAY_TMPDIR"] = sys.argv[1]
    Path(sys.argv[1], "ray").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.cluster_utils import Cluster
    soon = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 300,
            "health_check_timeout_ms": 20_000, "health_check_failure_threshold": 2}  # fmt: skip
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, "_system_config": soon},
    )
    nodes = [cluster.add_node(num_cpus=CPUS) for _ in range(2)]
    print("the cluster is at", cluster.address, flush=True)
    while signal.sigwait(numbers) == signal.SIGUSR1:
        cluster.remove_node(nodes.pop(), allow_graceful=False)
        print("cut off", flush=True)
        nodes.append(cluster.add_node(num_cpus=CPUS))
    cluster.shutdown()


if __name__ == "__main__":
    main()
