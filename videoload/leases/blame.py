"""Who is to blame if a clip does not come: its video, or its worker. Pure: no sockets, no clock.

A worker may *say* that it cannot decode a clip. One worker's word is not enough: another worker is
asked first, one that reads another copy of the videos if there is one. Only a worker that reads the
trainer's own copy is believed at once.

A clip may also leave its workers *without an answer*: it crashes them, or it hangs in the decoder.
So each chunk notes the workers that were at it, were alive, and never answered. A chunk of several
clips is split at the first of them, and each clip takes the note along. At the third worker, the
clip's video is bad. It does not matter where the workers run, or who else holds the clip meanwhile.

    what happens to the worker that is at the chunk      the workers noted on the chunk
    ---------------------------------------------------  --------------------------------------
    it answers                                           the chunk is done
    it says BYE                                          as before
    it dies                                              it is noted
    it is remote, and silent for `stall_s`               it is noted
    it is local, and killed because it was silent:
      it burnt CPU, or waited although storage answers   it is noted
      it waited for storage, was stopped, or imported    as before
    it is heard again, or dials in again after a cut     it is removed
    it was given the chunk before the last was noted     as before: one worker at a time is tried
    it is remote, nobody answers a lease that was
      granted since the last was noted, and most of
      what is open is missing: storage or line is down   it is the only remote one

Workers may also die for a reason of their own, again and again. So a noted chunk goes to a worker
that is here for long, in comparison with the others. A worker that has answered nothing yet gets
other chunks first, if there are any. If a remote worker dies, its last answer may be lost too, and
the wrong chunk be noted. So a worker gets nothing else while it has a noted chunk.
"""

from __future__ import annotations

from dataclasses import replace

from videoload.errors import TransformError, VideoloadError
from videoload.leases.batches import Batches
from videoload.leases.commands import Command, WorkerId
from videoload.leases.pool import WorkerPool
from videoload.leases.records import Chunk, ChunkState, Doubt, Lease, Reader, Worker

# Workers are also killed from outside: preemption, out of memory, a cut connection. That this
# happens twice over the same clip is seen; three times is not.
_MAX_UNANSWERED = 3
_COMING_S = 3.0  # after a worker dialled in, others that could be asked may be on their way
_QUICK = 4  # clips that take so much less than a stall show that the function is quick
_TRIES = 3  # of a worker whose answers are not taken, if there is no other worker


