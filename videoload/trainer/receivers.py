"""The receivers of a client: their processes, the port that they take pixels at, and which worker's
data connection is at which of them. All of it is the I/O thread's, and none of it waits.

    offered ── the worker dials, shows its ticket ──> adopted (by a receiver) ──> ended

This process accepts: it alone knows the tickets, and it hands the connection on. It keeps the
descriptor as well, so that it can end a connection whose receiver is dead.
"""

from __future__ import annotations

import logging
import secrets
import socket
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from urllib.parse import urlsplit

from videoload import native
from videoload.errors import TransportError, WorkerError
from videoload.transport.data_connection import KEY_BYTES, TICKET_BYTES
from videoload.transport.messages import (
    Abandon,
    Adopt,
    DataOffer,
    Ended,
    Land,
    Landed,
    Place,
    ReceiverSettings,
    Share,
    Unshare,
)
from videoload.transport.private_channel import PrivateChannel
from videoload.worker.restarts import Restarts
from videoload.worker.supervisor import start

_log = logging.getLogger(__name__)

_TICKET_S = 5.0  # who dials shows a ticket within so long
_STRANGERS = 64  # who have not shown one yet; the first of more make room
_OFFERS = 3  # to one worker: after so many broken connections its pixels go by ZeroMQ
_SILENCE_S = 10.0  # a receiver beats 20 times in it; one that is silent for so long is killed
_KILL_S = 0.5
_BACKLOG = 1024


@dataclass(eq=False, slots=True)
class _Connection:
    worker: object
    offer: DataOffer
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
            self.process = start("videoload.transport.receiver", theirs)
        except WorkerError:
            self.channel.close()
            raise
        self.channel.send(ReceiverSettings(native.switched_off()))
        self.began = self.heard = time.monotonic()
        self.worked = False
        self.connections: dict[int, _Connection] = {}


@dataclass(eq=False, slots=True)
class _Stranger:
    since: float
    ticket: bytearray = field(default_factory=bytearray)


