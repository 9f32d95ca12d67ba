"""The workers of one client, as far as leases go: which one is heard of, which one takes the next
lease, and which one is to be paused or ended. Pure: no sockets, no threads, no clock.

  * A silent worker gets no leases, and those that it holds go to others. A local one keeps its
    leases until it is dead; `silence` decides when it is killed.
  * A worker that is far away, or whose files are, holds more leases than one next door. All workers
    that send pixels hold together no more than their line brings in time: see `bytes_in_flight`.
  * No worker makes a stream slower than it is without it. A slow worker gets short leases, one at a
    time, and none if its one clip would hold up all slots: see `paces`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from itertools import chain, count, takewhile

from videoload.leases.affinity import Affinity
from videoload.leases.bytes_in_flight import BytesInFlight
from videoload.leases.commands import AskStorage, Evict, Outbox, Pause, WorkerId
from videoload.leases.paces import Paces
from videoload.leases.records import Chunk, Lease, Stream, Worker
from videoload.leases.silence import Look
from videoload.processes.still_time import StillTime

# A worker that is idle for this many ticks (3 s) while it holds leases will never answer them. The
# largest LEASE (1.3 MB) takes less at 4 Mbit/s, and so do three lost packets in a row.
_IDLE_TICKS = 12
# A worker gets a pause after this many mistakes: clips that it failed at and others could decode.
# Ten clips that it decodes make up for one. Each pause is twice as long as the one before, up to a
# minute.
_MISTAKES, AMENDS = 3, 0.1
_PAUSE_S, _MAX_PAUSE_S = 2.0, 60.0
_SETTLED_S = 30.0  # a worker that is here for so long does not die as soon as it is started
_TICKS = 8  # over these (2 s), it is averaged whether the line is full


class WorkerPool:
    """The connected workers. ``now`` is the latest time that was passed in, ``latest_answered``
    the latest grant of a lease that was answered."""

    def __init__(self, outbox: Outbox, *, credit: int, stall_s: float, silence_s: float) -> None:
        """As for `LeaseTable`."""
        self._outbox = outbox
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
        self._bytes = BytesInFlight()
        self._line_full = 0.0  # the share of the last ticks at which the line had no room
        self._locals = 0
        self._reliable: frozenset[Worker] | None = None  # until workers or the time change
        self._local_fetches = False
        self._lease_ids = count(1)
        self._ticked: float | None = None

    # Which workers there are

    @property
    def taking(self) -> int:
        """How many workers take leases now."""
        return sum(map(len, self._by_leases)) + len(self._full)

    @property
    def has_credit(self) -> bool:
        """Whether some worker would take another lease now."""
        return any(self._by_leases) and (self._locals > 0 or self._bytes.has_room(self.now))

    @property
    def line_is_full(self) -> bool:
        """Whether remote workers get no leases because the answers of others fill the line."""
        return self._line_full > 0.5

    def get(self, worker: WorkerId) -> Worker | None:
        """The worker, if it is connected."""
        return self._workers.get(worker)

    @property
    def heard_of(self) -> Iterator[Worker]:
        """The workers that are not silent."""
        return (worker for worker in self._workers.values() if not worker.is_silent)

    def others_are_silent(self, workers: Collection[Worker]) -> bool:
        """Whether another worker than these is connected, and silent."""
        return any(each.is_silent and each not in workers for each in self._workers.values())

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
        self.clock(worker.joined)
        if worker.id in self._workers:
            return
        self._workers[worker.id] = worker
        worker.still = StillTime(self._silence_s / 2, lambda: self.now)
        worker.still.look(worker.heard)
        if worker.local:
            worker.pace.fetches = self._local_fetches
        self._locals += worker.local
        self.affinity.joined(worker.host)
        self._file(worker)

    def leave(self, worker: WorkerId) -> Worker | None:
        """A worker has ended. It takes no more leases, and still has those that it held."""
        gone = self._workers.pop(worker, None)
        if gone is not None:
            self._locals -= gone.local
            self.affinity.left(gone.host)
            gone.is_silent = True
            self._file(gone)
        return gone

    def note_local_fetches(self, *, fetches: bool) -> None:
        """Whether local workers get the files of some stream from another host."""
        self._local_fetches = fetches
        for worker in self._workers.values():
            if worker.local and worker.pace.fetches is not fetches:
                worker.pace.fetches = fetches
                self._file(worker)

    # Leases

    def lease(self, worker: WorkerId, lease: int) -> Lease | None:
        """A lease that this worker still owes an answer to."""
        known = self._workers.get(worker)
        return None if known is None else known.leases.get(lease)

    def held(self, worker: WorkerId) -> int:
        """How many leases a worker holds."""
        known = self._workers.get(worker)
        return 0 if known is None else len(known.leases)

    def give(self, worker: Worker, chunk: Chunk) -> Lease:
        """Grant a lease of this chunk to the worker."""
        if worker.local:
            chunk.void_leases()
        stream = chunk.batch.reader.stream
        videos = tuple([sample.video for sample in chunk.samples])
        size = 0 if worker.local else chunk.size * stream.clip_bytes
        lease = Lease(
            next(self._lease_ids), worker, chunk, stream.id, chunk.batch.slot, chunk.rows, videos,
            self.now, before=len(worker.leases), size=size, on_line=size,
            is_checked=stream.checks(worker),
        )  # fmt: skip
        self._bytes.requested(size)
        if not worker.leases:
            worker.pace.begins(self.now)
        worker.leases[lease.id] = lease
        worker.on_probation = bool(chunk.blamed)
        self._file(worker)
        chunk.holders[lease] = None
        stream.granted = lease.id
        return lease

    def answered(self, lease: Lease, decode_s: float, clip_s: float, waited_s: float) -> None:
        """The answer to a lease has come. ``clip_s``: the time for a clip of its stream.
        ``waited_s``: how long the worker waited for something else than a core."""
        lease.worker.answered = True
        self.latest_answered = max(self.latest_answered, lease.granted)
        lease.worker.pace.answered(
            self.now, granted=lease.granted, decode_s=decode_s, clips=len(lease.videos),
            clip_s=clip_s, waited_s=waited_s,
        )  # fmt: skip
        work_s = min((lease.before + 1) * decode_s, self.now - lease.granted)
        self._bytes.received(lease.size, self.now, work_s)
        self._end(lease)

    def given_up(self, lease: Lease) -> None:
        """The worker no longer works on a lease that it did not answer."""
        lease.worker.pace.begins(self.now)
        self._end(lease)

    def _end(self, lease: Lease) -> None:
        del lease.worker.leases[lease.id]
        self._write_off(lease)
        self._file(lease.worker)
        lease.end()

    def _write_off(self, lease: Lease) -> None:
        """No part of its answer is on the line any more, or none is expected soon."""
        self._bytes.written_off(lease.on_line)
        lease.on_line = 0

    # Which worker takes the next lease

    @property
    def takers(self) -> Iterator[Worker]:
        """The workers that would take a lease, those that hold the fewest first. They are not to be
        granted any meanwhile."""
        room = self._bytes.has_room(self.now)
        if not (room or self._locals):
            return iter(())
        return (worker for worker in chain(*self._by_leases) if room or worker.local)

    def would_take(self, worker: Worker) -> bool:
        """Whether a worker would take a lease."""
        has_credit = worker.row is not None and worker.row is not self._full
        return has_credit and (worker.local or self._bytes.has_room(self.now))

    @property
    def idle(self) -> Iterator[Worker]:
        """The workers that hold no lease, and would take one."""
        return takewhile(lambda worker: not worker.leases, self.takers)

    def _file(self, worker: Worker) -> None:
        """Put a worker into its row, after its leases or its silence changed."""
        took = worker.row is not None
        if worker.row is not None:
            del worker.row[worker]
        paused = self._ticked is not None and self._ticked < worker.paused_until
        worker.row = None if worker.is_silent or paused else self._row(worker)
        if took != (worker.row is not None):
            self._reliable = None
        if worker.row is not None:
            worker.row[worker] = None

    def _row(self, worker: Worker) -> dict[Worker, None]:
        """The workers that hold as many leases as this one, or all that hold what they may."""
        held = len(worker.leases)
        # A slow worker takes one lease at a time: the next one would only wait.
        next_door = 1 if self.is_slow(worker) else self.credit
        if held >= next_door + worker.pace.on_the_way or (held and worker.on_probation):
            return self._full
        while held >= len(self._by_leases):
            self._by_leases.append({})
        return self._by_leases[held]

    def is_slow(self, worker: Worker) -> bool:
        """Whether it takes much longer than the others, or was not measured yet."""
        return self.paces.is_slow(worker.pace)

    def would_hold_up(self, worker: Worker, stream: Stream) -> bool:
        """Whether all slots of a stream would wait for one clip of this worker."""
        clips, takes = stream.slots * stream.batch_clips, worker.row is not None
        return self.paces.would_hold_up(worker.pace, self.now, clips, is_compared=takes)

    # Messages and silence

    def heard(self, known: Worker, now: float, progress: int | None, busy: str) -> None:
        """A message of a worker came; as for `LeaseTable`."""
        self._heard(known, now)
        known.silence.heard(busy)
        if progress is not None and math.isinf(known.pace.trip_s):
            known.pace.trip_s = now - known.joined  # it answers WELCOME with a heartbeat
        known.idle_beat = progress is not None and progress == known.progress
        if not known.idle_beat:
            known.idle_ticks = 0
        if progress is not None:
            known.progress = progress

    def sends(self, worker: WorkerId, now: float) -> None:
        """A part of a worker's message came. The rest may wait long for a full line; a connection
        that ends may look the same."""
        if (known := self._workers.get(worker)) is not None:
            self._heard(known, now)

    def _heard(self, known: Worker, now: float) -> None:
        self.clock(now)
        known.heard = now
        known.still.look(now)
        if known.is_silent and not known.evicted:
            known.is_silent = False
            self._file(known)

    def storage_answered(self, worker: WorkerId) -> None:
        """What `AskStorage` asked for was read."""
        if (known := self._workers.get(worker)) is not None:
            known.silence.storage_answered()

    def silent(self) -> list[WorkerId]:
        """The local workers that are silent for so long that `look` is to be called."""
        return [
            worker.id
            for worker in self._workers.values()
            if worker.local and not worker.evicted and worker.still.seconds > self.stall_s / 2
        ]

    def silent_at(self) -> list[Lease]:
        """The leases at which remote workers are silent for too long."""
        remote = [w for w in self._workers.values() if w.is_silent and not w.local]
        return [
            lease
            for worker in remote
            if worker.still.seconds > worker.silence.patience_s(self.stall_s)
            if (lease := worker.current_lease) is not None
        ]

    def look(self, worker: WorkerId, look: Look) -> None:
        """What the kernel tells about a worker in `silent`. Without it, a worker counts as hung."""
        self._workers[worker].silence.look(look)

    def tick(self, now: float) -> None:
        """Time passes; as for `LeaseTable`."""
        self._ticked = now
        self.clock(now)
        for worker in self._workers.values():
            self._look_after(worker)
        self._line_full += ((not self._bytes.has_room(now)) - self._line_full) / _TICKS
        # At each tick, and not at each grant: it takes time.
        self.paces.compare(w.pace for w in self._workers.values() if w.row is not None)
        for worker in self._workers.values():
            if worker.row is None:  # its pause may be over
                self._file(worker)

    def _look_after(self, worker: Worker) -> None:
        silent_s = worker.still.look(worker.heard)
        worker.idle_ticks += worker.idle_beat and bool(worker.leases)
        worker.idle_beat = False
        lost = worker.idle_ticks >= _IDLE_TICKS
        if worker.evicted or (worker.is_silent and not worker.local):
            return
        if worker.local and silent_s > self.stall_s / 2:
            self._ask_storage(worker)
        is_patient = worker.local or worker.silence.in_function  # another would call it as well
        if silent_s <= (self.stall_s if is_patient else self._silence_s) and not lost:
            return
        worker.is_silent = True
        self._file(worker)
        if lost:
            worker.silence.blameless = True
        if lost or (worker.local and self._is_stuck(worker, silent_s)):
            worker.evicted = True
            self._outbox.append(Evict(worker.id))
        elif not worker.local:
            for lease in worker.leases.values():
                self._write_off(lease)
                if lease.is_owed:
                    lease.chunk.requeue_if_abandoned()

    def _ask_storage(self, worker: Worker) -> None:
        """Ask once in a silence: a worker that waits may do so for its disk, or for ever."""
        lease = worker.current_lease
        if lease is not None and worker.silence.asks_storage():
            self._outbox.append(AskStorage(worker.id, lease.stream, lease.videos))

    def _is_stuck(self, worker: Worker, silent_s: float) -> bool:
        """Whether a local worker that is silent for too long is to be killed now."""
        most_s = silent_s - self.stall_s / 2
        alone = all(each.still.seconds >= most_s for each in self._workers.values() if each.local)
        has_work = bool(worker.leases)
        return worker.silence.is_over(silent_s, self.stall_s, has_work=has_work, is_alone=alone)

    def count_mistake(self, worker: Worker, reason: str) -> None:
        """A worker failed at a clip that others can decode. What it was granted before a pause
        adds nothing to it."""
        if self.now < worker.paused_until:
            return
        worker.mistakes += 1
        if worker.id not in self._workers or worker.mistakes < _MISTAKES:
            return
        worker.mistakes = 0.0
        worker.pause_s = seconds = min(2 * worker.pause_s or _PAUSE_S, _MAX_PAUSE_S)
        worker.paused_until = (self._ticked or 0.0) + seconds
        self._file(worker)
        self._outbox.append(Pause(worker.id, seconds, reason))
