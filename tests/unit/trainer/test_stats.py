"""What a stream did, in numbers and in one sentence."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import videoload.trainer.stats
from videoload.errors import BadVideo
from videoload.trainer.stats import Meter, WorkerStats

WORKERS = (WorkerStats("host:1", "host", 1, 30, 15.0), WorkerStats("host:2", "host", 2, 10, 5.0))


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
    return made


def take(meter: Meter, clock: Clock, *, wait_s: float, clips: int = 8) -> None:
    asked = meter.asked()
    clock.now += wait_s
    meter.got(asked, clips)


def test_a_stream_that_was_not_read_says_so() -> None:
    stats = Meter().read((), ())
    assert (stats.batches, stats.clips, stats.clips_per_s, stats.wait_share) == (0, 0, 0.0, 0.0)
    assert stats.verdict == "nothing was read yet"


def test_a_stream_that_was_only_asked_says_nothing_was_read(clock: Clock) -> None:
    meter = Meter()
    meter.asked()
    clock.now += 5
    stats = meter.read((), ())
    assert (stats.clips_per_s, stats.wait_share, stats.verdict) == (
        0.0,
        0.0,
        "nothing was read yet",
    )


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
    stats = meter.read(WORKERS, ())
    assert (stats.batches, stats.clips) == (3, 20)
    assert stats.clips_per_s == pytest.approx(2.0)
    assert stats.wait_share == pytest.approx(0.3)


def test_the_first_batch_alone_is_all_waiting(clock: Clock) -> None:
    meter = Meter()
    take(meter, clock, wait_s=4.0)
    stats = meter.read(WORKERS, ())
    assert (stats.wait_share, stats.clips_per_s) == (1.0, 2.0)


def test_a_batch_that_took_no_time_has_no_rate(clock: Clock) -> None:
    meter = Meter()
    take(meter, clock, wait_s=0.0)
    stats = meter.read((), ())
    assert (stats.batches, stats.clips_per_s, stats.wait_share) == (1, 0.0, 0.0)


def test_two_consumers_that_wait_at_once_wait_all_of_the_time_and_no_more(clock: Clock) -> None:
    meter = Meter()
    first, second = meter.asked(), meter.asked()
    clock.now += 2
    meter.got(first, 8)
    meter.got(second, 8)
    assert meter.read((), ()).wait_share == 1.0


@pytest.mark.parametrize(
    ("waited_s", "words"),
    [
        (0, "decoding keeps up: the trainer waited 0% of the time"),
        (5, "decoding keeps up: the trainer waited 5% of the time"),
        (
            6,
            "the trainer waited 6% of the time for 2 worker(s): more of them would make it faster",
        ),
        (
            100,
            "the trainer waited 100% of the time for 2 worker(s): "
            "more of them would make it faster",
        ),
    ],
)
def test_the_verdict_says_whether_more_workers_would_help(
    clock: Clock, waited_s: int, words: str
) -> None:
    meter = Meter()
    meter.asked()
    clock.now += 100 - waited_s
    take(meter, clock, wait_s=waited_s)
    assert meter.read(WORKERS, ()).verdict == words


def test_workers_bad_videos_and_copies_are_passed_on(clock: Clock) -> None:
    meter = Meter()
    take(meter, clock, wait_s=1.0)
    meter.copied += 2
    bad = (BadVideo("a.avi", "broken"),)
    stats = meter.read(WORKERS, bad)
    assert (stats.copied, stats.workers, stats.bad_videos) == (2, WORKERS, bad)


def test_reading_changes_nothing(clock: Clock) -> None:
    meter = Meter()
    take(meter, clock, wait_s=1.0)
    first = meter.read(WORKERS, ())
    clock.now += 10
    assert meter.read(WORKERS, ()) == first
