"""The records of the scheduler: streams and their readers, batches and their chunks, leases, and
workers. Pure.

A *slot* has one owner at a time: free -> filling (its batch) -> held (the consumer) -> free. Each
reader has its own slots, at least two, until it ends; a single reader has all slots of the stream.
So two iterators over one stream, in one thread or in two, never wait for each other, and an
interrupted reader retains its decoded batches.

A *chunk* is what one lease covers: consecutive clips of a batch, or clips that prefer the same host
(see `affinity`). It is in one of three states:

                      granted               answered, left out, or
       WAITING ───────────────────> GRANTED ───────────────────────> DONE
          ^                           │      split into smaller chunks
          └── its workers left, ──────┘
              died, or hang

    WAITING   it is in a heap of its reader. An unresponsive remote worker may still answer it:
              then it is DONE.
    GRANTED   a responsive worker has it, or an unresponsive one has time left: see `blame`.
    DONE      none of its clips needs decoding any more.

The chunk also records failed *attempts*: see `blame`.

A *lease* is a chunk that one worker holds. It is in one of four states, which determines whether
its clips are requeued, and which workers are blamed or removed:

                     answered, given back, or its worker left
       OWED ──────────────────────────────────────────────────────> ANSWERED
         │                                                            ^  ^
         │ remote: the answer counts no more                          │  │
         ├─────────────────────────────────────────────> VOID ────────┘  │
         │ local: the batch is cancelled                                 │
         └─────────────────────────────────────────────> LANDING ────────┘

    OWED      its worker decodes it, or will. The answer counts.
    VOID      another worker answered, or its clips are not needed any more. The answer is dropped.
              Its worker is remote, so its slot may be reused at once.
    LANDING   its clips are not needed any more, but its worker may write into the slot until it has
              answered, or is dead. The slot waits for that.
    ANSWERED  it is over, and its worker no longer holds it.

    what makes a lease VOID                 of a remote worker            of a local worker
    --------------------------------------  ----------------------------  --------------------------
    another worker is granted its clips     VOID, when that one answers,  never, while it lives
                                            or at once if it is local
    its chunk is split, or its clip is bad  VOID                          never, while it lives
    its batch is cancelled                  VOID                          LANDING

Why a local lease is never VOID before it lands: its worker writes into the slot by itself, whether
its answer counts or not. So no other worker is granted its clips before it has answered or is dead.
To the scheduler, it is never unresponsive (its supervisor kills it if it hangs), and there is no
speculative lease beside it. Then no other worker can answer, and nothing splits its chunk or
condemns its clip. Only the end of a reader or of a stream, which cancels the batch, does not wait.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from enum import Enum, auto
from heapq import heappush
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from videoload.activity import Activity
from videoload.backoff import Backoff
from videoload.errors import Fault, VideoloadError
from videoload.plan.batches import Sample
from videoload.plan.plan import Plan
from videoload.plan.quarantine import Quarantine
from videoload.scheduler.commands import Ready, WorkerId
from videoload.scheduler.files import Files, UnreadableFiles
from videoload.scheduler.paces import Pace
from videoload.worker.stall_clock import StallClock

LEASE_CLIPS = 16  # at most, unless they are of one video
MAX_CLIPS = 64  # at most, if they are of one video: one pass over it decodes them all
NO_INFO = np.empty(0)
_PAUSES_S = 2.0, 60.0  # of a failing worker: the first, and the longest
_FEWEST = 2  # slots of a reader: one is filled while the consumer has the other
_MAX_SILENT = 3  # workers, until the first of them is noted


@dataclass(eq=False, slots=True)
class Stream:
    """What is read, and its slots. Each of its readers has slots of its own."""

    id: int
    plan: Plan
    quarantine: Quarantine
    _: KW_ONLY
    slots: int
    most_slots: int = 0  # for which there is memory
    ordered: bool
    lease_clips: int = MAX_CLIPS  # that fit into one message
    fetched: bool = False  # local workers get its files from another host
    function: str = ""  # the user's function for its clips; "" if there is none
    files: Files | None = None  # None: any file of a clip will do
    copy: Hashable = None  # the trainer's own copy of the videos, as workers name it
    root: str = ""
    local_only: bool = False  # only workers that the trainer started are believed
    # Workers had another copy of these videos, whose own file is being looked at again.
    other_copies: list[tuple[int, Attempt]] = field(default_factory=list)
    free: list[int] = field(init=False)  # slots of no reader
    reader_slots: int = field(init=False)  # so many are as many as a reader needs
    batch_clips: int = 1
    readers: dict[int, Reader] = field(default_factory=dict)
    ended: VideoloadError | None = None  # with which it has ended: see `endings`
    frame_s: float = math.inf  # the time to decode a frame of a clip, a moving average
    unread: UnreadableFiles = field(default_factory=UnreadableFiles)
    stood_still_in: set[tuple[int, int]] = field(default_factory=set)  # clips, in the function

    def __post_init__(self) -> None:
        self.free = list(range(self.slots))[::-1]
        self.reader_slots = self.slots
        self.lease_clips = max(1, min(self.lease_clips, MAX_CLIPS))

    def begin(self, reader: Reader) -> int:
        """Give a reader free slots, as many as the stream was created with. If other readers leave
        less than half as many, more are allocated, as far as there is memory, at least two in all.
        Return how many to allocate."""
        added = min(self.reader_slots // 2 - len(self.free), self.most_slots - self.slots)
        added = max(0, added, _FEWEST - len(self.free)) if self.readers else 0
        self.free[:0] = range(self.slots, self.slots + added)[::-1]
        self.slots += added
        self.readers[reader.id] = reader
        reader.free = self.free[-self.reader_slots :]
        reader.owned = {*reader.free}
        del self.free[-self.reader_slots :]
        return added

    def end(self, reader: Reader) -> None:
        """A reader ends, with all its batches. Its slots are for the others."""
        del self.readers[reader.id]
        for slot in reader.free:
            self.slot_back(slot)
        reader.cancel()

    def grow(self, slots: int) -> None:
        """Note the new number of slots."""
        added = range(self.slots, slots)
        self.slots += len(added)
        self.reader_slots += len(added)
        for slot in added:
            self.slot_back(slot)

    def slot_back(self, slot: int) -> None:
        """Return a slot that is not used any more. If its reader has ended, the one with the fewest
        slots gets it, unless all have as many as the stream was created with."""
        reader = next((each for each in self.readers.values() if slot in each.owned), None)
        if reader is None:
            reader = min(self.readers.values(), key=lambda each: each.slots, default=None)
            if reader is None or reader.slots >= self.reader_slots:
                self.free.append(slot)
                return
            reader.owned.add(slot)
        reader.free.append(slot)

    def path_of(self, video: int) -> str:
        """Return the path of a video."""
        return self.quarantine.path_of(video)

    def checks(self, worker: Worker) -> bool:
        """Return whether a worker reads another copy, and so must report the fingerprints of its
        files."""
        return self.files is not None and worker.copy not in (None, self.copy)

    def allowed(self, workers: Iterable[Worker]) -> list[Worker]:
        """Return the workers that may take its leases."""
        return [worker for worker in workers if worker.local or not self.local_only]

    def was_read(self, videos: Iterable[int]) -> None:
        """The files of these videos were read."""
        for video in videos if self.unread else ():
            self.unread.was_read(self.path_of(video))

    def clip_s(self, sample: Sample) -> float:
        """Return the time to decode a clip of this sample's batch; infinite if it is not known."""
        return self.frame_s * self._frames_of(sample)

    def note_clip_time(self, sample: Sample, seconds: float) -> None:
        """A clip of this sample's batch was decoded in so many seconds."""
        if 0 < seconds < math.inf:
            seconds /= self._frames_of(sample)
            before = seconds if math.isinf(self.frame_s) else self.frame_s
            self.frame_s = before + (seconds - before) / 8

    def _frames_of(self, sample: Sample) -> int:
        return self.plan.shape_of(sample).frames or 1  # a count has none


