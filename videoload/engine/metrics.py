"""Metrics of a client and its streams for Prometheus. Pure: plain data in and out.

The names are close to the names that Ray Data has for the same things.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from videoload.engine.stats import StreamRecord, StreamStats, WorkerStats
from videoload.wire.metrics_port import Metric

WINDOW_S = 60.0  # the gauges of a stream cover the last minute
_MAX_TIMES = 2  # at most this many times the current workers are requested at once

_Kind = Literal["counter", "gauge"]

_STREAMS: tuple[tuple[_Kind, str, str, Callable[[StreamRecord], float | None]], ...] = (
    ("counter", "batches_total", "Batches delivered.", lambda s: s.totals.batches),
    ("counter", "clips_total", "Clips in them.", lambda s: s.totals.clips),
    ("counter", "copied_batches_total", "Batches copied because the reader holds too many.",
     lambda s: s.stats.copied),
    ("counter", "iter_blocked_seconds_total", "Seconds that the trainer waited for batches.",
     lambda s: s.totals.blocked_s),
    ("gauge", "wait_ratio", "Share of the last minute that the trainer waited.",
     lambda s: s.stats.wait_ratio),
    ("gauge", "clips_per_second", "Clips per second, over the last minute.",
     lambda s: s.stats.clips_per_s),
    ("gauge", "frame_store_hit_ratio", "Share of the last minute's clips from the frame store.",
     lambda s: s.stats.frame_store_hit_ratio),
    ("gauge", "frame_store_full_ratio", "Share of the last minute's clips decoded as it was full.",
     lambda s: s.stats.frame_store_full_ratio),
    ("gauge", "bad_videos", "Videos that could not be decoded.",
     lambda s: len(s.stats.bad_videos)),
    ("gauge", "max_bad_videos", "Bad videos that max_bad allows.", lambda s: s.max_bad),
    ("counter", "changed_files_total", "Files that were replaced while the stream ran.",
     lambda s: s.changed),
    ("gauge", "time_to_first_batch_seconds", "From the first request to the first batch.",
     lambda s: s.totals.first_batch_s),
)  # fmt: skip


def families(
    streams: Sequence[StreamRecord], workers: Sequence[WorkerStats], *, began_s: float, gone: int,
    refused: Mapping[str, int], decoded: int, away: Mapping[int, float] = MappingProxyType({}),
) -> Iterable[Metric]:  # fmt: skip
    """Yield the metrics of a client that ``began_s`` after 1970. The records of ``streams`` cover
    `WINDOW_S`. ``workers`` are connected, ``gone`` have left, and all of them ``decoded`` that many
    clips. Workers were ``refused`` that many times for each cause. The videos of the streams by
    these numbers are ``away`` for so many seconds."""
    yield _metric("gauge", "start_time_seconds", "When the client was created.", [({}, began_s)])
    for kind, name, text, value in _STREAMS:
        found = [({"stream": str(s.stream)}, value(s)) for s in streams]
        yield _metric(kind, name, text, [(label, v) for label, v in found if v is not None])
    away_s = [({"stream": str(s.stream)}, away.get(s.stream, 0.0)) for s in streams]
    text = "How long no worker could read the videos."
    yield _metric("gauge", "storage_unavailable_seconds", text, away_s)
    # An alert needs a 0 where no worker is connected: no sample at all would raise none.
    hosts = Counter(worker.host for worker in workers) or {"": 0}
    yield _metric("gauge", "workers", "Worker processes that are connected.", [
        ({"host": host}, number) for host, number in hosts.items()
    ])  # fmt: skip
    yield _metric("gauge", "worker_clips_per_second", "Clips per second of decoding, per worker.", [
        ({"worker": worker.name, "host": worker.host}, worker.clips_per_s) for worker in workers
    ])  # fmt: skip
    yield _metric("counter", "decoded_clips_total", "Clips decoded by all workers.",
                  [({}, decoded)])  # fmt: skip
    yield _metric("counter", "workers_departed_total", "Workers that have left.", [({}, gone)])
    yield _metric("counter", "workers_refused_total", "Workers that were refused, each time.",
                  [({"cause": cause}, times) for cause, times in refused.items()])  # fmt: skip
    wanted = workers_wanted([s.stats for s in streams], len(workers))
    # Unknown is not a number: without a sample, an autoscaler does not change.
    yield _metric("gauge", "workers_wanted", "Worker processes that are enough.",
                  [] if wanted is None else [({}, wanted)])  # fmt: skip


def workers_wanted(streams: Sequence[StreamStats], workers: int) -> int | None:
    """Return how many workers the verdicts on all streams request together, at most twice the
    current ones; 0 without readers. None if unknown: before the first steps of a run, and while its
    storage does not respond."""
    if not any(stats.clips_per_s or stats.wait_ratio for stats in streams):
        return 0
    wanted = [stats.workers_wanted for stats in streams if stats.workers_wanted is not None]
    if not wanted and workers:
        return None
    return max(1, min(sum(wanted), _MAX_TIMES * workers))


def _metric(
    kind: _Kind, name: str, text: str, samples: Sequence[tuple[Mapping[str, str], float]]
) -> Metric:
    return Metric(f"videoload_{name}", kind, text, samples)
