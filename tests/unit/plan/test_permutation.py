"""A permutation by random access is one to one, and looks random."""

from collections import Counter

import pytest

from tests.support.chances import chi_square
from videoload.plan.permutation import Permutation, hash64


@pytest.mark.parametrize("seed", [b"key", b"\0" * 8])
def test_a_permutation_is_one_to_one_for_every_small_size(seed: bytes) -> None:
    for size in range(1, 301):
        permutation = Permutation(size, seed)
        assert sorted(permutation[at] for at in range(size)) == list(range(size)), size


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


def test_a_permutation_never_changes() -> None:
    permutation = Permutation(10, b"key")
    assert [permutation[at] for at in range(10)] == [5, 3, 1, 6, 2, 0, 4, 9, 8, 7]


def test_a_hash_never_changes_and_depends_on_where_its_parts_end() -> None:
    assert hash64(7, "order", 0) == 18042727324854650925
    assert hash64(7, "order", 1) != hash64(7, "order", 0) != hash64(70, "order")
