"""Valid specs of a clip, and contradictory ones."""

import pickle
from dataclasses import dataclass, field, replace
from functools import partial
from types import FunctionType
from typing import Any, get_args

import numpy as np
import pytest

from tests.support import transforms
from videoload.clips.choices import Pixels
from videoload.clips.clip_spec import (
    COUNTS,
    SCALES,
    ClipSpec,
    at_native_size,
    counting,
    crops_of,
    decoded_shape,
    deterministic,
    fits_any_video,
    is_random,
    may_lack_frames,
    pixel_format,
    say_frames,
    scaling_key,
)
from videoload.clips.sample_spec import (
    SampleSpec,
    Shape,
    arrays_of,
    frames_shape,
    one_clip,
    shape_of,
    with_shape,
)
from videoload.errors import SpecError


def spec(**changes: Any) -> ClipSpec:
    """Eight neighbouring frames, 16x16 pixels."""
    default: dict[str, Any] = {"frames": 8, "size": (16, 16)}
    return ClipSpec(**default | changes)


@pytest.mark.parametrize(
    ("changes", "shape", "clip_bytes"),
    [
        ({}, (8, 20, 30, 3), 14400),
        ({"pixels": "gray"}, (8, 20, 30, 1), 4800),
        ({"pixels": "gray16"}, (8, 20, 30, 1), 9600),
        ({"pixels": "yuv420p"}, (8, 30, 30), 7200),
        ({"views": 3, "flip": True}, (3, 8, 20, 30, 3), 43200),
        ({"crop": "five"}, (8, 20, 30, 3), 14400),
        ({"transform": "a:f", "output": ([4, 2], "f4")}, (4, 2), 32),
        ({"transform": "a:f", "output": ([4, 2], "f4"), "views": 3}, (3, 4, 2), 96),
    ],
)
def test_a_clip_has_the_shape_that_the_spec_says(
    changes: dict[str, Any], shape: tuple[int, ...], clip_bytes: int
) -> None:
    made = spec(size=[20, 30], **changes)
    assert (made.shape, made.clip_bytes) == (shape, clip_bytes)
    assert frames_shape(one_clip(made)) == ((3, 8) if "views" in changes else (8,))
    assert crops_of(made) == (5 if "crop" in changes else 1)
    assert arrays_of(one_clip(made), np.zeros((5, clip_bytes), np.uint8)).shape == (5, *shape)
    assert decoded_shape(replace(made, pixels="rgb24")) == (8, 20, 30, 3)


def test_a_size_may_be_a_number_of_numpy() -> None:
    size: Any = np.int64(16)
    assert ClipSpec(2, size=size).size == (16, 16)


