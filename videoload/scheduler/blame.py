"""Decide whether the video or the worker is to blame for a missing clip. Pure: no sockets, no
clock.

Each chunk records its *attempts*: the failures that workers reported, and the workers that never
answered. They alone determine what happens next (`Blame.decide`), and which workers may get it
(`may_take`). Only the scheduler acts on that.

    attempts at the clip                                      verdict
    --------------------------------------------------------  --------------------------------------
    none                                                      RETRY
    its file cannot be read, for less than a minute           RETRY, after a pause (see `files`)
    ... for a minute in which its root responds               BAD
    a local worker reports a failure                          BAD; END if it was the user's function
                                                              or a file of many was rewritten
    another worker reports one, and there is a candidate,     RETRY: one with another copy of the
      or one with the right file may connect                  videos first
    ... and two report one for the right file, or there is    as if a local worker had reported it
      no candidate left
    all have another file than the trainer or a scan          RETRY: it waits for one that has it
    less than three workers never answered                    RETRY, by one worker at a time
    three never did                                           BAD
    ... stuck in a function that is slow on other clips too   END

A report counts only if it is about the right file (`files`): workers with a missing or different
copy do not count, in any number.

That a worker *never answered* is noted like this. A chunk of several clips is split at the first
note, and each clip takes it along. The host of a worker does not matter.

    event of the worker that holds the chunk             is it recorded?
    ---------------------------------------------------  --------------------------------------
    it answers                                           the chunk is done
    it sends BYE, or reports that it holds no lease      no
    it dies, or is killed because it hangs               yes, unless it is remote and no worker has
                                                         ever answered any lease
    it is remote, and unresponsive for `stall_s`,
      in an import for `IMPORT_S` more                   yes
    it is local, and killed because it hung in an import no
    it responds again, or reconnects                     its record is deleted
    it got the chunk before the last was recorded        no: one worker at a time is tried
    it is remote, no lease that was granted since the
      last record is answered, and most open chunks
      are missing: storage or network is down            only if it is the only remote one

Workers may also die for a reason of their own, again and again. So a noted chunk goes to a worker
that is here for long, in comparison with the others. A worker without an answer yet gets other
chunks first, if there are any. If a remote worker dies, its last answer may be lost too, and the
wrong chunk be noted. So a worker gets nothing else while it has a noted chunk.
"""

from __future__ import annotations

import math
from dataclasses import replace
from enum import Enum, auto
from typing import NamedTuple

from videoload.activity import Activity
from videoload.errors import Fault
from videoload.scheduler.files import UNREAD_S, Roots
from videoload.scheduler.pool import WorkerPool
from videoload.scheduler.records import Attempt, Chunk, Lease, Stream, Worker

# Workers are also killed from outside: preemption, out of memory, a cut connection. That this
# happens twice over the same clip is seen; three times is not.
_MAX_UNANSWERED = 3
COMING_S = 3.0  # after a worker has connected, other candidates may be about to connect
_QUICK = 4  # clips that take so much less than a stall show that the function is quick
_TRIES = 3  # of a worker whose copy is another one, if there is no other worker


class Next(Enum):
    """What follows from the tries of a clip."""

    RETRY = auto()  # it is requeued
    BAD = auto()  # another clip replaces it, or it is left out
    END = auto()  # the stream ends there


class Decision(NamedTuple):
    """What follows, and why. ``fault``: of what kind it is."""

    next: Next
    reason: str = ""
    fault: Fault = Fault.VIDEO


RETRY = Decision(Next.RETRY)


