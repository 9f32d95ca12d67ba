"""How much is asked for at once: a round trip of leases each, and a second of the line together."""

from __future__ import annotations

import pytest

from videoload.leases.line import MAX_LEASES, Line, leases_on_the_way

MB = 1 << 20
START_MB = 128


@pytest.mark.parametrize(
    ("trip_ms", "lease_ms", "leases"),
    [(0.3, 50, 0), (10, 50, 0), (20, 50, 1), (50, 50, 2), (100, 50, 4), (100, 400, 0), (1, 2, 1)],
)
def test_a_worker_holds_twice_what_fills_a_round_trip(
    trip_ms: float, lease_ms: float, leases: int
) -> None:
    assert leases_on_the_way(trip_ms / 1000, lease_ms / 1000) == leases


def test_nobody_holds_more_than_a_socket_has_room_for_nor_any_before_something_is_known() -> None:
    assert leases_on_the_way(10.0, 1e-9) == MAX_LEASES
    assert leases_on_the_way(10.0, 0.0) == 0


def flowing(line: Line, mb_a_second: int, seconds: range, work_s: float = 0.05) -> None:
    """So much comes, and as much is asked for anew."""
    for second in seconds:
        for part in range(10):
            line.came(mb_a_second * MB // 10, second + part / 10, work_s)


def room_mb(line: Line, now: float) -> int:
    """How much may be asked for; it is not."""
    asked = 0
    while line.has_room(now) and asked < 10_000:
        line.asked(MB)
        asked += 1
    line.written_off(asked * MB)
    return asked


def test_before_anything_came_a_second_of_a_gigabit_is_asked_for() -> None:
    assert room_mb(Line(), 0.0) == START_MB


@pytest.mark.parametrize(("mb_a_second", "work_s"), [(200, 0.05), (400, 1.0)])
def test_as_much_is_out_as_comes_in_a_second_more_than_the_work_takes(
    mb_a_second: int, work_s: float
) -> None:
    line = Line()
    flowing(line, mb_a_second, range(10), work_s)
    assert room_mb(line, 10.0) == pytest.approx(mb_a_second * (1 + work_s), rel=0.05)


def test_a_slower_line_is_believed_after_ten_seconds_and_a_quicker_one_at_once() -> None:
    line = Line()
    flowing(line, 400, range(10))
    flowing(line, 200, range(10, 15))
    assert room_mb(line, 15.0) > 400
    flowing(line, 200, range(15, 21))
    assert room_mb(line, 21.0) == pytest.approx(210, rel=0.1)
    flowing(line, 500, range(21, 22))
    assert room_mb(line, 22.0) > 500


def test_what_is_out_has_no_room_until_it_came_or_is_written_off() -> None:
    line = Line()
    line.asked(START_MB * MB)
    assert not line.has_room(0.0)
    line.written_off(MB)
    assert room_mb(line, 0.0) == 1


def test_a_pause_takes_it_back_to_the_start() -> None:
    line = Line()
    flowing(line, 1000, range(10))
    assert room_mb(line, 1000.0) == START_MB
