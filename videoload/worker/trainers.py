"""The trainers of a worker: its connections to them, and whose lease is next.

    name ── resolve ──> addresses ── one connection each ──> connecting -> greeted -> welcomed
             (again and again)                            ^──────── disconnected <┘

A host name may stand for several trainers (a headless service has one address for each pod), and
for other trainers tomorrow. So it is looked up again and again. ZeroMQ would keep the first address
that it found. A look-up may block for long and runs in a thread of its own, because the worker's
one thread owes every trainer its heartbeat.

Trainers share a worker fairly by decoding time: the next lease is of the trainer that has used
least of it. So a trainer with heavy clips gets fewer of them, and not more of the worker. A trainer
that asks for nothing saves up no time: after a pause it is owed `_OWED_S` at most, so it starves no
other trainer.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from videoload.backoff import Backoff
from videoload.errors import TransportError
from videoload.logs import Log
from videoload.wire.addresses import is_name
from videoload.wire.messages import Heartbeat, Lease
from videoload.wire.private_messages import WorkerSettings
from videoload.wire.sockets import check_dial
from videoload.worker.trainer_connection import (
    REMIND_S,
    UNREACHABLE_S,
    Beat,
    TrainerConnection,
)

if TYPE_CHECKING:
    import zmq

_log = Log(__name__)

Resolve = Callable[[str], list[str]]

_POLL_MS = 200  # a signal is noticed at most this long after it came
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
        return iter([*self._connections.values()])  # others may come in a turn of another thread

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
        """Tell all trainers at once: something begins, or is over."""
        for connection in self:
            if connection.welcomed:
                connection.say(Heartbeat(connection.done, *beat))

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
        connection.used_s += seconds
        self._last, self._served = connection, now

    def wait_ms(self, now: float) -> int:
        """How long to wait for messages before `next_lease` has one, or a heartbeat is due."""
        if any(connection.leases for connection in self):
            return math.ceil(1000 * self._patience_s(now))
        return math.ceil(min([_POLL_MS, *(1000 * connection.due_s(now) for connection in self)]))

    def _patience_s(self, now: float) -> float:
        """How much longer to wait for the next lease of the trainer that was just served. Its clips
        may be so light that the next lease is still on its way. If a heavy lease of another trainer
        filled each of these gaps, that trainer would take nearly all of this worker."""
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
        """Those of IPv4, or in turn those of IPv6: a host with both is one trainer."""
        four = [each for each in self._found if "[" not in each]
        families = [four, [each for each in self._found if each not in four]]
        known = [family for family in families if family]
        return known[self._turn % len(known)] if known else []

    def take_turns(self, now: float, *, is_reached: bool) -> None:
        """Try the addresses of the other family, if those of this one lead to nobody."""
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
            # A daemon: the exit does not wait for a resolver that does not answer.
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