@dataclass(eq=False, slots=True)
class Reader:
    """One pass over a stream, for one consumer."""

    id: int
    stream: Stream
    next_step: int  # first step that was never opened
    stop: int
    next_delivery: int  # next step to hand over, if ordered
    owned: set[int] = field(default_factory=set)  # slots, until it ends
    free: list[int] = field(default_factory=list)
    filling: dict[int, Batch] = field(default_factory=dict)
    complete: dict[int, Batch] = field(default_factory=dict)
    # Chunks to requeue, by step. The suspects left workers without an answer, and the one with the
    # oldest attempt is the first.
    requeued: Heap = field(default_factory=list)
    suspects: Heap = field(default_factory=list)
    orphaned: Iterator[int] = field(default_factory=count)  # numbers them
    splitting: dict[Batch, None] = field(default_factory=dict)  # they have clips in no chunk
    # The rows that are in no chunk yet and prefer a host. Hosts without any are not in it.
    by_host: dict[Hashable, dict[Batch, dict[int, None]]] = field(default_factory=dict)
    looked_until: int = 0  # the step before which all fingerprints were requested
    waiting: bool = False
    last_lease: int = 0  # its number

    def note_hosts(self, batch: Batch, hosts: Sequence[Hashable]) -> None:
        """Note which hosts the rows of a new batch prefer."""
        batch.hosts = hosts
        for row, host in enumerate(hosts):
            self.by_host.setdefault(host, {}).setdefault(batch, {})[row] = None

    def forget_row(self, host: Hashable, batch: Batch, row: int) -> None:
        """This row is in a chunk now."""
        rows = self.by_host[host][batch]
        del rows[row]
        if not rows:
            del self.by_host[host][batch]
            if not self.by_host[host]:
                del self.by_host[host]

    def cancel(self) -> None:
        """Cancel its batches. A batch holds its slot while a worker may write into it."""
        for batch in [*self.filling.values(), *self.complete.values()]:
            for lease in [lease for chunk in batch.chunks for lease in chunk.holders]:
                lease.cancel()
            if not batch.writers:
                self.stream.slot_back(batch.slot)
        for records in (
            self.filling, self.complete, self.requeued, self.suspects, self.splitting, self.by_host
        ):  # fmt: skip
            records.clear()

    @property
    def slots(self) -> int:
        """How many slots it has."""
        return len(self.owned)

    @property
    def ahead(self) -> int:
        """How many steps the first clips without a grant are ahead of its consumer."""
        first = next(iter(self.splitting), None)
        return (self.next_step if first is None else first.step) - self.next_delivery

    @property
    def has_clips(self) -> bool:
        """Whether there may be clips to grant."""
        return bool(self.splitting or self.requeued or self.suspects)

    @property
    def can_open(self) -> bool:
        """Whether it has a batch to open, and a free slot."""
        return bool(self.free and self.next_step < self.stop and self.stream.ended is None)

    @property
    def unfinished(self) -> bool:
        """Whether batches are left."""
        return bool(self.next_step < self.stop or self.filling or self.complete)

    @property
    def stands_still(self) -> bool:
        """Whether more than two chunks, and more than half of those in its slots, are missing. If
        fewer are missing, these chunks are the problem."""
        missing = [chunk.size for batch in self.filling.values() for chunk in batch.chunks]
        is_most = 2 * sum(missing) > self.slots * self.stream.batch_clips
        return is_most and len(missing) > 2


