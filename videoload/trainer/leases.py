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
    local: that grant makes the remote ones void. An answer that a receiver writes, while it does,
    is one of a local worker, whatever becomes of its worker: all others of its chunk are void.
  * The reader that was asked last owns the stream's slots: another one, left half-way, gives back
    what was not yet consumed and decodes it again when it is asked again. A reader that waits is
    handed one batch before another may take over, and then those that wait take turns: two
    iterators over one stream, in one thread or in two, never wait for each other for good.
  * One worker's word is not enough: a clip that it cannot decode is asked of another one, of
    another copy of the videos where there is one, before it is taken for bad. Only the trainer's
    own copy has the last word at once.
  * Read-ahead decides nothing: what ends a stream (too many bad videos, a transform that failed)
    ends it at the batch that it belongs to, after all batches before that one.
  * Silence is no crime: a clip is blamed for a silent local worker only if that burns CPU, or
    sleeps while the storage answers. Where nobody is heard of, it is the storage or the host.
  * A worker that is far away, or whose files are, holds more leases than one next door, and all
    that send pixels together no more than their line brings in time: see `line`.
  * No worker makes a stream slower than it is without: who is measured to be slow gets short
    leases, one at a time, and none where its one clip would hold up all slots. What a remote worker
    is late with while a consumer waits is asked of another one as well.

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
from videoload.trainer.lease_commands import (
    AskStorage,
    Command,
    Dismiss,
    Evict,
    Grant,
    Pause,
    Ready,
    Recall,
    Stop,
    WorkerId,
)
from videoload.trainer.line import Line
from videoload.trainer.paces import Pace, Paces
from videoload.trainer.silence import Look, Silence

_LEASE_CLIPS = 16  # at most; with so many, a lease's messages cost less than 1 % of its decoding
_RUN_CLIPS = 64  # at most, where they are clips of one video, which one pass over it decodes
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
_SETTLED_S = 2.0  # a remote worker that dies sooner after it joined was not killed by a clip
_TICKS = 8  # over which it is averaged whether the line is full: 2 s
_TRIED_ORPHANS = 32  # which are not for this worker, before it is passed over
_LATE, _LATE_S = 3.0, 0.1  # times what a lease should take, and so much more: it is late


@dataclass(eq=False, slots=True)
class _Stream:
    id: int
    plan: Plan
    quarantine: Quarantine
    clip_frames: int
    ordered: bool
    lease_clips: int
    run_clips: int  # the same for clips of one video
    slots: int
    free: list[int]
    clip_bytes: int
    fetched: bool
    batch_clips: int = 1
    readers: dict[int, _Reader] = field(default_factory=dict)
    owner: _Reader | None = None
    stopped: bool = False
    granted: int = 0  # the number of its last grant, of all grants
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
    shaken: list[tuple[int, int, _Chunk]] = field(default_factory=list)  # those not for everybody
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
    chunks: dict[_Chunk, None] = field(default_factory=dict)  # those not done
    left_out: set[int] = field(default_factory=set)  # rows that cannot be decoded
    error: tuple[int, VideoloadError] | None = None  # what ends the stream here, and at which row
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
    holders: dict[_Lease, None] = field(default_factory=dict)
    doubts: list[_Doubt] = field(default_factory=list)  # of a chunk of one clip
    deaths: int = 0
    crashes: int = 0  # deaths that look like a decoder's doing
    shaken: bool = False  # a remote worker died over it: those that are here for long go on with it
    died_at: set[Hashable] = field(default_factory=set)  # copies whose workers died over it
    queued: bool = False  # among its reader's orphans

    @property
    def lands(self) -> bool:
        """Whether a receiver writes an answer to it now."""
        return any(lease.lands for lease in self.holders)

    @property
    def is_written(self) -> bool:
        """Whether somebody writes into its place, or may: a receiver, or a local worker."""
        return any(lease.lands or lease.worker.local for lease in self.holders)

    @property
    def waits_in(self) -> list[tuple[int, int, _Chunk]]:
        """The heap for it, when it is to be granted again."""
        reader = self.batch.reader
        return reader.shaken if self.shaken else reader.orphans


@dataclass(eq=False, slots=True)
class _Lease:
    id: int
    worker: _Worker
    chunk: _Chunk | None  # None: void, the answer will be dropped
    stream: int
    videos: tuple[int, ...]  # of its clips
    granted: float
    before: int  # leases that its worker held already
    size: int  # bytes that its answer has to send
    on_line: int  # ... and those of them that are still expected
    drains: _Batch | None = None  # the cancelled batch that waits for this writer
    lands: bool = False  # a receiver writes its answer
    arrived: bool = False  # its answer has
    cut_off: bool = False  # its worker was silent meanwhile


