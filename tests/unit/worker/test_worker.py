"""A worker without work waits."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from tests.support.waiting import SECOND, wait_until
from videoload import Client
from videoload.wire.private_messages import WorkerSettings
from videoload.worker import trainers
from videoload.worker.worker import Worker


@contextmanager
def at_work(*addresses: str) -> Iterator[Worker]:
    """A worker that dials a name with these addresses."""
    settings = WorkerSettings(["tcp://trainer:5555"], insecure=True)
    worker = Worker(settings, resolve=lambda name: list(addresses))
    running = Thread(target=worker.run, daemon=True)
    running.start()
    try:
        yield worker
    finally:
        worker.stop("SIGTERM")
        running.join(30 * SECOND)
    assert not running.is_alive()


def test_a_name_with_addresses_of_both_families_is_dialled_by_the_one_that_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And a trainer at both is one."""
    monkeypatch.setattr(trainers, "FAMILY_S", 0.3)
    with Client(workers=0, listen="tcp://0.0.0.0:*", insecure=True) as client:
        port = client.endpoints[0].rpartition(":")[2]
        for four in ("tcp://127.0.0.1:1", f"tcp://127.0.0.1:{port}"):
            with at_work(four, f"tcp://[::1]:{port}"):
                wait_until(lambda: client.workers, 30 * SECOND)
                assert len(client.workers) == 1
            wait_until(lambda: not client.workers, 30 * SECOND)


def test_a_worker_takes_a_turn_now_and_then_while_its_trainers_name_has_no_address() -> None:
    began = time.monotonic()
    with at_work() as worker:
        wait_until(lambda: worker.counters.turns > 2, 30 * SECOND)
        assert time.monotonic() - began > 0.3, "each waits for 200 ms"
