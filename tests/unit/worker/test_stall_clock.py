"""Something hangs if it makes no progress while its observer looks."""

from tests.support.clock import Clock
from videoload.worker.stall_clock import StallClock


def seconds(*looks: tuple[float, object]) -> list[float]:
    """What each look finds, 0.2 s apart as planned; each has its time and its mark."""
    clock = Clock()
    stall = StallClock(0.2, clock)
    found = []
    for now, mark in looks:
        clock.now = 50.0 + now
        found.append(round(stall.look(mark), 3))
    return found


def test_the_time_without_progress_is_counted_until_there_is_some() -> None:
    assert seconds((0.0, 1), (0.2, 1), (0.4, 1), (0.6, 2), (0.7, 2)) == [0, 0.2, 0.4, 0, 0.1]


def test_what_has_not_begun_is_not_judged() -> None:
    assert seconds((0.2, None), (0.4, None), (0.6, b"a"), (0.8, b"a")) == [0, 0, 0, 0.2]


def test_an_observer_that_was_stopped_counts_one_step_and_not_the_time_that_passed() -> None:
    looks = [(at, 7) for at in (0.0, 0.2, 600.0, 600.2)]
    assert seconds(*looks) == [0, 0.2, 0.4, 0.6]
