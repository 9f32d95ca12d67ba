"""Buckets that pad least."""

from itertools import combinations, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoload.tools import bucket_search as padding
from videoload.tools.bucket_search import best_buckets, fewest_buckets


def padded(sizes: tuple[int, ...], lengths: list[int]) -> float:
    """What these buckets add to clips of these lengths, clip by clip."""
    added = sum(min(size for size in sizes if size >= length) - length for length in lengths)
    return added / sum(lengths)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12))
def test_no_other_buckets_pad_less(lengths: list[int]) -> None:
    for number, found in enumerate(best_buckets(lengths), 1):
        others = combinations({*lengths} - {max(lengths)}, number - 1)
        least = min(padded((*other, max(lengths)), lengths) for other in others)
        assert len(found.sizes) == number
        assert found.sizes == tuple(sorted({*found.sizes}))
        assert found.padding == padded(found.sizes, lengths) == least
    assert number == len({*lengths}), "one for each length is the end"


@given(st.lists(st.integers(1, 100), min_size=1, max_size=60))
def test_the_fewest_buckets_are_enough_and_one_less_is_not(lengths: list[int]) -> None:
    found = fewest_buckets(lengths)
    assert found.padding == padded(found.sizes, lengths) <= 0.1
    if len(found.sizes) > 1:
        less = next(islice(best_buckets(lengths), len(found.sizes) - 2, None))
        assert less.padding > 0.1


@given(st.lists(st.integers(1, 100), min_size=9, max_size=60, unique=True))
def test_of_many_lengths_some_are_tried(lengths: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(padding, "_TRIED", 8)
        *_, found = best_buckets(lengths)
    assert found.sizes[-1] == max(lengths)
    assert {*found.sizes} <= {*lengths}
    assert found.padding == padded(found.sizes, lengths)
    assert found.padding <= (max(lengths) / min(lengths)) ** (1 / 7) - 1
