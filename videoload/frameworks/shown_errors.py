"""What a person sees of an error that comes out of ``fit`` and that nobody catches.

Keras and TensorFlow put a hundred lines around an error of a stream, and around Ctrl-C. What is
shown instead are the person's own lines, and our sentence. Code that catches the error gets what
Keras and TensorFlow raise.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable
from traceback import walk_tb
from types import TracebackType
from typing import Any

from videoload.engine.readers import Readers

_LIBRARIES = ("keras", "tensorflow", "videoload")
_CTRL_C = "videoload.frameworks.interrupts"

Shown = tuple[type[BaseException], BaseException, TracebackType | None]

_is_on = False


def show_own_errors(readers: Iterable[Readers]) -> None:
    """From now on, show the errors of these ``readers`` (those of any later moment) and Ctrl-C in
    few lines, in a notebook and at the end of a program."""
    global _is_on  # noqa: PLW0603 - there is one way that a process shows its errors
    if _is_on:
        return
    _is_on = True
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        before(*(shown(error, at, readers) or (kind, error, at)))

    sys.excepthook = hook
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is not None and not shell.custom_exceptions:

        def cell(shell: Any, kind: Any, error: Any, at: Any, tb_offset: int | None = None) -> None:
            shell.showtraceback(shown(error, at, readers) or (kind, error, at), tb_offset=tb_offset)

        shell.set_custom_exc((Exception, KeyboardInterrupt), cell)


def shown(
    error: BaseException, at: TracebackType | None, readers: Iterable[Readers]
) -> Shown | None:
    """The error to show, with the lines that led into a library; None: as it is."""
    if isinstance(error, KeyboardInterrupt):
        ours: BaseException | None = error if _was_raised_by_ctrl_c(at) else None
    elif type(error).__module__.startswith("tensorflow"):
        found = (each.error for each in list(readers))
        ours = next((one for one in found if one is not None and str(one) in str(error)), None)
    else:
        return None
    own = _own_lines(at)
    if ours is None or own is None:
        return None
    ours = copy.copy(ours)  # the reader's own one would keep the frames
    ours.__context__, ours.__traceback__ = None, own
    return type(ours), ours, own


def _was_raised_by_ctrl_c(at: TracebackType | None) -> bool:
    modules = [frame.f_globals.get("__name__") for frame, _ in walk_tb(at)]
    return modules[-1:] == [_CTRL_C]


def _own_lines(at: TracebackType | None) -> TracebackType | None:
    """The frames before the first one of a library."""
    if at is None or str(at.tb_frame.f_globals.get("__name__")).partition(".")[0] in _LIBRARIES:
        return None
    return TracebackType(_own_lines(at.tb_next), at.tb_frame, at.tb_lasti, at.tb_lineno)
