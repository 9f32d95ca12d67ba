"""What the lease table wants done: the I/O loop carries it out."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from videoload.errors import VideoloadError
from videoload.plan.plan import Sample

WorkerId = Hashable


@dataclass(frozen=True, slots=True)
class Grant:
    """Send this lease: ``samples`` go to rows ``first``... of ``slot`` of ``stream``."""

    worker: WorkerId
    lease: int
    stream: int
    slot: int
    first: int
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """Hand this batch to ``reader``'s consumer; its slot is the consumer's until `slot_back`."""

    reader: int
    step: int
    slot: int
    samples: tuple[Sample, ...]
    frames: npt.NDArray[np.int64]
    rows: tuple[int, ...] | None = None  # of the slot, where some were left out


@dataclass(frozen=True, slots=True)
class Recall:
    """Take back what was handed to ``reader`` but not consumed yet; report it with `recalled`."""

    reader: int


@dataclass(frozen=True, slots=True)
class Evict:
    """This worker is stuck. A local one: kill it, and report `worker_left` once it is reaped. A
    remote one: report `worker_left`, and let it send HELLO again."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class AskStorage:
    """This local worker is silent: find out whether the storage answers for the videos that it is
    at, and report `storage_answered` if it does. It may take for ever."""

    worker: WorkerId
    stream: int
    videos: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pause:
    """This worker goes on failing where others do not: it gets no leases for ``seconds``. Tell it,
    and people, why."""

    worker: WorkerId
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Dismiss:
    """Pauses did not help: have no more of this worker, and report `worker_left`."""

    worker: WorkerId
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """The stream cannot go on: tell all its consumers why."""

    stream: int
    error: VideoloadError


Command = Grant | Ready | Recall | Evict | AskStorage | Pause | Dismiss | Stop
