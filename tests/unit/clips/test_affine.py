"""A spot of a frame is found in the clip where the matrix says."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.support.frames import clip_of, frame_of
from tests.support.thorough import in_pairs
from videoload.clips.affine import affine, are_mirrored, boxes_in, points_in
from videoload.clips.clip_params import ClipParams, clip_params
from videoload.clips.clip_spec import ClipSpec, at_native_size, height_and_width
from videoload.clips.rows import Clip, Video
from videoload.clips.video_info import VideoInfo
from videoload.decoding.planes import Buffer

SPOTS = [(50.0, 40.0), (101.0, 77.0), (88.0, 60.0), (60.0, 90.0), (120.0, 50.0)]
KINDS: dict[str, dict[str, Any]] = {
    "whole": {},
    "center": {"size": (96, 112)},
    "random": {"size": (96, 96), "crop": "random"},
    "resize": {"resize": 72, "size": (72, 72)},
    "resize, random": {"resize": 90, "size": (80, 80), "crop": "random"},
    "resized": {"size": (96, 96), "crop": "resized", "area": (0.3, 1.0)},
    "resize, resized": {"resize": 100, "size": (96, 96), "crop": "resized", "area": (0.3, 1.0)},
    "pad": {"size": (96, 128), "crop": "pad"},
    "stretch": {"size": (72, 160), "crop": "stretch"},
    "three": {"resize": 100, "size": (80, 80), "crop": "three"},
    "five": {"resize": 100, "size": (80, 80), "crop": "five"},
    "sizes": {"size": [(96, 128), (128, 96)]},
    "sizes, random": {"size": [(97, 141)], "crop": "random"},
    "sizes, pad": {"size": [(96, 128)], "crop": "pad"},
    "sizes, 4:2:0": {"size": [(96, 128)], "crop": "random", "pixels": "yuv420p"},
    "smaller 4:2:0": {"size": (96, 96), "crop": "random", "pixels": "yuv420p"},
}
INFO = VideoInfo(9, Fraction(25), 176, 144)
SHOWN = [
    INFO, INFO._replace(quarter_turns=1), INFO._replace(quarter_turns=2, mirrored=True),
    INFO._replace(quarter_turns=3),
    INFO._replace(width=152, height=132, cut=(16, 4, 8, 8)),
    INFO._replace(pixel_aspect_ratio=Fraction(16, 11)),
    INFO._replace(quarter_turns=1, pixel_aspect_ratio=Fraction(10, 11)),
]  # fmt: skip


def spot(at: tuple[float, float]) -> Buffer:
    y, x = np.mgrid[0:144, 0:176]
    near = np.exp(-((x - at[0]) ** 2 + (y - at[1]) ** 2) / 18)
    picture: Buffer = np.rint(255 * near[..., None].repeat(3, -1)).astype(np.uint8)
    return picture


def looked_for(
    at: tuple[float, float], spec: ClipSpec, info: VideoInfo, params: ClipParams
) -> tuple[Any, Any, tuple[int, int]]:
    """Where the matrix says that a spot lies in a clip, where it does, and (width, height)."""
    [clip] = clip_of([frame_of(spot(at), "yuv420p")], spec, info, params)
    height, width = height_and_width(spec)
    luma = (clip[:height] if spec.pixels == "yuv420p" else clip[..., 0]).astype(float)
    bright, (rows, columns) = np.where(luma > 60, luma, 0), np.mgrid[0:height, 0:width]
    found = [(bright * each).sum() / max(bright.sum(), 1) for each in (columns, rows)]
    return np.array(affine(params)) @ [*at, 1], np.array(found), (width, height)


@pytest.mark.parametrize(("kind", "info", "flip"), in_pairs(KINDS, SHOWN, [False, True]))
def test_a_spot_lies_where_the_matrix_says(kind: str, info: VideoInfo, *, flip: bool) -> None:
    seen = 0
    spec = ClipSpec(1, flip=flip, **KINDS[kind])
    if spec.size is None:
        spec = at_native_size(spec, *info.shown_size(spec))
    for key, at in enumerate(SPOTS):
        told, found, (width, height) = looked_for(
            at, spec, info, clip_params(spec, info, Clip(key))
        )
        if 12 < told[0] < width - 12 and 12 < told[1] < height - 12:
            assert np.hypot(*(found - told)) < 0.5, (key, found, told)
            seen += 1
    assert seen


BOXED: dict[str, dict[str, Any]] = {
    "of the source": {"size": (64, 80)},
    "of the resized frame": {"size": (80, 64), "resize": 120, "box_scale": (0.9, 1.4)},
    "4:2:0": {"size": (64, 64), "pixels": "yuv420p"},
}


@pytest.mark.parametrize(("kind", "info", "flip"), in_pairs(BOXED, SHOWN, [False, True]))
def test_a_box_around_a_spot_shows_it_in_the_middle(
    kind: str, info: VideoInfo, *, flip: bool
) -> None:
    spec = ClipSpec(1, flip=flip, crop="box", **BOXED[kind])
    for key, (x, y) in enumerate(SPOTS):
        box = np.array([x + 0.5 - 18, y + 0.5 - 15, x + 0.5 + 18, y + 0.5 + 15], "<f4")
        params = clip_params(spec, info, Clip(key, row=Video("", boxes=box.tobytes())))
        told, found, (width, height) = looked_for((x, y), spec, info, params)
        assert np.hypot(*(found - told)) < 0.5, (key, found, told)
        middle = (width - 1) / 2, (height - 1) / 2
        assert np.abs(told - middle).max() < 5, "regions begin at even pixels"


def test_points_and_boxes_go_with_the_matrix_of_their_clip() -> None:
    matrices = np.array([[[2, 0, 5], [0, 3, 1]], [[0, -1, 9], [-2, 0, 3]]], np.float32)
    points = np.random.default_rng(0).integers(0, 99, (2, 4, 3, 2)).astype(np.float32)
    moved = points_in(points, matrices)
    for place in np.ndindex(2, 4, 3):
        assert moved[place].tolist() == (matrices[place[0]] @ [*points[place], 1]).tolist()
    assert are_mirrored(matrices, points).ravel().tolist() == [False, True]
    boxes = np.array([[[1, 2, 5, 9]]] * 2, np.float32)
    assert boxes_in(boxes, matrices).tolist() == [[[6.5, 6, 14.5, 27]], [[1, -5.5, 8, 2.5]]]
