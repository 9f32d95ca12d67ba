"""What the tests of a push try once, and those of a night as often as they can."""

import os
from collections.abc import Iterable
from itertools import combinations, product
from typing import Any

import pytest

THOROUGH = bool(os.environ.get("VIDEOLOAD_TEST_THOROUGH"))


def either(usual: int, thorough: int) -> int:
    """A count: ``usual``, or ``thorough`` if VIDEOLOAD_TEST_THOROUGH is set, as every night. The
    usual count still covers every case; the thorough one repeats them more often."""
    return thorough if THOROUGH else usual


def rest_nightly(cases: Iterable[Any], usual: int = 1) -> list[Any]:
    """The arguments of a parametrized test. A push runs the first ``usual`` cases; the others say
    the same of more cases, at night."""
    return [
        case
        if number < usual
        else pytest.param(
            *(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.nightly
        )
        for number, case in enumerate(cases)
    ]


def in_pairs(*options: Iterable[Any]) -> list[tuple[Any, ...]]:
    """So many combinations of the options' values that each two values of different options come
    together in one of them. All combinations if VIDEOLOAD_TEST_THOROUGH is set."""
    left = [(case, set(combinations(enumerate(map(repr, case)), 2))) for case in product(*options)]
    if THOROUGH:
        return [case for case, _ in left]
    chosen, seen = [], set[Any]()
    for new in range(len(left[0][1]), 0, -1):  # first the combinations that bring most new pairs
        for case, pairs in left:
            if len(pairs - seen) >= new:
                chosen.append(case)
                seen |= pairs
    return chosen
