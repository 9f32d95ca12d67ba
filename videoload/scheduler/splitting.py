"""How open batches are split into chunks: which clips a worker is granted next, and how many. Pure:
no sockets, no threads, no clock.

A lease is 0.1 s of work, 16 clips at most: with less, messages cost more than 1 % of it on a busy
host, and more brings nothing. It is no more than a worker's share of a batch, which is then
complete early, or of half of what the slots hold. Until it is known how long a clip takes, a lease
has one. Clips of one video stay together, for one pass over it. A slow worker gets what is back
before the slots run dry (see `paces`).

If all workers run on one host, a worker gets the next clips, in the order of the stream. Otherwise
it gets the next clips that prefer its host (see `affinity`), from any batch for which there is a
slot. So the other hosts' clips wait, but never for long: a worker that finds no clips of its own
before it is idle takes the first of those that are left.

A worker that reads another copy of the videos gets clips whose files are known (see `files`). So
that they are known in time, the files of all batches for which there is a slot are asked for, and
those of as many batches after them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from videoload.plan.batches import Sample
from videoload.scheduler.batches import Batches
from videoload.scheduler.commands import Identify, Outbox
from videoload.scheduler.pool import WorkerPool
from videoload.scheduler.records import LEASE_CLIPS, Batch, Chunk, Reader, Stream, Worker

# Clips of one video that take longer than this lie far apart in a long video. One pass spares
# little there, and the batch would wait for one worker.
_RUN_S = 0.5
_LEASE_S = 0.1


class Splitting:
    """Splits the batches of all streams."""

    def __init__(self, pool: WorkerPool, batches: Batches, outbox: Outbox) -> None:
        self._pool = pool
        self._batches = batches
        self._outbox = outbox

    def next_chunk(self, reader: Reader, worker: Worker, *, others: bool) -> Chunk | None:
        """The next clips of a reader that no worker was granted yet. Without ``others``, only clips
        that prefer this worker's host."""
        own: dict[Batch, dict[int, None]] = {}
        if self._pool.affinity.has_choice:
            self._open_all(reader)
            own = reader.by_host.get(worker.host, own)
        if not (others or own) or (most := self._pool.clips_in_time(worker, reader)) < 1:
            return None
        if reader.stream.checks(worker):
            self._look_ahead(reader)
        for batch, rows in own.items():
            if found := self._cut(batch, worker, rows, most):
                return found
        for batch in self._open_batches(reader) if others else ():
            if found := self._cut(batch, worker, batch.left, most):
                return found
        return None

    def takers(self) -> list[Worker]:
        """Open the batches for which there are slots, and return the workers that would take a
        lease and that clips are for, those with the fewest leases first."""
        if not self._pool.affinity.has_choice or self._batches.have_tried:
            return list(self._pool.available)
        readers = self._batches.by_need
        for reader in readers:
            self._open_all(reader)
        return self._pool.available_for(reader.by_host for reader in readers)

    def _open_all(self, reader: Reader) -> None:
        while self._open(reader) is not None:
            pass

    def _open(self, reader: Reader) -> Batch | None:
        """The next batch, if there is a slot for it, and which hosts its rows prefer."""
        batch, affinity = self._batches.open(reader), self._pool.affinity
        if batch is not None and affinity.has_choice:
            paths = (reader.stream.path_of(each.video) for each in batch.samples)
            reader.note_hosts(batch, affinity.hosts_of(paths))
        return batch

    def _look_ahead(self, reader: Reader) -> None:
        """Have the files of this batch and of those after it looked at, each batch once."""
        stream = reader.stream
        first = min((batch.step for batch in self._open_batches(reader)), default=reader.next_step)
        steps = range(first, min(reader.stop, reader.next_step + reader.slots))
        for step in steps[max(0, reader.looked_until - first) :]:
            reader.looked_until = step + 1
            with suppress(Exception):  # the batch of this step says so: see `Batches.open`
                self._identify(stream, stream.plan[step])

    def _open_batches(self, reader: Reader) -> Iterator[Batch]:
        """The batches with clips that are in no chunk, those that are opened for this as well."""
        yield from reader.splitting
        while (batch := self._open(reader)) is not None:
            yield batch

    def _cut(
        self, batch: Batch, worker: Worker, rows: dict[int, None], most: float
    ) -> Chunk | None:
        """A chunk of the first of these rows, as many as suit the worker and ``most``, if it may
        decode their files."""
        stream = batch.reader.stream
        chosen = list(islice(rows, self._size(batch, list(islice(rows, stream.lease_clips)), most)))
        batch.choose_substitutes(chosen)
        if not self.may_decode(worker, stream, [batch.samples[row] for row in chosen]):
            return None
        return batch.cut(chosen)

    def may_decode(self, worker: Worker, stream: Stream, samples: Sequence[Sample]) -> bool:
        """Whether it is known which files the worker must have for these samples, and its word is
        taken."""
        if not stream.allowed([worker]):
            return False
        if stream.files is None or not stream.checks(worker):
            return True
        if stream.files.are_known(sample.video for sample in samples):
            return True
        self._identify(stream, samples)
        return False

    def _identify(self, stream: Stream, samples: Sequence[Sample]) -> None:
        """Have the trainer's own files of these samples looked at, if nobody has yet."""
        if stream.files and (requested := stream.files.to_ask(sample.video for sample in samples)):
            self._outbox.append(Identify(stream.id, requested))

    def _size(self, batch: Batch, rows: Sequence[int], most: float) -> int:
        """How many of the next ``rows`` of a batch a worker is granted."""
        stream, samples, workers = (
            batch.reader.stream,
            batch.samples,
            max(1, self._pool.num_available),
        )
        clip_s, clips = stream.clip_s(samples[0]), len(samples)
        share = max(-(-clips // workers), batch.reader.slots // 4 * clips // workers)
        wanted = max(1, math.ceil(min(LEASE_CLIPS, _LEASE_S / clip_s, share, most)))
        chunks = -(-clips // min(wanted, clips))  # all alike: a short rest gets no lease of its own
        size = min(len(rows), -(-clips // chunks))
        run = min(len(rows), most, _RUN_S / clip_s)
        while size < run and samples[rows[size]].video == samples[rows[size - 1]].video:
            size += 1
        return size
