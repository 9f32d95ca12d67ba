"""Chooses which of many cases are quick tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def rest_slow(cases: Iterable[Any], quick: int = 1) -> list[Any]:
    """The arguments of a parametrized test. The quick tests run the first ``quick`` cases; the
    others repeat the same for more cases."""
    return [
        case
        if number < quick
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for number, case in enumerate(cases)
    ]
