"""The I/O loop's own rules, without sockets: the rest of it is tried with real workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import zmq

from videoload.engine.engine import Engine
from videoload.transport.messages import Bye, FromTrainer, FromWorker, Heartbeat


@pytest.fixture
def engine() -> Iterator[Engine]:
    """One that never runs."""
    made = Engine(
        workers=0,
        listen=(),
        keys=None,
        insecure=False,
        any_software=False,
        stall_s=10.0,
        cache=None,
    )
    yield made
    made._close(zmq.Context())


class Crowd:
    """An address where ever more messages wait, and the peer that they come from."""

    endpoint = "tcp://127.0.0.1:1"

    def __init__(self) -> None:
        self.taken = 0
        self.answers: list[FromTrainer] = []

    @property
    def router(self) -> Crowd:
        return self

    def receive(self) -> tuple[Crowd, FromWorker]:
        self.taken += 1
        return self, Heartbeat()

    def skip(self) -> None:
        """There are no pixels."""

    def send(self, message: FromTrainer) -> bool:
        self.answers.append(message)
        return True


def test_one_turn_takes_no_more_than_so_many_messages_whatever_is_there(engine: Engine) -> None:
    # Before the clock is looked at and the other addresses have their turn.
    crowd = Crowd()
    for handle in engine._messages(crowd):  # type: ignore[arg-type]
        handle()
    assert crowd.taken == 64
    assert crowd.answers == [Bye("this trainer does not know you")] * 64


def test_an_engine_that_is_stopping_takes_none(engine: Engine) -> None:
    crowd = Crowd()
    engine.stop()
    for handle in engine._messages(crowd):  # type: ignore[arg-type]
        handle()
    assert crowd.taken == 0
