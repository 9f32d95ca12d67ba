"""The workers of one client, as far as leases go: who is heard of, who takes the next lease, who is
slow, and who is to be paused or ended. Pure: no sockets, no threads, no clock.

  * Silence is no crime: a clip is blamed for a silent local worker only if that burns CPU, or
    sleeps while the storage answers. Where nobody is heard of, it is the storage or the host.
  * A worker that is far away, or whose files are, holds more leases than one next door, and all
    that send pixels together no more than their line brings in time: see `line`.
  * No worker makes a stream slower than it is without: who is measured to be slow gets short
    leases, one at a time, and none where its one clip would hold up all slots.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator
from itertools import chain, count

from videoload.leases.commands import (
    AskStorage,
    Command,
    Dismiss,
    Evict,
    Pause,
    WorkerId,
)
from videoload.leases.line import Line
from videoload.leases.paces import Paces
from videoload.leases.records import Chunk, Lease, Stream, Worker
from videoload.leases.silence import Look

# A worker that idles for so many ticks (3 s) while it holds leases will never answer them: the
# largest LEASE (1.3 MB) takes less at 4 Mbit/s, and so do three lost packets in a row.
_IDLE_TICKS = 12
# A worker that failed at so many clips that others could decode, and did well at fewer than ten
# times as many, gets no leases for a while, then for twice as long; after so many pauses, none.
_MISTAKES, AMENDS = 3, 0.1
_PAUSE_S, _MAX_PAUSES = 2.0, 5
_SETTLED_S = 30.0
_TICKS = 8  # over which it is averaged whether the line is full: 2 s


class WorkerPool:
    """Those that are connected. ``now``: the latest time that was told."""

    def __init__(self, *, credit: int, stall_s: float, silence_s: float) -> None:
        """As for `LeaseTable`."""
        self.credit = credit
        self.paces = Paces()
        self.now = -math.inf
        self.answered = -math.inf  # the latest grant of all leases that were answered
        self._stall_s = stall_s
        self._silence_s = silence_s
        self._workers: dict[WorkerId, Worker] = {}
        # Those that take leases, by how many they hold; who holds that many for longest is first.
        self._by_leases: list[dict[Worker, None]] = [{} for _ in range(credit)]
        self._full: dict[Worker, None] = {}  # those that take leases, but no more of them now
        self._line = Line()
        self._line_full = 0.0  # the share of the last ticks at which it had no room
        self._locals = 0
        self._local_fetches = False
        self._lease_ids = count(1)
        self._ticked: float | None = None

    # Who is there

    @property
    def taking(self) -> int:
        """Workers that take leases now."""
        return sum(map(len, self._by_leases)) + len(self._full)

    @property
    def has_credit(self) -> bool:
        """Whether some worker would take another lease now."""
        return any(self._by_leases) and (self._locals > 0 or self._line.has_room(self.now))

    @property
    def line_is_full(self) -> bool:
        """Whether workers that dialled in get no leases since others' answers fill the line."""
        return self._line_full > 0.5

    def get(self, worker: WorkerId) -> Worker | None:
        """The worker, if it is connected."""
        return self._workers.get(worker)

    def is_here(self, worker: Worker) -> bool:
        """Whether it is still connected, and not another of its name."""
        return self._workers.get(worker.id) is worker

    @property
    def heard_of(self) -> Iterator[Worker]:
        """Those that are not silent."""
        return (worker for worker in self._workers.values() if not worker.suspect)

    @property
    def reliable(self) -> list[Worker]:
        """Workers that take leases, and are here for half as long as the oldest of them or for
        `_SETTLED_S`. Those that die and return all the time are not among them."""
        takers = [worker for worker in self._workers.values() if worker.among is not None]
        oldest = min((worker.joined for worker in takers), default=self.now)
        since = max(self.now - _SETTLED_S, (self.now + oldest) / 2)
        return [worker for worker in takers if worker.joined <= since]

    def clock(self, now: float) -> None:
        """The time of what follows."""
        self.now = max(self.now, now)

    def join(
        self, worker: WorkerId, now: float, *, local: bool, copy: Hashable, fetches: bool
    ) -> None:
        """A worker is admitted, unless it is known."""
        self.clock(now)
        if worker in self._workers:
            return
        joined = self._workers[worker] = Worker(worker, local, copy, now, now)
        joined.pace.fetches = self._local_fetches if local else fetches
        self._locals += local
        self._file(joined)

    def leave(self, worker: WorkerId) -> Worker | None:
        """A worker has ended; it takes no more leases, and still has those that it held."""
        gone = self._workers.pop(worker, None)
        if gone is not None:
            self._locals -= gone.local
            gone.suspect = True
            self._file(gone)
        return gone

    def note_local_fetches(self, *, fetches: bool) -> None:
        """Whether local workers have the files of some stream from another host."""
        self._local_fetches = fetches
        for worker in self._workers.values():
            if worker.local and worker.pace.fetches is not fetches:
                worker.pace.fetches = fetches
                self._file(worker)

    # Leases

    def lease(self, worker: WorkerId, lease: int) -> Lease | None:
        """A lease of which nothing is decided: what is said of one that lands, is said too late."""
        known = self._workers.get(worker)
        found = None if known is None else known.leases.get(lease)
        return None if found is None or found.lands else found

    def give(self, worker: Worker, chunk: Chunk) -> Lease:
        """A lease of this chunk, which the worker holds from now on."""
        if worker.local:
            chunk.void_leases()
        stream = chunk.batch.reader.stream
        videos = tuple([sample.video for sample in chunk.samples])
        size = 0 if worker.local else chunk.size * stream.clip_bytes
        lease = Lease(
            next(self._lease_ids), worker, chunk, stream.id, videos, self.now,
            before=len(worker.leases), size=size, on_line=size,
        )  # fmt: skip
        self._line.asked(size)
        if not worker.leases:
            worker.pace.begins(self.now)
        worker.leases[lease.id] = lease
        self._file(worker)
        chunk.holders[lease] = None
        stream.granted = lease.id
        return lease

    def arrived(self, lease: Lease, decode_s: float, clip_s: float, waited_s: float = 0.0) -> None:
        """The answer to a lease has come; ``clip_s``: what a clip of its stream takes;
        ``waited_s``: what the worker waited for something else than a core."""
        if lease.arrived:
            return
        lease.arrived = True
        lease.worker.answered = True
        self.answered = max(self.answered, lease.granted)
        self._measure(lease, decode_s, clip_s, waited_s)
        work_s = min((lease.before + 1) * decode_s, self.now - lease.granted)
        self._line.came(lease.size, self.now, work_s)
        self._write_off(lease)

    def settle(self, lease: Lease) -> None:
        """The worker no longer works on this lease."""
        del lease.worker.leases[lease.id]
        self._write_off(lease)
        if not lease.arrived:
            lease.worker.pace.begins(self.now)
        self._file(lease.worker)
        lease.void()
        lease.drain()

    def _write_off(self, lease: Lease) -> None:
        """Nothing of its answer is on the line any more, or expected to come soon."""
        self._line.written_off(lease.on_line)
        lease.on_line = 0

    # Who takes the next one

    def next_taker(self, passed_over: Collection[Worker]) -> Worker | None:
        """The worker that is next to get a lease: first each gets one, then a second."""
        return next((w for w in self._takers(self._by_leases) if w not in passed_over), None)

    @property
    def idle(self) -> Iterator[Worker]:
        """Those that hold no lease, and would take one."""
        return self._takers(self._by_leases[:1])

    def _takers(self, rows: Iterable[dict[Worker, None]]) -> Iterator[Worker]:
        room = self._line.has_room(self.now)
        if not (room or self._locals):
            return iter(())
        return (worker for worker in chain(*rows) if room or worker.local)

    def _file(self, worker: Worker) -> None:
        """Put a worker where it is looked for, after its leases or its silence changed."""
        if worker.among is not None:
            del worker.among[worker]
        paused = self._ticked is not None and self._ticked < worker.paused_until
        if worker.suspect or paused:
            worker.among = None
        else:
            worker.among = self._row(worker)
            worker.among[worker] = None

    def _row(self, worker: Worker) -> dict[Worker, None]:
        """Those that hold as many leases as this worker, or that all have what they may."""
        held = len(worker.leases)
        # A slow worker takes one lease at a time: the next would only wait.
        next_door = 1 if self.is_slow(worker) else self.credit
        if held >= next_door + worker.pace.on_the_way:
            return self._full
        while held >= len(self._by_leases):
            self._by_leases.append({})
        return self._by_leases[held]

    # How quick each worker is

    def is_slow(self, worker: Worker) -> bool:
        """Whether it takes much longer than the others, or has not shown how long."""
        return self.paces.is_slow(worker.pace)

    def would_hold_up(self, worker: Worker, stream: Stream) -> bool:
        """Whether all slots of a stream would wait for one clip of this worker's."""
        clips, takes = stream.slots * stream.batch_clips, worker.among is not None
        return self.paces.would_hold_up(worker.pace, self.now, clips, is_compared=takes)

    def _measure(self, lease: Lease, decode_s: float, clip_s: float, waited_s: float) -> None:
        """An answer came: how long did its worker have for it?"""
        worker = lease.worker
        worker.pace.answered(
            self.now, granted=lease.granted, decode_s=decode_s, clips=len(lease.videos),
            clip_s=clip_s, waited_s=waited_s,
        )  # fmt: skip

    # Words, and silence

    def heard(self, known: Worker, now: float, progress: int | None, *, importing: bool) -> None:
        """A message of a worker came; as for `LeaseTable`."""
        self.sends(known, now)
        known.silence.broken(importing=importing)
        if progress is None or progress != known.progress:
            known.progressed = now
        if progress is not None and math.isinf(known.pace.trip_s):
            known.pace.trip_s = now - known.joined  # it answers WELCOME with a heartbeat
        known.idle_beat = progress is not None and progress == known.progress
        if not known.idle_beat:
            known.idle_ticks = 0
        if progress is not None:
            known.progress = progress

    def sends(self, known: Worker, now: float) -> None:
        """Something of a worker's message came, if not all of it."""
        self.clock(now)
        known.heard = now
        if known.suspect and not known.evicted:
            known.suspect = False
            for lease in known.leases.values():
                if lease.chunk is not None:
                    lease.chunk.take_back(known)
            self._file(known)

    def silent(self, now: float) -> list[WorkerId]:
        """The local workers that are silent for long enough to be looked at: see `look`."""
        return [
            worker.id
            for worker in self._workers.values()
            if worker.local and not worker.evicted and now - worker.heard > self._stall_s / 2
        ]

    def silent_at(self) -> list[Lease]:
        """The leases that remote workers are at which are silent for longer than `stall_s`."""
        workers = (
            worker
            for worker in self._workers.values()
            if worker.suspect and not worker.local and self.now - worker.heard > self._stall_s
        )
        return [lease for worker in workers if (lease := worker.at) is not None]

    def look(self, worker: WorkerId, look: Look) -> None:
        """What the kernel tells of a worker in `silent`. Without any look, it counts as hung."""
        self._workers[worker].silence.look(look)

    def tick(self, now: float) -> list[Command]:
        """Time passes; as for `LeaseTable`."""
        pause = 0.0 if self._ticked is None else now - self._ticked
        self._ticked = now
        self.clock(now)
        commands: list[Command] = []
        for worker in self._workers.values():
            if pause > self._silence_s / 2:  # this process was stopped, not all the workers
                worker.heard += pause
                worker.silence.excuse()
            commands += self._look_after(worker, now)
        self._line_full += ((not self._line.has_room(now)) - self._line_full) / _TICKS
        # Found out at each tick, not at each grant.
        self.paces.compare(w.pace for w in self._workers.values() if w.among is not None)
        for worker in self._workers.values():
            if worker.among is None:  # its pause may be over
                self._file(worker)
        return commands

    def _look_after(self, worker: Worker, now: float) -> list[Command]:
        commands: list[Command] = []
        silent = now - worker.heard
        has_work = not all(lease.lands for lease in worker.leases.values())
        worker.idle_ticks += worker.idle_beat and has_work
        worker.idle_beat = False
        lost = worker.idle_ticks >= _IDLE_TICKS
        if worker.evicted or (worker.suspect and not worker.local):
            return []
        if worker.local and silent > self._stall_s / 2:
            commands += self._ask_storage(worker)
        if silent <= (self._stall_s if worker.local else self._silence_s) and not lost:
            return commands
        worker.suspect = True
        self._file(worker)
        if lost:
            worker.silence.blameless = True
        if lost or (worker.local and self._is_stuck(worker, silent)):
            worker.evicted = True
            commands.append(Evict(worker.id))
        elif not worker.local:
            for lease in worker.leases.values():
                self._write_off(lease)
                if lease.chunk is not None:
                    lease.chunk.requeue_if_abandoned()
        return commands

    def _ask_storage(self, worker: Worker) -> list[Command]:
        """Once in a silence: a worker that sleeps may wait for its disk, or for ever."""
        if not worker.leases or not worker.silence.asks_storage():
            return []
        lease = next(iter(worker.leases.values()))
        return [AskStorage(worker.id, lease.stream, lease.videos)]

    def _is_stuck(self, worker: Worker, silent: float) -> bool:
        """Whether a local worker, silent for longer than it may be, is to be killed now; and
        whether that speaks against what it is at."""
        since = worker.heard + self._stall_s / 2
        alone = not any(other.heard > since for other in self._workers.values() if other.local)
        return worker.silence.is_over(
            silent, self._stall_s, has_work=bool(worker.leases), is_alone=alone
        )

    # Who is trusted

    def count_mistake(self, worker: Worker, reason: str, weight: float = 1) -> list[Command]:
        """A worker failed at a clip that others can decode."""
        worker.mistakes += weight
        if worker.id not in self._workers or worker.mistakes < _MISTAKES:
            return []
        worker.mistakes = 0.0
        worker.pauses += 1
        if worker.pauses > _MAX_PAUSES:
            return [Dismiss(worker.id, reason)]
        seconds = _PAUSE_S * 2 ** (worker.pauses - 1)
        worker.paused_until = (self._ticked or 0.0) + seconds
        self._file(worker)
        return [Pause(worker.id, seconds, reason)]
