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

Clips are *offered* in one way (`_offer`). If an event may have brought clips (a free slot, a chunk
to be granted again, a file that is known now), the workers with credit that they may be for are
offered them: those of the hosts that clips prefer, and those that would be idle; or all, if there
is one host, or a chunk waits that was granted before. If an event has only brought credit (an
answer, a heartbeat), its worker is offered what is left. An offer goes in rounds, so that each
worker gets a lease before any gets another, those that hold the fewest first. In each round, clips
that prefer a worker's host are for it first. Then workers that would be idle get clips that prefer
other hosts.

Only this file writes; the others know, or decide:

    records   the states of a chunk, and of a lease
    batches   slots, the order in which batches are handed over, the end of a stream
    pool      which workers take leases: silence, pauses
    paces     how quick a worker is, and how much it has back in time
    splitting which clips of a batch a worker gets, and how many
    affinity  which host a clip prefers
    blame     whether a clip is bad or its worker
    files     which file each video must be at a worker of another host

All that happens comes through `Scheduler.apply`, as one of ``events``. What the I/O loop has to do
then is what it returns (``commands``).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from contextlib import suppress
from heapq import heappop, heappush

from videoload.activity import Activity
from videoload.errors import (
    Fault,
    RewrittenError,
    StorageError,
    TransformError,
    VideoError,
    VideoloadError,
    named,
)
from videoload.scheduler import events
from videoload.scheduler.batches import Batches
from videoload.scheduler.blame import Blame, Decision, Next, believed, is_trusted
from videoload.scheduler.commands import (
    Changed,
    Command,
    Grant,
    Identify,
    Outbox,
    Warn,
    WorkerId,
)
from videoload.scheduler.events import Event
from videoload.scheduler.files import UNREAD_S, Files, Roots
from videoload.scheduler.pool import SILENCE_S, WorkerPool
from videoload.scheduler.records import Attempt, Chunk, ChunkState, Heap, Lease, Stream, Worker
from videoload.scheduler.splitting import Splitting

_TRIED_ORPHANS = 32  # so many chunks are looked at for a worker, before it is passed over
_LATE, _LATE_S = 3.0, 0.1  # a lease is late after this many times what it should take, and 0.1 s
# ... and after this time where nobody knows how long it should take, or its worker's storage
# refuses. A worker that never said a whole word is taken to be as far away.
_WAITED_S = 2.0
# A worker gets a pause after this many mistakes: clips that it failed at and others could decode.
# Ten clips that it decodes make up for one.
_MISTAKES, _AMENDS = 3, 0.1