@dataclass(eq=False, slots=True)
class Batch:
    """A batch in a slot."""

    reader: Reader
    step: int
    slot: int
    samples: list[Sample]
    left: dict[int, None]  # rows that are in no chunk yet, ascending
    info: npt.NDArray[Any] = field(default_factory=lambda: NO_INFO)  # the metadata of each row
    chunks: dict[Chunk, None] = field(default_factory=dict)  # chunks that are not done
    left_out: set[int] = field(default_factory=set)  # rows that cannot be decoded
    error: tuple[int, VideoloadError] | None = None  # the stream ends at this row
    writers: int = 0  # if it is cancelled: leases that may still write into its slot
    hosts: Sequence[Hashable] = ()  # that the rows prefer, if there is a choice

    def write_metadata(self, rows: Sequence[int], info: npt.NDArray[Any]) -> None:
        """Store the metadata that a worker sent for some rows."""
        if not len(self.info):
            self.info = np.empty((len(self.samples), *info.shape[1:]), info.dtype)
        self.info[list(rows)] = info

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows that are handed over."""
        return tuple(row for row in range(len(self.samples)) if row not in self.left_out)

    def ready(self) -> Ready:
        """Note its delivery."""
        rows, info = None, self.info
        if self.left_out:
            rows, info = self.rows, info[list(self.rows)]
        samples = self.samples if rows is None else [self.samples[row] for row in rows]
        reader, stream = self.reader, self.reader.stream.id
        return Ready(
            stream, reader.id, self.step, self.slot, tuple(samples), info, rows, reader.slots
        )

    def substituted(self, rows: Sequence[int]) -> list[Sample]:
        """Return the samples of these rows; instead of those that are known to be bad by now,
        others."""
        samples, quarantine = [self.samples[row] for row in rows], self.reader.stream.quarantine
        return [*map(quarantine.replace, samples)] if quarantine.avoids else samples

    def substitute(self, rows: Sequence[int]) -> None:
        """Replace the samples of these rows that are known to be bad by now."""
        quarantine = self.reader.stream.quarantine
        for row in rows if quarantine.avoids else ():
            self.samples[row] = quarantine.replace(self.samples[row])

    def cut(self, rows: Sequence[int]) -> Chunk:
        """These rows, which were in no chunk yet, become one."""
        for row in rows:
            del self.left[row]
            if self.hosts:
                self.reader.forget_row(self.hosts[row], self, row)
        if not self.left:
            del self.reader.splitting[self]
        return Chunk(self, rows)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A failed attempt of a worker at a clip. ``fault``: its report, about the file with this
    fingerprint; None: it never answered."""

    worker: Worker
    fault: Fault | None
    reason: str = ""
    file: int = 0
    at: float = 0.0

    @property
    def is_of_worker(self) -> bool:
        """Whether only this worker is to blame."""
        return self.fault in (Fault.CODE, Fault.COPY)


