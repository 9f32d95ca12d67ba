"""Valid specs of a clip, and contradictory ones."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from tests.support import transforms
from videoload.clips.clip_spec import (
    ClipSpec,
    at_native_size,
    crops_of,
    decoded_shape,
    height_and_width,
)
from videoload.clips.sample_spec import arrays_of, frames_shape, with_frames
from videoload.errors import SpecError


def spec(**changes: Any) -> ClipSpec:
    """Eight neighbouring frames, 16x16 pixels."""
    default: dict[str, Any] = {"frames": 8, "size": (16, 16)}
    return ClipSpec(**default | changes)


# Shapes


@pytest.mark.parametrize(
    ("pixels", "shape", "clip_bytes"),
    [
        ("rgb24", (8, 20, 30, 3), 14400),
        ("gray", (8, 20, 30, 1), 4800),
        ("yuv420p", (8, 30, 30), 7200),
    ],
)
def test_a_clip_has_the_shape_of_its_pixels(
    pixels: str, shape: tuple[int, ...], clip_bytes: int
) -> None:
    made = spec(size=(20, 30), pixels=pixels)
    assert made.shape == shape
    assert made.clip_bytes == clip_bytes
    assert height_and_width(made) == (20, 30)


def test_one_number_is_height_and_width() -> None:
    assert spec(size=12) == spec(size=(12, 12))


def test_views_and_outputs_have_the_shapes_that_the_spec_says() -> None:
    views = spec(views=3, flip=True)
    assert (views.shape, frames_shape(views)) == ((3, 8, 16, 16, 3), (3, 8))
    assert (frames_shape(spec()), views.clip_bytes) == ((8,), 3 * spec().clip_bytes)
    made = spec(transform="a:f", output=([4, 2], "f4"))
    assert (made.shape, made.dtype, made.clip_bytes) == ((4, 2), "float32", 32)
    assert decoded_shape(made) == spec().shape
    both = replace(made, views=3)
    assert (both.shape, both.clip_bytes) == ((3, 4, 2), 96)
    assert arrays_of(both, np.zeros((5, 96), np.uint8)).shape == (5, 3, 4, 2)
    assert hash(made) == hash(spec(transform="a:f", output=((4, 2), "float32")))


@pytest.mark.parametrize(("crop", "crops"), [("center", 1), ("three", 3), ("five", 5)])
def test_each_crop_is_a_row(crop: str, crops: int) -> None:
    made = spec(crop=crop)
    assert crops_of(made) == crops
    assert made.shape == spec().shape


# Contradictory specs


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        *(
            ({name: value}, f"{name} must be a whole number of at least 1, got {value!r}")
            for name in ("frames", "stride", "clips_per_video", "resize", "views")
            for value in (0, -1, 1.0, True)
        ),
        (
            {"crop": "left"},
            "crop must be one of center, random, resized, three, five, pad, stretch, "
            "box, none, got",
        ),
        ({"sampling": "first"}, "sampling must be one of random, center, uniform, dense, at, got"),
        ({"short": "wait"}, "short must be one of loop, hold, zero, drop, error, got 'wait'"),
        ({"frames": "all"}, 'frames="all" needs max_frames='),
        ({"frames": "half"}, 'frames must be a whole number of at least 1, or "all", got'),
        ({"max_frames": 7}, "frames must be 7 at most, got 8"),
        ({"max_frames": 0}, "max_frames must be a whole number of at least 1, got 0"),
        ({"pixels": "bgr24"}, "pixels must be one of rgb24, gray, gray16, yuv420p, got 'bgr24'"),
        ({"flip": 1}, "flip must be True or False, got 1"),
        ({"flip": 0.5}, "flip must be True or False, got 0.5"),
        *(
            ({"fps": fps}, f"fps must be a number of at least 0.001, got {fps!r}")
            for fps in (0, -25, 1e-9, float("nan"), float("inf"), "25", True)
        ),
        ({"fps": 10, "stride": 2}, "give stride or fps, not both"),
        ({"resize": 127}, "resize must be even, got 127"),
        ({"resize": 10**9}, "resize must be 16384 at most, got 1000000000"),
        ({"stride": 2**31}, "stride must be 2147483647 at most, got 2147483648"),
        ({"clips_per_video": 10**12}, "clips_per_video must be 2147483647 at most, got 1000000"),
        ({"sampling": "dense", "hop": 10**20}, "hop must be 2147483647 at most, got 1000000"),
        ({"size": None, "crop": "resized"}, 'crop="resized" needs a size'),
        ({"size": 0}, "size must be a whole number of at least 1, got 0"),
        ({"size": (112,)}, "size must be (height, width) or one number, got (112,)"),
        ({"size": (1, 2, 3)}, "size must be (height, width) or one number, got (1, 2, 3)"),
        ({"size": (0, 16)}, "size must be a whole number of at least 1, got 0"),
        ({"size": (16, 16.0)}, "size must be a whole number of at least 1, got 16.0"),
        ({"size": (16, 15), "pixels": "yuv420p"}, 'pixels="yuv420p" needs an even size'),
        ({"size": (15, 16), "pixels": "yuv420p"}, 'pixels="yuv420p" needs an even size'),
        ({"size": (18, 18), "resize": 16}, "size (18, 18) does not fit into resize=16"),
        ({"size": (20, 18), "resize": 16, "crop": "random"}, "does not fit into resize=16"),
        ({"sampling": "dense", "clips_per_video": 2}, "leave clips_per_video out"),
        ({"sampling": "dense", "fps": 12.5, "hop": 3}, "with fps, give hop_s in seconds"),
        ({"sampling": "dense", "hop_s": 0}, "hop_s must be a number of at least 0.001, got 0"),
        ({"sampling": "dense", "hop_s": 0.5, "hop": 3}, "hop (source frames) or hop_s (seconds)"),
        ({"hop_s": 0.5}, 'hop_s is for sampling="dense"'),
        ({"sampling": "dense", "hop": 0}, "hop must be a whole number of at least 1, got 0"),
        ({"hop": 4}, 'hop is for sampling="dense"'),
        ({"span": "all"}, "span must be one of window, video, got 'all'"),
        ({"span": "video", "stride": 2}, 'span="video" takes a frame from each part: leave stride'),
        (
            {"span": "video", "fps": 5},
            'span="video" takes a frame from each part: leave stride and',
        ),
        ({"span": "video", "sampling": "dense"}, 'takes windows: leave span="video" out'),
        *(
            ({"crop": crop, "size": None}, f'crop="{crop}" needs a size')
            for crop in ("three", "five", "pad", "stretch", "box")
        ),
        ({"crop": "three", "size": (18, 18), "resize": 16}, "does not fit into resize=16"),
        ({"crop": "pad", "resize": 16}, 'crop="pad" scales the frame to size: leave resize out'),
        ({"crop": "stretch", "resize": 16}, 'crop="stretch" scales the frame to size'),
        ({"area": (0.5, 1)}, 'area is for crop="resized"'),
        ({"ratio": (1, 1), "crop": "random"}, 'ratio is for crop="resized"'),
        ({"box_scale": 1.2}, 'box_scale is for crop="box"'),
        ({"crop": "box", "box_scale": (2, 1)}, "box_scale must be (least, most), got (2, 1)"),
        ({"crop": "box", "box_scale": 0}, "box_scale must be a number from 0.001 to 100, got 0"),
        ({"crop": "resized", "area": 0.5}, "area must be (least, most), got 0.5"),
        ({"crop": "resized", "area": (0.5, 0.4)}, "area must be (least, most), got (0.5, 0.4)"),
        ({"crop": "resized", "area": (0, 1)}, "area must be a number from 0.001 to 1, got 0"),
        ({"crop": "resized", "area": (0.1, 2)}, "area must be a number from 0.001 to 1, got 2"),
        ({"crop": "resized", "ratio": ("1", 2)}, "ratio must be a number from 0.001 to 1000"),
        ({"views": 2, "sampling": "center"}, "the 2 views of a sample would all be the same"),
        ({"views": 2, "crop": "three", "sampling": "center"}, "would all be the same"),
        ({"rotate": 90}, "rotate must be True or False, got 90"),
        ({"output": ((2,), "f4")}, "output is what a transform returns: give transform"),
        ({"transform": "a:f", "output": (2, "f4")}, "output[0] must be a tuple of lengths, got 2"),
        ({"transform": "a:f", "output": ((2,), "O")}, "output[1] must be the name of a NumPy type"),
        ({"transform": "a:f", "output": (2,)}, "output must be (shape, type), got (2,)"),
        ({"transform": "a:f", "output": "f4"}, "output must be (shape, type), got 'f4'"),
        *(
            ({"transform": wrong}, 'transform must be a function of a module, or "package.module:f')
            for wrong in (
                3,
                "augment",
                *["a.b:", ":f", "a:b:c", "../a:c", "a:b.c"],
                "a b:c",
                "a:b; x",
            )
        ),
        (
            {"transform": lambda clip, rng: clip},
            "a lambda has no name to import it by: write a d",
        ),
        ({"transform": np.ndarray.copy}, "it is no function of a module: write a def in a module"),
        ({"transform": partial(np.flip, axis=1)}, "it is no function of a module"),
        ({"transform": "__main__.a:f"}, "workers cannot import from a script or notebook: move"),
        ({"transform": "__main__:f"}, "workers cannot import from a script or notebook: move"),
        ({"pixels": "gray16", "grayscale": 0.5}, 'pixels="gray16" has no colours'),
        ({"scaling": "bicubic"}, "scaling must be one of bilinear, nearest, got 'bicubic'"),
    ],
)
def test_an_invalid_spec_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=re.escape(words)):
        spec(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"short": "loop"}, "short='loop'"),
        ({"short": "error"}, "short='error'"),
        ({"sampling": "dense"}, "sampling='dense'"),
        ({"sampling": "at", "edges": "zero"}, "sampling='at'"),
        ({"span": "video"}, "span='video'"),
        ({"offsets": (0, 1)}, "offsets=(0, 1)"),
        ({"transform": "m:f", "output": ((1,), "uint8")}, "output=((1,), 'uint8')"),
    ],
)
def test_clips_of_any_length_show_a_video_from_its_first_frame_on(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError, match=re.escape(f"any length (max_frames) have no {words}")):
        spec(frames="all", max_frames=64, **changes)


def test_a_function_is_kept_by_the_name_that_workers_import_it_by() -> None:
    assert spec(transform=transforms.invert) == spec(transform="tests.support.transforms:invert")
    assert pickle.loads(pickle.dumps(spec(transform=np.flip))).transform == "numpy:flip"

    def nested(clip: Any, rng: Any) -> Any:
        return clip

    with pytest.raises(SpecError, match="it is defined inside another function: move it to the to"):
        spec(transform=nested)
    stale = FunctionType(transforms.invert.__code__, {}, "invert")
    stale.__module__ = "tests.support.transforms"
    with pytest.raises(SpecError, match="transforms:invert is another object now: import it again"):
        spec(transform=stale)
    stale.__module__ = "__main__"
    with pytest.raises(SpecError, match="workers cannot import from a script or notebook: move it"):
        spec(transform=stale)


@pytest.mark.parametrize(
    "changes",
    [
        {"frames": 1},
        {"size": (16, 16), "resize": 16},
        {"size": (15, 17)},
        {"fps": 12},
        {"fps": 0.001},
        {"size": (16, 18), "resize": 16},
        {"size": (18, 16), "resize": 16},
        {"size": None},
        {"size": None, "pixels": "yuv420p"},
        {"sampling": "dense", "hop": 1},
        {"sampling": "dense", "hop_s": 0.5, "stride": 2},
        {"sampling": "dense", "hop_s": 0.5, "fps": 12.5},
        {"transform": "a:f"},
        {"transform": "a.b_2._c:__f3"},
        {"transform": "__main__2:f"},
        {"span": "video", "sampling": "uniform", "clips_per_video": 3},
        {"views": 2, "sampling": "random"},
        {"views": 2, "transform": "a:f"},
        {"crop": "resized", "area": (0.3, 0.3), "ratio": (0.5, 2.0)},
        {"size": (32, 32), "resize": 16, "crop": "resized"},
        {"crop": "five"},
        {"size": None, "transform": "a:f", "output": ((), "float16")},
    ],
)
def test_a_spec_at_the_edge_is_accepted(changes: dict[str, Any]) -> None:
    made = spec(**changes)
    assert all(getattr(made, name) == value for name, value in changes.items())


@pytest.mark.parametrize(
    ("given", "equal"),
    [
        ({"frames": "all", "max_frames": 8}, {"frames": 8, "max_frames": 8, "short": "zero"}),
        ({"frames": 0, "max_frames": 8}, {"frames": "all", "max_frames": 8}),
        ({"frames": 4, "short": None}, {"frames": 4, "short": "loop"}),
    ],
)
def test_what_a_spec_says_in_several_ways_is_the_same(
    given: dict[str, Any], equal: dict[str, Any]
) -> None:
    made = spec(**given)
    assert made == spec(**equal)
    assert repr(made) == repr(spec(**equal))
    assert eval(repr(made), {"ClipSpec": ClipSpec}) == made
    assert isinstance(made.frames, int)


def test_only_what_was_not_usual_is_shown_of_short() -> None:
    assert repr(ClipSpec(4)) == repr(ClipSpec(4, short="loop")) == "ClipSpec(frames=4)"
    assert repr(ClipSpec(max_frames=4)) == "ClipSpec(frames=4, max_frames=4)"
    assert "short='hold'" in repr(ClipSpec(max_frames=4, short="hold"))
    assert "short='zero'" in repr(ClipSpec(4, short="zero"))


def test_a_bucket_has_fewer_frames_than_the_longest_clips() -> None:
    longest = spec(frames="all", max_frames=64)
    assert longest.shape == (64, 16, 16, 3)
    assert with_frames(longest, 16) == spec(frames=16, max_frames=64)
    assert with_frames(longest, 16).shape == (16, 16, 16, 3)
    assert with_frames(spec(frames=8), 16) == spec(frames=8), "it has one length"


def test_a_size_given_as_a_list_becomes_a_tuple() -> None:
    assert spec(size=[16, 16]) == spec(size=(16, 16))
    assert hash(spec(size=[16, 16])) == hash(spec())


# Native size


def test_without_a_size_a_clip_has_no_shape_yet() -> None:
    made = spec(size=None)
    for name in ("shape", "clip_bytes"):
        with pytest.raises(SpecError, match="the stream finds it in its first video"):
            getattr(made, name)


def test_an_odd_native_size_is_refused_for_half_size_planes() -> None:
    made = spec(size=None, pixels="yuv420p")
    assert at_native_size(made, 64, 48).shape == (8, 72, 64)
    with pytest.raises(SpecError, match="needs an even size"):
        at_native_size(made, 63, 48)
