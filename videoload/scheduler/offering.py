"""Which clips are offered to which worker, and how many. Pure: no sockets, no threads, no clock. It
looks at records and changes none: `Scheduler` grants what `offers` yields.

There is one way of offering:

  * If an event may have brought clips, they are offered to the workers that would take a lease and
    that they may be for: those of the hosts that clips prefer, and those that would be idle; or to
    all, if there is one host, or a chunk waits that was granted before. If an event has brought
    credit alone (an answer, a heartbeat), its worker is offered what is left.
  * An offer goes in rounds, so that each worker gets a lease before any gets another, those that
    hold the fewest first. In each round, clips that prefer a worker's host are for it first. Then
    workers that would be idle get clips that prefer other hosts.
  * A worker takes the first of these that it may, of the reader in need before others:

        a chunk that left others without an answer, if it is here for long  (`blame`)
        a chunk that was granted before
        clips that no worker was granted yet, those of its host first  (`affinity`)
        if it would be idle: a chunk that left others without an answer
        ... and at a tick: a chunk that remote workers are late with while a consumer waits

A lease is 0.1 s of work, 16 clips at most: with less, messages cost more than 1 % of it on a busy
host, and more has no benefit. It is no more than a worker's share of a batch, which is then
complete early, or of half of what the slots hold. Until it is known how long a clip takes, a lease
has one. Clips of one video stay together, for one pass over it. A slow worker gets what is back
before the slots run dry (see `paces`).

A worker that reads another copy of the videos gets clips whose files are known (see `files`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import chain, islice
from typing import NamedTuple

from videoload.activity import Activity
from videoload.scheduler.blame import Blame
from videoload.scheduler.files import Roots
from videoload.scheduler.pool import WorkerPool
from videoload.scheduler.records import (
    LEASE_CLIPS,
    Batch,
    Chunk,
    ChunkState,
    Heap,
    Reader,
    Stream,
    Worker,
)

_TRIED_ORPHANS = 32  # so many chunks are looked at for a worker, before it is passed over
_LATE, _LATE_S = 3.0, 0.1  # a lease is late after this many times what it should take, and 0.1 s
# ... and after this time if the expected time is unknown, or its worker's storage refuses. It is
# also the assumed distance of a worker without a complete message.
_WAITED_S = 2.0
# Clips of one video that take longer than this lie far apart in a long video. One pass spares
# little there, and the batch would wait for one worker.
_RUN_S = 0.5
_LEASE_S = 0.1


class NewChunk(NamedTuple):
    """Rows of a batch that are in no chunk yet."""

    batch: Batch
    rows: Sequence[int]

    def cut(self) -> Chunk:
        """They become one."""
        self.batch.substitute(self.rows)
        return self.batch.cut(self.rows)


class Offering:
    """Decides what workers are granted."""

    def __init__(
        self, streams: Mapping[int, Stream], pool: WorkerPool, roots: Roots, blame: Blame
    ) -> None:
        """``streams``: those of the scheduler."""
        self._streams, self._pool, self._roots, self._blame = streams, pool, roots, blame
        self._unknown: dict[Reader, dict[int, None]] = {}

    # Who is offered something

    def offers(
        self, workers: Iterable[Worker] | None, late: Sequence[Chunk]
    ) -> Iterator[tuple[Worker, Chunk | NewChunk]]:
        """Yield grants for these workers, None: all candidates. The caller grants each before the
        next is computed. ``late``: the overdue chunks."""
        readers, has_choice = self._readers, self._pool.affinity.has_choice
        if workers is None and has_choice and not _have_tried(readers):
            workers = self._pool.available_for(reader.by_host for reader in readers)
        asked = list(self._pool.available if workers is None else workers)
        checked = [stream for stream in self._streams.values() if stream.files is not None]
        dry: set[Hashable] = set()  # nothing that is left is for workers of these kinds
        while asked and (late or any(reader.has_clips for reader in readers)):
            are_alike = not late and not _have_tried(readers)
            took: dict[Worker, None] = {}
            for others in (False, True) if has_choice else (True,):
                for worker in asked:
                    if worker in took or (others and has_choice and worker.is_fed):
                        continue
                    kind = (
                        worker.local, others or worker.host,
                        self._roots.are_paused and worker.copy,
                        *(stream.checks(worker) for stream in checked),
                    )  # fmt: skip
                    if kind in dry:
                        continue
                    if (chunk := self._next(worker, readers, late, others=others)) is not None:
                        yield worker, chunk
                        took[worker] = None
                    elif are_alike and not self._pool.is_slow(worker):
                        dry.add(kind)
            asked = [worker for worker in took if self._pool.would_take(worker)]

    @property
    def _readers(self) -> list[Reader]:
        """The readers that may decode."""
        streams = [stream for stream in self._streams.values() if stream.ended is None]
        return [reader for stream in streams for reader in stream.readers.values()]

    # What it is offered

    def _next(
        self, worker: Worker, readers: list[Reader], late: Sequence[Chunk], *, others: bool
    ) -> Chunk | NewChunk | None:
        """Return the next grant for a worker. Without ``others``, of the new clips only those that
        prefer its host."""
        readers.sort(key=_need)
        if self._roots.are_paused:
            readers = [each for each in readers if self._may_read(worker, each.stream)]
        suspects = [reader for reader in readers if reader.suspects]
        if suspects and worker not in self._pool.reliable:
            suspects = [reader for reader in suspects if reader.stream.local_only]
        for reader in suspects if worker.answered else ():
            if chunk := self._first(reader.suspects, worker, stays=bool(worker.leases)):
                # ... once it has nothing else to do, unless nothing speaks against new samples.
                return chunk if not worker.leases or chunk.is_replaced else None
        for reader in readers:
            found = self._first(reader.requeued, worker) or self._new(reader, worker, others=others)
            if found is not None:
                return found
        if worker.leases or not others:
            return None
        for reader in suspects:
            if chunk := self._first(reader.suspects, worker):
                return chunk
        return next((chunk for chunk in late if self._may_help(worker, chunk)), None)

    def _may_read(self, worker: Worker, stream: Stream) -> bool:
        return self._roots.may_try(stream.root, worker.copy, self._pool.now)

    def _may_have(self, worker: Worker, stream: Stream, videos: Iterable[int]) -> bool:
        """Return whether it is known which files the worker must have for these videos, and its
        word is taken."""
        if stream.local_only and not worker.local:
            return False
        return stream.files is None or not stream.checks(worker) or stream.files.are_known(videos)

    # Chunks that were granted before

    def _first(self, heap: Heap, worker: Worker, *, stays: bool = False) -> Chunk | None:
        """Return the first chunk that waits in this heap and that this worker may be granted. It is
        taken out, unless it ``stays``."""
        looked: Heap = []
        found = None
        while heap and found is None and len(looked) < _TRIED_ORPHANS:
            entry = heappop(heap)
            chunk = entry[2]
            if chunk.state is not ChunkState.WAITING or chunk.waits_in is not heap:
                continue
            if self._may_take(worker, chunk):
                found = chunk
            if found is None or stays:
                looked.append(entry)
        for entry in looked:
            heappush(heap, entry)
        return found

    def _may_take(self, worker: Worker, chunk: Chunk) -> bool:
        reader, videos = chunk.batch.reader, [sample.video for sample in chunk.next_samples]
        if not self._may_have(worker, reader.stream, videos):
            self._note_unknown(reader, videos)
            return False
        if chunk.is_replaced:
            return self._pool.clips_in_time(worker, reader) >= 1
        return self._blame.may_take(worker, chunk)

    # Clips that no worker was granted yet

    def _new(self, reader: Reader, worker: Worker, *, others: bool) -> NewChunk | None:
        """Return the next clips that suit the worker. Without ``others``, those that prefer its
        host."""
        own: dict[Batch, dict[int, None]] = {}
        if self._pool.affinity.has_choice:
            own = reader.by_host.get(worker.host, own)
        if not (others or own) or (most := self._pool.clips_in_time(worker, reader)) < 1:
            return None
        stream = reader.stream
        checks = stream.checks(worker)
        if checks:
            self._note_unknown(reader, ())
        left = ((batch, batch.left) for batch in reader.splitting) if others else ()
        for batch, rows in chain(own.items(), left):
            first = list(islice(rows, stream.lease_clips))
            chosen = first[: self._size(batch, first, most)]
            videos = [each.video for each in batch.substituted(chosen)] if checks else ()
            if self._may_have(worker, stream, videos):
                return NewChunk(batch, chosen)
            self._note_unknown(reader, videos)
        return None

    def take_unknown(self) -> Collection[tuple[Reader, Collection[int]]]:
        """Return the readers that were looked at for workers of other copies since the last call,
        and the videos whose files these have to know before they can decode them."""
        unknown, self._unknown = self._unknown, {}
        return unknown.items()

    def _note_unknown(self, reader: Reader, videos: Iterable[int]) -> None:
        self._unknown.setdefault(reader, {}).update(dict.fromkeys(videos))

    def _size(self, batch: Batch, rows: Sequence[int], most: float) -> int:
        """Return how many of the next ``rows`` of a batch a worker gets."""
        stream, samples = batch.reader.stream, batch.samples
        workers = max(1, self._pool.num_available)
        clip_s, clips = stream.clip_s(samples[0]), len(samples)
        share = max(-(-clips // workers), batch.reader.slots // 4 * clips // workers)
        wanted = max(1, math.ceil(min(LEASE_CLIPS, _LEASE_S / clip_s, share, most)))
        chunks = -(-clips // min(wanted, clips))  # all alike: a short rest gets no lease of its own
        size = min(len(rows), -(-clips // chunks))
        run = min(len(rows), most, _RUN_S / clip_s)
        while size < run and samples[rows[size]].video == samples[rows[size - 1]].video:
            size += 1
        return size

    # Chunks that remote workers are late with

    def late(self) -> list[Chunk]:
        """Return overdue remote chunks of the batches that consumers wait for. Chunks of local
        workers are not granted twice, since no other may write there."""
        found = []
        for reader in self._readers if self._pool.idle else ():
            if reader.waiting and reader.filling:
                step = reader.next_delivery if reader.stream.ordered else min(reader.filling)
                batch = reader.filling.get(step)
                chunks = () if batch is None else batch.chunks
                found += [chunk for chunk in chunks if self._is_late(chunk)]
        return found

    def _may_help(self, worker: Worker, chunk: Chunk) -> bool:
        """Return whether an idle worker gets an overdue chunk, too; a slow one, if it, too, would
        have finished."""
        stream, videos = chunk.stream, [sample.video for sample in chunk.samples]
        return (
            self._is_late(chunk, worker)
            and (not chunk.attempts or self._blame.may_take(worker, chunk))
            and self._may_have(worker, stream, videos)
            and self._may_read(worker, stream)
        )

    def _is_late(self, chunk: Chunk, other: Worker | None = None) -> bool:
        """Return whether only remote workers hold it, and the last one of them for much longer than
        a fast one needs, or ``other`` if that is slow; or whether that one cannot read. If several
        held it, the clip may be to blame, and more workers would only get stuck, too."""
        if chunk.state is not ChunkState.GRANTED or not chunk.holders:
            return False
        lease = [*chunk.holders][-1]
        worker, has_had_s = lease.worker, self._pool.now - lease.granted_at
        is_doubted = chunk.attempts or len(chunk.holders) > 1
        if worker.local or (is_doubted and (worker.is_silent or has_had_s < self._pool.stall_s)):
            return False
        if worker.is_refused:
            return has_had_s > _WAITED_S
        if worker.pace.fetches:  # it would be fetched again as well
            return False
        is_slow = other is not None and self._pool.is_slow(other)
        pace = other.pace.value if other is not None and is_slow else self._pool.paces.quick or 1.0
        due_s = chunk.size * chunk.stream.clip_s(lease.sample) * pace
        due_s *= max(1.0, (lease.before + 1) / self._pool.credit)
        if math.isinf(due_s):  # another worker would call a function of the user's as well
            return has_had_s > _WAITED_S and worker.at is not Activity.FUNCTION
        return has_had_s > _LATE * due_s + min(worker.pace.min_rtt_s, _WAITED_S) + _LATE_S


def _have_tried(readers: Iterable[Reader]) -> bool:
    """Whether there are chunks that only some workers may get."""
    return any(reader.requeued or reader.suspects for reader in readers)


def _need(reader: Reader) -> tuple[bool, int, int]:
    """Return the sort key of a reader: first those with a waiting consumer, in turns, then those
    least ahead."""
    return not reader.waiting, 0 if reader.waiting else reader.ahead, reader.last_lease
