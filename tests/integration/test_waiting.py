"""The waiting that a stream reports is what its trainer really waited."""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.support.programs import Programs
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec, ClosedError, SpecError, Stream

CLIP = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", clips_per_video=3)
# With two workers, a batch of three takes 0.09 s.
SLOW = replace(CLIP, transform="tests.support.transforms:slow")
BATCH = 3

Steps = list[tuple[float, float]]  # when each step began and ended


def in_a_loop(tf: Any, dataset: Any, step_s: float) -> tuple[float, float]:
    """(waited, total time) around ``next``."""
    iterator = iter(dataset)
    waited, began = 0.0, time.monotonic()
    for last in range(int(dataset.cardinality()) - 1, -1, -1):
        asked = time.monotonic()
        next(iterator)
        waited += time.monotonic() - asked
        if last:
            time.sleep(step_s)
    return waited, time.monotonic() - began


def in_fit(tf: Any, dataset: Any, step_s: float) -> tuple[float, float]:
    """(waited, total time) between the steps that a model takes in a graph, from the first step."""
    steps: Steps = []

    def work(total: Any) -> Any:
        began = time.monotonic()
        time.sleep(step_s)
        steps.append((began, time.monotonic()))
        return total

    class Sleeper(tf.keras.Model):  # type: ignore[misc]
        def train_step(self, data: Any) -> dict[str, Any]:
            total = tf.reduce_sum(tf.cast(data[0], tf.float32))
            return {"loss": tf.py_function(work, [total], tf.float32)}

    model = Sleeper()
    model.compile()
    model.fit(dataset, verbose=0, shuffle=False)
    waited = sum(after[0] - before[1] for before, after in pairwise(steps))
    return waited, steps[-1][0] - steps[0][0]


@pytest.mark.timeout(240 * SECOND)
def test_a_trainer_that_only_reads_a_dataset_is_said_to_wait(
    tf: Any, client: Client, videos: Videos
) -> None:
    stream = client.stream(videos.catalog, SLOW, BATCH)
    waited, lasted = in_a_loop(tf, stream.dataset(epochs=2).take(6), 0.0)
    stats = stream.stats()
    assert stats.batches == 6, "TensorFlow reads nothing ahead"
    assert stats.wait_share > 0.3
    assert stats.bottleneck != "trainer"
    assert waited / lasted > 0.3


@pytest.mark.nightly
@pytest.mark.xdist_group("timing")
@pytest.mark.timeout(240 * SECOND)
@pytest.mark.parametrize("train", [in_a_loop, in_fit])
@pytest.mark.parametrize(
    ("step_s", "steps", "least", "most"),
    [(0.02, 30, 0.5, 1.0), (0.07, 30, 0.1, 0.5), (0.25, 14, 0.0, 0.1)],
    ids=["starved", "nearly", "slow"],
)
def test_the_reported_waiting_behind_a_dataset_is_the_trainers(
    step_s: float, steps: int, least: float, most: float, train: Any, tf: Any, videos: Videos,
    tell: Any,
) -> None:  # fmt: skip
    with Client(workers=2) as client:
        client.wait_for_workers(2, 40 * SECOND)
        # the workers have imported the transform
        next(client.stream(videos.catalog, SLOW, BATCH).batches())
        stream = client.stream(videos.catalog, SLOW, BATCH)
        waited, lasted = train(tf, stream.dataset(epochs=4).take(steps), step_s * SECOND)
        stats = stream.stats()
    true = waited / lasted
    tell(f"waited {true:.1%}, and said {stats.wait_share:.1%}: {stats}")
    assert least <= true <= most, "the machine is too busy to measure"
    assert abs(stats.wait_share - true) < 0.1
    assert (stats.bottleneck == "trainer") == (stats.wait_share <= 0.1)
    if most <= 0.1:
        assert stats.bottleneck == "trainer"
        assert "Add" not in stats.verdict
    assert stats.batches == steps, "TensorFlow reads nothing ahead"


@pytest.mark.timeout(240 * SECOND)
def test_a_trainer_without_workers_is_told_so_while_it_waits(
    videos: Videos, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoload.stats.verdict._STALLED_S", 0.3)
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        workers = [programs.worker(client.endpoints[0], videos.root) for _ in range(2)]
        client.wait_for_workers(2, 30 * SECOND)
        stream = client.stream(videos.catalog, CLIP, BATCH)
        reader = stream.batches(epochs=10**4)
        for _ in range(4):
            next(reader)
        for worker in workers:
            worker.signal(signal.SIGTERM)
        wait_until(lambda: not client.workers, 30 * SECOND, "they leave")
        stats = stream.stats()
        assert (stats.clips, stats.workers) == (4 * BATCH, ())

        def read_on() -> None:
            with pytest.raises(ClosedError):
                for _ in reader:
                    pass

        thread = threading.Thread(target=read_on)
        thread.start()
        wait_until(
            lambda: stream.stats().verdict.endswith(" s. No worker is connected."), 30 * SECOND
        )
        stalled = stream.stats(window_s=0.2)
        assert stalled.wait_share == 1.0
        assert stalled.clips == 0
    thread.join(30 * SECOND)
    assert not thread.is_alive()
    # Nobody waits any more, so nothing is added to the waiting.
    assert stream.stats().wait_share == stream.stats().wait_share < 1.0


@pytest.mark.nightly
@pytest.mark.timeout(240 * SECOND)
def test_the_waiting_of_two_threads_that_read_one_stream_is_their_mean(videos: Videos) -> None:
    with Client(workers=2) as client:
        client.wait_for_workers(2, 40 * SECOND)
        stream = client.stream(videos.catalog, CLIP, BATCH)

        def read() -> None:
            for _ in stream.batches(epochs=3):
                time.sleep(0.05 * SECOND)

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30 * SECOND)
        stats = stream.stats()
    assert stats.batches == 2 * 3 * len(stream)
    assert stats.wait_share < 0.5
    # Together, both are twice as fast as one.
    assert stats.clips_per_s > 1.2 * BATCH / (0.05 * SECOND) * (1 - stats.wait_share)


def test_an_invalid_window_is_refused(videos: Videos) -> None:
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        stream: Stream = client.stream(videos.catalog, CLIP, BATCH)
        with pytest.raises(SpecError, match=r"window_s must be a number of at least 0\.001, got 0"):
            stream.stats(window_s=0)
