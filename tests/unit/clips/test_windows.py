"""Segments in seconds, and the windows of dense sampling, by frames and by time."""

from __future__ import annotations

import math
from array import array
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.thorough import either
from videoload.clips.choices import UnfitError
from videoload.clips.clip_params import clip_params
from videoload.clips.clip_spec import ClipSpec, dense_hop, hop_seconds
from videoload.clips.video_info import VideoInfo
from videoload.clips.windows import Segment, count_windows, frames_in

patient = settings(deadline=None, max_examples=either(25, 60))
RATES = st.sampled_from([Fraction(25), Fraction(15), Fraction(30000, 1001), Fraction(1000, 33)])


def dense(**changes: Any) -> ClipSpec:
    values: dict[str, Any] = {"frames": 4, "size": (16, 16), "sampling": "dense"}
    return ClipSpec(**values | changes)


def even(frames: int, fps: Fraction) -> VideoInfo:
    return VideoInfo(frames, fps, 64, 48)


def uneven(times: list[float]) -> VideoInfo:
    return VideoInfo(len(times), Fraction(25), 64, 48, times=array("d", times))


@st.composite
def videos(draw: st.DrawFn) -> VideoInfo:
    frames, fps = draw(st.integers(1, 300)), draw(RATES)
    if draw(st.booleans()):
        return even(frames, fps)
    steps = draw(st.lists(st.sampled_from([0.02, 0.04, 0.1, 1.0]), min_size=frames - 1))
    return uneven(np.cumsum([0.0, *steps[: frames - 1]]).tolist())


@patient
@given(videos(), st.floats(0, 12), st.floats(0.01, 12))
def test_a_segment_has_the_frames_that_begin_in_it(
    video: VideoInfo, start_s: float, length_s: float
) -> None:
    times = video.times_of(np.arange(video.frames))
    early = times + 1e-3
    inside = (early >= start_s) & (early < start_s + length_s)
    try:
        first, last = frames_in(Segment(start_s=start_s, end_s=start_s + length_s), video)
    except UnfitError:
        assert inside.sum() <= 1
        return
    near = np.abs(early[:, None] - [start_s, start_s + length_s]).min(1) < 1e-9
    numbers = np.arange(video.frames)
    assert ((((first <= numbers) & (numbers < last)) == inside) | near).all()


def test_segments_that_follow_each_other_share_no_frame() -> None:
    video = even(90, Fraction(30000, 1001))
    ends = [frames_in(Segment(start_s=float(s), end_s=s + 1.0), video) for s in range(3)]
    assert ends == [(0, 30), (30, 60), (60, 90)]
    video = uneven([0.0, 0.1, 0.9, 1.0, 1.5, 4.0])
    assert frames_in(Segment(start_s=0.5, end_s=1.0), video) == (2, 3)
    assert frames_in(Segment(start_s=1.0), video) == (3, 6)
    assert frames_in(Segment(end_s=1.0), video) == (0, 3)


def test_a_segment_that_has_no_frame_says_why() -> None:
    video = uneven([0.0, 0.1, 4.0])
    with pytest.raises(UnfitError, match=r"no frame begins in the segment from 1 s to 3 s"):
        frames_in(Segment(start_s=1, end_s=3), video)
    with pytest.raises(UnfitError, match=r"segment starts at 9 s, the video's last frame is at 4"):
        frames_in(Segment(start_s=9, end_s=10), video)
    with pytest.raises(UnfitError, match="has no frame rate; give start and end in frames"):
        frames_in(Segment(start_s=1), even(9, Fraction(0)))


@patient
@given(
    videos(),
    st.sampled_from([
        {}, {"hop": 3}, {"stride": 3}, {"stride": 2, "hop": 1}, {"stride": 2, "hop_s": 0.5},
        {"hop_s": 0.04}, {"fps": 5}, {"fps": 12.5, "hop_s": 0.1}, {"fps": 2, "hop_s": 3},
        {"frames": 1, "fps": 7}, {"frames": 1, "hop_s": 0.3},
    ]),
    st.integers(0, 20),
)  # fmt: skip
def test_dense_takes_every_window_that_fits_and_starts_them_where_it_says(
    video: VideoInfo, changes: dict[str, Any], start: int
) -> None:
    spec = dense(**changes)
    if start >= video.frames:
        return
    windows, left = count_windows(spec, video, (start, video.frames))
    times = video.times_of(np.arange(video.frames))
    shown = [clip_params(spec, video, 0, k, start).frames for k in range(windows + 1)]
    span = clip_params(spec, video, 0, 0, start).frames[-1] - start
    if windows == 1 and (np.diff(shown[0]) < 0).any():
        return  # shorter than a clip
    begins = [int(frames[0]) for frames in shown]
    assert all(frames[-1] < video.frames for frames in shown)
    assert begins[0] == start
    hop_s = hop_seconds(spec)
    for k, frames in enumerate(shown[:-1]):
        if hop_s is None:
            assert frames[0] == start + k * dense_hop(spec)
            continue
        wanted = times[start] + k * hop_s + np.arange(spec.frames) / (spec.fps or np.inf)
        for number, at in zip(frames if spec.fps else frames[:1], wanted, strict=False):
            assert times[number] <= at + 1.001e-3
            assert number + 1 == video.frames or times[number + 1] > at + 0.999e-3
    # One more would not fit: it is moved back.
    assert shown[-1].tolist() == shown[-2].tolist() or hop_s is None or spec.fps is None
    assert begins[-1] >= begins[-2]
    if hop_s is None:
        assert start + windows * dense_hop(spec) + span >= video.frames
    elif spec.fps is not None:
        following = times[start] + windows * hop_s + (spec.frames - 1) / spec.fps
        assert following > times[-1] + 0.999e-3
    assert 0 <= left <= max(0, video.frames - 1 - int(shown[windows - 1][-1]))


def test_windows_of_files_with_other_rates_begin_at_the_same_times() -> None:
    spec = dense(frames=8, fps=4, hop_s=0.5)
    rates = [Fraction(25), Fraction(15), Fraction(30000, 1001)]
    found = [even(math.floor(20 * rate), rate) for rate in rates]
    assert [count_windows(spec, video, (0, video.frames))[0] for video in found] == [37, 37, 37]
    for video in found:
        for k in range(37):
            times = video.times_of(clip_params(spec, video, 0, k).frames)
            wanted = k * 0.5 + np.arange(8) / 4
            late = wanted - times
            assert (late > -1.001e-3).all()
            assert (late < 1 / float(video.fps) - 0.999e-3).all()


def test_frames_after_the_last_window_are_counted() -> None:
    assert count_windows(dense(frames=16), even(100, Fraction(25)), (0, 100)) == (6, 4)
    assert count_windows(dense(frames=16), even(96, Fraction(25)), (0, 96)) == (6, 0)
    assert count_windows(dense(frames=8, stride=2), even(96, Fraction(25)), (0, 96)) == (6, 0)
    assert count_windows(dense(frames=16, short="drop"), even(9, Fraction(25)), (0, 9)) == (0, 0)
    assert count_windows(dense(frames=16), even(9, Fraction(25)), (0, 9)) == (1, 0)
    assert count_windows(dense(frames=2, fps=5), even(51, Fraction(25)), (0, 51)) == (5, 1)


def test_windows_by_time_need_a_rate() -> None:
    for changes in ({"fps": 5}, {"hop_s": 1.0}):
        with pytest.raises(UnfitError, match="has no frame rate"):
            count_windows(dense(**changes), even(50, Fraction(0)), (0, 50))
