"""Addresses: which ones are valid, who can reach them, and what a name resolves to."""

import re
import socket
from typing import Any

import pytest

from videoload.errors import TransportError
from videoload.wire.addresses import (
    check_address,
    is_local,
    is_name,
    private_endpoint,
    resolve,
)

V4, V6 = socket.AF_INET, socket.AF_INET6


# Names


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """What the resolver answers: family and address."""
    answer: list[tuple[int, str]] = []

    def getaddrinfo(host: str, port: int, *, type: int) -> list[Any]:  # noqa: A002
        assert (host, port, type) == ("trainers.jobs", 5555, socket.SOCK_STREAM)
        return [(family, type, 6, "", (address, port)) for family, address in answer]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return answer


def test_a_host_name_is_told_from_an_address_and_resolved() -> None:
    assert is_name("tcp://trainer:5555")
    assert is_name("tcp://trainers.jobs.svc.cluster.local:5555")
    for literal in ("tcp://10.0.0.1:5555", "tcp://[::1]:5555", "ipc://@videoload-1"):
        assert not is_name(literal)
    assert resolve("tcp://localhost:5555")[0] == "tcp://127.0.0.1:5555"
    assert resolve("tcp://[::1]:5555") == ["tcp://[::1]:5555"]
    for unknown in ("tcp://no-such.invalid:5555", f"tcp://{'a' * 64}.example:5555"):
        with pytest.raises(TransportError):
            resolve(unknown)


def test_a_name_resolves_to_each_of_its_addresses_once(found: list[tuple[int, str]]) -> None:
    found += [(V4, "10.0.0.2"), (V4, "10.0.0.1"), (V4, "10.0.0.2")]
    assert resolve("tcp://trainers.jobs:5555") == ["tcp://10.0.0.2:5555", "tcp://10.0.0.1:5555"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (OSError(111, "Connection refused"), "Connection refused"),
        (UnicodeError("label too long"), "label too long"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_resolvers_reason(
    error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def getaddrinfo(*arguments: Any, **options: Any) -> Any:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(TransportError) as caught:
        resolve("tcp://trainers.jobs:5555")
    assert str(caught.value) == reason


# Who can reach it

HERE = (
    "tcp://127.0.0.1:5555", "tcp://127.8.9.10:*", "tcp://[::1]:5555", "tcp://localhost:5555",
    "ipc://@videoload-1",
)  # fmt: skip
ELSEWHERE = (
    "tcp://0.0.0.0:5555", "tcp://*:5555", "tcp://10.0.0.1:5555", "tcp://[::]:5555",
    "tcp://gpu-7:5555", "tcp://localhost.evil.example:5555", "tcp://127.0.0.1.evil.example:5555",
)  # fmt: skip


@pytest.mark.parametrize("endpoint", HERE)
def test_an_address_that_only_this_host_can_reach_needs_no_keys(endpoint: str) -> None:
    assert is_local(endpoint)
    check_address(endpoint, None, insecure=False)


@pytest.mark.parametrize("endpoint", ELSEWHERE)
def test_an_address_that_other_hosts_can_reach_needs_keys_or_insecure(endpoint: str) -> None:
    assert not is_local(endpoint)
    with pytest.raises(TransportError, match=re.escape(endpoint)):
        check_address(endpoint, None, insecure=False)
    check_address(endpoint, "keys", insecure=False)
    check_address(endpoint, None, insecure=True)


@pytest.mark.parametrize(
    "endpoint",
    [
        "", "5555", "127.0.0.1:5555", "tcp://", "tcp://127.0.0.1", "tcp://:5555", "tcp://h:port",
        "tcp://h:65536", "tcp://h:-1", "tcp://h:", "http://h:80", "inproc://h", "ipc://",
        "TCP://h:5555", " tcp://h:5555", "tcp://[::1:5555", "tcp://::1:5555", "tcp://[zz]:5555",
        "tcp://[]:5555", "tcp://h]:5555", "tcp://me@h:5555", "tcp://127.0.0.1:\u0663",
        "tcp://h:05555555", "ipc:///tmp/trainer", "ipc://@\0b", "ipc://@\udcff", "tcp://\udcff:5555",
    ],
)  # fmt: skip
def test_an_invalid_address_is_always_refused(endpoint: str) -> None:
    with pytest.raises(TransportError, match=re.escape(repr(endpoint))):
        check_address(endpoint, "keys", insecure=True)


def test_an_ipv6_address_needs_brackets() -> None:
    for host in ("[::1]", "[fe80::1%eth0]", "[::ffff:10.0.0.1]"):
        check_address(f"tcp://{host}:5555", "keys", insecure=False)


def test_the_address_for_own_workers_is_local_and_cannot_be_guessed() -> None:
    endpoints = {private_endpoint() for _ in range(100)}
    assert len(endpoints) == 100
    assert all(is_local(endpoint) for endpoint in endpoints)
    for endpoint in endpoints:
        check_address(endpoint, None, insecure=False)