@dataclass(eq=False, slots=True)
class _Worker:
    id: WorkerId
    local: bool
    copy: Hashable  # which copy of the videos it reads; None: the trainer's own
    heard: float
    joined: float
    number: int  # in the order in which they joined
    leases: dict[int, _Lease] = field(default_factory=dict)
    among: dict[_Worker, None] | None = None  # those that hold as many leases; None while suspect
    suspect: bool = False
    evicted: bool = False
    progressed: float = -math.inf  # when it last had decoded something
    progress: int = -1  # packets that it had decoded at its last heartbeat
    idle_beat: bool = False  # at its last heartbeat it had decoded nothing since the one before
    idle_ticks: int = 0  # in a row, with such a heartbeat while it held leases
    mistakes: float = 0.0  # clips that it failed at and others did not, less what it did well
    pauses: int = 0
    paused_until: float = -math.inf
    silence: Silence = field(default_factory=Silence)
    pace: Pace = field(init=False)

    def __post_init__(self) -> None:
        self.pace = Pace(local=self.local)


class LeaseTable:
    """The state of one client: streams, their slots, and the workers."""

    def __init__(
        self, *, credit: int, stall_s: float, silence_s: float, deaths: int = _DEATHS
    ) -> None:
        """``credit``: leases that a worker holds at once, next door. ``stall_s``: a local worker
        silent for so long is killed. ``silence_s``: the leases of a remote one silent for so long
        go to others. ``deaths``: a clip that, alone in its lease, so many workers died over is
        taken for bad."""
        self._credit = credit
        self._stall_s = stall_s
        self._silence_s = silence_s
        self._deaths = deaths
        self._streams: dict[int, _Stream] = {}
        self._readers: dict[int, _Reader] = {}
        self._workers: dict[WorkerId, _Worker] = {}
        # Those that take leases, by how many they hold; who holds that many for longest is first.
        self._by_leases: list[dict[_Worker, None]] = [{} for _ in range(credit)]
        self._full: dict[_Worker, None] = {}  # those that take leases, but no more of them now
        self._line = Line()
        self._line_full = 0.0  # the share of the last ticks at which it had no room
        self._locals = 0
        self._blamed: dict[WorkerId, _Chunk] = {}  # the chunk that each lost worker was at
        self._opened_empty: list[_Reader] = []  # of a batch, all clips are known to be bad
        self._landing: dict[int, _Lease] = {}
        self._lease_ids = count(1)
        self._worker_numbers = count()
        self._roster = 0  # changes with those that take leases
        self._seniority: tuple[int, int, set[Hashable]] = (-1, -1, set())
        self._now = -math.inf  # the latest time that was told
        self._paces = Paces()
        self._chunk_ids = count()
        self._ticked: float | None = None

    @property
    def workers(self) -> int:
        """Workers that take leases now."""
        return sum(map(len, self._by_leases)) + len(self._full)

    @property
    def has_credit(self) -> bool:
        """Whether some worker would take another lease now."""
        return any(self._by_leases) and (self._locals > 0 or self._line.has_room(self._now))

    @property
    def line_is_full(self) -> bool:
        """Whether workers that dialled in get no leases since others' answers fill the line."""
        return self._line_full > 0.5

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
        clip_bytes: int = 0,
        fetched: bool = False,
    ) -> None:
        """Make a stream known; it does nothing before a reader starts. ``lease_clips``: so many of
        its clips fit into one message. ``clip_bytes``: of each, where it has to be sent.
        ``fetched``: local workers have its files from another host."""
        most, of_one_video = (
            max(1, min(lease_clips, limit)) for limit in (_LEASE_CLIPS, _RUN_CLIPS)
        )
        self._streams[stream] = _Stream(
            stream, plan, quarantine, clip_frames, ordered, most, of_one_video, slots,
            list(range(slots))[::-1], clip_bytes, fetched,
        )  # fmt: skip
        self._note_what_is_fetched()

    def drop_stream(self, stream: int) -> list[Command]:
        """Forget a stream that has no consumers any more."""
        commands: list[Command] = []
        self._streams[stream].stopped = True
        for reader in list(self._streams[stream].readers):
            commands += self.end_reader(reader)
        del self._streams[stream]
        self._note_what_is_fetched()
        return commands

    def start_reader(self, stream: int, reader: int, start: int, stop: int) -> list[Command]:
        """A consumer begins to read steps start..stop-1."""
        owner = self._streams[stream]
        self._readers[reader] = owner.readers[reader] = _Reader(reader, owner, start, stop, start)
        return self.wanted(reader)

    def wanted(self, reader: int) -> list[Command]:
        """The consumer of ``reader`` waits for its next batch. May be said again while it waits."""
        asking = self._readers.get(reader)
        if asking is None or not asking.unfinished or asking.stream.stopped:
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

    def clock(self, now: float) -> None:
        """The time of the events that follow, where it matters how long a worker takes."""
        self._now = max(self._now, now)

    def worker_joined(
        self,
        worker: WorkerId,
        *,
        local: bool,
        now: float,
        copy: Hashable = None,
        fetches: bool = False,
    ) -> list[Command]:
        """A worker is admitted. ``local``: it writes into shared memory. ``copy``: which copy of
        the videos it reads; None is the trainer's own, whose word is final. ``fetches``: it dialled
        in, and has its files from another host."""
        self.clock(now)
        if worker not in self._workers:
            number = next(self._worker_numbers)
            joined = self._workers[worker] = _Worker(worker, local, copy, now, now, number)
            joined.pace.fetches = fetches
            self._locals += local
            self._note_what_is_fetched()
            self._file(joined)
        return self._grant()

    def heard(
        self,
        worker: WorkerId,
        now: float,
        progress: int | None = None,
        *,
        importing: bool = False,
    ) -> bool:
        """A message of a worker came; False if it is not known. ``progress``: of a heartbeat, how
        many packets it has decoded. ``importing``: it will be silent for as long as that takes."""
        known = self._workers.get(worker)
        if known is None:
            return False
        self.sends(worker, now)
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
        return True

    def sends(self, worker: WorkerId, now: float) -> None:
        """Something of a worker's message came, if not all of it: it may wait long for a full line,
        and is no silence."""
        self.clock(now)
        known = self._workers.get(worker)
        if known is None:
            return
        if self._was_cut_off(known):
            for lease in known.leases.values():
                lease.cut_off = True
        known.heard = now
        if known.suspect and not known.evicted:
            known.suspect = False
            self._file(known)

    def worker_left(
        self,
        worker: WorkerId,
        *,
        died: bool,
        crashed: bool = False,
        at_work: int | None = None,
    ) -> list[Command]:
        """A worker has ended: a local one is reaped, a remote one sent BYE or cannot be reached.
        ``died``: the lease that it was at may be what killed it. ``at_work``: which one that was, 0
        if none; if not known, it is taken for the first one that it has not answered."""
        gone = self._workers.pop(worker, None)
        if gone is None:
            return []
        self._locals -= gone.local
        said_bye = not died
        if gone.evicted:
            died = crashed = died and not gone.silence.blameless
        died = died and not self._died_of_itself(gone)
        gone.suspect = True  # takes no more
        self._file(gone)
        commands: list[Command] = []
        leases = [lease for lease in gone.leases.values() if not lease.lands]
        at = next(iter(leases), None) if at_work is None else gone.leases.get(at_work)
        for lease in leases:
            chunk = lease.chunk
            self._settle(lease)
            if chunk is None:
                continue
            if lease is at and not gone.local and not said_bye:
                chunk.shaken = True
                chunk.died_at.add(gone.copy)
            if lease is at and died and not chunk.holders:
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

    def storage_answered(self, worker: WorkerId) -> None:
        """What `AskStorage` asked for was read."""
        known = self._workers.get(worker)
        if known is not None:
            known.silence.storage_answered()

    def silent(self, now: float) -> list[WorkerId]:
        """The local workers that are silent for long enough to be looked at: see `look`."""
        return [
            worker.id
            for worker in self._workers.values()
            if worker.local and not worker.evicted and now - worker.heard > self._stall_s / 2
        ]

    def look(self, worker: WorkerId, look: Look) -> None:
        """What the kernel tells of a worker in `silent`. Without any look, it counts as hung."""
        self._workers[worker].silence.look(look)

    def arrived(self, worker: WorkerId, lease: int, decode_s: float = 0.0) -> None:
        """The answer to ``lease`` has come, valid or not; what becomes of it may take a while."""
        found = self._lease(worker, lease)
        if found is not None and not found.arrived:
            found.arrived = True
            self._measure(found, decode_s)
            work_s = min((found.before + 1) * decode_s, self._now - found.granted)
            self._line.came(found.size, self._now, work_s)
            self._write_off(found)

    def landing(self, worker: WorkerId, lease: int) -> tuple[int, int, int, int] | None:
        """A receiver is to write the answer to ``lease``: returns its place, as `place` does, which
        is the receiver's alone until `landed`; None: it is void."""
        found, place = self._lease(worker, lease), self.place(worker, lease)
        if found is None or found.chunk is None:
            return None
        for other in list(found.chunk.holders):
            if other is not found:
                self._void(other)
        found.lands = True
        self._landing[lease] = found
        return place

    def holds(self, worker: WorkerId, lease: int) -> bool:
        """Whether this worker's answer to ``lease`` is due, be it void."""
        return self._lease(worker, lease) is not None

    def landed(self, lease: int, *, whole: bool, blame: bool = False) -> list[Command]:
        """The receiver writes it no more. If it is ``whole`` and its worker is still there, its
        `result` is to follow; if not, its clips are granted again. ``blame``: that may be the
        worker's doing."""
        found = self._landing.pop(lease)
        found.lands = False
        is_here = self._workers.get(found.worker.id) is found.worker
        if whole and is_here:
            return []
        chunk = found.chunk
        self._settle(found)
        if chunk is not None:
            self._requeue_if_abandoned(chunk)
        commands: list[Command] = []
        if blame and is_here:  # it happens; but not to most of its answers
            reason = "the pixels that it announced did not come"
            commands += self._count_mistake(found.worker, reason, _AMENDS)
        return commands + self._grant()

    def held(self, worker: WorkerId) -> int:
        """How many leases a worker holds."""
        known = self._workers.get(worker)
        return 0 if known is None else len(known.leases)

    def place(self, worker: WorkerId, lease: int) -> tuple[int, int, int, int] | None:
        """(stream, slot, first row, rows) that the answer to ``lease`` fills; None: it is void."""
        found = self._lease(worker, lease)
        if found is None or found.chunk is None:
            return None
        chunk = found.chunk
        return chunk.batch.reader.stream.id, chunk.batch.slot, chunk.first, chunk.size

    def videos(self, worker: WorkerId, lease: int) -> tuple[int, ...]:
        """The videos of the clips of ``lease``, in its order; none if it is void."""
        found = self._lease(worker, lease)
        return () if found is None or found.chunk is None else found.videos

    def result(
        self, worker: WorkerId, lease: int, frames: npt.NDArray[np.int64], decode_s: float = 0.0
    ) -> list[Command]:
        """The clips of ``lease`` are in their place; ``frames`` are the source ordinals [n, T],
        ``decode_s`` is what the decoding took."""
        self.arrived(worker, lease, decode_s)
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
        batch.chunks.pop(chunk, None)
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
            commands += self._complete(batch)
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
        is no other worker to ask, it is so: another clip is substituted, or the clip is left out,
        or if it is ``fatal`` the stream stops at this batch. Else another worker is asked."""
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
        self.clock(now)
        commands: list[Command] = []
        for worker in self._workers.values():
            if pause > self._silence_s / 2:  # this process was stopped, not all the workers
                worker.heard += pause
                worker.silence.excuse()
            silent = now - worker.heard
            has_work = not all(lease.lands for lease in worker.leases.values())
            worker.idle_ticks += worker.idle_beat and has_work
            worker.idle_beat = False
            lost = worker.idle_ticks >= _IDLE_TICKS
            if worker.evicted or (worker.suspect and not worker.local):
                continue
            if worker.local and silent > self._stall_s / 2:
                commands += self._ask_storage(worker)
            if silent <= (self._stall_s if worker.local else self._silence_s) and not lost:
                continue
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
                        self._requeue_if_abandoned(lease.chunk)
        self._line_full += ((not self._line.has_room(now)) - self._line_full) / _TICKS
        # Found out at each tick, not at each grant.
        self._paces.compare(w.pace for w in self._workers.values() if w.among is not None)
        for worker in self._workers.values():
            if worker.among is None:  # its pause may be over
                self._file(worker)
        for stream in self._streams.values():
            commands += self._pass_turn(stream)
            if stream.owner is not None:
                commands += self._settle_doubts(stream.owner)
        return commands + self._grant() + self._ask_others_too()

    # What follows from the events

    def _lease(self, worker: WorkerId, lease: int) -> _Lease | None:
        """A lease of which nothing is decided: what is said of one that lands, is said too late."""
        known = self._workers.get(worker)
        found = None if known is None else known.leases.get(lease)
        return None if found is None or found.lands else found

    def _file(self, worker: _Worker) -> None:
        """Put a worker where `_grant` looks for it, after its leases or its silence changed."""
        took = worker.among is not None
        if worker.among is not None:
            del worker.among[worker]
        paused = self._ticked is not None and self._ticked < worker.paused_until
        takes_none = worker.suspect or paused
        if takes_none:
            worker.among = None
        else:
            worker.among = self._row(worker)
            worker.among[worker] = None
        self._roster += took is takes_none

    def _row(self, worker: _Worker) -> dict[_Worker, None]:
        """Those that hold as many leases as this worker, or that all have what they may."""
        held = len(worker.leases)
        # A slow worker takes one lease at a time: the next would only wait.
        next_door = 1 if self._is_slow(worker) else self._credit
        if held >= next_door + worker.pace.on_the_way:
            return self._full
        while held >= len(self._by_leases):
            self._by_leases.append({})
        return self._by_leases[held]

    def _write_off(self, lease: _Lease) -> None:
        """Nothing of its answer is on the line any more, or expected to come soon."""
        self._line.written_off(lease.on_line)
        lease.on_line = 0

    def _settle(self, lease: _Lease) -> None:
        """The worker no longer works on this lease."""
        del lease.worker.leases[lease.id]
        self._write_off(lease)
        if not lease.arrived:
            lease.worker.pace.begins(self._now)
        self._file(lease.worker)
        if lease.chunk is not None:
            lease.chunk.holders.pop(lease, None)
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
            lease.chunk.holders.pop(lease, None)
            lease.chunk = None

    def _requeue_if_abandoned(self, chunk: _Chunk) -> None:
        """If no worker that is heard of works on the chunk, it goes to the next one."""
        if all(lease.worker.suspect for lease in chunk.holders):
            self._requeue(chunk)

    def _requeue(self, chunk: _Chunk) -> None:
        if not chunk.queued:
            chunk.queued = True
            orphan = (chunk.batch.step, next(self._chunk_ids), chunk)
            heappush(chunk.waits_in, orphan)

    # Silence, and deaths

    def _ask_storage(self, worker: _Worker) -> list[Command]:
        """Once in a silence: a worker that sleeps may wait for its disk, or for ever."""
        if not worker.leases or not worker.silence.asks_storage():
            return []
        lease = next(iter(worker.leases.values()))
        return [AskStorage(worker.id, lease.stream, lease.videos)]

    def _is_stuck(self, worker: _Worker, silent: float) -> bool:
        """Whether a local worker, silent for longer than it may be, is to be killed now; and
        whether that speaks against what it is at."""
        since = worker.heard + self._stall_s / 2
        alone = not any(other.heard > since for other in self._workers.values() if other.local)
        return worker.silence.is_over(
            silent, self._stall_s, has_work=bool(worker.leases), is_alone=alone
        )

    def _died_of_itself(self, gone: _Worker) -> bool:
        """Whether a remote worker's death tells nothing of the clip that it was at."""
        if gone.local:
            return False
        others = [worker for worker in self._heard_of() if worker is not gone]
        if self._now - gone.joined < _SETTLED_S:
            return any(other.number < gone.number for other in others)
        # It was silent, and so are all that read the same files: who killed it for that was wrong.
        peers = [w for w in self._workers.values() if w.copy == gone.copy and w is not gone]
        return gone.suspect and bool(peers) and all(w.progressed <= gone.heard for w in peers)

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
        batch.chunks.pop(chunk, None)
        for row in range(chunk.first, chunk.first + chunk.size):
            one = _Chunk(batch, row, 1, shaken=chunk.shaken, died_at=set(chunk.died_at))
            batch.chunks[one] = None
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
        if stream.quarantine.skips:
            batch.left_out.add(chunk.first + at)
            return self._give_up(self._single_out(chunk, at))
        self._requeue(chunk)  # substitutes are chosen when it is granted again
        return self._stop_if_due(batch)

    def _fatal(self, chunk: _Chunk, at: int, reason: str) -> list[Command]:
        """The stream cannot go on past this clip."""
        batch, row = chunk.batch, chunk.first + at
        if batch.error is None or row < batch.error[0]:
            batch.error = row, TransformError(reason)
        return self._give_up(chunk)

    def _give_up(self, chunk: _Chunk) -> list[Command]:
        """This chunk is not to be decoded."""
        batch = chunk.batch
        batch.chunks.pop(chunk, None)
        batch.missing -= chunk.size
        return [] if batch.missing else self._complete(batch)

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
                return self._fatal(chunk, at, doubt.reason)
            return self._fail(chunk, at, doubt.reason, dropped=doubt.dropped)
        one = self._single_out(chunk, at)
        one.doubts.append(doubt)
        return self._settle_or_requeue(one)

    def _settle_or_requeue(self, chunk: _Chunk) -> list[Command]:
        """A doubted clip: it is decided on, or asked of another worker."""
        said = [doubt for doubt in chunk.doubts if not doubt.of_worker]
        local = any(worker.copy is None for worker in self._heard_of())  # has the last word
        agreed = len({doubt.worker.copy for doubt in said}) > 1 and not local
        if not agreed and any(self._may_judge(worker, chunk) for worker in self._heard_of()):
            self._requeue(chunk)
            return []
        doubt = (said or chunk.doubts)[0]
        chunk.doubts.clear()
        for other in list(chunk.holders):  # who was silent may be heard of again
            self._void(other)
        if doubt.fatal:
            return self._fatal(chunk, 0, doubt.reason)
        return self._fail(chunk, 0, doubt.reason, dropped=doubt.dropped)

    def _settle_doubts(self, reader: _Reader) -> list[Command]:
        """Those who might have been asked may have left since."""
        commands: list[Command] = []
        for _, _, chunk in [*reader.orphans, *reader.shaken]:
            if reader.stream.stopped:
                break
            if chunk not in chunk.batch.chunks or chunk.is_written:
                continue
            if chunk.doubts and any(self._heard_of()):
                commands += self._settle_or_requeue(chunk)
        return commands

    def _heard_of(self) -> Iterator[_Worker]:
        return (worker for worker in self._workers.values() if not worker.suspect)

    def _may_take(self, worker: _Worker, chunk: _Chunk) -> bool:
        """Whether a worker may be asked for what was granted before."""
        if chunk.shaken and not (self._is_settled(worker) and self._may_go_on(worker, chunk)):
            return False
        if not (chunk.doubts or chunk.shaken):
            return not self._would_hold_up(worker, chunk.batch.reader.stream)
        return self._may_judge(worker, chunk)

    def _is_settled(self, worker: _Worker) -> bool:
        """Whether a worker is here for a while, or for longer than most. Only such a one goes on
        with what a remote one died over: so those that die by themselves as soon as they are
        started do not condemn what they are given in turn."""
        return self._now - worker.joined >= _SETTLED_S or worker.number <= self._takers()[1]

    def _may_go_on(self, worker: _Worker, chunk: _Chunk) -> bool:
        """A worker of another copy than that whose workers died over it goes on with it, where
        there is one."""
        copies = self._takers()[2] - chunk.died_at - {doubt.worker.copy for doubt in chunk.doubts}
        return worker.copy not in chunk.died_at or not copies

    def _takers(self) -> tuple[int, int, set[Hashable]]:
        """Of those that take leases: the number of the last one in the oldest quarter, and all
        their copies."""
        if self._seniority[0] != self._roster:
            takers = [other for other in self._workers.values() if other.among is not None]
            numbers = sorted(other.number for other in takers)
            last = numbers[max(0, len(numbers) // 4 - 1)] if numbers else -1
            self._seniority = self._roster, last, {other.copy for other in takers}
        return self._seniority

    def _may_judge(self, worker: _Worker, chunk: _Chunk) -> bool:
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
        batch.chunks.pop(chunk, None)
        one = _Chunk(batch, chunk.first + at, 1)
        batch.chunks[one] = None
        for first, last in ((0, at), (at + 1, chunk.size)):
            if first < last:
                rest = _Chunk(batch, chunk.first + first, last - first)
                batch.chunks[rest] = None
                self._requeue(rest)
        return one

    def _count_mistake(self, worker: _Worker, reason: str, weight: float = 1) -> list[Command]:
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

    def _stop(self, stream: _Stream, error: VideoloadError) -> list[Command]:
        stream.stopped = True
        for reader in stream.readers.values():
            self._cancel_all(reader)
        return [Stop(stream.id, error)]

    def _stop_if_due(self, batch: _Batch) -> list[Command]:
        """Stop where the next batch is to be: its first clips, as far as they are decided on, tell
        already that too many videos are bad. (Where all are bad it would never be complete.)"""
        stream = batch.reader.stream
        if stream.ordered and batch.step != batch.reader.due:
            return []
        end = min((chunk.first for chunk in batch.chunks), default=batch.next_row)
        decided = [*batch.samples[:end], *map(stream.quarantine.replace, batch.samples[end:][:1])]
        error = stream.quarantine.due(batch.step, decided, complete=False)
        return [] if error is None else self._stop(stream, error)

    @staticmethod
    def _choose_substitutes(batch: _Batch, first: int, size: int) -> None:
        substitute = batch.reader.stream.quarantine.replace
        batch.samples[first : first + size] = map(substitute, batch.samples[first : first + size])

    def _cancel_all(self, reader: _Reader) -> None:
        for batch in [*reader.filling.values(), *reader.complete.values()]:
            for chunk in batch.chunks:
                for lease in list(chunk.holders):
                    self._void(lease)
                    if lease.worker.local or lease.lands:
                        lease.drains = batch
                        batch.writers += 1
            if not batch.writers:
                reader.stream.free.append(batch.slot)
        reader.filling.clear()
        reader.complete.clear()
        reader.orphans.clear()
        reader.shaken.clear()
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

    def _complete(self, batch: _Batch) -> list[Command]:
        """Nothing of this batch is missing any more."""
        reader = batch.reader
        reader.complete[batch.step] = reader.filling.pop(batch.step)
        return self._deliver(reader)

    def _deliver(self, reader: _Reader) -> list[Command]:
        commands: list[Command] = []
        for step in [reader.due] if reader.stream.ordered else sorted(reader.complete):
            at = step
            while (batch := reader.complete.get(at)) is not None:
                rows = [row for row in range(len(batch.samples)) if row not in batch.left_out]
                last, error = batch.error or (len(batch.samples), None)
                samples = [batch.samples[row] for row in rows if row <= last]
                whole = error is None
                error = reader.stream.quarantine.due(at, samples, complete=whole) or error
                if error is not None:
                    return commands + self._stop(reader.stream, error)
                del reader.complete[at]
                ready = Ready(reader.id, at, batch.slot, tuple(samples), batch.frames)
                if batch.left_out:
                    ready = replace(ready, frames=batch.frames[rows], rows=tuple(rows))
                commands.append(ready)
                reader.waiting = reader.owed = False
                at += 1
                reader.due = at
        return commands

    def _grant(self) -> list[Command]:
        """Leases for every worker that has credit, as far as there is work and slots for it."""
        commands: list[Command] = []
        passed_over: set[_Worker] = set()  # what is left is not for them
        # First one lease to each idle worker, then a second.
        while (worker := self._next_taker(passed_over)) is not None:
            chunk = self._next_chunk(worker)
            if chunk is not None:
                commands.append(self._grant_to(worker, chunk))
            elif self._is_slow(worker) or any(r.orphans or r.shaken for r in self._by_need()):
                passed_over.add(worker)
            else:
                break
        while self._opened_empty:
            commands += self._deliver(self._opened_empty.pop())
        return commands

    def _next_taker(self, passed_over: set[_Worker]) -> _Worker | None:
        """The worker that is next to get a lease."""
        room = self._line.has_room(self._now)
        if not (room or self._locals):
            return None
        for worker in chain(*self._by_leases):
            if worker not in passed_over and (room or worker.local):
                return worker
        return None

    def _grant_to(self, worker: _Worker, chunk: _Chunk) -> Grant:
        if worker.local:
            for other in list(chunk.holders):
                self._void(other)
        batch = chunk.batch
        stream = batch.reader.stream
        samples = tuple(batch.samples[chunk.first : chunk.first + chunk.size])
        videos = tuple(sample.video for sample in samples)
        size = 0 if worker.local else len(samples) * stream.clip_bytes
        lease = _Lease(
            next(self._lease_ids), worker, chunk, stream.id, videos, self._now,
            before=len(worker.leases), size=size, on_line=size,
        )  # fmt: skip
        self._line.asked(size)
        if not worker.leases:
            worker.pace.begins(self._now)
        worker.leases[lease.id] = lease
        self._file(worker)
        chunk.holders[lease] = None
        stream.granted = lease.id
        return Grant(worker.id, lease.id, stream.id, batch.slot, chunk.first, samples)

    def _ask_others_too(self) -> list[Command]:
        """What a consumer waits for, and a remote worker is late with, is asked of one that idles
        as well. A local worker writes where no other may, and so keeps what it has."""
        commands: list[Command] = []
        room = self._line.has_room(self._now)
        for reader in self._by_need():
            if not reader.waiting or not reader.filling or not self._by_leases[0]:
                continue
            step = reader.due if reader.stream.ordered else min(reader.filling)
            batch = reader.filling.get(step)
            for chunk in () if batch is None else list(batch.chunks):
                if len(chunk.holders) != 1 or chunk.queued or chunk.doubts or chunk.shaken:
                    continue
                [lease] = chunk.holders
                due_s = chunk.size * reader.stream.clip_s * (self._paces.quick or 1.0)
                due_s *= max(1.0, (lease.before + 1) / self._credit)
                late_s = _LATE * due_s + lease.worker.pace.trip_s + _LATE_S
                late = self._now - lease.granted > late_s and not lease.lands
                idle = [
                    worker
                    for worker in self._by_leases[0]
                    if (room or worker.local) and not self._is_slow(worker)
                ]
                if late and not lease.worker.local and idle:
                    commands.append(self._grant_to(idle[0], chunk))
        return commands

    # How quick each worker is

    def _note_what_is_fetched(self) -> None:
        """Local workers have the files of each stream from where that has them."""
        fetched = any(stream.fetched for stream in self._streams.values())
        for worker in self._workers.values():
            if worker.local and worker.pace.fetches is not fetched:
                worker.pace.fetches = fetched
                self._file(worker)

    def _measure(self, lease: _Lease, decode_s: float) -> None:
        """An answer came: how long did its worker have for it?"""
        worker, stream = lease.worker, self._streams.get(lease.stream)
        if lease.cut_off or self._was_cut_off(worker):  # that tells nothing of how quick it is
            worker.pace.begins(self._now)
            return
        worker.pace.answered(
            self._now, granted=lease.granted, decode_s=decode_s, clips=len(lease.videos),
            clip_s=math.inf if stream is None else stream.clip_s,
        )  # fmt: skip

    def _was_cut_off(self, worker: _Worker) -> bool:
        """Whether a remote worker was silent for so long that the line was down, or its host
        stopped, be it for a moment."""
        return not worker.local and self._now - worker.heard > self._silence_s / 4

    def _is_slow(self, worker: _Worker) -> bool:
        return self._paces.is_slow(worker.pace)

    def _would_hold_up(self, worker: _Worker, stream: _Stream) -> bool:
        clips, takes = stream.slots * stream.batch_clips, worker.among is not None
        return self._paces.would_hold_up(worker.pace, self._now, clips, is_compared=takes)

    def _next_orphan(self, reader: _Reader, worker: _Worker) -> _Chunk | None:
        """A chunk that was granted before, and may be granted to this worker."""
        found = None
        if reader.shaken and self._is_settled(worker):
            found = self._next_of(reader.shaken, worker)
        return found or self._next_of(reader.orphans, worker)

    def _next_of(self, heap: list[tuple[int, int, _Chunk]], worker: _Worker) -> _Chunk | None:
        kept: list[tuple[int, int, _Chunk]] = []
        found = None
        while heap and found is None and len(kept) < _TRIED_ORPHANS:
            orphan = heappop(heap)
            chunk = orphan[2]
            if chunk not in chunk.batch.chunks:
                continue
            if chunk.lands:
                chunk.queued = False
                continue
            samples = chunk.batch.samples[chunk.first : chunk.first + chunk.size]
            if not chunk.holders:  # else an answer may come for the samples as they are
                self._choose_substitutes(chunk.batch, chunk.first, chunk.size)
            if samples != chunk.batch.samples[chunk.first : chunk.first + chunk.size]:
                chunk.deaths = chunk.crashes = 0
                chunk.shaken = False
                chunk.died_at.clear()
                chunk.doubts.clear()
            if not self._may_take(worker, chunk):
                kept.append(orphan)
                continue
            chunk.queued = False
            found = chunk
        for orphan in kept:
            heappush(orphan[2].waits_in, orphan)
        return found

    def _next_chunk(self, worker: _Worker) -> _Chunk | None:
        for reader in self._by_need():
            if (orphan := self._next_orphan(reader, worker)) is not None:
                return orphan
            if self._would_hold_up(worker, reader.stream):
                continue
            batch = reader.splitting or self._open_batch(reader)
            if batch is None:
                continue
            size = min(self._chunk_size(batch, worker), len(batch.samples) - batch.next_row)
            self._choose_substitutes(batch, batch.next_row, size)
            chunk = _Chunk(batch, batch.next_row, size)
            batch.chunks[chunk] = None
            batch.next_row += size
            reader.splitting = batch if batch.next_row < len(batch.samples) else None
            return chunk
        return None

    def _with_rest_of_video(self, batch: _Batch, size: int) -> int:
        """So many rows, and those that a pass over the last one's video decodes as well."""
        samples, first = batch.samples, batch.next_row
        end = min(first + size, len(samples))
        most = min(first + batch.reader.stream.run_clips, len(samples))
        while end < most and samples[end].video == samples[end - 1].video:
            end += 1
        return end - first

    def _by_need(self) -> Iterator[_Reader]:
        """Readers that may decode: those with a waiting consumer first, by turns; then those least
        ahead."""

        def need(reader: _Reader) -> tuple[bool, int, int]:
            ahead = 0 if reader.waiting else reader.opened - reader.due
            return not reader.waiting, ahead, reader.stream.granted

        return iter(
            sorted((s.owner for s in self._streams.values() if s.owner and not s.stopped), key=need)
        )

    def _open_batch(self, reader: _Reader) -> _Batch | None:
        stream = reader.stream
        while stream.free and (reader.again or reader.opened < reader.stop):
            if reader.again:
                step = heappop(reader.again)
            else:
                step = reader.opened
                reader.opened += 1
            samples = stream.quarantine.kept(stream.plan[step])
            stream.batch_clips = max(stream.batch_clips, len(samples))
            batch = _Batch(
                reader, step, stream.free.pop(), samples,
                np.empty((len(samples), stream.clip_frames), np.int64), missing=len(samples),
            )  # fmt: skip
            if samples:
                reader.filling[step] = reader.splitting = batch
                return batch
            reader.complete[step] = batch
            self._opened_empty.append(reader)
        return None

    def _chunk_size(self, batch: _Batch, worker: _Worker) -> int:
        """A batch is spread over the workers, so that it is complete as early as possible; but
        where clips are quickly decoded, messages would cost too much: then a lease is longer, as
        far as the slots can keep all workers busy. A short rest gets no lease of its own. A slow
        worker has what it can do in 50 ms, or one clip."""
        stream, clips, workers = batch.reader.stream, len(batch.samples), max(1, self.workers)
        spare = stream.slots // 2 * clips // (workers * self._credit + self._paces.on_the_way)
        longest = min(stream.lease_clips, max(-(-clips // workers), spare))
        shortest = max(1, math.ceil(min(clips, _LEASE_S / stream.clip_s)))
        chunks = max(-(-clips // longest), min(workers, clips // shortest))
        size = -(-clips // chunks)
        if not self._is_slow(worker):
            return self._with_rest_of_video(batch, size)
        return max(1, min(size, int(_LEASE_S / (stream.clip_s * worker.pace.value))))
