"""Floods at the trainer's port: they change no byte, cost little time, and leave nothing behind."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.support.digests import digests
from tests.support.processes import descriptors, resident_mb
from tests.support.programs import Programs
from tests.support.thorough import either
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec, decode_serially

pytestmark = pytest.mark.timeout(180 * SECOND)

CLIP = ClipSpec(frames=6, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=6)
BATCH = 4
CONNECTIONS = either(1500, 10_000)


@pytest.fixture(scope="module")
def serial(videos: Videos) -> list[str]:
    return digests(decode_serially(videos.catalog, CLIP, BATCH, shuffle=True, info=True))


@contextmanager
def reading(client: Client, videos: Videos, serial: list[str]) -> Iterator[Callable[[], int]]:
    """A thread that reads epochs until the block is left, and checks that each equals the serial
    one. Yields a function that returns how many it has read."""
    over = threading.Event()
    epochs: list[bool] = []
    stream = client.stream(videos.catalog, CLIP, BATCH, shuffle=True)

    def read() -> None:
        while not over.is_set():
            epochs.append(digests(stream.batches(epochs=1, info=True)) == serial)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield lambda: len(epochs)
    finally:
        over.set()
        thread.join()
    assert epochs
    assert all(epochs)


@pytest.mark.slow
def test_any_number_of_connections_leaves_nothing_behind_and_silent_ones_are_closed(
    videos: Videos, serial: list[str], tell: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoload.transport.sockets._HANDSHAKE_MS", 500)
    draw = random.Random(1)
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL".ljust(55, b"\0")
    bodies = [
        b"GET / HTTP/1.1\r\n\r\n", b"", draw.randbytes(300), greeting[:10],
        greeting, greeting + draw.randbytes(200),
    ]  # fmt: skip
    with Client(workers=1, listen="tcp://127.0.0.1:*") as client:
        client.wait_for_workers(1, timeout_s=30 * SECOND)
        address = ("127.0.0.1", int(client.endpoints[0].rpartition(":")[2]))
        with reading(client, videos, serial) as epochs:
            wait_until(epochs, 30 * SECOND)
            before_fds, before_mb, before_epochs = len(descriptors()), resident_mb(), epochs()
            began = time.monotonic()
            silent = [socket.create_connection(address, timeout=60 * SECOND) for _ in range(100)]
            held: list[socket.socket] = []
            number = 0
            while number < CONNECTIONS or epochs() == before_epochs:  # the stream continues
                number += 1
                with suppress(ConnectionError):
                    caller = socket.create_connection(address, timeout=60 * SECOND)
                    held.append(caller)
                    caller.sendall(bodies[number % len(bodies)])
                if len(held) > 50:
                    held.pop(draw.randrange(50)).close()
            took_s = time.monotonic() - began
            for caller in held:
                caller.close()
            for caller in silent:
                with suppress(ConnectionResetError):
                    while caller.recv(1000):  # its greeting, then the end
                        pass
                caller.close()
            wait_until(
                lambda: len(descriptors()) <= before_fds, 30 * SECOND, "descriptors come back"
            )
            grown_mb = resident_mb() - before_mb
    tell(f"{CONNECTIONS} connections in {took_s:.1f} s, {grown_mb:+.0f} MB")
    assert grown_mb < 16


FLOOD = """
    import random
    import sys

    import zmq
    from videoload.transport.messages import VERSION, Heartbeat, Result, pack

    draw = random.Random(2)
    noise = [
        [draw.randbytes(100)], [VERSION, draw.randbytes(50)], [b"videoload/999", b""],
        [b""] * 9, [*pack(Result(1, [[0]])), bytes(10_000)],
        [VERSION, pack(Heartbeat())[1], b"more"],
    ]
    made = zmq.Context().socket(zmq.DEALER)
    made.connect(sys.argv[1])
    sent = 0
    while True:
        for message in noise:
            made.send_multipart(message)
        sent += len(noise)
        if sent == 600:
            print("it floods", flush=True)
"""


@pytest.mark.slow
def test_a_flood_of_messages_starves_nobody_and_fills_no_log(
    videos: Videos, serial: list[str], programs: Programs, caplog: pytest.LogCaptureFixture,
    tell: Callable[[str], None],
) -> None:  # fmt: skip
    def refused() -> list[str]:
        return [line for line in caplog.messages if line.startswith("refused a message at ")]

    with Client(workers=0, listen=["tcp://127.0.0.1:*", "tcp://127.0.0.1:*"]) as client:
        programs.worker(client.endpoints[1], videos.root)  # the flood comes at the other address
        client.wait_for_workers(1, timeout_s=30 * SECOND)
        with reading(client, videos, serial) as epochs:
            wait_until(epochs, 30 * SECOND)
            before_mb, before_epochs = resident_mb(), epochs()
            began = time.monotonic()
            flood = programs.script(FLOOD, client.endpoints[0])
            flood.wait_for("it floods", 60 * SECOND)
            wait_until(lambda: len(refused()) >= 2, 60 * SECOND, "it is logged at a limited rate")
            # Ticks are sent as well; otherwise the worker would seem silent and lose its leases.
            wait_until(lambda: epochs() >= before_epochs + 2, 60 * SECOND, "the stream continues")
            assert flood.process.poll() is None
            flood.end()
            took_s = time.monotonic() - began
            grown_mb = resident_mb() - before_mb
        assert len(client.workers) == 1
    more = sum(int(line.rpartition("(and ")[2].split()[0]) for line in refused()[1:])
    told = f"{more} messages refused in {took_s:.1f} s, {len(refused())} lines"
    tell(f"{told}, {epochs() - before_epochs} epochs meanwhile, {grown_mb:+.0f} MB")
    assert len(refused()) <= took_s + 2
    assert grown_mb < 64
