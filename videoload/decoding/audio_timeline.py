"""The time line of audio; pure.

**The rule.** The audio of a file is one long row of samples on the time line of its container.
FFmpeg decodes it from its beginning, trims the encoder delay that the file declares, and the
timestamps of the container place each decoded piece. Where there is no piece, there is silence. The
row is resampled once, as a whole, so that sample m of the result is the audio at m / rate seconds.
The audio of a clip is a stretch of this row: it begins with the sample nearest to the time of the
clip's first frame. A track whose rate or channels change has a row for each form, silent where
another one plays, and their sum is the audio.

A clip does not need the whole row. A resampler that turns M samples into L repeats itself every M
samples: so its output for a stretch that begins at a multiple of M equals that of the whole row, to
the bit, if the stretch is longer than its filter.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

_TAPS = 32  # of FFmpeg's resampler, at the lower of both rates
_TOLERATED_TICKS = 2  # by which rounded times of a seamless track may lie apart


class Stretch(NamedTuple):
    """A stretch of a track's samples: from ``first`` on, ``length`` in all, which are silence
    except from ``begin`` to ``end``. After resampling, ``skip`` samples precede the clip's
    first."""

    first: int
    length: int
    begin: int
    end: int
    skip: int


def first_sample(seconds: Fraction, rate: int) -> int:
    """Return the number of the sample nearest to a moment."""
    return math.floor(seconds * rate + Fraction(1, 2))


def stretch(first: int, samples: int, rate: int, source_rate: int) -> Stretch:
    """Return the stretch to decode of a track with ``source_rate`` for ``samples`` resampled
    samples from ``first`` on."""
    made, of = whole_steps(rate, source_rate)
    margin = reach(rate, source_rate)
    begin = first * of // made - margin
    end = -(-(first + samples) * of // made) + margin
    block = begin // of
    return Stretch(block * of, -(-(end - block * of) // of) * of, begin, end, first - block * made)


def whole_steps(rate: int, source_rate: int) -> tuple[int, int]:
    """Return (L, M): every M samples of the source make L samples, in lowest terms."""
    return Fraction(rate, source_rate).as_integer_ratio()


def reach(rate: int, source_rate: int) -> int:
    """Return how many samples of the source the filter reaches to each side, or some more."""
    return _TAPS * max(1, -(-source_rate // rate))


class Placing:
    """Where each decoded piece of a track begins.

    A piece follows the one before it without a seam if their times agree. If a tick of the
    container is longer than a sample, its times are rounded: the first piece, and the first one
    after a gap, then begin at the nearest place where a piece would begin if all had its length
    from the track's beginning on, if that is within the rounding.
    """

    def __init__(
        self, tick: Fraction, grid: tuple[int, int] | None = None, end: int | None = None
    ) -> None:
        """``tick``: of the container, in samples. ``grid``: the end of the track's first piece, and
        the length of the next one. ``end``: of the piece before its first one."""
        self._samples, self._ticks = tick.numerator, tick.denominator
        self._rounding = max(1, math.ceil(_TOLERATED_TICKS * tick))
        self._grid = grid
        self.end = end

    def begin(self, pts: int | None, samples: int) -> int | None:
        """Return the first sample of a piece of so many samples, by its time in ticks; None if
        unknown."""
        at = self.end
        if pts is not None:
            stated = (2 * pts * self._samples + self._ticks) // (2 * self._ticks)
            at = self._placed(stated, samples)
        if at is not None:
            self.end = at + samples
        return at

    def _placed(self, stated: int, samples: int) -> int:
        tolerated = self._tolerated(samples)
        if self.end is not None and abs(stated - self.end) <= tolerated:
            return self.end
        origin, length = self._grid or (0, 0)
        if samples == length > 2 * tolerated:  # a finer grid has a place everywhere
            near = origin + (stated - origin + length // 2) // length * length
            if abs(stated - near) <= tolerated:
                return near
        return stated

    def _tolerated(self, samples: int) -> int:
        """By how many samples the time of a piece may be wrong. Half a piece may be a missing one;
        but pieces may be shorter than what is rounded."""
        half = max(1, samples // 2)
        if samples * self._ticks % self._samples:
            half = max(half, math.ceil(self._samples / self._ticks))
        return min(self._rounding, half)
