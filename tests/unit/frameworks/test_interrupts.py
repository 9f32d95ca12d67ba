"""Ctrl-C is noted when it comes, wherever the main thread is, and ends the wait for a batch."""

import asyncio
import math
import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.processes import ends_well
from tests.support.waiting import SECOND, wait_until
from videoload.frameworks.interrupts import Interrupts

NEVER = -math.inf


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    """Its thread and its two descriptors stay."""
    before = signal.set_wakeup_fd(-1)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield Interrupts(grace_s=0.0)
    signal.signal(signal.SIGINT, handler)
    signal.set_wakeup_fd(before)


def press_ctrl_c(interrupts: Interrupts) -> None:
    """Press Ctrl-C, and wait until it is noted."""
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    wait_until(lambda: interrupts.is_due(began, began), 30 * SECOND)


def raised(interrupts: Interrupts, number: signal.Signals) -> None:
    """Raise a signal that has a handler of the user's, and wait until it was seen."""
    told: list[int] = []
    interrupts.on_signal(told.append)
    signal.raise_signal(number)
    wait_until(lambda: told == [number], 30 * SECOND)


def test_a_wait_ends_if_ctrl_c_came_since_it_began(interrupts: Interrupts) -> None:
    interrupts.listen()
    before = time.monotonic()
    assert not interrupts.is_due(before, before)
    press_ctrl_c(interrupts)
    assert interrupts.is_due(before, before), "other threads that wait give up as well"
    after = time.monotonic()
    # In a notebook, it may have interrupted another cell, while nothing waited for a batch.
    assert not interrupts.is_due(after, after)
    found: list[bool] = []
    other = threading.Thread(target=lambda: found.append(interrupts.is_due(after, after)))
    other.start()
    other.join()
    assert found == [False], "also if another thread looks late"


def test_a_wait_that_begins_just_after_ctrl_c_ends_as_well(interrupts: Interrupts) -> None:
    # The main thread has raised KeyboardInterrupt and waits in a destructor for all readers.
    patient = Interrupts(grace_s=60.0)
    for each in (interrupts, patient):  # the first one gets what the second one passes on
        each.listen()
    began = time.monotonic()
    press_ctrl_c(interrupts)
    now = time.monotonic()
    assert interrupts.is_due(began, now)
    assert not interrupts.is_due(began, now + 60), "a wait much later does not end"
    assert not patient.is_due(began, now), "a batch that comes soon is waited for"


def test_a_users_own_handler_may_mean_something_else(interrupts: Interrupts) -> None:
    came = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: came.set())
    interrupts.listen()
    raised(interrupts, signal.SIGINT)
    assert came.is_set(), "it stays"
    assert not interrupts.is_due(NEVER, NEVER)


def test_another_signal_does_not_count_as_ctrl_c(interrupts: Interrupts) -> None:
    interrupts.listen()
    handler = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        raised(interrupts, signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, handler)
    assert not interrupts.is_due(NEVER, NEVER)


def test_signals_are_passed_on_to_an_earlier_wakeup_descriptor(interrupts: Interrupts) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        signal.set_wakeup_fd(ours.fileno())
        interrupts.listen()
        interrupts.listen()  # For the next dataset.
        press_ctrl_c(interrupts)
        theirs.settimeout(30 * SECOND)
        assert theirs.recv(1) == bytes([signal.SIGINT])


def test_an_event_loop_still_gets_its_signals(interrupts: Interrupts) -> None:
    async def main() -> None:
        told = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, told.set)
        interrupts.listen()
        signal.raise_signal(signal.SIGUSR1)
        await told.wait()

    asyncio.run(main())
    interrupts.listen()  # The loop is closed.
    press_ctrl_c(interrupts)


def test_listen_does_nothing_outside_of_the_main_thread(interrupts: Interrupts) -> None:
    listening = threading.Thread(target=interrupts.listen)
    listening.start()
    listening.join()
    assert signal.set_wakeup_fd(-1) == -1


def test_a_signal_of_a_forked_process_is_not_noted_in_its_parent(interrupts: Interrupts) -> None:
    interrupts.listen()
    told: list[int] = []
    handler = signal.signal(signal.SIGUSR1, lambda *_: None)

    def gets_one() -> bool:
        signal.raise_signal(signal.SIGUSR1)
        interrupts.listen()  # it may listen for itself
        interrupts.on_signal(told.append)
        signal.raise_signal(signal.SIGUSR1)
        wait_until(lambda: told == [signal.SIGUSR1], 30 * SECOND)
        return True

    interrupts.on_signal(told.append)
    assert ends_well(gets_one)
    signal.signal(signal.SIGUSR2, signal.signal(signal.SIGUSR1, handler))
    signal.raise_signal(signal.SIGUSR2)
    wait_until(lambda: bool(told), 30 * SECOND)
    assert told == [signal.SIGUSR2]
