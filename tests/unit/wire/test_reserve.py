"""Descriptors that are held are there when a client needs one, whatever else takes all others."""

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from videoload.wire.reserve import Reserve
from videoload.wire.slots import Arena


@pytest.fixture
def none_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reserve]:
    """A reserve in a process where every other descriptor is taken."""
    made, limits = Reserve(), resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr("videoload.wire.slots.RESERVE", made)
    used = max(int(each) for each in os.listdir("/proc/self/fd"))
    made.open()
    with ExitStack() as taken:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 64, limits[1]))
        taken.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        while is_one_free():
            taken.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        yield made
        made.close()


def is_one_free() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    return True


def test_memory_of_a_stream_is_made_of_the_reserve(none_left: Reserve) -> None:
    Arena(1, 100).close()
    none_left.fill()
    assert not is_one_free()


def test_a_worker_is_started_with_several_things_that_take_a_descriptor(
    none_left: Reserve,
) -> None:
    with none_left.let_go():
        Arena(1, 100).close()
        assert is_one_free(), "for its channel"
    assert not is_one_free()


def test_what_is_lent_stays_free_until_it_comes_back(none_left: Reserve) -> None:
    assert none_left.lend()
    with none_left.let_go():
        pass
    none_left.fill()
    assert is_one_free(), "for the worker that connects"
    none_left.take_back()
    assert not is_one_free()
