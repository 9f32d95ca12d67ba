"""Limits of a connection to a trainer's port, and when to close it. Pure: time and received bytes
are passed in.

ZeroMQ delivers a message after all of its parts have arrived. It bounds the size of a part, but not
the number of parts. So a stranger could send one message that never ends, and all of it would stay
in the trainer's memory. There are three bounds:

  * bytes: received on a connection between two messages, or before the first one. A stranger may
    send a HELLO, a worker the answers to its leases;
  * time: a connection must send HELLO within `_HELLO_S`;
  * number: if there are more connections than this process can have files open, the oldest ones
    that are not workers are closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_STRANGER_BYTES = 64 << 10  # a handshake and the longest HELLO take 8 kB
_WORKER_BYTES = 1 << 20  # with the heartbeats of ten minutes without a read
_HELLO_S = 15.0  # a worker sends HELLO at once


@dataclass(slots=True)
class _Connection:
    since: float  # when it connected, or when its worker left
    max_bytes: int = _STRANGER_BYTES
    received: int = 0  # bytes by the time when its last message was complete
    seen: int = 0  # bytes at the last look
    grew: bool = False  # since the last call of `growing`
    completed: bool = False  # a message, since the last look
    is_worker: bool = False
    hung_up: bool = False


class Limits:
    """The connections to one address. Each has a number that no other one ever gets."""

    def __init__(self, max_connections: int) -> None:
        self._max_connections = max_connections
        self._connections: dict[int, _Connection] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._connections

    def __len__(self) -> int:
        return len(self._connections)

    def connected(self, number: int, now: float) -> None:
        self._connections[number] = _Connection(now)

    def disconnected(self, number: int) -> None:
        self._connections.pop(number, None)

    def completed(self, number: int) -> None:
        if (connection := self._connections.get(number)) is not None:
            connection.completed = True

    def admitted(self, number: int) -> None:
        if (connection := self._connections.get(number)) is not None:
            connection.is_worker = True
            connection.max_bytes = max(connection.max_bytes, _WORKER_BYTES)

    def left(self, number: int, now: float) -> None:
        """Note that its worker has left. Answers to its leases may still be in flight."""
        if (connection := self._connections.get(number)) is not None:
            connection.is_worker = False
            connection.since = now

    def granted(self, number: int, answer_bytes: int, leases: int = 1) -> None:
        """Note that its worker got a lease with an answer of ``answer_bytes``, and holds ``leases``
        now. The answer to one more lease may be in flight."""
        if (connection := self._connections.get(number)) is not None:
            answers = (leases + 1) * answer_bytes
            connection.max_bytes = max(connection.max_bytes, _WORKER_BYTES + answers)

    def growing(self) -> list[int]:
        """Return connections with new bytes since the last call, even a part of a message."""
        grew = [number for number, connection in self._connections.items() if connection.grew]
        for number in grew:
            self._connections[number].grew = False
        return grew

    def judge(self, received: Mapping[int, int], now: float) -> dict[int, str]:
        """Return connections to close, with the reason. ``received``: the bytes received so far on
        each of the checked connections."""
        found: dict[int, str] = {}
        for number, count in received.items():
            connection = self._connections.get(number)
            if connection is None or connection.hung_up:
                continue
            connection.grew |= count > connection.seen
            connection.seen = count
            if connection.completed:
                connection.received, connection.completed = count, False
            unfinished = count - connection.received
            if unfinished > connection.max_bytes:
                found[number] = f"{unfinished} bytes arrived without a complete message"
            elif not connection.is_worker and now - connection.since > _HELLO_S:
                found[number] = f"no HELLO within {_HELLO_S:g} s"
        if len(self._connections) > self._max_connections:
            here = {n: c for n, c in self._connections.items() if not c.hung_up}
            surplus = max(0, len(here) - len(found) - self._max_connections)
            strangers = [n for n, c in here.items() if not c.is_worker and n not in found]
            for number in sorted(strangers, key=lambda n: (here[n].since, n))[:surplus]:
                found[number] = f"{len(here)} connections are more than there is room for"
        for number in found:
            self._connections[number].hung_up = True
        return found
