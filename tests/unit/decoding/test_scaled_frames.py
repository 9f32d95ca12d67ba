"""Clips made of kept frames have the bytes of clips made of the source frames."""

from fractions import Fraction
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from av.video.frame import VideoFrame

from tests.support.frames import FORMATS, clip_of, frame_of, picture
from tests.support.thorough import either, in_pairs
from videoload.clips.choices import WHOLE_FRAME, Crop, Pixels
from videoload.clips.clip_params import clip_params
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.rows import Clip
from videoload.clips.video_info import VideoInfo
from videoload.decoding.clip_frames import ClipStore, is_keepable
from videoload.decoding.clip_pixels import ClipPixels
from videoload.decoding.conversions import FrameFormat, scaling_conversion
from videoload.decoding.filter_graphs import FilterGraphs
from videoload.decoding.planes import Buffer
from videoload.decoding.scaled_frames import (
    frame_bytes,
    pack_format,
    pack_frame,
    unpack_format,
    unpack_frames,
)
from videoload.storage.cache_directories import CacheDirectory

KEPT = tuple(pixels for pixels in get_args(Pixels) if pixels != "gray16")
FRAMES = 3
CROPS: list[Crop] = ["center", "random", "three", "five", "resized", "pad", "stretch"]


def source_frames(size: tuple[int, int], source: str, matrix: int = 2) -> list[VideoFrame]:
    """Frames that differ."""
    return [frame_of(np.roll(picture(*size), 7 * i, (0, 1)), source, matrix) for i in range(FRAMES)]


def directly(frames: list[VideoFrame], spec: ClipSpec, info: VideoInfo, seed: int) -> Buffer:
    return clip_of(frames, spec, info, clip_params(spec, info, Clip(seed)))


def by_kept_frames(
    frames: list[VideoFrame], spec: ClipSpec, info: VideoInfo, seed: int, graphs: FilterGraphs
) -> Buffer:
    clip = np.empty(spec.shape, np.uint8)
    params = clip_params(spec, info, Clip(seed))
    conversion = scaling_conversion(spec, info, params, FrameFormat.of(frames[0]))
    rows = np.empty((len(frames), frame_bytes(conversion.scaled)), np.uint8)
    for frame, row in zip(frames, rows, strict=True):
        pack_frame(graphs[conversion].through(frame), row)
    made = ClipPixels(spec, info, params, graphs, clip)
    made.take_scaled(conversion.source, unpack_frames(rows, conversion.scaled), range(len(frames)))
    made.finish()
    return clip


@pytest.mark.parametrize(("source", "crop", "pixels"), in_pairs(FORMATS, CROPS, KEPT))
def test_every_crop_of_every_format_is_the_same_to_the_byte(
    source: str, crop: Crop, pixels: Pixels
) -> None:
    frames, info = source_frames((160, 120), source), VideoInfo(100, Fraction(25), 160, 120)
    resize = None if crop in WHOLE_FRAME else 64
    spec = ClipSpec(FRAMES, resize=resize, size=(48, 56), crop=crop, pixels=pixels, flip=True)
    graphs = FilterGraphs()
    for seed in range(either(2, 3)):
        assert np.array_equal(
            by_kept_frames(frames, spec, info, seed, graphs), directly(frames, spec, info, seed)
        )


@pytest.mark.parametrize(
    ("size", "turns", "resize"),
    in_pairs([(321, 243), (176, 144), (720, 480), (47, 33)], range(4), [None, 32, 128]),
)
def test_every_size_is_the_same_to_the_byte(
    resize: int | None, size: tuple[int, int], turns: int
) -> None:
    frames = source_frames(size, "yuv420p", matrix=1)
    info = VideoInfo(100, Fraction(25), *size, quarter_turns=turns, mirrored=True)
    spec = ClipSpec(FRAMES, resize=resize, size=(32, 30), crop="random")
    for seed in range(either(2, 4)):
        made = by_kept_frames(frames, spec, info, seed, FilterGraphs())
        assert np.array_equal(made, directly(frames, spec, info, seed))


def test_specs_that_scale_alike_share_their_frames(tmp_path: Path) -> None:
    set_of = ClipStore(CacheDirectory(str(tmp_path), 10**9), "/videos", FilterGraphs()).set_of
    one = ClipSpec(16, stride=2, resize=128, size=(112, 112), crop="random", sampling="random")
    same = ClipSpec(8, resize=128, size=(96, 96), crop="resized", flip=True, sampling="random")
    middle = ClipSpec(16, resize=128, size=(64, 64), crop="three", sampling="random")
    assert set_of(one) == set_of(same) == set_of(middle)
    others = [
        ClipSpec(16, resize=120, size=(112, 112), crop="random", sampling="random"),
        ClipSpec(16, resize=128, size=(112, 112), crop="random", sampling="random", pixels="gray"),
        ClipSpec(16, size=(112, 112), crop="stretch", sampling="random"),
        ClipSpec(16, resize=128, size=(112, 112), crop="random", sampling="random", rotate=False),
        ClipSpec(16, resize=128, size=(112, 112), crop="random", sampling="center"),
    ]
    assert len({set_of(one), *map(set_of, others)}) == len(others) + 1


def test_what_is_drawn_before_it_is_scaled_cannot_be_kept() -> None:
    assert is_keepable(ClipSpec(1, resize=64, size=(48, 48), crop="resized"))
    assert not is_keepable(ClipSpec(1, size=(48, 48), crop="resized"))


def test_a_format_survives_as_bytes() -> None:
    for name in FORMATS:
        told = FrameFormat(320, 240, name, 5, 2)
        assert unpack_format(pack_format(told)) == told
