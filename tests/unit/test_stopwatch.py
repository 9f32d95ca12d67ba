"""The phases add up to what passed, on a clock that the test sets."""

import pytest

from tests.support.clock import Clock
from videoload.stopwatch import PHASES, Stopwatch


def test_what_is_within_a_phase_counts_for_the_inner_one_alone() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    clock.now += 1
    with watch.phase("index"):
        clock.now += 2
        with watch.phase("open"):
            clock.now += 4
        clock.now += 8
    before = watch.enter("scale")
    clock.now += 16
    assert (before, watch.enter(before)) == ("decode", "scale")
    clock.now += 32
    spent = dict.fromkeys(PHASES, 0.0)
    assert watch.read() == spent | {"decode": 33, "index": 10, "open": 4, "scale": 16}
    assert sum(watch.read().values()) == 63, "to read it changes nothing"


def test_what_was_timed_apart_is_moved() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    clock.now += 10
    watch.move(4, "scale")
    assert (watch.read()["decode"], watch.read()["scale"]) == (6, 4)
    with watch.phase("transform"):
        clock.now += 3
        watch.move(1, "scale")
    assert (watch.read()["transform"], watch.read()["scale"]) == (2, 5)
    assert sum(watch.read().values()) == 13


def test_a_phase_ends_with_an_error_and_a_start_forgets() -> None:
    clock = Clock()
    watch = Stopwatch(clock)

    def fail() -> None:
        with watch.phase("seek"):
            clock.now += 1
            raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        fail()
    clock.now += 2
    assert (watch.read()["seek"], watch.read()["decode"]) == (1, 2)
    watch.start()
    assert set(watch.read().values()) == {0.0}
