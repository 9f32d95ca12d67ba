"""Who is to blame if a clip does not come: its video, or its worker. Pure: no sockets, no clock.

A worker may *say* that it cannot decode a clip. One worker's word is not enough: another worker is
asked first, one that reads another copy of the videos if there is one. Only a local worker is
believed at once. A word counts only if it is about the right file (`files`): a worker whose copy is
missing or another one is wrong, however many say the same. If it is agreed which file is right (the
trainer has it, or a scan saw it), and all workers lack it, the clip waits for one that has it. A
file that is there and cannot be read now is tried again for a minute.

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

import math
from dataclasses import replace

from videoload.errors import (
    Fault,
    StorageError,
    TransformError,
    VideoError,
    VideoloadError,
    named,
)
from videoload.leases.batches import Batches
from videoload.leases.commands import Changed, Identify, Outbox, Warn, WorkerId
from videoload.leases.files import UNREAD_S, again_s
from videoload.leases.pool import WorkerPool
from videoload.leases.records import Chunk, ChunkState, Doubt, Lease, Reader, Stream, Worker

# Workers are also killed from outside: preemption, out of memory, a cut connection. That this
# happens twice over the same clip is seen; three times is not.
_MAX_UNANSWERED = 3
_COMING_S = 3.0  # after a worker dialled in, others that could be asked may be on their way
_QUICK = 4  # clips that take so much less than a stall show that the function is quick
_TRIES = 3  # of a worker whose copy is another one, if there is no other worker


class Blame:
    """What speaks against clips, and what follows from it."""

    def __init__(self, pool: WorkerPool, batches: Batches, outbox: Outbox) -> None:
        self._pool = pool
        self._batches = batches
        self._outbox = outbox

    # What workers say

    def doubt(self, chunk: Chunk, at: int, doubt: Doubt) -> None:
        """A worker answers that it cannot decode clip ``at``, or its answer is not taken."""
        chunk.void_leases()
        if not 0 <= at < chunk.size:
            doubt = replace(doubt, reason=f"worker named clip {at} of {chunk.size}: {doubt.reason}")
            at = 0
        stream, video = chunk.batch.reader.stream, chunk.samples[at].video
        if doubt.worker.copy is None and doubt.fault is not Fault.UNREAD:
            self._believe(chunk, at, doubt)
            return
        expected = stream.files.expected(video) if stream.files else 0
        if stream.checks(doubt.worker) and expected not in (0, doubt.file):
            doubt = replace(doubt, fault=Fault.COPY)
        if doubt.fault is Fault.FUNCTION and not stream.function:  # there is none that could fail
            doubt = replace(doubt, fault=Fault.CODE)
        if doubt.fault is Fault.COPY:
            self._note_other_copy(stream, video, doubt)
        elif doubt.is_of_worker:
            self._pool.count_mistake(doubt.worker, doubt.reason)
        elif doubt.fault is Fault.UNREAD:
            why = f"{named(stream.quarantine.path_of(video))} {doubt.reason}; it is tried again"
            self._outbox.append(Warn(doubt.worker.id, why))
        one = chunk.single_out(at)
        one.doubts.append(doubt)
        self._settle_or_requeue(one)

    def settle_doubts(self, reader: Reader) -> None:
        """Decide on doubted clips if the workers that could have been asked have left."""
        for _, _, chunk in [*reader.orphans, *reader.accused]:
            if reader.stream.stopped:
                break
            is_open = chunk.state is ChunkState.WAITING and chunk.doubts
            if is_open and any(self._pool.heard_of):
                self._settle_or_requeue(chunk)

    def decoded(self, chunk: Chunk) -> None:
        """The chunk was decoded after all: workers that said it cannot be were wrong."""
        chunk.batch.reader.stream.was_read(sample.video for sample in chunk.samples)
        for doubt in chunk.doubts:
            if not doubt.is_of_worker and doubt.fault is not Fault.UNREAD:  # that was counted
                self._pool.count_mistake(doubt.worker, doubt.reason)

    def _settle_or_requeue(self, chunk: Chunk) -> None:
        """Decide on a doubted clip, or ask another worker."""
        if unread := chunk.unread:
            if self._pool.now - self._unread_since(chunk) < UNREAD_S:
                chunk.requeue()
            else:
                chunk.void_leases()  # as below
                self._believe(chunk, 0, unread[0])
            return
        stream, video = chunk.batch.reader.stream, chunk.samples[0].video
        said = [doubt for doubt in chunk.doubts if not doubt.is_of_worker]
        sure = {doubt.worker for doubt in said if self._is_sure(stream, video, doubt)}
        asked = {doubt.worker.copy for doubt in chunk.doubts}
        local = any(worker.copy is None for worker in self._pool.heard_of)  # has the last word
        is_open = len(sure) < 2 or local
        may_come = is_open and self._may_others_come(
            said or [doubt for doubt in chunk.doubts if doubt.fault is Fault.CODE]
        )
        if all(worker.copy in asked for worker in self._pool.heard_of):  # of those that came
            is_open = len({doubt.worker for doubt in said}) < 2 or local
        may_judge = any(self._may_judge(worker, chunk) for worker in self._pool.heard_of)
        all_differ = all(doubt.fault is Fault.COPY for doubt in chunk.doubts)
        waits = all_differ and self._is_agreed(stream, video)
        if may_come or (is_open and (may_judge or waits)):
            chunk.requeue()
            return
        doubt = (said or chunk.doubts)[0]
        chunk.doubts.clear()
        chunk.void_leases()  # a silent worker may be heard of again
        self._believe(chunk, 0, doubt)

    def _unread_since(self, chunk: Chunk) -> float:
        """Since when the file of a clip cannot be read; other rows of it may have shown that."""
        return chunk.batch.reader.stream.unread_since(chunk.samples[0].video, chunk.unread[0].at)

    def _may_others_come(self, said: list[Doubt]) -> bool:
        """Whether all that said so have just dialled in. If several are started together, one with
        the wrong folder is quicker than the others, since it has nothing to read. Or whether only
        workers are wrong, and one that is silent, as in an import, was not asked."""
        now, asked = self._pool.now, [doubt.worker for doubt in said]
        if said and said[0].is_of_worker and self._pool.others_are_silent(asked):
            return True
        return bool(said) and all(now - worker.joined < _COMING_S for worker in asked)

    # Which file it is about

    @staticmethod
    def _is_agreed(stream: Stream, video: int) -> bool:
        return stream.files is not None and stream.files.is_agreed(video)

    @staticmethod
    def _is_sure(stream: Stream, video: int, doubt: Doubt) -> bool:
        """Whether a doubt is about the file that the stream uses, or about no file."""
        if stream.files is None or not stream.checks(doubt.worker):
            return True
        return doubt.fault is Fault.FUNCTION or stream.files.expected(video) == doubt.file != 0

    def _note_other_copy(self, stream: Stream, video: int, doubt: Doubt) -> None:
        """The worker's copy is another one. That is its mistake, unless the file has changed."""
        if stream.files is None or not stream.files.ask_again(video):
            self._count_other_copy(doubt)
            return
        stream.other_copies.append((video, doubt))
        if videos := stream.files.to_ask((video,)):
            self._outbox.append(Identify(stream.id, videos))

    def identified(self, stream: Stream, video: int, fingerprint: int) -> None:
        """The trainer's own copy of a video was read; 0: it has none."""
        files = stream.files
        if files is None:
            return
        stream.was_read([video])
        if files.identified(video, fingerprint):
            self._outbox.append(Changed(stream.id, video))
        waiting, stream.other_copies = stream.other_copies, []
        for about, doubt in waiting:
            if about != video:
                stream.other_copies.append((about, doubt))
            elif files.expected(video) != doubt.file:
                self._count_other_copy(doubt)

    def unread(self, stream: Stream, video: int, error: VideoloadError) -> None:
        """The trainer could not read its own copy of a video. Storage that is away is waited for.
        A file that cannot be read for long is bad: no worker's copy stands in for it."""
        limit_s = math.inf if isinstance(error, StorageError) else UNREAD_S
        now = self._pool.now
        since_s = now - stream.unread_since(video, now)
        if stream.files is None or not stream.files.unread(video, now, since_s, limit_s):
            return
        if known := stream.files.expected(video):  # it was read before
            self.identified(stream, video, known)
            return
        reason = error.reason if isinstance(error, VideoError) else str(error)
        try:
            stream.quarantine.add(video, reason)
        except VideoloadError as too_many:
            self._batches.stop(stream, too_many)
        # Once the stream is stopped, by this clip or by one before, its batches are gone.
        for batch in [batch for r in stream.readers.values() for batch in r.filling.values()]:
            if stream.stopped:
                return
            waiting = [chunk for chunk in batch.chunks if chunk.state is ChunkState.WAITING]
            for chunk in [*waiting, batch.cut(batch.left)] if batch.left else waiting:
                (chunk.requeue if chunk.size == 1 else chunk.requeue_one_by_one)()
            for chunk in list(batch.chunks):
                is_open = chunk.state is ChunkState.WAITING and not stream.stopped
                if is_open and chunk.samples[0].video == video:
                    chunk.void_leases()
                    self._condemn(chunk, 0, reason)

    def _count_other_copy(self, doubt: Doubt) -> None:
        self._outbox.append(Warn(doubt.worker.id, doubt.reason))
        self._pool.count_mistake(doubt.worker, doubt.reason)

    # What workers never answer

    def never_answered(self, lease: Lease) -> None:
        """A worker was at this lease, was alive, and died or is silent without an answer."""
        chunk, worker = lease.chunk, lease.worker
        if not lease.is_owed or worker in chunk.blamed or lease.granted < chunk.blamed_at:
            return
        in_function = self._stood_still_in_function(worker)
        if in_function and (error := self._is_function_slow(chunk)) is not None:
            self._batches.stop(chunk.batch.reader.stream, error)
            return
        if self._stands_still(chunk) and not worker.local:
            chunk.blamed = {blamed: None for blamed in chunk.blamed if blamed.local}
        chunk.blame(worker, self._pool.now)
        if chunk.size > 1:
            chunk.requeue_one_by_one()
            return
        count = len(chunk.blamed)
        if count < _MAX_UNANSWERED:
            chunk.requeue_if_abandoned()
            return
        chunk.void_leases()
        function = chunk.batch.reader.stream.function
        why = f"{count} workers died or hung while decoding it"
        if function:
            silent = f"{self._no_sign(function)}; see stall_s="
            why = silent if in_function else f"{why}, or in transform {function}"
        self._condemn(chunk, 0, why)

    def returned(self, worker: WorkerId) -> None:
        """A worker is heard again, or back: it may answer after all."""
        for chunk in self._batches.open_chunks:
            for blamed in [blamed for blamed in chunk.blamed if blamed.id == worker]:
                chunk.unblame(blamed)

    def _stands_still(self, chunk: Chunk) -> bool:
        """Whether no worker has made progress since the last one was blamed."""
        return self._pool.latest_answered < chunk.blamed_at and chunk.batch.reader.stands_still

    def _stood_still_in_function(self, worker: Worker) -> bool:
        """Whether it did not end by itself, and what it was at is known."""
        return worker.silence.in_function and worker.still.seconds > self._pool.stall_s / 2

    def _is_function_slow(self, chunk: Chunk) -> TransformError | None:
        """The error if it is the function that takes long, and not the clips: it does so at
        several, and no clip comes much quicker."""
        stream = chunk.batch.reader.stream
        stream.stood_still_in.add((chunk.batch.step, chunk.rows[0]))
        if (
            len(stream.stood_still_in) < 2
            or stream.clip_s(chunk.samples[0]) < self._pool.stall_s / _QUICK
        ):
            return None
        return TransformError(
            f"{self._no_sign(stream.function)}, at several clips: it takes longer than stall_s= of "
            "the client allows, or hangs"
        )

    def _no_sign(self, function: str) -> str:
        return f"no sign of life for {self._pool.stall_s:g} s in transform {function}"

    # Who may be asked

    def may_take(self, worker: Worker, chunk: Chunk) -> bool:
        """Whether a worker may be granted a chunk that was granted before."""
        if not (chunk.doubts or chunk.blamed):
            return not self._pool.would_hold_up(worker, chunk.batch.reader.stream)
        return self._may_judge(worker, chunk)

    def _may_judge(self, worker: Worker, chunk: Chunk) -> bool:
        """Whether a worker may be asked for a clip that something speaks against. No worker is
        asked twice, unless it had another copy and nobody else is left: its file may be as it
        should be next time. Workers of a copy that was asked before are asked if there is no
        other."""
        if unread := chunk.unread:
            is_same = any(worker.copy == doubt.worker.copy for doubt in unread)
            again = unread[-1].at + again_s(unread[-1].at - self._unread_since(chunk))
            return not is_same or self._pool.now >= again
        asked = [doubt.worker for doubt in chunk.doubts]
        if worker in asked:
            alone = all(other in asked for other in self._pool.heard_of)
            tries = [each for each in chunk.doubts if each.worker is worker]
            again = all(each.fault is Fault.COPY for each in tries)
            agreed = self._is_agreed(chunk.batch.reader.stream, chunk.samples[0].video)
            return alone and again and (agreed or len(tries) < _TRIES)
        copies = {other.copy for other in (*asked, *chunk.blamed)}
        others = self._pool.reliable if chunk.blamed else self._pool.heard_of
        return worker.copy not in copies or all(other.copy in copies for other in others)

    # What follows

    def _believe(self, chunk: Chunk, at: int, doubt: Doubt) -> None:
        if doubt.fault in (Fault.FUNCTION, Fault.CODE):
            self._end_stream(chunk, at, doubt.reason)
        else:
            self._condemn(chunk, at, doubt.reason, doubt.fault)

    def _condemn(self, chunk: Chunk, at: int, reason: str, fault: Fault = Fault.VIDEO) -> None:
        """This clip's video is bad: another clip stands in for it, or it is left out."""
        batch, row = chunk.batch, chunk.rows[at]
        stream = batch.reader.stream
        try:
            stream.quarantine.add(
                batch.samples[row].video, reason,
                dropped=fault is Fault.SHORT, here_only=fault is Fault.CLIP,
            )  # fmt: skip
            if stream.quarantine.skips:
                batch.left_out.add(row)
                self._batches.done(chunk.single_out(at))
                return
            batch.samples[row] = stream.quarantine.instead_of(batch.samples[row])
        except VideoloadError as error:
            self._batches.stop(stream, error)
            return
        chunk.clear_blame()
        chunk.requeue()
        self._batches.stop_if_due(batch)

    def _end_stream(self, chunk: Chunk, at: int, reason: str) -> None:
        """The stream cannot go on past this clip."""
        batch, row = chunk.batch, chunk.rows[at]
        if batch.error is None or row < batch.error[0]:
            batch.error = row, TransformError(reason)
        self._batches.done(chunk)
