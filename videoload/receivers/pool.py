"""The receivers of a client: their processes, and which of them has which worker's data connection.
All of it runs in the I/O thread, and nothing waits.

    offered ── the worker dials and shows its ticket ──> adopted by a receiver ──> ended

This process accepts the connections, because only it knows the tickets, and hands them on. It keeps
their descriptors as well, so that it can end a connection whose receiver is dead.
"""

from __future__ import annotations

import logging
import math
import secrets
import socket
import time
from collections import deque
from collections.abc import Collection, Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

from videoload.errors import WorkerError
from videoload.processes.child import ChildProcess, end_all
from videoload.processes.restarts import Restarts
from videoload.receivers.connection import KEY_BYTES, TICKET_BYTES
from videoload.receivers.ports import DataPorts
from videoload.transport.messages import DataOffer, Place
from videoload.transport.private_channel import PrivateChannel
from videoload.transport.private_messages import (
    Abandon,
    Adopt,
    Alive,
    Ended,
    FromReceiver,
    Land,
    Landed,
    Share,
    Unshare,
)

_log = logging.getLogger(__name__)

_OFFERS, _OFFERS_S = 3, 60.0  # offers to one worker in this time; then its pixels go by ZeroMQ
_TICKET_S = 10.0  # a worker that has not dialled by then never will
_START_S = 30.0  # a receiver that does not work by then is killed
_SILENCE_S = 5.0  # ... and so is a silent one: it sends `Alive` ten times in this time
_PAUSE_S = 1.0  # if `keep` was not called for this time, this process was stopped itself


@dataclass(eq=False, slots=True)
class _Connection:
    worker: Hashable
    offer: DataOffer
    since: float
    landed: bool = False  # an answer has
    receiver: _Receiver | None = None  # None: it is only offered
    end: socket.socket | None = None

    @property
    def number(self) -> int:
        return self.offer.connection


class _Receiver:
    """One process and its connections."""

    def __init__(self) -> None:
        """Raises WorkerError."""
        try:
            self.channel, theirs = PrivateChannel.pair()
        except OSError as error:
            raise WorkerError(f"cannot start a receiver: {error.strerror}") from None
        try:
            self.process = ChildProcess("videoload.receivers.process", theirs)
        except WorkerError:
            self.channel.close()
            raise
        self.heard = self.process.began
        self.works = False
        self.connections: dict[int, _Connection] = {}


