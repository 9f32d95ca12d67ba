"""The trainers of a worker: its connections to them, and whose lease comes next.

    name ── resolve ──> addresses ── one connection each ──> dialling -> greeted -> welcomed
             (again and again)                            ^──────── disconnected <┘

A host name may stand for many trainers (a headless service: one address per pod), and for other
ones tomorrow, so it is looked up again and again; ZeroMQ alone would take its first address and
keep it. A look-up may block for long: it runs in a thread of its own, since the worker's one thread
owes every trainer its heartbeat.

Fairness is by decoding time: the next lease comes from the trainer that has used least of it. A
trainer with heavy clips takes fewer of them, not more of the worker. A trainer that asks for
nothing saves up nothing: after a pause it is owed `_OWED_S` at most, so it starves no other.
"""

from __future__ import annotations

import logging
import math
import os
import random
import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from videoload.decoding.software import software
from videoload.errors import ProtocolError, TransportError
from videoload.receivers.connection import PixelSender
from videoload.storage.roots import is_url
from videoload.transport.addresses import is_name
from videoload.transport.messages import (
    Bye,
    Compare,
    FromTrainer,
    FromWorker,
    Heartbeat,
    Hello,
    Lease,
    Notice,
    Refused,
    Result,
    Welcome,
)
from videoload.transport.private_messages import WorkerSettings
from videoload.transport.sockets import Dealer, check_dial

if TYPE_CHECKING:
    import zmq

_log = logging.getLogger(__name__)

Resolve = Callable[[str], list[str]]

_POLL_MS = 200  # a signal is seen at most so long after it came
# After a RESULT, the next LEASE of that trainer is waited for: 2 ms are a round trip, 10 a trainer
# whose I/O thread has to wait for its other threads. Never longer than a fiftieth of what it is
# owed.
_NEXT_S, _NEXT_MAX_S, _NEXT_SHARE = 0.002, 0.010, 0.02
_UNREACHABLE_S = 3.0  # a warning tells of a trainer that cannot be reached for so long
_REMIND_S = 60.0  # ... and so often after that
_WELCOME_S = 2.0  # a HELLO without an answer for so long is sent again, on a fresh socket
_SILENCE_BEATS = 40  # a trainer silent for so many heartbeats is dialled again
# The back-off after a REFUSED, doubled by each one that follows within a minute: a single garbled
# message costs little, and a worker that is refused does not flood the trainer.
_REST_S, _REST_MAX_S = 0.25, 5.0
_OWED_S = 0.25  # of decoding: about what a pause of one batch costs
_QUEUED = 64  # leases of one trainer that are queued here; it grants fewer
_RESOLVE_S = 5.0  # a name is looked up so often while not all of its trainers are connected
_RESOLVE_AGAIN_S = 30.0  # ... and while they are


class Trainers:
    """One connection for each address that the trainers' names stand for now."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], settings: WorkerSettings, resolve: Resolve
    ) -> None:
        """Begin to dial. Raises TransportError: not an address, or keys that are missing."""
        self._context = context
        self._settings = settings
        self._names: list[_Name] = []
        self._connections: dict[str, TrainerConnection] = {}
        self._last: TrainerConnection | None = None  # who was served last, and until when
        self._served = 0.0
        for address in settings.trainers:
            check_dial(address, keys=settings.keys, insecure=settings.insecure)
            if is_name(address):
                self._names.append(_Name(address, resolve))
            elif address not in self._connections:
                self._connections[address] = TrainerConnection(context, address, address, settings)

    def __iter__(self) -> Iterator[TrainerConnection]:
        return iter(self._connections.values())

    def keep(self, now: float, frames: int) -> None:
        """Read what came, and send, dial or look up what is due."""
        self.read()
        for connection in self:
            connection.keep(now, frames)
        for name in self._names:
            self._follow(name, now)

    def read(self) -> None:
        """Read what came."""
        for connection in self:
            connection.read()

    def beat(self, now: float, frames: int) -> None:
        """Send the heartbeats that are due."""
        for connection in self:
            connection.beat(now, frames)

    def tell_of_import(self, frames: int, *, begins: bool) -> None:
        """Tell all trainers why they hear nothing for a while, and when that is over."""
        for connection in self:
            if connection.welcomed:
                connection.say(Heartbeat(frames, importing=begins))

    def next_lease(self, now: float) -> tuple[TrainerConnection, Lease] | None:
        """The lease to work on next, and its trainer's connection."""
        waiting = [connection for connection in self if connection.leases]
        if not waiting or self._patience_s(now) > 0:
            return None
        chosen = min(waiting, key=lambda connection: connection.used_s)
        for connection in self:
            if not connection.leases:
                connection.used_s = max(connection.used_s, chosen.used_s - _OWED_S)
        return chosen, chosen.leases.popleft()

    def served(self, connection: TrainerConnection, seconds: float, now: float) -> None:
        """A lease of ``connection`` took so many seconds."""
        connection.used_s += seconds
        self._last, self._served = connection, now

    def wait_ms(self, now: float) -> int:
        """How long to wait for messages before `next_lease` has one, or a heartbeat is due."""
        if any(connection.leases for connection in self):
            return math.ceil(1000 * self._patience_s(now))
        return math.ceil(min([_POLL_MS, *(1000 * connection.due_s(now) for connection in self)]))

    def _patience_s(self, now: float) -> float:
        """How much longer to wait for the next lease of the trainer that was just served, if it is
        owed more than the others: its clips are so light that the next lease is still on its way.
        A heavy lease of another trainer in each such gap would take nearly all of this worker."""
        last = self._last
        if last is None or last.leases or not last.welcomed:
            return 0.0
        owed_s = min(connection.used_s for connection in self if connection.leases) - last.used_s
        if owed_s <= 0:
            return 0.0
        patience_s = max(_NEXT_S, min(_NEXT_MAX_S, _NEXT_SHARE * owed_s))
        return max(0.0, self._served + patience_s - now)

    def close(self) -> None:
        """Disconnect from all, for good."""
        for connection in self:
            connection.close()

    def _follow(self, name: _Name, now: float) -> None:
        """Dial the addresses that are new, and forget those that no longer exist."""
        mine = [connection for connection in self if connection.name is name]
        name.keep(now, all_there=bool(mine) and all(connection.welcomed for connection in mine))
        addresses = name.addresses
        if not addresses:  # nothing is known now: those that were known may still be right
            if not mine:
                name.warn_unreachable(now)
            return
        name.answered(now)
        for connection in mine:
            if connection.address not in addresses and not connection.welcomed:
                connection.close()
                del self._connections[connection.address]
        for address in addresses:
            if address not in self._connections:
                label = f"{name.address} ({address})"
                self._connections[address] = TrainerConnection(
                    self._context, address, label, self._settings, name
                )


