"""When frames are shown: by a rate if they come at equal distances, else by their own times."""

from collections.abc import Sequence
from fractions import Fraction

import pytest

from videoload.reading.timing import Timing, timing_of

MS = Fraction(1, 1000)
NTSC = Fraction(30000, 1001)


def rounded(rate: Fraction, base: Fraction, frames: int = 200) -> list[int | None]:
    """The times of frames at equal distances, as a container rounds them."""
    return [round(number / rate / base) for number in range(frames)]


@pytest.mark.parametrize(
    ("shown", "base", "stated", "rate"),
    [
        ([0, 1, 2, 3], Fraction(1, 25), [Fraction(25)], 25),
        (rounded(NTSC, MS), MS, [NTSC], NTSC),
        (rounded(NTSC, Fraction(1, 600)), Fraction(1, 600), [NTSC], NTSC),
        (range(0, 24000, 2400), Fraction(1, 60000), [Fraction(60000), Fraction(25)], 25),  # DV
        (range(0, 4000, 40), MS, [Fraction(1000), Fraction(1000)], 25),  # nothing true is stated
        # Frames divided by a rounded duration:
        (rounded(NTSC, MS, 100), MS, [NTSC, Fraction(989, 33)], NTSC),
        (rounded(Fraction(60), MS, 100), MS, [None, Fraction(100000, 1667)], 60),
        (
            rounded(2 * NTSC, Fraction(1, 90000)),
            Fraction(1, 90000),
            [Fraction(9000000, 150151)] * 2,
            2 * NTSC,
        ),
        (rounded(Fraction(24000, 1001), MS), MS, [None, None], Fraction(24000, 1001)),
        ([7], MS, [Fraction(1000), Fraction(30)], 1000),
        ([5, 5, 5], MS, [None, Fraction(30)], 30),
        ([0, None, 80, 120], MS, [Fraction(12)], 25),
        ([None, 40, 80, None], MS, [None], 25),
        ([None, None], MS, [Fraction(12)], 12),
        ([0, 1, 5], None, [None], 0),
        ([], MS, [], 0),
    ],
)
def test_frames_at_equal_distances_have_a_rate(
    shown: Sequence[int | None], base: Fraction | None, stated: list[Fraction | None], rate: int
) -> None:
    timing = timing_of(shown, range(len(shown)), base, stated)
    assert timing[:2] == Timing(Fraction(rate), None)[:2]
    if base is None or not any(shown):
        assert timing.begins is None
    elif shown[0] is not None:
        assert timing.begins == shown[0] * base


@pytest.mark.parametrize(
    ("shown", "base"),
    [
        ([0, 1, 3, 4], Fraction(1, 25)),
        ([*range(100), 101], Fraction(1, 25)),
        ([0, *range(2, 100)], Fraction(1, 25)),
        ([0, 34, 67, 100, 166, 199], MS),
        (range(50, 60), None),
    ],
)
def test_frames_at_uneven_distances_keep_their_times(
    shown: Sequence[int], base: Fraction | None
) -> None:
    rate, times, begins = timing_of(shown, range(len(shown)), base, [Fraction(25)])
    if base is None:
        assert rate == 25
        assert times is None
        return
    assert times is not None
    assert begins == shown[0] * base
    assert times.tolist() == [float((tick - shown[0]) * base) for tick in shown]
    assert rate == (len(shown) - 1) / ((shown[-1] - shown[0]) * base)


@pytest.mark.parametrize(
    ("times", "numbers", "expected"),
    [
        ([0, 90, 30, 60, 180, 120, 150], [0, 2, 3, 1, 5, 6, 4], [0, 30, 60, 90, 120, 150, 180]),
        # An AVI, or what was copied out of one: these are times of decoding.
        ([0, 30, 60, 90, 300, 330], [0, 2, 3, 1, 5, 4], [0, 30, 60, 90, 300, 330]),
        # A frame that comes out late shifts no other; nor does one that nothing is known of.
        ([0, 130, 30, 60, 100, 200, 160], [0, 2, 3, 1, 4, 6, 5], [0, 30, 60, 130, 145, 160, 200]),
        ([0, 99, 30, 60, 200], [0, 2, 3, 1, -1, 4], [0, 30, 60, 99, 149.5, 200]),
        ([0, 100, 20, 90], [0, 1, 2, 3], [0, 10, 20, 90]),  # as many as possible rise
        # The last picture comes out twice.
        ([0, 10, 30, 60], [0, 1, 2, 3, 3], [0, 10, 30, 60, 80]),
        # A pause of an hour moves no frame into it, and no frame at an end.
        (
            [0, 30, 60, 60, 3_600_000, 3_600_030, 3_600_060, 3_600_060],
            range(8),
            [0, 30, 60, 90, 3_600_000, 3_600_030, 3_600_060, 3_600_090],
        ),
        ([None, 30, 60, 3_600_000], range(4), [0, 30, 60, 3_600_000]),
        ([0, 30, 60, None, None, 3_600_000], range(6), [0, 30, 60, 90, 120, 3_600_000]),
    ],
)
def test_a_frame_has_the_time_of_its_own_packet(
    times: list[int | None], numbers: list[int], expected: list[float]
) -> None:
    told = timing_of(times, numbers, MS, [None]).times
    found = told or [number * 30 / 1000 for number in range(len(numbers))]
    assert [1000 * each for each in found] == pytest.approx(expected, abs=0.6)
