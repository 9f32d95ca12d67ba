"""Ctrl-C is noted when it comes, wherever the main thread is, and ends the wait for a batch."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.waiting import SECOND, wait_until
from videoload.frameworks import interrupts


@pytest.fixture(autouse=True)
def _as_at_the_start(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As before the first call of `listen`."""
    monkeypatch.setattr(interrupts, "_pipe", None)
    monkeypatch.setattr(interrupts, "_behind", -1)
    monkeypatch.setattr(interrupts, "_came", float("-inf"))
    monkeypatch.setattr(interrupts, "_handled", float("-inf"))
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
            thread.join(5 * SECOND)
        os.close(interrupts._pipe[0])


def press_ctrl_c() -> None:
    """Press Ctrl-C, and wait until it is noted."""
    noted = interrupts._came
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    wait_until(lambda: interrupts._came > noted or interrupts._pipe is None, 5 * SECOND)


def test_a_wait_ends_if_ctrl_c_came_since_it_began() -> None:
    interrupts.listen()
    before = time.monotonic()
    assert not interrupts.is_due(before, before)
    press_ctrl_c()
    assert interrupts.is_due(before, before)
    assert interrupts.is_due(before, before), "other threads that wait give up as well"
    after = time.monotonic()
    assert not interrupts.is_due(after, after)


def test_it_is_listened_again_in_each_cell_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    # ipykernel sets Python's handler before each cell, and then calls what is registered.
    before_each_cell: list[Callable[[object], None]] = []
    events = SimpleNamespace(register=lambda event, call: before_each_cell.append(call))
    shell = SimpleNamespace(events=events)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    for _ in range(3):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for call in before_each_cell:
            call("the cell")
        interrupts.listen()
        assert signal.getsignal(signal.SIGINT) is interrupts._on_ctrl_c
        assert len(before_each_cell) == 1
    signal.signal(signal.SIGINT, signal.default_int_handler)
    before_each_cell[0]("a cell that makes no dataset")
    assert signal.getsignal(signal.SIGINT) is interrupts._on_ctrl_c

    class Batch:
        """In a cycle, as the frames of an exception are."""

    batch: Any = Batch()
    batch.itself, held = batch, weakref.ref(batch)
    del batch
    press_ctrl_c()
    before_each_cell[0]("the cell after an interrupt")
    assert held() is None


def test_a_ctrl_c_counts_from_when_it_came_even_if_it_is_looked_at_late() -> None:
    # In a notebook, it may have interrupted another cell, while nothing waited for a batch.
    interrupts.listen()
    press_ctrl_c()
    began = time.monotonic()
    looked = threading.Event()
    found: list[bool] = []

    def wait() -> None:
        found.append(interrupts.is_due(began, began))
        looked.set()

    threading.Thread(target=wait).start()
    assert looked.wait(5 * SECOND)
    assert found == [False]


def test_a_wait_that_begins_just_after_ctrl_c_ends_as_well() -> None:
    # The main thread has raised KeyboardInterrupt and waits in a destructor for all readers.
    interrupts.listen()
    began = time.monotonic()
    press_ctrl_c()
    now = time.monotonic()
    assert interrupts.is_due(began, now)
    assert not interrupts.is_due(began, now + 60), "a wait much later does not end"


def test_an_iteration_that_began_before_the_interrupt_was_raised_ends_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Ctrl-C came while TensorFlow made an iterator, which begins and is then destroyed.
    interrupts.listen()
    now = time.monotonic()
    monkeypatch.setattr(interrupts, "_came", now - 1)
    monkeypatch.setattr(interrupts, "_handled", now - 30)  # An earlier Ctrl-C.
    assert interrupts.is_due(now - 0.9, now - 0.9)
    monkeypatch.setattr(interrupts, "_handled", now - 0.8)
    assert interrupts.is_due(now - 0.9, now - 0.9)
    assert not interrupts.is_due(now - 0.7, now - 0.7), "this is the next iteration"


def test_a_batch_that_comes_soon_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "_GRACE_S", 60.0)
    interrupts.listen()
    before = time.monotonic()
    press_ctrl_c()
    assert not interrupts.is_due(before, before)


def test_a_users_own_handler_may_mean_something_else() -> None:
    came = threading.Event()
    for at_first in (True, False):
        if at_first:
            signal.signal(signal.SIGINT, lambda *_: came.set())
        interrupts.listen()
        if at_first:
            assert signal.getsignal(signal.SIGINT) is not interrupts._on_ctrl_c, "it stays"
        signal.signal(signal.SIGINT, lambda *_: came.set())
        before = time.monotonic()
        came.clear()
        signal.raise_signal(signal.SIGINT)
        wait_until(lambda: interrupts._came > before, 5 * SECOND)  # noqa: B023
        assert came.is_set()
        assert not interrupts.is_due(before, before)


def test_another_signal_does_not_count_as_ctrl_c() -> None:
    told: list[int] = []
    interrupts.listen()
    interrupts.on_signal(told.append)
    before = time.monotonic()
    handler = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        signal.raise_signal(signal.SIGUSR1)
        wait_until(lambda: told == [signal.SIGUSR1], 5 * SECOND)
    finally:
        signal.signal(signal.SIGUSR1, handler)
        interrupts.on_signal(None)
    assert not interrupts.is_due(before, before)


