"""Batches from when they are opened until they are handed over, the slots of readers, and where a
stream ends. Pure: no sockets, no threads, no clock.

  * A slot has one owner at a time: free -> filling (its batch) -> held (the consumer) -> free.
    The number of slots bounds the memory, whatever the number of workers.
  * Each reader has slots of its own, two at least, which it keeps until it ends. One that reads
    alone has all that the stream was made for. So two iterators over one stream, in one thread or
    in two, never wait for each other, and a reader that is left half-way keeps what was decoded.
  * Read-ahead decides nothing. If too many videos are bad, or a transform failed, the stream ends
    at the batch that this belongs to, after all batches before it, once a consumer waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from videoload.errors import VideoloadError
from videoload.scheduler.commands import AddSlots, Outbox, Ready, Stop
from videoload.scheduler.records import Batch, Chunk, ChunkState, Reader, Stream

_FEWEST = 2  # slots: one is filled while the consumer has the other


class Batches:
    """The batches of all streams."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.streams: dict[int, Stream] = {}
        self._readers: dict[int, Reader] = {}
        self._opened_empty: list[Reader] = []  # all clips of their batch are known to be bad

    # Readers

    def begin(self, stream: Stream, reader: int, start: int, stop: int) -> None:
        """A consumer begins to read steps start..stop-1. It gets slots that no reader has, as many
        as the stream was made for. If others read as well, and half as many are not there, the rest
        is added, as far as there is memory; two are there at least."""
        begun = Reader(reader, stream, start, stop, start)
        added = min(stream.reader_slots // 2 - len(stream.free), stream.most_slots - stream.slots)
        added = max(added, _FEWEST - len(stream.free))
        if stream.readers and added > 0:
            first, stream.slots = stream.slots, stream.slots + added
            stream.free[:0] = range(first, stream.slots)[::-1]
            self._outbox.append(AddSlots(stream.id, added))
        self._readers[reader] = stream.readers[reader] = begun
        for slot in stream.free[-stream.reader_slots :]:
            stream.give(begun, slot)
        begun.free, stream.free = stream.free[-begun.slots :], stream.free[: -begun.slots]

    def wanted(self, reader: int) -> None:
        """The reader's consumer waits for the next batch."""
        asking = self._readers.get(reader)
        if asking is None or not asking.unfinished or asking.stream.stopped:
            return
        asking.waiting = True
        self._deliver(asking)  # it may be the batch at which the stream ends
        if (batch := asking.filling.get(asking.next_delivery)) is not None:
            self.stop_if_due(batch)

    def end(self, reader: int) -> None:
        """The consumer reads no further, at the end or before."""
        ended = self._readers.pop(reader, None)
        if ended is None:
            return
        stream = ended.stream
        del stream.readers[reader]
        stream.reader_of = {s: other for s, other in stream.reader_of.items() if other is not ended}
        for slot in ended.free:
            stream.slot_back(slot)
        _cancel_all(ended)

    @property
    def by_need(self) -> list[Reader]:
        """The readers that may decode: first those that a consumer waits for, in turns, then those
        that are least ahead."""

        def need(reader: Reader) -> tuple[bool, int, int]:
            ahead = 0 if reader.waiting else reader.next_step - reader.next_delivery
            return not reader.waiting, ahead, reader.last_lease

        readers = self.readers
        return sorted(readers, key=need) if len(readers) > 1 else readers

    @property
    def readers(self) -> list[Reader]:
        """The readers of streams that have not ended."""
        return [reader for reader in self._readers.values() if not reader.stream.stopped]

    @property
    def have_clips(self) -> bool:
        """Whether there may be clips that a worker can be granted, or a batch can be opened."""
        return any(
            reader.splitting or reader.requeued or reader.suspects or reader.can_open
            for reader in self.readers
        )

    @property
    def have_tried(self) -> bool:
        """Whether there are chunks that some workers may be granted, and others not."""
        return any(reader.requeued or reader.suspects for reader in self.readers)

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
            step = reader.next_step
            reader.next_step += 1
            try:
                samples = stream.quarantine.kept(stream.plan[step])
            except Exception as error:  # it belongs to this stream, whoever caused the call
                self._cannot_plan(reader, step, error)
                return None
            stream.batch_clips = max(stream.batch_clips, len(samples))
            rows = dict.fromkeys(range(len(samples)))
            batch = Batch(reader, step, reader.free.pop(), samples, rows, missing=len(samples))
            if samples:
                reader.filling[step] = batch
                reader.splitting[batch] = None
                return batch
            reader.complete[step] = batch
            self._opened_empty.append(reader)
        return None

    def _cannot_plan(self, reader: Reader, step: int, cause: Exception) -> None:
        """The stream ends at this batch."""
        error = VideoloadError(f"batch {step} cannot be planned: {cause!r}")
        error.__cause__ = cause
        batch = Batch(reader, step, reader.free.pop(), [], {}, error=(0, error))
        reader.complete[step], reader.stop = batch, step + 1
        self._opened_empty.append(reader)

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
        for step in [reader.next_delivery] if reader.stream.ordered else sorted(reader.complete):
            at = step
            while (batch := reader.complete.get(at)) is not None:
                rows = tuple(row for row in range(len(batch.samples)) if row not in batch.left_out)
                last, error = batch.error or (len(batch.samples), None)
                samples = tuple(batch.samples[row] for row in rows if row <= last)
                quarantine, complete = reader.stream.quarantine, error is None
                error = quarantine.due(at, samples, complete=complete) or error
                if error is not None:
                    if reader.waiting:
                        self.stop(reader.stream, error)
                    return
                del reader.complete[at]
                whole = not batch.left_out
                self._outbox.append(
                    Ready(
                        reader.id, at, batch.slot, samples,
                        batch.info if whole else batch.info[[*rows]], None if whole else rows,
                        reader.slots,
                    )
                )  # fmt: skip
                reader.waiting = False
                at += 1
                reader.next_delivery = at

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
        if not batch.reader.waiting or (
            stream.ordered and batch.step != batch.reader.next_delivery
        ):
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
            reader.stream.slot_back(batch.slot)
    reader.filling.clear()
    reader.complete.clear()
    reader.requeued.clear()
    reader.suspects.clear()
    reader.splitting.clear()
    reader.by_host.clear()
