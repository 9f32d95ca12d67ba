"""What a connection to a trainer's port may cost, and when it is hung up on. Pure: the time, and
what was read off the connections, are passed in.

ZeroMQ hands a message over when all its parts have come, and it bounds the size of a part, not
their number. So a stranger could send one message that never ends, before saying who it is, and all
of it would stay in the trainer's memory. Three bounds:

  * bytes: between two messages of a connection, or before the first one, come no more than a
    stranger's HELLO takes, or, of a worker, the answers to the leases that it was given;
  * time: who is connected and is no worker says HELLO within `_HELLO_S`, or else makes room;
  * number: of those who are no workers, the ones that have been here longest make room where there
    are more connections than this process can have files open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_STRANGER_BYTES = 64 << 10  # a handshake and the longest HELLO take 8 kB
_WORKER_BYTES = 1 << 20  # with heartbeats and COMPARED of ten minutes in which nobody reads
_HELLO_S = 15.0  # a worker says it at once


@dataclass(slots=True)
class _Connection:
    since: float  # when it came, or its worker left
    most: int = _STRANGER_BYTES
    received: int = 0  # bytes by the time when its last message was complete
    seen: int = 0  # ... and at the last look
    grew: bool = False  # since `growing` was asked
    completed: bool = False  # a message, since it was looked at
    is_worker: bool = False
    hung_up: bool = False


class Limits:
    """The connections to one address, each by a number that it has while it lasts."""

    def __init__(self, most: int) -> None:
        """``most``: connections at once."""
        self._most = most
        self._connections: dict[int, _Connection] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._connections

    def __len__(self) -> int:
        return len(self._connections)

    def connected(self, number: int, now: float) -> None:
        """There is a new one."""
        self._connections[number] = _Connection(now)

    def disconnected(self, number: int) -> None:
        """It has ended."""
        self._connections.pop(number, None)

    def completed(self, number: int) -> None:
        """A message of it was received, all of it."""
        if (connection := self._connections.get(number)) is not None:
            connection.completed = True

    def admitted(self, number: int) -> None:
        """It is a worker's."""
        if (connection := self._connections.get(number)) is not None:
            connection.is_worker = True
            connection.most = max(connection.most, _WORKER_BYTES)

    def left(self, number: int, now: float) -> None:
        """Its worker is none any more. What it was granted may still be on the way."""
        if (connection := self._connections.get(number)) is not None:
            connection.is_worker = False
            connection.since = now

    def granted(self, number: int, answer_bytes: int, leases: int = 1) -> None:
        """Its worker was given a lease; the answer has so many bytes. It holds so many ``leases``
        now; the answer to another one may be on its way."""
        if (connection := self._connections.get(number)) is not None:
            answers = (leases + 1) * answer_bytes
            connection.most = max(connection.most, _WORKER_BYTES + answers)

    def growing(self) -> list[int]:
        """Those by which something came since this was asked last, be it a part of a message."""
        grew = [number for number, connection in self._connections.items() if connection.grew]
        for number in grew:
            self._connections[number].grew = False
        return grew

    def judge(self, received: Mapping[int, int], now: float) -> dict[int, str]:
        """Those to hang up on, and why; ``received``: the bytes that came by each so far."""
        found: dict[int, str] = {}
        for number, connection in self._connections.items():
            if connection.hung_up:
                continue
            count = received.get(number, connection.received)
            connection.grew |= count > connection.seen
            connection.seen = count
            if connection.completed:
                connection.received, connection.completed = count, False
            unfinished = count - connection.received
            if unfinished > connection.most:
                found[number] = f"{unfinished} bytes came and are no message yet"
            elif not connection.is_worker and now - connection.since > _HELLO_S:
                found[number] = f"no HELLO came within {_HELLO_S:g} s"
        strangers = sorted(
            (connection.since, number)
            for number, connection in self._connections.items()
            if not (connection.is_worker or connection.hung_up or number in found)
        )
        here = sum(not connection.hung_up for connection in self._connections.values())
        for _, number in strangers[: max(0, here - len(found) - self._most)]:
            found[number] = f"{here} connections are more than there is room for"
        for number in found:
            self._connections[number].hung_up = True
        return found
