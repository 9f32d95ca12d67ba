"""What a stream may be told: every value is checked, and each name stands in one place."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from videoload import Client, decode_serially
from videoload.errors import SpecError
from videoload.plan.options import StreamArguments, StreamOptions


def options(**changes: Any) -> StreamOptions:
    return StreamOptions(**{"batch_size": 4, "shuffle": True} | changes)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("batch_size", 0, "batch_size must be a whole number of at least 1, got 0"),
        ("batch_size", -3, "batch_size must be a whole number of at least 1, got -3"),
        ("batch_size", 2.0, r"batch_size must be a whole number of at least 1, got 2\.0"),
        ("batch_size", "8", "batch_size must be a whole number of at least 1, got '8'"),
        ("batch_size", True, "batch_size must be a whole number of at least 1, got True"),
        ("batch_size", None, r"give batch_size \(clips\), or batch_frames"),
        ("batch_frames", 8, r"give batch_size \(clips\), or batch_frames"),
        ("buckets", (), r"buckets must be numbers of frames that rise, got \(\)"),
        ("buckets", 16, "buckets must be numbers of frames that rise, got 16"),
        ("buckets", "auto", "buckets must be numbers of frames that rise, got 'auto'"),
        ("buckets", (16, 16), r"buckets must be numbers of frames that rise, got \(16, 16\)"),
        ("buckets", (0, 16), "buckets must be a whole number of at least 1, got 0"),
        ("seed", 1.5, r"seed must be a whole number, got 1\.5"),
        ("seed", None, "seed must be a whole number, got None"),
        ("seed", True, "seed must be a whole number, got True"),
        ("shard", (1, 1), r"0 <= rank < world, got \(1, 1\)"),
        ("shard", (-1, 2), r"0 <= rank < world, got \(-1, 2\)"),
        ("shard", (0, 0), r"0 <= rank < world, got \(0, 0\)"),
        ("shard", (0, 1, 2), r"0 <= rank < world, got \(0, 1, 2\)"),
        ("shard", (0.0, 2), r"0 <= rank < world, got \(0\.0, 2\)"),
        ("shard", (0, 2.0), r"0 <= rank < world, got \(0, 2\.0\)"),
        ("shard", 1, "0 <= rank < world, got 1"),
        ("on_error", "pass", "on_error must be .*, got 'pass'"),
        ("max_bad", 1.01, r"max_bad must be a share from 0 to 1, got 1\.01"),
        ("max_bad", -0.1, r"max_bad must be a share from 0 to 1, got -0\.1"),
        ("max_bad", "x", "max_bad must be a share from 0 to 1, got 'x'"),
        ("ordered", 1, "ordered must be True or False, got 1"),
        ("max_bad", float("nan"), "max_bad must be a share from 0 to 1, got nan"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(field: str, value: object, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        options(**{field: value})


@pytest.mark.parametrize(
    "changes",
    [{"batch_size": 1}, {"seed": -1}, {"shard": (2, 3)}, {"max_bad": 0}, {"max_bad": 1.0}],
)
def test_options_at_the_edge_are_accepted(changes: dict[str, Any]) -> None:
    made = options(**changes)
    assert all(getattr(made, name) == value for name, value in changes.items())


def test_a_balance_of_anything_else_is_refused() -> None:
    for balance in (3, "doing", [1.0, -1.0], [0, 0], [[1, 2]], [float("nan")], ["a"]):
        with pytest.raises(SpecError, match='balance must be "class"'):
            options(balance=balance)
    assert options(balance=None) == options()
    assert options(balance=np.array([0, 2])) == options(balance=[0.0, 2.0])


def test_clips_of_a_batch_follow_from_its_frames_if_it_has_a_number_of_them() -> None:
    made = options(batch_size=None, batch_frames=np.int64(64), buckets=np.array([8, 16]))
    assert made == options(batch_size=None, batch_frames=64, buckets=[8, 16])
    assert [made.clips_of(frames) for frames in (1, 16, 33, 64, 100)] == [64, 4, 1, 1, 1]
    assert options().clips_of(100) == 4


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_smaller_last_batch_is_left_out_where_the_stream_is_shuffled(shuffle: bool) -> None:
    assert options(shuffle=shuffle).drop_remainder is shuffle
    assert options(shuffle=shuffle, drop_remainder=not shuffle).drop_remainder is not shuffle


@pytest.mark.parametrize("function", [Client.stream, decode_serially])
def test_an_option_has_the_same_name_type_and_default_wherever_it_stands(function: Any) -> None:
    own = {field.name: (field.type, field.default) for field in fields(StreamOptions)}
    own.pop("batch_size")
    parameters = inspect.signature(function).parameters
    assert list(parameters)[-len(own) :] == list(own)
    for name, expected in own.items():
        parameter = parameters[name]
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert (parameter.annotation, parameter.default) == expected, name
    assert {name: told for name, (told, _) in own.items()} == {
        name: hint.__forward_arg__ for name, hint in StreamArguments.__annotations__.items()
    }


@pytest.mark.parametrize("function", [Client.stream, decode_serially])
def test_an_option_that_does_not_exist_is_refused_by_its_name(function: Any) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'shufle'"):
        function(None, None, 4, shufle=True)
