"""Workers that connect, fall silent, say goodbye and hang up, as the I/O thread sees them."""

import logging
import math
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.faults.proxy import Frame
from tests.faults.raw_peers import answer, dealer, hello, say
from tests.support.engines import (
    add,
    begin,
    make_engine,
    open_stream,
    wait_until_no_worker_is_there,
    worker,
)
from tests.support.waiting import SECOND, wait_until
from videoload.engine.engine import Engine
from videoload.wire.messages import Bye, Heartbeat, Lease, Welcome, pack, unpack_from_trainer


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = make_engine()
    yield made
    made.stop()


def test_a_worker_whose_connection_ends_has_died_and_its_host_is_named(engine: Engine) -> None:
    stream, [endpoint] = open_stream(), engine.start()
    with worker(endpoint):
        pass
    add(engine, stream)
    begin(engine, stream)  # no lease can be sent
    wait_until_no_worker_is_there(engine)
    assert hello().host in engine.membership.lost()


def test_a_worker_whose_goodbye_is_read_after_its_connection_ended_did_not_die(
    engine: Engine,
) -> None:
    """The I/O thread stands still until all that it sent has arrived, and its connection ended."""
    stream, [endpoint] = open_stream(), engine.start()
    add(engine, stream)
    begin(engine, stream)
    has_ended = threading.Event()
    with worker(endpoint) as played:
        leases = [played.lease() for _ in range(2)]
        engine.post(lambda: assert_set(has_ended))
        for lease in leases:
            played.answer(lease)
        played.say_goodbye()
    has_ended.set()
    wait_until_no_worker_is_there(engine)
    wait_until(lambda: not engine.membership.lost(), 30 * SECOND)


def assert_set(event: threading.Event) -> None:
    assert event.wait(30 * SECOND)


def test_the_time_without_a_worker_counts_while_a_stream_is_read(engine: Engine) -> None:
    alone_s = engine.membership.alone_s
    stream, [endpoint] = open_stream(), engine.start()
    add(engine, stream)
    with worker(endpoint):
        begin(engine, stream)
    wait_until(lambda: alone_s(-math.inf) > 0.5, 30 * SECOND)
    with worker(endpoint):
        began, before = time.monotonic(), alone_s(-math.inf)
        engine.ask(lambda: None, 30 * SECOND)
        assert alone_s(began) == 0.0
        assert alone_s(-math.inf) == before


def test_workers_that_come_and_leave_without_end_fill_no_log(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """A burst is logged, then 40 lines a second at most."""
    caplog.set_level(logging.INFO, "videoload")
    [endpoint], began = engine.start(), time.monotonic()
    with dealer(endpoint) as connection:
        for pid in range(500):
            say(connection, hello(pid))
            assert isinstance(answer(connection), Welcome)
            say(connection, Bye(""))
    wait_until_no_worker_is_there(engine)
    assert len(caplog.messages) < 100 + 40 * (time.monotonic() - began)


def test_workers_that_start_here_have_longer_to_connect(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for pids, seconds, words in ((set[int](), 6, "waiting"), ({1, 2}, 21, "2 workers")):
        caplog.clear()
        monkeypatch.setattr(engine.membership.supervisor, "pids", lambda pids=pids: pids)
        engine.membership.tick(0.0, is_read=False)
        engine.membership.tick(0.0, is_read=True)
        engine.membership.tick(seconds - 2.0, is_read=True)
        assert not caplog.messages
        engine.membership.tick(float(seconds), is_read=True)
        [message] = caplog.messages
        assert words in message


# An answer that arrives slowly


@contextmanager
def slow_connection(endpoint: str, pid: int) -> Iterator[socket.socket]:
    """A worker on a bare socket, which can send a part of a message."""
    host, _, port = endpoint.removeprefix("tcp://").partition(":")
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\0" + b"NULL".ljust(20, b"\0") + bytes(32)
    ready = Frame(4, b"\5READY\x0bSocket-Type\0\0\0\6DEALER")
    version, text = map(bytes, pack(hello(pid)))
    with socket.create_connection((host, int(port)), 30 * SECOND) as made:
        made.sendall(greeting)
        made.recv(64, socket.MSG_WAITALL)  # the trainer's greeting
        made.sendall(ready.encode())
        made.recv(100)  # ZeroMQ reads what comes before it is ready when more comes
        made.sendall(Frame(1, version).encode() + Frame(0, text).encode())
        yield made


@pytest.mark.slow
def test_a_worker_whose_answer_is_on_its_way_keeps_its_leases(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each byte is a sign of life; without any, another worker gets what it had."""
    monkeypatch.setattr("videoload.engine.engine.SILENCE_S", 2 * SECOND)
    stream, engine = open_stream(), make_engine()
    [endpoint] = engine.start()
    add(engine, stream)
    begin(engine, stream)
    granted: dict[str, int] = {}  # the leases of the quick worker, by their file
    with slow_connection(endpoint, 1) as slow:
        wait_until(lambda: engine.membership.workers, 30 * SECOND, "it has got the first lease")
        slow.sendall(Frame(0, bytes(1 << 20)).encode()[:1000])  # of a megabyte, so far
        with worker(endpoint, 2) as quick:

            def quick_has_the_first() -> bool:
                say(quick.socket, Heartbeat(max(granted.values(), default=0)))
                while quick.socket.poll(50):
                    message = unpack_from_trainer(quick.socket.recv_multipart())
                    if isinstance(message, Lease):
                        granted[message.clips[0].row.path] = message.lease
                return "0/0.avi" in granted

            for _ in range(60):  # three seconds
                slow.sendall(b"\0")
                assert not quick_has_the_first()
            wait_until(quick_has_the_first, 60 * SECOND, "the slow one is silent now")
    engine.stop()
