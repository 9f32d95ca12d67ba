"""Each step of a row shows the frame nearest to its time, or the row is refused."""

from array import array
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.thorough import either
from videoload.clips.choices import UnfitError
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.edges import held
from videoload.clips.rows import Clip, Video
from videoload.clips.sample_params import sample_params
from videoload.clips.sample_spec import SampleSpec
from videoload.clips.step_times import StepTimes, frames_at, runs_of
from videoload.clips.video_info import VideoInfo


def video(frames: int, fps: Fraction | int = 10, times: list[float] | None = None) -> VideoInfo:
    own = None if times is None else array("d", times)
    return VideoInfo(frames, Fraction(fps), 64, 48, times=own)


def steps(
    times: list[float],
    fps: float = 10,
    begins_s: tuple[float, ...] = (0.0,),
    within_s: float = 1e-4,
) -> StepTimes:
    own = np.array(times, np.float32)
    runs = runs_of(own.astype(np.float64), fps, np.spacing(own).astype(np.float64))
    return StepTimes(len(times), fps, begins_s, within_s, runs)


@settings(deadline=None, max_examples=either(60, 300))
@given(
    kept=st.sets(st.integers(0, 400), min_size=1, max_size=60), fps=st.sampled_from([5, 10, 29.97]),
    rate=st.integers(1, 4), begin=st.integers(0, 50), uneven=st.booleans(),
)  # fmt: skip
def test_steps_show_the_nearest_frames(
    kept: set[int], fps: float, rate: int, begin: int, uneven: bool
) -> None:
    at = sorted(kept)
    frames, exact = 460 * rate, Fraction(str(fps)) * rate
    times = [float(n / exact) for n in range(frames)]
    of_file = video(frames, exact, times if uneven else None)
    row = steps([n / fps for n in at], fps, (begin / fps,))
    found = frames_at(row, 0, of_file, np.arange(len(at)))
    assert found.tolist() == [(begin + n) * rate for n in at]


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=50), st.sampled_from([10, 30, 50]))
def test_times_are_told_as_they_are(times: list[float], fps: float) -> None:
    found = steps(times, fps).times
    assert found == pytest.approx(np.array(times, np.float32), abs=2e-4)


def test_a_step_without_a_frame_refuses_the_row_by_its_time() -> None:
    times = [n / 10 for n in range(20) if n != 5]
    gap, row = video(19, times=times), steps([n / 10 for n in range(10)])
    with pytest.raises(UnfitError, match=r"step 5.*0\.5 s"):
        frames_at(row, 0, gap, np.array([0]))
    with pytest.raises(UnfitError, match="step 8"):
        frames_at(row, 0, video(8), np.array([0]))
    coarse = steps([n / 10 for n in range(10)], within_s=0.11)
    shown = frames_at(coarse, 0, gap, np.array([-1, 4, 5, 6, -2 - 9]))
    assert shown.tolist() == [-1, 4, 4, 5, *held(np.array([8]))]


def test_a_larger_tolerance_is_proposed_only_where_no_frame_is_missing() -> None:
    row = steps([n / 10 for n in range(10)])
    uneven = video(10, times=[n / 10 + 0.03 * (n % 2) for n in range(10)])
    with pytest.raises(UnfitError, match=r"0\.03 s would take all") as found:
        frames_at(row, 0, uneven, np.array([0]))
    assert "damaged" not in str(found.value)
    gap = video(17, times=[n / 10 for n in range(20) if n not in (4, 5, 6)])
    with pytest.raises(UnfitError, match=r"3 of 10 steps.*damaged.*step 4") as found:
        frames_at(row, 0, gap, np.array([0]))
    assert "would take" not in str(found.value)


def test_files_that_begin_later_are_compared_by_their_own_time() -> None:
    late = video(10)._replace(begin_stream_s=Fraction(2, 5))
    row = steps([0.0, 0.1, 0.2], begins_s=(0.6,))
    assert frames_at(row, 0, late, np.arange(3)).tolist() == [2, 3, 4]


def test_a_window_at_a_key_frame_begins_with_the_step_that_shows_it() -> None:
    spec = SampleSpec({
        "a": ClipSpec(2, sampling="random", align="keyframe", size=(8, 8)),
        "b": ClipSpec(2, size=(8, 8)),
    })  # fmt: skip
    row = steps([n / 10 for n in range(20)], begins_s=(1.0, 0.0))
    keys = np.array([0, 30, 45, 60])  # of 30 a second: step 0, step 5, and one between 10 and 11
    videos = {"a": video(99, 30)._replace(keys=keys.tobytes()), "b": video(99, 30)}
    drawn = [
        sample_params(spec, videos, Clip(seed, row=Video("", steps=row))) for seed in range(50)
    ]
    assert {each.clips["a"][0].frame_indices.item(0) for each in drawn} == {30, 45, 60}
    assert {each.clips["b"][0].frame_indices.item(0) for each in drawn} == {0, 15, 30}


def test_each_part_shows_a_step_at_its_own_rate_and_offsets_are_steps() -> None:
    around: dict[str, Any] = {"sampling": "dense", "hop": 1, "edges": "hold", "size": (8, 8)}
    spec = SampleSpec({
        "a": ClipSpec(offsets=(0,), **around), "b": ClipSpec(offsets=(-1, 0, 2), **around),
        "c": ClipSpec(1, **around),
    })  # fmt: skip
    row = steps([0.0, 0.1, 0.5, 0.6], begins_s=(0.0, 1.0, 0.5))
    videos = {"a": video(30), "b": video(90, 30), "c": video(30)}
    clip = Clip(0, 1, row=Video("", start_s=0.0, end_s=0.7, steps=row))
    found = sample_params(spec, videos, clip).clips
    assert [found[name][0].frame_indices.tolist() for name in "abc"] == [
        [1], [30, 33, 48], [6]
    ]  # fmt: skip
