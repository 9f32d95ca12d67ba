"""The connected workers of a client. They are admitted and welcomed, warned, and leave; children
are replaced if they end.

A worker is known by its *peer*, which names its connection at this trainer, and by its HELLO: (id,
host, pid). A worker that was disconnected returns as another peer. Its old peer is removed before
the new one is admitted. There are two kinds of addresses:

  * The private one is for children of this process. A child proves itself with the token that it
    was given, and its pid must be the pid of a live child: no other process would be reaped.
  * At the others, remote workers connect (with a key, if keys are required), ``max_remote`` at
    most.

`Admission` decides on a HELLO, without sockets, processes or a clock. Only `Membership` changes who
is here, in the I/O thread; others look. What happens to a worker's leases is the scheduler's.
"""

from __future__ import annotations

import hmac
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from cachetools import LRUCache

from videoload.engine.listener import Listener
from videoload.engine.stats import WorkerRecord
from videoload.engine.work import WorkTimer
from videoload.errors import WorkerError, count, printable
from videoload.logs import Log, RateLimitedLog
from videoload.scheduler import events
from videoload.scheduler.commands import Warn
from videoload.scheduler.pool import SILENCE_S
from videoload.scheduler.records import Worker
from videoload.scheduler.scheduler import Scheduler
from videoload.stopwatch import seconds_since
from videoload.versions import own_version
from videoload.wire.messages import Bye, Heartbeat, Hello, Notice, Refused, Welcome
from videoload.wire.sockets import Peer
from videoload.worker.supervisor import Supervisor

_log = Log(__name__)

PeerT = TypeVar("PeerT", bound=Hashable)

_MAX_REMOTE = 4096  # workers at once: with insecure=True, anyone may send HELLO
STRANGERS = 32  # more connections, which have not sent HELLO yet
_KEPT_FREE, _KEPT_SHARE = 512, 4  # descriptors left to the trainer: this many, or a fourth
_PEERS_KEPT = 4096  # remote workers that are remembered, to recognise one that was cut off
SAID = 300  # characters of a worker's message that are passed on
_ALONE_S = 5.0  # without a worker while a consumer waits: warn
_STARTING_S = 20.0  # ... while workers of this host start, which takes seconds on a busy one
_REMIND_S = 60.0
_GAPS = 16  # times without a worker that are remembered
_LOOK_S = 1.0
_LATELY_S, _DEATHS = 120.0, 4096  # deaths of workers that are reported, for so long
_COMINGS = 32  # workers that join at once, each in a line
_REFUSED = 8  # workers whose refusal is shown


