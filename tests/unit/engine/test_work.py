"""What workers did: which of their reports are believed, and which files are slow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoload.engine.work import FileTime, FileTimes, WorkTimer
from videoload.wire.messages import Result, Timings


def result(busy_s: float, idle_s: float = 0.0, **spent: float) -> Result:
    return Result(1, b"", busy_s, spent=Timings(idle=idle_s, **spent))


def started(now: float = 0.0) -> WorkTimer:
    """A worker that has answered its first lease, and has no lease now."""
    timer = WorkTimer()
    timer.granted(now - 1)
    timer.answered(result(0.5), 1, 0, now)
    return timer


def test_time_without_a_lease_is_waiting_for_a_slot_and_a_pause_is_not() -> None:
    timer = started(10.0)
    assert timer.is_free
    timer.granted(10.4)
    assert not timer.is_free
    said = result(0.5, 0.401, decode=0.3, scale=0.2, core=0.25, no_core=0.125)
    work = timer.answered(said, 8, 0, 10.9)
    assert (work.clips, work.busy_s) == (8, 0.5)
    assert (work.free_s, work.wire_s) == pytest.approx((0.4, 0.001))
    assert (work.decode_s, work.scale_s) == (0.3, 0.2)
    assert (work.core_s, work.no_core_s) == (0.25, 0.125)
    timer.granted(3600.0)
    work = timer.answered(result(0.1, 3600.0), 1, 0, 3600.1)
    assert (work.free_s, work.wire_s) == pytest.approx((1.0, 0.1))


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


def test_idle_time_before_the_first_answer_does_not_count_nor_does_an_import() -> None:
    timer = WorkTimer()
    timer.granted(100.0)
    work = timer.answered(result(3.0, 60.0, importing=2.5), 4, 0, 103.0)
    assert (work.busy_s, work.free_s, work.wire_s) == (0.5, 0.0, 0.0)


@given(st.lists(st.floats(), min_size=3, max_size=3))
def test_a_worker_is_believed_no_more_time_than_passed(lies: list[float]) -> None:
    timer = started(0.0)
    timer.granted(1.0)
    busy_s, idle_s, core_s = lies
    work = timer.answered(result(busy_s, idle_s, core=core_s, decode=core_s), 1, 0, 3.0)
    for seconds, most in ((work.busy_s, 2), (work.wire_s, 2), (work.core_s, 2), (work.decode_s, 2)):
        assert 0 <= seconds <= most


@pytest.mark.parametrize(("claimed", "counted"), [(0, 0), (3, 3), (99, 8)])
def test_no_more_clips_count_as_kept_or_without_room_than_a_lease_has(
    claimed: int, counted: int
) -> None:
    said = Result(1, b"", 0.1, kept=claimed, no_room=claimed)
    work = started().answered(said, 8, 0, 2.0)
    assert (work.kept, work.no_room) == (counted, counted)


# Files


def slowest(*clips: tuple[int, float]) -> list[FileTime]:
    files = FileTimes()
    for video, seconds in clips:
        files.add(video, seconds)
    return files.slowest()


def test_the_files_whose_clips_take_longest_are_found() -> None:
    assert slowest() == []
    found = slowest(*((video, 0.01 * (1 + video % 3)) for video in range(9)), (7, 3.0), (8, 0.5))
    assert len(found) == 8
    assert found[:2] == [FileTime(7, 2, 3.02), FileTime(8, 2, 0.53)]


def test_with_very_many_files_the_slowest_ones_are_kept() -> None:
    found = slowest(*((video, 5.0 if video == 7 else 0.001) for video in range(40_000)))
    assert found[0].video == 7
