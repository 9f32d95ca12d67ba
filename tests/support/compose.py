"""Compose files, read as Compose does."""

from pathlib import Path
from typing import Any

import yaml


class _Loader(yaml.CSafeLoader):
    """Knows Compose's tag for a list that takes the place of another file's."""


def _sequence(loader: yaml.CSafeLoader, node: yaml.Node) -> list[Any]:
    assert isinstance(node, yaml.SequenceNode)
    return loader.construct_sequence(node)


_Loader.add_constructor("!override", _sequence)


def read_compose(*files: Path) -> dict[str, Any]:
    """A Compose file, with the settings of those that are added to it."""
    found: dict[str, Any] = {}
    for file in files:
        _add(found, yaml.load(file.read_text(), _Loader))
    return found


def _add(found: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(found.get(key), dict):
            _add(found[key], value)
        else:
            found[key] = value
