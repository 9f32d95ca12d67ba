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
from functools import partial

import pytest
import zmq

from tests.faults.raw_peers import answer, dealer, hello, say
from tests.faults.readings import Reading
from tests.support.programs import Programs
from tests.support.videos import Videos
from tests.support.waiting import SECOND, in_background, wait_until
from videoload import Client, ClipSpec
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

pytestmark = [pytest.mark.timeout(120 * SECOND), pytest.mark.xdist_group("receivers")]

CLIP = ClipSpec(frames=6, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=8)
BATCH, SLOTS, EPOCHS = 4, 4, 2


def receivers_of(client: Client) -> Receivers:
    return client._engine._receivers


def adopted(client: Client) -> int:
    """The number of workers that send their pixels to a receiver now."""
    return sum(len(receiver.connections) for receiver in receivers_of(client)._receivers)


class Stand:
    """A client with one receiver and one honest worker, and a stream that test after test continues
    to read."""

    def __init__(self, client: Client, videos: Videos) -> None:
        self.client = client
        self.root = videos.root
        self.receivers = receivers_of(client)
        self.reading = Reading(client, videos, CLIP, BATCH, slots=SLOTS, epochs=EPOCHS)

    def read_until(self, condition: Callable[[], object]) -> None:
        """Read batches until it is true, and then all that were on their way."""
        while not condition():
            self.reading.read()
        self.reading.read(2 * SLOTS)
        assert not self.reading.stream.quarantine


@pytest.fixture
def stand(long_standing: Stand) -> Stand:
    """The one of all tests, once everything has left that the test before has brought."""
    wait_until(lambda: adopted(long_standing.client) == 1, 30 * SECOND)
    wait_until(lambda: len(long_standing.client.workers) == 1, 30 * SECOND)
    return long_standing


@pytest.fixture(scope="module")
def long_standing(videos: Videos, shared_programs: Programs) -> Iterator[Stand]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("videoload.engine.engine._SILENCE_S", 1.0 * SECOND)
        patched.setattr(
            receivers_module,
            "ChildProcess",
            lambda module, end: ChildProcess("tests.support.impatient_receiver", end),
        )
        with Client(workers=0, listen="tcp://127.0.0.1:*", receivers=1) as client:
            wait_until(lambda: receivers_of(client)._working, 30 * SECOND)
            shared_programs.worker(client.endpoints[0], videos.root)
            wait_until(lambda: adopted(client) == 1, 30 * SECOND)
            yield Stand(client, videos)


