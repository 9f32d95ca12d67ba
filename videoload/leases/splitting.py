"""How open batches are split into chunks: which clips a worker is granted next, and how many. Pure:
no sockets, no threads, no clock.

If all workers run on one host, a worker gets the next clips, in the order of the stream. Otherwise
it gets the next clips that prefer its host (see `affinity`), from any batch for which there is a
slot. So the other hosts' clips wait, but never for long: a worker that finds no clips of its own
before it is idle takes the first of those that are left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import chain

from videoload.leases.batches import Batches
from videoload.leases.pool import WorkerPool
from videoload.leases.records import Batch, Chunk, Reader, Worker

LEASE_CLIPS = 16  # at most; with that many, messages cost less than 1 % of a lease's decoding
MAX_CLIPS = 64  # at most, if they come from one video: one pass over it decodes them all
# Clips of one video that take longer than this lie far apart in a long video. One pass spares
# little there, and the batch would wait for one worker.
_RUN_S = 0.5
_LEASE_S = 0.05  # of decoding; with less, messages cost more than 1 % of a lease


class Splitting:
    """Splits the batches of all streams."""

    def __init__(self, pool: WorkerPool, batches: Batches) -> None:
        self._pool = pool
        self._batches = batches

    def next_chunk(self, reader: Reader, worker: Worker, *, others: bool) -> Chunk | None:
        """The next clips of a reader that no worker was granted yet. Without ``others``, only clips
        that prefer this worker's host."""
        if self._pool.would_hold_up(worker, reader.stream):
            return None
        affinity = self._pool.affinity
        if affinity.has_choice and (chunk := self._own(reader, worker)):
            return chunk
        batch = reader.splitting[0] if reader.splitting else self._batches.open(reader)
        if batch is None or not others:
            return None
        rows = batch.left[: self._size(batch, worker, batch.left)]
        if affinity.has_choice:
            affinity.took(worker.host, len(rows), affinity.preferred(batch, rows))
        return batch.cut(rows)

    def _own(self, reader: Reader, worker: Worker) -> Chunk | None:
        """Clips that prefer this worker's host."""
        for batch in chain(reader.splitting, iter(partial(self._batches.open, reader), None)):
            own = self._pool.affinity.own(batch, worker.host)
            if own:
                rows = own[: self._size(batch, worker, own)]
                self._pool.affinity.took(worker.host, len(rows))
                return batch.cut(rows, host=worker.host)
        return None

    def _size(self, batch: Batch, worker: Worker, rows: Sequence[int]) -> int:
        """How many of these rows of a batch a worker is granted. A batch is spread over the
        workers, to be complete early. If clips are quick, messages would cost too much: then leases
        are longer, as far as the slots keep all workers busy. A short rest gets no lease of its
        own. A slow worker gets what it decodes in 50 ms, or one clip."""
        stream, clips, pool = batch.reader.stream, len(batch.samples), self._pool
        workers = max(1, pool.taking)
        spare = stream.slots // 2 * clips // (workers * pool.credit + pool.paces.on_the_way)
        longest = min(stream.lease_clips, LEASE_CLIPS, max(-(-clips // workers), spare))
        shortest = max(1, math.ceil(min(clips, _LEASE_S / stream.clip_s)))
        chunks = max(-(-clips // longest), min(workers, clips // shortest))
        size = -(-clips // chunks)
        if pool.is_slow(worker):
            return max(1, min(size, int(_LEASE_S / (stream.clip_s * worker.pace.value))))
        if pool.affinity.has_choice:  # how many of a batch prefer a host is left to chance
            parts = max(1, round(len(rows) / size))
            size = min(stream.lease_clips, -(-len(rows) // parts))
        return _with_rest_of_video(batch, rows, size, _RUN_S / stream.clip_s)


def _with_rest_of_video(batch: Batch, rows: Sequence[int], size: int, most: float) -> int:
    """``size`` rows, and those after them that come from the same video, up to ``most``."""
    samples, size = batch.samples, min(size, len(rows))
    most = min(batch.reader.stream.lease_clips, most, len(rows))
    while size < most and samples[rows[size]].video == samples[rows[size - 1]].video:
        size += 1
    return size
