"""Chooses which of many cases are quick tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def rest_marked(cases: Iterable[Any], usual: int, mark: pytest.MarkDecorator) -> list[Any]:
    """The arguments of a parametrized test. All cases but the first ``usual`` ones are marked."""
    return [
        case
        if number < usual
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=mark)
        for number, case in enumerate(cases)
    ]


def rest_slow(cases: Iterable[Any], quick: int = 1) -> list[Any]:
    """The arguments of a parametrized test. The quick tests run the first ``quick`` cases; the
    others repeat the same for more cases."""
    return rest_marked(cases, quick, pytest.mark.slow)
