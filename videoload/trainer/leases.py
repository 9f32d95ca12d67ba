"""Which worker owes which clip. Pure: events in, commands out, no sockets, no threads, no clock.

A *reader* reads a stream once, for one consumer. It opens batches, in step order, into free
slots; each open batch is split into *chunks*, consecutive clips; a chunk is granted to a worker as
a *lease*. The invariants:

  * A slot has one owner at a time: free -> filling (its batch) -> held (the consumer) -> free.
    Memory is bounded by slots, whatever the number of workers.
  * A chunk is done once: its first valid answer counts, a later one finds its lease void.
  * The fence: at most one live lease of a chunk writes into shared memory (a local one). It is
    granted again only after its worker is dead, and a cancelled batch keeps its slot until every
    local lease on it is answered or its worker is dead. Over tcp no worker writes, so a silent
    worker's chunks go to the next one at once, and the first answer wins - unless the next one is
    local: that grant makes the remote ones void.
  * The reader that was asked last owns the stream's slots: another one, left half-way, gives back
    what was not yet consumed and decodes it again when it is asked again. A reader that waits is
    handed one batch before another may take over, and then those that wait take turns: two
    iterators over one stream, in one thread or in two, never wait for each other for good.
  * One worker's word is not enough: a clip that it cannot decode is asked of another one, of
    another copy of the videos where there is one, before it is taken for bad. Only the trainer's
    own copy has the last word at once.

Events are the methods; each returns the commands that the I/O loop has to carry out.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import chain, count

import numpy as np
import numpy.typing as npt

from videoload.errors import TransformError, VideoloadError
from videoload.spec.plan import Plan, Sample
from videoload.spec.quarantine import Quarantine

WorkerId = Hashable

_LEASE_CLIPS = 16  # at most; with so many, a lease's messages cost less than 1 % of its decoding
_LEASE_S = 0.05  # of decoding; with less, a lease's messages cost more than 1 % of it
# A clip that, alone in its lease, was at work when so many workers died, is what kills them. They
# are killed from outside as well (preemption, out of memory, a cut connection), and twice in a row
# over the same clip happens by chance.
_DEATHS = 4
_CRASHES = 2  # ... and so many suffice that crashed, or hung and were killed for it
# A worker that idles for so many ticks (3 s) while it holds leases will never answer them: the
# largest LEASE (1.3 MB) takes less at 4 Mbit/s, and so do three lost packets in a row.
_IDLE_TICKS = 12
# A worker that failed at so many clips that others could decode, and did well at fewer than ten
# times as many, gets no leases for a while, then for twice as long; after so many pauses, none.
_MISTAKES, _AMENDS = 3, 0.1
_PAUSE_S, _MAX_PAUSES = 2.0, 5
_TRIES = 3  # of a worker whose answers are not taken, where there is no other


@dataclass(frozen=True, slots=True)
class Grant:
    """Send this lease: ``samples`` go to rows ``first``... of ``slot`` of ``stream``."""

    worker: WorkerId
    lease: int
    stream: int
    slot: int
    first: int
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """Hand this batch to ``reader``'s consumer; its slot is the consumer's until `slot_back`."""

    reader: int
    step: int
    slot: int
    samples: tuple[Sample, ...]
    frames: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Recall:
    """Take back what was handed to ``reader`` but not consumed yet; report it with `recalled`."""

    reader: int


@dataclass(frozen=True, slots=True)
class Evict:
    """This worker is stuck. A local one: kill it, and report `worker_left` once it is reaped. A
    remote one: report `worker_left`, and let it send HELLO again."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class Pause:
    """This worker goes on failing where others do not: it gets no leases for ``seconds``. Tell it,
    and people, why."""

    worker: WorkerId
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Dismiss:
    """Pauses did not help: have no more of this worker, and report `worker_left`."""

    worker: WorkerId
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """The stream cannot go on: tell all its consumers why."""

    stream: int
    error: VideoloadError


