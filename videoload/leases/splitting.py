"""How open batches are split into chunks: which clips a worker is granted next, and how many. Pure:
no sockets, no threads, no clock.

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

from videoload.leases.batches import Batches
from videoload.leases.commands import Identify, Outbox
from videoload.leases.pool import WorkerPool
from videoload.leases.records import LEASE_CLIPS, Batch, Chunk, Reader, Stream, Worker
from videoload.plan.plan import Sample

# Clips of one video that take longer than this lie far apart in a long video. One pass spares
# little there, and the batch would wait for one worker.
_RUN_S = 0.5
_LEASE_S = 0.05  # of decoding; with less, messages cost more than 1 % of a lease


class Splitting:
    """Splits the batches of all streams."""

    def __init__(self, pool: WorkerPool, batches: Batches, outbox: Outbox) -> None:
        self._pool = pool
        self._batches = batches
        self._outbox = outbox

    def next_chunk(self, reader: Reader, worker: Worker, *, others: bool) -> Chunk | None:
        """The next clips of a reader that no worker was granted yet. Without ``others``, only clips
        that prefer this worker's host."""
        if self._pool.would_hold_up(worker, reader.stream):
            return None
        if reader.stream.checks(worker):
            self._look_ahead(reader)
        affinity, found = self._pool.affinity, None
        if affinity.has_choice:
            for batch in self._open_batches(reader):
                own = affinity.own(batch, worker.host)
                if own and (found := self._cut(batch, worker, own, own)):
                    return found
        for batch in self._open_batches(reader) if others else ():
            if found := self._cut(batch, worker, batch.left):
                return found
        return None

    def _look_ahead(self, reader: Reader) -> None:
        """Have the files of this batch and of those after it looked at, each batch once."""
        stream = reader.stream
        first = min((batch.step for batch in self._open_batches(reader)), default=reader.opened)
        steps = range(first, min(reader.stop, reader.opened + stream.slots))
        for step in steps[max(0, reader.looked_until - first) :]:
            self._identify(stream, stream.plan[step])
            reader.looked_until = step + 1

    def _open_batches(self, reader: Reader) -> Iterator[Batch]:
        """The batches with clips that are in no chunk, those that are opened for this as well."""
        yield from list(reader.splitting)
        while (batch := self._batches.open(reader)) is not None:
            yield batch

    def _cut(
        self, batch: Batch, worker: Worker, rows: Sequence[int], own: list[int] | None = None
    ) -> Chunk | None:
        """A chunk of these rows, as many as suit the worker, if it may decode their files."""
        rows = rows[: self._size(batch, worker, rows)]
        batch.choose_substitutes(rows)
        if not self.may_decode(worker, batch.reader.stream, [batch.samples[row] for row in rows]):
            return None
        return batch.cut(rows, own)

    def may_decode(self, worker: Worker, stream: Stream, samples: Sequence[Sample]) -> bool:
        """Whether it is known which files the worker must have for these samples."""
        if stream.files is None or not stream.checks(worker):
            return True
        self._identify(stream, samples)
        return stream.files.are_known(sample.video for sample in samples)

    def _identify(self, stream: Stream, samples: Sequence[Sample]) -> None:
        """Have the trainer's own files of these samples looked at, if nobody has yet."""
        if stream.files and (asked := stream.files.to_ask(sample.video for sample in samples)):
            self._outbox.append(Identify(stream.id, asked))

    def _size(self, batch: Batch, worker: Worker, rows: Sequence[int]) -> int:
        """How many of these rows of a batch a worker is granted. A batch is spread over the
        workers, to be complete early. If clips are quick, messages would cost too much: then leases
        are longer, as far as the slots keep all workers busy. A short rest gets no lease of its
        own. A slow worker gets what it decodes in 50 ms, or one clip."""
        stream, clips, pool = batch.reader.stream, len(batch.samples), self._pool
        workers = max(1, pool.taking)
        clip_s = stream.clip_s(batch.samples[0])
        spare = stream.slots // 2 * clips // (workers * pool.credit + pool.paces.on_the_way)
        shortest = max(1, math.ceil(min(clips, _LEASE_S / clip_s)))
        most = min(stream.lease_clips, max(LEASE_CLIPS, shortest))
        longest = min(most, max(-(-clips // workers), spare))
        chunks = max(-(-clips // longest), min(workers, clips // shortest))
        size = -(-clips // chunks)
        if pool.is_slow(worker):
            return max(1, min(size, int(_LEASE_S / (clip_s * worker.pace.value))))
        if pool.affinity.has_choice:  # how many of a batch prefer a host is left to chance
            parts = max(1, round(len(rows) / size))
            size = min(stream.lease_clips, -(-len(rows) // parts))
        return _with_rest_of_video(batch, rows, size, _RUN_S / clip_s)


def _with_rest_of_video(batch: Batch, rows: Sequence[int], size: int, most: float) -> int:
    """``size`` rows, and those after them that come from the same video, up to ``most``."""
    samples, size = batch.samples, min(size, len(rows))
    most = min(batch.reader.stream.lease_clips, most, len(rows))
    while size < most and samples[rows[size]].video == samples[rows[size - 1]].video:
        size += 1
    return size
