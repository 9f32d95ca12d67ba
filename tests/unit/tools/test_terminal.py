"""Every command has -v. Without it, only warnings are printed."""

import logging
from collections.abc import Iterator

import pytest

from videoload.tools import terminal


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    found = logging.getLogger("videoload")
    before = found.level
    yield found
    found.setLevel(before)


@pytest.mark.parametrize(
    ("times", "level"), [(0, logging.NOTSET), (1, logging.INFO), (2, logging.DEBUG)]
)
def test_each_v_prints_more(times: int, level: int, log: logging.Logger) -> None:
    terminal.tell(times)
    assert log.level == level


def test_a_bar_writes_nothing_where_there_is_no_terminal(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with terminal.progress_bar("decoding", 2) as advance:
        advance()
    assert capfd.readouterr().err == ""
