"""The streams of a client, as its I/O thread has them. A stream has three records:

    client.Stream      what a script holds and reads; the stream ends with it (see `readers`)
    OpenStream         the memory of its slots, and how its rows become messages
    scheduler.Stream   which worker owes which clips; pure, and part of reference cycles

A `ReaderQueue` carries batches and errors to the thread of a consumer.
"""

from __future__ import annotations

import itertools
import math
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from videoload import native
from videoload.catalog.catalog import Catalog, table_of
from videoload.catalog.crop_boxes import rows_for_workers
from videoload.catalog.table import Ints
from videoload.clips.rows import Clip, Video
from videoload.clips.sample_info import info_type
from videoload.clips.sample_spec import SampleSpec, Shape, with_shape
from videoload.clips.tasks import FOUND_BYTES, Task, described
from videoload.engine.meter import Meter
from videoload.engine.reader_queue import ReaderQueue
from videoload.engine.stats import StreamRecord, WorkerRecord
from videoload.errors import StorageError, VideoloadError, named
from videoload.logs import Log, is_logged
from videoload.plan.batches import BatchWithInfo, Sample
from videoload.scheduler import events
from videoload.scheduler.commands import Command, Grant, Ready
from videoload.scheduler.records import Stream
from videoload.storage.files import Storage
from videoload.wire.messages import Lease, Place, commitment
from videoload.wire.private_messages import Share
from videoload.wire.slots import Slots, spans
from videoload.worker.supervisor import Supervisor

_log = Log(__name__)

# malloc retains no block above 32 MB. A larger answer would be allocated again, at half the speed.
_LEASE_BYTES = 31 << 20
_GROW_BYTES = 64 << 20  # of new slots in a tick: 20 ms
_METADATA_BYTES = 64  # of a clip, besides its `SampleInfo`: three numbers
_NAMED = 8  # files that changed: the last ones


class Loan(NamedTuple):
    """A batch whose slot a consumer holds, and the array that looks into the slot."""

    batch: Ready
    array: weakref.ref[npt.NDArray[np.uint8]]


class BatchLayout(NamedTuple):
    """What the rows of a batch have in common: the task, and how many bytes each has in a slot, and
    in a message at most."""

    task: Task
    clip_bytes: int
    metadata_bytes: int

    @property
    def lease_clips(self) -> int:
        """Return how many clips fit into one message."""
        return _LEASE_BYTES // (self.clip_bytes + self.metadata_bytes)

    @classmethod
    def of(cls, task: Task) -> BatchLayout:
        told = info_type(task).itemsize if isinstance(task, SampleSpec) else FOUND_BYTES
        return cls(task, task.clip_bytes, told + _METADATA_BYTES)


