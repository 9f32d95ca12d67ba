"""The workers of one client: which ones are responsive, and which one gets the next lease. Pure: no
sockets, no threads, no clock.

  * A silent remote worker gets no leases, and those that it holds go to others. A local one holds
    its leases until it is dead: its supervisor kills it if it hangs.
  * A worker with a long round trip to the trainer or to its files holds more leases.
  * No worker makes a stream slower than it is without it: a slow one gets one lease at a time, of
    clips that it can return in time (see `paces`).
  * A worker that its storage refuses gets no leases until it has read something.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Hashable, Iterable, Iterator, Mapping
from itertools import chain, count

from videoload.activity import Activity
from videoload.errors import count as count_of
from videoload.errors import some
from videoload.scheduler.affinity import Affinity
from videoload.scheduler.commands import WorkerId
from videoload.scheduler.paces import Paces
from videoload.scheduler.records import Lease, Reader, Worker
from videoload.worker.stall_clock import IMPORT_S, StallClock

SILENCE_S = 2.0  # eight heartbeats: a remote worker that is silent for so long has no leases
GONE_S = 10.0  # a worker of another host that is silent for so long is not here
_SETTLED_S = 30.0  # a worker that is here for so long does not die as soon as it is started


class WorkerPool:
    """The connected workers. ``now`` is the latest time that was passed in, ``latest_answered``
    the latest grant of a lease that was answered, ``affinity`` the hosts."""

    def __init__(self, *, credit: int, stall_s: float, silence_s: float) -> None:
        """The arguments are those of `Scheduler`."""
        self.credit = credit
        self.paces = Paces()
        self.affinity = Affinity()
        self.now = self.latest_answered = -math.inf
        self.stall_s = stall_s
        self._silence_s = silence_s
        self._workers: dict[WorkerId, Worker] = {}
        # The workers that take leases, by how many they hold. The first one of each row holds that
        # many for longest.
        self._by_leases: list[dict[Worker, None]] = [{} for _ in range(credit)]
        self._full: dict[Worker, None] = {}  # they hold as many as they may
        # Those that would take one more, by host, and those of them that would be idle else.
        self._by_host: dict[Hashable, dict[Worker, None]] = {}
        self._hungry: dict[Worker, None] = {}
        self._gained: dict[Worker, None] = {}  # they would take one more than before
        self._reliable: frozenset[Worker] | None = None  # until workers or the time change
        self._filings = count()

    # Which workers there are

    @property
    def num_available(self) -> int:
        """The number of workers that take leases now."""
        return sum(map(len, self._by_leases)) + len(self._full)

    @property
    def has_credit(self) -> bool:
        """Whether some worker would take another lease now."""
        return any(self._by_leases)

    def get(self, worker: WorkerId) -> Worker | None:
        """Return the worker, if it is connected."""
        return self._workers.get(worker)

    @property
    def responsive(self) -> Iterator[Worker]:
        """The workers that are not silent."""
        return (worker for worker in self._workers.values() if not worker.is_silent)

    def unable_to_read(self, away: Container[Hashable]) -> str:
        """Return how many workers cannot read, and on which hosts, as the beginning of a sentence:
        their storage refuses, or their copy is ``away``; "" if none."""
        known = self._workers.values()
        unable = [worker for worker in known if worker.is_refused or worker.copy in away]
        if not unable:
            return ""
        hosts = some(sorted({str(worker.host) for worker in unable}))
        return f"{len(unable)} of {count_of(len(known), 'worker')} cannot read (on {hosts}): "

    def may_speak(self, workers: Collection[Worker]) -> bool:
        """Return whether another worker than these is unresponsive, as in an import, but not
        gone."""
        others = (each for each in self._workers.values() if each not in workers)
        return any(each.is_silent and not self.is_gone(each) for each in others)

    def is_gone(self, worker: Worker) -> bool:
        """Return whether a remote worker is unresponsive for longer than its activity may take. It
        does not count: a host that lost its power sends no BYE."""
        most_s = GONE_S + IMPORT_S * (worker.at is Activity.IMPORT)
        if worker.at is Activity.FUNCTION:
            most_s = max(most_s, self.stall_s)
        return not worker.local and worker.silence_clock.seconds >= most_s

    @property
    def reliable(self) -> frozenset[Worker]:
        """The workers that take leases and are here for half as long as the oldest of them, or for
        `_SETTLED_S`. A worker that dies and returns all the time is not among them."""
        if self._reliable is None:  # each of hundreds of workers is looked up when one has died
            takers = [worker for worker in self._workers.values() if worker.row is not None]
            oldest = min((worker.joined for worker in takers), default=self.now)
            since = max(self.now - _SETTLED_S, (self.now + oldest) / 2)
            self._reliable = frozenset(worker for worker in takers if worker.joined <= since)
        return self._reliable

    def clock(self, now: float) -> None:
        """The time of what follows."""
        if now > self.now:
            self.now, self._reliable = now, None

    def join(self, worker: Worker) -> None:
        """A worker is admitted, unless it is known."""
        if worker.id in self._workers:
            return
        self._workers[worker.id] = worker
        worker.silence_clock = StallClock(self._silence_s / 2, lambda: self.now)
        worker.silence_clock.look(worker.heard)
        self.affinity.joined(worker.host)
        self.update_availability(worker)

    def leave(self, worker: Worker) -> None:
        """Remove a worker that has ended. It takes no more leases, and still has those it held."""
        del self._workers[worker.id]
        self.affinity.left(worker.host)
        worker.is_silent = True
        self.update_availability(worker)

    # Leases

    def lease(self, worker: WorkerId, lease: int) -> Lease | None:
        """Return a lease that this worker still owes an answer to."""
        known = self._workers.get(worker)
        return None if known is None else known.leases.get(lease)

    def held(self, worker: WorkerId) -> int:
        """Return how many leases a worker holds."""
        known = self._workers.get(worker)
        return 0 if known is None else len(known.leases)

    def granted(self, lease: Lease) -> None:
        """A worker was granted a lease."""
        worker = lease.worker
        if not worker.leases:
            worker.pace.begins(self.now)
        worker.leases[lease.id] = lease
        worker.on_probation = bool(lease.chunk.unanswered)
        self.update_availability(worker)

    def answered(self, lease: Lease, decode_s: float, clip_s: float, waited_s: float) -> None:
        """Note the answer to a lease. ``clip_s``: the time for a clip of its stream. ``waited_s``:
        how long the worker waited for anything but a core."""
        lease.worker.answered = True
        self.latest_answered = max(self.latest_answered, lease.granted_at)
        lease.worker.pace.answered(
            self.now, granted_at=lease.granted_at, decode_s=decode_s, clips=len(lease.videos),
            clip_s=clip_s, waited_s=waited_s,
        )  # fmt: skip
        self._end(lease)

    def given_up(self, lease: Lease) -> None:
        """The worker no longer works on a lease that it did not answer."""
        lease.worker.pace.begins(self.now)
        self._end(lease)

    def _end(self, lease: Lease) -> None:
        del lease.worker.leases[lease.id]
        lease.worker.at = Activity.IDLE  # until its next report
        self.update_availability(lease.worker)
        lease.end()

    # Which worker takes the next lease

    @property
    def available(self) -> Iterator[Worker]:
        """The workers that would take a lease, those that hold the fewest first. They are not to be
        granted any meanwhile."""
        return chain(*self._by_leases)

    def available_for(self, clips_by_host: Iterable[Mapping[Hashable, object]]) -> list[Worker]:
        """Return the takers that run on a host for which there are clips, and those that would be
        idle, in the order of `available`."""
        found = {
            worker
            for clips in clips_by_host
            for host in self._by_host.keys() & clips.keys()
            for worker in self._by_host[host]
        }
        return sorted(found.union(self._hungry), key=lambda each: (len(each.leases), each.filed))

    def take_newly_available(self) -> list[Worker]:
        """Return the workers that would take one more lease than before the last call."""
        if not self._gained:
            return []
        gained, self._gained = self._gained, {}
        return [worker for worker in gained if self.would_take(worker)]

    def would_take(self, worker: Worker) -> bool:
        """Return whether a worker would take a lease."""
        return worker.row is not None and worker.row is not self._full

    @property
    def idle(self) -> Collection[Worker]:
        """The workers that hold no lease, and would take one."""
        return self._by_leases[0]

    def update_availability(self, worker: Worker) -> None:
        """Put a worker into its row, after its leases changed, or whether it takes some."""
        took = worker.row is not None
        if worker.row is not None:
            del worker.row[worker]
        rests = worker.is_silent or worker.is_refused or self.now < worker.paused_until
        worker.row = None if rests else self._row(worker)
        if took != (worker.row is not None):
            self._reliable = None
        worker.filed = next(self._filings)
        if worker.row is not None:
            worker.row[worker] = None
            self._gained[worker] = None
        on_host = self._by_host.setdefault(worker.host, {})
        on_host.pop(worker, None)
        self._hungry.pop(worker, None)
        if self.would_take(worker):
            on_host[worker] = None
            if not worker.is_fed:
                self._hungry[worker] = None
        elif not on_host:
            del self._by_host[worker.host]

    def _row(self, worker: Worker) -> dict[Worker, None]:
        """Return the workers that hold as many leases as this one, or all that hold what they
        may."""
        held = len(worker.leases)
        # A slow worker takes one lease at a time: the next one would only wait.
        next_door = 1 if self.is_slow(worker) else self.credit
        if held >= next_door + worker.pace.extra_credit or (held and worker.on_probation):
            return self._full
        while held >= len(self._by_leases):
            self._by_leases.append({})
        return self._by_leases[held]

    def is_slow(self, worker: Worker) -> bool:
        """Return whether it takes much longer than the others, or was not measured yet."""
        return self.paces.is_slow(worker.pace)

    def clips_in_time(self, worker: Worker, reader: Reader) -> float:
        """Return how many clips a worker can return before the slots of a reader run empty."""
        clips, takes = reader.slots * reader.stream.batch_clips, worker.row is not None
        if reader.stream.local_only:  # it waits for no others
            return math.inf
        return self.paces.clips_in_time(worker.pace, self.now, clips, is_compared=takes)

    # Messages and silence

    def heard(self, known: Worker) -> None:
        """Note a message of a worker, or a part of it."""
        known.heard = self.now
        known.silence_clock.look(self.now)
        if known.is_silent:
            known.is_silent = False
            self.update_availability(known)

    def beat(self, known: Worker, at: Activity, *, is_refused: bool) -> None:
        """The message is a heartbeat. The worker begins with this now, and will be silent
        meanwhile. ``is_refused``: by its storage."""
        known.at = at
        if math.isinf(known.pace.min_rtt_s):
            known.pace.min_rtt_s = self.now - known.joined  # it answers WELCOME with a heartbeat
        if known.is_refused is not is_refused:
            known.is_refused = is_refused
            self.update_availability(known)

    def stalled_leases(self) -> list[Lease]:
        """Return the leases at which remote workers are silent for too long."""
        return [
            lease
            for worker in self._workers.values()
            if worker.is_silent
            if worker.silence_clock.seconds
            > self.stall_s + IMPORT_S * (worker.at is Activity.IMPORT)
            if (lease := worker.current_lease) is not None
        ]

    def tick(self) -> list[Worker]:
        """Time has passed. Returns the remote workers that are silent from now on."""
        silent = [worker for worker in self._workers.values() if self._falls_silent(worker)]
        for worker in silent:
            worker.is_silent = True
            self.update_availability(worker)
        # At each tick, and not at each grant: it takes time.
        self.paces.compare(w.pace for w in self._workers.values() if w.row is not None)
        for worker in self._workers.values():
            if worker.row is None:  # its pause may be over
                self.update_availability(worker)
        return silent

    def _falls_silent(self, worker: Worker) -> bool:
        # Another worker would call a function of the user's as well.
        most_s = self.stall_s if worker.at is Activity.FUNCTION else self._silence_s
        is_late = worker.silence_clock.look(worker.heard) > most_s
        return is_late and not worker.is_silent and not worker.local
