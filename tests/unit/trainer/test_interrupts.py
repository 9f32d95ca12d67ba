"""Ctrl-C is noted at once, wherever the main thread is, and only where it will end it."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.waiting import SECOND, wait_until
from videoload.trainer import interrupts


@pytest.fixture(autouse=True)
def _as_at_the_start(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody has listened yet."""
    monkeypatch.setattr(interrupts, "_pair", None)
    monkeypatch.setattr(interrupts, "_last", float("-inf"))
    before = signal.set_wakeup_fd(-1)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)
    signal.set_wakeup_fd(before)
    for end in interrupts._pair or ():
        end.close()


def press_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_is_noted_once_it_came_and_not_for_what_began_later() -> None:
    interrupts.listen()
    before = time.monotonic()
    assert not interrupts.since(before)
    press_ctrl_c()
    assert interrupts.since(before)
    assert interrupts.since(before), "whoever else waits is told as well"
    assert not interrupts.since(time.monotonic())


def test_a_thread_that_waits_sees_it() -> None:
    interrupts.listen()
    before = time.monotonic()
    looking = threading.Thread(
        target=wait_until, args=(lambda: interrupts.since(before), 5 * SECOND)
    )
    looking.start()
    press_ctrl_c()
    looking.join()
    assert interrupts.since(before)


def test_a_handler_of_the_users_own_may_mean_something_else() -> None:
    interrupts.listen()
    before = time.monotonic()
    came = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: came.set())
    signal.raise_signal(signal.SIGINT)
    assert came.wait(5 * SECOND)
    assert not interrupts.since(before)


def test_another_signal_is_none() -> None:
    interrupts.listen()
    before = time.monotonic()
    came = threading.Event()
    handler = signal.signal(signal.SIGUSR1, lambda *_: came.set())
    try:
        signal.raise_signal(signal.SIGUSR1)
        assert came.wait(5 * SECOND)
    finally:
        signal.signal(signal.SIGUSR1, handler)
    assert not interrupts.since(before)


def test_the_descriptor_of_somebody_else_is_left_to_them() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        signal.set_wakeup_fd(ours.fileno())
        interrupts.listen()
        assert signal.set_wakeup_fd(-1) == ours.fileno()


def test_no_other_thread_may_listen() -> None:
    listening = threading.Thread(target=interrupts.listen)
    listening.start()
    listening.join()
    assert interrupts._pair is None
    assert not interrupts.since(float("-inf")), "and then nothing is noted"
