"""Which frames the parts of a sample show."""

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
from videoload.clips.edges import pictures, reported
from videoload.clips.rows import Clip, Video
from videoload.clips.sample_params import SampleParams, sample_params
from videoload.clips.sample_spec import SampleParts, SampleSpec, sample_spec
from videoload.clips.video_info import VideoInfo


def video(frames: int = 90, fps: Fraction | int = 30, **more: Any) -> VideoInfo:
    return VideoInfo(frames, Fraction(fps), 64, 48, **more)


WHOLE = Video("")


def params(
    a: VideoInfo, b: VideoInfo, *, frames: int = 6, follows: int = 6, seed: int = 0,
    offset_s: float = 0.0, by: str = "time", row: Video = WHOLE, **drawn: Any,
) -> SampleParams:  # fmt: skip
    sides = SampleParts(("a", "b"), by, {"b": offset_s} if offset_s else {})  # type: ignore[arg-type]
    clips = {
        "a": ClipSpec(frames, size=(20, 20), **drawn),
        "b": ClipSpec(follows, size=(20, 20)),
    }
    spec: Any = sample_spec(sides, clips)
    return sample_params(spec, {"a": a, "b": b}, Clip(seed, row=row))


RATES = st.sampled_from([Fraction(30), Fraction(15), Fraction(25), Fraction(30000, 1001)])


@settings(deadline=None, max_examples=either(30, 80))
@given(
    rates=st.tuples(RATES, RATES), late=st.floats(-0.5, 0.5), seed=st.integers(0, 2**64 - 1),
    stride=st.integers(1, 4), uneven=st.booleans(),
)  # fmt: skip
def test_parts_differ_by_half_a_frame_of_the_slower_one_at_most(
    rates: tuple[Fraction, Fraction], late: float, seed: int, stride: int, uneven: bool
) -> None:
    a, b = video(100, rates[0]), video(90, rates[1])
    if uneven:
        b = b._replace(times=array("d", (n / float(rates[1]) for n in range(90))))
    made = params(a, b, offset_s=late, seed=seed, stride=stride, sampling="random")
    (of_b,) = made.clips["b"]
    there = b.times_of(of_b.frame_indices) + late
    half_s = 0.5 / float(min(rates))
    assert np.abs(there - made.times).max() <= half_s + 1e-5
    assert (np.diff(of_b.frame_indices) >= 0).all()


def test_a_window_is_drawn_where_all_parts_have_frames() -> None:
    a, b = video(90), video(30)
    starts = [
        int(params(a, b, offset_s=1.0, seed=seed, sampling="random").frames[0])
        for seed in range(99)
    ]
    assert min(starts) in range(29, 34)
    assert max(starts) in range(50, 56)
    with pytest.raises(UnfitError):
        params(a, b, offset_s=5.0)


def test_another_number_of_frames_divides_the_same_time() -> None:
    made = params(video(), video(45, 15), follows=3, stride=2)
    assert made.clips["b"][0].frame_indices.tolist() == (made.frames[::2] // 2).tolist()
    made = params(video(45, 15), video(), frames=3, follows=6)
    assert made.clips["b"][0].frame_indices.tolist() == [
        *range(2 * made.frames[0], 2 * made.frames[0] + 6)
    ]


def test_frames_of_the_same_number_need_no_rate() -> None:
    made = params(video(90), video(40, 0), by="frames", sampling="random", seed=5)
    assert made.clips["b"][0].frame_indices.tolist() == made.frames.tolist()
    assert made.frames.max() < 40
    with pytest.raises(UnfitError, match="'b'"):
        params(video(90), video(40, 0))


@pytest.mark.parametrize("by", ["time", "frames"])
def test_another_number_of_frames_divides_what_is_shown_and_holds_what_is_held(by: str) -> None:
    around: dict[str, Any] = {"sampling": "at", "stride": 4, "row": Video("", at=4), "by": by}
    held = params(video(), video(), frames=5, follows=10, edges="hold", **around).clips["b"][0]
    assert pictures(held.frame_indices).tolist() == [0, 0, 0, 2, 4, 6, 8, 10, 12, 14]
    black = params(video(), video(), frames=5, follows=10, edges="zero", **around).clips["b"][0]
    assert black.frame_indices.tolist() == [-1, -1, 0, 2, 4, 6, 8, 10, 12, 14]


def test_a_part_of_one_length_divides_what_is_shown_beside_a_clip_of_any_length() -> None:
    clips = {"all": ClipSpec("all", max_frames=8, stride=2, size=8), "few": ClipSpec(3, size=4)}
    spec = SampleSpec(clips | {"first": ClipSpec(1, size=16)})
    made = sample_params(spec, dict.fromkeys(spec.clips, video(12)), Clip(0))
    assert reported(made.frames).tolist() == [0, 2, 4, 6, 8, 10, -1, -1]
    assert made.clips["few"][0].frame_indices.tolist() == [0, 4, 8]
    assert made.clips["first"][0].frame_indices.tolist() == [0]


def test_segments_and_views_are_the_leaders() -> None:
    made = params(
        video(),
        video(45, 15),
        row=Video("", start=30, end=60),
        views=2,
        sampling="random",
        flip=True,
    )
    assert made.frames.shape == made.times.shape == (2, 6)
    assert made.frames.min() >= 30
    assert len(made.clips["a"]) == len(made.clips["b"]) == 2
    for a, b in zip(made.clips["a"], made.clips["b"], strict=True):
        assert (a.flip, a.seed) == (b.flip, b.seed)


def test_a_part_that_does_not_fit_is_named() -> None:
    small = video()._replace(width=16)
    with pytest.raises(UnfitError, match=r"'b'.*16x48"):
        params(video(), small)
