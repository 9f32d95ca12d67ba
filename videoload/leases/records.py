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

A *lease* is a chunk that one worker holds. It is in one of four states, and whether its clips are
granted again, who is blamed and who is removed follow from the state:

                answered, given back, or its worker left
       OWED ────────────────────────────────────────────────┐
         │ the answer counts no more                        v
         ├─────────────> VOID ─────────────────────────> ANSWERED
         │ ... and a local worker may still write           ^
         └─────────────> LANDING ───────────────────────────┘

    OWED      its worker decodes it, or will. The answer counts.
    VOID      somebody else answered, or nobody wants its clips any more. The answer is dropped.
    LANDING   its batch is cancelled, but a local worker may write into the slot until it says that
              it has ended, or is dead. The slot waits for that.
    ANSWERED  it is over, and its worker no longer holds it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from enum import Enum, auto
from heapq import heappush
from itertools import count

import numpy as np
import numpy.typing as npt

from videoload.errors import Fault, VideoloadError
from videoload.leases.commands import WorkerId
from videoload.leases.files import Files
from videoload.leases.paces import Pace
from videoload.leases.silence import Silence
from videoload.plan.plan import Plan, Sample
from videoload.plan.quarantine import Quarantine
from videoload.processes.still_time import StillTime

LEASE_CLIPS = 16  # at most, unless they take less than 50 ms, as those of kept frames do
MAX_CLIPS = 64  # at most, if they come from one video: one pass over it decodes them all
_NO_FRAMES = np.empty((0, 0), np.int64)
_MAX_SILENT = 3  # workers, until the first of them is noted


@dataclass(eq=False, slots=True)
class Stream:
    """What is read, and its slots. One of its readers owns them."""

    id: int
    plan: Plan
    quarantine: Quarantine
    _: KW_ONLY
    slots: int
    ordered: bool
    lease_clips: int = LEASE_CLIPS  # that fit into one message
    clip_bytes: int = 0  # of the largest clip that is sent
    fetched: bool = False  # local workers get its files from another host
    function: str = ""  # of the user's, that makes its clips; "" if there is none
    files: Files | None = None  # None: it matters to nobody which file a clip comes from
    copy: Hashable = None  # the trainer's own copy of the videos, as workers name it
    # Workers had another copy of these videos, whose own file is being looked at again.
    other_copies: list[tuple[int, Doubt]] = field(default_factory=list)
    free: list[int] = field(init=False)  # slots
    batch_clips: int = 1
    readers: dict[int, Reader] = field(default_factory=dict)
    owner: Reader | None = None
    stopped: bool = False
    granted: int = 0  # the number of its last lease
    frame_s: float = math.inf  # the time to decode a frame of a clip, a moving average
    unread: dict[str, float] = field(default_factory=dict)  # files that cannot be read, since when
    stood_still_in: set[tuple[int, int]] = field(default_factory=set)  # clips, in the function

    def __post_init__(self) -> None:
        self.free = list(range(self.slots))[::-1]
        self.lease_clips = max(1, min(self.lease_clips, MAX_CLIPS))

    def checks(self, worker: Worker) -> bool:
        """Whether a worker reads another copy, and so has to show which file its clips are of."""
        return self.files is not None and worker.copy not in (None, self.copy)

    def unread_since(self, video: int, now: float) -> float:
        """The file of a video cannot be read, now; returns since when."""
        return self.unread.setdefault(self.quarantine.path_of(video), now)

    def was_read(self, videos: Iterable[int]) -> None:
        """The files of these videos were read."""
        for video in videos if self.unread else ():
            self.unread.pop(self.quarantine.path_of(video), None)

    def clip_s(self, sample: Sample) -> float:
        """The time to decode a clip of this sample's batch; infinite if it is not known."""
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
    looked_until: int = 0  # the step before which all fingerprints were asked for
    waiting: bool = False
    owed: bool = False  # it owns the slots, and has got no batch since

    @property
    def can_open(self) -> bool:
        """Whether it has a batch to open and its stream a free slot."""
        return bool(self.stream.free and (self.again or self.opened < self.stop))

    @property
    def unfinished(self) -> bool:
        """Whether batches are still to come."""
        return bool(self.opened < self.stop or self.again or self.filling or self.complete)

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
    left: Sequence[int]  # rows that are in no chunk yet, ascending
    missing: int = 0  # rows that are not done
    frames: npt.NDArray[np.int64] = field(default_factory=lambda: _NO_FRAMES)  # told of each row
    chunks: dict[Chunk, None] = field(default_factory=dict)  # chunks that are not done
    left_out: set[int] = field(default_factory=set)  # rows that cannot be decoded
    error: tuple[int, VideoloadError] | None = None  # the stream ends at this row
    by_host: dict[Hashable, list[int]] | None = None  # rows of ``left``: see `affinity`
    sorted_by: int = 0  # ... by this version of the hosts
    writers: int = 0  # if it is cancelled: leases that may still write into its slot

    def tell(self, rows: Sequence[int], frames: npt.NDArray[np.int64]) -> None:
        """Note what a worker tells of some rows."""
        if not len(self.frames):
            self.frames = np.empty((len(self.samples), frames.shape[1]), np.int64)
        self.frames[list(rows)] = frames

    def choose_substitutes(self, rows: Sequence[int]) -> None:
        """Replace the samples that are known to be bad by now."""
        quarantine = self.reader.stream.quarantine
        for row in rows if quarantine.avoids else ():
            self.samples[row] = quarantine.replace(self.samples[row])

    def cut(self, rows: Sequence[int], own: list[int] | None = None) -> Chunk:
        """The first rows that are in no chunk yet become one; or the first ones of ``own``, those
        that prefer a host."""
        if own is None:
            self.left = self.left[len(rows) :]
            self.by_host = None
        else:
            taken = set(rows)
            self.left = [row for row in self.left if row not in taken]
            del own[: len(rows)]
        if not self.left:
            self.reader.splitting.remove(self)
        return Chunk(self, rows)


