"""What a stream did, in numbers and in plain English."""

from __future__ import annotations

import platform
import threading
from types import SimpleNamespace

import pytest

import videoload.stats.meter
from tests.support.waiting import SECOND
from videoload.errors import BadVideo
from videoload.stats.meter import Meter
from videoload.stats.stats import ClipTimes, SlowFile, StreamStats, WorkerRecord
from videoload.stats.work import Work

HERE = platform.node()
WORKERS = [WorkerRecord(f"host:{n}", "host", n, False, "idle", "") for n in (1, 2)]
OWN = [WorkerRecord(f"{HERE}:{n}", HERE, n, True, "idle", "") for n in (1, 2)]


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(videoload.stats.meter, "time", SimpleNamespace(monotonic=made.monotonic))
    monkeypatch.setattr(videoload.stats.meter, "cores", lambda: 2)
    return made


def take(meter: Meter, clock: Clock, *, wait_s: float, clips: int = 8, reader: int = 0) -> None:
    meter.asked(reader)
    clock.now += wait_s
    meter.got(reader, clips)


def read(
    meter: Meter, workers: list[WorkerRecord] = WORKERS, window_s: float = float("inf")
) -> StreamStats:
    return meter.read(workers, (), window_s)


def test_a_reader_waits_for_no_thread_that_books_or_reads_figures() -> None:
    # Such a thread may be inside Python's garbage collector, which waits for the reader to leave.
    meter = Meter()

    def a_reader_leaves() -> None:
        meter.asked(0)
        meter.got(0, 8)
        meter.asked(0)
        meter.left(0)

    with meter._lock:
        reader = threading.Thread(target=a_reader_leaves, daemon=True)
        reader.start()
        reader.join(20 * SECOND)
        assert not reader.is_alive()
    assert read(meter).clips == 8


def test_the_io_thread_waits_for_no_thread_that_reads_figures(clock: Clock) -> None:
    meter = Meter()
    answers = 200  # more than are booked at once

    def the_workers_answer() -> None:
        for _ in range(answers):
            meter.worked("host:1", Work(clips=1, leases=1, busy_s=0.1), (), clock.now)

    with meter._lock:
        thread = threading.Thread(target=the_workers_answer, daemon=True)
        thread.start()
        thread.join(20 * SECOND)
        assert not thread.is_alive()
    assert read(meter).workers[0].clips == answers


def test_a_young_workers_shares_are_of_its_own_time() -> None:
    work = Work(clips=30, leases=30, busy_s=3.0)
    for age_s, share in ((3.0, 1.0), (6.0, 0.5), (600.0, 0.3)):
        record = WORKERS[0]._replace(work=work, age_s=age_s)
        assert record.stats(work, 10.0).busy_share == pytest.approx(share)


def test_a_stream_that_was_not_read_says_so() -> None:
    stats = read(Meter())
    assert (stats.batches, stats.clips, stats.clips_per_s, stats.wait_share) == (0, 0, 0.0, 0.0)
    assert stats.verdict == "Nothing was read yet."


def test_rates_and_waiting_cover_the_time_from_the_first_request_to_the_last_batch(
    clock: Clock,
) -> None:
    meter = Meter()
    clock.now += 50  # the stream is read long after it was made
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


def test_an_empty_batch_counts_as_a_batch_without_clips(clock: Clock) -> None:
    meter = Meter()
    take(meter, clock, wait_s=1.0, clips=0)
    stats = read(meter)
    assert (stats.batches, stats.clips, stats.steps_per_s) == (1, 0, 0.0)


def test_a_wait_that_goes_on_counts_and_an_abandoned_one_does_not(clock: Clock) -> None:
    meter = Meter()
    take(meter, clock, wait_s=0.0)
    clock.now += 4
    meter.asked(0)
    clock.now += 12
    assert read(meter).wait_share == pytest.approx(0.75)
    assert read(meter, []).verdict.endswith("waiting for 12 s. No worker is connected.")
    meter.left(0)
    meter.left(0)
    assert read(meter).wait_share == 0.0


def test_a_window_counts_the_batches_handed_over_in_it(clock: Clock) -> None:
    meter = Meter()
    for _ in range(10):
        take(meter, clock, wait_s=1.0)
    for _ in range(5):
        take(meter, clock, wait_s=0.0)
        clock.now += 1.0
    assert (read(meter).batches, read(meter).clips) == (15, 120)
    recent = read(meter, window_s=4.5)
    assert (recent.batches, recent.clips, recent.wait_share) == (4, 32, 0.0)


def test_old_batches_count_in_the_totals_only(clock: Clock) -> None:
    meter = Meter()
    for _ in range(1000):
        take(meter, clock, wait_s=1.0)
    for _ in range(4096):
        clock.now += 1.0
        take(meter, clock, wait_s=0.0)
    stats = read(meter)
    assert (stats.batches, stats.wait_share) == (5096, 0.0)


def test_workers_on_this_host_are_distinguished_from_others(clock: Clock) -> None:
    def bottleneck(workers: list[WorkerRecord]) -> str:
        meter = Meter()
        for _ in range(9):
            take(meter, clock, wait_s=1.0)
            clock.now += 0.1
        for worker in workers:
            meter.worked(worker.name, Work(clips=40, busy_s=5.0, core_s=5.0), (), clock.now)
        return read(meter, workers).bottleneck

    assert bottleneck(WORKERS) == "decoding"
    assert bottleneck(OWN) == "cores"
    assert bottleneck(OWN[:1]) == "decoding"