CALLED = {"transform": "a:f"}
REFUSED: list[tuple[str, list[dict[str, Any]]]] = [
    *((f"{name}", [{name: value} for value in (0, -1, 1.0, True)])
      for name in ("frames", "stride", "clips_per_video", "resize", "views", "max_frames")),
    *((f"{name}.*'x'", [{name: "x"}])
      for name in ("crop", "sampling", "short", "pixels", "span", "scaling", "edges", "align",
                   "frames")),
    *((f"{name}", [{"sampling": "dense", name: 0}]) for name in ("hop", "hop_s")),
    *((f"{name}.*2147483647", [{"sampling": sampling, name: 2**31}]) for name, sampling in
      (("stride", None), ("clips_per_video", None), ("hop", "dense"), ("size", None))),
    *((f'"{crop}" .*size', [{"crop": crop, "size": None}])
      for crop in ("random", "resized", "three", "five", "pad", "stretch", "box")),
    ("max_frames", [{"frames": "all"}]),
    ("frames.* 7", [{"max_frames": 7}]),
    ("flip", [{"flip": 1}, {"flip": 0.5}]),
    ("rotate", [{"rotate": 90}]),
    ("fps", [{"fps": v} for v in (0, -25, 1e-9, float("nan"), float("inf"), "25", True)]),
    ("stride.* fps", [{"fps": 10, "stride": 2}]),
    ("resize.*127", [{"resize": 127}]),
    ("resize.*16384", [{"resize": 16386}]),
    ("size", [{"size": size} for size in (0, (112,), (1, 2, 3), (0, 16), (16, 16.0))]),
    ("size.*crop=", [{"size": [(16, 24), (24, 16)], "crop": crop}
                     for crop in ("resized", "three", "stretch", "box")]),
    ("size.*resize=", [{"size": [(16, 24), (24, 16)], "resize": 32}]),
    ("ratio", [{"size": [(16, 24), (32, 48)]}]),
    ("size", [{"size": [(16, 24), 16]}, {"size": [16, (16, 24)]}, {"size": []}]),
    ("yuv420p", [{"size": [(16, 24), (15, 24)], "pixels": "yuv420p"}]),
    ("yuv420p", [{"size": size, "pixels": "yuv420p"} for size in ((16, 15), (15, 16))]),
    ("size.*resize=16", [{"size": (18, 18), "resize": 16, "crop": crop}
                         for crop in ("center", "random", "three")]),
    ("clips_per_video", [{"sampling": "dense", "clips_per_video": 2}]),
    ("hop_s", [{"sampling": "dense", "fps": 12.5, "hop": 3}, {"hop_s": 0.5},
               {"sampling": "dense", "hop_s": 0.5, "hop": 3}]),
    ('hop.*"dense"', [{"hop": 4}]),
    ("span", [{"span": "video", **more} for more in
              ({"stride": 2}, {"fps": 5}, {"sampling": "dense"}, {"sampling": "at"})]),
    ("resize", [{"crop": "pad", "resize": 16}, {"crop": "stretch", "resize": 16}]),
    ('area.*"resized"', [{"area": (0.5, 1)}]),
    ('ratio.*"resized"', [{"ratio": (1, 1), "crop": "random"}]),
    ('box_scale.*"box"', [{"box_scale": 1.2}]),
    ("box_scale", [{"crop": "box", "box_scale": wrong} for wrong in ((2, 1), 0, 101)]),
    ("area", [{"crop": "resized", "area": wrong}
                      for wrong in (0.5, (0.5, 0.4), (0, 1), (0.1, 2), (0.1, 0.2, 0.3))]),
    ("ratio", [{"crop": "resized", "ratio": wrong} for wrong in (("1", 2), (1, 1001))]),
    ("views", [{"views": 2, "sampling": "center"}]),
    ("views", [{"views": 2, "crop": "three", "sampling": "center"}]),
    ("offsets", [
        {"frames": 0, "sampling": "at", "offsets": wrong} for wrong in ((), (1, 1), (2, 1), 3, "a")
    ]),
    ("offsets", [{"sampling": "at", "offsets": (0, 1)}]),
    (r"offsets=\(-1, 0\).*same spec", [{"frames": 0, "offsets": (-1, 0)}]),
    *(("offsets", [{"frames": 0, "offsets": (0, 1), **more}]) for more in
      ({}, {"sampling": "dense"}, {"sampling": "at", "stride": 2}, {"sampling": "at", "fps": 5})),
    ("edges", [{"edges": "hold"}, {"edges": "zero", "sampling": "at", "short": "drop"}]),
    ("align", [{"align": "keyframe", **more} for more in (
        {"sampling": "dense"}, {"sampling": "at", "edges": "zero"}, {"span": "video"},
        {"max_frames": 8, "long": "thin"})]),
    ("transform", [{"output": ((2,), "f4")}]),
    ("output", [{"transform": "a:f", "output": wrong}
                for wrong in ((2, "f4"), ((2,), "O"), (2,), "f4")]),
    ("transform", [{"transform": wrong} for wrong in (
        3, "augment", "a.b:", ":f", "a:b:c", "../a:c", "a:b.c", "a b:c", "a:b; x")]),
    (".", [{"transform": lambda clip, rng: clip}]),
    ("transform|module", [{"transform": np.ndarray.copy}, {"transform": partial(np.flip, axis=1)}]),
    ("__main__", [{"transform": "__main__.a:f"}, {"transform": "__main__:f"}]),
    ("gray16", [{"pixels": "gray16", "grayscale": 0.5}]),
    *((f"max_frames.*{name}='?{value}", [{"frames": "all", "max_frames": 64, name: value, **more}])
      for name, value, more in (
        ("short", "loop", {}), ("short", "error", {}), ("sampling", "dense", {}),
        ("sampling", "at", {"edges": "zero"}), ("span", "video", {}))),
    (r"max_frames.*offsets=\(0, 1\)", [{"frames": "all", "max_frames": 2, "offsets": (0, 1)}]),
    ("cut.*max_frames", [{"short": "cut"}]),
    ("thin.*max_frames", [{"long": "thin"}]),
    ("audio_rate", [{"max_frames": 8, "long": "thin", "fps": 10, "audio_rate": 8000}]),
    ("max_frames.*output=", [
        {"frames": "all", "max_frames": 2, "transform": "m:f", "output": ((1,), "uint8")}]),
]  # fmt: skip