class Scheduler:
    """The state of one client: streams, their slots, and the workers in its ``pool``. Others read
    what is public here; only `apply` changes it."""

    def __init__(self, *, credit: int, stall_s: float, silence_s: float) -> None:
        """``credit``: leases that a worker next door holds at once. ``silence_s``: if a remote
        worker is silent for so long, its leases go to others. ``stall_s``: if it is silent for so
        long, the clip that it is at hangs, unless something else explains it."""
        self._outbox: Outbox = []
        self.roots = Roots()
        self._credit = credit
        self.pool = WorkerPool(credit=credit, stall_s=stall_s, silence_s=silence_s)
        self._batches = Batches(self._outbox)
        self._streams = self._batches.streams
        self._splitting = Splitting(self.pool, self._batches, self._outbox)
        self._blame = Blame(self.pool)

    def apply(self, event: Event, now: float) -> list[Command]:
        """Write down what happened, and offer the clips that may be granted then. Returns what the
        I/O loop is to carry out, in this order."""
        self.pool.clock(now)
        has_news = self._note(event)
        if has_news or self.pool.has_gained:
            self._offer_clips(has_news=has_news)
        if isinstance(event, events.Tick):
            self._grant_speculatively()
        if not self._outbox:  # as after most heartbeats
            return []
        commands = self._outbox.copy()
        self._outbox.clear()
        return commands

    def _note(self, event: Event) -> bool:
        """Write down an event. Returns whether it may have brought clips to grant: a free slot, a
        chunk to be granted again, a file that is known now."""
        match event:  # the first ones belong to each lease
            case events.Answered():
                return self._answered(event)
            case events.Heard():
                return self._heard(event)
            case events.SlotBack():
                if event.stream in self._streams:
                    self._streams[event.stream].slot_back(event.slot)
                return True
            case events.BatchWanted():
                self._batches.wanted(event.reader)
                return True
            case events.Heartbeat():
                return self._heartbeat(event)
            case events.Failed():
                return self._failed(event)
            case events.Tick():
                return self._tick()
            case events.Identified():
                return self._identified(event)
            case events.FileChanged():
                stream = self._streams.get(event.stream)
                if stream is not None and stream.files is not None:
                    stream.files.ask_again(event.video)
                return False
            case events.WorkerJoined():
                self.pool.join(event.worker)
                return False
            case events.WorkerLeft():
                return self._worker_left(event)
            case events.WorkerReturned():
                self._forgive(event.worker)
                return False
            case events.StorageRefused():
                self._is_refused(event.worker, event.says)
                return False
            case events.StreamAdded():
                self._streams[event.stream.id] = event.stream
                return False
            case events.SlotsAdded():
                self._streams[event.stream].grow(event.slots)
                return True
            case events.ReaderBegan():
                return self._reader_began(event)
            case events.ReaderEnded():
                self._batches.end(event.reader)
                return True
            case events.StreamFailed():
                if (stream := self._streams.get(event.stream)) is not None and not stream.stopped:
                    self._batches.stop(stream, event.error)
                return False
            case events.StreamDropped():
                return self._stream_dropped(event)

    # Streams and their consumers

    def _reader_began(self, event: events.ReaderBegan) -> bool:
        stream = self._streams[event.stream]
        if not any(each.readers for each in self._streams.values() if each.root == stream.root):
            self.roots.forget(stream.root, self.pool.now)  # it was silent for nobody
        self._batches.begin(stream, event.reader, event.steps.start, event.steps.stop)
        self._batches.wanted(event.reader)
        return True

    def _stream_dropped(self, event: events.StreamDropped) -> bool:
        stream = self._streams.pop(event.stream)
        stream.stopped = True
        for reader in list(stream.readers):
            self._batches.end(reader)
        return True

    # Files

    def _identified(self, event: events.Identified) -> bool:
        stream = self._streams.get(event.stream)
        if stream is None or stream.files is None:
            return False
        for video, found in event.found.items():
            if isinstance(found, int):
                self._own_was_read(stream, stream.files, video, found)
            elif stream.files.is_requested(video):
                self._own_is_unread(stream, stream.files, video, found)
        return True

    def _own_was_read(self, stream: Stream, files: Files, video: int, fingerprint: int) -> None:
        """The trainer has this file; or none, if the fingerprint is 0."""
        stream.was_read([video])
        self.roots.own_was_read(stream.root, self.pool.now)
        if files.identified(video, fingerprint):
            self._outbox.append(Changed(stream.id, video))
        waiting, stream.other_copies = stream.other_copies, []
        for about, said in waiting:
            if about != video:
                stream.other_copies.append((about, said))
            elif files.expected(video) != said.file:
                self._count_other_copy(said)

    def _own_is_unread(
        self, stream: Stream, files: Files, video: int, error: VideoloadError
    ) -> None:
        """Storage that is away is waited for. A file that cannot be read for long is bad: no
        worker's copy stands in for it."""
        if isinstance(error, RewrittenError):
            self._batches.stop(stream, error)
            return
        lasts_s = stream.unread.failed(stream.path_of(video), self.pool.now)
        if isinstance(error, StorageError):
            self.roots.failed(stream.root, str(error), self.pool.now, None)
        if isinstance(error, StorageError) or lasts_s < UNREAD_S:
            files.ask_later(video)
        elif before := files.expected(video):  # it was read before
            self._own_was_read(stream, files, video, before)
        else:
            files.identified(video, 0)  # if nothing is left to replace it, workers may try it
            reason = error.reason if isinstance(error, VideoError) else str(error)
            self._condemn_video(stream, video, reason)

    def _condemn_video(self, stream: Stream, video: int, reason: str) -> None:
        """A video is bad, in whichever open batches it is."""
        with suppress(VideoloadError):  # its clips say so
            stream.quarantine.add(video, reason)
        # Once the stream is stopped, its batches are gone.
        for batch in [batch for r in stream.readers.values() for batch in r.filling.values()]:
            if stream.stopped:
                return
            waiting = [chunk for chunk in batch.chunks if chunk.state is ChunkState.WAITING]
            for chunk in [*waiting, batch.cut([*batch.left])] if batch.left else waiting:
                (chunk.requeue if chunk.size == 1 else chunk.requeue_one_by_one)()
            for chunk in list(batch.chunks):
                is_open = chunk.state is ChunkState.WAITING and not stream.stopped
                if is_open and chunk.samples[0].video == video:
                    self._condemn(chunk, 0, reason, Fault.VIDEO)

    # Workers

    def _is_refused(self, worker: WorkerId, says: str, silent_s: float = 0.0) -> None:
        """The root of the lease that a worker is at does not answer it, it says, or is silent. If
        it has no lease, and nobody takes any, that holds for all roots."""
        if (known := self.pool.get(worker)) is None:
            return
        now, lease, copy = self.pool.now, known.current_lease, known.copy
        since = max(now - silent_s, known.waits_since)
        at = [] if lease is None else [lease.chunk.stream]
        of_all = () if at or self.pool.num_available else self._streams.values()
        for root in {stream.root for stream in (*at, *of_all)}:
            if not silent_s:
                self.roots.is_away(root, says, now, copy)
            elif self.roots.is_silent(root, says, since, now, copy):
                said = self.roots.failure_of(root)
                self._outbox.append(Warn(worker, f"{said and said[1]}; it is waited for"))

    def file_of(self, worker: WorkerId) -> str:
        """The path of the video that a worker is at; "" if it has no lease."""
        known = self.pool.get(worker)
        lease = None if known is None else known.current_lease
        if lease is None or lease.stream not in self._streams:
            return ""
        return self._streams[lease.stream].path_of(lease.videos[0])

    def _heard(self, event: events.Heard) -> bool:
        known = self.pool.get(event.worker)
        if known is not None:
            self.pool.heard(known)
            if known.is_blamed and event.whole:
                known.is_blamed = False
                self._forgive(event.worker)
        return False

    def _heartbeat(self, event: events.Heartbeat) -> bool:
        if (known := self.pool.get(event.worker)) is None:
            return False
        was_refused, says, storage_s = known.is_refused, event.storage, event.storage_s
        known.waits_since = min(known.waits_since, self.pool.now) if storage_s else math.inf
        is_slow = 0 < storage_s < SILENCE_S
        self.pool.beat(known, event.at, is_refused=bool(says) and not is_slow)
        if known.is_refused:
            self._is_refused(event.worker, says, storage_s)
        elif was_refused and (lease := known.current_lease) is not None:
            self.roots.was_read(lease.chunk.stream.root, known.copy, self.pool.now)
        lost = [lease for number, lease in known.leases.items() if number <= event.done]
        self._give_back(lost)
        return bool(lost)

    def _worker_left(self, event: events.WorkerLeft) -> bool:
        gone = self.pool.leave(event.worker)
        if gone is None:
            return False
        at_work = event.at_work
        at = gone.current_lease if at_work is None else gone.leases.get(at_work)
        if event.died and at is not None:
            self._never_answered(at, died=True)
        self._give_back(list(gone.leases.values()))
        return not event.more_leave

    def _give_back(self, leases: list[Lease]) -> None:
        """Nobody works on these leases any more."""
        for lease in leases:
            was_owed = lease.is_owed
            self.pool.given_up(lease)
            if was_owed:
                lease.chunk.requeue_if_abandoned()

    def _forgive(self, worker: WorkerId) -> None:
        """It is not noted any more that this worker never answered: it may after all."""
        for chunk in self._batches.open_chunks:
            left = [each for each in chunk.attempts if each.fault or each.worker.id != worker]
            if len(left) < len(chunk.attempts):
                chunk.note(left)

    def _tick(self) -> bool:
        """The leases of silent remote workers go to others."""
        self.pool.tick()
        for lease in self.pool.stalled_leases():
            self._never_answered(lease)
        for stream in self._streams.values():
            for reader in list(stream.readers.values()):
                self._settle(reader.requeued)
                self._settle(reader.suspects)
            if stream.files is not None:
                self._ask_again(stream, stream.files)
        return True

    def _ask_again(self, stream: Stream, files: Files) -> None:
        may_try = lambda video: stream.unread.may_try(stream.path_of(video), self.pool.now)  # noqa: E731
        if due := files.to_ask_again(may_try):
            self._outbox.append(Identify(stream.id, due))

    # Leases and their answers

    def lease(self, worker: WorkerId, lease: int) -> Lease | None:
        """The lease of this number, if the worker still holds it."""
        return self.pool.lease(worker, lease)

    def other_file(self, lease: Lease, files: Sequence[int]) -> int | None:
        """Which clip of an answer is of another file than the stream uses, None if none is.
        ``files``: their fingerprints, as the worker reports them."""
        stream = lease.chunk.stream
        if stream.files is None or not lease.is_checked:
            return None
        return stream.files.first_other(lease.videos, files)

    def _answered(self, event: events.Answered) -> bool:
        lease, decode_s = event.lease, event.decode_s
        stream, chunk, was_owed = self._streams.get(lease.stream), lease.chunk, lease.is_owed
        clip_s = math.inf if stream is None else stream.clip_s(lease.sample)
        self.pool.answered(lease, decode_s, clip_s, event.waited_s)
        self.roots.was_read(chunk.stream.root, lease.worker.copy, self.pool.now)
        if not was_owed:  # its slot may have waited for this
            return True
        chunk.stream.note_clip_time(lease.sample, decode_s / chunk.size)
        chunk.stream.was_read(lease.videos)
        if lease.is_checked and chunk.stream.files is not None:
            chunk.stream.files.pin_first(lease.videos, event.files)
        chunk.batch.write_metadata(chunk.rows, event.info)
        chunk.void_leases()
        lease.worker.mistakes = max(0.0, lease.worker.mistakes - _AMENDS * chunk.size)
        for said in chunk.reported_failures:  # those that said it cannot be decoded were wrong
            if not said.is_of_worker and said.fault is not Fault.UNREAD:  # that was counted
                self._count_mistake(said)
        self._batches.done(chunk)
        return False

    def _failed(self, event: events.Failed) -> bool:
        """`blame` decides what follows."""
        lease, was_owed = event.lease, event.lease.is_owed
        self.pool.given_up(lease)
        if event.fault is Fault.AWAY:
            root, copy = lease.chunk.stream.root, lease.worker.copy
            if self.roots.failed(root, event.reason, self.pool.now, copy):
                self._outbox.append(Warn(lease.worker.id, f"{event.reason}; it is tried again"))
            if was_owed:
                lease.chunk.requeue_if_abandoned()
        elif was_owed:
            said = Attempt(lease.worker, event.fault, event.reason, event.file, self.pool.now)
            self._said(lease.chunk, event.at, said)
        return True

    # What clips did not do, and what follows

    def _said(self, chunk: Chunk, at: int, said: Attempt) -> None:
        """A worker answers that it cannot decode clip ``at``, or its answer is not taken."""
        chunk.void_leases()
        if not 0 <= at < chunk.size:
            why = f"worker named clip {at} of {chunk.size}: {said.reason}"
            said, at = Attempt(said.worker, said.fault, why, said.file, said.at), 0
        stream, video = chunk.stream, chunk.samples[at].video
        said = self._blame.judged(stream, video, said)
        if is_trusted(said):
            self._follow(chunk, at, believed(said))
            return
        if said.fault is Fault.COPY:
            self._note_other_copy(stream, video, said)
        elif said.fault is Fault.CODE:
            self._count_mistake(said)
        elif said.fault is Fault.UNREAD:
            path = stream.path_of(video)
            stream.unread.failed(path, self.pool.now)
            why = f"{named(path)} {said.reason}; it is tried again"
            self._outbox.append(Warn(said.worker.id, why))
        one = chunk.single_out(at)
        one.note([*one.attempts, said])
        self._follow(one, 0, self._blame.decide(one))

    def _never_answered(self, lease: Lease, *, died: bool = False) -> None:
        """A worker was at this lease, was alive, and died or is silent without an answer."""
        chunk, worker = lease.chunk, lease.worker
        if not self._blame.counts(lease, died=died):
            return
        if self._blame.is_in_function(worker):
            chunk.stream.stood_still_in.add((chunk.batch.step, chunk.rows[0]))
            if (slow := self._blame.is_function_slow(chunk)).next is Next.END:
                self._batches.stop(chunk.stream, TransformError(slow.reason))
                return
        tries = chunk.attempts
        if self._blame.stands_still(chunk) and not worker.local:
            tries = [each for each in tries if each.fault or each.worker.local]
        chunk.note([*tries, Attempt(worker, None, at=self.pool.now)])
        worker.is_blamed = True
        if chunk.size > 1:
            chunk.requeue_one_by_one()
        else:
            self._follow(chunk, 0, self._blame.decide(chunk))

    def _settle(self, heap: Heap) -> None:
        """Decide on doubted clips if the workers that could have been asked have left."""
        for _, _, chunk in list(heap):
            if chunk.stream.stopped or not any(self.pool.responsive):
                return
            if chunk.state is ChunkState.WAITING and chunk.reported_failures:
                self._follow(chunk, 0, self._blame.decide(chunk))

    def _follow(self, chunk: Chunk, at: int, decision: Decision) -> None:
        """Do what was decided about clip ``at``."""
        match decision.next:
            case Next.RETRY:
                chunk.requeue_if_abandoned()
            case Next.BAD:
                self._condemn(chunk, at, decision.reason, decision.fault)
            case Next.END:
                is_of_storage = decision.fault is Fault.REWRITTEN
                kind = StorageError if is_of_storage else TransformError
                self._end_at(chunk, at, kind(decision.reason))

    def _end_at(self, chunk: Chunk, at: int, error: VideoloadError) -> None:
        """The stream ends at this clip, once a consumer waits for its batch."""
        batch, row = chunk.batch, chunk.rows[at]
        chunk.void_leases()
        if batch.error is None or row < batch.error[0]:
            batch.error = row, error
        self._batches.done(chunk)

    def _condemn(self, chunk: Chunk, at: int, reason: str, fault: Fault) -> None:
        """This clip's video is bad: another clip stands in for it, or it is left out. If none can,
        the stream ends there."""
        batch, row, stream = chunk.batch, chunk.rows[at], chunk.stream
        chunk.void_leases()  # a silent worker may respond again
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
            self._end_at(chunk, at, error)
            return
        chunk.note([])
        chunk.requeue()
        self._batches.stop_if_due(batch)

    def _note_other_copy(self, stream: Stream, video: int, said: Attempt) -> None:
        """The worker's copy is another one. That is its mistake, unless the file has changed."""
        if stream.files is None or not stream.files.ask_again(video):
            self._count_other_copy(said)
            return
        stream.other_copies.append((video, said))
        if videos := stream.files.to_ask((video,)):
            self._outbox.append(Identify(stream.id, videos))

    def _count_other_copy(self, said: Attempt) -> None:
        self._outbox.append(Warn(said.worker.id, said.reason))
        self._count_mistake(said)

    def _count_mistake(self, said: Attempt) -> None:
        """A worker failed at a clip that others can decode. What it was granted before a pause adds
        nothing to it."""
        worker, now = said.worker, self.pool.now
        if now < worker.paused_until:
            return
        worker.mistakes += 1
        if self.pool.get(worker.id) is None or worker.mistakes < _MISTAKES:
            return
        worker.mistakes = 0.0
        worker.paused_until = now + worker.pauses.next_s()
        self.pool.update_availability(worker)
        self._outbox.append(Warn(worker.id, said.reason, worker.pauses.pause_s))

    # What is granted next

    def _offer_clips(self, *, has_news: bool) -> None:
        """Offer the clips that are to be granted. Without ``has_news``, only workers have gained
        credit: the others were offered these clips before."""
        gained = self.pool.take_newly_available()
        if self.pool.has_credit and self._batches.have_clips:
            self._offer(self._splitting.takers() if has_news else gained)
        self._batches.deliver_empty()

    def _offer(self, workers: list[Worker]) -> None:
        """Grant leases to these workers in rounds, as described above."""
        has_choice = self.pool.affinity.has_choice
        dry: set[Hashable] = set()  # nothing that is left is for workers of these kinds
        while workers and self._batches.have_clips:
            are_alike = not self._batches.have_tried
            took: dict[Worker, None] = {}
            for others in (False, True) if has_choice else (True,):
                for worker in workers:
                    if worker in took or (others and has_choice and worker.is_fed):
                        continue
                    checks = [stream.checks(worker) for stream in self._streams.values()]
                    kind = (
                        worker.local, others or worker.host,
                        self.roots.are_paused and worker.copy, *checks,
                    )  # fmt: skip
                    if kind in dry:
                        continue
                    if (chunk := self._next_chunk(worker, others=others)) is not None:
                        self._grant_to(worker, chunk)
                        took[worker] = None
                    elif are_alike and not self.pool.is_slow(worker):
                        dry.add(kind)
            workers = [worker for worker in took if self.pool.would_take(worker)]
        self.pool.take_newly_available()

    def _grant_to(self, worker: Worker, chunk: Chunk) -> None:
        lease, stream = self.pool.give(worker, chunk), chunk.stream
        files = None
        if stream.files is not None and lease.is_checked:
            files = tuple(map(stream.files.expected, lease.videos))
        samples = tuple(chunk.samples)
        self._outbox.append(
            Grant(worker.id, lease.id, stream.id, lease.slot, lease.rows, samples, files)
        )

    def _grant_speculatively(self) -> None:
        """Ask an idle worker as well for chunks that a consumer waits for and that remote workers
        are late with; a slow one, once it would be done itself. A local worker keeps its chunks,
        since no other may write there."""
        for reader in self._batches.by_need:
            if not reader.waiting or not reader.filling:
                continue
            step = reader.next_delivery if reader.stream.ordered else min(reader.filling)
            batch = reader.filling.get(step)
            for chunk in () if batch is None else list(batch.chunks):
                if not self._is_straggling(chunk):
                    continue
                idle = (
                    worker
                    for worker in self.pool.idle
                    if self._is_straggling(chunk, worker)
                    and (not chunk.attempts or self._blame.may_take(worker, chunk))
                    and self._splitting.may_decode(worker, reader.stream, chunk.samples)
                    and self.roots.may_try(reader.stream.root, worker.copy, self.pool.now)
                )
                if (worker := next(idle, None)) is not None:
                    self._grant_to(worker, chunk)

    def _is_straggling(self, chunk: Chunk, other: Worker | None = None) -> bool:
        """Whether remote workers alone have it, and the last one of them for much longer than it
        should take a quick one, or ``other`` if that is slow; or whether that one cannot read. If
        several had it, the clip may be to blame, and more would only follow them."""
        if chunk.state is not ChunkState.GRANTED or not chunk.holders:
            return False
        lease = [*chunk.holders][-1]
        worker, has_had_s = lease.worker, self.pool.now - lease.granted_at
        is_doubted = chunk.attempts or len(chunk.holders) > 1
        if worker.local or (is_doubted and (worker.is_silent or has_had_s < self.pool.stall_s)):
            return False
        if worker.is_refused:
            return has_had_s > _WAITED_S
        if worker.pace.fetches:  # it would be fetched again as well
            return False
        is_slow = other is not None and self.pool.is_slow(other)
        pace = other.pace.value if other is not None and is_slow else self.pool.paces.quick or 1.0
        due_s = chunk.size * chunk.stream.clip_s(lease.sample) * pace
        due_s *= max(1.0, (lease.before + 1) / self._credit)
        if math.isinf(due_s):  # another worker would call a function of the user's as well
            return has_had_s > _WAITED_S and worker.at is not Activity.FUNCTION
        return has_had_s > _LATE * due_s + min(worker.pace.min_rtt_s, _WAITED_S) + _LATE_S

    def _next_chunk(self, worker: Worker, *, others: bool = True) -> Chunk | None:
        readers = [
            reader
            for reader in self._batches.by_need
            if self.roots.may_try(reader.stream.root, worker.copy, self.pool.now)
        ]
        may_try = any(reader.suspects for reader in readers) and worker in self.pool.reliable
        accused = [each.suspects for each in readers if may_try or each.stream.local_only]
        chunk = self._next_to_try(accused, worker) if worker.answered else None
        if chunk is not None and worker.leases and chunk.unanswered:
            chunk.requeue()  # until this worker has nothing else to do
            return None
        if chunk is not None:
            return chunk
        for reader in readers:
            chunk = self._next_of(reader.requeued, worker)
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
                chunk.note([])
            may_decode = self._splitting.may_decode(worker, chunk.stream, chunk.samples)
            if may_decode and self._blame.may_take(worker, chunk):
                chunk.state = ChunkState.GRANTED
                found = chunk
            else:
                kept.append(orphan)
        for orphan in kept:
            heappush(orphan[2].waits_in, orphan)
        return found
