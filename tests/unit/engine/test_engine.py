"""The I/O loop's own rules, without sockets. Integration tests try the rest with real workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import zmq

from videoload.engine.engine import Engine
from videoload.storage.keep import NO_FOLDERS
from videoload.transport.messages import Bye, FromTrainer, FromWorker, Heartbeat


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An engine that never runs."""
    made = Engine(
        workers=0,
        listen=(),
        keys=None,
        insecure=False,
        any_software=False,
        stall_s=10.0,
        folders=NO_FOLDERS,
    )
    yield made
    made._close(zmq.Context())


class Crowd:
    """An address where more and more messages wait, and the peer that sends them."""

    endpoint = "tcp://127.0.0.1:1"
    socket = "a socket that is ready"
    events = None

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

    def inspect(self, now: float) -> tuple[list[str], float]:
        return [], now + 1

    def sending(self) -> list[object]:
        return []

    def send(self, message: FromTrainer) -> bool:
        self.answers.append(message)
        return True

    def close(self, linger_ms: int) -> None:
        """There is nothing to close."""


@pytest.fixture
def crowd(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Crowd:
    made = Crowd()
    engine._listener.routers.append(made)  # type: ignore[arg-type]
    monkeypatch.setattr(engine._listener, "poll", lambda channels, until: [made.socket])
    return made


def take_a_turn(engine: Engine) -> None:
    for handle in engine._receive():
        handle()
        engine._send()


def test_one_turn_takes_a_bounded_number_of_messages(engine: Engine, crowd: Crowd) -> None:
    # Otherwise the clock and the other addresses would not have their turn.
    take_a_turn(engine)
    assert crowd.taken == 64
    assert crowd.answers == [Bye("this trainer does not know you")] * 64


def test_an_engine_that_is_stopping_takes_no_messages(engine: Engine, crowd: Crowd) -> None:
    engine.stop()
    take_a_turn(engine)
    assert crowd.taken == 0


def test_a_call_that_another_call_posts_waits_for_the_next_turn(
    engine: Engine, crowd: Crowd
) -> None:
    made: list[int] = []

    def again() -> None:
        made.append(crowd.taken)
        engine.post(again)

    engine.post(again)
    for _ in range(3):
        take_a_turn(engine)
    assert made == [0, 64, 128], "the messages have their turn between two calls"
