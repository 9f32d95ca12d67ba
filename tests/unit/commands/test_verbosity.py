"""Every command has -v. Without it, only warnings are printed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from videoload.commands import verbosity
from videoload.commands.cli import app

GROUP: Any = typer.main.get_command(app)


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    found = logging.getLogger("videoload")
    before = found.level
    yield found
    found.setLevel(before)


@pytest.mark.parametrize("command", GROUP.commands)
def test_every_command_has_the_option(command: str) -> None:
    (option,) = [p for p in GROUP.commands[command].params if "-v" in p.opts]
    assert "--verbose" in option.opts


@pytest.mark.parametrize(
    ("times", "level"), [(0, logging.NOTSET), (1, logging.INFO), (2, logging.DEBUG)]
)
def test_each_v_prints_more(times: int, level: int, log: logging.Logger) -> None:
    verbosity.tell(times)
    assert log.level == level


def test_a_bar_writes_nothing_where_there_is_no_terminal(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with verbosity.progress_bar("decoding", 2) as advance:
        advance()
    assert capfd.readouterr().err == ""
