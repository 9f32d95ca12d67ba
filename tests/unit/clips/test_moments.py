"""A time that was rounded means the frame that it was taken from."""

from __future__ import annotations

from array import array
from fractions import Fraction

import numpy as np
import pytest

from videoload.clips.clip_params import clip_params
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.moments import first_from, shown_at
from videoload.clips.rows import Video
from videoload.clips.video_info import VideoInfo
from videoload.clips.windows import frames_in

RATES = [Fraction(24), Fraction(25), Fraction(24000, 1001), Fraction(30), Fraction(60000, 1001)]


def video(rate: Fraction, *, uneven: bool = False) -> VideoInfo:
    times = array("d", [float(i / rate) for i in range(999)]) if uneven else None
    return VideoInfo(999, rate, 64, 48, times=times)


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("digits", [3, 4, 6, 17])
def test_seconds_that_a_table_rounds_keep_the_first_frame_and_the_last(
    digits: int, rate: Fraction, uneven: bool
) -> None:
    for first in range(0, 900, 17):
        start_s, end_s = (round(float(n / rate), digits) for n in (first, first + 9))
        found = frames_in(Video("", start_s=start_s, end_s=end_s), video(rate, uneven=uneven))
        assert found == (first, first + 9)


def test_a_millisecond_is_too_much_for_frames_that_come_faster() -> None:
    fast = Fraction(2000)  # a frame takes half a millisecond
    for each in (video(fast), video(fast, uneven=True)):
        assert first_from(10 / 2000 + 0.0001, each) == 10
        assert first_from(10 / 2000 + 0.0002, each) == 11
    times = np.array([0.0, 0.0005, 0.001, 1.0, 2.0])
    assert shown_at(times, [0.00039, 0.00035, 0.9991, 0.9989]).tolist() == [1, 0, 3, 2]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("sampling", ["center", "dense", "random"])
def test_a_clip_at_a_rate_that_is_nearly_the_file_s_shows_each_frame_once(
    sampling: str, rate: Fraction
) -> None:
    for wrong in (Fraction(9999, 10000), Fraction(10001, 10000)):
        spec = ClipSpec(16, fps=float(rate), size=(16, 16), sampling=sampling)  # type: ignore[arg-type]
        frames = clip_params(spec, video(rate * wrong), 3).frames
        assert np.diff(frames).tolist() == [1] * 15
