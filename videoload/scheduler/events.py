"""The events of the scheduler: arguments of `Scheduler.apply`. Each lease has several, so they are
Structs: creating one takes 0.05 us, a frozen dataclass 0.4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy.typing as npt

from videoload.activity import Activity
from videoload.errors import Fault, VideoloadError
from videoload.scheduler.commands import WorkerId
from videoload.scheduler.records import Lease, Stream, Worker


class Event(msgspec.Struct, frozen=True):
    """Something that happened."""


# Streams, and what their consumers do


class StreamAdded(Event, frozen=True):
    """There is one more stream."""

    stream: Stream


class StreamDropped(Event, frozen=True):
    """A stream has no reader any more. It is deleted, with its readers."""

    stream: int


class StreamFailed(Event, frozen=True):
    """A call or a command about a stream raised this error."""

    stream: int
    error: Exception


class SlotsAdded(Event, frozen=True):
    """A stream has so many slots now."""

    stream: int
    slots: int


class ReaderBegan(Event, frozen=True):
    """A consumer begins to read ``steps``, and waits for the first batch."""

    stream: int
    reader: int
    steps: range


class BatchWanted(Event, frozen=True):
    """A consumer waits for its next batch. This may be repeated."""

    reader: int


class SlotBack(Event, frozen=True):
    """A consumer is done with a slot."""

    stream: int
    slot: int


class ReaderEnded(Event, frozen=True):
    """A consumer reads no further, at the end or before."""

    reader: int


# Files


class Identified(Event, frozen=True):
    """The result of `Identify` for the trainer's own copies of videos: the fingerprint of each, 0
    if it has none, or why it cannot be read now."""

    stream: int
    found: Mapping[int, int | VideoloadError]


class FileChanged(Event, frozen=True):
    """A worker that reads the trainer's own copy of a video found another file than before."""

    stream: int
    video: int


# Workers


class WorkerJoined(Event, frozen=True):
    """A worker is admitted."""

    worker: Worker


class Heard(Event, frozen=True):
    """A message of a worker without other content arrived; or, unless it is ``whole``, a part of
    one: the rest may wait long for a saturated link. A connection that ends may look the same."""

    worker: WorkerId
    whole: bool = True


class Heartbeat(Event, frozen=True):
    """A heartbeat of a worker. ``done``: the last lease that the worker is done with; what it still
    owes up to there was lost on the way. ``at``: what it begins with now, and will be silent
    meanwhile. ``storage``: the error of its storage, or the file that it has waited for, for
    ``storage_s``."""

    worker: WorkerId
    done: int
    at: Activity = Activity.IDLE
    storage: str = ""
    storage_s: float = 0.0


class WorkerLeft(Event, frozen=True):
    """A worker has ended: a local one is reaped; a remote one sent BYE, cannot be reached, or has
    reconnected under another name. ``died``: it sent no BYE, so its lease may have ended it, or
    hung. ``at_work``: the number of that lease, 0 if it had none, None if unknown. ``refused``: the
    error of its storage, because of which it leaves. ``more_leave``: another one follows, and the
    clips of both are granted then."""

    worker: WorkerId
    died: bool
    at_work: int | None = None
    refused: str = ""
    more_leave: bool = False


# Leases


class Answered(Event, frozen=True):
    """The answer to a lease arrived. If the lease is owed, its clips are in their place.

    ``info``: the metadata of each clip, [n, ...]. ``decode_s``: how long the decoding took;
    ``waited_s``: the part of it that the worker waited for something else than a core. ``files``:
    the fingerprint of each clip's file, if the lease is checked.
    """

    lease: Lease
    info: npt.NDArray[Any]
    decode_s: float
    waited_s: float = 0.0
    files: Sequence[int] = ()


class Failed(Event, frozen=True):
    """A worker cannot decode clip ``at`` of a lease, and stopped there; or its answer is not taken
    because of this clip. ``file``: the fingerprint of the file that it found, 0 if none."""

    lease: Lease
    at: int
    reason: str
    fault: Fault = Fault.VIDEO
    file: int = 0


class Tick(Event, frozen=True):
    """Time passes."""