@pytest.mark.no_cover  # A tracer is left alone.
@pytest.mark.parametrize("file", ["framework/errors_impl.py", "tensorflow/python/eager/core.py"])
def test_in_the_init_of_a_tensorflow_error_it_is_raised_only_after_it(file: str) -> None:
    # C++ would find it in the place of its own exception and raise a RuntimeError.
    source = """
class Error(Exception):
    def __init__(self, press):
        press()
        self.made = sum(range(3))
"""
    names: dict[str, type] = {}
    exec(compile(source, f"/anywhere/{file}", "exec"), names)
    interrupts.listen()

    def make() -> None:
        names["Error"](lambda: signal.raise_signal(signal.SIGINT))
        for _ in range(1000):
            pass

    with pytest.raises(KeyboardInterrupt) as caught:
        make()
    made = [entry.name for entry in caught.traceback]
    assert "__init__" not in made


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
        theirs.settimeout(5 * SECOND)
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


@pytest.mark.no_cover
def test_in_a_function_that_tensorflow_calls_it_is_raised_only_after_it() -> None:
    # It would become an error of the dataset, or leave a lock taken.
    names: dict[str, Callable[[Callable[[], None]], None]] = {}
    source = "def call(function):\n    function()\n    function()\n"
    exec(compile(source, "/anywhere/ops/script_ops.py", "exec"), names)
    interrupts.listen()
    steps: list[str] = []

    def note() -> None:
        if not steps:
            signal.raise_signal(signal.SIGINT)
        steps.append("noted")

    def wait_for_batch() -> None:
        names["call"](note)
        steps.append("went on")

    with pytest.raises(KeyboardInterrupt):
        wait_for_batch()
    assert steps == ["noted", "noted"]


@pytest.mark.no_cover
def test_where_keras_would_swallow_it_it_is_raised_only_after_it() -> None:
    names: dict[str, Callable[[Callable[[], None]], None]] = {}
    source = "def pythonify_logs(value):\n    try:\n        value()\n    except:\n        pass\n"
    exec(compile(source, "/anywhere/utils/python_utils.py", "exec"), names)
    interrupts.listen()
    steps: list[str] = []

    def value() -> None:
        signal.raise_signal(signal.SIGINT)
        steps.append("is a number")

    def fit() -> None:
        names["pythonify_logs"](value)
        steps.append("went on")

    with pytest.raises(KeyboardInterrupt):
        fit()
    assert steps == ["is a number"]


class Finalized:
    """Calls ``at_end`` when it is freed, in one of Python's ways."""

    weak: weakref.ref[Finalized]  # It outlives the object.

    def __init__(self, how: str, at_end: Callable[[], None]) -> None:
        self._at_end = at_end if how == "__del__" else lambda: None
        if how == "finalize":
            weakref.finalize(self, at_end)
        elif how == "a weak dictionary":
            names: dict[str, Any] = {"at_end": at_end}
            source = "def remove(key):\n    at_end()\n"
            exec(compile(source, weakref.__file__, "exec"), names)
            Finalized.weak = weakref.ref(self, names["remove"])

    def __del__(self) -> None:
        self._at_end()


@pytest.mark.no_cover
@pytest.mark.parametrize("how", ["finalize", "__del__", "a weak dictionary"])
@pytest.mark.parametrize("where", ["in the midst", "as its owner returns"])
def test_a_ctrl_c_during_a_finalizer_is_not_lost(how: str, where: str) -> None:
    # Python only prints what a finalizer raises. pytest makes an error of that warning.
    interrupts.listen()
    steps = []

    def at_end() -> None:
        signal.raise_signal(signal.SIGINT)
        steps.append("finalized")

    def owner() -> None:
        owned = Finalized(how, at_end)
        if where == "in the midst":
            del owned
            steps.append("went on")

    def main() -> None:
        owner()
        steps.append("went on")

    with pytest.raises(KeyboardInterrupt):
        main()
    assert steps == ["finalized"], "the finalizer ran to its end, and nothing after it"
    assert sys.gettrace() is None
    steps.append("went on")
    assert steps == ["finalized", "went on"], "no frame is traced any more"


# Code that loses it and that nobody knows


def fit_of(library: str) -> Callable[[Callable[[], None], int], None]:
    """A function of a library that calls its first argument again and again, and forgets as many
    errors of it as the second one says."""
    source = """
def fit(step, losses):
    while True:
        try:
            step()
        except BaseException:
            if not losses:
                raise
            losses -= 1
"""
    names: dict[str, Any] = {"__name__": library}
    exec(source, names)
    fit: Callable[[Callable[[], None], int], None] = names["fit"]
    return fit


@pytest.mark.no_cover
def test_a_ctrl_c_that_a_call_of_keras_loses_is_raised_again_until_the_call_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interrupts, "_AFTERMATH_S", 0.05)
    interrupts.listen()
    presses = iter([signal.SIGINT])

    def step() -> None:
        for number in presses:
            signal.raise_signal(number)

    with pytest.raises(KeyboardInterrupt):
        fit_of("keras.src.trainer")(step, 3)
    wait_until(lambda: not interrupts._raise_again(), 5 * SECOND, "nothing is marked any more")


@pytest.mark.no_cover
def test_a_ctrl_c_that_is_caught_outside_of_the_call_is_not_raised_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interrupts, "_AFTERMATH_S", 0.05)
    interrupts.listen()
    fit = fit_of("keras.src.trainer")

    def press() -> None:
        signal.raise_signal(signal.SIGINT)

    def train_on() -> None:
        if not interrupts._raise_again():
            raise StopIteration

    for losses, library in ((0, fit), (1, fit_of("somebody"))):
        kept = []
        for step in (press, train_on):  # called from the same place
            try:
                library(step, losses if step is press else 0)
            except (KeyboardInterrupt, StopIteration) as error:
                kept.append(type(error))
        assert kept == [KeyboardInterrupt, StopIteration]
