"""Data ports: a connection that shows a ticket is handed over, others are closed."""

from __future__ import annotations

import os
import resource
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.ports import free_pair
from tests.support.waiting import SECOND, wait_until
from videoload.errors import TransportError
from videoload.receivers.ports import DataPorts

TICKET = b"0123456789abcdef"
AT = "tcp://127.0.0.1:1"


@pytest.fixture
def ports() -> Iterator[DataPorts]:
    made = DataPorts({AT: "tcp://127.0.0.1:*"})
    yield made
    made.close()


def dial(ports: DataPorts) -> socket.socket:
    return socket.create_connection(("127.0.0.1", ports.numbers[AT]))


def look(ports: DataPorts, expected: int = 0) -> list[tuple[bytes, socket.socket]]:
    """The tickets that have arrived by now."""
    ready, *_ = select.select(ports.watched(), [], [], 0.05)
    return list(ports.arrived({end.fileno() for end in ready}, expected))


def take(ports: DataPorts, expected: int = 0) -> tuple[bytes, socket.socket]:
    """The next ticket."""
    deadline = time.monotonic() + 30 * SECOND
    while not (got := look(ports, expected)):
        assert time.monotonic() < deadline
    [only] = got
    return only


def hung_up(end: socket.socket) -> bool:
    end.settimeout(30 * SECOND)
    try:
        return end.recv(1) == b""
    except ConnectionError:
        return True


def test_a_connection_with_a_ticket_is_handed_over_with_its_next_bytes(ports: DataPorts) -> None:
    with dial(ports) as worker:
        worker.sendall(TICKET + b"more")
        ticket, end = take(ports)
        with end:
            assert ticket == TICKET
            assert end.recv(4) == b"more"
        assert len(ports.watched()) == 1


def test_a_ticket_may_come_in_pieces(ports: DataPorts) -> None:
    with dial(ports) as worker:
        for at in range(15):
            worker.sendall(TICKET[at : at + 1])
            assert not look(ports)
        worker.sendall(TICKET[15:])
        ticket, end = take(ports)
        end.close()
        assert ticket == TICKET


def test_a_connection_that_ends_without_a_ticket_is_forgotten(ports: DataPorts) -> None:
    dial(ports).close()
    wait_until(lambda: look(ports) == [] and len(ports.watched()) == 1, 30 * SECOND)


def test_a_connection_without_a_ticket_is_closed_after_five_seconds(ports: DataPorts) -> None:
    with dial(ports) as worker:
        wait_until(lambda: look(ports) == [] and len(ports.watched()) == 2, 30 * SECOND)
        ports.keep(time.monotonic() + 4)
        assert len(ports.watched()) == 2
        ports.keep(time.monotonic() + 6)
        assert len(ports.watched()) == 1
        assert hung_up(worker)


def test_the_oldest_connections_make_room(ports: DataPorts) -> None:
    dialled = [dial(ports) for _ in range(80)]
    wait_until(lambda: look(ports, expected=10) == [] and len(ports.watched()) == 75, 30 * SECOND)
    assert all(hung_up(worker) for worker in dialled[:6])
    dialled[-1].sendall(TICKET)
    take(ports, expected=10)[1].close()
    for worker in dialled:
        worker.close()


def test_a_flood_is_accepted_a_bounded_number_at_a_time(ports: DataPorts) -> None:
    dialled = [dial(ports) for _ in range(200)]
    before = len(os.listdir("/proc/self/fd"))
    [listening] = ports.watched()
    for turn in range(1, 14):
        assert not list(ports.arrived({listening.fileno()}, 0)), "nobody showed a ticket"
        here = len(os.listdir("/proc/self/fd")) - before
        assert here == len(ports.watched()) - 1 == min(64, 16 * turn), "a bounded number a turn"
    for worker in dialled:
        worker.close()


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as last:
        resource.setrlimit(resource.RLIMIT_NOFILE, (last.fileno(), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_port_is_not_watched_while_no_descriptor_is_left(ports: DataPorts) -> None:
    with dial(ports) as worker:
        listening = ports.watched()
        with no_descriptor_left():
            wait_until(lambda: select.select(listening, [], [], 1)[0], 30 * SECOND)
            assert not list(ports.arrived({listening[0].fileno()}, 0))
            assert ports.watched() == []
        ports.keep(time.monotonic())
        worker.sendall(TICKET)
        take(ports)[1].close()


def test_the_data_port_is_the_one_after_a_named_port() -> None:
    port = free_pair()
    endpoint = f"tcp://127.0.0.1:{port}"
    ports = DataPorts({endpoint: endpoint, "ipc://@somewhere": "ipc://@somewhere"})
    try:
        assert ports.numbers == {endpoint: port + 1}
        with pytest.raises(TransportError, match=f"port {port + 1} of 127.0.0.1, where receivers"):
            DataPorts({endpoint: endpoint})
    finally:
        ports.close()


def test_there_is_no_data_port_after_the_last_port() -> None:
    with pytest.raises(TransportError, match="port 65536"):
        DataPorts({"tcp://127.0.0.1:65535": "tcp://127.0.0.1:65535"})


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this host has no IPv6")
def test_all_addresses_means_both_families() -> None:
    ports = DataPorts({"tcp://[::]:1": "tcp://*:*"})
    number = ports.numbers["tcp://[::]:1"]
    for host in ("127.0.0.1", "::1"):
        socket.create_connection((host, number)).close()
    ports.close()
