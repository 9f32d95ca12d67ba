"""Datasets of Python functions: their elements, their end, and the end of a wait in one."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.support.waiting import SECOND, wait_until
from videoload.frameworks.python_datasets import PythonDatasets


@pytest.fixture
def python(tf: Any) -> PythonDatasets:
    return PythonDatasets()


def numbers(dataset: Any) -> list[int]:
    return [int(number) for number in dataset]


def test_a_map_gives_what_its_function_returns_until_the_function_stops(
    tf: Any, python: PythonDatasets
) -> None:
    def square(number: np.int64) -> dict[str, Any]:
        if number == 4:
            raise StopIteration
        return {"it": np.array([number * number]), "more": np.arange(number, dtype=np.float32)}

    into = {"it": tf.TensorSpec((1,), tf.int64), "more": tf.TensorSpec((None,), tf.float32)}
    made = python.map(tf.data.Dataset.range(9), square, into)
    assert made.element_spec == into
    assert [(int(each["it"][0]), each["more"].shape[0]) for each in made] == [
        (0, 0), (1, 1), (4, 2), (9, 3),
    ]  # fmt: skip


def test_a_function_that_returns_none_is_called_again(tf: Any, python: PythonDatasets) -> None:
    calls: list[int] = []

    def third_time(number: np.int64) -> Any:
        calls.append(int(number))
        return None if len(calls) % 3 else np.array([number])

    into = tf.TensorSpec((1,), tf.int64)
    assert numbers(python.map(tf.data.Dataset.range(2), third_time, into).unbatch()) == [0, 1]
    assert calls == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("ahead", [0, 2])
def test_an_iterator_is_freed_while_its_function_waits(
    tf: Any, python: PythonDatasets, ahead: int
) -> None:
    # The function never returns a batch, so only TensorFlow can end the wait.
    waits = threading.Event()

    def wait(number: np.int64) -> Any:
        if number:
            waits.set()
            return None
        return np.array([number])

    made = python.map(tf.data.Dataset.range(9), wait, tf.TensorSpec((1,), tf.int64))
    made = made.prefetch(1)
    iterator = iter(made.prefetch(ahead) if ahead else made)
    assert int(next(iterator)[0]) == 0
    assert waits.wait(30 * SECOND)
    del iterator  # Without an end of the wait, the test would time out here.


def test_a_generator_begins_and_ends_with_each_iteration(tf: Any, python: PythonDatasets) -> None:
    begun: list[int] = []
    ended: list[int] = []
    left: dict[int, Iterator[int]] = {}

    def begin(count: np.int64) -> int:
        begun.append(len(begun))
        left[begun[-1]] = iter(range(int(count)))
        return begun[-1]

    def end(which: np.int64) -> np.int64:
        ended.append(int(which))
        return which

    made = python.generator(
        [tf.constant(3, tf.int64)], begin, lambda which: next(left[int(which)]), end,
        tf.TensorSpec((), tf.int64),
    )  # fmt: skip
    assert numbers(made) == [0, 1, 2]
    assert numbers(made.take(1)) == [0]
    iterator = iter(made)
    assert int(next(iterator)) == 0
    assert begun == [0, 1, 2]
    del iterator
    wait_until(lambda: ended == [0, 1, 2], 30 * SECOND)
