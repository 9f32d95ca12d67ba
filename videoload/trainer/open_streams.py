"""The streams of a client, as its I/O thread knows them, and the queues of their readers."""

from __future__ import annotations

import copy
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from videoload.errors import VideoloadError
from videoload.spec.catalog import Catalog
from videoload.spec.clips import ClipSpec
from videoload.spec.plan import Plan
from videoload.spec.quarantine import Quarantine
from videoload.trainer.leases import Ready
from videoload.transport.slots import Arena


@dataclass(eq=False, slots=True)
class OpenStream:
    """What the engine knows of a stream."""

    id: int
    catalog: Catalog
    spec: ClipSpec
    plan: Plan
    quarantine: Quarantine
    arena: Arena
    ordered: bool
    root: str  # of the catalog; a Path takes long to hash
    readers: dict[int, ReaderQueue] = field(default_factory=dict)
    error: VideoloadError | None = None


class ReaderQueue:
    """What one reader of a stream is handed: batches go in here in the I/O thread and come out in
    the consumer's."""

    def __init__(self) -> None:
        self._ready: SimpleQueue[Ready | None] = SimpleQueue()  # None: there is an error
        self._error: VideoloadError | None = None

    def put(self, batch: Ready) -> None:
        """A batch for the consumer."""
        self._ready.put(batch)

    def fail(self, error: VideoloadError) -> None:
        """No more batches; the consumer gets ``error`` after those that are here."""
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
            self._ready.put(None)  # for whoever asks again
            assert self._error is not None
            raise copy.copy(self._error)  # one that was raised holds its consumer's frames
        return batch
