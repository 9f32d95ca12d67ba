"""The other side, played by the test: bare sockets that send what no worker and no trainer would
send."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest
import zmq

from tests.support.programs import Programs
from tests.support.waiting import SECOND
from videoload.decoding.software import software_and_code
from videoload.errors import ProtocolError
from videoload.wire.messages import (
    FromTrainer,
    FromWorker,
    Heartbeat,
    Hello,
    Welcome,
    pack,
    unpack_from_trainer,
)
from videoload.wire.sockets import Peer, Router

# At a trainer's port


@contextmanager
def dealer(endpoint: str, linger_ms: int = 1000, name: bytes = b"") -> Iterator[zmq.Socket[bytes]]:
    """A raw socket, connected to a trainer. It announces its ``name``, if it has one."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    made = context.socket(zmq.DEALER)
    made.setsockopt(zmq.LINGER, linger_ms)
    made.setsockopt(zmq.SNDTIMEO, int(10_000 * SECOND))
    if name:
        made.setsockopt(zmq.ROUTING_ID, name)
    made.connect(endpoint)
    try:
        yield made
    finally:
        made.close()
        context.term()


def answer(made: zmq.Socket[bytes], timeout_s: float = 30 * SECOND) -> FromTrainer:
    """The trainer's next message, ignoring its heartbeats."""
    deadline = time.monotonic() + timeout_s
    while made.poll(max(0, int(1000 * (deadline - time.monotonic())))):
        message = unpack_from_trainer(made.recv_multipart())
        if not isinstance(message, Heartbeat):
            return message
    pytest.fail(f"no answer within {timeout_s:g} s")


def say(made: zmq.Socket[bytes], message: FromWorker, *pixels: bytes) -> None:
    """Send a message to the trainer."""
    made.send_multipart([*pack(message), *pixels])


def hello(pid: int = 1, token: str = "") -> Hello:
    """How a worker introduces itself."""
    return Hello("0", "elsewhere", pid, software_and_code(), token)


# At a worker


class Trainer:
    """A raw trainer, played by the test, with one worker."""

    def __init__(self, programs: Programs, root: Path, beat_s: float = 0.25) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._router = Router(self._context, "tcp://127.0.0.1:*")
        self.beat_s = beat_s
        self.worker = programs.worker(self._router.endpoint, root)
        self.peer = b""

    def __enter__(self) -> Self:
        self.welcome(30 * SECOND)
        return self

    def __exit__(self, *error: object) -> None:
        self._router.close()
        self._context.term()

    def welcome(self, timeout_s: float) -> None:
        """Wait for a HELLO, and answer it."""
        while not isinstance(self.hear(timeout_s), Hello):
            pass
        self.say(Welcome(self.beat_s))

    def hear(self, timeout_s: float = 30 * SECOND) -> FromWorker:
        """The worker's next message; the pixels of a RESULT are in ``pixels``."""
        if not self._router.socket.poll(int(1000 * timeout_s)):
            pytest.fail(f"not a word within {timeout_s:g} s: {self.worker.err}")
        got = self._router.receive()
        assert got is not None
        (_, self.peer), message = got
        assert not isinstance(message, ProtocolError), message
        self.pixels = self._router.socket.recv() if self._router.more else b""
        return message

    def answer(self, timeout_s: float = 30 * SECOND) -> FromWorker:
        """The worker's next message, ignoring its heartbeats."""
        deadline = time.monotonic() + timeout_s
        while isinstance(message := self.hear(timeout_s), Heartbeat):
            assert time.monotonic() < deadline
        return message

    def say(self, message: FromTrainer) -> None:
        """Send a message to the worker."""
        assert Peer(self._router, self.peer).send(message)