@dataclass(eq=False, slots=True)
class ConnectedWorker(Worker):
    """The scheduler's record of a worker, with what the I/O thread notes of it. ``number``
    distinguishes it from others of its host name and pid: containers of one node may have both in
    common."""

    pid: int
    timer: WorkTimer = field(default_factory=WorkTimer)
    last_error: str = ""
    last_lease: int = 0  # the number of the last one that was sent to it
    number: int = 1

    @property
    def name(self) -> str:
        """Its unique name in messages and statistics."""
        return f"{self.host}:{self.pid}" + (f"#{self.number}" if self.number > 1 else "")

    def record(self, now: float, *, is_away: bool = False) -> WorkerRecord:
        """Its current record, without its work. ``is_away``: its copy of a root was not there at
        the last try."""
        state = "idle" if self.timer.is_free else "decoding"
        if self.is_refused or is_away:
            state = "cannot read"
        if self.silence_clock.seconds > SILENCE_S:
            state = "silent"
        return WorkerRecord(
            self.name, str(self.host), self.pid, self.local, state, self.last_error,
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
    """Return how many workers may connect if a process may open ``descriptors``, and needs ``used``
    for other purposes. Each worker takes one, and some are left for files of the trainer."""
    free = descriptors - used - min(_KEPT_FREE, descriptors // _KEPT_SHARE) - STRANGERS
    return max(1, min(_MAX_REMOTE, free))


def without_version(software: str) -> str:
    """Return the part of a software string that determines clips, without the version of
    videoload."""
    return software.partition(": ")[2] if software.startswith("videoload ") else software


def difference(workers: str, trainers: str | None) -> str:
    """Return how a worker's software differs from this trainer's: the versions of videoload, if
    they differ, or else each differing part."""
    version, mine = workers.partition(": ")[0], f"videoload {own_version()}"
    if version.startswith("videoload ") and version != mine:
        return f"the worker runs {version}, this trainer {own_version()}"
    theirs, ours = without_version(workers).split(", "), (trainers or "").split(", ")
    other = [part for part in theirs if part not in ours]
    own = [part for part in ours if part not in theirs]
    if all(part.startswith("code ") for part in (*other, *own)):
        return f"the worker runs {mine} with other code than this trainer"
    return f"it decodes with {', '.join(other)}, this trainer with {', '.join(own)}"


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

    def child(
        self, peer: PeerT, hello: Hello, pids: Collection[int], now: float
    ) -> Admitted[PeerT] | Refusal:
        """Decide on a HELLO at the private address. ``pids`` are the live children. Raises
        WorkerError if it would give other pixels than the children before it."""
        if not hmac.compare_digest(hello.token.encode(), self._token):
            return Refusal("this address is for the trainer's own workers")
        # A message may be read after its sender was reaped, and it would not be reaped again.
        if hello.pid not in pids:
            return Refusal("this trainer has no such child")
        software = without_version(hello.software)
        self._childrens = self._childrens or self.software or software
        if software != self._childrens:
            raise WorkerError(
                f"a new worker of this host decodes with {hello.software}, the others with "
                f"{self._childrens}: FFmpeg (the package av) or videoload was replaced meanwhile, "
                "and clips would differ; restart training"
            )
        # A worker reconnects only between two leases, and forgets its leases.
        replaces = tuple(
            other
            for other, worker in self.workers.items()
            if worker.local and worker.pid == hello.pid and other != peer
        )
        worker = ConnectedWorker(
            peer, hello.pid, local=True, joined=now, host=hello.host, fetches=hello.fetches
        )
        return self._numbered(worker, replaces)

    def remote(self, peer: PeerT, hello: Hello, now: float) -> Admitted[PeerT] | Refusal:
        """Decide on the HELLO of a remote worker."""
        who = (hello.worker, hello.host, hello.pid)
        if self.software not in (None, without_version(hello.software)):
            _log.debug("%s:%d decodes with %s, this trainer with %s", hello.host, hello.pid,
                       hello.software, self.software)  # fmt: skip
            return Refusal(
                f"{difference(hello.software, self.software)}: install the same version on both "
                "(the client's allow_version_mismatch=True admits it, but its clips may differ)",
                warn=True,
            )
        last = self._peer_of.get(who, peer)
        here = {other for other, worker in self.workers.items() if not worker.local} - {last}
        if len(here) >= self.max_remote and peer not in here:
            return Refusal(
                f"{len(here)} remote workers are connected, and that is the most that this trainer "
                f"takes: {_MAX_REMOTE}, or fewer if it may not open as many files (ulimit -Hn)",
                warn=True,
            )
        self._peer_of[who] = peer
        worker = ConnectedWorker(
            peer, hello.pid, local=False, joined=now, copy=hello.copy or hello.host,
            host=hello.host, fetches=hello.fetches,
        )  # fmt: skip
        return self._numbered(worker, (last,) if last != peer else ())

    def _numbered(self, worker: ConnectedWorker, replaces: tuple[PeerT, ...]) -> Admitted[PeerT]:
        others = (w for peer, w in self.workers.items() if peer not in (worker.id, *replaces))
        names = {other.name for other in others}
        while worker.name in names:
            worker.number += 1
        return Admitted(worker, replaces)


@dataclass(eq=False)
class Membership:
    """The workers of a client.

    Attributes:
        scheduler: Knows which workers are unresponsive.
        tell: Passes events to it.
        warnings: The log for workers that are refused, or that differ from the others.
        join_log: The log for workers that join and leave.
        beat_s: Seconds between two heartbeats of a worker.
        stall_s: Seconds without progress after which a worker hangs.
        departed: How many workers have left.
        refusals: How often workers were refused, those with a wrong key apart.
        refused_lately: Why, by the name of the worker, for the last ones.
    """

    admission: Admission[Peer]
    scheduler: Scheduler
    tell: Callable[[events.Event], None]
    supervisor: Supervisor
    listener: Listener
    warnings: RateLimitedLog
    beat_s: float
    stall_s: float
    join_log: RateLimitedLog = field(
        default_factory=lambda: RateLimitedLog(_log, logging.INFO, burst=_COMINGS)
    )
    departed: int = 0
    refusals: int = 0
    refused_lately: LRUCache[str, str] = field(default_factory=lambda: LRUCache(_REFUSED))
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _warn_alone_at: float | None = None
    _gaps: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_GAPS))
    _in_gap: bool = False
    _silent: set[str] = field(default_factory=set)  # hosts
    _deaths: deque[tuple[float, str, Peer]] = field(default_factory=lambda: deque(maxlen=_DEATHS))

    def __post_init__(self) -> None:
        self._workers = self.admission.workers

    @property
    def workers(self) -> Mapping[Peer, ConnectedWorker]:
        """Who is connected, for those who look."""
        return self._workers

    # Called from any thread

    def records(self) -> list[WorkerRecord]:
        """Return the connected workers, without their work."""
        now, away = time.monotonic(), self.scheduler.roots.copies_away
        return [worker.record(now, is_away=worker.copy in away) for worker in self._here()]

    def _here(self) -> list[ConnectedWorker]:
        """Return the connected workers, without those that have been unresponsive for long: a host
        that lost its power sends no BYE."""
        workers = list(self._workers.values())
        return [worker for worker in workers if not self.scheduler.pool.is_gone(worker)]

    def wait_for(self, count: int, timeout_s: float, is_over: Callable[[], bool]) -> int:
        """Wait until ``count`` workers are connected, or time is out, or ``is_over``; returns how
        many are connected."""
        until = time.monotonic() + timeout_s
        with self._changed:
            while True:
                now = time.monotonic()
                here = len(self._here())
                if here >= count or now >= until or is_over():
                    return here
                self._changed.wait(min(until - now, _LOOK_S))  # an unresponsive one may recover

    def lost(self) -> str:
        """Return the hosts of which more workers died lately, or are silent, than are here; "" if
        none."""
        now, deaths = time.monotonic(), Counter[str]()
        deaths.update(host for when, host, _ in list(self._deaths) if now - when < _LATELY_S)
        here, silent = self._by_host()
        found = {f"died in {_LATELY_S:.0f} s": deaths, "silent": silent}
        return "; ".join(
            f"{host}: {count(lost, 'worker')} {how}"
            for how, hosts in found.items()
            for host, lost in hosts.items()
            if lost > here[host]
        )

    def alone_s(self, since: float) -> float:
        """Return for how long a stream was read and no worker was connected, since then."""
        return seconds_since(list(self._gaps), since)

    def _by_host(self) -> tuple[Counter[str], Counter[str]]:
        """Return how many workers of each host are connected, and how many have been unresponsive
        for long."""
        here = Counter(str(worker.host) for worker in self._here())
        return here, Counter(str(each.host) for each in list(self._workers.values())) - here

    def wake(self) -> None:
        """Have the threads in `wait_for` check whether all is over."""
        with self._changed:
            self._changed.notify_all()

    # Workers join

    def admit(self, peer: Peer, hello: Hello, now: float) -> None:
        if peer.router is self.listener.private:
            self.supervisor.connected(hello.pid)
            decision = self.admission.child(peer, hello, self.supervisor.pids(), now)
        else:
            decision = self.admission.remote(peer, hello, now)
        if isinstance(decision, Refusal):
            peer.send(Refused(decision.reason))
            self.refusals += 1
            who = f"{hello.host}:{hello.pid}"
            self.refused_lately[who] = decision.reason
            if decision.warn:
                self.warnings.add(f"worker {who} is refused: {decision.reason}", now)
            return
        for other in decision.replaces:
            self.remove(other, died=False)  # it was cut off: its connection is to blame
        worker = decision.worker
        with self._changed:
            self._workers[peer] = worker
            self._changed.notify_all()
        peer.admitted()
        if not worker.local:
            self.join_log.add(f"worker {worker.name} joined", now)
        peer.send(Welcome(self.beat_s, self.stall_s))
        self.tell(events.WorkerJoined(worker))

    # Workers leave

    def remove(
        self, peer: Peer, *, died: bool, at_work: int | None = None, refused: str = "",
        more_leave: bool = False,
    ) -> None:  # fmt: skip
        """A worker has left. For the other arguments, see `WorkerLeft`."""
        with self._changed:
            worker = self._workers.pop(peer, None)
        if worker is not None:
            self.departed += 1
            peer.left()
            if died:
                self._deaths.append((time.monotonic(), str(worker.host), peer))
        if worker is not None and not worker.local:
            self.join_log.add(f"worker {worker.name} left", time.monotonic())
        self.tell(events.WorkerLeft(peer, died, at_work, refused, more_leave))

    def sent_bye(self, peer: Peer, bye: Bye, now: float) -> None:
        """A worker leaves. A local one may do so too: it has left its decoder by then. If its
        connection has ended before this is read, it was taken for dead."""
        for death in [each for each in self._deaths if each[-1] == peer]:
            self._deaths.remove(death)
        worker, refused = self._workers.get(peer), ""
        if worker is not None and bye.storage_unavailable:
            refused = printable(bye.reason[:SAID])
            self.warnings.add(f"worker {worker.name} returned its leases: {bye.reason}", now)
        self.remove(peer, died=False, refused=refused)

    def reap_children(self) -> None:
        """Kill the processes that hang, reap those that ended, and have others started."""
        causes = self.supervisor.supervise(self.stall_s)
        for peer, worker in list(self._workers.items()) if causes else ():
            if worker.local and worker.pid in causes:
                self.remove(peer, died=True, at_work=causes[worker.pid])

    def evict(self, peer: Peer) -> None:
        """Remove a worker that is alive. A local one may be writing into shared memory, so it holds
        its leases until it is killed and reaped."""
        worker = self._workers.get(peer)
        if worker is not None and worker.local:
            self.supervisor.kill(worker.pid)
        else:
            self.remove(peer, died=False)

    def warn(self, command: Warn) -> None:
        """A worker cannot do what others can, or none can read a root. A worker that is paused gets
        the reason."""
        text, peer = command.reason, command.worker
        if peer is None:
            _log.warning("%s", text)
            return
        assert isinstance(peer, Peer)
        if command.pause_s:
            text = f"no leases for {command.pause_s:g} s, because it fails at files that are good "
            text += f"elsewhere: {command.reason}"
            peer.send(Notice(text))
        if (worker := self._workers.get(peer)) is not None:
            self.warnings.add(f"worker {worker.name}: {text}", time.monotonic())

    def close(self) -> None:
        """Send BYE to all."""
        while self._workers:
            peer, _ = self._workers.popitem()
            peer.send(Bye("this trainer is closing"))

    # Time passes

    def send_heartbeats(self) -> None:
        """Send heartbeats to the workers, and find workers that have ended."""
        gone = [
            peer
            for peer, worker in self._workers.items()
            if not peer.send(Heartbeat(worker.last_lease)) and not worker.local
        ]
        for peer in gone:  # a host with hundreds of workers may go down
            self.remove(peer, died=True, more_leave=peer is not gone[-1])

    def tick(self, now: float, *, is_read: bool) -> None:
        """Warn of hosts with silent workers, and if a stream is read and no worker is here."""
        self.join_log.tell(now)
        here, silent = self._by_host()
        for host in silent.keys() - self._silent:
            who = f"{host}: {count(silent[host], 'worker')}"
            self.warnings.add(f"{who} silent for too long, no longer counted", now)
        self._silent = {*silent}
        if here or not is_read or self.supervisor.pids():  # those children will connect
            self._in_gap = False
        elif self._in_gap:
            self._gaps[-1] = (self._gaps[-1][0], now)
        else:
            self._gaps.append((now, now))
            self._in_gap = True
        if here or not is_read:
            self._warn_alone_at = None
        elif self._warn_alone_at is None:
            self._warn_alone_at = now + (_STARTING_S if self.supervisor.pids() else _ALONE_S)
        elif now >= self._warn_alone_at:
            self._warn_alone_at = now + _REMIND_S
            places = [*self.listener.endpoints]
            if starting := len(self.supervisor.pids()):
                places.append(f"this host, which starts {count(starting, 'worker')}")
            where = " and ".join(places) or "this host"
            _log.warning("no worker is connected; waiting for one at %s", where)
