"""A worker without work waits."""

from __future__ import annotations

import time

import pytest

from tests.support.waiting import SECOND, wait_until
from videoload import Client
from videoload.transport.private_messages import WorkerSettings
from videoload.worker.worker import Stopped, Worker


@pytest.mark.timeout(60 * SECOND)
def test_a_name_with_addresses_of_both_families_is_dialled_by_the_one_that_answers() -> None:
    """And a trainer at both is one."""
    with Client(workers=0, listen="tcp://0.0.0.0:*", insecure=True) as client:
        port = client.endpoints[0].rpartition(":")[2]
        for here in ("tcp://[::1]", "tcp://127.0.0.1"):
            there = ["tcp://127.0.0.1:1", f"tcp://[::1]:{port}"]
            addresses = there if "[" in here else [f"tcp://127.0.0.1:{port}", there[1]]
            worker = Worker(
                WorkerSettings(["tcp://trainer:5555"], insecure=True),
                resolve=lambda name: addresses,  # noqa: B023
            )
            while not client.workers:
                worker._turn()
            assert len(client.workers) == 1
            worker.stop("SIGTERM")
            worker.run()
            wait_until(lambda: not client.workers, 10 * SECOND)


def test_a_worker_takes_a_turn_now_and_then_while_its_trainers_name_has_no_address() -> None:
    worker = Worker(WorkerSettings(["tcp://trainer:5555"], insecure=True), resolve=lambda name: [])
    began = time.monotonic()
    for _ in range(2):
        worker._turn()
    assert time.monotonic() - began > 0.3, "each waits for 200 ms"
    worker.stop("SIGTERM")
    with pytest.raises(Stopped):
        worker._turn()
    worker.run()
