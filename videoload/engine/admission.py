"""Which workers are admitted, and which are connected. Pure: no sockets, no processes, no clock.

A worker is known by its *peer*, which names its connection at this trainer, and by its HELLO: (id,
host, pid). A worker that was cut off comes back as another peer. Its old peer is removed before the
new one is admitted. There are two kinds of addresses:

  * The private one is for children of this process. A child proves itself with the token that it
    was given, and its pid must be the pid of a live child: no other process would be reaped.
  * At the others, workers dial in (with a key, if keys are required), ``max_remote`` at most.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from cachetools import LRUCache

from videoload.errors import WorkerError
from videoload.stats.stats import WorkerRecord
from videoload.stats.work import WorkTimer
from videoload.transport.messages import Hello

PeerT = TypeVar("PeerT", bound=Hashable)

_SILENT_S = 2.0  # eight heartbeats
_MAX_REMOTE = 4096  # workers at once: with insecure=True, anyone may send HELLO
STRANGERS = 32  # more connections, which have not sent HELLO yet
_KEPT_FREE, _KEPT_SHARE = 512, 4  # descriptors left to the trainer: this many, or a fourth
_PEERS_KEPT = 4096  # remote workers that are remembered, to recognise one that was cut off


@dataclass(eq=False, slots=True)
class ConnectedWorker:
    """A worker that is connected. ``is_child``: this process started it. ``number`` tells it from
    others of its host name and pid: containers of one node may have both in common."""

    host: str
    pid: int
    is_child: bool
    copy: str = ""  # which copy of the videos a remote worker reads, as `copy_name` says
    fetches: bool = False  # that copy is on another host
    timer: WorkTimer = field(default_factory=WorkTimer)
    joined: float = -math.inf  # when it was admitted
    heard: float = math.inf  # when its last message came
    last_error: str = ""
    storage: str = ""  # what its storage says instead of giving the videos
    last_lease: int = 0  # the number of the last one that was sent to it
    number: int = 1

    @property
    def name(self) -> str:
        """Its name in messages to people, and in figures. No other connected worker has it."""
        return f"{self.host}:{self.pid}" + (f"#{self.number}" if self.number > 1 else "")

    def record(self, now: float) -> WorkerRecord:
        """What is known of it now, without its work."""
        state = "idle" if self.timer.is_free else "decoding"
        if now - self.heard > _SILENT_S:
            state = "silent"
        return WorkerRecord(
            self.name, self.host, self.pid, self.is_child, state, self.last_error,
            age_s=now - self.joined,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Refusal:
    """The worker is not admitted. ``warn``: the trainer's owner should know."""

    reason: str
    warn: bool = False


@dataclass(frozen=True, slots=True)
class Admitted(Generic[PeerT]):
    """The worker is admitted once the peers in ``replaces`` are removed: they were this worker."""

    worker: ConnectedWorker
    replaces: tuple[PeerT, ...] = ()


def workers_at_most(descriptors: int, used: int) -> int:
    """How many workers may dial in if a process may open ``descriptors``, and needs ``used`` for
    other things. Each worker takes one, and some are left for files of the trainer."""
    free = descriptors - used - min(_KEPT_FREE, descriptors // _KEPT_SHARE) - STRANGERS
    return max(1, min(_MAX_REMOTE, free))


class Admission(Generic[PeerT]):
    """The connected workers, and the decision on each HELLO."""

    def __init__(self, token: str, *, max_remote: int = _MAX_REMOTE) -> None:
        """``token``: children of this process were given it."""
        self.workers: dict[PeerT, ConnectedWorker] = {}
        self._token = token.encode()
        self.max_remote = max_remote
        self._peer_of: LRUCache[tuple[str, str, int], PeerT] = LRUCache(_PEERS_KEPT)
        self._childrens = ""  # what children decode with
        self.software: str | None = None  # that remote workers must decode with; None: any

    def child(self, peer: PeerT, hello: Hello, pids: Collection[int]) -> Admitted[PeerT] | Refusal:
        """Decide on a HELLO at the private address. ``pids`` are the live children. Raises
        WorkerError if it would give other pixels than the children before it."""
        if not hmac.compare_digest(hello.token.encode(), self._token):
            return Refusal("this address is for the trainer's own workers")
        # A message may be read after its sender was reaped, and nobody would reap it again.
        if hello.pid not in pids:
            return Refusal("this trainer has no such child")
        self._childrens = self._childrens or self.software or hello.software
        if hello.software != self._childrens:
            raise WorkerError(
                f"a new worker of this host decodes with {hello.software}, the others with "
                f"{self._childrens}: FFmpeg (the package av) or videoload was replaced meanwhile, "
                "and clips would differ; start the training again"
            )
        # A worker dials again only between two leases, and forgets its leases.
        replaces = tuple(
            other
            for other, worker in self.workers.items()
            if worker.is_child and worker.pid == hello.pid and other != peer
        )
        worker = ConnectedWorker(hello.host, hello.pid, is_child=True)
        return self._numbered(peer, worker, replaces)

    def remote(self, peer: PeerT, hello: Hello) -> Admitted[PeerT] | Refusal:
        """Decide on the HELLO of a worker that dialled in."""
        who = (hello.worker, hello.host, hello.pid)
        if self.software not in (None, hello.software):
            return Refusal(
                f"it decodes with {hello.software}, this trainer with {self.software}: clips would "
                "differ (any_software=True of the client admits it)",
                warn=True,
            )
        last = self._peer_of.get(who, peer)
        here = {other for other, worker in self.workers.items() if not worker.is_child} - {last}
        if len(here) >= self.max_remote and peer not in here:
            return Refusal(
                f"{len(here)} workers have dialled in, and that is the most that this trainer "
                f"takes: {_MAX_REMOTE}, or fewer if it may not open as many files (ulimit -Hn)",
                warn=True,
            )
        self._peer_of[who] = peer
        worker = ConnectedWorker(
            hello.host, hello.pid, is_child=False, copy=hello.copy, fetches=hello.fetches
        )
        return self._numbered(peer, worker, (last,) if last != peer else ())

    def _numbered(
        self, peer: PeerT, worker: ConnectedWorker, replaces: tuple[PeerT, ...]
    ) -> Admitted[PeerT]:
        names = {w.name for other, w in self.workers.items() if other not in (peer, *replaces)}
        while worker.name in names:
            worker.number += 1
        return Admitted(worker, replaces)
