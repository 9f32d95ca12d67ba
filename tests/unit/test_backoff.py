"""Pauses grow up to a limit, and begin anew after an attempt that worked."""

from videoload.backoff import Backoff


def test_each_pause_is_twice_as_long_as_the_one_before_up_to_the_longest() -> None:
    pauses = Backoff(0.5, 3.0)
    assert [pauses.next_s() for _ in range(5)] == [0.5, 1, 2, 3, 3]
    assert pauses.pause_s == 3
    pauses.reset()
    assert [pauses.next_s() for _ in range(2)] == [0.5, 1]


def test_no_pause_is_longer_than_the_longest() -> None:
    assert Backoff(2.0, 1.0).next_s() == 1
