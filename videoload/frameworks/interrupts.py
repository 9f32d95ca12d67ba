"""Ctrl-C while the main thread is inside TensorFlow.

Python runs signal handlers in the main thread, between two of its instructions. While `fit` waits
in C++ for a batch there are none, so without a batch, Ctrl-C has no effect. But the C handler
writes the signal's number to a descriptor at once (`signal.set_wakeup_fd`). A thread reads it there
and notes the time. A thread that waits for a batch then gives up (`is_due`), TensorFlow returns to
Python, and the KeyboardInterrupt is raised there.

Three details:

  * A batch that comes soon is waited for. The main thread then returns to Python by itself, without
    an error that looks like any other.
  * Some code that calls Python lets no exception through, so a KeyboardInterrupt raised there is
    lost. If TensorFlow returns with an error, the first Python code is the ``__init__`` of its
    exception; pybind11 turns a KeyboardInterrupt there into a RuntimeError. In a finalizer (each of
    our batches has one) and in a callback of a weak dictionary (TensorFlow has many while it traces
    a model) it is printed and forgotten. In a function that a dataset calls, it becomes an error of
    the dataset. Keras has a bare ``except:`` around the numbers of a step, where a GPU is waited
    for. So `_on_ctrl_c` replaces Python's handler. It does the same, but from such code it raises
    only once that code has returned.
  * Not all such code is known. So the call of Keras or TensorFlow in which it is raised, as a
    `fit`, gets a mark. If that call still runs two seconds later, the KeyboardInterrupt was lost,
    and is raised again.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import threading
import time
from _thread import interrupt_main
from collections.abc import Callable
from contextlib import suppress
from itertools import dropwhile, takewhile
from traceback import walk_stack
from types import CodeType, FrameType
from typing import NoReturn

_GRACE_S = 0.5  # A batch that comes this soon after Ctrl-C is waited for.
# A thread that begins to wait this soon after Ctrl-C gives up, too. The main thread may have raised
# the KeyboardInterrupt and be in a destructor of TensorFlow that waits for all readers. A call that
# still runs this long after its KeyboardInterrupt was raised has lost it.
_AFTERMATH_S = 2.0
_SAME_S = 0.25  # The handler may run this long before the thread that notes the signal.

_pipe: tuple[int, int] | None = None  # Two descriptors, open as long as the process lives.
_behind = -1  # The wakeup descriptor that was set before.
_came = _handled = float("-inf")
_on_signal: Callable[[int], None] | None = None


def listen() -> None:
    """Note each Ctrl-C from now on. Outside of the main thread, this does nothing. A handler that
    the user set stays. Signals are passed on to a descriptor of other code, like asyncio's."""
    global _pipe, _behind  # noqa: PLW0603 - there is one main thread
    if threading.current_thread() is not threading.main_thread():
        return
    if _pipe is None:
        _listen_in_each_cell()
        reader, writer = _pipe = os.pipe()
        os.set_blocking(writer, False)
        threading.Thread(
            target=_note, args=(reader,), name="videoload-signals", daemon=True
        ).start()
    mine = _pipe[1]
    before = signal.set_wakeup_fd(mine, warn_on_full_buffer=False)
    if before != mine:
        _behind = before
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _on_ctrl_c)


def _listen_in_each_cell() -> None:
    """In a notebook, the kernel sets Python's handler again before each cell. So that a Ctrl-C in a
    later cell is a KeyboardInterrupt too, have `listen` called after that.

    The frames of an interrupted `fit` are a cycle that holds its last batch. After some Ctrl-C in
    one kernel, no slot would be left to lend, so what was interrupted is collected first.
    """
    ipython = sys.modules.get("IPython")
    if ipython is None or (shell := ipython.get_ipython()) is None:
        return
    collected = _came

    def before_a_cell(_: object) -> None:
        nonlocal collected
        listen()
        if _came > collected:
            collected = _came
            gc.collect()

    shell.events.register("pre_run_cell", before_a_cell)


def on_signal(call: Callable[[int], None] | None) -> None:
    """Have ``call`` made in another thread with the number of each signal that has a handler in
    Python. None ends this."""
    global _on_signal  # noqa: PLW0603
    _on_signal = call


