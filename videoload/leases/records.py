"""What the lease table writes down: streams and their readers, batches, the chunks that they are
split into, leases, and the workers that hold them. Pure.

A *chunk* is what one lease covers: consecutive clips of a batch, or clips that prefer the same host
(see `affinity`). It is in one of three states:

                      granted               answered, left out, or
       WAITING ───────────────────> GRANTED ───────────────────────> DONE
          ^                           │      split into smaller chunks
          └── its workers left, ──────┘
              died, or are silent

    WAITING   it is in a heap of its reader. A silent remote worker may still answer it: then it is
              DONE.
    GRANTED   a worker that is heard of has it, or a silent one has time left: see `blame`.
    DONE      nothing of it is to be decoded any more.

The chunk also notes what speaks against its clips: doubts, and the workers that never answered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from heapq import heappush
from itertools import count

import numpy as np
import numpy.typing as npt

from videoload.errors import VideoloadError
from videoload.leases.commands import WorkerId
from videoload.leases.paces import Pace
from videoload.leases.silence import Silence
from videoload.plan.plan import Plan, Sample
from videoload.plan.quarantine import Quarantine

_MAX_SILENT = 3  # workers, until the first of them is noted


@dataclass(eq=False, slots=True)
class Stream:
    """What is read, and its slots. One of its readers owns them."""

    id: int
    plan: Plan
    quarantine: Quarantine
    clip_frames: int
    ordered: bool
    lease_clips: int  # at most
    slots: int
    free: list[int]
    clip_bytes: int
    fetched: bool
    function: str  # of the user's, that makes its clips; "" if there is none
    name_of: Callable[[int], str]  # of a video, the same for all streams that have it
    batch_clips: int = 1
    readers: dict[int, Reader] = field(default_factory=dict)
    owner: Reader | None = None
    stopped: bool = False
    granted: int = 0  # the number of its last lease
    clip_s: float = math.inf  # the time to decode a clip, a moving average
    stood_still_in: set[tuple[int, int]] = field(default_factory=set)  # clips, in the function

    def note_clip_time(self, seconds: float) -> None:
        """A clip was decoded in so many seconds."""
        if 0 < seconds < math.inf:
            before = seconds if math.isinf(self.clip_s) else self.clip_s
            self.clip_s = before + (seconds - before) / 8


@dataclass(eq=False, slots=True)
class Reader:
    """One pass over a stream, for one consumer."""

    id: int
    stream: Stream
    opened: int  # first step that was never opened
    stop: int
    due: int  # next step to hand over, if ordered
    again: list[int] = field(default_factory=list)  # heap of steps to open again
    filling: dict[int, Batch] = field(default_factory=dict)
    complete: dict[int, Batch] = field(default_factory=dict)
    # Chunks to be granted again, by step. The accused ones left workers without an answer, and the
    # one that was tried longest ago is the first.
    orphans: Heap = field(default_factory=list)
    accused: Heap = field(default_factory=list)
    orphaned: Iterator[int] = field(default_factory=count)  # numbers them
    splitting: list[Batch] = field(default_factory=list)  # they have clips that are in no chunk
    waiting: bool = False
    owed: bool = False  # it owns the slots, and has got no batch since

    @property
    def can_open(self) -> bool:
        """Whether it has a batch to open and its stream a free slot."""
        return bool(self.stream.free and (self.again or self.opened < self.stop))

    @property
    def unfinished(self) -> bool:
        """Whether batches are still to come."""
        return bool(self.opened < self.stop or self.again or self.filling)

    @property
    def stands_still(self) -> bool:
        """Whether more than two chunks, and more than half of what the slots hold, are missing. If
        fewer are missing, it is these that do not come, and not all."""
        filling = self.filling.values()
        missing = sum(batch.missing for batch in filling)
        is_most = 2 * missing > self.stream.slots * self.stream.batch_clips
        return is_most and sum(len(batch.chunks) for batch in filling) > 2


@dataclass(eq=False, slots=True)
class Batch:
    """A batch in a slot."""

    reader: Reader
    step: int
    slot: int
    samples: list[Sample]
    frames: npt.NDArray[np.int64]
    left: Sequence[int]  # rows that are in no chunk yet, ascending
    missing: int = 0  # rows that are not done
    chunks: dict[Chunk, None] = field(default_factory=dict)  # chunks that are not done
    left_out: set[int] = field(default_factory=set)  # rows that cannot be decoded
    error: tuple[int, VideoloadError] | None = None  # the stream ends at this row
    by_host: dict[Hashable, list[int]] | None = None  # rows of ``left``: see `affinity`
    sorted_by: int = 0  # ... by this version of the hosts
    writers: int = 0  # if it is cancelled: leases that may still write into its slot

    def choose_substitutes(self, rows: Sequence[int]) -> None:
        """Replace the samples that are known to be bad by now."""
        quarantine = self.reader.stream.quarantine
        for row in rows if quarantine.avoids else ():
            self.samples[row] = quarantine.replace(self.samples[row])

    def cut(self, rows: Sequence[int], host: Hashable = None) -> Chunk:
        """The first rows that are in no chunk yet become one, or the first ones that prefer this
        host."""
        self.choose_substitutes(rows)
        if host is None or self.by_host is None:
            self.left = self.left[len(rows) :]
            self.by_host = None
        else:
            taken = set(rows)
            self.left = [row for row in self.left if row not in taken]
            self.by_host[host] = self.by_host[host][len(rows) :]
        if not self.left:
            self.reader.splitting.remove(self)
        return Chunk(self, rows)


@dataclass(frozen=True, slots=True)
class Doubt:
    """A worker said that it cannot decode a clip. ``of_worker``: or its answer was not taken."""

    worker: Worker
    reason: str
    dropped: bool = False
    fatal: bool = False
    here_only: bool = False
    of_worker: bool = False


class ChunkState(Enum):
    """As drawn above."""

    WAITING = auto()
    GRANTED = auto()
    DONE = auto()


@dataclass(eq=False, slots=True)
class Chunk:
    """Clips of a batch that one worker decodes. Their rows ascend; consecutive rows are a range."""

    batch: Batch
    rows: Sequence[int]
    state: ChunkState = ChunkState.GRANTED
    holders: dict[Lease, None] = field(default_factory=dict)  # the leases whose answers count
    doubts: list[Doubt] = field(default_factory=list)  # about the only clip
    unanswered: dict[Worker, None] = field(default_factory=dict)  # never answered it: see `blame`
    noted: float = -math.inf  # when the last of these was noted

    def __post_init__(self) -> None:
        if not isinstance(self.rows, range):
            first, last = self.rows[0], self.rows[-1]
            if last - first == len(self.rows) - 1:
                self.rows = range(first, last + 1)
        self.batch.chunks[self] = None

    @property
    def size(self) -> int:
        """How many clips it has."""
        return len(self.rows)

    @property
    def samples(self) -> list[Sample]:
        """The samples that its clips are made for."""
        samples, rows = self.batch.samples, self.rows
        if isinstance(rows, range):
            return samples[rows.start : rows.stop]
        return [samples[row] for row in rows]

    @property
    def waits_in(self) -> Heap:
        """The heap that it waits in to be granted again."""
        reader = self.batch.reader
        return reader.accused if self.unanswered else reader.orphans

    def void_leases(self, but: Lease | None = None) -> None:
        """No answer counts any more, except the one to ``but``."""
        for lease in list(self.holders):
            if lease is not but:
                lease.void()

    def requeue(self) -> None:
        """It is to be granted again."""
        if self.state is not ChunkState.WAITING:
            self.state = ChunkState.WAITING
            self._push()

    def requeue_if_abandoned(self) -> None:
        """It is to be granted again, unless a worker that is heard of has it, or one is tried, or
        so many are silent at it that more would only follow them."""
        held = any(not lease.worker.suspect or self._tries(lease) for lease in self.holders)
        silent = sum(lease is lease.worker.at for lease in self.holders)
        held |= silent >= _MAX_SILENT and not self.unanswered
        if self.state is ChunkState.GRANTED and not held:
            self.requeue()

    def note(self, worker: Worker, now: float) -> None:
        """A worker was at it, was alive, and never answered."""
        self.unanswered[worker] = None
        worker.is_noted = True
        self.noted = now
        if self.state is ChunkState.WAITING:
            self._push()

    def take_back(self, worker: Worker) -> None:
        """This worker may answer after all."""
        if worker in self.unanswered:
            del self.unanswered[worker]
            if self.state is ChunkState.WAITING:
                self._push()

    def acquit(self) -> None:
        """It has other samples now, and nothing speaks against them."""
        self.doubts.clear()
        for worker in list(self.unanswered):
            self.take_back(worker)

    def single_out(self, at: int) -> Chunk:
        """A chunk of clip ``at`` alone; the other clips are granted again as they are."""
        if self.size == 1:
            return self
        self._end()
        one = Chunk(self.batch, self.rows[at : at + 1])
        for others in (self.rows[:at], self.rows[at + 1 :]):
            if others:
                Chunk(self.batch, others).requeue()
        return one

    def requeue_one_by_one(self) -> None:
        """Its clips are to be granted again, each in a chunk of its own."""
        self._end()
        for at in range(self.size):
            rows = self.rows[at : at + 1]
            one = Chunk(self.batch, rows, unanswered=dict(self.unanswered), noted=self.noted)
            one.requeue()

    def _end(self) -> None:
        self.void_leases()
        self.batch.chunks.pop(self, None)
        self.state = ChunkState.DONE

    def _push(self) -> None:
        """Put it into its heap. An entry that it leaves in the other heap is passed over there."""
        order = self.noted if self.unanswered else self.batch.step
        heappush(self.waits_in, (order, next(self.batch.reader.orphaned), self))

    def _tries(self, lease: Lease) -> bool:
        """Whether this worker, if silent, is given time to answer, and the others wait for that."""
        is_new = lease.granted >= self.noted and lease.worker not in self.unanswered
        return bool(self.unanswered) and is_new and lease is lease.worker.at


def indices(rows: Sequence[int]) -> slice | list[int]:
    """What selects these rows of an array."""
    return slice(rows.start, rows.stop) if isinstance(rows, range) else list(rows)


Heap = list[tuple[float, int, Chunk]]  # order, number, and what is to be granted again


@dataclass(eq=False, slots=True)
class Lease:
    """A chunk that a worker was granted."""

    id: int
    worker: Worker
    chunk: Chunk | None  # None if it is void: the answer will be dropped
    stream: int
    videos: tuple[int, ...]  # the videos of its clips
    granted: float
    before: int  # leases that its worker held already
    size: int  # bytes of its answer that have to be sent
    on_line: int  # bytes of these that are still expected
    drains: Batch | None = None  # the cancelled batch that waits for this writer
    arrived: bool = False  # its answer has come

    def void(self) -> None:
        """Its answer counts no more. The worker still works on it."""
        if self.chunk is not None:
            self.chunk.holders.pop(self, None)
            self.chunk = None

    def drain(self) -> None:
        """A cancelled batch waits no longer for this writer."""
        if self.drains is not None:
            batch, self.drains = self.drains, None
            batch.writers -= 1
            if not batch.writers:
                batch.reader.stream.free.append(batch.slot)


@dataclass(eq=False, slots=True)
class Worker:
    """A connected worker."""

    id: WorkerId
    local: bool
    copy: Hashable  # which copy of the videos it reads; None is the trainer's own
    host: Hashable
    heard: float
    joined: float
    leases: dict[int, Lease] = field(default_factory=dict)
    among: dict[Worker, None] | None = None  # its row in the pool; None if it takes no leases
    suspect: bool = False  # it is silent, or has left
    evicted: bool = False  # it is being removed
    tries: bool = False  # it has a chunk that others never answered, and gets nothing else
    is_noted: bool = False  # since it was last heard, a chunk noted that it never answers
    progress: int = -1  # packets that it had decoded at its last heartbeat
    idle_beat: bool = False  # between its last two heartbeats it decoded nothing
    idle_ticks: int = 0  # ticks in a row with such a heartbeat while it held leases
    answered: bool = False  # it has answered a lease
    mistakes: float = 0.0  # clips that it failed at and others decoded, less a part of its answers
    pauses: int = 0
    paused_until: float = -math.inf
    silence: Silence = field(default_factory=Silence)
    pace: Pace = field(init=False)

    def __post_init__(self) -> None:
        self.pace = Pace(local=self.local)

    @property
    def at(self) -> Lease | None:
        """The lease that it works on: it answers them in the order in which they were granted."""
        return next(iter(self.leases.values()), None)
