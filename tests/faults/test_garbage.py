"""Whatever comes in from the network: it disturbs no stream, and nobody gets in."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import zmq

from tests.conftest import SECOND, Programs, digests, wait_until
from tests.videos import Videos, make_avi
from videoload import Client, ClipSpec, ProtocolError, decode_serially
from videoload.transport import Dealer, Peer, Router
from videoload.wire import (
    VERSION,
    Bye,
    Clip,
    Failed,
    FromTrainer,
    FromWorker,
    Heartbeat,
    Hello,
    Lease,
    Place,
    Refused,
    Result,
    Welcome,
    pack,
    unpack_from_trainer,
)

pytestmark = pytest.mark.timeout(40 * SECOND)

CLIP = ClipSpec(
    frames=6, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=6
)
BATCH = 4
EPOCHS = 3


@pytest.fixture(scope="module")
def serial(videos: Videos) -> list[str]:
    return digests(
        decode_serially(videos.catalog, CLIP, BATCH, shuffle=True, epochs=EPOCHS, info=True)
    )


def read(client: Client, videos: Videos) -> list[str]:
    stream = client.stream(videos.catalog, CLIP, BATCH, shuffle=True)
    return digests(stream.batches(epochs=EPOCHS, info=True))


@contextmanager
def dealer(endpoint: str) -> Iterator[zmq.Socket[bytes]]:
    """A raw socket, connected to a trainer."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    made = context.socket(zmq.DEALER)
    made.setsockopt(zmq.LINGER, 0)
    made.connect(endpoint)
    try:
        yield made
    finally:
        made.close()
        context.term()


def answer(made: zmq.Socket[bytes], timeout_s: float = 5 * SECOND) -> FromTrainer:
    """What the trainer says next, its heartbeats apart."""
    deadline = time.monotonic() + timeout_s
    while made.poll(max(0, int(1000 * (deadline - time.monotonic())))):
        message = unpack_from_trainer(made.recv_multipart())
        if not isinstance(message, Heartbeat):
            return message
    pytest.fail(f"no answer within {timeout_s:g} s")


def say(made: zmq.Socket[bytes], message: FromWorker, *pixels: bytes) -> None:
    made.send_multipart([*pack(message), *pixels])


def hello(pid: int = 1, token: str = "") -> Hello:
    return Hello("0", "elsewhere", pid, "software", token)


