"""What a client's I/O thread keeps of each stream, and the queues to its readers.

A `Stream` makes both. The readers and the error of an `OpenStream` are the I/O thread's alone; a
`ReaderQueue` is how batches and errors get from that thread to a consumer's.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from videoload.decoding.storage import Storage
from videoload.errors import VideoloadError
from videoload.spec.catalog import Catalog
from videoload.spec.clips import ClipSpec
from videoload.spec.plan import Plan
from videoload.spec.quarantine import Quarantine
from videoload.trainer.copies import Copies
from videoload.trainer.leases import Ready
from videoload.transport.slots import Arena


@dataclass(eq=False, slots=True)
class OpenStream:
    """A stream as the I/O thread knows it."""

    id: int
    catalog: Catalog
    spec: ClipSpec
    plan: Plan
    quarantine: Quarantine
    arena: Arena
    ordered: bool
    copies: Copies
    storage: Storage | None  # where the trainer's own copy of the videos is, if it has one
    readers: dict[int, ReaderQueue] = field(default_factory=dict)
    error: VideoloadError | None = None


class ReaderQueue:
    """The batches of one reader of a stream: put in the I/O thread, taken in the consumer's."""

    def __init__(self) -> None:
        self._ready: SimpleQueue[Ready | None] = SimpleQueue()  # None: there is an error
        self._error: VideoloadError | None = None

    def put(self, batch: Ready) -> None:
        """Queue a batch for the consumer."""
        self._ready.put(batch)

    def fail(self, error: VideoloadError) -> None:
        """End the queue: the consumer gets ``error`` after the batches that are queued."""
        if self._error is None:
            self._error = error
            self._ready.put(None)

    def take_back(self) -> list[Ready]:
        """The batches that the consumer has not taken."""
        batches = []
        with suppress(Empty):
            while (batch := self._ready.get_nowait()) is not None:
                batches.append(batch)
            self._ready.put(None)
        return batches

    def take(self, wait_s: float) -> Ready | None:
        """The next batch, or None if there is none in time. Raises what `fail` was given."""
        try:
            batch = self._ready.get(timeout=wait_s)
        except Empty:
            return None
        if batch is None:
            self._ready.put(None)  # for a consumer that asks again
            assert self._error is not None
            raise copy.copy(self._error)  # one that was raised holds its consumer's frames
        return batch
