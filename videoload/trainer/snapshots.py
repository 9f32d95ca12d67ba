"""What goes on in a client, for those who watch it; bounded, whatever there is of it."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence

from videoload.trainer.open_streams import OpenStream
from videoload.trainer.stats import Connected, WorkerStats
from videoload.transport.messages import FileLine, Snapshot, StreamLine, WorkerLine

_WORKERS, _STREAMS, _FILES = 256, 16, 8  # of each at most: 40 kB
_TEXT = 120  # characters of a reason or a path, the last ones of a path
_WINDOW_S = 10.0


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
