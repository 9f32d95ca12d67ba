"""Who may decode for this trainer, and who is here. Pure: no sockets, no processes, no clock.

A worker is known by its *peer*, the name that its connection has here, and by what its HELLO says:
(id, host, pid). One that was cut off comes back under another peer, so its old one is given up
before the new one is taken in. Two doors lead here:

  * the private one, for children of this process: they prove it with the token that they were
    given, and their pid must be that of a child that lives, since nobody would reap another;
  * those that listen, for whoever dials in (and holds a key, where keys are due): as many as
    ``max_remote`` at once.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from cachetools import LRUCache

from videoload.trainer.stats import WorkerStats
from videoload.transport.messages import Hello

PeerT = TypeVar("PeerT", bound=Hashable)

_MAX_REMOTE = 4096  # workers at once: with insecure=True anybody may say HELLO
_PEERS_KEPT = 4096  # workers that dialled in, to know one again that was cut off


@dataclass(eq=False, slots=True)
class ConnectedWorker:
    """A worker that is here. ``is_child``: this process started it."""

    host: str
    pid: int
    is_child: bool
    clips: int = 0
    decode_s: float = 0.0
    hung: bool = False  # and was killed for it

    @property
    def name(self) -> str:
        """How people are told of it."""
        return f"{self.host}:{self.pid}"

    @property
    def stats(self) -> WorkerStats:
        """Its figures so far."""
        rate = self.clips / self.decode_s if self.decode_s else 0.0
        return WorkerStats(self.name, self.host, self.pid, self.clips, rate)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The worker is not taken in."""

    reason: str


@dataclass(frozen=True, slots=True)
class Admitted(Generic[PeerT]):
    """The worker is taken in, once the peers in ``replaces`` are given up: they were this worker.
    ``returned``: it was cut off, and its line is to blame for what it had not answered."""

    worker: ConnectedWorker
    replaces: tuple[PeerT, ...] = ()
    returned: bool = False


class Admission(Generic[PeerT]):
    """The workers that are here, and the decision on each that says HELLO."""

    def __init__(self, token: str, *, max_remote: int = _MAX_REMOTE) -> None:
        """``token``: what children of this process were given."""
        self.workers: dict[PeerT, ConnectedWorker] = {}
        self._token = token.encode()
        self._max_remote = max_remote
        self._peer_of: LRUCache[tuple[str, str, int], PeerT] = LRUCache(_PEERS_KEPT)
        self._software: str | None = None  # of the first worker that came

    def child(self, peer: PeerT, hello: Hello, pids: Collection[int]) -> Admitted[PeerT] | Refusal:
        """Decide on a HELLO at the private door; ``pids`` are the children that live."""
        if not hmac.compare_digest(hello.token.encode(), self._token):
            return Refusal("this address is for the trainer's own workers")
        # The last words of a child that is reaped may still be here. Nobody would reap it again.
        if hello.pid not in pids:
            return Refusal("this trainer has no such child")
        # A worker dials again only when its one thread is between two leases, and forgets them.
        replaces = tuple(
            other
            for other, worker in self.workers.items()
            if worker.is_child and worker.pid == hello.pid and other != peer
        )
        return Admitted(ConnectedWorker(hello.host, hello.pid, is_child=True), replaces)

    def remote(self, peer: PeerT, hello: Hello) -> Admitted[PeerT] | Refusal:
        """Decide on the HELLO of a worker that dialled in."""
        who = (hello.worker, hello.host, hello.pid)
        last = self._peer_of.get(who, peer)
        here = {other for other, worker in self.workers.items() if not worker.is_child} - {last}
        if len(here) >= self._max_remote and peer not in here:
            return Refusal(f"{len(here)} workers have dialled in, and that is the most")
        self._peer_of[who] = peer
        returned = last != peer
        worker = ConnectedWorker(hello.host, hello.pid, is_child=False)
        return Admitted(worker, (last,) if returned else (), returned)

    def other_software(self, hello: Hello) -> str | None:
        """What to warn of where a worker decodes with other software than the first one."""
        if self._software is None:
            self._software = hello.software
        if self._software == hello.software:
            return None
        return (
            f"worker {hello.host}:{hello.pid} decodes with {hello.software}, others with "
            f"{self._software}: pixels may differ"
        )
