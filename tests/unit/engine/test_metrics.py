"""The metrics for Prometheus follow from the figures of a client."""

import re
from dataclasses import replace

import pytest

from videoload.engine.metrics import families, workers_wanted
from videoload.engine.stats import ClientRecord, StreamRecord, StreamStats, Totals, WorkerStats
from videoload.errors import BadVideo
from videoload.wire.metrics_port import Metric


def worker(pid: int, rate: float, host: str = "a") -> WorkerStats:
    return WorkerStats(f"{host}:{pid}", host, pid, 100, rate)


def stats(rate: float, waited: float) -> StreamStats:
    bad = (BadVideo("x.avi", "cut"),)
    return StreamStats(
        5, 40, rate, waited, 1, (), bad, "all is well", frame_store_hit_ratio=0.75,
        frame_store_full_ratio=0.125,
    )  # fmt: skip


def record(stream: int, stats: StreamStats, totals: Totals) -> StreamRecord:
    return StreamRecord(
        stream, "clips", 4, 10, 1, 0, 8, len(stats.bad_videos), stats, totals,
        storage_unavailable_s=7.5, bad_rows=30,
    )  # fmt: skip


def told(*streams: StreamRecord) -> dict[str, Metric]:
    workers = worker(1, 50), worker(2, 50), worker(3, 20, "b")
    client = ClientRecord(
        "gpu:1", workers, streams, began_s=9.0, departed=2, decoded=330,
        refusals={"key": 3, "hello": 1},
    )  # fmt: skip
    return {metric.name: metric for metric in families(client)}


def test_every_figure_of_a_stream_is_labelled_with_its_number() -> None:
    found = told(
        record(0, stats(60, 0.25), Totals(7, 56, 3.5, 0.75)),
        record(4, stats(60, 0.25), Totals(7, 56, 0.0, None)),
    )
    first = {"stream": "0"}
    for name, value in {
        "batches_total": 7, "clips_total": 56, "copied_batches_total": 1,
        "iter_blocked_seconds_total": 3.5, "wait_ratio": 0.25, "clips_per_second": 60,
        "bad_videos": 1, "bad_rows": 30, "frame_store_hit_ratio": 0.75,
        "frame_store_full_ratio": 0.125,
        "storage_unavailable_seconds": 7.5,
    }.items():  # fmt: skip
        assert found[f"videoload_{name}"].samples[0] == (first, value)
        assert found[f"videoload_{name}"].samples[1][0] == {"stream": "4"}
    assert found["videoload_time_to_first_batch_seconds"].samples == [(first, 0.75)]


def test_workers_are_counted_by_host_and_departed_ones_stay_in_the_totals() -> None:
    found = told()
    assert found["videoload_workers"].samples == [({"host": "a"}, 2), ({"host": "b"}, 1)]
    assert found["videoload_decoded_clips_total"].samples == [({}, 330)]
    assert found["videoload_workers_departed_total"].samples == [({}, 2)]
    assert found["videoload_workers_refused_total"].samples == [
        ({"cause": "key"}, 3), ({"cause": "hello"}, 1)
    ]  # fmt: skip
    (*_, (labels, rate)) = found["videoload_worker_clips_per_second"].samples
    assert (labels, rate) == ({"worker": "b:3", "host": "b"}, 20)


def test_metric_names_follow_the_rules_of_prometheus() -> None:
    for name, metric in told(record(0, stats(5, 0), Totals(0, 0, 0, 0))).items():
        assert re.fullmatch(r"videoload_[a-z]+(_[a-z]+)*", name)
        assert metric.help.endswith(".")


@pytest.mark.parametrize(
    ("told", "workers", "wanted"),
    [
        ([2], 4, 2),
        ([4], 2, 4),
        ([9], 2, 4),  # no more than twice as many at once
        ([None], 3, None),  # nothing is known yet
        ([None, 2], 3, 2),
        ([2, 1], 4, 3),  # streams share the workers
        ([None], 0, 1),
    ],
)
def test_the_verdicts_tell_how_many_workers_are_wanted(
    told: list[int | None], workers: int, wanted: int | None
) -> None:
    streams = [replace(stats(100, 0.5), workers_wanted=number) for number in told]
    assert workers_wanted(streams, workers) == wanted


def test_no_worker_is_wanted_if_nobody_reads() -> None:
    assert workers_wanted([], 1) == 0
    assert workers_wanted([stats(0, 0)], 1) == 0
