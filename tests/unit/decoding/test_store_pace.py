"""How much of the time a disk takes."""

from tests.support.clock import Clock
from videoload.decoding.store_pace import StorePace


def used(pace: StorePace, clock: Clock, takes_s: float, works_s: float, seconds: float) -> float:
    """Work and use the disk in turns, if the pace has time. Returns the time that the disk took."""
    end, took = clock.now + seconds, 0.0
    while clock.now < end:
        clock.now += works_s
        if pace.has_time:
            with pace.expecting(0.001):
                clock.now += takes_s
            took += takes_s
    return took


def test_a_slow_disk_takes_a_quarter_of_the_time() -> None:
    clock = Clock()
    assert 0.2 < used(StorePace(clock), clock, 0.2, 0.01, 100.0) / 100 < 0.28


def test_a_quick_disk_is_used_each_time() -> None:
    clock = Clock()
    assert used(StorePace(clock), clock, 0.001, 0.001, 10.0) > 4.9


def test_a_single_long_call_is_made_up_for() -> None:
    clock = Clock()
    pace = StorePace(clock)
    with pace.expecting(0.1):
        clock.now += 5.0
    assert not pace.has_time
    clock.now += 10.0
    assert not pace.has_time
    clock.now += 10.0
    assert pace.has_time