class Blame:
    """What the tries of a clip mean. It changes nothing."""

    def __init__(self, pool: WorkerPool, roots: Roots) -> None:
        self._pool, self._roots = pool, roots

    def decide(self, chunk: Chunk) -> Decision:
        """Return the verdict on the attempts of a chunk of one clip."""
        if len(unanswered := chunk.unanswered) >= _MAX_UNANSWERED:
            return self._never_decoded(chunk, unanswered)
        if not (said := chunk.reported_failures):
            return RETRY
        if unread := [each for each in said if each.fault is Fault.UNREAD]:
            stream, now = chunk.stream, self._pool.now
            path = stream.path_of(chunk.samples[0].video)
            lasts_s = stream.unread.lasts_s(path, now, self._roots.away_s(stream.root, now))
            return RETRY if lasts_s < UNREAD_S else believed(unread[0])
        return self._weigh(chunk, said)

    def _weigh(self, chunk: Chunk, tries: list[Attempt]) -> Decision:
        """Return the verdict on reports of remote workers."""
        stream, video = chunk.stream, chunk.samples[0].video
        said = [each for each in tries if not each.is_of_worker]
        sure = {each.worker for each in said if _is_sure(stream, video, each)}
        tried = {each.worker.copy for each in tries}
        responsive = stream.allowed(self._pool.responsive)
        local = any(worker.copy is None for worker in responsive)  # has the last word
        is_open = len(sure) < 2 or local
        # A worker without the code may have the right file. Another copy does not condemn it.
        said_best = said or [each for each in tries if each.fault is Fault.CODE]
        may_come = is_open and self._may_others_come(said_best)
        if all(worker.copy in tried for worker in responsive):  # of the connected ones
            is_open = len({each.worker for each in said}) < 2 or local
        may_judge = any(self._may_judge(worker, chunk) for worker in responsive)
        all_differ = all(each.fault is Fault.COPY for each in tries)
        waits = all_differ and _is_agreed(stream, video)
        if may_come or (is_open and (may_judge or waits)):
            return RETRY
        return believed((said_best or tries)[0])

    def _may_others_come(self, said: list[Attempt]) -> bool:
        """Return whether all reporting workers have just connected: of several that start together,
        one with the wrong folder is the fastest, since it has nothing to read. Or whether only
        workers are wrong, and an unresponsive one, as in an import, was not tried."""
        now, tried = self._pool.now, [each.worker for each in said]
        if said and said[0].is_of_worker and self._pool.may_speak(tried):
            return True
        return bool(said) and all(now - worker.joined < COMING_S for worker in tried)

    def judged(self, stream: Stream, video: int, said: Attempt) -> Attempt:
        """Return a worker's report, if it is about the right file and the user's function."""
        if said.worker.copy is None:
            return said
        expected = stream.files.expected(video) if stream.files else 0
        if stream.checks(said.worker) and expected not in (0, said.file):
            return replace(said, fault=Fault.COPY)
        if said.fault is Fault.FUNCTION and not stream.function:  # there is none that could fail
            return replace(said, fault=Fault.CODE)
        return said

    # What workers never answer

    def counts(self, lease: Lease, *, died: bool) -> bool:
        """Return whether to record on a chunk that the worker of a lease never answered it."""
        chunk, worker = lease.chunk, lease.worker
        noted = [each.worker for each in chunk.unanswered]
        if not lease.is_owed or worker in noted or lease.granted_at < chunk.noted_at:
            return False
        return not died or lease.worker.local or self._lives(lease)

    def _lives(self, lease: Lease) -> bool:
        """Return whether the clip may be the cause. As long as no worker has ever answered, another
        cause may kill every new worker; unless there is no other clip that could show it."""
        reader = lease.chunk.batch.reader
        if self._pool.latest_answered > -math.inf:
            return True
        batches = reader.filling.values()
        rows = [(batch, row) for batch in batches for row in batch.left]
        rows += [(batch, row) for batch in batches for c in batch.chunks for row in c.rows]
        return not reader.can_open and len({batch.samples[at].video for batch, at in rows}) < 2

    def stands_still(self, chunk: Chunk) -> bool:
        """Return whether no worker has made progress since the last one was recorded."""
        return self._pool.latest_answered < chunk.noted_at and chunk.batch.reader.stands_still

    def is_function_slow(self, chunk: Chunk) -> Decision:
        """Return END if the user's function is slow, not the clips: on several clips, and none is
        much faster."""
        stream = chunk.stream
        is_quick = stream.clip_s(chunk.samples[0]) < self._pool.stall_s / _QUICK
        if len(stream.stood_still_in) < 2 or is_quick:
            return RETRY
        why = (
            f"{self._no_sign(stream.function)}, at several clips: it takes longer than stall_s= of "
        )
        return Decision(Next.END, why + "the client allows, or hangs")

    def _never_decoded(self, chunk: Chunk, unanswered: list[Attempt]) -> Decision:
        why = f"{len(unanswered)} workers died or hung while decoding it"
        if function := chunk.stream.function:
            silent = f"{self._no_sign(function)}; see stall_s="
            in_function = self.is_in_function(unanswered[-1].worker)
            why = silent if in_function else f"{why}, or in transform {function}"
        return Decision(Next.BAD, why)

    def is_in_function(self, worker: Worker) -> bool:
        """Return whether it became unresponsive in a function, and did not end by itself."""
        return (
            worker.at is Activity.FUNCTION and worker.silence_clock.seconds > self._pool.stall_s / 2
        )

    def _no_sign(self, function: str) -> str:
        return f"no sign of life for {self._pool.stall_s:g} s in transform {function}"

    # Candidates

    def may_take(self, worker: Worker, chunk: Chunk) -> bool:
        """Return whether a worker may get a chunk that was granted before."""
        if not chunk.attempts:
            return self._pool.clips_in_time(worker, chunk.batch.reader) >= 1
        return self._may_judge(worker, chunk)

    def _may_judge(self, worker: Worker, chunk: Chunk) -> bool:
        """Return whether a worker may try a clip with failed attempts. No worker tries twice,
        unless it had another copy and no other worker is left: its file may be right the next time.
        Workers of a tried copy try again only if there is no other copy."""
        stream, video, said = chunk.stream, chunk.samples[0].video, chunk.reported_failures
        if unread := [each for each in said if each.fault is Fault.UNREAD]:
            is_same = any(worker.copy == each.worker.copy for each in unread)
            return not is_same or stream.unread.may_try(stream.path_of(video), self._pool.now)
        tried = [each.worker for each in said]
        if worker in tried:
            alone = all(other in tried for other in stream.allowed(self._pool.responsive))
            tries = [each for each in said if each.worker is worker]
            again = all(each.fault is Fault.COPY for each in tries)
            return alone and again and (_is_agreed(stream, video) or len(tries) < _TRIES)
        copies = {each.worker.copy for each in chunk.attempts}
        others = self._pool.reliable if chunk.unanswered else self._pool.responsive
        return worker.copy not in copies or all(
            other.copy in copies for other in stream.allowed(others)
        )


def is_trusted(said: Attempt) -> bool:
    """Return whether one report is enough: it is about the trainer's own copy."""
    return said.worker.copy is None and said.fault is not Fault.UNREAD


def believed(said: Attempt) -> Decision:
    """Return the verdict if a report is believed."""
    if said.fault in (Fault.FUNCTION, Fault.CODE):
        return Decision(Next.END, said.reason)
    if said.fault is Fault.REWRITTEN:
        return Decision(Next.END, said.reason, said.fault)
    return Decision(Next.BAD, said.reason, said.fault or Fault.VIDEO)


def _is_agreed(stream: Stream, video: int) -> bool:
    return stream.files is not None and stream.files.is_agreed(video)


def _is_sure(stream: Stream, video: int, said: Attempt) -> bool:
    """Return whether a report is about the file that the stream uses, or about no file."""
    if stream.files is None or not stream.checks(said.worker):
        return True
    return said.fault is Fault.FUNCTION or stream.files.expected(video) == said.file != 0
