"""Clips with other colors: the maths of `clips.colors`, on the frames of every format."""

from fractions import Fraction

import numpy as np
import pytest
from av.video.frame import VideoFrame

from tests.support.frames import clip_of, frame_of, picture
from videoload.clips.choices import Crop, Pixels
from videoload.clips.clip_params import clip_params
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.colors import Colors, recolor_planes, recolor_rgb
from videoload.clips.rows import Clip
from videoload.clips.video_info import VideoInfo
from videoload.decoding.planes import Buffer

SAME = Colors(1.0, 1.0, 1.0, 0.0)
MILD = Colors(0.9, 0.8, 0.7, 0.05)
INFO = VideoInfo(100, Fraction(25), 160, 120, quarter_turns=1)


def frames_of(*sources: str) -> list[VideoFrame]:
    shown = picture(160, 120)
    return [frame_of(np.roll(shown, 9 * i, (0, 1)), name) for i, name in enumerate(sources)]


def recolored(frames: list[VideoFrame], spec: ClipSpec, colors: Colors, seed: int = 0) -> Buffer:
    params = clip_params(spec, INFO, Clip(seed))._replace(colors=colors)
    return clip_of(frames, spec, INFO, params)


def plain(frames: list[VideoFrame], spec: ClipSpec, seed: int = 0) -> Buffer:
    return clip_of(frames, spec, INFO, clip_params(spec, INFO, Clip(seed)))


@pytest.mark.parametrize("pixels", ["rgb24", "gray", "yuv420p"])
@pytest.mark.parametrize("source", ["yuv420p", "yuvj420p", "yuvj422p", "rgb24", "gray"])
def test_colors_that_change_nothing_give_the_plain_clip(source: str, pixels: Pixels) -> None:
    crops: list[tuple[Crop, int | None]] = [("random", 64), ("resized", 64), ("resized", None)]
    frames = frames_of(source, source)
    for crop, resize in crops:
        spec = ClipSpec(2, resize=resize, size=(48, 56), crop=crop, pixels=pixels, flip=True)
        for seed in range(2):
            made = recolored(frames, spec, SAME, seed)
            assert np.array_equal(made, plain(frames, spec, seed))


@pytest.mark.parametrize("source", ["yuv420p", "yuvj420p", "yuv422p", "bgr24"])
def test_every_source_gets_the_colors_that_the_formulas_give_in_rgb(source: str) -> None:
    spec = ClipSpec(2, resize=64, size=(48, 56), crop="random", flip=True)
    frames = frames_of(source, source)
    made = recolored(frames, spec, MILD).astype(int)
    shown = plain(frames, spec)
    wanted = shown.copy()
    recolor_rgb(wanted, MILD)
    apart = np.abs(made - wanted)
    assert apart.mean() < 2
    assert apart.max() < 12
    assert np.abs(made - shown).mean() > 10  # the colors did change


def test_grey_and_planar_pixels_have_the_same_maths_in_their_planes() -> None:
    spec = ClipSpec(2, resize=64, size=(48, 56), pixels="gray")
    frames = frames_of("yuvj420p", "yuvj420p")
    luma = plain(frames, spec)
    recolor_planes([luma], MILD, full_range=True)
    assert np.abs(recolored(frames, spec, MILD).astype(int) - luma).max() <= 1
    spec = ClipSpec(2, resize=64, size=(48, 56), pixels="yuv420p")
    flat = plain(frames, spec).reshape(2, -1)
    planes = np.split(flat, [48 * 56, 48 * 56 * 5 // 4], axis=1)
    recolor_planes(planes, MILD, full_range=False)  # views
    made = recolored(frames, spec, MILD).reshape(2, -1)
    assert np.abs(made.astype(int) - flat).max() <= 2
