"""Whether the thread that brings batches is held up by those that wait for them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.support.waiting import SECOND
from videoload import VideoloadError
from videoload.engine import pulse
from videoload.engine.pulse import Pulse


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(pulse, "time", made)
    return made


def elsewhere(call: Callable[[], None]) -> BaseException | None:
    """What ``call`` raises in another thread."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(10 * SECOND)
    return raised[0] if raised else None


def waited(watched: Pulse, clock: Clock, seconds: float) -> BaseException | None:
    """What somebody hears who waits for so long and looks five times a second."""
    for _ in range(round(5 * seconds)):
        clock.now += 0.2
        if (error := elsewhere(watched.check)) is not None:
            return error
    return None


def test_who_waits_for_a_thread_that_stands_still_hears_of_it(clock: Clock) -> None:
    watched = Pulse()
    watched.beat()
    assert waited(watched, clock, 19) is None
    error = waited(watched, clock, 3)
    assert isinstance(error, VideoloadError)
    assert "the thread that brings them stands still" in str(error)
    watched.beat()
    assert waited(watched, clock, 19) is None, "it goes on"


def test_a_thread_that_beats_may_bring_nothing_for_long(clock: Clock) -> None:
    watched = Pulse()
    for _ in range(60):
        watched.beat()
        assert waited(watched, clock, 1) is None


def test_the_main_thread_is_never_waited_for(clock: Clock) -> None:
    watched = Pulse()
    for _ in range(200):
        clock.now += 0.2
        watched.check()


@pytest.mark.parametrize("checked", [False, True])
def test_a_process_that_was_stopped_for_an_hour_is_not_held_up(checked: bool, clock: Clock) -> None:
    watched = Pulse()
    if checked:
        assert waited(watched, clock, 1) is None
    clock.now += 3600
    assert waited(watched, clock, 10) is None