Command = Grant | Ready | Recall | Evict | Pause | Dismiss | Stop


@dataclass(eq=False, slots=True)
class _Stream:
    id: int
    plan: Plan
    quarantine: Quarantine
    clip_frames: int
    ordered: bool
    lease_clips: int
    slots: int
    free: list[int]
    readers: dict[int, _Reader] = field(default_factory=dict)
    owner: _Reader | None = None
    stopped: bool = False
    clip_s: float = math.inf  # what decoding a clip takes, a moving average

    def note_clip_time(self, seconds: float) -> None:
        if 0 < seconds < math.inf:
            before = seconds if math.isinf(self.clip_s) else self.clip_s
            self.clip_s = before + (seconds - before) / 8


@dataclass(eq=False, slots=True)
class _Reader:
    id: int
    stream: _Stream
    opened: int  # first step that was never opened
    stop: int
    due: int  # next step to hand over, if ordered
    again: list[int] = field(default_factory=list)  # heap of steps to open again
    filling: dict[int, _Batch] = field(default_factory=dict)
    complete: dict[int, _Batch] = field(default_factory=dict)
    orphans: list[tuple[int, int, _Chunk]] = field(default_factory=list)  # heap by step and row
    splitting: _Batch | None = None
    waiting: bool = False
    owed: bool = False  # it owns the slots and was not handed a batch since

    @property
    def unfinished(self) -> bool:
        return bool(self.opened < self.stop or self.again or self.filling)


@dataclass(eq=False, slots=True)
class _Batch:
    reader: _Reader
    step: int
    slot: int
    samples: list[Sample]
    frames: npt.NDArray[np.int64]
    next_row: int = 0  # the first that is in no chunk yet
    missing: int = 0  # rows not done
    chunks: set[_Chunk] = field(default_factory=set)  # those not done
    writers: int = 0  # local leases that outlive the cancelled batch


@dataclass(frozen=True, slots=True)
class _Doubt:
    """What a worker said against a clip: that it cannot be decoded, or, ``of_worker``, what speaks
    against the worker itself."""

    worker: _Worker
    reason: str
    dropped: bool = False
    fatal: bool = False
    of_worker: bool = False


@dataclass(eq=False, slots=True)
class _Chunk:
    batch: _Batch
    first: int
    size: int
    holders: set[_Lease] = field(default_factory=set)
    doubts: list[_Doubt] = field(default_factory=list)  # of a chunk of one clip
    deaths: int = 0
    crashes: int = 0  # deaths that look like a decoder's doing
    queued: bool = False  # among its reader's orphans


@dataclass(eq=False, slots=True)
class _Lease:
    id: int
    worker: _Worker
    chunk: _Chunk | None  # None: void, the answer will be dropped
    drains: _Batch | None = None  # the cancelled batch that waits for this writer


@dataclass(eq=False, slots=True)
class _Worker:
    id: WorkerId
    local: bool
    copy: Hashable  # which copy of the videos it reads; None: the trainer's own
    heard: float
    leases: dict[int, _Lease] = field(default_factory=dict)
    among: dict[_Worker, None] | None = None  # those that hold as many leases; None while suspect
    suspect: bool = False
    progress: int = -1  # packets that it had decoded at its last heartbeat
    idle_beat: bool = False  # at its last heartbeat it had decoded nothing since the one before
    idle_ticks: int = 0  # in a row, with such a heartbeat while it held leases
    mistakes: float = 0.0  # clips that it failed at and others did not, less what it did well
    pauses: int = 0
    paused_until: float = -math.inf


