"""What a client's I/O thread keeps of each stream, and the queues to its readers.

A `Stream` makes both. The readers and the error of an `OpenStream` are the I/O thread's alone; a
`ReaderQueue` is how batches and errors get from that thread to a consumer's.
"""

from __future__ import annotations

import copy
import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.catalog.catalog import Catalog
from videoload.catalog.joining import clip_of
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.item_spec import Spec
from videoload.engine.copies import Copies
from videoload.errors import VideoloadError
from videoload.leases.commands import Ready
from videoload.plan.plan import Plan, Sample
from videoload.plan.quarantine import Quarantine
from videoload.stats.meter import Meter
from videoload.stats.stats import StreamRecord, WorkerRecord
from videoload.storage.files import Storage
from videoload.transport.messages import Clip, Lease, Place
from videoload.transport.slots import Arena


class Loan(NamedTuple):
    """A batch whose slot a consumer has, as this array."""

    batch: Ready
    array: weakref.ref[npt.NDArray[np.uint8]]


@dataclass(eq=False, slots=True)
class OpenStream:
    """A stream as the I/O thread knows it."""

    id: int
    catalog: Catalog
    spec: Spec
    plan: Plan
    quarantine: Quarantine
    arena: Arena
    ordered: bool
    copies: Copies
    storage: Storage | None  # where the trainer's own copy of the videos is, if it has one
    meter: Meter
    readers: dict[int, ReaderQueue] = field(default_factory=dict)
    # The batch in each slot that was put into a queue and did not come back.
    lent: dict[int, Ready] = field(default_factory=dict)
    loans: dict[int, Loan] = field(default_factory=dict)  # by slot; put there by consumers
    error: VideoloadError | None = None
    step: int = -1  # that was taken last, by any reader
    clip_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.clip_bytes = self.spec.clip_bytes

    def record(
        self, workers: Sequence[WorkerRecord], departed: int, window_s: float = math.inf
    ) -> StreamRecord:
        """The figures now. ``workers`` are connected, ``departed`` have left. For any thread."""
        bad_videos = tuple(self.quarantine.videos)
        queues = list(self.readers.values())
        return StreamRecord(
            stream=self.id,
            what=f"{len(self.catalog)} videos, clips {self.spec.shape}",
            step=self.step,
            batches_per_epoch=len(self.plan),
            readers=len(queues),
            ready=sum(queue.ready for queue in queues),
            slots=self.arena.slots,
            stats=self.meter.read(workers, departed, bad_videos, window_s),
            totals=self.meter.totals(),
        )

    def place(self, slot: int, row: int) -> Place:
        """Where the clips from ``row`` of a slot are."""
        return Place(self.id, slot * self.arena.stride + row * self.clip_bytes)

    def lease(self, number: int, samples: Sequence[Sample], place: Place | None) -> Lease:
        """A lease of these samples."""
        videos = [self.catalog[sample.video] for sample in samples]
        clips = [
            Clip(video.path, sample.seed, sample.clip, video.start, video.end, sample.crop)
            for video, sample in zip(videos, samples, strict=True)
        ]
        if not self.catalog.parts:
            return Lease.of(number, self.spec, clips, place)
        specs = [clip_of(self.catalog, self.spec, sample.video) for sample in samples]
        others = [spec for spec in dict.fromkeys(specs) if isinstance(spec, ClipSpec)]
        which = [others.index(spec) + 1 for spec in specs if isinstance(spec, ClipSpec)]
        return Lease.of(number, self.spec, clips, place, others, which)


class ReaderQueue:
    """The batches of one reader of a stream: put and taken back in the I/O thread, taken in the
    consumer's.

    Each batch has one of three ends, whatever meets with what: it is handed over; it is taken back,
    with all that come after it (a batch in their midst would be read out of its order, and then be
    waited for without end); or a Ctrl-C struck its consumer between two steps, and it is among
    those `never_handed_over`.
    """

    def __init__(self) -> None:
        # A plain lock: a Ctrl-C in Condition.__enter__ would leave it locked.
        self._lock = threading.Lock()
        self._ready: deque[Ready] = deque()
        self._put: deque[float] = deque()  # when each of them was
        self.waited_s = 0.0  # how long the last one that was taken had been ready
        self._taken: list[Ready] = []  # by the consumer, which has not handed them over yet
        self._error: VideoloadError | None = None
        self._bell: SimpleQueue[None] = SimpleQueue()  # rung with each change; at times for none

    def put(self, batch: Ready) -> None:
        """Queue a batch for the consumer."""
        with self._lock:
            self._ready.append(batch)
            self._put.append(time.monotonic())
        self._bell.put(None)

    def fail(self, error: VideoloadError) -> None:
        """End the queue: the consumer gets ``error`` after the batches that are queued."""
        with self._lock:
            self._error = self._error or error
        self._bell.put(None)

    def take_back(self) -> list[Ready]:
        """The batches that the consumer has not taken, all at once."""
        with self._lock:
            batches = list(self._ready)
            self._ready.clear()
            self._put.clear()
        return batches

    def take(self, wait_s: float) -> Ready | None:
        """The next batch, or None if there is none in time. Raises what `fail` was given."""
        deadline = time.monotonic() + wait_s
        while True:
            with self._lock:
                if self._ready:
                    self._taken.append(self._ready[0])
                    self.waited_s = time.monotonic() - self._put.popleft()
                    return self._ready.popleft()
                error = self._error
            if error is not None:
                raise copy.copy(error)  # one that was raised holds its consumer's frames
            try:
                self._bell.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                return None

    @property
    def ready(self) -> int:
        """Batches that the consumer has not taken."""
        return len(self._ready)

    def handed_over(self) -> None:
        """The consumer sees to it from now on that the slot of what it took is given back."""
        self._taken.clear()

    def never_handed_over(self) -> list[Ready]:
        """After the consumer's end: the batches whose slots nobody else gives back."""
        return [*self.take_back(), *self._taken]
