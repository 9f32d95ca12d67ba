"""Specs of samples of several parts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from videoload.clips.clip_spec import ClipSpec
from videoload.clips.sample_spec import (
    SampleParts,
    SampleSpec,
    arrays_of,
    frames_shape,
    moment_at,
    one_clip,
    sample_spec,
    transforms_of,
)
from videoload.errors import SpecError

CLIP = ClipSpec(4, resize=32, size=(20, 22), sampling="random", flip=True, transform="a:f")
SMALL = ClipSpec(2, resize=16, size=(10, 11))
FLOATS = ClipSpec(4, size=(5, 5), transform="a:g", output=((3,), "float32"))
SIDES = SampleParts(("rgb", "depth", "bones"), "time", {"depth": 0.5, "rgb": 0.2})


ALL: dict[str, Any] = {"bones": FLOATS, "rgb": CLIP, "depth": SMALL}


def made() -> SampleSpec:
    spec = sample_spec(SIDES, ALL)
    assert isinstance(spec, SampleSpec)
    return spec


def test_the_first_clip_leads_and_the_others_follow_in_what_is_drawn() -> None:
    spec = made()
    assert (spec.leading, spec.leader) == ("rgb", CLIP)
    depth = spec.clips["depth"]
    assert (depth.sampling, depth.flip, depth.frames, depth.transform) == ("random", True, 2, None)
    assert frames_shape(spec) == (4,)
    assert spec.offset_s("depth") == pytest.approx(0.3)
    assert transforms_of(spec) == ["a:f", "a:g"]
    assert hash(made()) == hash(spec)
    assert made() == spec


def test_the_parts_of_a_sample_are_views_of_its_bytes() -> None:
    spec = made()
    rows = np.zeros((2, spec.clip_bytes), np.uint8)
    arrays = arrays_of(spec, rows)
    assert {name: array.shape for name, array in arrays.items()} == {
        "rgb": (2, 4, 20, 22, 3), "depth": (2, 2, 10, 11, 3), "bones": (2, 3)
    }  # fmt: skip
    assert spec.shape == {name: array.shape[1:] for name, array in arrays.items()}
    assert spec.dtype == {"bones": "float32", "rgb": "uint8", "depth": "uint8"}
    for number, (name, array) in enumerate(arrays.items(), 1):
        array[...] = number
        assert (arrays[name] == number).all()
    assert [place.start % 64 for place in spec.places.values()] == [0, 0, 0]
    assert spec.clip_bytes % 64 == 0


@pytest.mark.parametrize(
    ("sides", "clips", "words"),
    [
        (SIDES, {**ALL, "depth": ClipSpec(2, size=(10, 11), stride=3)}, "stride.*'rgb'"),
        (SIDES, {**ALL, "depth": ClipSpec(2)}, "size="),
        (SIDES, {**ALL, "bones": "a:load"}, "'bones'.*ClipSpec"),
        (SIDES, {**ALL, "more": SMALL}, "'more'"),
        (SIDES, CLIP, "rgb, depth, bones"),
        (None, {"rgb": CLIP}, "side_by_side"),
        (
            SampleParts(("rgb", "b"), "time", {"c": 1.0}),
            {"rgb": CLIP, "b": SMALL},
            "offset_s.*'c'",
        ),
        (SampleParts(("rgb", "b"), "frames", {"b": 1.0}), {"rgb": CLIP, "b": SMALL}, "offset_s"),
    ],
)
def test_specs_that_contradict_each_other_are_refused(sides: Any, clips: Any, words: str) -> None:
    assert sample_spec(None, CLIP).given == CLIP
    with pytest.raises(SpecError, match=words):
        sample_spec(sides, clips)


@pytest.mark.parametrize(
    ("spec", "frame"),
    [
        (ClipSpec(5, sampling="at"), 2), (ClipSpec(5, sampling="dense", edges="hold"), 2),
        (ClipSpec(sampling="at", offsets=(-3, 0, 1)), 1),
        (ClipSpec(sampling="at", offsets=(1, 2)), None),
        (ClipSpec(5, sampling="dense"), None), (ClipSpec(5, sampling="random"), None),
    ],
)  # fmt: skip
def test_a_clip_around_a_moment_knows_which_frame_shows_it(
    spec: ClipSpec, frame: int | None
) -> None:
    assert moment_at(spec) == frame


@pytest.mark.parametrize("shuffle", [True, False])
def test_clips_are_drawn_where_the_stream_is_shuffled_and_they_do_not_say(shuffle: bool) -> None:
    wanted: Any = "random" if shuffle else "center"
    clip = ClipSpec(frames=4, size=8)
    assert sample_spec(None, clip, shuffle=shuffle).leader.sampling == wanted
    sampling: Any
    for sampling in ("random", "center", "uniform"):
        said = replace(clip, sampling=sampling)
        assert sample_spec(None, said, shuffle=shuffle) == one_clip(said)
    both = sample_spec(SampleParts(("a", "b")), {"a": clip, "b": clip}, shuffle=shuffle)
    assert {part.sampling for part in both.clips.values()} == {wanted}
    views = ClipSpec(frames=4, size=8, views=2)
    if shuffle:
        assert sample_spec(None, views, shuffle=True).leader.views == 2
    else:
        with pytest.raises(SpecError, match="views"):
            sample_spec(None, views, shuffle=False)
