"""What a stream may be told: every value is checked, and each name stands in one place."""

import inspect
from typing import Any

import numpy as np
import pytest

import videoload as vl
from videoload import (
    Catalog,
    Client,
    ClipSpec,
    decode_serially,
    evaluate,
    predict,
    video_dataset_from_directory,
)
from videoload.clips.sample_spec import Shape
from videoload.errors import SpecError
from videoload.plan.options import DEFAULTS, CheckedOptions, checked_options, clips_in_batch


def options(**changes: Any) -> CheckedOptions:
    return checked_options(**{"batch_size": 4, "shuffle": True, **changes})


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("batch_size", [0, -3, 2.0, "8", True, None]),
        ("batch_frames", [8]),
        ("buckets", [(), 16, "auto", (16, 16), (0, 16)]),
        ("seed", [1.5, None, True]),
        ("shard", [(1, 1), (-1, 2), (0, 0), (0, 1, 2), (0.0, 2), (0, 2.0), 1]),
        ("on_error", ["pass"]),
        ("max_bad", [1.01, -0.1, "x", float("nan")]),
        ("ordered", [1]),
        (
            "balance",
            [3, "doing", [1.0, -1.0], [0, 0], [[1, 2]], [float("nan")], [1e308] * 9, ["a"]],
        ),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(field: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(SpecError, match=field):
            options(**{field: value})


def test_clips_of_a_batch_follow_from_its_frames_if_it_has_a_number_of_them() -> None:
    made = options(batch_size=None, batch_frames=np.int64(64), buckets=np.array([8, 16]))
    assert made == options(batch_size=None, batch_frames=64, buckets=[8, 16])
    frames = (1, 16, 33, 64, 100)
    assert [clips_in_batch(made, Shape(each), Shape()) for each in frames] == [64, 4, 1, 1, 1]
    assert clips_in_batch(options(), Shape(100), Shape()) == 4
    largest, half = Shape(16, ((8, 4),)), Shape(16, ((4, 4),))
    assert [clips_in_batch(made, each, largest) for each in (largest, half)] == [4, 8]


@pytest.mark.parametrize("function", [Client.stream, decode_serially, evaluate])
def test_help_shows_each_option_and_a_wrong_word_names_the_right_one(function: Any) -> None:
    shown = inspect.signature(function).parameters
    own = {"on_error": "skip"} if function is evaluate else {}
    for name, default in (DEFAULTS | own).items():
        assert (shown[name].kind, shown[name].default) == (shown[name].KEYWORD_ONLY, default)
        assert f"  {name}: " in (function.__doc__ or "")
    text = " ".join((function.__doc__ or "").split())
    assert f'Default ``"{own.get("on_error", "substitute")}"``.' in text
    assert not any(each.kind is each.VAR_KEYWORD for each in shown.values())
    for word, meant in (("shufle", "shuffle"), ("bucket", "buckets")):
        with pytest.raises(TypeError, match=f"{word}.*{meant}"):
            function(None, None, None, 4, **{word: True})


@pytest.mark.parametrize(
    ("function", "word", "meant"),
    [
        (Catalog, "label", "labels"),
        (Catalog.from_table, "lable", "label"),
        (Catalog.from_folder, "clases", "classes"),
        (Client, "worker", "workers"),
        (ClipSpec, "frame", "frames"),
        (predict, "batchsize", "batch_size"),
        (vl.open, "resise", "resize"),
    ],
)
def test_a_wrong_word_names_the_right_one(function: Any, word: str, meant: str) -> None:
    with pytest.raises(TypeError, match=f"{word}=.* {meant}="):
        function(None, **{word: 3})


@pytest.mark.parametrize(("word", "meant"), [("image_sise", "image_size"), ("jiter", "jitter")])
def test_a_wrong_word_of_the_line_for_a_directory_names_one_of_its_own_or_of_a_clip(
    word: str, meant: str
) -> None:
    wrong: Any = {word: 3}
    with pytest.raises(TypeError, match=f"directory.*{word}.*{meant}"):
        video_dataset_from_directory("ucf101", **wrong)