def test_a_streams_workers_come_with_their_work_for_this_stream(clock: Clock) -> None:
    meter = Meter()
    meter.worked("host:1", Work(clips=30, busy_s=2.0, free_s=1.0, wire_s=1.0), (), clock.now)
    meter.worked("gone:9", Work(clips=50, busy_s=2.0), (), clock.now)
    stats = read(meter)
    one, two = stats.workers
    assert (one.name, one.clips, one.clips_per_s) == ("host:1", 30, 15.0)
    assert (one.busy_share, one.wire_share) == (0.5, 0.25)
    assert (two.clips, two.clips_per_s, two.busy_share) == (0, 0.0, 0.0), (
        "and no other stream's work"
    )
    clock.now += 60
    assert read(meter, window_s=30).workers[0].clips == 0
    assert WORKERS[0].stats(Work(clips=6, busy_s=3.0), 10.0).busy_share == pytest.approx(0.3)


def test_answers_count_at_once_and_in_their_own_time(clock: Clock) -> None:
    meter = Meter()
    for count in range(1, 201):
        meter.worked("host:1", Work(clips=1, busy_s=0.5), [(count, 0.5)], clock.now)
        clock.now += 1
        if count in (3, 70, 140):
            assert meter.work(-float("inf"))["host:1"].clips == count
    assert read(meter, window_s=10).workers[0].clips == pytest.approx(10, abs=1)
    assert sum(file.clips for file in read(meter).slowest_files) == 8


def test_a_clips_time_is_split_and_slow_files_have_their_paths(clock: Clock) -> None:
    meter = Meter(lambda video: f"{video}.avi")
    work = Work(
        clips=10, busy_s=0.45, free_s=1.0, wire_s=0.5, open_s=0.1, index_s=0.02, seek_s=0.03,
        decode_s=0.2, scale_s=0.05, transform_s=0.05,
    )  # fmt: skip
    lies = [(5, 1e9), (5, float("nan")), (5, -1.0), (5, float("inf"))]
    meter.worked("host:1", work, [(3, 0.4), *lies, *[(4, 0.01)] * 9], clock.now)
    stats = read(meter)
    assert stats.clip_times == ClipTimes(*(0.01, 0.002, 0.003, 0.02, 0.005, 0.005, 0.1, 0.05))
    assert isinstance(stats.slowest_files[0], SlowFile)
    assert {file.path: file.clips for file in stats.slowest_files} == {"3.avi": 1, "4.avi": 9}


def test_the_ceiling_is_what_the_trainer_could_take_without_waiting(clock: Clock) -> None:
    meter = Meter()
    for _ in range(3):
        take(meter, clock, wait_s=0.5)
        clock.now += 1.5
    stats = read(meter)
    assert (stats.steps_per_s, stats.ceiling_steps_per_s) == pytest.approx((3 / 4.5, 1.0))
    meter.ceiling = 1.25
    assert read(meter).ceiling_steps_per_s == 1.25


def test_a_mark_tells_the_time_since_its_last_call(clock: Clock) -> None:
    meter = Meter()
    assert meter.since("stats") == float("inf")
    clock.now += 3
    assert (meter.since("stats"), meter.since("epoch")) == (3.0, float("inf"))


def test_bad_videos_and_copies_are_passed_on(clock: Clock) -> None:
    meter = Meter()
    take(meter, clock, wait_s=1.0)
    meter.copied += 2
    bad = (BadVideo("a.avi", "broken"),)
    stats = meter.read(WORKERS, bad)
    assert (stats.copied, stats.bad_videos) == (2, bad)


def test_print_shows_one_line(clock: Clock) -> None:
    meter = Meter()
    take(meter, clock, wait_s=0.5)
    assert str(read(meter)) == (
        "8 clips in 1 batch, 16 clips/s, 2 workers busy 0%. Decoding keeps up. The trainer waits "
        "100% of the time, most of it for the first batches (0.5 s)."
    )
    meter.copied = 3
    bad = (BadVideo("a.avi", "broken"),)
    assert ", 3 batches copied, 1 bad video. " in str(meter.read(WORKERS, bad))


def test_reading_the_figures_changes_nothing(clock: Clock) -> None:
    meter = Meter()
    take(meter, clock, wait_s=1.0)
    first = read(meter)
    clock.now += 10
    assert read(meter) == first


def test_the_share_of_clips_from_the_frame_store_is_that_of_its_window(clock: Clock) -> None:
    meter = Meter()
    assert read(meter).kept_share == 0
    assert "frame store" not in str(read(meter))
    meter.worked("host:1", Work(clips=30, busy_s=2.0), (), clock.now)
    clock.now += 60
    meter.worked("host:1", Work(clips=8, kept=8), (), clock.now)
    meter.worked("gone:9", Work(clips=2, kept=1), (), clock.now)
    assert read(meter).kept_share == 9 / 40
    assert read(meter, window_s=30).kept_share == 0.9
    assert "90% of the clips from the frame store" in str(read(meter, window_s=30))


def test_a_full_store_is_told_by_the_share_of_clips_that_are_decoded_each_time(
    clock: Clock,
) -> None:
    meter = Meter()
    meter.worked("host:1", Work(clips=1000, no_room=10), (), clock.now)
    assert "frame store" not in read(meter).verdict, "too few"
    meter.worked("host:1", Work(clips=1000, no_room=490), (), clock.now)
    assert read(meter).no_room_share == 0.25
    assert "frame store is full: 25%" in read(meter).verdict
