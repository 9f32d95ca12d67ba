"""Turns the answers of workers into rows of batches.

An answer is a RESULT message and its pixels, which arrive in one of two ways:

    local workers      write the pixels into their place before they send the message
    remote workers     send the pixels in the same message, and they are copied into their place

The answer of a remote worker then waits until `copy_check` knows that the worker has the right copy
of the files. All of this belongs to the I/O thread.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from videoload.clips.sample_spec import Spec, leader_of
from videoload.engine.admission import ConnectedWorker
from videoload.engine.copy_check import NO_FRAMES, CopyCheck
from videoload.engine.open_streams import OpenStream
from videoload.errors import ProtocolError
from videoload.leases.commands import Command
from videoload.leases.table import LeaseTable
from videoload.stats.meter import Meter
from videoload.transport.messages import Failed, Result
from videoload.transport.sockets import Peer

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Answers:
    """The answers of a client's workers. ``meter`` counts for all streams. The engine carries out
    what is added to ``commands``."""

    table: LeaseTable
    streams: Mapping[int, OpenStream]
    workers: Mapping[Peer, ConnectedWorker]
    copies: CopyCheck
    meter: Meter
    commands: deque[Command]

    def take(self, peer: Peer, result: Result) -> None:
        """A RESULT came. Raises ProtocolError."""
        place = self.table.place(peer, result.lease)
        shares = self.workers[peer].is_child
        if place is not None and not shares:
            stream_id, slot, rows = place
            peer.router.receive_pixels(self.streams[stream_id].pixels(slot, rows))
        self._book(peer, result, is_sent=not shares)

    def failed(self, peer: Peer, failed: Failed, now: float) -> None:
        """A worker could not decode a clip of a lease."""
        worker, line = self.workers[peer], failed.reason.partition("\n")[0]
        worker.timer.failed(now)
        if failed.fatal and worker.last_error != line:  # the stream's error has all lines
            _log.warning("worker %s: %s", worker.name, line)
        worker.last_error = "" if failed.dropped else line
        self.commands.extend(
            self.table.failed(
                peer, failed.lease, failed.at, failed.reason, dropped=failed.dropped,
                fatal=failed.fatal, here_only=failed.here_only, of_worker=failed.of_worker,
            )
        )  # fmt: skip

    def _book(self, peer: Peer, result: Result, *, is_sent: bool) -> None:
        """The pixels are in their place, if they are wanted. Raises ProtocolError."""
        self.table.arrived(peer, result.lease, result.decode_s, _waited_s(result))
        place, worker = self.table.place(peer, result.lease), self.workers[peer]
        now = time.monotonic()
        if place is None:  # void: the worker only has one lease less
            worker.timer.failed(now)
            self.commands.extend(self.table.result(peer, result.lease, NO_FRAMES, result.decode_s))
            return
        stream_id, rows = place[0], len(place[2])
        stream = self.streams[stream_id]
        frames = _as_frames(result, rows, stream.spec)
        work = worker.timer.answered(result, rows, rows * stream.clip_bytes * is_sent, now)
        videos = self.table.videos(peer, result.lease)
        stream.meter.worked(worker.name, work, list(zip(videos, result.clip_s, strict=False)), now)
        self.meter.worked(worker.name, work, (), now)
        if worker.is_child or not stream.spec.files:
            self.commands.extend(self.table.result(peer, result.lease, frames, result.decode_s))
            return
        if len(result.files) != rows:
            raise ProtocolError(f"{len(result.files)} fingerprints for {rows} clips")
        self.copies.add(peer, result, frames, stream_id)


def _waited_s(result: Result) -> float:
    """How long a worker waited for anything but a core; 0 if its kernel does not report it."""
    core_s = result.spent.core + result.spent.no_core
    return max(0.0, result.decode_s - core_s) if core_s else 0.0


def _as_frames(result: Result, rows: int, spec: Spec) -> npt.NDArray[np.int64]:
    """The ordinals of each clip's frames, then the bits of their times; the number of frames of its
    file, then the bits of its seconds. The lease table carries them to the reader."""
    length = math.prod(spec.frames_shape)
    for told in (result.frames, result.times or result.frames):
        if len(told) != rows or {*map(len, told)} != {length}:
            raise ProtocolError(
                f"the lease has {rows} clips of {length} frames, the answer does not"
            )
    both = np.empty((rows, 2, length), np.int64)
    both[:, 0] = result.frames
    both.view(np.float64)[:, 1] = result.times or np.nan
    if length and both[:, 0].min() < 0 and getattr(leader_of(spec), "short", "") != "zero":
        raise ProtocolError("the answer has missing frames, the spec allows none")
    if len(result.lengths) not in (0, rows):
        raise ProtocolError(f"{len(result.lengths)} lengths of files for {rows} clips")
    of_file = np.empty((rows, 2), np.int64)
    of_file[:, 0] = [frames for frames, _ in result.lengths] or -1
    of_file.view(np.float64)[:, 1] = [seconds for _, seconds in result.lengths] or np.nan
    return np.concatenate((both.reshape(rows, 2 * length), of_file), axis=1)
