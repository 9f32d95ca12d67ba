"""Blocks of a file."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from videoload.storage.blocks import runs


@given(st.sets(st.integers(0, 40)))
def test_runs_are_as_few_as_they_can_be(numbers: set[int]) -> None:
    found = runs(sorted(numbers))
    assert [number for run in found for number in run] == sorted(numbers)
    assert all(one.stop < other.start for one, other in pairwise(found))
