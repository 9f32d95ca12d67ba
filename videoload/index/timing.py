"""When the frames of a video are shown, and how many there are in a second.

Frames that come at equal distances need a rate alone. A container may state a wrong one (60 000 for
DV, 1000 for recordings of browsers), and what FFmpeg computes is the number of frames divided by a
rounded duration. So a rate must agree with all times. If frames come at uneven distances (phones,
browsers, recorders that drop frames), the times are kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_ROUNDING_S = 0.002  # many containers round times to milliseconds, some to 1/600 s
_ROUNDING = 1 / 8  # of the distance between two frames
_BASES = 1.001  # units of time by which rounding moves a time between two rounded ones
_NTSC = Fraction(1000, 1001)


class Timing(NamedTuple):
    """``rate`` in (mean) frames per second, 0 if unknown; the ``times`` of frames that come at
    uneven distances, in seconds from the first; when the first ``begins``, in seconds of the
    container, None if nothing tells."""

    rate: Fraction
    times: array[float] | None = None
    begins: Fraction | None = None


def timing_of(
    shown: Sequence[int | None], base: Fraction | None, stated: Sequence[Fraction | None]
) -> Timing:
    """The timing of frames that are ``shown`` at these times, in any order, in units of ``base``
    seconds. ``stated``: what the container may mean by its rate, the best first."""
    rates = [rate for rate in stated if rate]
    known = [] if base is None or None in shown else sorted(shown)  # type: ignore[type-var]
    ticks = np.array(known, np.int64)
    last = len(ticks) - 1
    begins = ticks.item(0) * base if base is not None and len(ticks) else None
    if base is None or last < 1 or ticks[0] == ticks[-1]:
        return Timing(next(iter(rates), Fraction()), None, begins)
    ticks -= ticks[0]
    times = ticks * base.numerator / base.denominator
    lasts = ticks.item(-1) * base
    mean = last / lasts
    rounded = min(_ROUNDING_S, _ROUNDING / float(mean), _BASES * float(base))
    off = times - np.linspace(0, times[-1], len(times))
    if np.abs(off).max() > rounded:
        return Timing(mean, array("d", times.tobytes()), begins)
    if (ticks * last == np.arange(len(ticks)) * ticks[-1]).all():
        return Timing(mean, None, begins)  # nothing was rounded
    allowed = max(rounded, np.ptp(off).item())
    usual = Fraction(round(mean)), round(mean / _NTSC) * _NTSC
    candidates = (*stated[:1], *usual, *stated[1:])
    agreeing = (rate for rate in candidates if rate and _apart(times, rate) <= allowed)
    return Timing(next(agreeing, mean), None, begins)


def _apart(times: npt.NDArray[np.float64], rate: Fraction) -> float:
    """By how much the roundings of times differ, if frames come at this rate."""
    return np.ptp(times - np.arange(len(times)) / float(rate)).item()