@dataclass(frozen=True, slots=True)
class Doubt:
    """A worker said that it cannot decode a clip, of the file with this fingerprint."""

    worker: Worker
    reason: str
    fault: Fault = Fault.VIDEO
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
    """Clips of a batch that one worker decodes. Their rows ascend; consecutive rows are a range."""

    batch: Batch
    rows: Sequence[int]
    state: ChunkState = ChunkState.GRANTED
    holders: dict[Lease, None] = field(default_factory=dict)  # the leases whose answers count
    doubts: list[Doubt] = field(default_factory=list)  # about the only clip
    blamed: dict[Worker, None] = field(default_factory=dict)  # never answered it: see `blame`
    blamed_at: float = -math.inf  # when the last of these was noted

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
    def unread(self) -> list[Doubt]:
        """The doubts of workers that could not read the file of its only clip."""
        return [doubt for doubt in self.doubts if doubt.fault is Fault.UNREAD]

    @property
    def waits_in(self) -> Heap:
        """The heap that it waits in to be granted again."""
        reader = self.batch.reader
        return reader.accused if self.blamed else reader.orphans

    def void_leases(self) -> None:
        """No answer counts any more."""
        for lease in list(self.holders):
            lease.void()

    def requeue(self) -> None:
        """It is to be granted again."""
        if self.state is not ChunkState.WAITING:
            self.state = ChunkState.WAITING
            self._push()

    def requeue_if_abandoned(self) -> None:
        """It is to be granted again, unless a worker that is heard of has it, or one is tried, or
        so many are silent at it that more would only follow them."""
        held = any(not lease.worker.is_silent or self._has_grace(lease) for lease in self.holders)
        silent = sum(lease is lease.worker.current_lease for lease in self.holders)
        held |= silent >= _MAX_SILENT and not self.blamed
        if self.state is ChunkState.GRANTED and not held:
            self.requeue()

    def blame(self, worker: Worker, now: float) -> None:
        """A worker was at it, was alive, and never answered."""
        self.blamed[worker] = None
        worker.is_blamed = True
        self.blamed_at = now
        if self.state is ChunkState.WAITING:
            self._push()

    def unblame(self, worker: Worker) -> None:
        """This worker may answer after all."""
        if worker in self.blamed:
            del self.blamed[worker]
            if self.state is ChunkState.WAITING:
                self._push()

    def clear_blame(self) -> None:
        """It has other samples now, and nothing speaks against them."""
        self.doubts.clear()
        for worker in list(self.blamed):
            self.unblame(worker)

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
            one = Chunk(self.batch, rows, blamed=dict(self.blamed), blamed_at=self.blamed_at)
            one.requeue()

    def _end(self) -> None:
        self.void_leases()
        self.batch.chunks.pop(self, None)
        self.state = ChunkState.DONE

    def _push(self) -> None:
        """Put it into its heap. An entry that it leaves in the other heap is passed over there."""
        order = self.blamed_at if self.blamed else self.batch.step
        heappush(self.waits_in, (order, next(self.batch.reader.orphaned), self))

    def _has_grace(self, lease: Lease) -> bool:
        """Whether this worker, if silent, is given time to answer, and the others wait for that."""
        is_new = lease.granted >= self.blamed_at and lease.worker not in self.blamed
        return bool(self.blamed) and is_new and lease is lease.worker.current_lease


