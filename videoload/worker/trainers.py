"""The trainers of a worker: its connections to them, and whose lease is next.

    name ── resolve ──> addresses ── one connection each ──> connecting -> greeted -> welcomed
             (again and again)                            ^──────── disconnected <┘

A host name may stand for several trainers (a headless service has one address for each pod), and
change later. So it is looked up again and again. ZeroMQ would use the first address forever. A
look-up may block for long and runs in a thread of its own, because the worker's one thread owes
every trainer its heartbeat. Each connection uses a new socket, and reads its keys again: a trainer
may return with others.

Trainers share a worker fairly by decoding time: the next lease is of the trainer that has used
least of it. So a trainer with heavy clips gets fewer of them, and not more of the worker. An idle
trainer accumulates no credit: after a pause it is owed `_OWED_S` at most, so it starves no other
trainer.
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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.activity import Activity
from videoload.backoff import Backoff
from videoload.decoding.software import software_and_version
from videoload.errors import ProtocolError, TransportError
from videoload.logs import Log, RateLimitedLog
from videoload.storage.roots import copy_name, is_url
from videoload.wire.addresses import is_name
from videoload.wire.messages import (
    Bye,
    FromTrainer,
    FromWorker,
    Heartbeat,
    Hello,
    Lease,
    Notice,
    Refused,
    Welcome,
)
from videoload.wire.private_messages import WorkerSettings
from videoload.wire.sockets import Dealer, check_dial

if TYPE_CHECKING:
    import zmq

_log = Log(__name__)

UNREACHABLE_S = 3.0  # before a warning that a trainer cannot be reached
REMIND_S = 60.0  # between two of these warnings
REDIAL_S = 30.0  # without a connection: a fresh socket, and the keys of today
WELCOME_S = 2.0  # a HELLO without an answer is sent again, on a fresh socket
_SILENCE_BEATS = 40  # a trainer silent for this number of heartbeats is connected to again
# The pause after a REFUSED. Each one that follows within a minute doubles it: a single garbled
# message costs little, and a worker that is refused does not flood the trainer.
_PAUSE_S, _MAX_PAUSE_S = 0.25, 5.0
_QUEUED = 64  # leases of one trainer that are queued here; it grants fewer


class Beat(NamedTuple):
    """The content of a heartbeat, for every trainer: what this worker begins next, the error of its
    storage, or the path that it waits for, and for how long."""

    at: Activity = Activity.IDLE
    storage: str = ""
    storage_s: float = 0.0


class TrainerConnection:
    """The connection to one trainer, and its leases that wait."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        address: str,
        label: str,
        settings: WorkerSettings,
        name: object = None,
        asks: Callable[[], bool] | None = None,
    ) -> None:
        """Begin to connect. ``label`` is what the log calls the trainer. ``name`` is the host name
        that stands for ``address``, if one does. ``asks``, if given, returns whether it may connect
        now."""
        self.address = address
        self.name = name
        self.dealer: Dealer | None = None
        self.leases: deque[Lease] = deque()
        # numbers of leases: the last one that was answered, and received
        self.done = self._came = 0
        self.expected = -1  # the last lease whose files were prefetched
        self.stall_s = math.inf  # without progress at a lease of this trainer
        self.used_s = 0.0  # decoding time; only the difference to other trainers counts
        self._context = context
        self._label = label
        self._settings = settings
        self._id = uuid.uuid4().hex  # the same after a cut: this worker is not dead
        self._warn_at = time.monotonic() + UNREACHABLE_S
        self._said = RateLimitedLog(_log)
        self.rejected = False  # by the trainer, when it was reached last
        self._was_refused = self._as_stranger = False
        self._pauses, self._paused_until = Backoff(_PAUSE_S, _MAX_PAUSE_S), -math.inf
        self._beat_s: float | None = None
        self._greeted: float | None = None
        self._heard = self._sent = 0.0
        self._asks = asks
        self._dialled = -math.inf
        if asks is None:
            self._dial()

    @property
    def greeted(self) -> bool:
        """Whether HELLO was sent. Before that, it waits for a connection."""
        return self._greeted is not None

    @property
    def welcomed(self) -> bool:
        """Whether the trainer has admitted this worker."""
        return self._beat_s is not None

    def read(self) -> None:
        """Read all messages. Leases wait in ``leases``, other messages are handled at once."""
        while self.dealer is not None and len(self.leases) < _QUEUED:
            try:
                message = self.dealer.receive()
            except ProtocolError as error:
                self._said.add(f"trainer {self._label}: {error}", time.monotonic())
                self._pause()
                return
            if message is None:
                return
            self._heard = time.monotonic()
            self.take(message)

    def tick(self, now: float, beat: Beat, *, may_look: bool = True) -> None:
        """Send HELLO or a heartbeat, or reconnect, if it is due. ``may_look`` at files, such as
        the root and keys: a thread that watches may not."""
        self._said.tell(now)
        if now < self._paused_until:
            return
        if self._greeted is None and (self.dealer is None or now - self._dialled > REDIAL_S):
            if not may_look and self._settings.keys is not None:
                return
            if self._asks is not None and not self._asks():
                return
            self._hang_up()
            try:
                self._dial()
            except TransportError as error:  # the keys are being changed
                self._said.add(f"cannot connect to trainer {self._label}: {error}", now)
                self._pause()
                return
        if self._greeted is None:
            self._greet(now, may_look=may_look)
        elif self._beat_s is None:
            if self.dealer is not None and self.dealer.hung_up():
                # The trainer has no room. This socket reconnects, but would not send HELLO.
                self._pause()
            elif now - self._greeted > WELCOME_S:
                if now > self._warn_at:
                    self._warn_unreachable(now, "does not respond; still trying")
                self._hang_up()
        elif now - self._heard > _SILENCE_BEATS * self._beat_s and not self.leases:
            _log.warning("trainer %s does not respond; reconnecting", self._label)
            self._hang_up()
        else:
            self.beat(now, beat)

    def due_s(self, now: float) -> float:
        """Return the time until the next heartbeat is due."""
        return math.inf if self._beat_s is None else max(0.0, self._sent + self._beat_s - now)

    def beat(self, now: float, beat: Beat) -> None:
        """Send a heartbeat, if one is due."""
        if self.due_s(now) > 0:
            return
        if not self.say(Heartbeat(self.done, *beat)):
            _log.info("trainer %s disconnected; reconnecting", self._label)
            self._warn_at = now + UNREACHABLE_S
            self._hang_up()

    def say(self, message: FromWorker, pixels: npt.NDArray[np.uint8] | None = None) -> bool:
        """Send a message; False if the trainer is not connected now. A lost answer is not missed:
        the trainer grants the lease's clips to another worker."""
        if self.dealer is None or not self.dealer.send(message, pixels):
            return False
        self._sent = time.monotonic()
        return True

    def give_back(self, reason: str) -> None:
        """Return all leases, for other workers, and reconnect after a pause."""
        level = logging.INFO if self._settings.token else logging.WARNING  # that trainer logs it
        _log.log(level, "trainer %s: its leases are handed back: %s", self._label, reason)
        self.say(Bye(reason, storage_unavailable=True))
        self._pause(drain=True)
        self._warn_at = self._paused_until + UNREACHABLE_S  # it was reached

    def close(self, *, drain: bool = False) -> None:
        self.leases.clear()
        if self.dealer is not None:
            self.dealer.close(drain=drain)
            self.dealer = None

    def take(self, message: FromTrainer) -> None:
        """Yield the trainer's messages."""
        match message:
            case Lease():
                self.leases.append(message)
                self._came = message.lease
            case Heartbeat() if message.lease > self._came:
                _log.warning("trainer %s: a lease was lost in transit; reconnecting", self._label)
                self._pause()
            case Notice():
                self._said.add(f"trainer {self._label}: {message.text}", time.monotonic())
            case Welcome():
                if not self.welcomed:
                    _log.info("serving trainer %s", self._label)
                self.rejected = False
                self._beat_s, self.stall_s = message.beat_s, message.stall_s
                self.say(Heartbeat(self.done))  # at once: it measures the round trip
            case Refused():
                self.rejected = True
                why = f"trainer {self._label} refuses this worker: {message.reason}"
                self._said.add(why, time.monotonic())
                self._pause()
                self._warn_at = self._paused_until + UNREACHABLE_S
            case Bye():
                _log.info("trainer %s: %s; waiting for the next", self._label, message.reason)
                self._warn_at = time.monotonic() + UNREACHABLE_S
                self._hang_up()
            case _:
                pass

    def _dial(self) -> None:
        """Connect on a fresh socket, with the keys that the folder has now. Raises
        TransportError."""
        self._dialled = time.monotonic()
        self.dealer = Dealer(
            self._context, self.address,
            keys=self._settings.keys, insecure=self._settings.insecure,
            as_stranger=self._as_stranger, once=self._asks is not None,
        )  # fmt: skip

    def _greet(self, now: float, *, may_look: bool) -> None:
        token, root = self._settings.token, self._settings.root
        if self.dealer is not None and self.dealer.is_connected:
            copy = self._copy(may_look=may_look)
            if self.greeted:  # by another thread, while this one looked
                return
            hello = Hello(
                self._id, socket.gethostname(), os.getpid(), software_and_version(), token, copy,
                fetches=root is not None and is_url(root),
            )  # fmt: skip
            if self.say(hello):
                self._greeted = self._heard = now
                self._was_refused = self._as_stranger = False
                return
        if self.dealer is not None and self.dealer.hung_up() and self.dealer.was_refused:
            self._was_refused = self.rejected = True
            # In turns: the keys of the trainer may go.
            self._as_stranger = self._settings.keys is None and not self._as_stranger
            self._pause()
        elif self._was_refused and now - self._dialled > WELCOME_S:
            # A trainer that closes ends a handshake like this too. Now none listens.
            self._was_refused = self.rejected = False
        if now > self._warn_at:
            self.rejected = self._was_refused
            has_keys = self._settings.keys is not None
            cause = "does not know this key" if has_keys else "has keys: give --keys"
            why = f"disconnects (it {cause})" if self._was_refused else "cannot be reached"
            self._warn_unreachable(now, f"{why}; still trying")

    def _copy(self, *, may_look: bool) -> str:
        """Return the name of the copy of the videos that it reads. While its folder does not
        answer, it is one that no other worker has."""
        root = self._settings.root
        if root is None:
            return ""
        return copy_name(root) if may_look or is_url(root) else uuid.uuid4().hex

    def _warn_unreachable(self, now: float, what: str) -> None:
        _log.warning("trainer %s %s", self._label, what)
        self._warn_at = now + REMIND_S

    def _pause(self, *, drain: bool = False) -> None:
        self._hang_up(drain=drain)
        now = time.monotonic()
        if now - self._paused_until >= REMIND_S:
            self._pauses.reset()
        # Random, so that workers that were rejected together do not reconnect together.
        self._paused_until = now + random.uniform(0.5, 1) * self._pauses.next_s()

    def _hang_up(self, *, drain: bool = False) -> None:
        self.close(drain=drain)
        self.expected = -1
        self.done = self._came = 0
        self._greeted = self._beat_s = None