class _Name:
    """The addresses of a host name, looked up in the background."""

    def __init__(self, address: str, resolve: Resolve) -> None:
        self.address = address
        self.addresses: list[str] = []
        self._resolve = resolve
        self._why = "its name is still being looked up"
        self._thread: threading.Thread | None = None
        self._looked_up: float | None = None
        self._warn_at = time.monotonic() + _UNREACHABLE_S

    def keep(self, now: float, *, all_there: bool) -> None:
        """Look it up again if that is due."""
        if self._thread is not None and self._thread.is_alive():
            return
        pause_s = _RESOLVE_AGAIN_S if all_there else _RESOLVE_S
        if self._looked_up is None or now - self._looked_up >= pause_s:
            self._looked_up = now
            # A daemon: the exit does not wait for a resolver that does not answer.
            self._thread = threading.Thread(target=self._look_up_name, name="resolver", daemon=True)
            self._thread.start()

    def answered(self, now: float) -> None:
        """It has addresses now; the connections have their own warnings."""
        self._warn_at = now + _UNREACHABLE_S

    def warn_unreachable(self, now: float) -> None:
        """Warn why it cannot be dialled, if it is time."""
        if now > self._warn_at:
            _log.warning("trainer %s cannot be reached: %s; still trying", self.address, self._why)
            self._warn_at = now + _REMIND_S

    def _look_up_name(self) -> None:
        try:
            self.addresses = self._resolve(self.address)
        except TransportError as error:
            self._why = str(error)


