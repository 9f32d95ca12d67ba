"""Turns the answers of workers into rows of batches.

An answer is a RESULT message, of clips with their pixels, which arrive in one of two ways:

    local workers      write the pixels into their place before they send the message
    remote workers     send the pixels in the same message, and they are copied into their place

All that can be wrong with an answer is found before its pixels are copied: nothing of an answer
that is not taken gets into a batch. All of this belongs to the I/O thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from videoload.clips.sample_info import info_in
from videoload.clips.sample_spec import SampleSpec
from videoload.clips.tasks import found_of
from videoload.engine.membership import ConnectedWorker
from videoload.engine.meter import Meter
from videoload.engine.open_streams import OpenStream
from videoload.errors import Fault, ProtocolError, named
from videoload.logs import RateLimitedLog
from videoload.scheduler import events
from videoload.scheduler.records import NO_INFO, Lease
from videoload.scheduler.scheduler import Scheduler
from videoload.wire.messages import Failed, Result
from videoload.wire.sockets import Peer

_FILE = 60  # characters of a path beside an error, from its end


@dataclass(eq=False)
class Answers:
    """Handles the answers of a client's workers. ``tell`` passes events to the scheduler. ``meter``
    counts for all streams."""

    scheduler: Scheduler
    tell: Callable[[events.Event], None]
    streams: Mapping[int, OpenStream]
    workers: Mapping[Peer, ConnectedWorker]
    meter: Meter
    warnings: RateLimitedLog

    def take(self, peer: Peer, result: Result) -> None:
        """Handle a RESULT. Raises ProtocolError."""
        lease, worker = self.scheduler.lease(peer, result.lease), self.workers[peer]
        now, is_sent = time.monotonic(), not worker.local
        if lease is None or not lease.is_owed:
            self._too_late(worker, lease, result, now)
            return
        stream, rows = self.streams[lease.stream], len(lease.rows)
        task, clip_bytes, _ = stream.layout_of(lease.sample)
        try:
            if isinstance(task, SampleSpec):
                info = info_in(result.info, rows, task)
            else:
                info = found_of(result.found, rows, task)
        except ValueError as error:
            raise ProtocolError(str(error)) from None
        if len(result.files) != rows:
            raise ProtocolError(f"{len(result.files)} files for {rows} clips")
        if (at := self.scheduler.other_file(lease, result.files)) is not None:
            worker.timer.failed(now)
            reason = f"its copy of {named(stream.catalog[lease.videos[at]].path)} is another one"
            self.tell(events.Failed(lease, at, reason, Fault.COPY, result.files[at]))
            return
        if is_sent and clip_bytes:
            peer.router.receive_pixels(stream.pixels(lease.slot, lease.rows, clip_bytes))
        work = worker.timer.answered(result, rows, rows * clip_bytes * is_sent, now)
        seconds = list(zip(lease.videos, result.clip_s, strict=False))
        stream.meter.worked(worker.name, work, seconds, now)
        self.meter.worked(worker.name, work, (), now)
        self._note_versions(stream, lease, result)
        decode_s, waited_s = result.decode_s, _waited_s(result)
        self.tell(events.Answered(lease, info, decode_s, waited_s, result.files))

    def _too_late(
        self, worker: ConnectedWorker, lease: Lease | None, result: Result, now: float
    ) -> None:
        """Handle an answer that does not count any more. Its worker has one lease less, and its
        work and traffic count."""
        stream = None if lease is None else self.streams.get(lease.stream)
        if lease is None:
            self.tell(events.Heard(worker.id))
        if lease is None or stream is None:
            worker.timer.failed(now)
        else:
            clip_bytes = 0 if worker.local else stream.layout_of(lease.sample).clip_bytes
            work = worker.timer.answered(result, 0, len(lease.rows) * clip_bytes, now)
            stream.meter.worked(worker.name, work, (), now)
            self.meter.worked(worker.name, work, (), now)
        if lease is not None:
            self.tell(events.Answered(lease, NO_INFO, result.decode_s, _waited_s(result)))

    def failed(self, peer: Peer, failed: Failed, now: float) -> None:
        """A worker could not decode a clip of a lease."""
        worker, line = self.workers[peer], failed.reason
        worker.timer.failed(now)
        if (lease := self.scheduler.lease(peer, failed.lease)) is None:
            self.tell(events.Heard(peer))
            return
        is_of_code = failed.fault in (Fault.FUNCTION, Fault.CODE)
        if is_of_code and not worker.last_error.endswith(line):  # once, and not for each file
            self.warnings.add(f"worker {worker.name}: {line}", now)
        worker.last_error = "" if failed.fault is Fault.SHORT else line
        stream = self.streams.get(lease.stream)
        if worker.last_error and stream is not None and failed.at < len(lease.videos):
            file = named(stream.catalog[lease.videos[failed.at]].path)
            worker.last_error = f"{file[-_FILE:]}: {line}"
        self.tell(events.Failed(lease, failed.at, failed.reason, failed.fault, failed.file))

    def _note_versions(self, stream: OpenStream, lease: Lease, result: Result) -> None:
        """Notice files of the trainer's own copy that are others than they were."""
        for video, version in zip(
            lease.videos, () if lease.is_checked else result.files, strict=False
        ):
            if stream.is_changed(video, version):
                stream.note_changed(video)
                self.tell(events.FileChanged(stream.state.id, video))


def _waited_s(result: Result) -> float:
    """Return how long a worker waited for anything but a core; 0 if its kernel does not report
    it."""
    core_s = result.spent.core + result.spent.no_core
    return max(0.0, result.decode_s - core_s) if core_s else 0.0