@dataclass(eq=False, slots=True, weakref_slot=True)
class OpenStream:
    """A stream, as the I/O thread has it. ``state``: the scheduler's record of it. ``layouts`` are
    those of its batches, by their shapes. ``changed``: files that are others than they were, or
    than a scan saw, each once, and that are used as they are now."""

    state: Stream
    catalog: Catalog
    task: Task  # clips: those of the largest batch; or another task, each row once
    memory: Slots
    storage: Storage | None  # of the trainer's own copy of the videos, if it has one
    meter: Meter
    code: Mapping[str, str] = field(default_factory=dict)
    queues: dict[int, ReaderQueue] = field(default_factory=dict)  # by reader
    readings: Iterator[int] = field(default_factory=itertools.count)  # numbers them
    slots_for: Callable[[int], int] = lambda workers: 0  # how many slots so many workers need
    grown_for: float = 0  # it has the slots that so many workers need
    delivered: dict[int, Ready] = field(default_factory=dict)  # by slot: batches that readers have
    loans: dict[int, Loan] = field(default_factory=dict)  # by slot; consumers add to it
    step: int = -1  # the last one that any reader took
    # Called once with the next batch that is handed over.
    look: Callable[[BatchWithInfo], None] | None = None
    row_of: Callable[[int], Video] = field(init=False)  # rows, as workers get them
    layouts: dict[Shape, BatchLayout] = field(init=False)
    changed: dict[str, None] = field(default_factory=dict)
    versions: npt.NDArray[np.int64] = field(init=False)  # of files, as they were used last
    is_scanned: bool = field(init=False)  # ... or as a scan saw some: then they are fingerprints

    def __post_init__(self) -> None:
        task, is_clips = self.task, isinstance(self.task, SampleSpec)
        self.versions = np.maximum(table_of(self.catalog).column("fingerprint"), 0)
        self.row_of = rows_for_workers(self.catalog, self.spec if is_clips else None)
        self.is_scanned = bool(self.versions.any())
        self.layouts = {
            shape: BatchLayout.of(with_shape(self.spec, shape) if is_clips else task)
            for shape in self.state.plan.sizes
        }

    @property
    def spec(self) -> SampleSpec:
        """The spec of its clips; other tasks have none."""
        return cast("SampleSpec", self.task)

    def use_files_of(self, seen: OpenStream, at: Ints) -> None:
        """The files of these rows are those that another stream saw, by which windows or frames
        were counted."""
        if not self.is_scanned:
            self.versions[at] = seen.versions
        if self.state.files is not None and seen.state.files is not None:
            self.state.files.pin_as(seen.state.files, at)

    def layout_of(self, sample: Sample) -> BatchLayout:
        """Return the common layout of the clips of a sample's batch."""
        return self.layouts[self.state.plan.shape_of(sample)]

    def record(self, workers: Sequence[WorkerRecord], window_s: float = math.inf) -> StreamRecord:
        """Return the figures now. ``workers`` are connected. For any thread."""
        queues = list(self.queues.values())
        bad, bad_rows = self.state.quarantine.videos, tuple(self.state.quarantine.rows)
        ready = sum(queue.ready for queue in queues)
        stats = self.meter.read(workers, tuple(bad), window_s, is_ahead=ready > 0 or not queues)
        stats = replace(stats, bad_rows=bad_rows)
        if isinstance(self.state.ended, StorageError):  # the figures do not know
            verdict = f"The stream has ended: {self.state.ended}."
            stats = replace(stats, bottleneck="storage", verdict=verdict)
        order = "shuffled" if self.state.plan.shuffles else "in order"
        return StreamRecord(
            stream=self.state.id,
            what=f"{len(self.catalog)} videos {order}, {described(self.task)}",
            step=self.step,
            batches_per_epoch=len(self.state.plan),
            readers=len(queues),
            ready=ready,
            slots=self.memory.slots,
            bad=len(bad),
            bad_rows=len(bad_rows),
            stats=stats,
            totals=self.meter.totals(),
            changed=len(self.changed),
            changed_files=tuple(self.changed.copy())[-_NAMED:],
            max_bad=self.state.quarantine.limit,
        )

    def is_changed(self, video: int, version: int) -> bool:
        """Note the version of a clip's file, 0 if unknown. Return whether the clip before it was of
        another one."""
        before = int(self.versions[video])
        self.versions[video] = version
        return before not in (0, version) and version != 0

    def note_changed(self, video: int) -> None:
        """The file of a video has become another one."""
        path = self.catalog[video].path
        if path in self.changed:
            return
        self.changed[path] = None
        if is_logged(count := len(self.changed)):
            _log.warning(
                "%s has changed while this stream ran, or since the scan (changed files so far: "
                "%d)", named(path), count,
            )  # fmt: skip

    def place(self, slot: int, rows: Sequence[int], clip_bytes: int) -> Place:
        """Return the place of these rows of a slot, for a process that maps its arena."""
        arena, offset = self.memory.place(slot)
        if isinstance(rows, range):
            return Place(self.arena(arena), offset + rows[0] * clip_bytes)
        return Place(self.arena(arena), offset, list(rows))

    def arena(self, at: int) -> int:
        """Return the number by which workers know an arena of this stream."""
        return self.state.id | at << 32

    def pixels(
        self, slot: int, rows: Sequence[int], clip_bytes: int
    ) -> list[npt.NDArray[np.uint8]]:
        """These rows of a slot, an array for each run of consecutive ones."""
        view, runs = self.memory.view, spans(rows)
        return [view(slot, first * clip_bytes, (n, clip_bytes)) for first, n in runs]

    def lease(self, grant: Grant, task: Task, place: Place | None) -> Lease:
        clips = [
            Clip(each.seed, each.clip, each.crop, self.row_of(each.video)) for each in grant.samples
        ]
        files, salt = grant.files or (), None
        if self.state.files is not None and grant.files is not None:
            salt = self.state.files.salt
        elif self.is_scanned:  # any file will do, but which one it is gets known
            files, salt = (0,) * len(clips), 0
        digests = list(map(commitment, files))
        return Lease(grant.lease, task, clips, place, dict(self.code), digests, salt)


