"""What goes on in a client, for those who watch it; bounded, whatever there is of it."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Sequence

from videoload.engine.open_streams import OpenStream
from videoload.stats.stats import Connected, WorkerStats
from videoload.transport.messages import FileLine, Snapshot, StreamLine, WorkerLine

_WORKERS, _STREAMS, _FILES = 256, 16, 8  # of each at most: 40 kB
_TEXT = 120  # characters of a reason or a path, the last ones of a path
_WINDOW_S = 10.0
_TELL_S, _LOOK_AGAIN_S = 0.05, 0.5  # between two that are told, and between two that differ


class Snapshots:
    """Anyone may ask for one, and not read the answers. So there are few: in the 15 s that a
    stranger's connection lasts, no more than 12 MB for all of them together."""

    def __init__(self) -> None:
        self._tell_at = self._look_at = -math.inf
        self._last: Snapshot | None = None

    def tell(self, now: float, take: Callable[[], Snapshot]) -> Snapshot | None:
        """The one to answer with, or None where one was told just before."""
        if now < self._tell_at:
            return None
        self._tell_at = now + _TELL_S
        if self._last is None or now >= self._look_at:
            self._look_at = now + _LOOK_AGAIN_S
            self._last = take()
        return self._last


def take_snapshot(
    streams: Sequence[OpenStream], workers: Sequence[WorkerStats], connected: Sequence[Connected]
) -> Snapshot:
    """The streams that were made last, and the workers; ``connected``: the same."""
    lines = [
        WorkerLine(
            worker.name[:_TEXT], worker.state, worker.clips, worker.clips_per_s, worker.busy_share,
            worker.wire_share, worker.last_error[:_TEXT],
        )
        for worker in workers[:_WORKERS]
    ]  # fmt: skip
    return Snapshot(
        f"{platform.node()}:{os.getpid()}"[:256],
        lines,
        [_line(stream, connected) for stream in streams[-_STREAMS:]],
        len(workers) - len(lines),
    )


def _line(stream: OpenStream, connected: Sequence[Connected]) -> StreamLine:
    bad = stream.quarantine.videos
    found = stream.meter.read(connected, 0, (), _WINDOW_S)
    queues = list(stream.readers.values())
    return StreamLine(
        stream=stream.id,
        clips=f"{len(stream.catalog)} videos, clips {stream.spec.shape}"[:_TEXT],
        batch=stream.step,
        batches_per_epoch=len(stream.plan),
        readers=len(queues),
        ready=sum(queue.ready for queue in queues),
        slots=stream.arena.slots,
        clips_per_s=found.clips_per_s,
        wait_share=found.wait_share,
        verdict=found.verdict,
        workers_wanted=found.workers_wanted,
        bad_videos=len(bad),
        slowest=[FileLine(file.path[-_TEXT:], file.clip_s) for file in found.slowest_files],
        quarantine=[
            FileLine(video.path[-_TEXT:], reason=video.reason[:_TEXT]) for video in bad[-_FILES:]
        ],
    )