@pytest.mark.parametrize(("words", "refused"), REFUSED)
def test_an_invalid_spec_is_refused(words: str, refused: list[dict[str, Any]]) -> None:
    for changes in refused:
        with pytest.raises(SpecError, match=words):
            spec(**changes)


def test_a_function_is_kept_by_the_name_that_workers_import_it_by() -> None:
    assert spec(transform=transforms.invert) == spec(transform="tests.support.transforms:invert")
    assert pickle.loads(pickle.dumps(spec(transform=np.flip))).transform == "numpy:flip"

    def nested(clip: Any, rng: Any) -> Any:
        return clip

    with pytest.raises(SpecError, match="nested"):
        spec(transform=nested)
    stale = FunctionType(transforms.invert.__code__, {}, "invert")
    for module, words in (("tests.support.transforms", ":invert"), ("__main__", "invert")):
        stale.__module__ = module
        with pytest.raises(SpecError, match=words):
            spec(transform=stale)


@pytest.mark.parametrize(
    "changes",
    [
        {"frames": 1}, {"size": (15, 17)}, {"fps": 12}, {"fps": 0.001}, {"resize": 16384},
        {"stride": 2**31 - 1}, {"size": (16, 16), "resize": 16}, {"size": (16, 18), "resize": 16},
        {"size": (18, 16), "resize": 16}, {"size": (32, 32), "resize": 16, "crop": "resized"},
        {"size": None, "pixels": "yuv420p"}, {"sampling": "dense", "hop": 1},
        {"sampling": "dense", "hop_s": 0.5, "stride": 2},
        {"sampling": "dense", "hop_s": 0.5, "fps": 12.5},
        {"frames": 2, "sampling": "at", "offsets": (-1, 5)},
        {"frames": 1, "sampling": "dense", "edges": "hold", "offsets": (3,)},
        {"transform": "a.b_2._c:__f3"}, {"transform": "__main__2:f"},
        {"span": "video", "sampling": "uniform", "clips_per_video": 3},
        {"views": 2, "sampling": "random"}, {"views": 2, "transform": "a:f"},
        {"crop": "resized", "area": (0.3, 0.3), "ratio": (0.5, 1000.0)},
        {"crop": "box", "box_scale": (0.001, 100.0)},
        {"size": None, "transform": "a:f", "output": ((), "float16")},
    ],
)  # fmt: skip
def test_a_spec_at_the_edge_is_accepted(changes: dict[str, Any]) -> None:
    made = spec(**changes)
    assert all(getattr(made, name) == value for name, value in changes.items())


@pytest.mark.parametrize(
    ("given", "equal"),
    [
        ({"frames": "all", "max_frames": 8}, {"frames": 8, "max_frames": 8, "short": "zero"}),
        ({"frames": 0, "max_frames": 8}, {"frames": "all", "max_frames": 8}),
        ({"frames": 4, "short": None}, {"frames": 4, "short": "loop"}),
        ({"size": 12}, {"size": (12, 12)}),
        ({"size": [16, 16]}, {}),
        ({"output": ([4], "f4")} | CALLED, {"output": ((4,), "float32")} | CALLED),
    ],
)  # fmt: skip
def test_what_a_spec_says_in_several_ways_is_the_same(
    given: dict[str, Any], equal: dict[str, Any]
) -> None:
    made = spec(**given)
    assert made == spec(**equal)
    assert hash(made) == hash(spec(**equal))
    assert eval(repr(made), {"ClipSpec": ClipSpec}) == made
    assert isinstance(made.frames, int)


