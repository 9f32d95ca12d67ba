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

from collections.abc import Collection, Mapping
from dataclasses import dataclass

_STRANGER_BYTES = 64 << 10  # a handshake and the longest HELLO take 8 kB
_WORKER_BYTES = 1 << 20  # with the heartbeats of ten minutes without a read
_HELLO_S = 15.0  # a worker sends HELLO at once
UNKNOWN = "an unknown address"  # the connection ended before the kernel was asked


@dataclass(eq=False, slots=True)
class Connection:
    """A connection, and what it may send. ``peer``: ZeroMQ's name of the sender, after the first
    message. ``completed``: a message was, since the last look."""

    since: float  # when it connected, or when its worker left
    descriptor: int = -1
    inode: int = 0
    host: str = UNKNOWN
    peer: bytes = b""
    completed: bool = False
    _max_bytes: int = _STRANGER_BYTES
    _received: int = 0  # bytes by the time when its last message was complete
    _seen: int = 0  # bytes at the last look
    _grew: bool = False  # since the last call of `take_growth`
    _is_worker: bool = False
    _hung_up: bool = False

    def admitted(self) -> None:
        """Note that its worker is admitted."""
        self._is_worker = True
        self._max_bytes = max(self._max_bytes, _WORKER_BYTES)

    def left(self, now: float) -> None:
        """Note that its worker has left. Answers to its leases may still be in flight."""
        self._is_worker, self.since = False, now

    def granted(self, answer_bytes: int, leases: int = 1) -> None:
        """Note that its worker got a lease with an answer of ``answer_bytes``, and holds ``leases``
        now. The answer to one more lease may be in flight."""
        answers = (leases + 1) * answer_bytes
        self._max_bytes = max(self._max_bytes, _WORKER_BYTES + answers)

    def take_growth(self) -> bool:
        """Return whether bytes arrived since the last call, even a part of a message."""
        grew, self._grew = self._grew, False
        return grew

    def look(self, received: int, now: float) -> str:
        """Return why to close it, "" if there is no reason. ``received``: its bytes so far."""
        self._grew |= received > self._seen
        self._seen = received
        if self.completed:
            self._received, self.completed = received, False
        unfinished = received - self._received
        if unfinished > self._max_bytes:
            return f"{unfinished} bytes arrived without a complete message"
        if not self._is_worker and now - self.since > _HELLO_S:
            return f"no HELLO within {_HELLO_S:g} s"
        return ""


def judge(
    connections: Collection[Connection], received: Mapping[Connection, int], most: int, now: float
) -> dict[Connection, str]:
    """Return connections to close, with the reason, if ``most`` have room. ``received``: the bytes
    received so far on those that were looked at."""
    found = {
        each: why
        for each, count in received.items()
        if not each._hung_up and (why := each.look(count, now))
    }
    if len(connections) > most:
        here = [each for each in connections if not each._hung_up]
        surplus = max(0, len(here) - len(found) - most)
        strangers = [each for each in here if not each._is_worker and each not in found]
        for each in sorted(strangers, key=lambda each: each.since)[:surplus]:
            found[each] = f"{len(here)} connections are more than there is room for"
    for each in found:
        each._hung_up = True
    return found
