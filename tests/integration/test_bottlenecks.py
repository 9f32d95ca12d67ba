"""The verdict is right with real workers. They sleep instead of decoding, so they need no core.

A push looks at one verdict, which no other load on the machine changes. The others compare times
and run at night; `tests/unit/stats/test_verdict.py` has their arithmetic.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import Programs
from tests.support.videos import Videos, make_levels
from tests.support.waiting import SECOND, wait_until
from videoload import Catalog, Client, ClipSpec, ClosedError, Stream
from videoload.stats.stats import StreamStats

pytestmark = [
    pytest.mark.timeout(140 * SECOND),
    pytest.mark.slow,
    pytest.mark.xdist_group("timing"),
]

SHORT = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", clips_per_video=3)
CLIP = ClipSpec(1, size=(2, 2), pixels="gray", transform="tests.support.transforms:sleeps")
BATCH = 4
STEP_S = 0.05 * SECOND


def catalog(root: Path, *ms: int, files: int = 40) -> Catalog:
    """Files that take ``ms`` milliseconds each, by turns: a multiple of five."""
    takes = [ms[number % len(ms)] for number in range(files)]
    return make_levels(
        root, {f"{number} {each}.avi": each // 5 for number, each in enumerate(takes)}
    )


def train(stream: Stream, batches: int, step_s: float = STEP_S) -> StreamStats:
    """Train step by step; returns the figures without the first two batches."""
    reader = stream.batches(epochs=10**6)
    for _ in islice(reader, 2):
        time.sleep(step_s)
    stream.stats(since_last=True)
    for _ in islice(reader, batches):
        time.sleep(step_s)
    return stream.stats(since_last=True)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client with four workers that have imported what they need."""
    with Client(workers=4) as client:
        client.wait_for_workers(4, 40 * SECOND)
        for _ in client.stream(catalog(tmp_path_factory.mktemp("quick"), 0), CLIP, 1):
            pass
        yield client


def test_a_worker_that_is_too_slow_is_said_to_be_the_bottleneck(tmp_path: Path) -> None:
    with Client(workers=1) as client:
        stats = train(client.stream(catalog(tmp_path, 50), CLIP, BATCH), 6, 0.01 * SECOND)
    assert stats.bottleneck == "function", stats
    assert " is too slow. The trainer waits " in stats.verdict
    assert stats.workers_wanted is not None
    assert stats.workers_wanted > 1
    assert stats.clip_times.transform >= 0.05 * SECOND


@pytest.mark.nightly
def test_with_the_recommended_number_of_workers_the_trainer_no_longer_waits(
    four: Client, tmp_path: Path
) -> None:
    """Steps take 50 ms, and a worker needs 200 ms for a batch."""
    slow_files = catalog(tmp_path, 50)
    with Client(workers=1) as one:
        slow = train(one.stream(slow_files, CLIP, BATCH), 12)
    assert slow.bottleneck == "function", slow
    assert " is too slow. The trainer waits 7" in slow.verdict
    assert slow.workers_wanted is not None
    assert 3 <= slow.workers_wanted <= 5, slow
    assert slow.utilisation > 0.8
    assert slow.clip_times.transform == pytest.approx(STEP_S, rel=0.3)
    # Four are just enough, so other load on the machine shows at once. The best of three counts.
    quick = train(four.stream(slow_files, CLIP, BATCH), 40)
    for _ in range(2):
        if quick.wait_share >= 0.05:
            quick = train(four.stream(slow_files, CLIP, BATCH), 40)
    assert quick.wait_share < 0.05, quick
    assert quick.bottleneck == "trainer"
    assert quick.workers_wanted is not None
    assert 3 <= quick.workers_wanted <= 5, "the number is the same from the other side"


@pytest.mark.nightly
def test_a_slow_trainer_is_not_told_to_add_workers(four: Client, tmp_path: Path) -> None:
    stream = four.stream(catalog(tmp_path, 5), CLIP, BATCH)
    ceiling = stream.head_room(lambda clips, labels: time.sleep(STEP_S), steps=3)
    assert ceiling == pytest.approx(1 / STEP_S, rel=0.2)
    stats = train(stream, 15)
    assert stats.bottleneck == "trainer", stats
    assert stats.verdict.endswith(" 1 worker is enough; 4 are running."), stats
    assert stats.ceiling_steps_per_s == ceiling
    assert sum(worker.clips for worker in stats.workers) > 0


def test_a_trainer_that_only_reads_a_dataset_is_said_to_wait(tf: Any, tmp_path: Path) -> None:
    with Client(workers=2) as client:
        stream = client.stream(catalog(tmp_path, 50), CLIP, BATCH)
        for _ in stream.dataset(epochs=2).take(6):
            pass
        stats = stream.stats()
    assert stats.batches == 6, "TensorFlow reads nothing ahead"
    assert stats.wait_share > 0.3
    assert stats.bottleneck != "trainer"


def test_a_trainer_without_workers_is_told_so_while_it_waits(
    videos: Videos, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoload.stats.verdict._STALLED_S", 0.3)
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        workers = [programs.worker(client.endpoints[0], videos.root) for _ in range(2)]
        client.wait_for_workers(2, 30 * SECOND)
        stream = client.stream(videos.catalog, SHORT, BATCH)
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
