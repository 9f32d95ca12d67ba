"""The verdict is right with real workers. They sleep instead of decoding, so they need no core.

No other load on the machine changes these verdicts; `tests/unit/engine/test_verdict.py` has their
arithmetic.
"""

import signal
import threading
import time
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import Programs
from tests.support.videos import Videos, make_levels
from tests.support.waiting import SECOND, wait_until
from videoload import Catalog, Client, ClipSpec, ClosedError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("timing"),
]

SHORT = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", clips_per_video=3)
CLIP = ClipSpec(1, size=(2, 2), pixels="gray", transform="tests.support.transforms:sleeps")
BATCH = 4


@pytest.fixture
def slow(tmp_path: Path) -> Catalog:
    """Files of which each takes 50 ms."""
    return make_levels(tmp_path, {f"{number}.avi": 10 for number in range(40)})


def test_a_worker_that_is_too_slow_is_said_to_be_the_bottleneck(slow: Catalog) -> None:
    with Client(workers=1) as client:
        stream = client.stream(slow, CLIP, BATCH)
        reader = stream.batches(epochs=10)
        for _ in islice(reader, 2):
            pass
        stream.stats(since_last=True)
        for _ in islice(reader, 6):
            time.sleep(0.01 * SECOND)
        stats = stream.stats(since_last=True)
    assert stats.bottleneck == "function", stats
    assert stats.workers_wanted is not None
    assert stats.workers_wanted > 1
    assert stats.clip_times.transform >= 0.05 * SECOND


def test_a_trainer_that_only_reads_a_dataset_is_said_to_wait(tf: Any, slow: Catalog) -> None:
    with Client(workers=2) as client:
        stream = client.stream(slow, CLIP, BATCH)
        for _ in stream.dataset(epochs=2).take(6):
            pass
        stats = stream.stats()
    assert stats.batches == 6, "TensorFlow reads nothing ahead"
    assert stats.wait_ratio > 0.3
    assert stats.bottleneck != "trainer"


def test_a_trainer_without_workers_is_told_so_while_it_waits(
    videos: Videos, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoload.engine.verdict.STALLED_S", 0.3)
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
        wait_until(lambda: stream.stats(window_s=0.2).wait_ratio == 1.0, 30 * SECOND)
        stalled = stream.stats(window_s=0.2)
        assert stalled.clips == 0
        assert "No worker" in stream.stats().verdict
        wait_until(lambda: "for 2 s" in stream.stats().verdict, 30 * SECOND)
        programs.worker(client.endpoints[0], videos.root)
        wait_until(lambda: "o worker was connected" in stream.stats().verdict, 30 * SECOND)
    thread.join(30 * SECOND)
    assert not thread.is_alive()
    # Nobody waits any more, so nothing is added to the waiting.
    assert stream.stats().wait_ratio == stream.stats().wait_ratio < 1.0
