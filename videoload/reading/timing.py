"""The presentation times of a video's frames, and its frame rate.

Frames with constant intervals only need a rate. A container may state a wrong one (60 000 for DV,
1000 for recordings of browsers), and what FFmpeg computes is the number of frames divided by a
rounded duration. So a rate must agree with all times. With uneven intervals (phones, browsers,
recorders that drop frames), the times are stored.

**Each frame has the time of its own packet**, if times rise with the frames. A frame with a late or
unknown time lies between its neighbours, at most a usual interval after the one before it: pauses
are not filled. In a container that has no times of display, those of its packets rise in the order
of the file, whatever the order of the frames: there the first frame has the first of them.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.bitstreams.pictures import Ints

Doubles = npt.NDArray[np.float64]

_ROUNDING_S = 0.002  # many containers round times to milliseconds, some to 1/600 s
_ROUNDING = 1 / 8  # of the distance between two frames
_BASES = 1.001  # units of time by which rounding moves a time between two rounded ones
_PAUSE = 2  # so many times the usual distance between frames are one
_NTSC = Fraction(1000, 1001)


class Timing(NamedTuple):
    """``rate`` in (mean) frames per second, 0 if unknown; the ``times`` of frames with uneven
    intervals, in seconds from the first; when the first ``begins``, in seconds of the container,
    None if unknown."""

    rate: Fraction
    times: array[float] | None = None
    begins: Fraction | None = None


def timing_of(
    times: Sequence[int | None] | Ints,
    numbers: Sequence[int] | Ints,
    base: Fraction | None,
    stated: Sequence[Fraction | None],
) -> Timing:
    """Return the timing of frames.

    Args:
        times: Of packets, in the order of the file, in units of ``base`` seconds; None if unknown.
        numbers: The packet of each frame; -1 if unknown.
        base: See ``times``.
        stated: What the container may mean by its rate, the best first.
    """
    rates = [rate for rate in stated if rate]
    ticks = _shown(np.array(times, np.float64), np.array(numbers, np.int64))
    last = len(ticks) - 1
    begins = ticks.item(0) * base if base is not None and len(ticks) else None
    if base is None or last < 1 or ticks[0] == ticks[-1]:
        return Timing(next(iter(rates), Fraction()), None, begins)
    ticks -= ticks[0]
    lasts = ticks.item(-1) * base
    mean = last / lasts
    if (ticks * last == np.arange(len(ticks)) * ticks[-1]).all():
        return Timing(mean, None, begins)  # nothing was rounded
    seconds = ticks * base.numerator / base.denominator
    rounded = min(_ROUNDING_S, _ROUNDING / float(mean), _BASES * float(base))
    off = seconds - np.linspace(0, seconds[-1], len(seconds))
    if np.abs(off).max() > rounded:
        return Timing(mean, array("d", seconds.tobytes()), begins)
    allowed = max(rounded, np.ptp(off).item())
    usual = Fraction(round(mean)), round(mean / _NTSC) * _NTSC
    candidates = (*stated[:1], *usual, *stated[1:])
    agreeing = (rate for rate in candidates if rate and _apart(seconds, rate) <= allowed)
    return Timing(next(agreeing, mean), None, begins)


def _shown(times: Doubles, numbers: Ints) -> Ints:
    """Return when each frame is shown, int64, increasing; nothing if no time is known."""
    if not len(times) or not len(numbers):
        return np.empty(0, np.int64)
    shown = times[numbers]
    if numbers.min() >= 0 and (np.diff(shown) > 0).all():  # as in most files
        return np.rint(shown).astype(np.int64)
    shown[numbers < 0] = np.nan
    if not (np.diff(times[~np.isnan(times)]) < 0).any():
        shown[~np.isnan(shown)] = np.sort(shown[~np.isnan(shown)])
    if not (np.diff(shown) > 0).all():  # also if one is unknown
        kept = _rising(shown.tolist())
        if not kept:
            return np.empty(0, np.int64)
        places, each = np.array(kept), np.arange(len(shown))
        steps = np.diff(shown[kept]) / np.diff(kept)  # from each frame to the next
        usual = np.sort(steps)[(len(steps) - 1) // 2] if len(steps) else 0.0
        steps = np.where(steps > _PAUSE * usual, usual, steps)
        before = np.maximum(0, np.searchsorted(places, each, "right") - 1)
        shown = (
            shown[places[before]]
            + (each - places[before])
            * np.append(steps, usual)[np.where(each < places[0], -1, before)]
        )
    return np.rint(shown).astype(np.int64)


def _rising(times: list[float]) -> list[int]:
    """Return the indices of as many known times as possible that increase; of two that conflict,
    the first."""
    highest: list[float] = []  # minus the first of so many times, as high as it can be
    begins: list[int] = []  # its place
    following = [-1] * len(times)
    for place in reversed(range(len(times))):
        time = -times[place]
        if math.isnan(time):
            continue
        length = bisect_left(highest, time)
        highest[length : length + 1], begins[length : length + 1] = [time], [place]
        following[place] = begins[length - 1] if length else -1
    kept, place = [], begins[-1] if begins else -1
    while place >= 0:
        kept.append(place)
        place = following[place]
    return kept


def _apart(times: Doubles, rate: Fraction) -> float:
    """Return the largest difference between rounding errors of times, at this frame rate."""
    return np.ptp(times - np.arange(len(times)) / float(rate)).item()
