"""When frames are shown: by a rate if they come at equal distances, else by their own times."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest

from videoload.index.timing import Timing, timing_of

MS = Fraction(1, 1000)
NTSC = Fraction(30000, 1001)


def rounded(rate: Fraction, base: Fraction, frames: int = 200) -> list[int | None]:
    """The times of frames at equal distances, as a container rounds them."""
    return [round(number / rate / base) for number in range(frames)]


@pytest.mark.parametrize(
    ("shown", "base", "stated", "rate"),
    [
        ([0, 1, 2, 3], Fraction(1, 25), [Fraction(25)], 25),
        ([4, 1, 3, 2], Fraction(1, 25), [Fraction(25)], 25),  # in decoding order
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
        ([0, None, 2], MS, [Fraction(12)], 12),
        ([0, 1, 5], None, [None], 0),
        ([], MS, [], 0),
    ],
)
def test_frames_at_equal_distances_have_a_rate(
    shown: Sequence[int | None], base: Fraction | None, stated: list[Fraction | None], rate: int
) -> None:
    timing = timing_of(shown, base, stated)
    assert timing[:2] == Timing(Fraction(rate), None)[:2]
    known = base is not None and None not in shown and len(shown) > 0
    assert timing.begins == (min(shown) * base if known else None)  # type: ignore[operator,type-var]


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
    rate, times, begins = timing_of(list(reversed(shown)), base, [Fraction(25)])
    if base is None:
        assert rate == 25
        assert times is None
        return
    assert times is not None
    assert begins == shown[0] * base
    assert times.tolist() == [float((tick - shown[0]) * base) for tick in shown]
    assert rate == (len(shown) - 1) / ((shown[-1] - shown[0]) * base)