def test_one_of_several_sizes_is_that_of_a_batch() -> None:
    made = spec(size=[[16, 24], (24, 20), (20, 16)], crop="random")
    assert made.shape == (8, 24, 20, 3), "the largest"
    assert with_shape(one_clip(made), Shape(8, ((20, 16),))).given == replace(made, size=[(20, 16)])
    assert with_shape(one_clip(made), Shape(8, ((20, 16),))).shape == (8, 20, 16, 3)
    mixed = SampleSpec({"a": replace(made, size=4, resize=8), "b": made})
    assert shape_of(mixed) == Shape(8, ((24, 20),))
    smaller = with_shape(mixed, Shape(8, ((16, 24),))).shape
    assert smaller == {"a": (8, 4, 4, 3), "b": (8, 16, 24, 3)}


def test_without_a_size_a_clip_has_no_shape_yet() -> None:
    made = spec(size=None, pixels="yuv420p")
    for name in ("shape", "clip_bytes"):
        with pytest.raises(SpecError):
            getattr(made, name)
    assert at_native_size(made, 64, 48).shape == (8, 72, 64)
    with pytest.raises(SpecError, match="even"):
        at_native_size(made, 63, 48)


@dataclass(frozen=True)
class Wider(ClipSpec):
    """As a spec would be with one more field that means all that a field can mean."""

    glow: float = field(default=0.0, metadata=COUNTS | SCALES | {
        "any_length": (0.0, 0.5), "still": lambda spec: 0.25,
    })  # fmt: skip


def test_a_new_field_means_what_stands_at_it() -> None:
    made = Wider(4, size=(16, 16), glow=0.5)
    assert counting(made) == Wider(4, size=(2, 2), glow=0.5)
    assert deterministic(made) == Wider(4, size=(16, 16), sampling="center", glow=0.25)
    assert is_random(made)
    assert scaling_key(made) != scaling_key(replace(made, glow=0.25))
    assert Wider(max_frames=4, glow=0.5).glow == 0.5
    with pytest.raises(SpecError, match=r"glow=0\.75"):
        Wider(max_frames=4, glow=0.75)
    own = Wider(4, size=(8, 8))
    assert SampleSpec({"a": made, "b": own}).clips["b"] == replace(own, glow=0.5)
    with pytest.raises(SpecError, match="glow"):
        SampleSpec({"a": made, "b": replace(own, glow=0.75)})


def test_nothing_of_a_clip_for_validation_is_random() -> None:
    drawn = ClipSpec(
        4, resize=32, size=(16, 24), flip=True, jitter=(0.1, 0.1, 0.1, 0.1), grayscale=0.5,
        crop="resized", sampling="random",
    )  # fmt: skip
    whole = {"area": (1.0, 1.0), "ratio": (1.5, 1.5), "sampling": "center", "crop": "resized"}
    assert deterministic(drawn) == ClipSpec(4, resize=32, size=(16, 24), **whole)  # type: ignore[arg-type]
    random = replace(drawn, crop="random")
    assert deterministic(random) == ClipSpec(4, resize=32, size=(16, 24), sampling="center")
    box = ClipSpec(4, size=(16, 24), crop="box", box_scale=(1.0, 2.0), sampling="at")
    assert deterministic(box) == replace(box, box_scale=1.5)
    assert not is_random(deterministic(box))
    assert is_random(ClipSpec(4, size=8)), "a shuffled stream draws its windows"


@pytest.mark.parametrize("pixels", get_args(Pixels))
def test_each_format_of_pixels_says_how_its_clips_lie_in_memory(pixels: Pixels) -> None:
    spec = ClipSpec(frames=3, size=(4, 6), pixels=pixels)
    clip = np.zeros(spec.shape, spec.dtype)
    assert clip.nbytes == spec.clip_bytes
    assert clip.shape == (3, 6, 6) if pixel_format(spec).is_halved else clip.shape[:3] == (3, 4, 6)


def test_what_the_fields_of_a_spec_mean_together_follows_from_each() -> None:
    plain, whole = ClipSpec(frames=4), ClipSpec(frames="all", max_frames=4)
    held = ClipSpec(frames=4, sampling="dense", edges="hold")
    assert [may_lack_frames(each) for each in (plain, whole, held)] == [False, True, True]
    assert [fits_any_video(each) for each in (plain, whole, held)] == [False, True, True]
    assert may_lack_frames(ClipSpec(frames=4, short="zero"))
    assert fits_any_video(ClipSpec(frames=4, sampling="at"))
    assert all(map(say_frames, (["frames"], ["size", "offsets"], ["max_frames"])))
    assert not say_frames(["size", "stride"])
