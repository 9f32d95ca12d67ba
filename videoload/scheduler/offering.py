"""Which worker is granted which clips next, and how many. Pure: no sockets, no threads, no clock.
It reads records, and takes chunks out of their heaps. `Scheduler` grants what `offers` yields, one
after the other.

Clips are offered in one way:

  * If an event may have brought clips, they are offered to all workers that can take another lease;
    if clips prefer hosts, only to workers of those hosts and to those that would be idle. If an
    event has brought only credit (an answer, a heartbeat), its worker is offered what is left.
  * An offer has rounds, so that each worker gets a lease before any gets another one. Workers with
    the fewest leases come first. In a round, each worker is first offered clips that prefer its
    host. Those that would then still be idle are offered the clips of other hosts as well.
  * A worker is granted the first of these that it may take. Readers that a consumer waits for come
    first, then those that are least ahead.

        a suspect, if the worker has been connected for long and has answered before (see `blame`)
        a requeued chunk
        clips that are in no chunk yet
        if the worker is idle: a suspect
        if the worker is idle, at a tick: a straggler, which gets a second, speculative lease

A lease is 0.1 s of work, 16 clips at most: with less, messages cost more than 1 % of it on a busy
host, and more has no benefit. It is no more than a worker's share of a batch, which is then
complete early, or of half of what the slots hold. Until a clip's time is known, a lease has one
clip. Clips of one video stay together, for one pass over it. A slow worker gets what it returns
before the slots run dry (see `paces`). A worker that reads another copy of the videos gets clips
whose files are known (see `files`).
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

_TRIED_ORPHANS = 32  # so many chunks of a heap are considered for a worker
_LATE, _LATE_S = 3.0, 0.1  # a lease is late after this many times what it should take, and 0.1 s
# ... and after this time if the expected time is unknown, or its worker's storage refuses. It is
# also the assumed distance of a worker without a complete message.
_WAITED_S = 2.0
# Clips of one video that take longer than this lie far apart in a long video. One pass spares
# little there, and the batch would wait for one worker.
_RUN_S = 0.5
_LEASE_S = 0.1


class NewChunk(NamedTuple):
    """Rows of a batch that are to become a chunk."""

    batch: Batch
    rows: Sequence[int]

    def cut(self) -> Chunk:
        """Make the chunk, without videos that are known to be bad by now."""
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
        self, workers: Sequence[Worker] | None, stragglers: Sequence[Chunk]
    ) -> Iterator[tuple[Worker, Chunk | NewChunk]]:
        """Yield each grant, which the caller makes before the next is computed. ``workers``: only
        these, None: all candidates. ``stragglers``: the result of `stragglers`."""
        readers = [
            reader
            for stream in self._streams.values()
            if stream.ended is None
            for reader in stream.readers.values()
        ]
        checked = [stream for stream in self._streams.values() if stream.files is not None]
        asked = self._all(readers) if workers is None else workers
        dry: set[Hashable] = set()  # kinds of workers for which nothing is left
        while asked and (stragglers or any(reader.has_clips for reader in readers)):
            are_alike = not stragglers and not _have_tried(readers)
            took: dict[Worker, None] = {}
            for worker, others in self._round(asked, took):
                kind = (
                    worker.local, others or worker.host, self._roots.are_paused and worker.copy,
                    *(stream.checks(worker) for stream in checked),
                )  # fmt: skip
                if kind in dry:
                    continue
                chunk = self._next(worker, readers, stragglers, others=others)
                if chunk is not None:
                    yield worker, chunk
                    took[worker] = None
                elif are_alike and not self._pool.is_slow(worker):
                    dry.add(kind)
            asked = [worker for worker in took if self._pool.would_take(worker)]

    def _all(self, readers: Iterable[Reader]) -> Sequence[Worker]:
        """Return all workers to which something may be offered."""
        if self._pool.affinity.has_choice and not _have_tried(readers):
            return self._pool.available_for(reader.by_host for reader in readers)
        return list(self._pool.available)

    def _round(
        self, workers: Sequence[Worker], took: Mapping[Worker, None]
    ) -> Iterator[tuple[Worker, bool]]:
        """Yield each worker, and whether it is offered clips of other hosts too. ``took``: the
        workers that were granted something in this round."""
        has_choice = self._pool.affinity.has_choice
        if has_choice:
            yield from ((worker, False) for worker in workers)
        for worker in workers:
            if not has_choice or (worker not in took and not worker.is_fed):
                yield worker, True

    # What it is offered

    def _next(
        self, worker: Worker, readers: list[Reader], stragglers: Sequence[Chunk], *, others: bool
    ) -> Chunk | NewChunk | None:
        """Return the next grant for a worker. Without ``others``, new clips must prefer its
        host."""
        readers.sort(key=_need)
        if self._roots.are_paused:
            readers = [each for each in readers if self._may_read(worker, each.stream)]
        suspects = [reader for reader in readers if reader.suspects]
        if suspects and worker not in self._pool.reliable:
            suspects = [reader for reader in suspects if reader.stream.local_only]
        for reader in suspects if worker.answered else ():
            if chunk := self._first(reader.suspects, worker, stays=bool(worker.leases)):
                # A worker with leases finishes them first, unless the suspect has new samples.
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
        return next((each for each in stragglers if self._may_speculate(worker, each)), None)

    def _may_read(self, worker: Worker, stream: Stream) -> bool:
        return self._roots.may_try(stream.root, worker.copy, self._pool.now)

    def _may_have(self, worker: Worker, reader: Reader, videos: Iterable[int]) -> bool:
        """Return whether the worker's reports count for this stream, and its files of these videos
        are known or need not be."""
        stream = reader.stream
        if stream.local_only and not worker.local:
            return False
        if stream.files is None or not stream.checks(worker) or stream.files.are_known(videos):
            return True
        self._unknown.setdefault(reader, {}).update(dict.fromkeys(videos))
        return False

    def take_unknown(self) -> Collection[tuple[Reader, Collection[int]]]:
        """Return, since the last call, the readers that were considered for workers of other
        copies, and the videos whose files must be known first."""
        unknown, self._unknown = self._unknown, {}
        return unknown.items()

    # Chunks that were granted before

    def _first(self, heap: Heap, worker: Worker, *, stays: bool = False) -> Chunk | None:
        """Return the first chunk of a heap that this worker may take, and remove it from the heap,
        unless it ``stays``."""
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
        reader, samples = chunk.batch.reader, chunk.next_samples
        if not self._may_have(worker, reader, [sample.video for sample in samples]):
            return False
        if chunk.is_replaced:
            return self._pool.clips_in_time(worker, reader) >= 1
        return self._blame.may_take(worker, chunk)

    # Clips that are in no chunk yet

    def _new(self, reader: Reader, worker: Worker, *, others: bool) -> NewChunk | None:
        """Return the next clips that suit the worker. Without ``others``, they must prefer its
        host."""
        own: dict[Batch, dict[int, None]] = {}
        if self._pool.affinity.has_choice:
            own = reader.by_host.get(worker.host, own)
        if not (others or own) or (most := self._pool.clips_in_time(worker, reader)) < 1:
            return None
        if checks := reader.stream.checks(worker):
            self._unknown.setdefault(reader, {})  # the files of its next batches
        left = ((batch, batch.left) for batch in reader.splitting) if others else ()
        for batch, rows in chain(own.items(), left):
            first = list(islice(rows, reader.stream.lease_clips))
            chosen = first[: self._size(batch, first, most)]
            videos = [each.video for each in batch.substituted(chosen)] if checks else ()
            if self._may_have(worker, reader, videos):
                return NewChunk(batch, chosen)
        return None

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

    # Stragglers: chunks whose remote workers are overdue

    def stragglers(self) -> list[Chunk]:
        """Return the stragglers of the batches that consumers wait for. Chunks of a local
        worker are none, since no other may write there."""
        batches = [
            reader.filling.get(reader.next_delivery if stream.ordered else min(reader.filling))
            for stream in (self._streams.values() if self._pool.idle else ())
            for reader in stream.readers.values()
            if reader.waiting and reader.filling
        ]
        chunks = [chunk for batch in batches if batch is not None for chunk in batch.chunks]
        return [chunk for chunk in chunks if self._is_straggling(chunk)]

    def _may_speculate(self, worker: Worker, chunk: Chunk) -> bool:
        """Return whether an idle worker is granted a straggler too. A slow one is, if it, too,
        would have finished."""
        return (
            self._is_straggling(chunk, worker)
            and (not chunk.attempts or self._blame.may_take(worker, chunk))
            and self._may_have(worker, chunk.batch.reader, [each.video for each in chunk.samples])
            and self._may_read(worker, chunk.stream)
        )

    def _is_straggling(self, chunk: Chunk, other: Worker | None = None) -> bool:
        """Return whether only remote workers hold the chunk, and the last of them is refused by its
        storage, or has had it for much longer than a quick one needs, or than ``other``, if that is
        slow. If several had it, the clip may be to blame, and more would only follow them."""
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
    """Return whether there are chunks that only some workers may get."""
    return any(reader.requeued or reader.suspects for reader in readers)


def _need(reader: Reader) -> tuple[bool, int, int]:
    """Return the sort key of a reader: first those with a waiting consumer, in turns, then those
    least ahead."""
    return not reader.waiting, 0 if reader.waiting else reader.ahead, reader.last_lease
