"""What a client and its streams do, as Prometheus wants it. Pure: plain data in and out.

Names are close to those that Ray Data has for the same things.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from videoload.stats.stats import StreamStats, WorkerStats
from videoload.transport.metrics_port import Metric

WINDOW_S = 60.0  # what is told of the present is of so long
_MAX_TIMES = 2  # so many times the workers that there are is the most that is asked for at once


class StreamFigures(NamedTuple):
    """Of one stream: all that it did, what it did in the last minute, seconds that its readers
    waited since it began, and seconds until its first batch, if there was one."""

    stream: str
    total: StreamStats
    lately: StreamStats
    blocked_s: float
    first_batch_s: float | None


_Figure = tuple[str, str, Callable[[StreamFigures], float]]


def families(
    streams: Sequence[StreamFigures], workers: Sequence[WorkerStats], gone: int, decoded: int
) -> Iterable[Metric]:
    """The figures of a client: of ``streams``, of the ``workers`` that are connected, how many are
    ``gone``, and the clips that all of them ``decoded``."""
    each = [({"stream": s.stream}, s) for s in streams]
    counters: tuple[_Figure, ...] = (
        ("batches_total", "Batches handed over.", lambda s: s.total.batches),
        ("clips_total", "Clips in them.", lambda s: s.total.clips),
        ("copied_batches_total", "Batches that were copied: too many are kept.",
         lambda s: s.total.copied),
        ("iter_blocked_seconds_total", "Seconds that the trainer waited for batches.",
         lambda s: s.blocked_s),
    )  # fmt: skip
    gauges: tuple[_Figure, ...] = (
        ("wait_ratio", "Share of the last minute that the trainer waited.",
         lambda s: s.lately.wait_share),
        ("clips_per_second", "Clips per second, over the last minute.",
         lambda s: s.lately.clips_per_s),
        ("bad_videos", "Videos that could not be decoded.", lambda s: len(s.total.bad_videos)),
    )  # fmt: skip
    for name, text, value in counters:
        yield Metric(f"videoload_{name}", "counter", text, [(label, value(s)) for label, s in each])
    for name, text, value in gauges:
        yield Metric(f"videoload_{name}", "gauge", text, [(label, value(s)) for label, s in each])
    first = [(label, s.first_batch_s) for label, s in each if s.first_batch_s is not None]
    yield _gauge(
        "time_to_first_batch_seconds", "From the first question to the first batch.", first
    )
    hosts = Counter(worker.host for worker in workers)
    yield _gauge("workers", "Worker processes that are connected.", [
        ({"host": host}, number) for host, number in hosts.items()
    ])  # fmt: skip
    yield _gauge("worker_clips_per_second", "Clips per second of decoding, of each worker.", [
        ({"worker": worker.name, "host": worker.host}, worker.clips_per_s) for worker in workers
    ])  # fmt: skip
    yield _counter("decoded_clips_total", "Clips decoded, by all workers.", decoded)
    yield _counter("workers_departed_total", "Workers that are connected no more.", gone)
    wanted = workers_wanted([s.lately for s in streams], len(workers))
    yield _gauge("workers_wanted", "Worker processes that would do.", [({}, wanted)])


def workers_wanted(streams: Sequence[StreamStats], workers: int) -> int:
    """What the verdicts on all streams ask for, together: no more than twice what there is at once;
    as many as there are where they know nothing, and none where nobody reads."""
    if not any(stats.clips_per_s or stats.wait_share for stats in streams):
        return 0
    wanted = sum(stats.workers_wanted or 0 for stats in streams) or workers
    return max(1, min(wanted, _MAX_TIMES * workers))


def _counter(name: str, text: str, value: float) -> Metric:
    return Metric(f"videoload_{name}", "counter", text, [({}, value)])


def _gauge(name: str, text: str, samples: Sequence[tuple[Mapping[str, str], float]]) -> Metric:
    return Metric(f"videoload_{name}", "gauge", text, samples)
