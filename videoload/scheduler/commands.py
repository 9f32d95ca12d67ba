"""What the I/O loop is to do for the scheduler: the results of `Scheduler.apply`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import msgspec
import numpy.typing as npt

from videoload.errors import VideoloadError
from videoload.plan.batches import Sample

WorkerId = Hashable


class Grant(msgspec.Struct, frozen=True):
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


class Ready(msgspec.Struct, frozen=True):
    """Hand this batch to the consumer of ``reader``, which owns its slot until `SlotBack`."""

    stream: int
    reader: int
    step: int
    slot: int
    samples: tuple[Sample, ...]
    info: npt.NDArray[Any]  # the metadata of each sample
    rows: tuple[int, ...] | None = None  # of the slot, if some were left out
    slots: int = 0  # that the reader has, or more


class AddSlots(msgspec.Struct, frozen=True):
    """Make so many more slots for a stream: one more consumer reads it."""

    stream: int
    slots: int


class Identify(msgspec.Struct, frozen=True):
    """Read the fingerprints of the trainer's own copies of ``videos``, and report `Identified`."""

    stream: int
    videos: tuple[int, ...]


class Changed(msgspec.Struct, frozen=True):
    """The trainer's own copy of this video is another file than it was."""

    stream: int
    video: int


class Warn(msgspec.Struct, frozen=True):
    """This worker, or all of them if it is None, cannot do what it should, for this ``reason``, or
    can again. Log it. If it is to pause for ``pause_s``, it gets no leases meanwhile: send it the
    reason."""

    worker: WorkerId | None
    reason: str
    pause_s: float = 0.0


class Stop(msgspec.Struct, frozen=True):
    """The stream cannot continue. Report the error to all its consumers."""

    stream: int
    error: VideoloadError


Command = Grant | Ready | AddSlots | Identify | Changed | Warn | Stop
