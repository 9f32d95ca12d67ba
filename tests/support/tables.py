"""Lines that tests show to a person at the end of the run, from any process."""

from __future__ import annotations

from typing import Any

import pytest

_TOLD = pytest.StashKey[list[str]]()
_SENT = "videoload_told"


def tell(config: pytest.Config, text: str) -> None:
    """Print a line below the results."""
    config.stash.setdefault(_TOLD, []).append(text)


def told(config: pytest.Config) -> list[str]:
    """All lines to print."""
    return config.stash.get(_TOLD, [])


def send(config: pytest.Config) -> None:
    """One of several processes has run its last test: its lines go to the first process."""
    if hasattr(config, "workeroutput"):
        config.workeroutput[_SENT] = told(config)


def take(config: pytest.Config, node: Any) -> None:
    """Take the lines of one process; none if it crashed."""
    for text in getattr(node, "workeroutput", {}).get(_SENT, []):
        tell(config, text)
