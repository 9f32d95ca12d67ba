"""What a stream did, in numbers and in plain English."""

import math
import platform
import threading
from types import SimpleNamespace
from typing import Any

import pytest

import videoload.engine.meter
from tests.support.waiting import SECOND
from videoload.engine.meter import Meter
from videoload.engine.stats import ClipTimes, StreamStats, Totals, WorkerRecord
from videoload.engine.work import Work
from videoload.errors import BadVideo

HERE = platform.node()
WORKERS = [WorkerRecord(f"host:{n}", "host", n, False, "idle", "") for n in (1, 2)]
OWN = [WorkerRecord(f"{HERE}:{n}", HERE, n, True, "idle", "") for n in (1, 2)]


class Clock:
    """A clock that a test sets, and what happens by it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def take(self, meter: Meter, *, wait_s: float, clips: int = 8) -> None:
        meter.requested(0)
        self.now += wait_s
        meter.got(0, clips)

    def play(self, *readers: list[tuple[float, float]], began: tuple[float, ...] = (0, 0)) -> Meter:
        """Readers that wait and step in turn, for batches of 8 clips, from these times on."""
        meter, events = Meter(), []
        for reader, turns in enumerate(readers):
            at = self.now + began[reader]
            for wait, step in turns:
                events += [(at, 0, reader), (at + wait, 1, reader)]
                at += wait + step
        for at, got, reader in sorted(events, key=lambda event: event[0]):
            self.now = at
            meter.got(reader, 8) if got else meter.requested(reader)
        return meter


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(videoload.engine.meter, "time", SimpleNamespace(monotonic=made.monotonic))
    monkeypatch.setattr(videoload.engine.meter, "cores", lambda: 2)
    return made


def read(meter: Meter, workers: Any = WORKERS, window_s: float = math.inf) -> StreamStats:
    return meter.read(workers, (), window_s)


def test_readers_and_the_io_thread_wait_for_no_thread_that_books_or_reads_figures() -> None:
    # Such a thread may be inside Python's garbage collector, which waits for the reader to leave.
    meter, is_in, may_leave = Meter(), threading.Event(), threading.Event()
    meter.requested(0)

    def hold() -> list[WorkerRecord]:
        is_in.set()
        assert may_leave.wait(60 * SECOND)
        return []

    class Slow(list[int]):
        """Clips that take long to book."""

        def __iter__(self) -> Any:
            return iter(hold())

    meter.worked("host:1", Work(clips=1), Slow(), 0.0)  # type: ignore[arg-type]
    asking = threading.Thread(target=read, args=(meter,))
    asking.start()
    assert is_in.wait(60 * SECOND)
    meter.got(0, 8)
    for _ in range(200):  # more than are booked at once
        meter.worked("host:1", Work(clips=1, busy_s=0.1), (), 0.0)
    meter.requested(0)
    meter.left(0)
    may_leave.set()
    asking.join()
    assert (read(meter).clips, read(meter).workers[0].clips) == (8, 201)


# How long readers waited


def test_rates_and_waiting_cover_the_time_from_the_first_request_to_the_last_batch(
    clock: Clock,
) -> None:
    stats = read(Meter())
    assert (stats.batches, stats.clips, stats.clips_per_s, stats.wait_ratio) == (0, 0, 0.0, 0.0)
    assert stats.bottleneck == ""
    clock.now += 50
    meter = clock.play([(2, 6), (0, 1), (1, 0)])
    before = read(meter)
    clock.now += 100  # the trainer does something else
    stats = read(meter)
    assert stats == before
    assert (stats.batches, stats.clips) == (3, 24)
    assert (stats.clips_per_s, stats.wait_ratio) == pytest.approx((2.4, 0.3))
    assert meter.totals() == Totals(3, 24, 3.0, 2.0)


STEPS = [(0.1, 0.1)] * 10
TEN_TWICE = [*STEPS[:-1], (0.1, 3600.0), *STEPS]


@pytest.mark.parametrize(
    ("readers", "began", "rate", "share"),
    [
        ([STEPS, STEPS], (0, 3600), 160 / 3.8, 2.0 / 3.8),  # nobody reads in between
        ([TEN_TWICE], (0,), 160 / 3.8, 2.0 / 3.8),  # a pause is no training
        ([[*STEPS[:-1], (0.1, 2.0), *STEPS]], (0,), 160 / 3.8, 2.0 / 3.8),
        # Eight batches are taken together, and then trained on for 2 s: that is not a pause.
        ([[*[(0.1, 0.0)] * 7, (0.1, 2.0)] * 20], (0,), 1280 / 54, 16 / 54),
        # Nor are steps of under a second.
        ([[*[(0.0, 0.001)] * 50, (0.0, 0.95), (0.05, 0)]], (0,), 416 / 1.05, 0.05 / 1.05),
        # Of both readers, in the time of one.
        ([[*[(1, 1)] * 9, (1, 0)]] * 2, (0, 1), 160 / 20, 10 / 19),
    ],
)
def test_what_counts_as_time_of_readers(
    readers: list[list[tuple[float, float]]], began: tuple[float, ...], rate: float, share: float,
    clock: Clock,
) -> None:  # fmt: skip
    stats = read(clock.play(*readers, began=began))
    assert (stats.clips_per_s, stats.wait_ratio) == pytest.approx((rate, share), rel=1e-3)


@pytest.mark.parametrize("wait_s", [0.0, 0.1, 3.0])
def test_the_ceiling_is_what_the_trainer_could_take_whoever_waits(
    wait_s: float, clock: Clock
) -> None:
    turns = [*[(wait_s, 0.5)] * 10, (wait_s, 0.0)]
    stats = read(clock.play(turns))
    assert stats.max_steps_per_s == pytest.approx(11 / 5)
    assert stats.steps_per_s == pytest.approx(11 / (5 + 11 * wait_s))
    assert read(clock.play(turns, turns)).max_steps_per_s == pytest.approx(22 / 5)
    assert read(clock.play([(1, 0)] * 9)).max_steps_per_s == math.inf


def test_a_wait_that_goes_on_counts_and_an_abandoned_one_does_not(clock: Clock) -> None:
    meter = Meter()
    clock.take(meter, wait_s=0.0)
    clock.now += 4
    meter.requested(0)
    clock.now += 12
    assert read(meter).wait_ratio == pytest.approx(0.75)
    assert meter.totals().blocked_s == 12
    assert "12 s" in read(meter, []).verdict
    meter.left(0)
    meter.left(0)
    assert read(meter).wait_ratio == 0.0
    assert meter.totals().blocked_s == 12


def test_waiting_for_first_batches_is_counted_separately(clock: Clock) -> None:
    first = [(5.0, 1.0), *[(0.0, 1.0)] * 4, (0.0, 0.0)]
    stats = read(clock.play(first))
    assert (stats.bottleneck, stats.wait_ratio) == ("decoding", 0.5)
    assert "5.0 s" in stats.verdict
    anew = clock.play(first, first, began=(0, 30))
    assert "10.0 s" in read(anew).verdict
    assert "first" not in read(clock.play([(1.0, 1.0), (0.5, 0.0)])).verdict


def test_a_window_counts_what_came_in_it(clock: Clock) -> None:
    meter = clock.play([*[(1.0, 0.0)] * 10, *[(0.0, 1.0)] * 10, (0.0, 0.0)])
    assert (read(meter).batches, read(meter).clips) == (21, 168)
    recent = read(meter, window_s=5.0)
    assert (recent.batches, recent.clips, recent.wait_ratio) == (5, 40, 0.0)
    assert recent.clips_per_s == pytest.approx(8)
    meter.requested(0)
    clock.now += 5
    assert read(meter, window_s=10.0).wait_ratio == pytest.approx(0.5)
    clock.now += 10
    assert "15 s" in read(meter, window_s=1.0).verdict


# What workers did


def test_a_worker_has_its_work_for_this_stream_and_shares_of_its_own_time(clock: Clock) -> None:
    meter = Meter()
    meter.worked("host:1", Work(clips=30, busy_s=2.0, free_s=1.0, wire_s=1.0), (), clock.now)
    meter.worked("gone:9", Work(clips=50, busy_s=2.0), (), clock.now)
    one, two = read(meter).workers
    assert (one.name, one.clips, one.clips_per_s) == ("host:1", 30, 15.0)
    assert (one.busy_ratio, one.network_ratio) == (0.5, 0.25)
    assert (two.clips, two.clips_per_s, two.busy_ratio) == (0, 0.0, 0.0)
    clock.now += 60
    assert read(meter, window_s=30).workers[0].clips == 0
    work = Work(clips=30, busy_s=3.0)
    for age_s, share in ((3.0, 1.0), (6.0, 0.5), (600.0, 0.3)):
        record = WORKERS[0]._replace(work=work, age_s=age_s)
        assert record.stats(work, 10.0).busy_ratio == pytest.approx(share)


def test_old_windows_are_exact_to_an_eighth_and_none_is_lost(clock: Clock) -> None:
    meter, all_s, began = Meter(), 16_000, clock.now
    for second in range(all_s):
        meter.worked("a", Work(clips=1, busy_s=0.5), (), began + second)
    meter.worked("b", Work(clips=7), (), began + all_s - 0.5)
    clock.now += all_s
    assert {name: work.clips for name, work in meter.work(clock.now - 3).items()} == {
        "a": 3,
        "b": 7,
    }
    for window_s in (30, 300, 3000, 10_000):
        clips = meter.work(clock.now - window_s)["a"].clips
        assert clips == pytest.approx(window_s, rel=0.25)
    assert meter.work(-math.inf)["a"].clips == meter.work(began)["a"].clips == all_s
    assert meter.work(clock.now + 100) == {}


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
    assert {file.path: file.clips for file in stats.slowest_files} == {"3.avi": 1, "4.avi": 9}
    assert stats.slowest_files[1].clip_s == pytest.approx(0.01)


def test_no_workers_are_recommended_after_a_few_batches(clock: Clock) -> None:
    meters = [clock.play([(0.9, 0.1)] * batches) for batches in (7, 8)]
    for meter in meters:
        meter.worked("host:1", Work(clips=64, busy_s=8.0), [], clock.now)
    early, later = map(read, meters)
    assert early.workers_wanted is None
    assert "Add" not in early.verdict
    assert later.workers_wanted is not None
    assert "Add" in later.verdict


def test_workers_on_this_host_are_distinguished_from_others(clock: Clock) -> None:
    for workers, is_busy in ((WORKERS, False), (OWN, True), (OWN[:1], False)):
        meter = clock.play([(1.0, 0.1)] * 9)
        for worker in workers:
            meter.worked(worker.name, Work(clips=40, busy_s=5.0, core_s=5.0), (), clock.now)
        stats = read(meter, workers)
        assert stats.bottleneck == "decoding"
        assert ("2 cores" in stats.verdict) is is_busy


def test_the_shares_of_clips_from_the_frame_store_and_without_room_are_those_of_a_window(
    clock: Clock,
) -> None:
    meter = Meter()
    assert read(meter).frame_store_hit_ratio == 0
    assert "frame store" not in str(read(meter))
    meter.worked("host:1", Work(clips=30, busy_s=2.0), (), clock.now)
    clock.now += 60
    meter.worked("host:1", Work(clips=8, kept=8), (), clock.now)
    meter.worked("gone:9", Work(clips=2, kept=1), (), clock.now)
    assert read(meter).frame_store_hit_ratio == 9 / 40
    assert read(meter, window_s=30).frame_store_hit_ratio == 0.9
    assert "90%" in str(read(meter, window_s=30))
    meter.worked("host:1", Work(clips=960, no_room=10), (), clock.now)
    assert "full" not in read(meter).verdict, "too few"
    meter.worked("host:1", Work(clips=1000, no_room=490), (), clock.now)
    assert read(meter).frame_store_full_ratio == 0.25
    assert "full: 25%" in read(meter).verdict


def test_what_is_printed_has_the_figures_bad_videos_and_copies(clock: Clock) -> None:
    meter = Meter()
    clock.take(meter, wait_s=0.5)
    for word in ("8 clips", "1 batch", "16 clips/s", "2 workers", read(meter).verdict):
        assert word in str(read(meter))
    meter.copied += 3
    bad = (BadVideo("a.avi", "broken"),)
    stats = meter.read(WORKERS, bad)
    assert (stats.copied, stats.bad_videos) == (3, bad)
    assert "3 batches copied, 1 bad video" in str(stats)


def test_a_mark_tells_the_time_since_its_last_call(clock: Clock) -> None:
    meter = Meter()
    assert meter.since("stats") == math.inf
    clock.now += 3
    assert (meter.since("stats"), meter.since("epoch")) == (3.0, math.inf)


def test_a_batch_of_a_reader_that_never_asked_or_has_left_is_counted(clock: Clock) -> None:
    meter = Meter()
    meter.got(0, 8)
    meter.requested(1)
    meter.left(1)
    meter.got(1, 8)
    assert meter.totals() == Totals(2, 16, 0.0, 0.0)
    clock.take(meter, wait_s=1.0)
    assert read(meter).clips == 24
