"""The figures of a client for ``videoload top``, bounded in size and in number."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from videoload.stats.stats import StreamRecord, WorkerStats
from videoload.transport.messages import FileLine, Snapshot, StreamLine, WorkerLine

WINDOW_S = 10.0  # the figures of a stream and the shares of a worker cover the last seconds
_WORKERS, MAX_STREAMS, _FILES = 256, 16, 8  # of each at most: 40 kB
_TEXT = 120  # characters of a reason or a path, from the end of a path
_NAME = 256
# Seconds between two answers, and between two different ones.
_ANSWER_S, _REFRESH_S = 0.05, 0.5


class Snapshots:
    """Anyone may ask for snapshots and never read the answers, so there are few of them. In the
    15 s that a stranger's connection lasts, all together have 12 MB at most."""

    def __init__(self) -> None:
        self._answer_at = self._refresh_at = -math.inf
        self._last: Snapshot | None = None

    def answer(self, now: float, take: Callable[[], Snapshot]) -> Snapshot | None:
        """The snapshot to answer with, or None if one was sent just before."""
        if now < self._answer_at:
            return None
        self._answer_at = now + _ANSWER_S
        if self._last is None or now >= self._refresh_at:
            self._refresh_at = now + _REFRESH_S
            self._last = take()
        return self._last


def snapshot(
    trainer: str, streams: Sequence[StreamRecord], workers: Sequence[WorkerStats]
) -> Snapshot:
    """What a client does. There are `MAX_STREAMS` streams at most."""
    lines = [
        WorkerLine(
            worker.name[:_TEXT], worker.state, worker.clips, worker.clips_per_s, worker.busy_share,
            worker.wire_share, worker.last_error[:_TEXT],
        )
        for worker in workers[:_WORKERS]
    ]  # fmt: skip
    more = len(workers) - len(lines)
    return Snapshot(trainer[:_NAME], lines, [_line(stream) for stream in streams], more)


def _line(record: StreamRecord) -> StreamLine:
    stats = record.stats
    return StreamLine(
        stream=record.stream,
        clips=record.what[:_TEXT],
        batch=record.step,
        batches_per_epoch=record.batches_per_epoch,
        readers=record.readers,
        ready=record.ready,
        slots=record.slots,
        clips_per_s=stats.clips_per_s,
        wait_share=stats.wait_share,
        verdict=stats.verdict,
        workers_wanted=stats.workers_wanted,
        bad_videos=len(stats.bad_videos),
        slowest=[FileLine(file.path[-_TEXT:], file.clip_s) for file in stats.slowest_files],
        quarantine=[
            FileLine(video.path[-_TEXT:], reason=video.reason[:_TEXT])
            for video in stats.bad_videos[-_FILES:]
        ],
        kept_share=stats.kept_share,
    )
