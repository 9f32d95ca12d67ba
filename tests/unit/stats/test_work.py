"""What workers did: which of their reports are believed, and how long they are remembered."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.thorough import either
from videoload.stats.work import FileTimes, SlowFiles, Work, WorkHistory, WorkTimer, total
from videoload.transport.messages import Result, Spent


def result(busy_s: float, idle_s: float = 0.0, **spent: float) -> Result:
    return Result(1, [[0]], busy_s, spent=Spent(idle=idle_s, **spent))


def started(now: float = 0.0) -> WorkTimer:
    """A worker that has answered its first lease, and has no lease now."""
    timer = WorkTimer()
    timer.granted(now - 1)
    timer.answered(result(0.5), 1, 0, now)
    return timer


# One worker


def test_time_without_a_lease_is_waiting_for_a_slot() -> None:
    timer = started(10.0)
    assert timer.is_free
    timer.granted(10.4)
    assert not timer.is_free
    work = timer.answered(result(0.5, 0.401, decode=0.3, scale=0.2), 8, 0, 10.9)
    assert (work.clips, work.leases, work.busy_s) == (8, 1, 0.5)
    assert (work.free_s, work.wire_s) == pytest.approx((0.4, 0.001))
    assert (work.decode_s, work.scale_s) == (0.3, 0.2)


def test_idle_time_with_leases_is_waiting_for_the_line() -> None:
    """Two leases are answered at once, and their pixels take two seconds each."""
    timer = started(0.0)
    timer.granted(0.0)
    timer.granted(0.0)
    timer.answered(result(0.1), 1, 100, 2.1)
    timer.granted(2.1)
    timer.answered(result(0.1), 1, 100, 4.1)
    work = timer.answered(result(0.1, 1.9), 1, 100, 6.1)
    assert (work.free_s, work.wire_s, work.sent_bytes) == pytest.approx((0, 1.9, 100))


def test_a_pause_is_not_waiting_for_a_slot() -> None:
    timer = started(0.0)
    timer.granted(3600.0)
    work = timer.answered(result(0.1, 3600.0), 1, 0, 3600.1)
    assert (work.free_s, work.wire_s) == (1.0, 0.0)


def test_idle_time_before_the_first_answer_does_not_count() -> None:
    timer = WorkTimer()
    timer.granted(100.0)
    work = timer.answered(result(3.0, 60.0, importing=2.5), 4, 0, 103.0)
    assert (work.busy_s, work.free_s, work.wire_s) == (0.5, 0.0, 0.0)


def test_a_failure_ends_a_lease_and_counts_as_no_work() -> None:
    timer = started(0.0)
    timer.granted(1.0)
    timer.failed(2.0)
    assert timer.is_free
    timer.failed(2.0)  # of a lease that was void
    timer.granted(2.5)
    assert timer.answered(result(0.5, 0.5), 1, 0, 3.0).free_s == 0.5


@given(st.lists(st.floats(), min_size=3, max_size=3))
def test_a_worker_is_believed_no_more_time_than_passed(lies: list[float]) -> None:
    timer = started(0.0)
    timer.granted(1.0)
    busy_s, idle_s, core_s = lies
    said = Result(1, [[0]], busy_s, spent=Spent(idle=idle_s, core=core_s, decode=core_s))
    work = timer.answered(said, 1, 0, 3.0)
    for seconds in (work.busy_s, work.wire_s, work.core_s, work.decode_s):
        assert 0 <= seconds <= 3


def test_no_more_clips_count_as_kept_or_refused_than_a_lease_has() -> None:
    timer = started(0.0)
    for claimed, kept in ((0, 0), (3, 3), (99, 8)):
        timer.granted(1.0)
        assert timer.answered(Result(1, [[0]], 0.1, kept=claimed), 8, 0, 2.0).kept == kept
        timer.granted(1.0)
        assert timer.answered(Result(1, [[0]], 0.1, no_room=claimed), 8, 0, 2.0).no_room == kept


# All workers


def test_a_window_has_the_work_of_its_time() -> None:
    history = WorkHistory()
    for second in range(100):
        history.add(float(second), "a", Work(clips=1, busy_s=0.5))
    history.add(99.5, "b", Work(clips=7))
    assert history.read(-math.inf)["a"].clips == 100
    assert {name: work.clips for name, work in history.read(97.0).items()} == {"a": 3, "b": 7}
    assert history.read(200.0) == {}
    assert total(history.read(-math.inf).values()).clips == 107


def test_old_windows_are_exact_to_an_eighth_and_hours_take_few_buckets() -> None:
    history, all_s = WorkHistory(), 16_000
    for second in range(all_s):
        history.add(float(second), "a", Work(clips=1))
    for window_s in (30, 300, 3000, 10_000):
        clips = history.read(float(all_s - window_s))["a"].clips
        assert clips == pytest.approx(window_s, rel=0.25)
    assert history.read(-math.inf)["a"].clips == all_s
    buckets = [bucket for level in history._levels for bucket in level]
    assert sum(bucket.works["a"].clips for bucket in buckets) == all_s
    assert len(buckets) < 120


# Files


def test_a_few_slow_files_are_found() -> None:
    files = FileTimes()
    for _ in range(3):
        for video in range(60):
            files.add(video, 0.06 if video < 4 else 0.01)
    found = files.read()
    assert (found.slow, found.met) == (4, 60)
    assert found.share == pytest.approx(0.24 / 0.80, rel=0.15)
    assert {file.video for file in found.slowest[:4]} == {0, 1, 2, 3}


@settings(max_examples=either(25, 100))
@given(st.randoms(use_true_random=False))
def test_slow_files_are_found_in_any_order(rng: Random) -> None:
    """The very first clip may be slow, and a worker may meet only slow files for long."""
    files = FileTimes()
    free_at = {f"worker{number}": 0.0 for number in range(4)}
    answers = []
    for video in [video for _ in range(4) for video in rng.sample(range(40), 40)]:
        worker = min(free_at, key=lambda worker: free_at[worker])
        free_at[worker] += (took_s := 0.3 if video < 2 else rng.uniform(0.005, 0.010))
        answers.append((free_at[worker], video, took_s))
    for _, video, took_s in sorted(answers):
        files.add(video, took_s)
    found = files.read()
    assert (found.slow, found.met) == (2, 40)
    assert found.share == pytest.approx(0.6 / (0.6 + 38 * 0.0075), rel=0.3)
    assert {file.video for file in found.slowest[:2]} == {0, 1}


@given(st.lists(st.tuples(st.integers(0, 9), st.floats()), max_size=40))
def test_any_reported_time_is_accepted(said: list[tuple[int, float]]) -> None:
    files = FileTimes()
    for clip in said:
        files.add(*clip)
        files.read()


def test_a_file_that_is_slow_once_is_not_a_slow_file() -> None:
    """A request to a bucket may take long, for another clip each time."""
    files = FileTimes()
    for turn in range(5):
        for video in range(60):
            files.add(video, 0.3 if (video + turn) % 30 == 0 else 0.01)
        assert files.read().slow == 0


def test_similar_files_are_not_slow() -> None:
    files = FileTimes()
    assert files.read() == SlowFiles()
    files.add(1, 0.0)
    assert files.read() == SlowFiles()
    for video in range(100):
        files.add(video, 0.01 * (1 + video % 3))
    assert files.read().slow == 0


def test_with_very_many_files_the_slowest_ones_are_kept() -> None:
    files = FileTimes()
    for video in range(40_000):
        files.add(video, 5.0 if video == 7 else 0.001)
    assert len(files._files) <= 1 << 14
    assert files.read().slowest[0].video == 7
