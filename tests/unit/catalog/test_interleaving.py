"""Turns of several parts: shares hold in every stretch, with random access."""

import itertools
from collections import Counter
from math import factorial

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.thorough import either
from videoload.catalog.interleaving import Interleaving, weights

patient = settings(deadline=None, max_examples=either(30, 80))
WEIGHTS = st.lists(st.integers(1, 30), min_size=1, max_size=6)
KEYS = st.none() | st.binary(min_size=1, max_size=8)


@patient
@given(WEIGHTS, KEYS, st.integers(0, 300), st.integers(0, 400))
def test_shares_hold_in_every_stretch(
    parts: list[int], key: bytes | None, first: int, length: int
) -> None:
    order = Interleaving(parts, key)
    seen = Counter(order[i][0] for i in range(first, first + length))
    for part, weight in enumerate(parts):
        share = weight / sum(parts)
        assert abs(seen[part] - share * length) <= 2 + 2 * len(parts) * share


@patient
@given(WEIGHTS, KEYS)
def test_each_part_has_its_places_in_each_block_and_counts_its_turns_without_a_gap(
    parts: list[int], key: bytes | None
) -> None:
    order, size = Interleaving(parts, key), sum(parts)
    seen: dict[int, list[int]] = {}
    for i in range(3 * size):
        part, nth = order[i]
        seen.setdefault(part, []).append(nth)
        if i % size == size - 1:
            blocks = i // size + 1
            assert seen == {part: [*range(n * blocks)] for part, n in enumerate(parts)}
    again = Interleaving(parts, key)
    assert [order[i] for i in (5, 0, 10**12, 5)] == [again[i] for i in (5, 0, 10**12, 5)]


def test_parts_of_one_weight_come_in_every_order_equally_often() -> None:
    order = Interleaving([1, 1, 1], b"key")
    blocks = 3000
    seen = Counter(tuple(order[3 * b + i][0] for i in range(3)) for b in range(blocks))
    assert set(seen) == set(itertools.permutations(range(3)))
    expected = blocks / factorial(3)
    chi_square = sum((n - expected) ** 2 / expected for n in seen.values())
    assert chi_square < 20.5, "5 degrees of freedom, one in a thousand"


def test_nothing_is_random_without_a_key() -> None:
    assert [Interleaving([2, 1], None)[i] for i in range(6)] == [
        (0, 0), (1, 0), (0, 1), (0, 2), (1, 1), (0, 3),
    ]  # fmt: skip


def test_the_turns_are_the_same_in_every_release() -> None:
    order = Interleaving([3, 2], b"seed")
    assert "".join(str(order[i][0]) for i in range(20)) == "10010100010110010010"


def test_a_block_has_the_fewest_places_for_exact_shares() -> None:
    for shares, expected in (
        ([0.7, 0.3], [7, 3]), ([1 / 3, 2 / 3], [1, 2]), ([1, 1, 1], [1, 1, 1]),
        ([0.125, 0.5, 0.375], [1, 4, 3]), ([5], [1]),
    ):  # fmt: skip
        assert weights(shares) == expected


@patient
@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=6))
def test_shares_are_right_to_a_ten_thousandth(shares: list[float]) -> None:
    total = sum(shares)
    if min(shares) / total < 1e-4:
        return
    found = weights(shares)
    for share, n in zip(shares, found, strict=True):
        assert abs(n / sum(found) - share / total) < 5e-4
