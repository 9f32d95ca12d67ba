"""Whose fault it is that a clip does not come: its video's, or the worker's. Pure: no sockets, no
threads, no clock.

  * One worker's word is not enough: a clip that it cannot decode is asked of another one, of
    another copy of the videos where there is one, before it is taken for bad. Only the trainer's
    own copy has the last word at once.
  * Workers die for other reasons as well: a clip is taken for bad only after several died over it
    alone.
"""

from __future__ import annotations

from dataclasses import replace

from videoload.errors import TransformError, VideoloadError
from videoload.leases.batches import Batches
from videoload.leases.commands import Command, WorkerId
from videoload.leases.pool import WorkerPool
from videoload.leases.records import Chunk, Doubt, Lease, Reader, Worker

# A clip that, alone in its lease, was at work when so many workers died, is what kills them. They
# are killed from outside as well (preemption, out of memory, a cut connection), and twice in a row
# over the same clip happens by chance.
DEATHS = 4
_CRASHES = 2  # ... and so many suffice that crashed, or hung and were killed for it
_COMING_S = 3.0  # after a worker dialled in, others that could be asked may be on their way
_TRIES = 3  # of a worker whose answers are not taken, where there is no other


class Blame:
    """What speaks against clips, and what follows from it."""

    def __init__(self, pool: WorkerPool, batches: Batches, deaths: int) -> None:
        self._pool = pool
        self._batches = batches
        self._deaths = deaths
        self._blamed: dict[WorkerId, Chunk] = {}  # the chunk that each lost worker was at

    # What was said

    def doubt(self, lease: Lease, at: int, doubt: Doubt) -> list[Command]:
        """A worker's answer is that it has none, or it is not taken."""
        chunk = lease.chunk
        self._pool.settle(lease)
        if chunk is None:
            return []
        chunk.void_leases()
        if not 0 <= at < chunk.size:
            doubt = replace(doubt, reason=f"worker named clip {at} of {chunk.size}: {doubt.reason}")
            at = 0
        if doubt.worker.copy is None and not doubt.of_worker:
            return self._believe(chunk, at, doubt)
        one = chunk.single_out(at)
        one.doubts.append(doubt)
        return self._settle_or_requeue(one)

    def settle_doubts(self, reader: Reader) -> list[Command]:
        """Those who might have been asked may have left since."""
        commands: list[Command] = []
        for _, _, chunk in [*reader.orphans, *reader.shaken]:
            if reader.stream.stopped:
                break
            if chunk not in chunk.batch.chunks or chunk.is_written:
                continue
            if chunk.doubts and any(self._pool.heard_of):
                commands += self._settle_or_requeue(chunk)
        return commands

    def _settle_or_requeue(self, chunk: Chunk) -> list[Command]:
        """A doubted clip: it is decided on, or asked of another worker."""
        said = [doubt for doubt in chunk.doubts if not doubt.of_worker]
        local = any(worker.copy is None for worker in self._pool.heard_of)  # has the last word
        agreed = len({doubt.worker.copy for doubt in said}) > 1 and not local
        if not agreed and (
            any(self._may_judge(worker, chunk) for worker in self._pool.heard_of)
            or self._may_others_come(said)
        ):
            chunk.requeue()
            return []
        doubt = (said or chunk.doubts)[0]
        chunk.doubts.clear()
        chunk.void_leases()  # who was silent may be heard of again
        return self._believe(chunk, 0, doubt)

    def _may_others_come(self, said: list[Doubt]) -> bool:
        """Whether those who said so have just dialled in: of several that are started together, one
        with the wrong folder is quicker than the others, since it has nothing to read."""
        now = self._pool.now
        return bool(said) and all(now - doubt.worker.joined < _COMING_S for doubt in said)

    # Who may be asked

    def may_take(self, worker: Worker, chunk: Chunk) -> bool:
        """Whether a worker may be asked for what was granted before."""
        pool = self._pool
        if chunk.shaken and not (pool.is_settled(worker) and self._may_go_on(worker, chunk)):
            return False
        if not (chunk.doubts or chunk.shaken):
            return not pool.would_hold_up(worker, chunk.batch.reader.stream)
        return self._may_judge(worker, chunk)

    def _may_go_on(self, worker: Worker, chunk: Chunk) -> bool:
        """A worker of another copy than that whose workers died over it goes on with it, where
        there is one."""
        copies = self._pool.copies - chunk.died_at - {doubt.worker.copy for doubt in chunk.doubts}
        return worker.copy not in chunk.died_at or not copies

    def _may_judge(self, worker: Worker, chunk: Chunk) -> bool:
        """Whether a worker may be asked for a doubted clip: nobody twice, and those of a copy that
        was asked before only if there are no others."""
        asked = [doubt.worker for doubt in chunk.doubts]
        if worker in asked:
            # A file may have changed while it was decoded: then it is as it should be next time.
            alone = all(other in asked for other in self._pool.heard_of)
            tries = [doubt.of_worker for doubt in chunk.doubts if doubt.worker is worker]
            return alone and all(tries) and len(tries) < _TRIES
        copies = {other.copy for other in asked}
        return worker.copy not in copies or all(w.copy in copies for w in self._pool.heard_of)

    # Deaths

    def died_over(self, worker: Worker, chunk: Chunk, *, crashed: bool) -> list[Command]:
        """A worker died over this chunk. Its clips are granted again one by one; one that then
        goes on killing workers is taken for bad, and its video with it."""
        if chunk.size > 1:
            chunk.requeue_one_by_one()
            return []
        if not worker.local:
            self._blamed[worker.id] = chunk
        chunk.deaths += 1
        chunk.crashes += crashed
        if chunk.deaths >= self._deaths or chunk.crashes >= _CRASHES:
            reason = f"{chunk.deaths} workers died while decoding it"
            return self._condemn(chunk, 0, reason)
        chunk.requeue()
        return []

    def returned(self, worker: WorkerId) -> None:
        """A remote worker that had died is back: it was the connection that broke."""
        chunk = self._blamed.pop(worker, None)
        if chunk is not None and chunk.deaths:
            chunk.deaths -= 1

    def decoded(self, chunk: Chunk) -> list[Command]:
        """It was not what killed those that died over it; and who said that it cannot be decoded
        was wrong."""
        if chunk.deaths:
            self._blamed = {who: what for who, what in self._blamed.items() if what is not chunk}
        commands: list[Command] = []
        for doubt in chunk.doubts:
            if not doubt.of_worker:  # that was counted at once
                commands += self._pool.count_mistake(doubt.worker, doubt.reason)
        return commands

    # What follows

    def _believe(self, chunk: Chunk, at: int, doubt: Doubt) -> list[Command]:
        if doubt.fatal:
            return self._end_stream(chunk, at, doubt.reason)
        return self._condemn(
            chunk, at, doubt.reason, dropped=doubt.dropped, here_only=doubt.here_only
        )

    def _condemn(
        self, chunk: Chunk, at: int, reason: str, *, dropped: bool = False, here_only: bool = False
    ) -> list[Command]:
        """This clip's video is bad: another clip stands in for it, or it is left out."""
        batch, row = chunk.batch, chunk.first + at
        stream = batch.reader.stream
        try:
            stream.quarantine.add(
                batch.samples[row].video, reason, dropped=dropped, here_only=here_only
            )
            if stream.quarantine.skips:
                batch.left_out.add(row)
                return self._batches.done(chunk.single_out(at))
            batch.samples[row] = stream.quarantine.instead_of(batch.samples[row])
        except VideoloadError as error:
            return self._batches.stop(stream, error)
        chunk.acquit()
        chunk.requeue()
        return self._batches.stop_if_due(batch)

    def _end_stream(self, chunk: Chunk, at: int, reason: str) -> list[Command]:
        """The stream cannot go on past this clip."""
        batch, row = chunk.batch, chunk.first + at
        if batch.error is None or row < batch.error[0]:
            batch.error = row, TransformError(reason)
        return self._batches.done(chunk)
