"""Continuous times where the timestamps of a container restart or jump. Pure.

Files that were put together of several recordings (MPEG-TS and MPEG-PS allow it, Ogg too) have the
stamps of each. As for the ffmpeg command, a packet that should be decoded ten seconds later than
the one before it, or earlier, begins another recording, which follows without a gap.
"""

from __future__ import annotations

from fractions import Fraction

_JUMP_S = 10
_BACK_S = Fraction(1, 10)


class Clock:
    """The times of the packets of a file, one after the other, in units of ``base`` seconds."""

    def __init__(self, base: Fraction) -> None:
        self._jump, self._back = _JUMP_S / base, _BACK_S / base
        self._last: int | None = None
        self._step = 0  # from one packet to the next
        self._added = 0

    @property
    def is_joined(self) -> bool:
        """Return whether another recording began."""
        return self._added != 0

    def time(self, dts: int | None, pts: int | None) -> int | None:
        """Return when the picture of the next packet is shown."""
        if dts is not None:
            if self._last is not None:
                step = dts - self._last
                if -self._back <= step <= self._jump:
                    self._step = max(0, step)
                else:
                    self._added += self._step - step
            self._last = dts
        time = dts if pts is None else pts
        return None if time is None else time + self._added
