"""How much is asked for at once: by each worker a round trip, by all together a second."""

from __future__ import annotations

import pytest

from videoload.leases.bytes_in_flight import MAX_LEASES, BytesInFlight, leases_on_the_way

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


def test_a_worker_holds_no_more_than_a_socket_has_room_for_and_none_before_it_is_measured() -> None:
    assert leases_on_the_way(10.0, 1e-9) == MAX_LEASES
    assert leases_on_the_way(10.0, 0.0) == 0


def flowing(line: BytesInFlight, mb_a_second: int, seconds: range, work_s: float = 0.05) -> None:
    """So much comes in each second."""
    for second in seconds:
        for part in range(10):
            line.received(mb_a_second * MB // 10, second + part / 10, work_s)


def room_mb(line: BytesInFlight, now: float) -> int:
    """How much could be asked for. Afterwards nothing is."""
    asked = 0
    while line.has_room(now) and asked < 10_000:
        line.requested(MB)
        asked += 1
    line.written_off(asked * MB)
    return asked


def test_until_something_came_the_line_is_taken_for_a_gigabit() -> None:
    assert room_mb(BytesInFlight(), 0.0) == START_MB


@pytest.mark.parametrize(("mb_a_second", "work_s"), [(200, 0.05), (400, 1.0)])
def test_the_bytes_asked_for_are_those_of_the_work_and_a_second(
    mb_a_second: int, work_s: float
) -> None:
    line = BytesInFlight()
    flowing(line, mb_a_second, range(10), work_s)
    assert room_mb(line, 10.0) == pytest.approx(mb_a_second * (1 + work_s), rel=0.05)


def test_a_slower_line_is_believed_after_ten_seconds_and_a_quicker_one_at_once() -> None:
    line = BytesInFlight()
    flowing(line, 400, range(10))
    flowing(line, 200, range(10, 15))
    assert room_mb(line, 15.0) > 400
    flowing(line, 200, range(15, 21))
    assert room_mb(line, 21.0) == pytest.approx(210, rel=0.1)
    flowing(line, 500, range(21, 22))
    assert room_mb(line, 22.0) > 500


def test_bytes_take_room_until_they_came_or_are_written_off() -> None:
    line = BytesInFlight()
    line.requested(START_MB * MB)
    assert not line.has_room(0.0)
    line.written_off(MB)
    assert room_mb(line, 0.0) == 1


def test_after_a_pause_the_line_is_taken_for_a_gigabit_again() -> None:
    line = BytesInFlight()
    flowing(line, 1000, range(10))
    assert room_mb(line, 1000.0) == START_MB
