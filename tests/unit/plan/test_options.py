"""What a stream may be told: every value is checked, and each name stands in one place."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import pytest

from videoload import Client, decode_serially
from videoload.errors import SpecError
from videoload.plan.options import StreamArguments, StreamOptions, stream_options


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
    with pytest.raises(SpecError, match='balance must be "class"'):
        options(balance="video")
    assert options(balance=None) == options()


def test_every_option_can_be_given_by_its_name() -> None:
    hints = get_type_hints(StreamOptions)
    assert {"batch_size": int, **get_type_hints(StreamArguments)} == hints
    told: StreamArguments = {"seed": 3, "balance": "class"}
    assert stream_options(2, told) == StreamOptions(2, seed=3, balance="class")


@pytest.mark.parametrize("function", [Client.stream, decode_serially])
def test_a_stream_and_the_reference_take_the_same_options(function: Any) -> None:
    [rest] = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.VAR_KEYWORD
    ]
    assert rest.annotation == "Unpack[StreamArguments]"


@pytest.mark.parametrize(
    ("name", "hint"),
    [("shufle", r"did you mean shuffle=\?"), ("workers", "there are shuffle, seed, shard, ")],
)
def test_an_option_that_does_not_exist_is_refused_by_its_name(name: str, hint: str) -> None:
    told: Any = {name: 1}
    with pytest.raises(TypeError, match=f"a stream has no argument {name}=: {hint}"):
        stream_options(4, told)
    with pytest.raises(TypeError, match=f"a stream has no argument {name}=: {hint}"):
        decode_serially(None, None, 4, **told)  # type: ignore[call-overload]
