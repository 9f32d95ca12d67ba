"""Batches from when they are opened until they are handed over, the turns of readers, and where a
stream ends. Pure: no sockets, no threads, no clock.

  * A slot has one owner at a time: free -> filling (its batch) -> held (the consumer) -> free.
    The number of slots bounds the memory, whatever the number of workers.
  * The reader that was asked last owns the slots of the stream. A reader that was left half-way
    gives back what was not consumed, and decodes it again when it is asked again. A reader that
    waits takes one batch before another reader may own them; then readers that wait take turns. So
    two iterators over one stream, in one thread or in two, never wait for each other for good.
  * Read-ahead decides nothing. If too many videos are bad, or a transform failed, the stream ends
    at the batch that this belongs to, after all batches before it, once a consumer waits for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush

from videoload.errors import VideoloadError
from videoload.leases.commands import Outbox, Ready, Recall, Stop
from videoload.leases.pool import WorkerPool
from videoload.leases.records import Batch, Chunk, ChunkState, Reader, Stream

_LEFT_S = 1.0  # a batch that is not taken for so long holds up no other reader


class Batches:
    """The batches of all streams."""

    def __init__(self, pool: WorkerPool, outbox: Outbox) -> None:
        self._pool, self._outbox = pool, outbox
        self.streams: dict[int, Stream] = {}
        self._readers: dict[int, Reader] = {}
        self._opened_empty: list[Reader] = []  # all clips of their batch are known to be bad

    # Readers

    def begin(self, stream: Stream, reader: int, start: int, stop: int) -> None:
        """A consumer begins to read steps start..stop-1."""
        self._readers[reader] = stream.readers[reader] = Reader(reader, stream, start, stop, start)

    def wanted(self, reader: int) -> None:
        """The reader's consumer waits for the next batch."""
        asking = self._readers.get(reader)
        if asking is None or not asking.unfinished or asking.stream.stopped:
            return
        asking.waiting = True
        owner = asking.stream.owner
        if owner is asking or owner is None or not owner.unserved:
            self._give_turn(asking)
        self._deliver(asking)  # it may be the batch at which the stream ends
        if (batch := asking.filling.get(asking.due)) is not None:
            self.stop_if_due(batch)

    def taken(self, reader: int) -> None:
        """The consumer took a batch in this turn."""
        if (known := self._readers.get(reader)) is not None:
            known.unserved = False

    def recalled(self, reader: int, batches: list[tuple[int, int]]) -> None:
        """(step, slot) of the batches that a `Recall` took back from the consumer."""
        back = self._readers[reader]
        for step, slot in batches:
            heappush(back.again, step)
            back.due = min(back.due, step)
            back.stream.free.append(slot)

    def end(self, reader: int) -> None:
        """The consumer reads no further, at the end or before."""
        ended = self._readers.pop(reader, None)
        if ended is None:
            return
        del ended.stream.readers[reader]
        if ended.stream.owner is ended:
            ended.stream.owner = None
        _cancel_all(ended)
        self.pass_turn(ended.stream)

    def _give_turn(self, reader: Reader) -> None:
        """``reader`` owns the slots of its stream from now on."""
        stream, other = reader.stream, reader.stream.owner
        if other is reader:
            return
        stream.owner = reader
        reader.unserved, reader.handed_at = True, math.inf
        if other is None:
            return
        stream.readers[other.id] = stream.readers.pop(other.id)  # it is the last to get a turn
        for batch in [*other.filling.values(), *other.complete.values()]:
            heappush(other.again, batch.step)
        _cancel_all(other)
        self._outbox.append(Recall(other.id))

    def pass_turn(self, stream: Stream) -> None:
        """If the owner took its batch, or leaves it, the next reader that waits has its turn."""
        if (owner := stream.owner) is not None:
            owner.unserved &= self._pool.now - owner.handed_at < _LEFT_S
        if stream.stopped or (owner is not None and owner.unserved):
            return
        for reader in stream.readers.values():
            if reader.waiting and reader is not stream.owner:
                self._give_turn(reader)
                return

    @property
    def by_need(self) -> list[Reader]:
        """The readers that may decode: first those that a consumer waits for, in turns, then those
        that are least ahead."""

        def need(reader: Reader) -> tuple[bool, int, int]:
            ahead = 0 if reader.waiting else reader.opened - reader.due
            return not reader.waiting, ahead, reader.stream.last_lease

        owners = self._owners
        return sorted(owners, key=need) if len(owners) > 1 else owners

    @property
    def _owners(self) -> list[Reader]:
        return [s.owner for s in self.streams.values() if s.owner and not s.stopped]

    @property
    def have_clips(self) -> bool:
        """Whether there may be clips that a worker can be granted, or a batch can be opened."""
        return any(
            reader.splitting or reader.orphans or reader.accused or reader.can_open
            for reader in self._owners
        )

    @property
    def have_tried(self) -> bool:
        """Whether there are chunks that some workers may be granted, and others not."""
        return any(reader.orphans or reader.accused for reader in self._owners)

    @property
    def open_chunks(self) -> Iterator[Chunk]:
        """The chunks that are not done."""
        for reader in self._readers.values():
            for batch in reader.filling.values():
                yield from batch.chunks

    # From opened to delivered

    def open(self, reader: Reader) -> Batch | None:
        """The next batch of a reader in a free slot, if there is one."""
        stream = reader.stream
        while reader.can_open:
            if reader.again:
                step = heappop(reader.again)
            else:
                step = reader.opened
                reader.opened += 1
            samples = stream.quarantine.kept(stream.plan[step])
            stream.batch_clips = max(stream.batch_clips, len(samples))
            rows = dict.fromkeys(range(len(samples)))
            batch = Batch(reader, step, stream.free.pop(), samples, rows, missing=len(samples))
            if samples:
                reader.filling[step] = batch
                reader.splitting[batch] = None
                return batch
            reader.complete[step] = batch
            self._opened_empty.append(reader)
        return None

    def done(self, chunk: Chunk) -> None:
        """Nothing of this chunk is to be decoded any more."""
        batch = chunk.batch
        batch.chunks.pop(chunk, None)
        chunk.state = ChunkState.DONE
        batch.missing -= chunk.size
        if not batch.missing:
            reader = batch.reader
            reader.complete[batch.step] = reader.filling.pop(batch.step)
            self._deliver(reader)

    def deliver_empty(self) -> None:
        """Hand over batches that were opened and hold nothing."""
        while self._opened_empty:
            self._deliver(self._opened_empty.pop())

    def _deliver(self, reader: Reader) -> None:
        for step in [reader.due] if reader.stream.ordered else sorted(reader.complete):
            at = step
            while (batch := reader.complete.get(at)) is not None:
                rows = [row for row in range(len(batch.samples)) if row not in batch.left_out]
                last, error = batch.error or (len(batch.samples), None)
                samples = [batch.samples[row] for row in rows if row <= last]
                whole = error is None
                error = reader.stream.quarantine.due(at, samples, complete=whole) or error
                if error is not None:
                    if reader.waiting:
                        self.stop(reader.stream, error)
                    return
                del reader.complete[at]
                ready = Ready(reader.id, at, batch.slot, tuple(samples), batch.info)
                if batch.left_out:
                    ready = replace(ready, info=batch.info[rows], rows=tuple(rows))
                self._outbox.append(ready)
                reader.waiting = False
                reader.handed_at = min(reader.handed_at, self._pool.now)
                at += 1
                reader.due = at

    # The end of a stream

    def stop(self, stream: Stream, error: VideoloadError) -> None:
        """The stream ends with an error."""
        stream.stopped = True
        for reader in stream.readers.values():
            _cancel_all(reader)
        self._outbox.append(Stop(stream.id, error))

    def stop_if_due(self, batch: Batch) -> None:
        """Stop at the next batch if its first clips, as far as they are decided on, show already
        that too many videos are bad. If all are bad, the batch would never be complete."""
        stream = batch.reader.stream
        if not batch.reader.waiting or (stream.ordered and batch.step != batch.reader.due):
            return
        open_rows = [chunk.rows[0] for chunk in batch.chunks] + [*batch.left][:1]
        end = min(open_rows, default=len(batch.samples))
        decided = [*batch.samples[:end], *map(stream.quarantine.replace, batch.samples[end:][:1])]
        error = stream.quarantine.due(batch.step, decided, complete=False)
        if error is not None:
            self.stop(stream, error)


def _cancel_all(reader: Reader) -> None:
    """A cancelled batch keeps its slot as long as a worker may write into it."""
    for batch in [*reader.filling.values(), *reader.complete.values()]:
        for chunk in batch.chunks:
            for lease in list(chunk.holders):
                lease.cancel()
        if not batch.writers:
            reader.stream.free.append(batch.slot)
    reader.filling.clear()
    reader.complete.clear()
    reader.orphans.clear()
    reader.accused.clear()
    reader.splitting.clear()
    reader.by_host.clear()
