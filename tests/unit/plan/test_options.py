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
        ("balance", [3, "doing", [1.0, -1.0], [0, 0], [[1, 2]], [float("nan")], ["a"]]),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(field: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(SpecError, match=field):
            options(**{field: value})


@pytest.mark.parametrize(
    "changes",
    [{"batch_size": 1}, {"seed": -1}, {"shard": (2, 3)}, {"max_bad": 0}, {"max_bad": 1.0}],
)
def test_options_at_the_edge_are_accepted(changes: dict[str, Any]) -> None:
    made = options(**changes)
    assert all(getattr(made, name) == value for name, value in changes.items())


def test_weights_are_compared_by_their_values() -> None:
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
