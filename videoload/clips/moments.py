"""Which frame a time means.

A player shows a frame from its own time until the next one's. But tables round seconds, containers
round times to their ticks, and rates are rounded too. So a time within a millisecond of a frame's
own time, or within a quarter of a frame if that is less, means that frame.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from videoload.clips.choices import UnfitError
from videoload.clips.video_info import VideoInfo

Ints = npt.NDArray[np.int64]
Times = npt.NDArray[np.float64]

_NEAR_S = Fraction(1, 1000)
_NEAR = Fraction(1, 4)  # of the distance between two frames
SAME_S = 1e-6  # times this close are the same
_ROUNDING_S = 1e-9  # more than what floats round seconds by, so that these agree with fractions


def near(fps: Fraction) -> Fraction:
    """Return how much earlier than a frame's own time a time may be to mean it, in frames."""
    return min(_NEAR_S * fps, _NEAR)


def exactly(value: float) -> Fraction:
    """Return the number that a float stands for, as 0.041 for 41 thousandths."""
    return Fraction(value).limit_denominator(1_000_000)


def shown_at(times: Times, seconds: Any) -> Ints:
    """Return the frames with these own times that a player shows at these moments."""
    begins = times - _near_s(np.diff(times, prepend=-math.inf))
    return np.asarray(np.searchsorted(begins, seconds, "right") - 1, np.int64)


def first_from(seconds: float, video: VideoInfo) -> int:
    """Return the first frame that a player begins to show at this moment or later. Raises
    UnfitError."""
    if video.times is not None:
        times = np.frombuffer(video.times)
        return int(np.searchsorted(times + _near_s(np.diff(times, append=math.inf)), seconds))
    if video.fps <= 0:
        raise UnfitError("has no frame rate; give start and end in frames, not in seconds")
    frame = math.ceil(exactly(seconds) * video.fps - near(video.fps))
    return min(max(0, frame), video.num_frames)


def shown_in(seconds: float, video: VideoInfo) -> int:
    """Return the frame that a player shows at this moment; behind the video's end, its frame count.
    Raises UnfitError."""
    if video.times is not None:
        times = np.frombuffer(video.times)
        is_inside = seconds <= end_of(times) + _ROUNDING_S
        return int(shown_at(times, seconds)) if is_inside else video.num_frames
    if video.fps <= 0:
        raise UnfitError("has no frame rate; give at, a frame, and not at_s")
    at = exactly(seconds) * video.fps
    return min(math.floor(at + near(video.fps)), video.num_frames - (at <= video.num_frames))


def nearest(times: Times, moments: Times) -> Ints:
    """Return the frames with these own times that are nearest to these moments; of two, the
    first."""
    after = np.clip(np.searchsorted(times, moments), 1, max(1, len(times) - 1))
    after = np.minimum(after, len(times) - 1)
    before = np.maximum(after - 1, 0)
    nearer = moments - times[before] <= times[after] - moments + SAME_S
    return np.where(nearer, before, after)


def end_of(times: Times) -> float:
    """Return when the last frame is no longer shown: it is shown for the mean time of the
    others."""
    last = len(times) - 1
    return float(times[-1] + (times[-1] - times[0]) / last) if last else math.inf


def until(times: Times, frames: int) -> float:
    """Return the moment before which a player shows the first ``frames`` of these frames; after
    their own times follows the end of the last one. For a single frame, only its own time is
    known."""
    end, last = times[frames], times[frames - 1] + _ROUNDING_S
    return float(last if math.isinf(end) else max(last, end - _near_s(end - last)))


def _near_s(distances: Any) -> Any:
    return np.minimum(float(_NEAR_S), distances * float(_NEAR)) + _ROUNDING_S
