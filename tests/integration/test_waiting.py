"""The waiting that a stream reports is what its trainer really waited."""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import replace
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


def test_an_invalid_window_is_refused(videos: Videos) -> None:
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        stream: Stream = client.stream(videos.catalog, CLIP, BATCH)
        with pytest.raises(SpecError, match=r"window_s must be a number of at least 0\.001, got 0"):
            stream.stats(window_s=0)