class ChunkState(Enum):
    """As drawn above."""

    WAITING = auto()
    GRANTED = auto()
    DONE = auto()


@dataclass(eq=False, slots=True)
class Chunk:
    """Clips of a batch that one worker decodes. Their rows ascend; consecutive rows are a range.
    What is ``reported_failures`` is about the only clip."""

    batch: Batch
    rows: Sequence[int]
    state: ChunkState = ChunkState.GRANTED
    holders: dict[Lease, None] = field(default_factory=dict)  # the leases whose answers count
    attempts: list[Attempt] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not isinstance(self.rows, range):
            first, last = self.rows[0], self.rows[-1]
            if last - first == len(self.rows) - 1:
                self.rows = range(first, last + 1)
        self.batch.chunks[self] = None

    @property
    def stream(self) -> Stream:
        """The stream that it belongs to."""
        return self.batch.reader.stream

    @property
    def size(self) -> int:
        """The number of its clips."""
        return len(self.rows)

    @property
    def samples(self) -> list[Sample]:
        """The samples of its clips."""
        samples, rows = self.batch.samples, self.rows
        if isinstance(rows, range):
            return samples[rows.start : rows.stop]
        return [samples[row] for row in rows]

    @property
    def reported_failures(self) -> list[Attempt]:
        """The attempts for which a worker reported why it cannot decode the clip."""
        return [each for each in self.attempts if each.fault is not None]

    @property
    def unanswered(self) -> list[Attempt]:
        """The attempts without an answer."""
        return [each for each in self.attempts if each.fault is None]

    @property
    def noted_at(self) -> float:
        """When a missing answer was last recorded."""
        return max((each.at for each in self.unanswered), default=-math.inf)

    @property
    def waits_in(self) -> Heap:
        """The heap that it waits in to be granted again."""
        reader = self.batch.reader
        return reader.suspects if self.unanswered else reader.requeued

    @property
    def next_samples(self) -> list[Sample]:
        """The samples of its clips once it is requeued. If an answer for the current ones may still
        arrive, they are the same."""
        return self.samples if self.holders else self.batch.substituted(self.rows)

    @property
    def is_replaced(self) -> bool:
        """Whether it is to be granted for other samples, without failed attempts."""
        return self.next_samples != self.samples

    def take(self) -> None:
        """Take it from the queue, for another grant."""
        self.state = ChunkState.GRANTED
        if self.is_replaced:
            self.batch.substitute(self.rows)
            self.attempts = []

    def void_leases(self) -> None:
        """No answer counts any more."""
        for lease in list(self.holders):
            lease.void()

    def requeue(self) -> None:
        """Requeue the chunk."""
        if self.state is not ChunkState.WAITING:
            self.state = ChunkState.WAITING
            self._push()

    def requeue_if_abandoned(self) -> None:
        """Requeue the chunk, unless a responsive worker holds it, a grace period is running, or
        `_MAX_SILENT` workers are already stuck on it."""
        held = any(not lease.worker.is_silent or self._has_grace(lease) for lease in self.holders)
        silent = sum(lease is lease.worker.current_lease for lease in self.holders)
        held |= silent >= _MAX_SILENT and not self.unanswered
        if self.state is ChunkState.GRANTED and not held:
            self.requeue()

    def note(self, tries: Iterable[Attempt]) -> None:
        """These are its tries from now on."""
        before = self.waits_in
        self.attempts = list(tries)
        if self.state is ChunkState.WAITING and (self.waits_in is not before or self.unanswered):
            self._push()

    def single_out(self, at: int) -> Chunk:
        """Return a chunk of clip ``at`` alone; the other clips are granted again as they are."""
        if self.size == 1:
            return self
        self._end()
        one = Chunk(self.batch, self.rows[at : at + 1])
        for others in (self.rows[:at], self.rows[at + 1 :]):
            if others:
                Chunk(self.batch, others).requeue()
        return one

    def requeue_one_by_one(self) -> None:
        """Requeue its clips, each in its own chunk."""
        self._end()
        for at in range(self.size):
            Chunk(self.batch, self.rows[at : at + 1], attempts=list(self.attempts)).requeue()

    def _end(self) -> None:
        self.void_leases()
        self.batch.chunks.pop(self, None)
        self.state = ChunkState.DONE

    def _push(self) -> None:
        """Put it into its heap. An entry that it leaves in the other heap is passed over there."""
        order = self.noted_at if self.unanswered else self.batch.step
        heappush(self.waits_in, (order, next(self.batch.reader.orphaned), self))

    def _has_grace(self, lease: Lease) -> bool:
        """Return whether this worker, if unresponsive, gets time to answer, while the others
        wait."""
        noted = [each.worker for each in self.unanswered]
        is_new = lease.granted_at >= self.noted_at and lease.worker not in noted
        return bool(noted) and is_new and lease is lease.worker.current_lease


