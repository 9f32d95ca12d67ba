"""What a stream did, in numbers and in one sentence."""

from __future__ import annotations

import platform
from types import SimpleNamespace

import pytest

import videoload.trainer.stats
from videoload.errors import BadVideo
from videoload.trainer.stats import Departed, Meter, StreamStats, WorkerStats

HERE = platform.node()
WORKERS = (WorkerStats("host:1", "host", 1, 30, 15.0), WorkerStats("host:2", "host", 2, 10, 5.0))
OWN = (WorkerStats(f"{HERE}:1", HERE, 1, 30, 15.0), WorkerStats(f"{HERE}:2", HERE, 2, 10, 5.0))


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(videoload.trainer.stats, "time", SimpleNamespace(monotonic=made.monotonic))
    monkeypatch.setattr(videoload.trainer.stats, "cores", lambda: 2)
    return made


def take(meter: Meter, clock: Clock, *, wait_s: float, clips: int = 8, reader: int = 0) -> None:
    meter.asked(reader)
    clock.now += wait_s
    meter.got(reader, clips)


def read(
    meter: Meter, workers: tuple[WorkerStats, ...] = WORKERS, window_s: float = float("inf")
) -> StreamStats:
    return meter.read(workers, Departed(), (), window_s)


def test_a_stream_that_was_not_read_says_so() -> None:
    stats = read(Meter())
    assert (stats.batches, stats.clips, stats.clips_per_s, stats.wait_share) == (0, 0, 0.0, 0.0)
    assert stats.verdict == "nothing was read"


def test_rates_and_waiting_are_over_the_time_from_the_first_question_to_the_last_batch(
    clock: Clock,
) -> None:
    meter = Meter()
    clock.now += 50  # made long before it is read
    take(meter, clock, wait_s=2.0)
    clock.now += 6.0  # the trainer trains
    take(meter, clock, wait_s=0.0)
    clock.now += 1.0
    take(meter, clock, wait_s=1.0, clips=4)
    clock.now += 100  # and then does something else
    stats = read(meter)
    assert (stats.batches, stats.clips) == (3, 20)
    assert stats.clips_per_s == pytest.approx(2.0)
    assert stats.wait_share == pytest.approx(0.3)


def test_a_wait_that_goes_on_counts_and_one_that_was_given_up_does_not(clock: Clock) -> None:
    meter = Meter()
    take(meter, clock, wait_s=0.0)
    clock.now += 4
    meter.asked(0)
    clock.now += 12
    assert read(meter).wait_share == pytest.approx(0.75)
    assert read(meter, ()).verdict.endswith("waiting for 12 s: no worker is connected")
    meter.left(0)
    meter.left(0)
    assert read(meter).wait_share == 0.0


def test_a_window_counts_what_was_handed_over_in_it(clock: Clock) -> None:
    meter = Meter()
    for _ in range(10):
        take(meter, clock, wait_s=1.0)
    for _ in range(5):
        take(meter, clock, wait_s=0.0)
        clock.now += 1.0
    assert (read(meter).batches, read(meter).clips) == (15, 120)
    recent = read(meter, window_s=4.5)
    assert (recent.batches, recent.clips, recent.wait_share) == (4, 32, 0.0)


def test_what_was_taken_long_ago_counts_in_the_totals_only(clock: Clock) -> None:
    meter = Meter()
    for _ in range(1000):
        take(meter, clock, wait_s=1.0)
    for _ in range(4096):
        clock.now += 1.0
        take(meter, clock, wait_s=0.0)
    stats = read(meter)
    assert (stats.batches, stats.wait_share) == (5096, 0.0)


def test_workers_on_this_host_are_told_from_others(clock: Clock) -> None:
    meter = Meter()
    take(meter, clock, wait_s=1.0)
    assert read(meter, WORKERS).verdict.endswith("2 workers: more of them would make it faster")
    assert "the 2 cores of this host can do no more" in read(meter, OWN).verdict
    assert read(meter, OWN[:1]).verdict.endswith("1 worker: more of them would make it faster")


def test_workers_bad_videos_and_copies_are_passed_on(clock: Clock) -> None:
    meter = Meter()
    take(meter, clock, wait_s=1.0)
    meter.copied += 2
    bad = (BadVideo("a.avi", "broken"),)
    stats = meter.read(WORKERS, Departed(3, 50), bad)
    assert (stats.copied, stats.workers, stats.bad_videos) == (2, WORKERS, bad)
    assert (stats.departed, stats.departed_clips) == (3, 50)


def test_a_person_reads_one_line(clock: Clock) -> None:
    meter = Meter()
    take(meter, clock, wait_s=0.5)
    assert str(read(meter)) == (
        "8 clips in 1 batch, 16 clips/s; the trainer waited 100% of the time for 2 workers: "
        "more of them would make it faster"
    )
    meter.copied = 3
    bad = (BadVideo("a.avi", "broken"),)
    assert ", 16 clips/s, 3 batches copied, 1 bad video; " in str(
        meter.read(WORKERS, Departed(), bad)
    )


def test_reading_changes_nothing(clock: Clock) -> None:
    meter = Meter()
    take(meter, clock, wait_s=1.0)
    first = read(meter)
    clock.now += 10
    assert read(meter) == first