def test_a_receiver_that_ends_or_hangs_costs_nothing_but_time(
    videos: Videos, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[socket.socket] = []

    def start(module: str, end: socket.socket) -> ChildProcess:
        if not held:  # as if by a process that was forked just then: its end ends no channel
            held.append(end.dup())
        return ChildProcess(module, end)

    monkeypatch.setattr(receivers_module, "ChildProcess", start)
    monkeypatch.setattr(receivers_module, "_SILENCE_S", 1.5 * SECOND)
    monkeypatch.setattr(receivers_module, "_OFFERS_S", 0.0)
    with Client(workers=0, listen="tcp://127.0.0.1:*", receivers=1) as client:
        wait_until(lambda: receivers_of(client)._working, 30 * SECOND)
        for _ in range(2):
            programs.worker(client.endpoints[0], videos.root)
        reading = Reading(client, videos, CLIP, BATCH, slots=SLOTS, epochs=1)

        def is_gone(receiver: object) -> bool:
            return receiver not in receivers_of(client)._receivers

        for how in (signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP):
            wait_until(lambda: adopted(client) == 2, 30 * SECOND)
            reading.read(5)
            [receiver] = receivers_of(client)._receivers
            os.kill(receiver.process.pid, how)
            reading.read(3 * SLOTS)
            # Another one takes its place, here or while this waits.
            wait_until(partial(is_gone, receiver), 30 * SECOND)
        wait_until(lambda: adopted(client) == 2, 30 * SECOND)
        wait_until(lambda: {w.state for w in client.workers} == {"idle"}, 30 * SECOND)
    held[0].close()


def test_a_worker_killed_again_and_again_changes_nothing(stand: Stand, programs: Programs) -> None:
    def works(pid: int) -> bool:
        return any(worker.pid == pid and worker.clips for worker in stand.client.workers)

    for _ in range(3):
        doomed = programs.worker(stand.client.endpoints[0], stand.root)
        stand.read_until(partial(works, doomed.pid))
        doomed.signal(signal.SIGKILL)
        stand.reading.read(2 * SLOTS)


def test_a_worker_that_came_before_any_receiver_worked_has_its_connection_later(
    stand: Stand, programs: Programs
) -> None:
    [receiver] = stand.receivers._receivers
    os.kill(receiver.process.pid, signal.SIGSTOP)
    receiver.works = False
    programs.worker(stand.client.endpoints[0], stand.root)
    stand.client.wait_for_workers(2, timeout_s=30 * SECOND)
    assert adopted(stand.client) == 1
    os.kill(receiver.process.pid, signal.SIGCONT)
    wait_until(lambda: adopted(stand.client) == 2, 30 * SECOND)


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


def sends_slowly(liar: Liar, lease: Lease) -> None:
    size = liar.say_done(lease)
    with suppress(ConnectionError):
        for byte in head(lease.lease, size) + bytes(1000):
            liar.data.sendall(bytes([byte]))
            time.sleep(0.1)


LIES: tuple[Callable[[Liar, Lease], None], ...] = (
    sends_nothing, hangs_up_in_the_middle, stops_in_the_middle, names_another_size,
    names_another_lease, names_another_connection, sends_wrong_words, says_it_twice,
    says_bye_in_the_middle, has_another_copy, sends_slowly,
)  # fmt: skip


@pytest.mark.parametrize("lies", LIES, ids=[lies.__name__ for lies in LIES])
def test_a_lie_on_a_data_connection_changes_nothing(
    lies: Callable[[Liar, Lease], None], stand: Stand
) -> None:
    told = threading.Event()

    def lie(over: threading.Event) -> None:
        lease = lying.lease(over)
        told.set()
        lies(lying, lease)

    with liar(stand.client) as lying, in_background(lie):
        stand.read_until(told.is_set)
        if lies is sends_slowly:
            assert stand.receivers._useless  # no answer came, so this worker is offered no other


def test_a_worker_whose_ticket_no_receiver_could_take_is_offered_another(stand: Stand) -> None:
    [receiver] = stand.receivers._receivers
    with dealer(stand.client.endpoints[0], linger_ms=0) as control:
        say(control, hello())
        welcome = answer(control)
        assert isinstance(welcome, Welcome)
        assert welcome.data is not None
        receiver.works = False  # as between the end of one and the beginning of the next
        with socket.create_connection(("127.0.0.1", welcome.data.port), 30 * SECOND) as data:
            data.sendall(welcome.data.ticket)
            assert data.recv(16) == b""
        again = answer(control)  # it sends heartbeats, so it works again
        while not isinstance(again, Welcome):
            again = answer(control)
        assert again.data is not None


# Strangers


def test_strangers_at_the_receivers_port_disturb_nobody(stand: Stand, programs: Programs) -> None:
    [port] = stand.receivers._ports.numbers.values()
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
    for number, words in enumerate((b"GET / HTTP/1.1\r\n\r\n", b"x", bytes(16), b"\xff" * 9000)):
        silent[number - 4].sendall(words)
    programs.worker(stand.client.endpoints[0], stand.root)
    stand.read_until(lambda: adopted(stand.client) == 2)
    assert len(stand.receivers._ports._strangers) <= 64
    for end in silent:
        end.close()
    wait_until(lambda: not stand.receivers._ports._strangers, 30 * SECOND)


def test_a_ticket_is_valid_once(stand: Stand) -> None:
    with liar(stand.client) as first:
        with socket.create_connection(("127.0.0.1", first.offer.port), 30 * SECOND) as second:
            second.sendall(first.offer.ticket)
            assert second.recv(16) == b""
        assert adopted(stand.client) == 2
    wait_until(lambda: adopted(stand.client) == 1, 30 * SECOND)