class TrainerConnection:
    """One trainer: dialling -> greeted -> welcomed, and back to dialling."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        address: str,
        label: str,
        settings: WorkerSettings,
        name: _Name | None = None,
    ) -> None:
        self.address = address
        self.name = name
        self.dealer: Dealer | None = None
        self._pixels: PixelSender | None = None
        self.leases: deque[Lease] = deque()
        self.comparisons: deque[Compare] = deque(maxlen=_QUEUED)
        self.expected = -1  # the last lease whose files were asked for before its turn
        self.used_s = 0.0  # of decoding time; what counts is the difference to others
        self._context = context
        self._label = label
        self._settings = settings
        self._id = uuid.uuid4().hex  # the same after a cut: this worker is not dead
        self._warn_at = time.monotonic() + _UNREACHABLE_S
        self._rest_s, self._rest_until = _REST_S, -math.inf
        self._beat_s: float | None = None
        self._greeted: float | None = None
        self._heard = self._said = 0.0
        self._dial()

    @property
    def greeted(self) -> bool:
        """Whether HELLO was sent; before that, this waits for a connection to send it on."""
        return self._greeted is not None

    @property
    def welcomed(self) -> bool:
        """Whether the trainer has admitted this worker."""
        return self._beat_s is not None

    def read(self) -> None:
        """Read what came: leases wait in ``leases``, other messages are handled at once."""
        while self.dealer is not None and len(self.leases) < _QUEUED:
            try:
                message = self.dealer.receive()
            except ProtocolError as error:
                _log.error("trainer %s: %s", self._label, error)
                self._rest()
                return
            if message is None:
                return
            self._heard = time.monotonic()
            self._take(message)

    def keep(self, now: float, frames: int) -> None:
        """Send HELLO or a heartbeat, or dial again, whichever is due."""
        if now < self._rest_until:
            return
        if self.dealer is None:
            self._dial()
        if self._greeted is None:
            self._greet(now)
        elif self._beat_s is None:
            if self.dealer is not None and self.dealer.hung_up():
                # It has no room. On the next connection of this socket no HELLO would be said.
                self._rest()
            elif now - self._greeted > _WELCOME_S:
                if now > self._warn_at:
                    self._warn_unreachable(now, "does not answer; still trying")
                self._hang_up()
        elif now - self._heard > _SILENCE_BEATS * self._beat_s and not self.leases:
            _log.warning("trainer %s has fallen silent; dialling again", self._label)
            self._hang_up()
        else:
            self.beat(now, frames)

    def due_s(self, now: float) -> float:
        """How long until the next heartbeat is due."""
        return math.inf if self._beat_s is None else max(0.0, self._said + self._beat_s - now)

    def beat(self, now: float, frames: int) -> None:
        """Send a heartbeat, if one is due."""
        if self.due_s(now) > 0:
            return
        if not self.say(Heartbeat(frames)):
            _log.info("trainer %s hung up; dialling again", self._label)
            self._warn_at = now + _UNREACHABLE_S
            self._hang_up()

    def say(self, message: FromWorker, pixels: npt.NDArray[np.uint8] | None = None) -> bool:
        """Send a message; False if the trainer is not connected now. An answer is then dropped, and
        not missed: the trainer grants the lease's clips to another worker."""
        if self.dealer is None or not self.dealer.send(message, pixels):
            return False
        self._said = time.monotonic()
        return True

    def answer(self, result: Result, pixels: npt.NDArray[np.uint8] | None) -> None:
        """Send an answer; its ``pixels``, if they are not in their place, by the data connection
        where there is one."""
        if pixels is None or self._pixels is None or not self._pixels.is_open:
            self.say(result, pixels)
            return
        result.apart = self._pixels.number
        if self.say(result):
            self._pixels.send(result.lease, pixels)

    def give_back(self, reason: str) -> None:
        """Hand all leases back, for others to take, and dial again after a rest."""
        _log.warning("trainer %s: its leases are handed back: %s", self._label, reason)
        self.say(Bye(reason, kept_from_leases=True))
        self._rest(drain=True)
        self._warn_at = self._rest_until + _UNREACHABLE_S  # it was reached

    def close(self, *, drain: bool = False) -> None:
        """Disconnect."""
        self.leases.clear()
        if self.dealer is not None:
            self.dealer.close(drain=drain)
            self.dealer = None
        self._close_pixels()

    def _take(self, message: FromTrainer) -> None:
        match message:
            case Lease():
                self.leases.append(message)
            case Compare():
                self.comparisons.append(message)
            case Notice():
                _log.warning("trainer %s: %s", self._label, message.text)
            case Welcome():
                if not self.welcomed:
                    _log.info("serving trainer %s", self._label)
                self._beat_s = message.beat_s
                self._close_pixels()
                if message.data is not None:
                    host = urlsplit(self.address).hostname or ""
                    self._pixels = PixelSender(host, message.data)
                self.say(Heartbeat())  # at once: it tells how far away this worker is
            case Refused():
                _log.error("trainer %s refuses this worker: %s", self._label, message.reason)
                self._rest()
                self._warn_at = self._rest_until + _UNREACHABLE_S
            case Bye():
                _log.info("trainer %s: %s; waiting for the next", self._label, message.reason)
                self._warn_at = time.monotonic() + _UNREACHABLE_S
                self._hang_up()
            case _:
                pass

    def _close_pixels(self) -> None:
        if self._pixels is not None:
            self._pixels.close()
            self._pixels = None

    def _dial(self) -> None:
        self.dealer = Dealer(
            self._context, self.address,
            keys=self._settings.keys, insecure=self._settings.insecure,
        )  # fmt: skip

    def _greet(self, now: float) -> None:
        token, root = self._settings.token, self._settings.root
        hello = Hello(
            self._id, socket.gethostname(), os.getpid(), "" if token else software(), token,
            _copy(root), fetches=root is not None and is_url(root),
        )  # fmt: skip
        if self.say(hello):
            self._greeted = self._heard = now
        elif now > self._warn_at:
            self._warn_unreachable(
                now, "cannot be reached (or does not know this worker's key); still trying"
            )

    def _warn_unreachable(self, now: float, what: str) -> None:
        _log.warning("trainer %s %s", self._label, what)
        self._warn_at = now + _REMIND_S

    def _rest(self, *, drain: bool = False) -> None:
        self._hang_up(drain=drain)
        now = time.monotonic()
        again = now - self._rest_until < _REMIND_S
        self._rest_s = min(2 * self._rest_s, _REST_MAX_S) if again else _REST_S
        # Many that were refused together are not to come back together.
        self._rest_until = now + random.uniform(0.5, 1) * self._rest_s

    def _hang_up(self, *, drain: bool = False) -> None:
        self.close(drain=drain)
        self.expected = -1
        self._greeted = self._beat_s = None


def _copy(root: str | None) -> str:
    """What the workers of one folder on one host have in common, and no others."""
    if root is None:
        return ""
    return blake2b(f"{socket.gethostname()}:{root}".encode(errors="replace")).hexdigest()[:32]
