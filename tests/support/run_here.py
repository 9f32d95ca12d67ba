"""Runs a command that only prints in the process of the test, which starts no other for it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

import pytest

from videoload.__main__ import main

RunHere = Callable[..., tuple[object, str, str]]


def runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunHere:
    """A function that takes the words behind ``videoload``, and returns status, stdout, stderr."""

    def run(*arguments: object) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["videoload", *map(str, arguments)])
        monkeypatch.setattr(logging.root, "handlers", [])  # the command sets its own
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    return run
