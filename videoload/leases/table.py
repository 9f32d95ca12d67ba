"""Which worker owes which clip. Pure: events in, commands out, no sockets, no threads, no clock.

A *reader* reads a stream once, for one consumer. It opens batches, in step order, into free slots.
Each open batch is split into *chunks* of its clips. A worker is granted a chunk as a
*lease*. The invariants:

  * A chunk is done once. Its first valid answer counts, and a later one finds its lease void.
  * The fence: at most one live lease of a chunk writes into shared memory, the one of a local
    worker. The chunk is granted again only after that worker is dead. A cancelled batch keeps its
    slot until all its local leases are answered, or their workers are dead.
  * A remote worker does not write. So the chunks of a silent one go to the next worker at once, and
    the first answer wins. If the next worker is local, the remote leases become void.
  * If a remote worker is late while a consumer waits, an idle worker is asked as well.

Other files keep the other invariants:

    batches   slots, turns, the order in which batches are handed over, the end of a stream
    pool      which workers take leases, and how many: silence, pace, mistakes
    records   the states of a chunk, and of a lease
    splitting which clips of a batch a worker gets, and how many
    affinity  which host a clip prefers
    blame     whether a clip is bad or its worker

    files     which file each video must be at a worker of another host

The methods are the events, with those of ``pool``. What the I/O loop has to do then is fetched with
`data_to_send`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from videoload.errors import Fault, VideoloadError
from videoload.leases.batches import Batches
from videoload.leases.blame import Blame
from videoload.leases.commands import Command, Grant, Identify, Outbox, WorkerId
from videoload.leases.pool import AMENDS, WorkerPool
from videoload.leases.records import Chunk, ChunkState, Doubt, Heap, Lease, Stream, Worker
from videoload.leases.splitting import Splitting

_TRIED_ORPHANS = 32  # so many chunks are looked at for a worker, before it is passed over
_LATE, _LATE_S = 3.0, 0.1  # a lease is late after this many times what it should take, and 0.1 s
_TRIP_S = 2.0  # how far away a worker may be that never said a whole word


class LeaseTable:
    """The state of one client: streams, their slots, and the workers in its ``pool``."""

    def __init__(self, *, credit: int, stall_s: float, silence_s: float) -> None:
        """``credit``: leases that a worker next door holds at once. ``silence_s``: if a remote
        worker is silent for so long, its leases go to others. ``stall_s``: if a worker is silent
        for so long, the clip that it is at hangs, unless something else explains it."""
        self._outbox: Outbox = []
        self.pool = WorkerPool(self._outbox, credit=credit, stall_s=stall_s, silence_s=silence_s)
        self._batches = Batches(self._outbox)
        self._streams = self._batches.streams
        self._splitting = Splitting(self.pool, self._batches, self._outbox)
        self._blame = Blame(self.pool, self._batches, self._outbox)

    def data_to_send(self) -> list[Command]:
        """What the events since the last call lead to, to be carried out in this order."""
        commands = self._outbox.copy()
        self._outbox.clear()
        return commands

    # Streams and their consumers

    def add_stream(self, stream: Stream) -> None:
        """Make a stream known."""
        self._streams[stream.id] = stream
        self._note_what_is_fetched()

    def drop_stream(self, stream: int) -> None:
        """Forget a stream, and end its readers."""
        self._streams[stream].stopped = True
        for reader in list(self._streams[stream].readers):
            self.end_reader(reader)
        del self._streams[stream]
        self._note_what_is_fetched()

    def stop_stream(self, stream: int, error: VideoloadError) -> None:
        """A stream ends with an error that the table does not know of."""
        if (known := self._streams.get(stream)) is not None and not known.stopped:
            self._batches.stop(known, error)

    def start_reader(self, stream: int, reader: int, start: int, stop: int) -> None:
        """A consumer begins to read steps start..stop-1."""
        self._batches.begin(self._streams[stream], reader, start, stop)
        self.wanted(reader)

    def wanted(self, reader: int) -> None:
        """The consumer of ``reader`` waits for its next batch. It may say so again."""
        self._batches.wanted(reader)
        self._grant()

    def recalled(self, reader: int, batches: list[tuple[int, int]]) -> None:
        """(step, slot) of the batches that a `Recall` took back from the consumer."""
        self._batches.recalled(reader, batches)
        self._grant()

    def slot_back(self, stream: int, slot: int) -> None:
        """The consumer is done with a slot."""
        if stream in self._streams:
            self._streams[stream].free.append(slot)
        self._grant()

    def end_reader(self, reader: int) -> None:
        """The consumer reads no further, at the end or before."""
        self._batches.end(reader)
        self._grant()

    def identified(self, found: Iterable[tuple[int, int, int]]) -> None:
        """(stream, video, fingerprint) of the trainer's own copies, as `Identify` asked; 0: it has
        none."""
        for stream, video, fingerprint in found:
            if stream in self._streams:
                self._blame.identified(self._streams[stream], video, fingerprint)
        self._grant()

    def unread(self, stream: int, video: int, error: VideoloadError) -> None:
        """The trainer's own copy of a video, as `Identify` asked, cannot be read now."""
        if stream in self._streams:
            self._blame.unread(self._streams[stream], video, error)
            self._grant()

    def changed(self, stream: int, video: int) -> None:
        """A worker that reads the trainer's own copy of a video found another file than before."""
        known = self._streams.get(stream)
        if known is not None and known.files is not None:
            known.files.ask_again(video)

    # Workers

    def file_of(self, worker: WorkerId) -> str:
        """The path of the video that a worker is at; "" if it has no lease."""
        known = self.pool.get(worker)
        lease = None if known is None else known.current_lease
        if lease is None or lease.stream not in self._streams:
            return ""
        return self._streams[lease.stream].quarantine.path_of(lease.videos[0])

    def worker_joined(self, worker: Worker) -> None:
        """A worker is admitted."""
        self.pool.join(worker)
        self._grant()

    def heard(
        self,
        worker: WorkerId,
        now: float,
        progress: int | None = None,
        *,
        busy: str = "",
    ) -> bool:
        """A message of a worker came; False if it is not known. ``progress``: how many packets it
        has decoded, if this is a heartbeat. ``busy``: it begins an "import" now, or calls a
        "function" that may take long, and will be silent meanwhile."""
        known = self.pool.get(worker)
        if known is not None:
            self.pool.heard(known, now, progress, busy)
            if known.is_blamed:
                known.is_blamed = False
                self._blame.returned(worker)
        return known is not None

    def worker_left(
        self, worker: WorkerId, *, died: bool, at_work: int | None = None, more_leave: bool = False
    ) -> None:
        """A worker has ended: a local one is reaped, a remote one sent BYE or cannot be reached.
        ``died``: it said no BYE, so the lease that it was at may have ended it. ``at_work``: the
        number of that lease, 0 if it was at none, None if nobody knows. ``more_leave``: another one
        is told next, and the clips of both are granted then."""
        gone = self.pool.leave(worker)
        if gone is None:
            return
        at = gone.current_lease if at_work is None else gone.leases.get(at_work)
        if died and at is not None and not (gone.evicted and gone.silence.blameless):
            self._blame.never_answered(at)
        for lease in list(gone.leases.values()):
            was_owed = lease.is_owed
            self.pool.given_up(lease)
            if was_owed:
                lease.chunk.requeue_if_abandoned()
        if not more_leave:
            self._grant()

    def worker_returned(self, worker: WorkerId) -> None:
        """A remote worker that had left is back under another name: only its connection broke."""
        self._blame.returned(worker)

    def tick(self, now: float) -> None:
        """Time passes. Local workers that are stuck are killed. The leases of silent remote workers
        go to others. Workers that say they are idle while they hold leases are admitted anew: a
        message was lost on the way."""
        self.pool.tick(now)
        for lease in self.pool.silent_at():
            self._blame.never_answered(lease)
        for stream in self._streams.values():
            self._batches.pass_turn(stream)
            if stream.owner is not None:
                self._blame.settle_doubts(stream.owner)
            if stream.files is not None and (due := stream.files.to_ask_again(now)):
                self._outbox.append(Identify(stream.id, due))
        self._grant()
        self._ask_others_too()

    def _note_what_is_fetched(self) -> None:
        fetches = any(stream.fetched for stream in self._streams.values())
        self.pool.note_local_fetches(fetches=fetches)

    # Leases and their answers

    def lease(self, worker: WorkerId, lease: int) -> Lease | None:
        """The lease of this number, if the worker still holds it."""
        return self.pool.lease(worker, lease)

    def accepts(self, lease: Lease, files: Sequence[int]) -> int | None:
        """Which clip of an answer is of another file than the stream uses, None if none is.
        ``files``: their fingerprints, as the worker tells."""
        stream = lease.chunk.batch.reader.stream
        if stream.files is None or not lease.is_checked:
            return None
        for at, (video, file) in enumerate(zip(lease.videos, files, strict=True)):
            if not stream.files.accepts(video, file):
                return at
        return None

    def answered(
        self, lease: Lease, frames: npt.NDArray[np.int64], decode_s: float, waited_s: float = 0.0
    ) -> None:
        """The answer to ``lease`` came. If the lease is owed, its clips are in their place.
        ``frames``: the source ordinals [n, T]. ``decode_s``: how long the decoding took.
        ``waited_s``: the part of it that the worker waited for something else than a core."""
        stream, chunk, was_owed = self._streams.get(lease.stream), lease.chunk, lease.is_owed
        clip_s = math.inf if stream is None else stream.clip_s(lease.sample)
        self.pool.answered(lease, decode_s, clip_s, waited_s)
        if was_owed:
            chunk.batch.reader.stream.note_clip_time(lease.sample, decode_s / chunk.size)
            chunk.batch.tell(chunk.rows, frames)
            chunk.void_leases()
            lease.worker.mistakes = max(0.0, lease.worker.mistakes - AMENDS * chunk.size)
            self._blame.decoded(chunk)
            self._batches.done(chunk)
        self._grant()

    def failed(
        self, lease: Lease, at: int, reason: str, fault: Fault = Fault.VIDEO, file: int = 0
    ) -> None:
        """The worker says that it cannot decode clip ``at`` of ``lease``, and stopped there; or its
        answer is not taken because of this clip. ``file``: the fingerprint of the file that it
        found, 0 if it found none. `blame` decides what follows."""
        was_owed = lease.is_owed
        self.pool.given_up(lease)
        if was_owed:
            doubt = Doubt(lease.worker, reason, fault, file, self.pool.now)
            self._blame.doubt(lease.chunk, at, doubt)
        self._grant()

    # What is granted next

    def _grant(self) -> None:
        """Grant leases to all workers that have credit, as long as there are clips and slots. If
        workers of several hosts are connected, clips that prefer a worker's host are for it first.
        """
        if self._batches.have_clips:  # else each of a crowd that joins asks all the others
            if self.pool.affinity.has_choice:
                self._grant_in_turns(others=False)
            self._grant_in_turns(others=True)
        self._batches.deliver_empty()

    def _grant_in_turns(self, *, others: bool) -> None:
        """All workers get a lease before any gets another one. With ``others``, those that would be
        idle get clips that prefer other hosts."""
        has_choice = self.pool.affinity.has_choice
        passed_over: set[Worker] = set()  # nothing that is left is for them
        dry: set[Hashable] = set()  # ... nor for workers of these hosts and copies
        while takers := [
            worker
            for worker in self.pool.takers
            if worker not in passed_over and (worker.host, worker.copy) not in dry
        ]:
            for worker in takers:
                if (worker.host, worker.copy) in dry or not self.pool.would_take(worker):
                    continue
                if others and has_choice and len(worker.leases) > worker.pace.on_the_way:
                    passed_over.add(worker)
                elif (chunk := self._next_chunk(worker, others=others)) is not None:
                    self._grant_to(worker, chunk)
                elif self.pool.is_slow(worker) or any(
                    reader.orphans or reader.accused for reader in self._batches.by_need
                ):
                    passed_over.add(worker)
                else:
                    dry.add((worker.host, worker.copy))

    def _grant_to(self, worker: Worker, chunk: Chunk) -> None:
        lease, stream = self.pool.give(worker, chunk), chunk.batch.reader.stream
        files = None
        if stream.files is not None and lease.is_checked:
            files = tuple(map(stream.files.expected, lease.videos))
        samples = tuple(chunk.samples)
        self._outbox.append(
            Grant(worker.id, lease.id, stream.id, lease.slot, lease.rows, samples, files)
        )

    def _ask_others_too(self) -> None:
        """Ask an idle worker as well for chunks that a consumer waits for and that a remote worker
        is late with. A local worker keeps its chunks, since no other may write there."""
        for reader in self._batches.by_need:
            if not reader.waiting or not reader.filling:
                continue
            step = reader.due if reader.stream.ordered else min(reader.filling)
            batch = reader.filling.get(step)
            for chunk in () if batch is None else list(batch.chunks):
                if not self._is_late(chunk):
                    continue
                idle = (
                    worker
                    for worker in self.pool.idle
                    if not self.pool.is_slow(worker)
                    and self._splitting.may_decode(worker, reader.stream, chunk.samples)
                )
                if (worker := next(idle, None)) is not None:
                    self._grant_to(worker, chunk)

    def _is_late(self, chunk: Chunk) -> bool:
        """Whether one remote worker has it for much longer than it should take."""
        if chunk.state is not ChunkState.GRANTED or chunk.doubts or chunk.blamed:
            return False
        if len(chunk.holders) != 1:
            return False
        [lease] = chunk.holders
        if lease.worker.local or lease.worker.pace.fetches:  # it would be fetched again as well
            return False
        clip_s = chunk.batch.reader.stream.clip_s(lease.sample)
        due_s = chunk.size * clip_s * (self.pool.paces.quick or 1.0)
        due_s *= max(1.0, (lease.before + 1) / self.pool.credit)
        late_s = _LATE * due_s + min(lease.worker.pace.trip_s, _TRIP_S) + _LATE_S
        return self.pool.now - lease.granted > late_s

    def _next_chunk(self, worker: Worker, *, others: bool = True) -> Chunk | None:
        readers = self._batches.by_need
        may_try = any(reader.accused for reader in readers) and worker in self.pool.reliable
        accused = [reader.accused for reader in readers] if may_try else []
        chunk = self._next_to_try(accused, worker) if worker.answered else None
        if chunk is not None and worker.leases and chunk.blamed:
            chunk.requeue()  # until this worker has nothing else to do
            return None
        if chunk is not None:
            return chunk
        for reader in readers:
            chunk = self._next_of(reader.orphans, worker)
            chunk = chunk or self._splitting.next_chunk(reader, worker, others=others)
            if chunk is not None:
                return chunk
        if worker.leases or not others:
            return None
        return self._next_to_try(accused, worker)  # nothing else is left

    def _next_to_try(self, accused: list[Heap], worker: Worker) -> Chunk | None:
        """A chunk that left other workers without an answer."""
        chunks = (self._next_of(heap, worker) for heap in accused)
        return next((chunk for chunk in chunks if chunk is not None), None)

    def _next_of(self, heap: Heap, worker: Worker) -> Chunk | None:
        """A chunk that was granted before, and may be granted to this worker."""
        kept: Heap = []
        found = None
        while heap and found is None and len(kept) < _TRIED_ORPHANS:
            orphan = heappop(heap)
            chunk = orphan[2]
            if chunk.state is not ChunkState.WAITING or chunk.waits_in is not heap:
                continue
            samples = chunk.samples
            if not chunk.holders:  # else an answer may come for the samples as they are
                chunk.batch.choose_substitutes(chunk.rows)
            if samples != chunk.samples:
                chunk.clear_blame()
            may_decode = self._splitting.may_decode(
                worker, chunk.batch.reader.stream, chunk.samples
            )
            if may_decode and self._blame.may_take(worker, chunk):
                chunk.state = ChunkState.GRANTED
                found = chunk
            else:
                kept.append(orphan)
        for orphan in kept:
            heappush(orphan[2].waits_in, orphan)
        return found
