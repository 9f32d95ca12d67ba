"""What is shown of an error that nobody catches: the person's own lines, and our sentence."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from videoload.errors import TooManyBadVideos, VideoloadError
from videoload.frameworks import shown_errors

OURS = VideoloadError("4 of 12 videos could not be decoded")
READERS: Any = [SimpleNamespace(error=None), SimpleNamespace(error=OURS)]


class UnknownError(Exception):
    """As TensorFlow's, with the text of ours and pages around it."""

    __module__ = "tensorflow.python.framework.errors_impl"


def fit_of(module: str, error: BaseException) -> Callable[[], None]:
    """A function of a library that raises."""
    names: dict[str, Any] = {"__name__": module, "error": error}
    exec("def inner():\n    raise error\ndef fit():\n    inner()", names)
    found: Callable[[], None] = names["fit"]
    return found


def shown_after(call: Callable[[], None]) -> str:
    try:
        call()
    except BaseException as error:
        found = shown_errors.shown(error, error.__traceback__, READERS)
    return "" if found is None else "".join(traceback.format_exception(*found))


def test_an_error_of_a_stream_is_shown_without_the_pages_around_it() -> None:
    said = shown_after(fit_of("keras.trainer", UnknownError(f"Graph error:\n{OURS}\n[[PyFunc]]")))
    assert said.count("File ") == 1, "the line here that called"
    assert said.splitlines()[-1] == f"videoload.errors.VideoloadError: {OURS}"


def test_an_error_that_is_not_ours_is_shown_as_it_is() -> None:
    assert not shown_after(fit_of("keras.trainer", UnknownError("out of memory")))
    assert not shown_after(fit_of("keras.trainer", ValueError(str(OURS))))


def test_ctrl_c_in_fit_is_shown_by_the_line_that_called_fit() -> None:
    ours = fit_of("videoload.frameworks.interrupts", KeyboardInterrupt())
    said = shown_after(fit_of("mine", KeyboardInterrupt()))
    assert not said, "it was raised elsewhere"
    names: dict[str, Any] = {"__name__": "keras.trainer", "ours": ours}
    exec("def fit():\n    ours()", names)
    said = shown_after(names["fit"])
    assert said.count("File ") == 1
    assert said.splitlines()[-1] == "KeyboardInterrupt"


def test_a_program_and_a_notebook_show_errors_so(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    handlers: list[Any] = []
    shell = SimpleNamespace(
        custom_exceptions=(),
        set_custom_exc=lambda kinds, handler: handlers.append(handler),
        showtraceback=lambda what, tb_offset: shown.append(what[0]),
    )
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(sys, "excepthook", lambda *what: shown.append(what[0]))
    monkeypatch.setattr(shown_errors, "_is_on", False)
    error = TooManyBadVideos([], 3, 12)
    readers: Any = [SimpleNamespace(error=error)]
    shown_errors.show_own_errors(readers)
    shown_errors.show_own_errors(readers)
    for raised in (UnknownError(str(error)), ValueError("theirs")):
        try:
            fit_of("keras.trainer", raised)()
        except Exception as caught:
            sys.excepthook(type(caught), caught, caught.__traceback__)
            handlers[0](shell, type(caught), caught, caught.__traceback__, tb_offset=1)
    assert shown == [TooManyBadVideos, TooManyBadVideos, ValueError, ValueError]
    assert len(handlers) == 1
