"""Buckets that pad least."""

from itertools import combinations, islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoload.clips.clip_spec import nearest_aspect
from videoload.plan import bucket_search as padding
from videoload.plan.bucket_search import best_buckets, fewest_buckets, fewest_sizes, warnings_of


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


@given(st.lists(st.tuples(*[st.integers(100, 2000)] * 2), min_size=1, max_size=30))
def test_sizes_cut_little_of_frames_away(shown: list[tuple[int, int]]) -> None:
    found = fewest_sizes(shown)
    wide = [(width, height) for height, width in found.sizes]
    times = [nearest_aspect(each, wide) for each in shown]
    kept = [min(w * b / (h * a), h * a / (w * b)) for (w, h), (a, b) in
            zip(shown, map(wide.__getitem__, times), strict=True)]  # fmt: skip
    assert len(found.sizes) == len({a / b for a, b in found.sizes})
    assert abs(1 - np.mean(kept) - found.cut) < 1e-6
    assert found.cut <= 0.05 or len(found.sizes) >= len({a / b for a, b in shown}) * 0.5
    assert found.of.shape == (len(shown),)


def test_buckets_that_pad_much_more_than_others_would_are_named() -> None:
    lengths = [10] * 90 + [40] * 10
    [told] = warnings_of(lengths, (16, 64))
    assert all(word in told for word in ("(16, 64)", "60%", "max_frames=40", "(10, 40)"))
    assert warnings_of(lengths, (10, 44)) == []
    assert warnings_of([10, 10], (8, 9, 10)) == []