Resolve = Callable[[str], list[str]]

_POLL_MS = 200  # a signal is noticed within this time
# After a RESULT, this worker waits for the next LEASE of that trainer: 2 ms are a round trip, 10 ms
# a trainer whose I/O thread waits for its other threads. It never waits for more than a fiftieth of
# the decoding time that the trainer is owed.
_NEXT_S, _NEXT_MAX_S, _NEXT_SHARE = 0.002, 0.010, 0.02
_OWED_S = 0.25  # of decoding: about what a pause of one batch costs
FAMILY_S = UNREACHABLE_S + 1.0  # a connection warns before the other family is tried
_RESOLVE_S = 5.0  # between two look-ups of a name while not all of its trainers are connected
_RESOLVE_AGAIN_S = 30.0  # ... and while all of them are


class Trainers:
    """One connection for each address that the trainers' names stand for now."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        settings: WorkerSettings,
        resolve: Resolve,
        asks: Callable[[], bool] | None = None,
    ) -> None:
        """Begin to connect. For ``asks``, see `TrainerConnection`. Raises
        TransportError for a wrong address or missing keys."""
        self._context = context
        self._settings = settings
        self._names: list[_Name] = []
        self._connections: dict[str, TrainerConnection] = {}
        self._last: TrainerConnection | None = None  # the trainer that was served last
        self._served = 0.0  # ... and until when
        for address in settings.trainers:
            check_dial(address, keys=settings.keys, insecure=settings.insecure)
            if is_name(address):
                self._names.append(_Name(address, resolve))
            elif address not in self._connections:
                self._connections[address] = TrainerConnection(
                    context, address, address, settings, asks=asks
                )

    def __iter__(self) -> Iterator[TrainerConnection]:
        return iter([*self._connections.values()])  # another thread may add some meanwhile

    def tick(self, now: float, beat: Beat, *, may_look: bool = True) -> None:
        """Read messages, and send, connect or look up what is due. ``may_look``: as for
        `TrainerConnection.tick`."""
        self.read()
        for connection in self:
            connection.tick(now, beat, may_look=may_look)
        for name in self._names if may_look or self._settings.keys is None else ():
            self._follow(name, now)

    def read(self) -> None:
        for connection in self:
            connection.read()

    def beat(self, now: float, beat: Beat) -> None:
        for connection in self:
            connection.beat(now, beat)

    def say(self, beat: Beat) -> None:
        """Send a heartbeat to all trainers at once: something begins, or is over."""
        for connection in self:
            if connection.welcomed:
                connection.say(Heartbeat(connection.done, *beat))

    def next_lease(self, now: float) -> tuple[TrainerConnection, Lease] | None:
        """Return the lease to work on next, and its trainer's connection."""
        waiting = [connection for connection in self if connection.leases]
        if not waiting or self._patience_s(now) > 0:
            return None
        chosen = min(waiting, key=lambda connection: connection.used_s)
        for connection in self:
            if not connection.leases:
                connection.used_s = max(connection.used_s, chosen.used_s - _OWED_S)
        return chosen, chosen.leases.popleft()

    def served(self, connection: TrainerConnection, seconds: float, now: float) -> None:
        connection.used_s += seconds
        self._last, self._served = connection, now

    def wait_ms(self, now: float) -> int:
        """Return how long to wait for messages before `next_lease` has one, or a heartbeat is
        due."""
        if any(connection.leases for connection in self):
            return math.ceil(1000 * self._patience_s(now))
        return math.ceil(min([_POLL_MS, *(1000 * connection.due_s(now) for connection in self)]))

    def _patience_s(self, now: float) -> float:
        """Return how much longer to wait for the next lease of the trainer that was just served.
        Its clips may be so small that the next lease is still in flight. If a long lease of another
        trainer filled each of these gaps, that trainer would use nearly all of this worker."""
        last = self._last
        if last is None or last.leases or not last.welcomed:
            return 0.0
        owed_s = min(connection.used_s for connection in self if connection.leases) - last.used_s
        if owed_s <= 0:
            return 0.0
        patience_s = max(_NEXT_S, min(_NEXT_MAX_S, _NEXT_SHARE * owed_s))
        return max(0.0, self._served + patience_s - now)

    def close(self) -> None:
        for connection in self:
            connection.close()

    def _follow(self, name: _Name, now: float) -> None:
        """Connect to the new addresses of a name, and forget the old ones."""
        mine = [connection for connection in self if connection.name is name]
        name.tick(now, all_there=bool(mine) and all(connection.welcomed for connection in mine))
        name.take_turns(now, is_reached=any(connection.greeted for connection in mine))
        addresses = name.addresses
        if not addresses:  # nothing is known now: the addresses from before may still be right
            if not mine:
                name.warn_unreachable(now)
            return
        name.warn_at = now + UNREACHABLE_S  # from now on the connections warn
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
        self._found: list[str] = []
        self._turn, self._turned = 0, time.monotonic()
        self._patience = Backoff(FAMILY_S, _RESOLVE_AGAIN_S)
        self._patience.next_s()
        self.warn_at = time.monotonic() + UNREACHABLE_S
        self._resolve = resolve
        self._why = "its name is still being looked up"
        self._thread: threading.Thread | None = None
        self._looked_up = -math.inf

    @property
    def addresses(self) -> list[str]:
        """The addresses of IPv4, or alternately those of IPv6: a host with both is one trainer."""
        four = [each for each in self._found if "[" not in each]
        families = [four, [each for each in self._found if each not in four]]
        known = [family for family in families if family]
        return known[self._turn % len(known)] if known else []

    def take_turns(self, now: float, *, is_reached: bool) -> None:
        """Try the addresses of the other family, if no trainer answers at those of this one."""
        if is_reached or not self._found:
            self._turned = now
        elif now - self._turned > self._patience.pause_s:
            self._turn, self._turned = self._turn + 1, now
            self._patience.next_s()

    def tick(self, now: float, *, all_there: bool) -> None:
        """Look it up again if that is due."""
        if self._thread is not None and self._thread.is_alive():
            return
        if now - self._looked_up >= (_RESOLVE_AGAIN_S if all_there else _RESOLVE_S):
            self._looked_up = now
            # A daemon: the exit does not wait for a resolver that does not respond.
            self._thread = threading.Thread(target=self._look_up_name, name="resolver", daemon=True)
            self._thread.start()

    def warn_unreachable(self, now: float) -> None:
        """Warn why it cannot be reached, if it is time."""
        if now > self.warn_at:
            _log.warning("trainer %s cannot be reached: %s; still trying", self.address, self._why)
            self.warn_at = now + REMIND_S

    def _look_up_name(self) -> None:
        try:
            self._found = self._resolve(self.address)
        except TransportError as error:
            self._why = str(error)