class Blame:
    """What speaks against clips, and what follows from it."""

    def __init__(self, pool: WorkerPool, batches: Batches) -> None:
        self._pool = pool
        self._batches = batches

    # What workers say

    def doubt(self, lease: Lease, at: int, doubt: Doubt) -> list[Command]:
        """A worker answers that it cannot decode clip ``at``, or its answer is not taken."""
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
        """Decide on doubted clips if the workers that could have been asked have left."""
        commands: list[Command] = []
        for _, _, chunk in [*reader.orphans, *reader.accused]:
            if reader.stream.stopped:
                break
            is_open = chunk.state is ChunkState.WAITING and chunk.doubts
            if is_open and any(self._pool.heard_of):
                commands += self._settle_or_requeue(chunk)
        return commands

    def decoded(self, chunk: Chunk) -> list[Command]:
        """The chunk was decoded after all: workers that said it cannot be were wrong."""
        commands: list[Command] = []
        for doubt in chunk.doubts:
            if not doubt.of_worker:  # that was counted at once
                commands += self._pool.count_mistake(doubt.worker, doubt.reason)
        return commands

    def _settle_or_requeue(self, chunk: Chunk) -> list[Command]:
        """Decide on a doubted clip, or ask another worker."""
        said = [doubt for doubt in chunk.doubts if not doubt.of_worker]
        local = any(worker.copy is None for worker in self._pool.heard_of)  # has the last word
        agreed = len({doubt.worker.copy for doubt in said}) > 1 and not local
        if not agreed and (
            any(self._may_judge(worker, chunk) for worker in self._pool.heard_of)
            or self._may_others_come(said or [doubt for doubt in chunk.doubts if doubt.fatal])
        ):
            chunk.requeue()
            return []
        doubt = (said or chunk.doubts)[0]
        chunk.doubts.clear()
        chunk.void_leases()  # a silent worker may be heard of again
        return self._believe(chunk, 0, doubt)

    def _may_others_come(self, said: list[Doubt]) -> bool:
        """Whether all that said so have just dialled in. If several are started together, one with
        the wrong folder is quicker than the others, since it has nothing to read. Or whether only
        workers are wrong, and one that is silent, as in an import, was not asked."""
        now, asked = self._pool.now, [doubt.worker for doubt in said]
        if said and said[0].of_worker and self._pool.others_are_silent(asked):
            return True
        return bool(said) and all(now - worker.joined < _COMING_S for worker in asked)

    # What workers never answer

    def never_answered(self, lease: Lease) -> list[Command]:
        """A worker was at this lease, was alive, and died or is silent without an answer."""
        chunk, worker = lease.chunk, lease.worker
        if chunk is None or worker in chunk.unanswered or lease.granted < chunk.noted:
            return []
        in_function = self._stood_still_in_function(worker)
        if in_function and (error := self._is_function_slow(chunk)) is not None:
            return self._batches.stop(chunk.batch.reader.stream, error)
        if self._stands_still(chunk) and not worker.local:
            chunk.unanswered = {noted: None for noted in chunk.unanswered if noted.local}
        chunk.note(worker, self._pool.now)
        if chunk.size > 1:
            chunk.requeue_one_by_one()
            return []
        count = len(chunk.unanswered)
        if count < _MAX_UNANSWERED:
            chunk.requeue_if_abandoned()
            return []
        chunk.void_leases()
        function = chunk.batch.reader.stream.function
        why = f"{count} workers died or hung while decoding it"
        if function:
            silent = f"{self._no_sign(function)}; see stall_s="
            why = silent if in_function else f"{why}, or in {function}"
        return self._condemn(chunk, 0, why)

    def returned(self, worker: WorkerId) -> None:
        """A worker is heard again, or back: it may answer after all."""
        for chunk in self._batches.open_chunks:
            for noted in [noted for noted in chunk.unanswered if noted.id == worker]:
                chunk.take_back(noted)

    def _stands_still(self, chunk: Chunk) -> bool:
        """Whether no worker has made progress since the last one was noted."""
        return self._pool.answered < chunk.noted and chunk.batch.reader.stands_still

    def _stood_still_in_function(self, worker: Worker) -> bool:
        """Whether it did not end by itself, and what it was at is known."""
        return worker.silence.in_function and self._pool.now - worker.heard > self._pool.stall_s / 2

    def _is_function_slow(self, chunk: Chunk) -> TransformError | None:
        """The error if it is the function that takes long, and not the clips: it does so at
        several, and no clip comes much quicker."""
        stream = chunk.batch.reader.stream
        stream.stood_still_in.add((chunk.batch.step, chunk.rows[0]))
        if len(stream.stood_still_in) < 2 or stream.clip_s < self._pool.stall_s / _QUICK:
            return None
        return TransformError(
            f"{self._no_sign(stream.function)}, at several clips: it takes longer than stall_s= of "
            "the client allows, or hangs"
        )

    def _no_sign(self, function: str) -> str:
        return f"no sign of life for {self._pool.stall_s:g} s in {function}"

    # Who may be asked

    def may_take(self, worker: Worker, chunk: Chunk) -> bool:
        """Whether a worker may be granted a chunk that was granted before."""
        if not (chunk.doubts or chunk.unanswered):
            return not self._pool.would_hold_up(worker, chunk.batch.reader.stream)
        return self._may_judge(worker, chunk)

    def _may_judge(self, worker: Worker, chunk: Chunk) -> bool:
        """Whether a worker may be asked for a clip that something speaks against. No worker is
        asked twice. Workers of a copy that was asked before are asked if there is no other."""
        asked = [doubt.worker for doubt in chunk.doubts]
        if worker in asked:
            # A file may have changed while it was decoded: then it is as it should be next time.
            # A function that a worker lacks stays away.
            alone = all(other in asked for other in self._pool.heard_of)
            tries = [each for each in chunk.doubts if each.worker is worker]
            again = all(each.of_worker and not each.fatal for each in tries)
            return alone and again and len(tries) < _TRIES
        copies = {other.copy for other in (*asked, *chunk.unanswered)}
        others = self._pool.reliable if chunk.unanswered else self._pool.heard_of
        return worker.copy not in copies or all(other.copy in copies for other in others)

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
        batch, row = chunk.batch, chunk.rows[at]
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
        batch, row = chunk.batch, chunk.rows[at]
        if batch.error is None or row < batch.error[0]:
            batch.error = row, TransformError(reason)
        return self._batches.done(chunk)