class LeaseTable:
    """The state of one client: streams, their slots, and the workers."""

    def __init__(
        self, *, credit: int, stall_s: float, silence_s: float, deaths: int = _DEATHS
    ) -> None:
        """``credit``: leases a worker holds at once. ``stall_s``: a local worker silent for so
        long is killed. ``silence_s``: the leases of a remote one silent for so long go to others.
        ``deaths``: a clip that, alone in its lease, so many workers died over is taken for bad."""
        self._credit = credit
        self._stall_s = stall_s
        self._silence_s = silence_s
        self._deaths = deaths
        self._streams: dict[int, _Stream] = {}
        self._readers: dict[int, _Reader] = {}
        self._workers: dict[WorkerId, _Worker] = {}
        # Those that take leases, by how many they hold; who holds that many for longest is first.
        self._by_leases: list[dict[_Worker, None]] = [{} for _ in range(credit + 1)]
        self._blamed: dict[WorkerId, _Chunk] = {}  # the chunk that each lost worker was at
        self._lease_ids = count(1)
        self._chunk_ids = count()
        self._ticked: float | None = None

    @property
    def workers(self) -> int:
        """Workers that take leases now."""
        return sum(map(len, self._by_leases))

    @property
    def has_credit(self) -> bool:
        """Whether some worker would take another lease now."""
        return any(self._by_leases[:-1])

    # Streams and their consumers

    def add_stream(
        self,
        stream: int,
        plan: Plan,
        quarantine: Quarantine,
        *,
        clip_frames: int,
        slots: int,
        ordered: bool,
        lease_clips: int = _LEASE_CLIPS,
    ) -> None:
        """Make a stream known; it does nothing before a reader starts. ``lease_clips``: so many of
        its clips fit into one message."""
        most = max(1, min(lease_clips, _LEASE_CLIPS))
        self._streams[stream] = _Stream(
            stream, plan, quarantine, clip_frames, ordered, most, slots, list(range(slots))[::-1]
        )

    def drop_stream(self, stream: int) -> list[Command]:
        """Forget a stream that has no consumers any more."""
        commands: list[Command] = []
        self._streams[stream].stopped = True
        for reader in list(self._streams[stream].readers):
            commands += self.end_reader(reader)
        del self._streams[stream]
        return commands

    def start_reader(self, stream: int, reader: int, start: int, stop: int) -> list[Command]:
        """A consumer begins to read steps start..stop-1."""
        owner = self._streams[stream]
        self._readers[reader] = owner.readers[reader] = _Reader(reader, owner, start, stop, start)
        return self.wanted(reader)

    def wanted(self, reader: int) -> list[Command]:
        """The consumer of ``reader`` waits for its next batch. May be said again while it waits."""
        asking = self._readers.get(reader)
        if asking is None or not asking.unfinished:
            return []
        asking.waiting = True
        owner = asking.stream.owner
        if owner is not asking and owner is not None and owner.owed:
            return []
        return self._give_turn(asking) + self._grant()

    def recalled(self, reader: int, batches: list[tuple[int, int]]) -> list[Command]:
        """(step, slot) of the batches that a `Recall` took back from the consumer."""
        back = self._readers[reader]
        for step, slot in batches:
            heappush(back.again, step)
            back.due = min(back.due, step)
            back.stream.free.append(slot)
        return self._grant()

    def slot_back(self, stream: int, slot: int) -> list[Command]:
        """The consumer is done with a slot."""
        if stream in self._streams:
            self._streams[stream].free.append(slot)
        return self._grant()

    def end_reader(self, reader: int) -> list[Command]:
        """The consumer reads no further, at the end or before."""
        ended = self._readers.pop(reader, None)
        if ended is None:
            return []
        del ended.stream.readers[reader]
        if ended.stream.owner is ended:
            ended.stream.owner = None
        self._cancel_all(ended)
        return self._pass_turn(ended.stream) + self._grant()

    # Workers

    def worker_joined(
        self, worker: WorkerId, *, local: bool, now: float, copy: Hashable = None
    ) -> list[Command]:
        """A worker is admitted. ``local``: it writes into shared memory. ``copy``: which copy of
        the videos it reads; None is the trainer's own, whose word is final."""
        if worker not in self._workers:
            self._workers[worker] = _Worker(worker, local, copy, now)
            self._file(self._workers[worker])
        return self._grant()

    def heard(self, worker: WorkerId, now: float, progress: int | None = None) -> bool:
        """A message of a worker came; False if it is not known. ``progress``: of a heartbeat, how
        many packets it has decoded."""
        known = self._workers.get(worker)
        if known is None:
            return False
        known.heard = now
        if known.suspect:
            known.suspect = False
            self._file(known)
        known.idle_beat = progress is not None and progress == known.progress
        if not known.idle_beat:
            known.idle_ticks = 0
        if progress is not None:
            known.progress = progress
        return True

    def worker_left(self, worker: WorkerId, *, died: bool, crashed: bool = False) -> list[Command]:
        """A worker has ended: a local one is reaped, a remote one sent BYE or cannot be reached.
        ``died``: the lease that it was at may be what killed it."""
        gone = self._workers.pop(worker, None)
        if gone is None:
            return []
        gone.suspect = True  # takes no more
        self._file(gone)
        commands: list[Command] = []
        leases = list(gone.leases.values())
        at_work = leases[0] if leases and died else None
        for lease in leases:
            chunk = lease.chunk
            self._settle(lease)
            if chunk is None:
                continue
            if lease is at_work and not chunk.holders:
                if chunk.size == 1 and not gone.local:
                    self._blamed[worker] = chunk
                commands += self._blame(chunk, crashed=crashed)
            else:
                self._requeue_if_abandoned(chunk)
        return commands + self._grant()

    def worker_returned(self, worker: WorkerId) -> None:
        """A remote worker that had `worker_left` is back under another name: it was the connection
        that broke, so the clip that it was at is not to blame."""
        chunk = self._blamed.pop(worker, None)
        if chunk is not None and chunk.deaths:
            chunk.deaths -= 1

    def place(self, worker: WorkerId, lease: int) -> tuple[int, int, int, int] | None:
        """(stream, slot, first row, rows) that the answer to ``lease`` fills; None: it is void."""
        found = self._lease(worker, lease)
        if found is None or found.chunk is None:
            return None
        chunk = found.chunk
        return chunk.batch.reader.stream.id, chunk.batch.slot, chunk.first, chunk.size

    def videos(self, worker: WorkerId, lease: int) -> list[int]:
        """The videos of the clips of ``lease``, in its order; none if it is void."""
        found = self._lease(worker, lease)
        chunk = None if found is None else found.chunk
        if chunk is None:
            return []
        rows = slice(chunk.first, chunk.first + chunk.size)
        return [sample.video for sample in chunk.batch.samples[rows]]

    def result(
        self, worker: WorkerId, lease: int, frames: npt.NDArray[np.int64], decode_s: float = 0.0
    ) -> list[Command]:
        """The clips of ``lease`` are in their place; ``frames`` are the source ordinals [n, T],
        ``decode_s`` is what the decoding took."""
        found = self._lease(worker, lease)
        if found is None:
            return []
        chunk = found.chunk
        self._settle(found)
        if chunk is None:
            return self._grant()
        batch = chunk.batch
        batch.reader.stream.note_clip_time(decode_s / chunk.size)
        batch.frames[chunk.first : chunk.first + chunk.size] = frames
        batch.missing -= chunk.size
        batch.chunks.discard(chunk)
        if chunk.deaths:  # it was not what killed them
            self._blamed = {who: what for who, what in self._blamed.items() if what is not chunk}
        for other in list(chunk.holders):
            self._void(other)
        found.worker.mistakes = max(0.0, found.worker.mistakes - _AMENDS * chunk.size)
        commands: list[Command] = []
        for doubt in chunk.doubts:
            if not doubt.of_worker:  # that was counted at once
                commands += self._count_mistake(doubt.worker, doubt.reason)
        if not batch.missing:
            reader = batch.reader
            reader.complete[batch.step] = reader.filling.pop(batch.step)
            commands += self._deliver(reader)
        return commands + self._grant()

    def failed(
        self,
        worker: WorkerId,
        lease: int,
        at: int,
        reason: str,
        *,
        dropped: bool = False,
        fatal: bool = False,
    ) -> list[Command]:
        """Clip ``at`` of ``lease`` cannot be decoded, says its worker, which stopped there.

        If that worker reads the trainer's own copy, or one of another copy says the same, or there
        is no other worker to ask, it is so: another clip is substituted, or if it is ``fatal`` the
        stream stops. Else another worker is asked."""
        found = self._lease(worker, lease)
        if found is None:
            return []
        return self._doubt(found, at, _Doubt(found.worker, reason, dropped, fatal)) + self._grant()

    def refused(self, worker: WorkerId, lease: int, at: int, reason: str) -> list[Command]:
        """The answer to ``lease`` is not taken, because of what its worker has for clip ``at``:
        another worker is asked."""
        found = self._lease(worker, lease)
        if found is None:
            return []
        commands = self._doubt(found, at, _Doubt(found.worker, reason, of_worker=True))
        return commands + self._count_mistake(found.worker, reason) + self._grant()

    def tick(self, now: float) -> list[Command]:
        """Time passes. Has local workers killed that are stuck, gives the leases of silent remote
        ones to others, and has those admitted anew that are alive and idle while they hold leases:
        a lease or its answer was lost on the way."""
        pause = 0.0 if self._ticked is None else now - self._ticked
        self._ticked = now
        commands: list[Command] = []
        for worker in self._workers.values():
            if pause > self._silence_s / 2:  # this process was stopped, not all the workers
                worker.heard += pause
            silent = now - worker.heard
            worker.idle_ticks += worker.idle_beat and bool(worker.leases)
            worker.idle_beat = False
            lost = worker.idle_ticks >= _IDLE_TICKS
            deadline_s = self._stall_s if worker.local else self._silence_s
            if worker.suspect or (silent <= deadline_s and not lost):
                continue
            worker.suspect = True
            self._file(worker)
            if worker.local or lost:
                commands.append(Evict(worker.id))
                continue
            for lease in worker.leases.values():
                if lease.chunk is not None:
                    self._requeue_if_abandoned(lease.chunk)
        for worker in self._workers.values():
            if worker.among is None:  # its pause may be over
                self._file(worker)
        for stream in self._streams.values():
            commands += self._pass_turn(stream)
            if stream.owner is not None:
                commands += self._settle_doubts(stream.owner)
        return commands + self._grant()

    # What follows from the events

    def _lease(self, worker: WorkerId, lease: int) -> _Lease | None:
        known = self._workers.get(worker)
        return None if known is None else known.leases.get(lease)

    def _file(self, worker: _Worker) -> None:
        """Put a worker where `_grant` looks for it, after its leases or its silence changed."""
        if worker.among is not None:
            del worker.among[worker]
        paused = self._ticked is not None and self._ticked < worker.paused_until
        takes_none = worker.suspect or paused
        worker.among = None if takes_none else self._by_leases[len(worker.leases)]
        if worker.among is not None:
            worker.among[worker] = None

    def _settle(self, lease: _Lease) -> None:
        """The worker no longer works on this lease."""
        del lease.worker.leases[lease.id]
        self._file(lease.worker)
        if lease.chunk is not None:
            lease.chunk.holders.discard(lease)
            lease.chunk = None
        if lease.drains is not None:
            batch, lease.drains = lease.drains, None
            batch.writers -= 1
            if not batch.writers:
                batch.reader.stream.free.append(batch.slot)

    @staticmethod
    def _void(lease: _Lease) -> None:
        """The worker still works on this lease, for nothing."""
        if lease.chunk is not None:
            lease.chunk.holders.discard(lease)
            lease.chunk = None

    def _requeue_if_abandoned(self, chunk: _Chunk) -> None:
        """If no worker that is heard of works on the chunk, it goes to the next one."""
        if all(lease.worker.suspect for lease in chunk.holders):
            self._requeue(chunk)

    def _requeue(self, chunk: _Chunk) -> None:
        if not chunk.queued:
            chunk.queued = True
            orphan = (chunk.batch.step, next(self._chunk_ids), chunk)
            heappush(chunk.batch.reader.orphans, orphan)

    def _blame(self, chunk: _Chunk, *, crashed: bool) -> list[Command]:
        """A worker died over this chunk. Its clips are granted again one by one; one that then
        goes on killing workers is taken for bad, and its video with it."""
        if chunk.size == 1:
            chunk.deaths += 1
            chunk.crashes += crashed
            if chunk.deaths >= self._deaths or chunk.crashes >= _CRASHES:
                reason = f"{chunk.deaths} workers died while decoding it"
                return self._fail(chunk, 0, reason, dropped=False)
            self._requeue(chunk)
            return []
        batch = chunk.batch
        batch.chunks.discard(chunk)
        for row in range(chunk.first, chunk.first + chunk.size):
            one = _Chunk(batch, row, 1)
            batch.chunks.add(one)
            self._requeue(one)
        return []

    def _fail(self, chunk: _Chunk, at: int, reason: str, *, dropped: bool) -> list[Command]:
        batch = chunk.batch
        stream = batch.reader.stream
        if not 0 <= at < chunk.size:
            at, reason = 0, f"worker named clip {at} of {chunk.size}: {reason}"
        video = batch.samples[chunk.first + at].video
        try:
            stream.quarantine.add(video, reason, dropped=dropped)
        except VideoloadError as error:
            return self._stop(stream, error)
        self._requeue(chunk)  # substitutes are chosen when it is granted again
        return []

    def _doubt(self, lease: _Lease, at: int, doubt: _Doubt) -> list[Command]:
        """A worker's answer is that it has none, or it is not taken."""
        chunk = lease.chunk
        self._settle(lease)
        if chunk is None:
            return []
        for other in list(chunk.holders):
            self._void(other)
        if not 0 <= at < chunk.size:
            doubt = replace(doubt, reason=f"worker named clip {at} of {chunk.size}: {doubt.reason}")
            at = 0
        if doubt.worker.copy is None and not doubt.of_worker:
            if doubt.fatal:
                return self._stop(chunk.batch.reader.stream, TransformError(doubt.reason))
            return self._fail(chunk, at, doubt.reason, dropped=doubt.dropped)
        one = self._single_out(chunk, at)
        one.doubts.append(doubt)
        return self._settle_or_requeue(one)

    def _settle_or_requeue(self, chunk: _Chunk) -> list[Command]:
        """A doubted clip: it is decided on, or asked of another worker."""
        said = [doubt for doubt in chunk.doubts if not doubt.of_worker]
        local = any(worker.copy is None for worker in self._heard_of())  # has the last word
        agreed = len({doubt.worker.copy for doubt in said}) > 1 and not local
        if not agreed and any(self._may_take(worker, chunk) for worker in self._heard_of()):
            self._requeue(chunk)
            return []
        doubt = (said or chunk.doubts)[0]
        chunk.doubts.clear()
        if doubt.fatal:
            return self._stop(chunk.batch.reader.stream, TransformError(doubt.reason))
        return self._fail(chunk, 0, doubt.reason, dropped=doubt.dropped)

    def _settle_doubts(self, reader: _Reader) -> list[Command]:
        """Those who might have been asked may have left since."""
        commands: list[Command] = []
        for _, _, chunk in list(reader.orphans):
            if chunk.doubts and chunk in chunk.batch.chunks and any(self._heard_of()):
                commands += self._settle_or_requeue(chunk)
        return commands

    def _heard_of(self) -> Iterator[_Worker]:
        return (worker for worker in self._workers.values() if not worker.suspect)

    def _may_take(self, worker: _Worker, chunk: _Chunk) -> bool:
        """Whether a worker may be asked for a doubted clip: nobody twice, and those of a copy that
        was asked before only if there are no others."""
        asked = [doubt.worker for doubt in chunk.doubts]
        if worker in asked:
            # A file may have changed while it was decoded: then it is as it should be next time.
            alone = all(other in asked for other in self._heard_of())
            tries = [doubt.of_worker for doubt in chunk.doubts if doubt.worker is worker]
            return alone and all(tries) and len(tries) < _TRIES
        copies = {other.copy for other in asked}
        return worker.copy not in copies or all(w.copy in copies for w in self._heard_of())

    def _single_out(self, chunk: _Chunk, at: int) -> _Chunk:
        """A chunk of clip ``at`` alone; the others are granted again as they are."""
        if chunk.size == 1:
            return chunk
        batch = chunk.batch
        batch.chunks.discard(chunk)
        one = _Chunk(batch, chunk.first + at, 1)
        batch.chunks.add(one)
        for first, last in ((0, at), (at + 1, chunk.size)):
            if first < last:
                rest = _Chunk(batch, chunk.first + first, last - first)
                batch.chunks.add(rest)
                self._requeue(rest)
        return one

    def _count_mistake(self, worker: _Worker, reason: str) -> list[Command]:
        """A worker failed at a clip that others can decode."""
        worker.mistakes += 1
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

    def _stop(self, stream: _Stream, error: VideoloadError) -> list[Command]:
        stream.stopped = True
        for reader in stream.readers.values():
            self._cancel_all(reader)
        return [Stop(stream.id, error)]

    @staticmethod
    def _choose_substitutes(batch: _Batch, first: int, size: int) -> None:
        substitute = batch.reader.stream.quarantine.replace
        batch.samples[first : first + size] = map(substitute, batch.samples[first : first + size])

    def _cancel_all(self, reader: _Reader) -> None:
        for batch in [*reader.filling.values(), *reader.complete.values()]:
            for chunk in batch.chunks:
                for lease in list(chunk.holders):
                    self._void(lease)
                    if lease.worker.local:
                        lease.drains = batch
                        batch.writers += 1
            if not batch.writers:
                reader.stream.free.append(batch.slot)
        reader.filling.clear()
        reader.complete.clear()
        reader.orphans.clear()
        reader.splitting = None

    def _give_turn(self, reader: _Reader) -> list[Command]:
        """``reader`` owns its stream's slots from now on."""
        stream, other = reader.stream, reader.stream.owner
        if other is reader:
            return []
        stream.owner = reader
        reader.owed = True
        if other is None:
            return []
        stream.readers[other.id] = stream.readers.pop(other.id)  # behind those that wait
        for batch in [*other.filling.values(), *other.complete.values()]:
            heappush(other.again, batch.step)
        self._cancel_all(other)
        return [Recall(other.id)]

    def _pass_turn(self, stream: _Stream) -> list[Command]:
        """If the owner had its batch, the next of the readers that wait has its turn."""
        if stream.stopped or (stream.owner is not None and stream.owner.owed):
            return []
        for reader in stream.readers.values():
            if reader.waiting and reader is not stream.owner:
                return self._give_turn(reader)
        return []

    def _deliver(self, reader: _Reader) -> list[Command]:
        commands: list[Command] = []
        for step in [reader.due] if reader.stream.ordered else sorted(reader.complete):
            at = step
            while (batch := reader.complete.pop(at, None)) is not None:
                commands.append(
                    Ready(reader.id, at, batch.slot, tuple(batch.samples), batch.frames)
                )
                reader.waiting = reader.owed = False
                at += 1
                reader.due = at
        return commands

    def _grant(self) -> list[Command]:
        """Leases for every worker that has credit, as far as there is work and slots for it."""
        commands: list[Command] = []
        *with_credit, _ = self._by_leases
        passed_over: set[_Worker] = set()  # what is left is not for them
        # First one lease to each idle worker, then a second.
        while worker := next((w for w in chain(*with_credit) if w not in passed_over), None):
            chunk = self._next_chunk(worker)
            if chunk is None and any(reader.orphans for reader in self._by_need()):
                passed_over.add(worker)
                continue
            if chunk is None:
                break
            if worker.local:
                for other in list(chunk.holders):
                    self._void(other)
            lease = _Lease(next(self._lease_ids), worker, chunk)
            worker.leases[lease.id] = lease
            self._file(worker)
            chunk.holders.add(lease)
            batch = chunk.batch
            samples = tuple(batch.samples[chunk.first : chunk.first + chunk.size])
            commands.append(
                Grant(worker.id, lease.id, batch.reader.stream.id, batch.slot, chunk.first, samples)
            )
        return commands

    def _next_orphan(self, reader: _Reader, worker: _Worker) -> _Chunk | None:
        """A chunk that was granted before, and may be granted to this worker."""
        kept = []
        found = None
        while reader.orphans and found is None:
            orphan = heappop(reader.orphans)
            chunk = orphan[2]
            if chunk not in chunk.batch.chunks:
                continue
            samples = chunk.batch.samples[chunk.first : chunk.first + chunk.size]
            if not chunk.holders:  # else an answer may come for the samples as they are
                self._choose_substitutes(chunk.batch, chunk.first, chunk.size)
            if samples != chunk.batch.samples[chunk.first : chunk.first + chunk.size]:
                chunk.deaths = chunk.crashes = 0
                chunk.doubts.clear()
            if chunk.doubts and not self._may_take(worker, chunk):
                kept.append(orphan)
                continue
            chunk.queued = False
            found = chunk
        for orphan in kept:
            heappush(reader.orphans, orphan)
        return found

    def _next_chunk(self, worker: _Worker) -> _Chunk | None:
        for reader in self._by_need():
            if (orphan := self._next_orphan(reader, worker)) is not None:
                return orphan
            batch = reader.splitting or self._open_batch(reader)
            if batch is None:
                continue
            size = min(self._chunk_size(batch), len(batch.samples) - batch.next_row)
            self._choose_substitutes(batch, batch.next_row, size)
            chunk = _Chunk(batch, batch.next_row, size)
            batch.chunks.add(chunk)
            batch.next_row += size
            reader.splitting = batch if batch.next_row < len(batch.samples) else None
            return chunk
        return None

    def _by_need(self) -> Iterator[_Reader]:
        """Readers that may decode: those with a waiting consumer first, then those least ahead."""
        owners = [s.owner for s in self._streams.values() if s.owner and not s.stopped]
        return iter(
            sorted(owners, key=lambda reader: (not reader.waiting, reader.opened - reader.due))
        )

    def _open_batch(self, reader: _Reader) -> _Batch | None:
        if not reader.stream.free or (not reader.again and reader.opened >= reader.stop):
            return None
        if reader.again:
            step = heappop(reader.again)
        else:
            step = reader.opened
            reader.opened += 1
        samples = reader.stream.plan[step]
        batch = _Batch(
            reader, step, reader.stream.free.pop(), samples,
            np.empty((len(samples), reader.stream.clip_frames), np.int64), missing=len(samples),
        )  # fmt: skip
        reader.filling[step] = reader.splitting = batch
        return batch

    def _chunk_size(self, batch: _Batch) -> int:
        """A batch is spread over the workers, so that it is complete as early as possible; but
        where clips are quickly decoded, messages would cost too much: then a lease is longer, as
        far as the slots can keep all workers busy. A short rest gets no lease of its own."""
        stream, clips, workers = batch.reader.stream, len(batch.samples), max(1, self.workers)
        spare = stream.slots // 2 * clips // (workers * self._credit)
        longest = min(stream.lease_clips, max(-(-clips // workers), spare))
        shortest = max(1, math.ceil(min(clips, _LEASE_S / stream.clip_s)))
        chunks = max(-(-clips // longest), min(workers, clips // shortest))
        return -(-clips // chunks)
