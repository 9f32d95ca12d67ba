"""The times of files that were put together of several recordings go on."""

from fractions import Fraction

import pytest

from videoload.reading.clock import Clock

BASE = Fraction(1, 1000)
ONE = [1400 + 40 * n for n in range(50)]  # of a recording
ALONE = [0, *range(3, 90), 95, 300, 400]  # with dropped pictures, and pauses


def through(dts: list[int]) -> tuple[list[int | None], bool]:
    """Their times, and whether another recording began."""
    clock = Clock(BASE)
    return [clock.time(each, each) for each in dts], clock.is_joined


@pytest.mark.parametrize("by", [0, 1960, 2200, -1400, 3_600_000, -1_000_000])
def test_another_recording_follows_without_a_gap(by: int) -> None:
    """Its stamps start again, or jump."""
    joined = [*ONE, *(each + by for each in ONE), *ONE]
    if by in (1960, 2200):  # they go on by themselves
        assert through(joined[:100]) == (joined[:100], False)
    else:
        assert through(joined) == ([1400 + 40 * n for n in range(150)], True)


def test_the_times_of_one_recording_stay() -> None:
    dts = [40 * each for each in ALONE]
    assert through(dts) == (dts, False)


def test_pictures_that_are_shown_later_than_they_are_decoded_keep_their_distance() -> None:
    clock, later = Clock(BASE), [80, 40, 0, 120]
    shown = [clock.time(each, each + later[n % 4]) for n, each in enumerate(ONE + ONE)]
    assert shown == [
        1400 + 40 * n + later[n % 50 % 4] if n < 50 else 1400 + 40 * n + later[n % 4]
        for n in range(100)
    ]