class Receivers:
    """The receivers of one client. There are none before `open` and after `close`."""

    def __init__(self) -> None:
        self._wanted = 0
        self._has_keys = False
        self._receivers: list[_Receiver] = []
        self._restarts = Restarts()
        self._shares: dict[int, tuple[Share, int]] = {}
        self._tickets: dict[bytes, _Connection] = {}
        self._connections: dict[int, _Connection] = {}  # of receivers, by number
        self._of_worker: dict[Hashable, _Connection] = {}
        self._offers: dict[Hashable, deque[float]] = {}  # when each one was made
        self._useless: set[Hashable] = set()  # workers whose connection brought no answer
        self._kept = math.inf  # when `keep` was called last
        self._numbers = count()
        self._ports = DataPorts({})

    def open(self, processes: int, bound: Mapping[str, str], *, has_keys: bool) -> None:
        """Start the processes, and listen; ``bound`` as for `DataPorts`. Raises WorkerError,
        TransportError; `close` is to be called all the same."""
        self._ports, self._has_keys, self._wanted = DataPorts(bound), has_keys, processes
        for _ in range(processes):
            self._receivers.append(_Receiver())

    # Streams

    def share(self, message: Share, descriptor: int) -> None:
        """Answers may go to this arena. Its descriptor must stay open until `unshare`."""
        self._shares[message.arena] = message, descriptor
        for receiver in self._receivers:
            receiver.channel.send(message, descriptor)

    def unshare(self, arena: int) -> None:
        del self._shares[arena]
        for receiver in self._receivers:
            receiver.channel.send(Unshare(arena))

    # Workers

    def offer(self, worker: Hashable, endpoint: str) -> DataOffer | None:
        """An offer for a worker that dialled this endpoint. It ends the worker's connection. None:
        the worker's pixels come by ZeroMQ."""
        self._let_go(worker)
        port, now = self._ports.numbers.get(endpoint), time.monotonic()
        offers = self._offers.setdefault(worker, deque(maxlen=_OFFERS))
        too_many = len(offers) == _OFFERS and now - offers[0] < _OFFERS_S
        if port is None or too_many or worker in self._useless or not self._working:
            return None
        offers.append(now)
        key = secrets.token_bytes(KEY_BYTES) if self._has_keys else b""
        offer = DataOffer(next(self._numbers), port, secrets.token_bytes(TICKET_BYTES), key)
        self._tickets[offer.ticket] = self._of_worker[worker] = _Connection(worker, offer, now)
        return offer

    def land(
        self, worker: Hashable, connection: int, lease: int, place: Place | None, size: int
    ) -> bool:
        """The answer to ``lease`` comes on this data connection and goes to ``place``. `Landed` or
        `Ended` follows. False: the connection has ended already."""
        at = self._of_worker.get(worker)
        if at is None or at.receiver is None or at.number != connection:
            return False
        at.receiver.channel.send(Land(connection, lease, place, size))
        return True

    def left(self, worker: Hashable) -> None:
        """The worker has left. The `Ended` of its connection follows."""
        self._offers.pop(worker, None)
        self._useless.discard(worker)
        self._let_go(worker)

    def lacks_offer(self, worker: Hashable) -> bool:
        """Whether this worker has no connection and no offer."""
        return worker not in self._of_worker

    def worker_of(self, connection: int) -> Hashable:
        """The worker of a connection; None if it has left, or got another offer."""
        at = self._connections.get(connection)
        return None if at is None or self._of_worker.get(at.worker) is not at else at.worker

    # Events

    def watched(self) -> dict[socket.socket, bool]:
        """Sockets that become readable when there is something to `read`. The value tells whether
        there is something to send when the socket becomes writable."""
        return dict.fromkeys(self._ports.watched(), False) | {
            receiver.channel.socket: receiver.channel.is_full for receiver in self._receivers
        }

    def read(self, ready: Collection[object]) -> Iterator[FromReceiver]:
        """Accept what workers dial, and yield what receivers say: `Landed`, `Ended`, and `Alive`
        when a receiver begins to work. ``ready`` holds the descriptors of ready sockets."""
        for ticket, end in self._ports.arrived(ready, expected=len(self._tickets)):
            self._take_in(ticket, end)
        for receiver in list(self._receivers):
            receiver.channel.flush()
            if receiver.channel.socket.fileno() in ready:
                yield from self._hear(receiver)

    def keep(self, now: float) -> Iterator[FromReceiver]:
        """Kill receivers that hang, and start missing ones. Yields as `read` does."""
        self._ports.keep(now)
        pause_s, self._kept = now - self._kept, now
        for offered in list(self._tickets.values()):
            if now - offered.since > _TICKET_S:
                self._let_go(offered.worker)
        for receiver in list(self._receivers):
            receiver.channel.flush()  # the kernel may have had too many descriptors on the way
            if pause_s > _PAUSE_S:
                receiver.heard += pause_s
            if receiver.process.status is not None:  # a fork may hold its channel
                yield from self._hear(receiver)
                if receiver in self._receivers:
                    yield from self._bury(receiver)
            elif now - receiver.heard > (_SILENCE_S if receiver.works else _START_S):
                _log.warning("receiver process %d hangs; killing it", receiver.process.pid)
                receiver.process.kill()
        while len(self._receivers) < self._wanted and self._restarts.is_due(now):
            try:
                receiver = _Receiver()
            except WorkerError as error:
                _log.warning("%s; trying again", error)
                self._restarts.start_failed(now, now)
                return
            self._receivers.append(receiver)
            for message, descriptor in self._shares.values():
                receiver.channel.send(message, descriptor)

    def close(self) -> None:
        self._ports.close()
        end_all(receiver.process for receiver in self._receivers)
        for receiver in self._receivers:
            receiver.channel.close()
        self._receivers.clear()
        for connection in list(self._connections.values()):
            self._forget(connection)

    @property
    def _working(self) -> list[_Receiver]:
        return [receiver for receiver in self._receivers if receiver.works]

    def _take_in(self, ticket: bytes, end: socket.socket) -> None:
        """Somebody has dialled and shown this ticket."""
        connection = self._tickets.get(ticket)
        if connection is None or not self._working:
            end.close()
            if connection is not None:
                self._let_go(connection.worker)
            return
        del self._tickets[ticket]
        receiver = min(self._working, key=lambda receiver: len(receiver.connections))
        connection.receiver, connection.end = receiver, end
        self._connections[connection.number] = connection
        receiver.connections[connection.number] = connection
        receiver.channel.send(Adopt(connection.number, connection.offer.key), end.fileno())

    def _let_go(self, worker: Hashable) -> None:
        at = self._of_worker.pop(worker, None)
        if at is None:
            return
        self._tickets.pop(at.offer.ticket, None)
        if at.receiver is not None:
            at.receiver.channel.send(Abandon(at.number))

    def _hear(self, receiver: _Receiver) -> Iterator[FromReceiver]:
        try:
            for message, _ in receiver.channel.receive_all():
                receiver.heard = time.monotonic()
                if isinstance(message, Landed):
                    if (at := self._connections.get(message.connection)) is not None:
                        at.landed = True
                    yield message
                elif isinstance(message, Ended):
                    yield from self._ended(message)
                elif isinstance(message, Alive) and not receiver.works:
                    receiver.works = True
                    self._restarts.worked()
                    yield message
        except EOFError:
            yield from self._bury(receiver)

    def _ended(self, ended: Ended) -> Iterator[FromReceiver]:
        """A connection has ended. It is forgotten after the caller has seen the `Ended`."""
        connection = self._connections.get(ended.connection)
        if connection is not None:
            is_current = self._of_worker.get(connection.worker) is connection
            if is_current and not (connection.landed or ended.of_receiver):
                self._useless.add(connection.worker)
            yield ended
            self._forget(connection)

    def _forget(self, connection: _Connection) -> None:
        del self._connections[connection.number]
        if connection.receiver is not None:
            connection.receiver.connections.pop(connection.number, None)
        if self._of_worker.get(connection.worker) is connection:
            del self._of_worker[connection.worker]
        if connection.end is not None:
            with suppress(OSError):  # a dead receiver may not have closed it
                connection.end.shutdown(socket.SHUT_RDWR)
            connection.end.close()

    def _bury(self, receiver: _Receiver) -> Iterator[FromReceiver]:
        """A receiver has closed its channel, so it is dead or about to be."""
        end_all([receiver.process])
        self._receivers.remove(receiver)
        receiver.channel.close()
        _log.warning("receiver process %d ended; another takes its place", receiver.process.pid)
        if not receiver.works:
            self._restarts.start_failed(receiver.process.began, time.monotonic())
        for connection in list(receiver.connections.values()):
            yield from self._ended(Ended(connection.number, "its receiver ended", True))
