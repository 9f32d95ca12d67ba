"""What workers answer becomes rows of batches: the words of a RESULT, and its pixels, which come in
one of three ways. All of it is the I/O thread's.

    local worker    has written them into their place before it says so
    dialled in      they follow in the same message, and are copied into their place
    ... apart       a receiver is told to put them there, and says when it has

Then the answer is booked, and taken by the lease table: that of a worker that dialled in when its
copy of the files is known to be the right one (`copy_check`).
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.clips.item_spec import Spec
from videoload.engine.admission import ConnectedWorker
from videoload.engine.copy_check import CopyCheck
from videoload.engine.open_streams import OpenStream
from videoload.errors import ProtocolError, VideoloadError
from videoload.leases.commands import Command
from videoload.leases.table import LeaseTable
from videoload.receivers.pool import Receivers
from videoload.stats.meter import Meter
from videoload.transport.messages import Result
from videoload.transport.private_messages import Ended, Landed
from videoload.transport.slots import SHARED
from videoload.transport.sockets import Peer

_log = logging.getLogger(__name__)


class _Words(NamedTuple):
    """An answer whose pixels a receiver has yet to put in their place."""

    peer: Peer
    result: Result


class Answers:
    """The answers of one client's workers."""

    def __init__(
        self,
        table: LeaseTable,
        streams: Mapping[int, OpenStream],
        workers: Mapping[Peer, ConnectedWorker],
        receivers: Receivers,
        copies: CopyCheck,
        meter: Meter,
        *,
        commands: deque[Command],
        refuse: Callable[[Peer, ProtocolError], None],
    ) -> None:
        """``meter`` counts for all streams. The engine carries out what is added to ``commands``.
        ``refuse`` disconnects a worker."""
        self._table = table
        self._streams = streams
        self._workers = workers
        self._receivers = receivers
        self._copies = copies
        self._meter = meter
        self._commands = commands
        self._refuse = refuse
        self._landing: dict[tuple[int, int], _Words] = {}  # by data connection and lease

    def take(self, peer: Peer, result: Result) -> None:
        """The words of an answer came. Raises ProtocolError."""
        if result.apart is not None:
            self._have_landed(peer, result, result.apart)
            return
        place, shares = self._table.place(peer, result.lease), self._shares(peer)
        if place is not None and not shares:
            stream_id, slot, first, rows = place
            stream = self._streams[stream_id]
            shape = (rows, stream.clip_bytes)
            peer.router.receive_pixels(stream.arena.view(slot, first * shape[1], shape))
        self._take(peer, result, is_sent=not shares)

    def landed(self, told: Landed) -> None:
        """A receiver has put the pixels of an answer in their place."""
        words = self._landing.pop((told.connection, told.lease), None)
        if words is None:  # it was void
            return
        self._commands.extend(self._table.landed(told.lease, whole=True))
        if words.peer not in self._workers:
            return
        try:
            self._take(*words, is_sent=True)
        except ProtocolError as error:
            self._refuse(words.peer, error)
        except VideoloadError:
            raise
        except Exception:  # a defect, of ours: it costs this worker its connection, nobody else
            _log.exception("an answer of worker %s could not be taken", words.peer)
            self._refuse(words.peer, ProtocolError("this trainer could not take that; see its log"))

    def lost(self, ended: Ended) -> None:
        """What was to come by this connection will not."""
        blame = not ended.of_receiver
        for connection, lease in list(self._landing):
            if connection == ended.connection:
                words = self._landing.pop((connection, lease))
                self._lose(words.peer, lease, blame=blame)
                blame = False  # once is enough

    def _lose(self, peer: Peer, lease: int, *, blame: bool) -> None:
        if (worker := self._workers.get(peer)) is not None:
            worker.timer.failed(time.monotonic())
        self._commands.extend(self._table.landed(lease, whole=False, blame=blame))

    def _shares(self, peer: Peer) -> bool:
        """Whether this worker writes into the slots itself."""
        return self._workers[peer].is_child and SHARED

    def _have_landed(self, peer: Peer, result: Result, connection: int) -> None:
        """Have a receiver put the pixels in their place; where they are not wanted any more, take
        them off the connection."""
        if not self._table.holds(peer, result.lease):
            raise ProtocolError(f"pixels of lease {result.lease}, which it does not have")
        found, place, size = self._table.landing(peer, result.lease), None, 0
        if found is not None:
            stream_id, slot, first, rows = found
            stream = self._streams[stream_id]
            place, size = stream.place(slot, first), rows * stream.clip_bytes
        is_there = self._receivers.land(peer, connection, result.lease, place, size)
        if found is None:
            self._take(peer, result, is_sent=True)
        elif is_there:
            self._landing[connection, result.lease] = _Words(peer, result)
        else:
            self._lose(peer, result.lease, blame=True)

    def _take(self, peer: Peer, result: Result, *, is_sent: bool) -> None:
        """The pixels are in their place, if there is one."""
        self._table.arrived(peer, result.lease, result.decode_s, _waited_s(result))
        place, worker = self._table.place(peer, result.lease), self._workers[peer]
        now = time.monotonic()
        if place is None:  # void: all that is known is that it has one less
            worker.timer.failed(now)
            self._commands.extend(
                self._table.result(peer, result.lease, _NO_FRAMES, result.decode_s)
            )
            return
        stream_id, _, _, rows = place
        stream = self._streams[stream_id]
        frames = _as_frames(result, rows, stream.spec)
        work = worker.timer.answered(result, rows, rows * stream.clip_bytes * is_sent, now)
        videos = self._table.videos(peer, result.lease)
        stream.meter.worked(worker.name, work, list(zip(videos, result.clip_s, strict=False)), now)
        self._meter.worked(worker.name, work, (), now)
        if worker.is_child or not stream.spec.files:
            self._commands.extend(self._table.result(peer, result.lease, frames, result.decode_s))
            return
        if len(result.files) != rows:
            raise ProtocolError(f"{len(result.files)} fingerprints for {rows} clips")
        self._copies.add(peer, result, frames, stream_id)


_NO_FRAMES = np.empty((0, 0), np.int64)


def _waited_s(result: Result) -> float:
    """What a worker waited for something else than a core; 0 where its kernel does not tell."""
    core_s = result.spent.core + result.spent.no_core
    return max(0.0, result.decode_s - core_s) if core_s else 0.0


def _as_frames(result: Result, rows: int, spec: Spec) -> npt.NDArray[np.int64]:
    """The ordinals of each clip's frames, then the bits of their times: what the lease table
    carries to the reader."""
    length = math.prod(spec.frames_shape)
    for told in (result.frames, result.times):
        if len(told) != rows or any(len(row) != length for row in told):
            raise ProtocolError(
                f"the lease has {rows} clips of {length} frames, the answer does not"
            )
    frames = np.array(result.frames, np.int64).reshape(rows, length)
    times = np.array(result.times, np.float64).reshape(rows, length)
    return np.hstack((frames, times.view(np.int64)))