def is_due(began: float, asked: float) -> bool:
    """Whether a thread is to give up that waits for a batch since ``asked``, in an iteration that
    ``began`` then (both of `time.monotonic`).

    It is, if Ctrl-C came since or just before, and if the handler raises KeyboardInterrupt: another
    handler may mean something else. An iteration that began after the KeyboardInterrupt was raised
    is not concerned.
    """
    if not asked - _AFTERMATH_S < _came < time.monotonic() - _GRACE_S:
        return False
    handler = signal.getsignal(signal.SIGINT)
    if handler is not _on_ctrl_c:
        return handler is signal.default_int_handler and began < _came
    return _came > _handled + _SAME_S or began < max(_came, _handled)


def _note(reader: int) -> None:
    global _came
    looks, poller = False, select.poll()
    poller.register(reader, select.POLLIN)
    while True:
        while looks and not poller.poll(_AFTERMATH_S * 1000):
            looks = _raise_again()
        if not (signals := os.read(reader, 4096)):
            return
        if signal.SIGINT in signals:
            _came, looks = time.monotonic(), True
        if _behind >= 0:
            with suppress(OSError):  # It is full, or closed.
                os.write(_behind, signals)
        if _on_signal is not None:
            for number in signals:
                _on_signal(number)


def _raise_again() -> bool:
    """Raise the KeyboardInterrupt again if it was lost. Returns whether to look once more."""
    if signal.getsignal(signal.SIGINT) is not _on_ctrl_c:
        return False
    if _came > _handled + _SAME_S or time.monotonic() < _handled + _AFTERMATH_S:
        return True  # It has not been raised yet, or only just.
    running = sys._current_frames().get(threading.main_thread().ident or 0)
    if is_lost := any(frame.f_trace is _interrupted for frame, _ in walk_stack(running)):
        interrupt_main()
    return is_lost


def _interrupted(*_: object) -> None:
    """The mark of a call that is interrupted: the trace function of its frame, which is not used as
    long as nothing traces. Nothing holds the frame, and no other call can have its mark."""


def _on_ctrl_c(number: int, frame: FrameType | None) -> None:
    """The handler of SIGINT."""
    frames = [caller for caller, _ in walk_stack(frame)]
    callers = _callers_of_what_loses_it(frames)
    if not callers or sys.gettrace() is not None:  # A debugger traces already.
        _raise(frames)

    def trace(*_: object) -> None:
        for caller in callers:
            caller.f_trace = None
        sys.settrace(None)
        _raise(frames)

    # Next, one of these frames continues, gets an error, or returns. The first one may have
    # returned already.
    for caller in callers:
        caller.f_trace = trace
    sys.settrace(lambda *_: None)


def _raise(frames: list[FrameType]) -> NoReturn:
    """Raise the KeyboardInterrupt, and mark the call of a library in which that is."""
    global _handled  # noqa: PLW0603
    _handled = time.monotonic()
    inside = dropwhile(lambda frame: not _is_of_a_library(frame), frames)
    calls = list(takewhile(_is_of_a_library, inside))
    if calls and sys.gettrace() is None:
        calls[-1].f_trace = _interrupted
    raise KeyboardInterrupt


def _is_of_a_library(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in ("keras", "tensorflow")


def _callers_of_what_loses_it(frames: list[FrameType]) -> list[FrameType]:
    """The frames outside of all code that lets no exception through. Empty if there is none."""
    lost = [at for at, frame in enumerate(frames) if _loses_exceptions(frame.f_code)]
    return frames[lost[-1] + 1 :] if lost else []


def calls_python(code: CodeType) -> bool:
    """Whether this is TensorFlow's code that calls a function of a dataset."""
    return code.co_filename.endswith("script_ops.py")


def _loses_exceptions(code: CodeType) -> bool:
    if calls_python(code):
        return True
    if code.co_name == "__init__":  # TensorFlow's errors.
        return code.co_filename.endswith(("errors_impl.py", "tensorflow/python/eager/core.py"))
    if code.co_name == "pythonify_logs":
        return code.co_filename.endswith("python_utils.py")  # Keras reads the numbers of a step.
    return code.co_name == "__del__" or code.co_filename.endswith(("/weakref.py", "_weakrefset.py"))
