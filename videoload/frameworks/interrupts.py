"""Ctrl-C while the main thread is inside TensorFlow.

Python runs signal handlers in the main thread, between two of its own instructions. While `fit`
waits in C++ for a batch there are none, and if no batch comes, Ctrl-C never takes effect. But the C
handler writes the signal's number to a descriptor at once (`signal.set_wakeup_fd`). A thread reads
it there and notes when that was. So whoever waits for a batch can give up (`is_due`), TensorFlow
returns to Python, and there the KeyboardInterrupt is raised.

Two more things are in its way:

  * Where a batch comes soon, it is waited for: the main thread then returns to Python by itself,
    without an error that would have to be told from others.
  * Some of Python's instructions are called by code that lets no exception through, and a
    KeyboardInterrupt that is raised in there reaches nobody. When TensorFlow returns with an error,
    it makes the exception first, and its ``__init__`` is the first Python since Ctrl-C: pybind11
    finds the KeyboardInterrupt in the place of its own exception and raises a RuntimeError about
    that. In a finalizer, ours of each batch's array among them, it is printed and forgotten. In a
    function that a dataset calls, maybe in the main thread, it becomes an error of the dataset's.
    Keras turns each step's logs into numbers below an ``except:`` that passes over everything; on
    a GPU that is where it waits for the step, and `fit` would go on as if nothing had been.
    So `_on_ctrl_c` takes the place of Python's own handler, and is the same but for those few
    instructions: then it is raised as soon as they are through.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FrameType

_GRACE_S = 0.5  # a batch that comes within so long after Ctrl-C is waited for
# Whoever begins to wait within so long after it may keep the main thread waiting: that has raised
# the KeyboardInterrupt, and waits in a destructor of TensorFlow's for all who still read.
_AFTERMATH_S = 2.0
_SAME_S = 0.25  # the handler, in the main thread, may run before the thread that notes the signal

_pipe: tuple[int, int] | None = None  # its two descriptors; open as long as the process lives
_behind = -1  # the descriptor that was set before
_came = _handled = float("-inf")
_told: Callable[[int], None] | None = None


def listen() -> None:
    """Take note of Ctrl-C from now on. Does nothing outside of the main thread. A handler of the
    user's own stays, and a descriptor of other code's (asyncio) is told of all signals."""
    global _pipe, _behind  # noqa: PLW0603 - there is one main thread
    if threading.current_thread() is not threading.main_thread():
        return
    if _pipe is None:
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


def tell(told: Callable[[int], None] | None) -> None:
    """Have ``told`` called, in another thread, with the number of each signal that comes and that
    has a handler in Python; None: no more."""
    global _told  # noqa: PLW0603
    _told = told


def is_due(began: float, asked: float) -> bool:
    """Whether who waits for a batch since ``asked``, in an iteration that ``began`` (both of
    `time.monotonic`), is to give up: Ctrl-C came meanwhile, or just before it was asked for, and
    is to end what the main thread does; a handler of the user's own may mean something else by it.

    An iteration that began after the KeyboardInterrupt was raised is another one; one that began
    before that, but after Ctrl-C came, will be met by it."""
    if not asked - _AFTERMATH_S < _came < time.monotonic() - _GRACE_S:
        return False
    handler = signal.getsignal(signal.SIGINT)
    if handler is not _on_ctrl_c:
        return handler is signal.default_int_handler and began < _came
    return _came > _handled + _SAME_S or began < max(_came, _handled)


def _note(reader: int) -> None:
    global _came  # noqa: PLW0603
    while signals := os.read(reader, 4096):
        if signal.SIGINT in signals:
            _came = time.monotonic()
        if _behind >= 0:
            with suppress(OSError):  # it is full, or closed
                os.write(_behind, signals)
        if _told is not None:
            for number in signals:
                _told(number)


def _on_ctrl_c(number: int, frame: FrameType | None) -> None:
    """The handler of SIGINT, as Python's own."""
    global _handled  # noqa: PLW0603
    _handled = time.monotonic()
    callers = _callers_of_what_loses_it(frame)
    if not callers or sys.gettrace() is not None:  # a debugger's place is not taken
        raise KeyboardInterrupt

    def trace(*_: object) -> None:
        for caller in callers:
            caller.f_trace = None
        sys.settrace(None)
        raise KeyboardInterrupt

    # What happens next in one of them is that it goes on, that an error arrives, or that it
    # returns; the first may have returned already, and be about to lose its variables.
    for caller in callers:
        caller.f_trace = trace
    sys.settrace(lambda *_: None)


def _callers_of_what_loses_it(frame: FrameType | None) -> list[FrameType]:
    """The frames outside of all those, if there are any, from which no exception comes through."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    lost = [at for at, frame in enumerate(frames) if _loses_exceptions(frame.f_code)]
    return frames[lost[-1] + 1 :] if lost else []


def _loses_exceptions(code: CodeType) -> bool:
    if code.co_filename.endswith("script_ops.py"):  # TensorFlow's way into Python
        return True
    if code.co_name == "__init__":  # its errors
        return code.co_filename.endswith(("errors_impl.py", "tensorflow/python/eager/core.py"))
    if code.co_name == "pythonify_logs":
        return code.co_filename.endswith("python_utils.py")  # Keras's way out of a step
    return code.co_name == "__del__" or code is weakref.finalize.__call__.__code__
