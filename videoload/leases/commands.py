"""What the I/O loop is to do for the lease table."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from videoload.errors import VideoloadError
from videoload.plan.plan import Sample

WorkerId = Hashable


@dataclass(frozen=True, slots=True)
class Grant:
    """Send this lease. ``samples`` go to these rows of ``slot`` of ``stream``, which ascend.
    ``files``: the fingerprint of each sample's file, 0 where any copy will do; None: the worker
    reads the trainer's own copy."""

    worker: WorkerId
    lease: int
    stream: int
    slot: int
    rows: Sequence[int]
    samples: tuple[Sample, ...]
    files: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """Hand this batch to the consumer of ``reader``, which owns its slot until `slot_back`."""

    reader: int
    step: int
    slot: int
    samples: tuple[Sample, ...]
    frames: npt.NDArray[np.int64]
    rows: tuple[int, ...] | None = None  # of the slot, if some were left out


@dataclass(frozen=True, slots=True)
class Recall:
    """Take back what ``reader`` got and did not consume yet, and report it with `recalled`."""

    reader: int


@dataclass(frozen=True, slots=True)
class Evict:
    """This worker is stuck. Kill a local one, and report `worker_left` once it is reaped. Report
    `worker_left` for a remote one, and let it send HELLO again."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class AskStorage:
    """This local worker is silent at ``videos``. Read from other videos of the stream, and report
    `storage_answered` if that works. It may take for ever."""

    worker: WorkerId
    stream: int
    videos: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Identify:
    """Read the fingerprints of the trainer's own copies of ``videos``, and report `identified`, or
    `unread`."""

    stream: int
    videos: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """The trainer's own copy of this video is another file than it was."""

    stream: int
    video: int


@dataclass(frozen=True, slots=True)
class Warn:
    """This worker's copy of a file is missing, or another one. Tell people."""

    worker: WorkerId
    reason: str


@dataclass(frozen=True, slots=True)
class Pause:
    """This worker fails at clips that others can decode, and gets no leases for ``seconds``. Tell
    it, and people, why."""

    worker: WorkerId
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """The stream cannot continue. Tell all its consumers why."""

    stream: int
    error: VideoloadError


Command = Grant | Ready | Recall | Evict | AskStorage | Identify | Changed | Warn | Pause | Stop
Outbox = list[Command]  # what the I/O loop has to carry out, in this order
