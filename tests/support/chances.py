"""Whether what is drawn comes equally often."""

from collections import Counter
from typing import Any


def chi_square(counts: Counter[Any], kinds: int) -> float:
    """The distance from equal counts of ``kinds`` values, each of which came."""
    assert len(counts) == kinds
    expected = counts.total() / kinds
    return sum((count - expected) ** 2 / expected for count in counts.values())