Heap = list[tuple[float, int, Chunk]]  # order, number, and the chunk to requeue


class LeaseState(Enum):
    """As drawn above."""

    OWED = auto()
    VOID = auto()
    LANDING = auto()
    ANSWERED = auto()


@dataclass(eq=False, slots=True)
class Lease:
    """A chunk that a worker was granted. Its number, stream, videos and place never change."""

    id: int
    worker: Worker
    chunk: Chunk
    stream: int
    slot: int
    rows: Sequence[int]
    videos: tuple[int, ...]
    granted_at: float
    before: int  # leases that its worker held already
    is_checked: bool  # its worker has to show which files its clips are of
    state: LeaseState = LeaseState.OWED

    @property
    def sample(self) -> Sample:
        """The first of its samples."""
        return self.chunk.batch.samples[self.rows[0]]

    @property
    def is_owed(self) -> bool:
        """Whether its answer counts."""
        return self.state is LeaseState.OWED

    def void(self) -> None:
        """Ignore its answer from now on. The worker still works on it."""
        if self.state is LeaseState.OWED:
            self.state = LeaseState.VOID
            del self.chunk.holders[self]

    def cancel(self) -> None:
        """Cancel it: its batch is not needed any more, and the slot waits for a local worker."""
        self.void()
        if self.worker.local:
            self.state = LeaseState.LANDING
            self.chunk.batch.writers += 1

    def end(self) -> None:
        """Note that its worker no longer works on it."""
        self.void()
        if self.state is LeaseState.LANDING:
            batch = self.chunk.batch
            batch.writers -= 1
            if not batch.writers:
                batch.reader.stream.slot_back(batch.slot)
        self.state = LeaseState.ANSWERED


@dataclass(eq=False, slots=True)
class Worker:
    """A connected worker."""

    id: WorkerId
    _: KW_ONLY
    local: bool  # it writes into shared memory
    joined: float
    copy: Hashable = None  # which copy of the videos it reads; None is the trainer's own
    host: Hashable = None
    fetches: InitVar[bool] = False  # it is remote, and gets its files from another host
    heard: float = field(init=False)
    silence_clock: StallClock = field(
        init=False
    )  # how long it has been silent, while the pool looked
    leases: dict[int, Lease] = field(default_factory=dict)  # that are not ANSWERED
    row: dict[Worker, None] | None = None  # its row in the pool; None if it takes no leases
    filed: int = 0  # its order in the row
    at: Activity = Activity.IDLE  # its last report; see `WorkerPool.beat`
    is_silent: bool = False  # it is remote and silent, or has left
    is_refused: bool = False  # by its storage: it waits for it, and does not get the videos
    waits_since: float = math.inf  # its heartbeats report a blocked read
    on_probation: bool = False  # it has a chunk that others never answered, and gets nothing else
    is_blamed: bool = False  # a chunk has recorded a missing answer since its last message
    answered: bool = False  # it has answered a lease
    mistakes: float = 0.0  # clips that it failed at and others decoded, less a part of its answers
    pauses: Backoff = field(default_factory=lambda: Backoff(*_PAUSES_S))
    paused_until: float = -math.inf
    pace: Pace = field(init=False)

    def __post_init__(self, fetches: bool) -> None:
        self.heard = self.joined
        self.silence_clock = StallClock(0.0, lambda: self.joined)  # of the pool, once it has joined
        self.pace = Pace(local=self.local)
        self.pace.fetches = fetches

    @property
    def is_fed(self) -> bool:
        """Whether it has a lease, besides those in flight."""
        return len(self.leases) > self.pace.extra_credit

    @property
    def current_lease(self) -> Lease | None:
        """The lease that it works on: it answers them in the order in which they were granted."""
        return next(iter(self.leases.values()), None)
