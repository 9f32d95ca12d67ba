"""Failed starts: how long the pauses are, and when restarts are given up."""

from hypothesis import given
from hypothesis import strategies as st

from videoload.worker.supervisor import Restarts


def pauses(count: int) -> list[float]:
    """The pauses after ``count`` starts that fail at once. Each start is made as soon as it may."""
    starts, now, found = Restarts(), 100.0, []
    for _ in range(count):
        starts.start_failed(now, now)
        began = now
        while not starts.is_due(now):
            now += 0.25
        found.append(now - began)
    return found


def test_each_start_that_fails_is_followed_by_a_longer_pause() -> None:
    assert Restarts().is_due(0.0), "the first one waits for nothing"
    assert pauses(9) == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0]


def test_workers_that_were_started_together_and_fail_together_count_once() -> None:
    starts = Restarts()
    for ended in (1.0, 1.1, 1.2):
        starts.start_failed(0.0, ended)
    assert starts.failed == 1
    starts.start_failed(1.5, 1.6)
    assert starts.failed == 2


def test_workers_that_give_up_end_the_restarts_sooner_than_killed_ones() -> None:
    starts = Restarts()
    hopeless = []
    for number in range(1, 8):
        starts.start_failed(number, number)
        hopeless.append((starts.is_hopeless(killed=False), starts.is_hopeless(killed=True)))
    assert hopeless == [(n >= 3, n >= 6) for n in range(1, 8)]


@given(st.lists(st.booleans(), max_size=40))
def test_only_failed_starts_since_a_worker_last_worked_count(history: list[bool]) -> None:
    starts = Restarts()
    for now, failed in enumerate(history):
        if failed:
            starts.start_failed(now, now)
        else:
            starts.worked()
    in_a_row = next((i for i, failed in enumerate(history[::-1]) if not failed), len(history))
    assert starts.failed == in_a_row
