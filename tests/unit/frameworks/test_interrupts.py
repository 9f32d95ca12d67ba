"""Ctrl-C is noted when it comes, wherever the main thread is, and ends the wait for a batch."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.waiting import SECOND, wait_until
from videoload.frameworks import interrupts


@pytest.fixture(autouse=True)
def _as_at_the_start(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As before the first call of `listen`."""
    monkeypatch.setattr(interrupts, "_pipe", None)
    monkeypatch.setattr(interrupts, "_behind", -1)
    monkeypatch.setattr(interrupts, "_came", float("-inf"))
    monkeypatch.setattr(interrupts, "_GRACE_S", 0.0)
    before = signal.set_wakeup_fd(-1)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    threads = {*threading.enumerate()}
    yield
    signal.signal(signal.SIGINT, handler)
    signal.set_wakeup_fd(before)
    if interrupts._pipe is not None:
        os.close(interrupts._pipe[1])  # This ends its thread.
        for thread in {*threading.enumerate()} - threads:
            thread.join(30 * SECOND)
        os.close(interrupts._pipe[0])


def press_ctrl_c() -> None:
    """Press Ctrl-C, and wait until it is noted."""
    noted = interrupts._came
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    wait_until(lambda: interrupts._came > noted or interrupts._pipe is None, 30 * SECOND)


def test_a_wait_ends_if_ctrl_c_came_since_it_began() -> None:
    interrupts.listen()
    before = time.monotonic()
    assert not interrupts.is_due(before, before)
    press_ctrl_c()
    assert interrupts.is_due(before, before)
    assert interrupts.is_due(before, before), "other threads that wait give up as well"
    after = time.monotonic()
    # In a notebook, it may have interrupted another cell, while nothing waited for a batch.
    assert not interrupts.is_due(after, after)
    found: list[bool] = []
    other = threading.Thread(target=lambda: found.append(interrupts.is_due(after, after)))
    other.start()
    other.join()
    assert found == [False], "also if another thread looks late"


def test_a_wait_that_begins_just_after_ctrl_c_ends_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The main thread has raised KeyboardInterrupt and waits in a destructor for all readers.
    interrupts.listen()
    began = time.monotonic()
    press_ctrl_c()
    now = time.monotonic()
    assert interrupts.is_due(began, now)
    assert not interrupts.is_due(began, now + 60), "a wait much later does not end"
    monkeypatch.setattr(interrupts, "_GRACE_S", 60.0)
    assert not interrupts.is_due(began, now), "a batch that comes soon is waited for"


def test_a_users_own_handler_may_mean_something_else() -> None:
    came = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: came.set())
    interrupts.listen()
    before = time.monotonic()
    signal.raise_signal(signal.SIGINT)
    wait_until(lambda: interrupts._came > before, 30 * SECOND)
    assert came.is_set(), "it stays"
    assert not interrupts.is_due(before, before)


def test_another_signal_does_not_count_as_ctrl_c() -> None:
    told: list[int] = []
    interrupts.listen()
    interrupts.on_signal(told.append)
    before = time.monotonic()
    handler = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        signal.raise_signal(signal.SIGUSR1)
        wait_until(lambda: told == [signal.SIGUSR1], 30 * SECOND)
    finally:
        signal.signal(signal.SIGUSR1, handler)
        interrupts.on_signal(None)
    assert not interrupts.is_due(before, before)


def test_signals_are_passed_on_to_an_earlier_wakeup_descriptor() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        signal.set_wakeup_fd(ours.fileno())
        interrupts.listen()
        interrupts.listen()  # For the next dataset.
        began = time.monotonic()
        press_ctrl_c()
        assert interrupts.is_due(began, began)
        theirs.settimeout(30 * SECOND)
        assert theirs.recv(1) == bytes([signal.SIGINT])


@pytest.mark.timeout(20 * SECOND)
def test_an_event_loop_still_gets_its_signals() -> None:
    async def main() -> None:
        told = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, told.set)
        interrupts.listen()
        signal.raise_signal(signal.SIGUSR1)
        await told.wait()

    asyncio.run(main())
    interrupts.listen()  # The loop is closed.
    assert interrupts._behind == -1
    press_ctrl_c()


def test_listen_does_nothing_outside_of_the_main_thread() -> None:
    listening = threading.Thread(target=interrupts.listen)
    listening.start()
    listening.join()
    assert interrupts._pipe is None
    assert not interrupts.is_due(float("-inf"), float("-inf")), "nothing is noted"