@dataclass(eq=False)
class OpenStreams:
    """The streams of a client, and their readers. All of it belongs to the I/O thread.

    ``tell`` passes events to the scheduler. ``listens``: remote workers may connect.
    """

    tell: Callable[[events.Event], None]
    supervisor: Supervisor
    listens: bool
    by_id: dict[int, OpenStream] = field(default_factory=dict)

    def add(self, stream: OpenStream) -> None:
        self.by_id[stream.state.id] = stream
        self.tell(events.StreamAdded(stream.state))
        self._share(stream)

    def _share(self, stream: OpenStream) -> None:
        """Share the last arena of a stream."""
        at, root = len(stream.memory.arenas) - 1, os.fsencode(stream.state.root)
        self.supervisor.share(Share(stream.arena(at), root), stream.memory.arenas[at].fd)

    def grow(self, workers: int) -> None:
        """Give the streams the slots that so many workers need, a part of them at once: this thread
        waits until the memory is there."""
        for stream in self.by_id.values():
            if workers <= stream.grown_for:
                continue
            try:
                missing = stream.slots_for(workers) - stream.memory.slots
                if missing <= 0:
                    stream.grown_for = workers
                    continue
                stream.memory.grow(min(missing, max(1, _GROW_BYTES // stream.memory.slot_bytes)))
            except MemoryError as error:
                _log.warning("cannot allocate slots for new workers: %s", error)
                stream.grown_for = math.inf
                continue
            self._share(stream)
            self.tell(events.SlotsAdded(stream.state.id, stream.memory.slots))

    def add_slots(self, stream: OpenStream, slots: int) -> None:
        """Make slots for one more reader. Raises VideoloadError."""
        try:
            stream.memory.grow(slots)
        except MemoryError as error:
            raise VideoloadError(
                f"one more loop over this stream needs memory for {slots} batches: {error}; end "
                "the loops that you do not need, or make the batches smaller"
            ) from None
        self._share(stream)

    def of_clips(self) -> list[OpenStream]:
        """Return the streams of clips, without those of other tasks. For any thread."""
        return [each for each in list(self.by_id.values()) if isinstance(each.task, SampleSpec)]

    def of(self, command: Command) -> OpenStream | None:
        """Return the stream that a command of the scheduler is about, if it is about one."""
        return self.by_id.get(getattr(command, "stream", -1))

    def drop(self, stream: OpenStream) -> None:
        if self.by_id.pop(stream.state.id, None) is None:
            return
        for at in range(len(stream.memory.arenas)):
            self.supervisor.unshare(stream.arena(at))
        self.tell(events.StreamDropped(stream.state.id))
        stream.memory.close()

    def begin(self, stream: OpenStream, reader_id: int, queue: ReaderQueue, steps: range) -> None:
        """A reader begins to read ``steps``."""
        if stream.state.ended is not None:
            queue.fail(stream.state.ended)
            return
        if self.listens:
            native.keep_pages()  # not earlier: the import of TensorFlow would set malloc after it
        stream.queues[reader_id] = queue
        self.tell(events.ReaderBegan(stream.state.id, reader_id, steps))

    def request_batch(self, stream: OpenStream, reader_id: int) -> None:
        """The consumer of a reader waits for its next batch."""
        self.tell(events.BatchWanted(reader_id))

    def end(self, stream: OpenStream, reader_id: int) -> None:
        """A reader reads no further."""
        queue = stream.queues.pop(reader_id, None)
        if queue is None:
            return
        self.tell(events.ReaderEnded(reader_id))
        for batch in queue.undelivered():
            self.give_back(stream, batch)

    def give_back(self, stream: OpenStream, batch: Ready) -> None:
        """A consumer does not need the slot of a batch any more. Further calls do nothing."""
        if stream.delivered.get(batch.slot) is batch:
            del stream.delivered[batch.slot]
            stream.loans.pop(batch.slot, None)
            self.tell(events.SlotBack(stream.state.id, batch.slot))

    def give_back_dead(self) -> None:
        """Give back the slots whose arrays are dead. A Ctrl-C in the moment when an array dies can
        delay the return of its slot."""
        for stream in self.by_id.values():
            for loan in list(stream.loans.values()):
                if loan.array() is None:
                    self.give_back(stream, loan.batch)

    def hand_out(self, ready: Ready) -> None:
        """Put a batch into its reader's queue."""
        stream = self.by_id[ready.stream]
        stream.delivered[ready.slot] = ready
        stream.queues[ready.reader].put(ready)

    def stop(self, stream: OpenStream, error: VideoloadError) -> None:
        """End a stream with an error, after the batches that are queued."""
        for queue in stream.queues.values():
            queue.fail(error)

    def stop_all(self, error: VideoloadError) -> None:
        for stream in self.by_id.values():
            self.stop(stream, error)

    def close(self) -> None:
        """Release the memory of all streams."""
        for stream in self.by_id.values():
            stream.memory.close()
        self.by_id.clear()
