"""Receivers that are killed or hang, workers that break their data connection or lie on it, and
strangers at that port: no byte of a stream changes, and the stream continues."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice

import pytest
import zmq

from tests.faults.raw_peers import answer, dealer, hello, say
from tests.support.digests import digests
from tests.support.programs import Programs
from tests.support.videos import Videos
from tests.support.waiting import SECOND, in_background, wait_until
from videoload import Client, ClipSpec, decode_serially
from videoload.processes.child import ChildProcess
from videoload.receivers import pool as receivers_module
from videoload.receivers.pool import Receivers
from videoload.transport.messages import (
    DataOffer,
    Heartbeat,
    Lease,
    Result,
    Welcome,
    unpack_from_trainer,
)

pytestmark = pytest.mark.timeout(60 * SECOND)

CLIP = ClipSpec(frames=6, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=8)
BATCH, EPOCHS = 4, 4


def receivers_of(client: Client) -> Receivers:
    return client._engine._receivers


def adopted(client: Client) -> int:
    """The number of workers that send their pixels to a receiver now."""
    return sum(len(receiver.connections) for receiver in receivers_of(client)._receivers)


@pytest.fixture
def expected(videos: Videos) -> list[str]:
    return digests(decode_serially(videos.catalog, CLIP, BATCH, shuffle=True, epochs=EPOCHS))


@pytest.fixture
def client() -> Iterator[Client]:
    with Client(workers=0, listen="tcp://127.0.0.1:*", receivers=1) as made:
        wait_until(lambda: receivers_of(made)._working, 10 * SECOND)
        yield made


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_receiver_that_ends_or_hangs_costs_nothing_but_time(
    videos: Videos,
    programs: Programs,
    client: Client,
    expected: list[str],
    how: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receivers_module, "_SILENCE_S", 1.5)
    for _ in range(2):
        programs.worker(client.endpoints[0], videos.catalog.root or "")
    client.wait_for_workers(2)
    wait_until(lambda: adopted(client) == 2, 5 * SECOND)
    stream = client.stream(videos.catalog, CLIP, BATCH, shuffle=True, slots=4)
    batches = stream.batches(epochs=EPOCHS)
    got = digests(islice(batches, 5))
    [receiver] = receivers_of(client)._receivers
    os.kill(receiver.process.pid, how)
    got += digests(batches)
    assert got == expected
    wait_until(lambda: adopted(client) == 2, 5 * SECOND)  # another one has taken its place
    wait_until(lambda: {w.state for w in client.workers} == {"idle"}, 5 * SECOND)
    assert receivers_of(client)._receivers != [receiver]


def test_a_worker_killed_again_and_again_changes_nothing(
    videos: Videos, programs: Programs, client: Client, expected: list[str]
) -> None:
    def kill_some(over: threading.Event) -> None:
        while not over.wait(0.3):
            doomed = programs.worker(client.endpoints[0], videos.catalog.root or "")
            doomed.wait_for("serving trainer", 20 * SECOND)
            over.wait(0.2)
            doomed.signal(signal.SIGKILL)

    programs.worker(client.endpoints[0], videos.catalog.root or "")
    stream = client.stream(videos.catalog, CLIP, BATCH, shuffle=True, slots=4)
    with in_background(kill_some):
        got = []
        for batch in stream.batches(epochs=EPOCHS):
            got += digests([batch])
            time.sleep(0.05)  # a step of the trainer
    assert got == expected


def test_a_worker_that_came_before_any_receiver_worked_has_its_connection_later(
    videos: Videos, programs: Programs, client: Client
) -> None:
    [receiver] = receivers_of(client)._receivers
    os.kill(receiver.process.pid, signal.SIGSTOP)
    receiver.works = False
    programs.worker(client.endpoints[0], videos.catalog.root or "")
    client.wait_for_workers(1)
    assert adopted(client) == 0
    os.kill(receiver.process.pid, signal.SIGCONT)
    wait_until(lambda: adopted(client) == 1, 5 * SECOND)


def test_the_end_of_a_receiver_is_noticed_even_if_somebody_else_holds_its_channel(
    videos: Videos, programs: Programs, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[socket.socket] = []  # as if by a process that was forked just then

    def start(module: str, end: socket.socket) -> ChildProcess:
        held.append(end.dup())
        return ChildProcess(module, end)

    monkeypatch.setattr(receivers_module, "ChildProcess", start)
    with Client(workers=0, listen="tcp://127.0.0.1:*", receivers=1) as client:
        programs.worker(client.endpoints[0], videos.catalog.root or "")
        wait_until(lambda: adopted(client) == 1, 20 * SECOND)
        stream = client.stream(videos.catalog, CLIP, BATCH, shuffle=True)
        batches = stream.batches(epochs=EPOCHS)
        got = digests(islice(batches, 3))
        [receiver] = receivers_of(client)._receivers
        os.kill(receiver.process.pid, signal.SIGKILL)
        assert got + digests(batches) == expected
        wait_until(lambda: receivers_of(client)._receivers != [receiver], 5 * SECOND)
    for end in held:
        end.close()


def test_a_receiver_does_not_count_as_hung_because_this_process_was_stopped(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receivers_module, "_SILENCE_S", 1.0)
    [receiver] = receivers_of(client)._receivers
    client._engine.post(lambda: time.sleep(3))  # as if another thread held the GIL
    ticks: list[float] = []
    monkeypatch.setattr(client._engine.streams, "give_back_dead", lambda: ticks.append(0.0))
    wait_until(lambda: len(ticks) > 3, 10 * SECOND)
    assert receivers_of(client)._receivers == [receiver]
    assert receiver.process.status is None


# Liars


class OverError(Exception):
    """The test is over."""


class Liar:
    """A worker that has dialled in and opened its data connection."""

    def __init__(self, control: zmq.Socket[bytes]) -> None:
        self.control = control
        say(control, hello())
        welcome = answer(control)
        assert isinstance(welcome, Welcome)
        assert welcome.data is not None
        self.offer: DataOffer = welcome.data
        self.data = socket.create_connection(("127.0.0.1", self.offer.port), 5 * SECOND)
        self.data.sendall(self.offer.ticket)
        assert self.data.recv(16, socket.MSG_WAITALL) == b"videoload/pixels"
        say(control, Heartbeat(1))

    def lease(self, over: threading.Event) -> Lease:
        """The next lease that it gets. Raises OverError."""
        while not over.is_set():
            if self.control.poll(50):
                message = unpack_from_trainer(self.control.recv_multipart())
                if isinstance(message, Lease):
                    return message
        raise OverError

    def say_done(self, lease: Lease, **replaced: object) -> int:
        """Send the message of an answer; returns how many bytes of pixels are due."""
        length = lease.asked.frames_shape[0]
        result = Result(
            lease.lease, [list(range(length))] * len(lease.clips), 0.01, [1] * len(lease.clips),
            apart=self.offer.connection,
        )  # fmt: skip
        for name, value in replaced.items():
            setattr(result, name, value)
        say(self.control, result)
        return len(lease.clips) * lease.asked.clip_bytes


@contextmanager
def liar(client: Client) -> Iterator[Liar]:
    with dealer(client.endpoints[0], linger_ms=0) as control:
        made = Liar(control)
        with made.data:
            yield made


def head(lease: int, size: int) -> bytes:
    return lease.to_bytes(8, "little") + size.to_bytes(8, "little")


def sends_nothing(liar: Liar, lease: Lease) -> None:
    liar.say_done(lease)


def hangs_up_in_the_middle(liar: Liar, lease: Lease) -> None:
    size = liar.say_done(lease)
    liar.data.sendall(head(lease.lease, size) + bytes(size // 2))
    liar.data.close()


def stops_in_the_middle(liar: Liar, lease: Lease) -> None:
    size = liar.say_done(lease)
    liar.data.sendall(head(lease.lease, size) + bytes(size - 1))


def names_another_size(liar: Liar, lease: Lease) -> None:
    size = liar.say_done(lease)
    liar.data.sendall(head(lease.lease, size + 1) + bytes(size + 1))


def names_another_lease(liar: Liar, lease: Lease) -> None:
    size = liar.say_done(lease)
    liar.data.sendall(head(lease.lease + 1, size) + bytes(size))


def names_another_connection(liar: Liar, lease: Lease) -> None:
    liar.say_done(lease, apart=liar.offer.connection + 1)


def sends_wrong_words(liar: Liar, lease: Lease) -> None:
    size = liar.say_done(lease, frames=[[0]])
    liar.data.sendall(head(lease.lease, size) + bytes(size))


def says_it_twice(liar: Liar, lease: Lease) -> None:
    liar.say_done(lease)
    liar.say_done(lease)


def says_bye_in_the_middle(liar: Liar, lease: Lease) -> None:
    size = liar.say_done(lease)
    liar.data.sendall(head(lease.lease, size) + bytes(size // 2))
    liar.control.close(linger=0)


def has_another_copy(liar: Liar, lease: Lease) -> None:
    size = liar.say_done(lease)
    liar.data.sendall(head(lease.lease, size) + b"\x5a" * size)


@pytest.mark.slow
def test_a_worker_that_sends_slowly_is_waited_for_once(
    videos: Videos, programs: Programs, client: Client, expected: list[str]
) -> None:
    def drip(over: threading.Event) -> None:
        lease = lying.lease(over)
        lying.say_done(lease)
        with suppress(ConnectionError):
            for byte in head(lease.lease, 1 << 20):
                lying.data.sendall(bytes([byte]))
                over.wait(1)

    stream = client.stream(videos.catalog, CLIP, BATCH, shuffle=True)
    batches = stream.batches(epochs=EPOCHS)
    with liar(client) as lying, in_background(drip):
        programs.worker(client.endpoints[0], videos.catalog.root or "")
        assert digests(batches) == expected
        assert receivers_of(client)._useless  # none of its answers came, so it is offered no other


def test_a_worker_whose_ticket_no_receiver_could_take_is_offered_another(client: Client) -> None:
    [receiver] = receivers_of(client)._receivers
    with dealer(client.endpoints[0], linger_ms=0) as control:
        say(control, hello())
        welcome = answer(control)
        assert isinstance(welcome, Welcome)
        assert welcome.data is not None
        receiver.works = False  # as between the end of one and the beginning of the next
        with socket.create_connection(("127.0.0.1", welcome.data.port), 5 * SECOND) as data:
            data.sendall(welcome.data.ticket)
            assert data.recv(16) == b""
        again = answer(control)  # it sends heartbeats, so it works again
        while not isinstance(again, Welcome):
            again = answer(control)
        assert again.data is not None


LIES: tuple[Callable[[Liar, Lease], None], ...] = (
    sends_nothing, hangs_up_in_the_middle, stops_in_the_middle, names_another_size,
    names_another_lease, names_another_connection, sends_wrong_words, says_it_twice,
    says_bye_in_the_middle, has_another_copy,
)  # fmt: skip


def test_lies_on_a_data_connection_change_nothing(
    videos: Videos, programs: Programs, client: Client, expected: list[str]
) -> None:
    told: list[str] = []
    programs.worker(client.endpoints[0], videos.catalog.root or "")
    client.wait_for_workers(1, timeout_s=20 * SECOND)
    for lies in LIES:

        def lie(over: threading.Event, lies: Callable[[Liar, Lease], None] = lies) -> None:
            lies(lying, lying.lease(over))
            told.append(lies.__name__)

        stream = client.stream(videos.catalog, CLIP, BATCH, shuffle=True)
        batches = stream.batches(epochs=EPOCHS)
        with liar(client) as lying, in_background(lie):
            assert digests(batches) == expected, lies.__name__
        assert not stream.quarantine, lies.__name__
    assert told == [lies.__name__ for lies in LIES]


def test_a_worker_that_never_sends_announced_pixels_is_not_asked_for_ever(
    videos: Videos, programs: Programs, client: Client, expected: list[str]
) -> None:
    lies = 0

    def lie(over: threading.Event) -> None:
        nonlocal lies
        with suppress(OverError):
            while True:
                names_another_connection(lying, lying.lease(over))
                lies += 1

    stream = client.stream(videos.catalog, CLIP, BATCH, shuffle=True)
    batches = stream.batches(epochs=EPOCHS)
    with liar(client) as lying, in_background(lie):
        programs.worker(client.endpoints[0], videos.catalog.root or "")
        assert digests(batches) == expected
    assert not stream.quarantine
    assert 0 < lies <= 60  # it has to pause after some thirty


# Strangers


def test_strangers_at_the_receivers_port_disturb_nobody(
    videos: Videos, programs: Programs, client: Client, expected: list[str]
) -> None:
    [port] = receivers_of(client)._ports.numbers.values()
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
    for number, words in enumerate((b"GET / HTTP/1.1\r\n\r\n", b"x", bytes(16), b"\xff" * 9000)):
        silent[number - 4].sendall(words)
    programs.worker(client.endpoints[0], videos.catalog.root or "")
    wait_until(lambda: adopted(client) == 1, 20 * SECOND)
    stream = client.stream(videos.catalog, CLIP, BATCH, shuffle=True)
    assert digests(stream.batches(epochs=EPOCHS)) == expected
    assert len(receivers_of(client)._ports._strangers) <= 64
    for end in silent:
        end.close()
    wait_until(lambda: not receivers_of(client)._ports._strangers, 10 * SECOND)


def test_a_ticket_is_valid_once(client: Client) -> None:
    with liar(client) as first:
        with socket.create_connection(("127.0.0.1", first.offer.port), 5 * SECOND) as second:
            second.sendall(first.offer.ticket)
            assert second.recv(16) == b""
        assert adopted(client) == 1
    wait_until(lambda: adopted(client) == 0, 10 * SECOND)
