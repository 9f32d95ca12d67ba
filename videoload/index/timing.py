"""When the frames of a video are shown, and how many there are in a second.

Frames that come at equal distances need a rate alone. A container may state a wrong one (60 000 for
DV, 1000 for recordings of browsers), so it must agree with the times. If frames come at uneven
distances (phones, browsers, recorders that drop frames), the times are kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

_ROUNDING_S = 0.002  # many containers round times to milliseconds, some to 1/600 s
_ROUNDING = 1 / 8  # of the distance between two frames
_BASES = 1.001  # units of time by which rounding moves a time between two rounded ones


class Timing(NamedTuple):
    """``rate`` in (mean) frames per second, 0 if unknown; the ``times`` of frames that come at
    uneven distances, in seconds from the first."""

    rate: Fraction
    times: array[float] | None = None


def timing_of(
    shown: Sequence[int | None], base: Fraction | None, stated: Sequence[Fraction | None]
) -> Timing:
    """The timing of frames that are ``shown`` at these times, in any order, in units of ``base``
    seconds. ``stated``: what the container says the rate is."""
    rates = [rate for rate in stated if rate]
    known = [] if base is None or None in shown else sorted(shown)  # type: ignore[type-var]
    ticks = np.array(known, np.int64)
    last = len(ticks) - 1
    if base is None or last < 1 or ticks[0] == ticks[-1]:
        return Timing(next(iter(rates), Fraction()))
    ticks -= ticks[0]
    times = ticks * base.numerator / base.denominator
    lasts = ticks.item(-1) * base
    allowed = min(_ROUNDING_S, _ROUNDING * float(lasts) / last, _BASES * float(base))
    if np.abs(times - np.linspace(0, times[-1], len(times))).max() > allowed:
        return Timing(last / lasts, array("d", times.tobytes()))
    agreeing = (rate for rate in rates if abs(last / rate - lasts) <= allowed)
    return Timing(next(agreeing, last / lasts))
