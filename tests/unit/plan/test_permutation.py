"""A permutation by random access is one to one, and looks random."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.chances import chi_square
from videoload.plan.permutation import Permutation, hash64

patient = settings(deadline=None, max_examples=100)


@pytest.mark.parametrize("seed", [b"key", b"\0" * 8])
def test_a_permutation_is_one_to_one_for_every_small_size(seed: bytes) -> None:
    for size in range(1, 301):
        permutation = Permutation(size, seed)
        assert sorted(permutation[at] for at in range(size)) == list(range(size)), size


@patient
@given(
    size=st.integers(1, 10**12),
    seed=st.binary(min_size=1, max_size=16),
    data=st.data(),
)
def test_no_two_places_of_a_large_permutation_have_the_same_value(
    size: int, seed: bytes, data: st.DataObject
) -> None:
    permutation = Permutation(size, seed)
    places = data.draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=50))
    values = {permutation[at] for at in places}
    assert len(values) == len(places)
    assert all(0 <= value < size for value in values)


@pytest.mark.parametrize("at", [-1, 10, 11])
def test_a_place_outside_of_a_permutation_is_an_index_error(at: int) -> None:
    with pytest.raises(IndexError, match=f"{at}"):
        Permutation(10, b"key")[at]


def test_each_place_gets_each_value_about_equally_often() -> None:
    size, keys = 20, 2000
    hits = Counter[tuple[int, int]]()
    for seed in range(keys):
        permutation = Permutation(size, seed.to_bytes(4, "little"))
        hits.update((at, permutation[at]) for at in range(size))
    # 361 degrees of freedom: mean 361, deviation 27
    assert 361 - 4 * 27 < chi_square(hits, size * size) < 361 + 4 * 27


def test_neighbours_do_not_stay_neighbours() -> None:
    size, keys = 30, 500
    together = 0
    for seed in range(keys):
        permutation = Permutation(size, seed.to_bytes(4, "little"))
        values = [permutation[at] for at in range(size)]
        together += sum(b - a == 1 for a, b in itertools.pairwise(values))
    # The mean is (size - 1) / size per permutation if all orders are equally likely.
    assert together / keys == pytest.approx((size - 1) / size, abs=0.2)


def test_a_permutation_never_changes() -> None:
    permutation = Permutation(10, b"key")
    assert [permutation[at] for at in range(10)] == [5, 3, 1, 6, 2, 0, 4, 9, 8, 7]


def test_a_hash_never_changes_and_depends_on_where_its_parts_end() -> None:
    assert hash64(7, "order", 0) == 18042727324854650925
    assert hash64(7, "order", 1) != hash64(7, "order", 0) != hash64(70, "order")
