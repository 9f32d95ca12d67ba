"""The receivers of a client: their processes, and which worker's data connection is at which of
them. All of it is the I/O thread's, and none of it waits.

    offered ── the worker dials, shows its ticket ──> adopted (by a receiver) ──> ended

This process takes the connections in, since it alone knows the tickets, and hands them on. It keeps
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

_OFFERS, _OFFERS_S = 3, 60.0  # to one worker, in so long: then its pixels go by ZeroMQ
_TICKET_S = 10.0  # a worker dials within so long, or not at all
_START_S = 30.0  # a receiver that does not work by then is killed
_SILENCE_S = 5.0  # ... as is one that was silent for so long: it beats ten times in it
_PAUSE_S = 1.0  # who was not asked for so long was stopped itself


@dataclass(eq=False, slots=True)
class _Connection:
    worker: Hashable
    offer: DataOffer
    since: float
    landed: bool = False  # some answer has
    receiver: _Receiver | None = None  # before: it is offered
    end: socket.socket | None = None

    @property
    def number(self) -> int:
        return self.offer.connection


class _Receiver:
    """One process, and what it has."""

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
    """Those of one client: none before `open`, nor after `close`."""

    def __init__(self) -> None:
        self._wanted = 0
        self._has_keys = False
        self._receivers: list[_Receiver] = []
        self._restarts = Restarts()
        self._shares: dict[int, tuple[Share, int]] = {}
        self._tickets: dict[bytes, _Connection] = {}
        self._connections: dict[int, _Connection] = {}  # those that receivers have, by number
        self._of_worker: dict[Hashable, _Connection] = {}
        self._offers: dict[Hashable, deque[float]] = {}  # when each was made
        self._useless: set[Hashable] = set()  # workers whose connection brought no answer
        self._kept = math.inf  # when `keep` was called last
        self._numbers = count()
        self._ports = DataPorts({})

    def open(self, processes: int, bound: Mapping[str, str], *, has_keys: bool) -> None:
        """Start so many, and listen; ``bound`` as for `DataPorts`. Raises WorkerError,
        TransportError; what was begun is still to be closed."""
        self._ports, self._has_keys, self._wanted = DataPorts(bound), has_keys, processes
        for _ in range(processes):
            self._receivers.append(_Receiver())

    # Streams

    def share(self, message: Share, descriptor: int) -> None:
        """Pixels may be for this arena from now on. Its descriptor stays open until `unshare`."""
        self._shares[message.arena] = message, descriptor
        for receiver in self._receivers:
            receiver.channel.send(message, descriptor)

    def unshare(self, arena: int) -> None:
        """The arena is no longer used."""
        del self._shares[arena]
        for receiver in self._receivers:
            receiver.channel.send(Unshare(arena))

    # Workers

    def offer(self, worker: Hashable, endpoint: str) -> DataOffer | None:
        """What to offer a worker that dialled this endpoint, in the place of what it has; None: its
        pixels come by ZeroMQ."""
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
        """The answer to ``lease`` comes by this worker's data connection, and goes to ``place``,
        until it has `Landed` or the connection has `Ended`. False: it has ended already."""
        at = self._of_worker.get(worker)
        if at is None or at.receiver is None or at.number != connection:
            return False
        at.receiver.channel.send(Land(connection, lease, place, size))
        return True

    def left(self, worker: Hashable) -> None:
        """This worker is none any more. That its connection has `Ended` is still to come."""
        self._offers.pop(worker, None)
        self._useless.discard(worker)
        self._let_go(worker)

    def lacks_offer(self, worker: Hashable) -> bool:
        """Whether this worker has no connection, and none is offered to it."""
        return worker not in self._of_worker

    def worker_of(self, connection: int) -> Hashable:
        """Whose connection that is; None: its worker has left, or another one was offered."""
        at = self._connections.get(connection)
        return None if at is None or self._of_worker.get(at.worker) is not at else at.worker

    # What came

    def watched(self) -> dict[socket.socket, bool]:
        """Sockets that become readable when there is something to `read`; and whether there is
        something to be sent when they become writable."""
        return dict.fromkeys(self._ports.watched(), False) | {
            receiver.channel.socket: receiver.channel.is_full for receiver in self._receivers
        }

    def read(self, ready: Collection[object]) -> Iterator[FromReceiver]:
        """What receivers have to say, after `watched` sockets were found ``ready`` (their
        descriptors are in it): `Landed`, `Ended`, and `Alive` when one has come as far as to work.
        And take what workers dial."""
        for ticket, end in self._ports.arrived(ready, expected=len(self._tickets)):
            self._take_in(ticket, end)
        for receiver in list(self._receivers):
            receiver.channel.flush()
            if receiver.channel.socket.fileno() in ready:
                yield from self._hear(receiver)

    def keep(self, now: float) -> Iterator[FromReceiver]:
        """Time passes: kill receivers that hang, and start those that are missing. What comes of
        it is told as by `read`."""
        self._ports.keep(now)
        pause_s, self._kept = now - self._kept, now
        for offered in list(self._tickets.values()):
            if now - offered.since > _TICKET_S:
                self._let_go(offered.worker)
        for receiver in list(self._receivers):
            receiver.channel.flush()  # where the kernel had too many descriptors on the way
            if pause_s > _PAUSE_S:
                receiver.heard += pause_s
            if receiver.process.status is not None:  # its channel may be held by a fork's copy
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
        """End them."""
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
        """Somebody has dialled, and shown this."""
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
        """Its connection is told of before it is forgotten."""
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
            with suppress(OSError):  # a receiver that is dead has not closed it yet, perhaps
                connection.end.shutdown(socket.SHUT_RDWR)
            connection.end.close()

    def _bury(self, receiver: _Receiver) -> Iterator[FromReceiver]:
        """It has closed its channel, so it is dead, or about to be."""
        end_all([receiver.process])
        self._receivers.remove(receiver)
        receiver.channel.close()
        _log.warning("receiver process %d ended; another takes its place", receiver.process.pid)
        if not receiver.works:
            self._restarts.start_failed(receiver.process.began, time.monotonic())
        for connection in list(receiver.connections.values()):
            yield from self._ended(Ended(connection.number, "its receiver ended", True))