Heap = list[tuple[float, int, Chunk]]  # order, number, and what is to be granted again


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
    granted: float
    before: int  # leases that its worker held already
    size: int  # bytes of its answer that have to be sent
    on_line: int  # bytes of these that are still expected
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
        """Its answer counts no more. The worker still works on it."""
        if self.state is LeaseState.OWED:
            self.state = LeaseState.VOID
            del self.chunk.holders[self]

    def cancel(self) -> None:
        """Nobody wants its batch any more, whose slot waits for a local worker."""
        self.void()
        if self.worker.local and self.state is LeaseState.VOID:
            self.state = LeaseState.LANDING
            self.chunk.batch.writers += 1

    def end(self) -> None:
        """Its worker no longer works on it."""
        self.void()
        if self.state is LeaseState.LANDING:
            batch = self.chunk.batch
            batch.writers -= 1
            if not batch.writers:
                batch.reader.stream.free.append(batch.slot)
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
    still: StillTime = field(init=False)  # how long it has been silent, while the pool looked
    leases: dict[int, Lease] = field(default_factory=dict)  # that are not ANSWERED
    row: dict[Worker, None] | None = None  # its row in the pool; None if it takes no leases
    is_silent: bool = False  # it is silent, or has left
    evicted: bool = False  # it is being removed
    on_probation: bool = False  # it has a chunk that others never answered, and gets nothing else
    is_blamed: bool = False  # since it was last heard, a chunk noted that it never answers
    progress: int = -1  # packets that it had decoded at its last heartbeat
    idle_beat: bool = False  # between its last two heartbeats it decoded nothing
    idle_ticks: int = 0  # ticks in a row with such a heartbeat while it held leases
    answered: bool = False  # it has answered a lease
    mistakes: float = 0.0  # clips that it failed at and others decoded, less a part of its answers
    pause_s: float = 0.0  # its last one
    paused_until: float = -math.inf
    silence: Silence = field(default_factory=Silence)
    pace: Pace = field(init=False)

    def __post_init__(self, fetches: bool) -> None:
        self.heard = self.joined
        self.pace = Pace(local=self.local)
        self.pace.fetches = fetches

    @property
    def current_lease(self) -> Lease | None:
        """The lease that it works on: it answers them in the order in which they were granted."""
        return next(iter(self.leases.values()), None)
