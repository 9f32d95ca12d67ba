"""How the user's functions are called. How they are found: integration/test_sampling.py."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from videoload.decoding.functions import call


def threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info()}


@pytest.fixture
def three() -> Iterator[None]:
    """Libraries of this process have three threads."""
    before = max(threads())
    elsewhere(lambda: threadpool_limits(3))
    assert threads() == {3}
    yield
    elsewhere(lambda: threadpool_limits(before))


def elsewhere(act: Callable[[], object]) -> None:
    """In a thread that ends: one that lives is taken for the one that decides."""
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def test_a_function_runs_in_one_thread_and_the_process_has_its_own_again(three: None) -> None:
    assert call(lambda given, rng: (given, threads()), "given", 0) == ("given", {1})
    assert threads() == {3}


def test_two_that_call_at_once_run_in_one_thread_each_and_leave_no_limit_behind(
    three: None,
) -> None:
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))
    seen = []

    def first(given: object, rng: np.random.Generator) -> None:
        first_is_in.set()
        second_is_in.wait(0.2)  # in vain
        seen.append(threads())

    def second(given: object, rng: np.random.Generator) -> None:
        second_is_in.set()
        first_is_out.wait(1)
        seen.append(threads())

    one = threading.Thread(target=call, args=(first, "", 0))
    one.start()
    first_is_in.wait(1)
    other = threading.Thread(target=call, args=(second, "", 0))
    other.start()
    one.join()
    first_is_out.set()
    other.join()
    assert seen == [{1}, {1}]
    assert threads() == {3}


def test_a_function_has_the_same_generator_each_time() -> None:
    def draw(given: object, rng: np.random.Generator) -> object:
        return rng.integers(1 << 60)

    assert call(draw, "", 5) == call(draw, "", 5) != call(draw, "", 6)
