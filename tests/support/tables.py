"""What tests want a person to see at the end of the run, whatever is captured and whichever
process ran them."""

from __future__ import annotations

from typing import Any

import pytest

_TOLD = pytest.StashKey[list[str]]()
_SENT = "videoload_told"


def tell(config: pytest.Config, text: str) -> None:
    """Have it printed below the results."""
    config.stash.setdefault(_TOLD, []).append(text)


def told(config: pytest.Config) -> list[str]:
    """All that was to be printed."""
    return config.stash.get(_TOLD, [])


def send(config: pytest.Config) -> None:
    """One of several processes has run its last test: what it was told goes to the first one."""
    if hasattr(config, "workeroutput"):
        config.workeroutput[_SENT] = told(config)


def take(config: pytest.Config, node: Any) -> None:
    """What one of them sent; nothing if it crashed."""
    for text in getattr(node, "workeroutput", {}).get(_SENT, []):
        tell(config, text)