@contextmanager
def in_background(job: Callable[[threading.Event], None]) -> Iterator[None]:
    """``job`` runs in a thread until the block is left."""
    over = threading.Event()
    thread = threading.Thread(target=job, args=(over,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# At the trainer's port


def test_bytes_that_are_not_zeromq_disturb_nothing(
    videos: Videos, serial: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    draw = random.Random(1)
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL".ljust(55, b"\0")
    sent = 0
    with Client(workers=2, listen="tcp://127.0.0.1:*") as client:
        port = int(client.endpoints[0].rpartition(":")[2])

        def shout(over: threading.Event) -> None:
            nonlocal sent
            held = []
            while not over.is_set() or sent < 50:
                body = draw.choice((
                    b"GET / HTTP/1.1\r\n\r\n", draw.randbytes(draw.randrange(1, 2000)),
                    greeting[: draw.randrange(64)], greeting + draw.randbytes(200), b"",
                ))  # fmt: skip
                with suppress(ConnectionError):
                    caller = socket.create_connection(("127.0.0.1", port))
                    caller.sendall(body)
                    held.append(caller)  # some hang up, some hold the line
                if len(held) > 20:
                    held.pop(draw.randrange(20)).close()
                sent += 1
            for caller in held:
                caller.close()

        with in_background(shout):
            assert read(client, videos) == serial
        assert len(client._engine.worker_stats()) == 2
    assert sent >= 50
    assert not caplog.records


def test_messages_that_are_not_of_this_protocol_disturb_nothing(
    videos: Videos, serial: list[str]
) -> None:
    draw = random.Random(2)
    valid = [hello(), Result(1, [[0]]), Failed(1, 0, "no"), Heartbeat(3), Bye("gone")]
    sent = 0

    def garbage() -> list[bytes]:
        match draw.randrange(6):
            case 0:
                return [draw.randbytes(draw.randrange(1000)) for _ in range(draw.randint(1, 5))]
            case 1:
                return [VERSION, draw.randbytes(draw.randrange(100))]
            case 2:
                return [VERSION, msgspec.msgpack.encode({"type": draw.choice(("hello", "no", 7))})]
            case 3:
                return [b"videoload/999", pack(draw.choice(valid))[1]]
            case 4:
                return [*pack(draw.choice(valid)), *([b"more"] * draw.randrange(4))]
            case _:
                body = bytearray(pack(draw.choice(valid))[1])
                body[draw.randrange(len(body))] = draw.randrange(256)
                return [VERSION, bytes(body)]

    with Client(workers=2, listen="tcp://127.0.0.1:*") as client:

        def shout(over: threading.Event) -> None:
            nonlocal sent
            while not over.is_set() or sent < 200:
                with dealer(client.endpoints[0]) as made:
                    for _ in range(draw.randint(1, 10)):
                        made.send_multipart(garbage())
                        sent += 1
                    answer(made)  # the trainer lives and answers

        with in_background(shout):
            assert read(client, videos) == serial
        assert read(client, videos) == serial
        wait_until(lambda: len(client._engine.worker_stats()) == 2, 5 * SECOND)
    assert sent >= 200


def test_a_worker_of_another_version_is_told_why(caplog: pytest.LogCaptureFixture) -> None:
    with (
        Client(workers=0, listen="tcp://127.0.0.1:*") as client,
        dealer(client.endpoints[0]) as made,
    ):
        made.send_multipart([b"videoload/0", pack(hello())[1]])
        why = "the other side speaks b'videoload/0', this one speaks b'videoload/1'"
        assert answer(made) == Refused(why)
        assert not client._engine.worker_stats()
        assert caplog.messages == [f"refused a message at {client.endpoints[0]}: {why}"]


def test_who_has_not_said_hello_is_told_so(videos: Videos, serial: list[str]) -> None:
    with (
        Client(workers=1, listen="tcp://127.0.0.1:*") as client,
        dealer(client.endpoints[0]) as made,
    ):
        for message in (Result(1, [[0] * 6]), Failed(1, 0, "all are bad"), Heartbeat(1)):
            say(made, message)
            assert answer(made) == Bye("this trainer does not know you")
        assert read(client, videos) == serial


def test_a_worker_that_answers_what_it_was_not_asked_changes_nothing(
    videos: Videos, serial: list[str]
) -> None:
    with (
        Client(workers=1, listen="tcp://127.0.0.1:*") as client,
        dealer(client.endpoints[0]) as made,
    ):
        say(made, hello())
        assert isinstance(answer(made), Welcome)

        def lie(over: threading.Event) -> None:
            for lease in range(1, 10**6):
                if over.wait(0.001):
                    return
                if isinstance(asked := _unpack_if_any(made), Lease):
                    say(made, Failed(asked.lease + 1000, 0, "not mine"))
                    say(made, Result(asked.lease + 1000, [[0] * 6]), bytes(6 * 32 * 32 * 3))
                say(made, Result(10**6 + lease, [[0] * 6] * 4), bytes(10))

        with in_background(lie):
            assert read(client, videos) == serial


def _unpack_if_any(made: zmq.Socket[bytes]) -> FromTrainer | None:
    with suppress(zmq.Again):
        return unpack_from_trainer(made.recv_multipart(zmq.DONTWAIT))
    return None


@pytest.mark.parametrize("how", ["too few bytes", "too many bytes", "no pixels", "other frames"])
def test_an_answer_of_the_wrong_size_is_refused_and_the_lease_goes_to_another(
    how: str, videos: Videos, serial: list[str]
) -> None:
    with (
        Client(workers=0, listen="tcp://127.0.0.1:*") as client,
        dealer(client.endpoints[0]) as made,
    ):
        stream = client.stream(videos.catalog, CLIP, BATCH, shuffle=True)
        batches = stream.batches(epochs=EPOCHS, info=True)
        say(made, hello())
        assert isinstance(answer(made), Welcome)
        got: list[str] = []
        reader = threading.Thread(target=lambda: got.extend(digests(batches)))
        reader.start()
        try:
            lease = answer(made)
            assert isinstance(lease, Lease)
            rows = len(lease.clips)
            right = CLIP.clip_bytes * rows
            frames = [[0] * CLIP.frames] * rows
            match how:
                case "too few bytes":
                    say(made, Result(lease.lease, frames), bytes(right - 1))
                case "too many bytes":
                    say(made, Result(lease.lease, frames), bytes(right + 1))
                case "no pixels":
                    say(made, Result(lease.lease, frames))
                case "other frames":
                    say(made, Result(lease.lease, frames[:-1] + [[0]]), bytes(right))
            while isinstance(said := answer(made), Lease):  # the second one that it was given
                pass
            assert isinstance(said, Refused)
            assert re.search("bytes of pixels came|the lease has", said.reason)
            good = Programs_worker(client, videos)
        finally:
            stop(reader, client)
        del good
    assert got == serial


def test_a_worker_that_takes_leases_and_never_answers_is_passed_over(
    videos: Videos, serial: list[str]
) -> None:
    with (
        Client(workers=1, listen="tcp://127.0.0.1:*") as client,
        dealer(client.endpoints[0]) as made,
    ):
        say(made, hello())
        assert isinstance(answer(made), Welcome)
        assert read(client, videos) == serial
        assert isinstance(answer(made), Lease), "it was given work"
