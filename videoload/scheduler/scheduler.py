"""The scheduler: assigns clips to workers. Pure: events in, commands out, no sockets, no threads,
no clock.

A *reader* reads a stream once, for one consumer. It opens batches, in step order, into free slots.
Each open batch is split into *chunks* of its clips. A worker is granted a chunk as a *lease*. The
invariants:

  * A chunk is done once. Its first valid answer counts, and a later one finds its lease void.
  * The fence: at most one live lease of a chunk writes into shared memory, the one of a local
    worker. The chunk is requeued only after that worker is dead. A cancelled batch holds its
    slot until all its local leases are answered, or their workers are dead.
  * A remote worker does not write. So the chunks of a silent one go to the next worker at once, and
    the first answer wins. If the next worker is local, the remote leases become void.
  * If a consumer waits for an overdue remote worker, an idle worker gets a speculative lease.
  * Read-ahead decides nothing: see `endings`.

All events enter through `Scheduler.apply`; the I/O loop executes the ``commands`` that it returns.
Nothing else changes the records. The other files know, or decide:

    records   streams, readers, batches, chunks, leases, workers, and how each changes
    pool      which workers take leases: silence, pauses
    paces     how quick a worker is, and how much it has back in time
    offering  which clips a worker is granted, and how many
    affinity  which host a clip prefers
    blame     whether a clip is bad or its worker
    endings   what ends a stream
    files     which file each video must be at a worker of another host, and what cannot be read
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

from videoload.errors import Fault, RewrittenError, StorageError, VideoError, VideoloadError, named
from videoload.scheduler import endings, events
from videoload.scheduler.blame import Blame, Decision, Next, believed, is_trusted
from videoload.scheduler.commands import (
    AddSlots,
    Changed,
    Command,
    Grant,
    Identify,
    Stop,
    Warn,
    WorkerId,
)
from videoload.scheduler.events import Event
from videoload.scheduler.files import UNREAD_S, Files, Roots
from videoload.scheduler.offering import NewChunk, Offering
from videoload.scheduler.pool import SILENCE_S, WorkerPool
from videoload.scheduler.records import (
    Attempt,
    Batch,
    Chunk,
    ChunkState,
    Heap,
    Lease,
    Reader,
    Stream,
    Worker,
)

# A worker gets a pause after this many mistakes: clips that it failed at and others could decode.
# Ten clips that it decodes make up for one.
_MISTAKES, _AMENDS = 3, 0.1


class Scheduler:
    """The state of one client: streams, their slots, and the workers in its ``pool``. Others read
    what is public here; only `apply` changes it."""

    def __init__(
        self, *, credit: int, stall_s: float, silence_s: float,
        storage_timeout_s: float | None = None,
    ) -> None:  # fmt: skip
        """``credit``: leases that a worker without a round trip holds at once. ``silence_s``: if a
        remote worker is silent for so long, its leases go to others. ``stall_s``: if it is silent
        for so long, the clip that it is at hangs, unless something else explains it. If no worker
        can read a root for ``storage_timeout_s``, its streams end."""
        self._storage_timeout_s = storage_timeout_s
        self._outbox: list[Command] = []
        self.roots = Roots()
        self.pool = WorkerPool(credit=credit, stall_s=stall_s, silence_s=silence_s)
        self._streams: dict[int, Stream] = {}
        self._readers: dict[int, Reader] = {}  # of all streams
        self._blame = Blame(self.pool, self.roots)
        self._offering = Offering(self._streams, self.pool, self.roots, self._blame)
        self._lease_ids = count(1)
        self._handlers: dict[type, Callable[[Any], bool]] = {
            events.StreamAdded: self._stream_added,
            events.StreamDropped: self._stream_dropped,
            events.StreamFailed: self._stream_failed,
            events.SlotsAdded: self._slots_added,
            events.ReaderBegan: self._reader_began,
            events.BatchWanted: self._batch_wanted,
            events.SlotBack: self._slot_back,
            events.ReaderEnded: self._reader_ended,
            events.Identified: self._identified,
            events.FileChanged: self._file_changed,
            events.WorkerJoined: self._worker_joined,
            events.Heard: self._heard,
            events.Heartbeat: self._heartbeat,
            events.WorkerLeft: self._worker_left,
            events.Answered: self._answered,
            events.Failed: self._failed,
            events.Tick: self._tick,
        }

    def apply(self, event: Event, now: float) -> list[Command]:
        """Write down what happened, and offer the clips that may be granted then. Returns what the
        I/O loop is to carry out, in this order."""
        self.pool.clock(now)
        if self._handlers[type(event)](event):
            self._offer()
        elif gained := self.pool.take_newly_available():
            self._offer(gained)
        commands, self._outbox = self._outbox, []
        return commands

    # The handlers return whether they may have brought clips to grant: a free slot, a requeued
    # chunk, a file that is known now.

    # Streams and their consumers

    def _stream_added(self, event: events.StreamAdded) -> bool:
        self._streams[event.stream.id] = event.stream
        return False

    def _stream_dropped(self, event: events.StreamDropped) -> bool:
        for reader in list(self._streams.pop(event.stream).readers.values()):
            self._end_reader(reader)
        return False

    def _stream_failed(self, event: events.StreamFailed) -> bool:
        if (stream := self._streams.get(event.stream)) is not None:
            self._end(stream, endings.of_call(event.error))
        return False

    def _slots_added(self, event: events.SlotsAdded) -> bool:
        self._streams[event.stream].grow(event.slots)
        return True

    def _reader_began(self, event: events.ReaderBegan) -> bool:
        stream, steps = self._streams[event.stream], event.steps
        if not any(each.readers for each in self._streams.values() if each.root == stream.root):
            self.roots.forget(stream.root, self.pool.now)  # its silence affected no reader
        reader = Reader(event.reader, stream, steps.start, steps.stop, steps.start)
        self._readers[reader.id] = reader
        if added := stream.begin(reader):
            self._outbox.append(AddSlots(stream.id, added))
        return self._want(reader)

    def _batch_wanted(self, event: events.BatchWanted) -> bool:
        reader = self._readers.get(event.reader)
        return reader is not None and self._want(reader)

    def _want(self, reader: Reader) -> bool:
        """Note that its consumer waits for the next batch."""
        if not reader.unfinished or reader.stream.ended is not None:
            return False
        reader.waiting = True
        self._deliver(reader)  # it may be the batch at which the stream ends
        if (batch := reader.filling.get(reader.next_delivery)) is not None:
            self._end_if_due(batch)
        return True

    def _slot_back(self, event: events.SlotBack) -> bool:
        stream = self._streams.get(event.stream)
        if stream is None:
            return False
        stream.slot_back(event.slot)
        return True

    def _reader_ended(self, event: events.ReaderEnded) -> bool:
        if (reader := self._readers.get(event.reader)) is not None:
            self._end_reader(reader)
        return True

    def _end_reader(self, reader: Reader) -> None:
        del self._readers[reader.id]
        reader.stream.end(reader)

    # Batches

    def _open_batches(self) -> None:
        """Open batches into free slots: all, if it depends on the worker which clips are for it; or
        else the next one, if no other has clips in no chunk."""
        has_choice = self.pool.affinity.has_choice
        for reader in self._readers.values():
            opens_all = has_choice or reader.stream.files is not None
            while reader.can_open and (opens_all or not reader.splitting):
                self._open(reader)

    def _open(self, reader: Reader) -> None:
        stream, step, error = reader.stream, reader.next_step, None
        reader.next_step += 1
        try:
            samples = stream.quarantine.kept(stream.plan[step])
        except Exception as cause:  # it belongs to this stream, for any caller
            samples, error, reader.stop = [], (0, endings.of_plan(step, cause)), step + 1
        stream.batch_clips = max(stream.batch_clips, len(samples))
        rows = dict.fromkeys(range(len(samples)))
        batch = Batch(reader, step, reader.free.pop(), samples, rows, error=error)
        if not samples:  # all its clips are known to be bad
            reader.complete[step] = batch
            self._deliver(reader)
            return
        reader.filling[step], reader.splitting[batch] = batch, None
        if (affinity := self.pool.affinity).has_choice:
            paths = (stream.path_of(each.video) for each in samples)
            reader.note_hosts(batch, affinity.hosts_of(paths))

    def _done(self, chunk: Chunk) -> None:
        """Note that this chunk is done."""
        batch = chunk.batch
        batch.chunks.pop(chunk, None)
        chunk.state = ChunkState.DONE
        if not batch.chunks and not batch.left:
            reader = batch.reader
            reader.complete[batch.step] = reader.filling.pop(batch.step)
            self._deliver(reader)

    def _deliver(self, reader: Reader) -> None:
        """Hand over the batches whose turn it is, or end the stream at one."""
        for first in [reader.next_delivery] if reader.stream.ordered else sorted(reader.complete):
            step = first
            while (batch := reader.complete.get(step)) is not None:
                if (error := endings.error_at(batch)) is not None:
                    if reader.waiting:
                        self._end(reader.stream, error)
                    return
                del reader.complete[step]
                self._outbox.append(batch.ready())
                reader.waiting = False
                step += 1
                reader.next_delivery = step

    def _end_if_due(self, batch: Batch) -> None:
        """End the stream if its consumer waits for this batch, which shows already that it does."""
        reader = batch.reader
        is_next = not reader.stream.ordered or batch.step == reader.next_delivery
        if reader.waiting and is_next and (error := endings.error_before(batch)) is not None:
            self._end(reader.stream, error)

    def _end(self, stream: Stream, error: VideoloadError) -> None:
        """A stream ends, once: see `endings`."""
        if stream.ended is None:
            stream.ended = error
            for reader in stream.readers.values():
                reader.cancel()
            self._outbox.append(Stop(stream.id, error))

    # Files

    def _identified(self, event: events.Identified) -> bool:
        stream = self._streams.get(event.stream)
        if stream is None or stream.files is None:
            return False
        for video, found in event.found.items():
            was_asked = stream.files.looked_at(video)
            if isinstance(found, int):
                self._own_was_read(stream, stream.files, video, found)
            elif was_asked:
                self._own_is_unread(stream, stream.files, video, found)
        return True

    def _file_changed(self, event: events.FileChanged) -> bool:
        stream = self._streams.get(event.stream)
        if stream is not None and stream.files is not None:
            stream.files.ask_again(event.video)
        return False

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
        """Handle an unreadable own file. Wait for storage that does not respond. A file that cannot
        be read for long is bad: no worker's copy replaces it."""
        if isinstance(error, RewrittenError):
            self._end(stream, error)
            return
        if isinstance(error, StorageError):
            self.roots.failed(stream.root, str(error), self.pool.now, None)
        else:
            self.roots.responded(stream.root, self.pool.now)
        lasts_s = self._note_unread(stream, video)
        if isinstance(error, StorageError) or lasts_s < UNREAD_S:
            files.ask_later(video)
        elif before := files.expected(video):  # it was read before
            self._own_was_read(stream, files, video, before)
        else:
            files.identified(video, 0)  # if nothing is left to replace it, workers may try it
            reason = error.reason if isinstance(error, VideoError) else str(error)
            self._condemn_video(stream, video, reason)

    def _note_unread(self, stream: Stream, video: int) -> float:
        """Note that a file could not be read; return for how long it cannot be read."""
        now = self.pool.now
        return stream.unread.failed(stream.path_of(video), now, self.roots.away_s(stream.root, now))

    def _condemn_video(self, stream: Stream, video: int, reason: str) -> None:
        """A video is bad, in whichever open batches it is."""
        with suppress(VideoloadError):  # its clips raise it
            stream.quarantine.add(video, reason)
        # Once the stream has ended, its batches are gone.
        for batch in [batch for r in stream.readers.values() for batch in r.filling.values()]:
            if stream.ended is not None:
                return
            waiting = [chunk for chunk in batch.chunks if chunk.state is ChunkState.WAITING]
            for chunk in [*waiting, batch.cut([*batch.left])] if batch.left else waiting:
                (chunk.requeue if chunk.size == 1 else chunk.requeue_one_by_one)()
            for chunk in list(batch.chunks):
                is_open = chunk.state is ChunkState.WAITING and stream.ended is None
                if is_open and chunk.samples[0].video == video:
                    self._condemn(chunk, 0, reason, Fault.VIDEO)

    # Workers

    def _worker_joined(self, event: events.WorkerJoined) -> bool:
        self.pool.join(event.worker)
        return False

    def _is_refused(self, worker: Worker, says: str, silent_s: float = 0.0) -> None:
        """Note a worker's report that the root of its lease refuses, or does not respond. If it has
        no lease, and no worker takes any, this concerns all roots."""
        now, lease, copy = self.pool.now, worker.current_lease, worker.copy
        since = max(now - silent_s, worker.waits_since)
        at = [] if lease is None else [lease.chunk.stream]
        of_all = () if at or self.pool.num_available else self._streams.values()
        for root in {stream.root for stream in (*at, *of_all)}:
            if not silent_s:
                self.roots.note_down(root, says, now, copy)
            else:
                self.roots.is_silent(root, says, since, now, copy)

    def file_of(self, worker: WorkerId) -> str:
        """Return the path of the video that a worker is at; "" if it has no lease."""
        known = self.pool.get(worker)
        lease = None if known is None else known.current_lease
        if lease is None or lease.stream not in self._streams:
            return ""
        return self._streams[lease.stream].path_of(lease.videos[0])

    def _heard(self, event: events.Heard) -> bool:
        if (known := self.pool.get(event.worker)) is not None:
            self._hears(known, whole=event.whole)
        return False

    def _hears(self, worker: Worker, *, whole: bool = True) -> None:
        self.pool.heard(worker)
        if worker.is_blamed and whole:
            worker.is_blamed = False
            self._forgive(worker.id)

    def _heartbeat(self, event: events.Heartbeat) -> bool:
        if (known := self.pool.get(event.worker)) is None:
            return False
        self._hears(known)
        was_refused, says, storage_s = known.is_refused, event.storage, event.storage_s
        known.waits_since = min(known.waits_since, self.pool.now) if storage_s else math.inf
        is_slow = 0 < storage_s < SILENCE_S
        self.pool.beat(known, event.at, is_refused=bool(says) and not is_slow)
        if known.is_refused:
            self._is_refused(known, says, storage_s)
        elif was_refused and (lease := known.current_lease) is not None:
            self.roots.was_read(lease.chunk.stream.root, known.copy, self.pool.now)
        lost = [lease for number, lease in known.leases.items() if number <= event.done]
        self._give_back(lost)
        return bool(lost)

    def _worker_left(self, event: events.WorkerLeft) -> bool:
        if not event.died:
            self._forgive(event.worker)
        if (gone := self.pool.get(event.worker)) is None:
            return False
        if event.refused:
            self._is_refused(gone, event.refused)
        self.pool.leave(gone)
        at_work = event.at_work
        at = gone.current_lease if at_work is None else gone.leases.get(at_work)
        if event.died and at is not None:
            self._never_answered(at, died=True)
        self._give_back(list(gone.leases.values()))
        return not event.more_leave

    def _give_back(self, leases: list[Lease]) -> None:
        """Requeue the chunks of these leases, which no worker works on any more."""
        for lease in leases:
            was_owed = lease.is_owed
            self.pool.given_up(lease)
            if was_owed:
                lease.chunk.requeue_if_abandoned()

    def _forgive(self, worker: WorkerId) -> None:
        """Delete the records of missing answers of this worker: it may answer after all."""
        batches = [batch for r in self._readers.values() for batch in r.filling.values()]
        for chunk in [chunk for batch in batches for chunk in batch.chunks]:
            left = [each for each in chunk.attempts if each.fault or each.worker.id != worker]
            if len(left) < len(chunk.attempts):
                chunk.note(left)

    def _tick(self, event: events.Tick) -> bool:
        for worker in self.pool.tick():  # its leases go to others
            for lease in worker.leases.values():
                if lease.is_owed:
                    lease.chunk.requeue_if_abandoned()
        for lease in self.pool.stalled_leases():
            self._never_answered(lease)
        for reader in list(self._readers.values()):
            self._settle(reader.requeued)
            self._settle(reader.suspects)
        for stream in self._streams.values():
            if stream.files is not None:
                self._ask_again(stream, stream.files)
        self._look_at_roots()
        self._offer(stragglers=self._offering.stragglers())
        return False

    def _ask_again(self, stream: Stream, files: Files) -> None:
        may_try = lambda video: stream.unread.may_try(stream.path_of(video), self.pool.now)  # noqa: E731
        if due := files.to_ask_again(may_try, self.pool.now):
            self._outbox.append(Identify(stream.id, due))

    def _look_at_roots(self) -> None:
        """Note the roots that do not respond to the trainer, and end the streams of one that has
        not responded to any worker for too long. Roots without readers are not checked."""
        now, roots, limit_s = self.pool.now, self.roots, self._storage_timeout_s
        for stream in self._streams.values():
            if stream.files is not None and (asked := stream.files.longest_asked) is not None:
                video, since = asked
                path = f"{stream.root}/{named(stream.path_of(video))}"
                roots.is_silent(stream.root, path, since, now, None)
        are_read = {reader.stream.root for reader in self._readers.values()}
        for root in roots:
            since, says = roots.failure_of(root) or (now, "")
            if root not in are_read:
                roots.forget(root, now)
            elif limit_s is not None and now - since >= limit_s:
                roots.forget(root, now)
                for stream in self._streams.values():
                    if stream.root == root:
                        self._end(stream, endings.of_root(says, limit_s))
        self._outbox += [
            Warn(None, line)
            for line in roots.news(now, partial(self.pool.unable_to_read, roots.copies_away))
        ]

    # Leases and their answers

    def lease(self, worker: WorkerId, lease: int) -> Lease | None:
        """Return the lease of this number, if the worker still holds it."""
        return self.pool.lease(worker, lease)

    def other_file(self, lease: Lease, files: Sequence[int]) -> int | None:
        """Return the clip of an answer that is of another file than the stream uses, None if none
        is. ``files``: their fingerprints, as the worker reports them."""
        stream = lease.chunk.stream
        if stream.files is None or not lease.is_checked:
            return None
        return stream.files.first_other(lease.videos, files)

    def _answered(self, event: events.Answered) -> bool:
        lease, decode_s = event.lease, event.decode_s
        self._hears(lease.worker)
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
        for said in chunk.reported_failures:  # those that reported a failure were wrong
            if not said.is_of_worker and said.fault is not Fault.UNREAD:  # that was counted
                self._count_mistake(said)
        self._done(chunk)
        return False

    def _failed(self, event: events.Failed) -> bool:
        """`blame` decides what follows."""
        lease, was_owed = event.lease, event.lease.is_owed
        self._hears(lease.worker)
        self.pool.given_up(lease)
        if event.fault is Fault.AWAY:
            root, copy = lease.chunk.stream.root, lease.worker.copy
            if self.roots.failed(root, event.reason, self.pool.now, copy):
                self._outbox.append(Warn(lease.worker.id, f"{event.reason}; retrying"))
            if was_owed:
                lease.chunk.requeue_if_abandoned()
            return True
        if event.fault is not Fault.CODE:  # it read something
            self.roots.responded(lease.chunk.stream.root, self.pool.now)
        if was_owed:
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
            self._note_unread(stream, video)
            why = f"{named(stream.path_of(video))} {said.reason}; retrying"
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
                self._end(chunk.stream, endings.of_clip(slow))
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
        """Decide on suspect clips if the candidate workers have left."""
        for _, _, chunk in list(heap):
            if chunk.stream.ended is not None or not any(self.pool.responsive):
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
                self._end_at(chunk, at, endings.of_clip(decision))

    def _end_at(self, chunk: Chunk, at: int, error: VideoloadError) -> None:
        """The stream ends at this clip, once a consumer waits for its batch."""
        batch, row = chunk.batch, chunk.rows[at]
        chunk.void_leases()
        if batch.error is None or row < batch.error[0]:
            batch.error = row, error
        self._done(chunk)

    def _condemn(self, chunk: Chunk, at: int, reason: str, fault: Fault) -> None:
        """This clip's video is bad: another clip stands in for it, or it is left out. If none can,
        the stream ends there."""
        batch, row, stream = chunk.batch, chunk.rows[at], chunk.stream
        chunk.void_leases()  # a silent worker may respond again
        try:
            stream.quarantine.add(batch.samples[row].video, reason, fault)
            if stream.quarantine.skips:
                batch.left_out.add(row)
                self._done(chunk.single_out(at))
                return
            batch.samples[row] = stream.quarantine.instead_of(batch.samples[row])
        except VideoloadError as error:
            self._end_at(chunk, at, error)
            return
        chunk.note([])
        chunk.requeue()
        self._end_if_due(batch)

    def _note_other_copy(self, stream: Stream, video: int, said: Attempt) -> None:
        """The worker's copy is another one. That is its mistake, unless the file has changed."""
        if stream.files is None or not stream.files.ask_again(video):
            self._count_other_copy(said)
            return
        stream.other_copies.append((video, said))
        self._identify(stream, [video])

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

    def _offer(
        self, workers: Sequence[Worker] | None = None, stragglers: Sequence[Chunk] = ()
    ) -> None:
        """Grant what `Offering.offers` yields."""
        if self.pool.has_credit:
            self._open_batches()
            for worker, found in self._offering.offers(workers, stragglers):
                self._grant(worker, found.cut() if isinstance(found, NewChunk) else found)
                if not found.batch.reader.splitting:
                    self._open_batches()
            for reader, videos in self._offering.take_unknown():
                self._identify(reader.stream, [*videos, *self._seen_ahead(reader)])
        self.pool.take_newly_available()

    def _grant(self, worker: Worker, chunk: Chunk) -> None:
        batch, stream = chunk.batch, chunk.stream
        if chunk.state is ChunkState.WAITING:
            chunk.take()
        if worker.local:
            chunk.void_leases()
            worker.pace.fetches = stream.fetched  # it gets its files from where they are
        samples, is_checked = tuple(chunk.samples), stream.checks(worker)
        videos = tuple([sample.video for sample in samples])
        lease = Lease(
            next(self._lease_ids), worker, chunk, stream.id, batch.slot, chunk.rows, videos,
            self.pool.now, before=len(worker.leases), is_checked=is_checked,
        )  # fmt: skip
        chunk.holders[lease] = None
        batch.reader.last_lease = lease.id
        self.pool.granted(lease)
        files = None
        if is_checked and stream.files is not None:
            files = tuple(map(stream.files.expected, videos))
        self._outbox.append(
            Grant(worker.id, lease.id, stream.id, batch.slot, chunk.rows, samples, files)
        )

    def _seen_ahead(self, reader: Reader) -> list[int]:
        """Return the videos of a reader's open batches, and of as many after them; each batch
        once."""
        open_steps = [batch.step for batch in reader.splitting]
        first = max(reader.looked_until, min(open_steps, default=reader.next_step))
        steps = range(first, min(reader.stop, reader.next_step + reader.slots))
        reader.looked_until = max(reader.looked_until, steps.stop)
        videos = []
        for step in steps:
            with suppress(Exception):  # the batch of this step raises it: see `_open`
                videos += [sample.video for sample in reader.stream.plan[step]]
        return videos

    def _identify(self, stream: Stream, videos: Sequence[int]) -> None:
        """Request the fingerprints of the trainer's own files of these videos, once."""
        if stream.files is not None and (requested := stream.files.to_ask(videos, self.pool.now)):
            self._outbox.append(Identify(stream.id, requested))