class Receivers:
    """Those of one client."""

    def __init__(self, processes: int, bound: Mapping[str, str], *, has_keys: bool) -> None:
        """Start them, and listen at the port after that of each TCP address, or at a free one where
        it took a free one. ``bound``: the address asked for, by the endpoint that it became.
        Raises WorkerError, TransportError."""
        self._wanted = processes
        self._has_keys = has_keys
        self._receivers: list[_Receiver] = []
        self._restarts = Restarts()
        self._shares: dict[int, tuple[Share, int]] = {}
        self._ports: dict[str, int] = {}
        self._listening: list[socket.socket] = []
        self._strangers: dict[socket.socket, _Stranger] = {}
        self._tickets: dict[bytes, _Connection] = {}
        self._connections: dict[int, _Connection] = {}
        self._of_worker: dict[object, _Connection] = {}
        self._offers: dict[object, int] = {}
        self._numbers = count()
        try:
            for endpoint, address in bound.items():
                if endpoint.startswith("tcp://"):
                    listening = _listen(endpoint, any_port=address.endswith(":*"))
                    self._listening.append(listening)
                    self._ports[endpoint] = listening.getsockname()[1]
            for _ in range(processes):
                self._receivers.append(_Receiver())
        except (TransportError, WorkerError):
            self.close()
            raise

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

    def offer(self, worker: object, endpoint: str) -> DataOffer | None:
        """What to offer a worker that dialled this endpoint, in the place of what it has; None: its
        pixels come by ZeroMQ."""
        self._let_go(worker)
        port, offers = self._ports.get(endpoint), self._offers.get(worker, 0)
        if port is None or offers == _OFFERS:
            return None
        self._offers[worker] = offers + 1
        key = secrets.token_bytes(KEY_BYTES) if self._has_keys else b""
        ticket = secrets.token_bytes(TICKET_BYTES)
        offer = DataOffer(next(self._numbers), port, ticket, key)
        offered = _Connection(worker, offer)
        self._tickets[offer.ticket] = self._of_worker[worker] = offered
        return offer

    def land(
        self, worker: object, connection: int, lease: int, place: Place | None, size: int
    ) -> bool:
        """The answer to ``lease`` comes by this worker's data connection, and goes to ``place``,
        until it has `Landed` or the connection has `Ended`. False: it has ended already."""
        at = self._of_worker.get(worker)
        if at is None or at.receiver is None or at.number != connection:
            return False
        at.receiver.channel.send(Land(connection, lease, place, size))
        return True

    def left(self, worker: object) -> None:
        """This worker is none any more. That its connection has `Ended` is still to come."""
        self._offers.pop(worker, None)
        self._let_go(worker)

    def worker_of(self, connection: int) -> object:
        """Whose connection that is; None: its worker has left, or another one was offered."""
        at = self._connections.get(connection)
        return None if at is None or self._of_worker.get(at.worker) is not at else at.worker

    # What came

    def watched(self) -> dict[socket.socket, bool]:
        """Sockets that become readable when there is something to `read`; and whether there is
        something to be sent when they become writable."""
        quiet = [*self._listening, *self._strangers]
        return dict.fromkeys(quiet, False) | {
            receiver.channel.socket: receiver.channel.is_full for receiver in self._receivers
        }

    def read(self, ready: Collection[object]) -> Iterator[Landed | Ended]:
        """What receivers have to say, after `watched` sockets were found ``ready`` (their
        descriptors are in it); and take what workers dial."""
        now = time.monotonic()
        for listening in self._listening:
            if listening.fileno() in ready:
                self._accept(listening, now)
        for stranger in list(self._strangers):
            self._read_ticket(stranger)
        for receiver in list(self._receivers):
            receiver.channel.flush()
            if receiver.channel.socket.fileno() in ready:
                yield from self._hear(receiver, now)

    def keep(self, now: float) -> None:
        """Time passes: hang up on those that show no ticket, kill receivers that hang, and start
        those that are missing."""
        for end, stranger in list(self._strangers.items()):
            if now - stranger.since > _TICKET_S:
                self._hang_up(end)
        for receiver in self._receivers:
            if now - receiver.heard > _SILENCE_S and receiver.worked:
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
        for end in list(self._strangers):
            self._read_ticket(end)

    def close(self) -> None:
        """End them."""
        for end in [*self._listening, *self._strangers]:
            end.close()
        for receiver in self._receivers:
            receiver.process.kill()  # it has nothing to lose
        for receiver in self._receivers:
            with suppress(subprocess.TimeoutExpired):
                receiver.process.wait(_KILL_S)
            receiver.channel.close()
        for connection in self._connections.values():
            if connection.end is not None:
                connection.end.close()
        self._listening.clear()
        self._strangers.clear()
        self._receivers.clear()

    def _let_go(self, worker: object) -> None:
        at = self._of_worker.pop(worker, None)
        if at is None:
            return
        self._tickets.pop(at.offer.ticket, None)
        if at.receiver is not None:
            at.receiver.channel.send(Abandon(at.number))

    def _accept(self, listening: socket.socket, now: float) -> None:
        with suppress(OSError):  # nobody is there, or no descriptor is left
            while True:
                end, _ = listening.accept()
                end.setblocking(False)
                self._strangers[end] = _Stranger(now)
                if len(self._strangers) > _STRANGERS:
                    self._hang_up(next(iter(self._strangers)))

    def _read_ticket(self, end: socket.socket) -> None:
        shown = self._strangers[end].ticket
        if len(shown) < TICKET_BYTES:
            try:
                got = end.recv(TICKET_BYTES - len(shown))
            except BlockingIOError:
                return
            except OSError:
                got = b""
            shown += got
            if got and len(shown) < TICKET_BYTES:
                return
        if bytes(shown) not in self._tickets:
            self._hang_up(end)
            return
        if not self._receivers:  # until `keep` has started one
            return
        connection = self._tickets.pop(bytes(shown))
        del self._strangers[end]
        receiver = min(self._receivers, key=lambda receiver: len(receiver.connections))
        connection.receiver, connection.end = receiver, end
        self._connections[connection.number] = connection
        receiver.connections[connection.number] = connection
        receiver.channel.send(Adopt(connection.number, connection.offer.key), end.fileno())

    def _hang_up(self, stranger: socket.socket) -> None:
        del self._strangers[stranger]
        stranger.close()

    def _hear(self, receiver: _Receiver, now: float) -> Iterator[Landed | Ended]:
        try:
            for message, _ in receiver.channel.receive_all():
                receiver.heard = now
                if not receiver.worked:
                    receiver.worked = True
                    self._restarts.worked()
                if isinstance(message, Landed):
                    yield message
                elif isinstance(message, Ended):
                    yield from self._ended(message)
        except EOFError:
            yield from self._bury(receiver, now)

    def _ended(self, ended: Ended) -> Iterator[Landed | Ended]:
        """Its connection is told of, with whose it was, before it is forgotten."""
        connection = self._connections.get(ended.connection)
        if connection is None:
            return
        yield ended
        self._forget(connection)

    def _forget(self, connection: _Connection) -> None:
        del self._connections[connection.number]
        if connection.receiver is not None:
            connection.receiver.connections.pop(connection.number, None)
        if self._of_worker.get(connection.worker) is connection:
            del self._of_worker[connection.worker]
        if connection.end is not None:
            with suppress(OSError):  # its receiver may be alive still, and have it as well
                connection.end.shutdown(socket.SHUT_RDWR)
            connection.end.close()

    def _bury(self, receiver: _Receiver, now: float) -> Iterator[Landed | Ended]:
        """It has closed its channel, so it is dead, or about to be."""
        receiver.process.kill()
        receiver.process.wait()
        self._receivers.remove(receiver)
        receiver.channel.close()
        _log.warning("receiver process %d ended; another takes its place", receiver.process.pid)
        if not receiver.worked:
            self._restarts.start_failed(receiver.began, now)
        for connection in list(receiver.connections.values()):
            yield from self._ended(Ended(connection.number, "its receiver ended"))


def _listen(endpoint: str, *, any_port: bool) -> socket.socket:
    """A socket at the port after that of ``endpoint``, or at a free one. Raises TransportError."""
    parts = urlsplit(endpoint)
    host, port = parts.hostname or "", 0 if any_port else (parts.port or 0) + 1
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server(
            (host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=host == "::"
        )
    except (OSError, OverflowError) as error:
        raise TransportError(
            f"cannot listen at port {port} of {host}, where receivers take pixels: {error}"
        ) from None
    listening.setblocking(False)
    return listening
