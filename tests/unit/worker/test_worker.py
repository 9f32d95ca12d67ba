"""A worker without work waits."""

from __future__ import annotations

import time

import pytest

from videoload.transport.private_messages import WorkerSettings
from videoload.worker.worker import Stopped, Worker


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
