"""Metrics of a client and its streams for Prometheus: two tables of figures, and how each is got
from the records. Pure: plain data in and out.

The names are close to the names that Ray Data has for the same things.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from videoload.engine.stats import ClientRecord, StreamRecord, StreamStats
from videoload.wire.metrics_port import Metric

WINDOW_S = 60.0  # the gauges of a stream cover the last minute
_MAX_TIMES = 2  # at most this many times the current workers are requested at once

_Samples = Sequence[tuple[Mapping[str, str], float]]

_OF_STREAM: tuple[tuple[str, str, Callable[[StreamRecord], float | None]], ...] = (
    ("batches_total", "Batches delivered.", lambda s: s.totals.batches),
    ("clips_total", "Clips in them.", lambda s: s.totals.clips),
    ("copied_batches_total", "Batches copied because the reader holds too many.",
     lambda s: s.stats.copied),
    ("iter_blocked_seconds_total", "Seconds that the trainer waited for batches.",
     lambda s: s.totals.blocked_s),
    ("wait_ratio", "Share of the last minute that the trainer waited.",
     lambda s: s.stats.wait_ratio),
    ("clips_per_second", "Clips per second, over the last minute.",
     lambda s: s.stats.clips_per_s),
    ("frame_store_hit_ratio", "Share of the last minute's clips from the frame store.",
     lambda s: s.stats.frame_store_hit_ratio),
    ("frame_store_full_ratio", "Share of the last minute's clips decoded as it was full.",
     lambda s: s.stats.frame_store_full_ratio),
    ("bad_videos", "Files that could not be decoded.", lambda s: s.bad),
    ("bad_rows", "Rows of the catalog that could not be decoded.", lambda s: s.bad_rows),
    ("max_bad_videos", "Bad videos that max_bad allows.", lambda s: s.max_bad),
    ("changed_files_total", "Files that were replaced while the stream ran.", lambda s: s.changed),
    ("time_to_first_batch_seconds", "From the first request to the first batch.",
     lambda s: s.totals.first_batch_s),
    ("storage_unavailable_seconds", "How long no worker could read the videos.",
     lambda s: s.storage_unavailable_s),
)  # fmt: skip

_OF_CLIENT: tuple[tuple[str, str, Callable[[ClientRecord], _Samples]], ...] = (
    ("start_time_seconds", "When the client was created.", lambda c: [({}, c.began_s)]),
    # An alert needs a 0 where no worker is connected: no sample at all would raise none.
    ("workers", "Worker processes that are connected.", lambda c: [
        ({"host": host}, number)
        for host, number in (Counter(w.host for w in c.workers) or {"": 0}).items()
    ]),
    ("worker_clips_per_second", "Clips per second of decoding, per worker.", lambda c: [
        ({"worker": w.name, "host": w.host}, w.clips_per_s) for w in c.workers
    ]),
    ("decoded_clips_total", "Clips decoded by all workers.", lambda c: [({}, c.decoded)]),
    ("workers_departed_total", "Workers that have left.", lambda c: [({}, c.departed)]),
    ("workers_refused_total", "Workers that were refused, each time.", lambda c: [
        ({"cause": cause}, times) for cause, times in c.refusals.items()
    ]),
    # Unknown is not a number: without a sample, an autoscaler does not change.
    ("workers_wanted", "Worker processes that are enough.", lambda c: [
        ({}, wanted)
        for wanted in [workers_wanted([s.stats for s in c.streams], len(c.workers))]
        if wanted is not None
    ]),
)  # fmt: skip


def families(client: ClientRecord) -> Iterable[Metric]:
    """Yield the metrics of a client. The records of its streams cover `WINDOW_S`."""
    for name, text, value in _OF_STREAM:
        found = [({"stream": str(s.stream)}, value(s)) for s in client.streams]
        yield Metric(f"videoload_{name}", text, [(at, v) for at, v in found if v is not None])
    for name, text, samples in _OF_CLIENT:
        yield Metric(f"videoload_{name}", text, samples(client))


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
