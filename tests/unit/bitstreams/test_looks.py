"""Which packets of a long file are looked at, and what that is worth."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from videoload.bitstreams.looks import Looks, bear_out, pick
from videoload.bitstreams.pictures import INTER, INTRA, Pictures, by_types

PACKETS = 5000


def flags(every: int = 12) -> npt.NDArray[np.bool_]:
    return np.array([i % every == 0 for i in range(PACKETS)])


def sizes() -> npt.NDArray[np.int64]:
    return np.random.default_rng(0).integers(1000, 3000, PACKETS)


def chosen(keys: npt.NDArray[np.bool_], of: npt.NDArray[np.int64]) -> Looks:
    looks = pick(keys, of)
    assert looks is not None
    return looks


def test_few_packets_are_looked_at_and_each_other_is_like_one_of_its_kind() -> None:
    keys = flags()
    looked, like = chosen(keys, sizes())
    assert len(looked) < 160
    assert (like[looked] == np.arange(len(looked))).all()
    assert (keys[looked[like]] == keys).all()
    assert {0, 15, PACKETS - 1} <= set(looked.tolist())


def test_all_small_packets_are_looked_at_and_none_is_like_them() -> None:
    of = sizes()
    small = [77, 78, 1234, PACKETS - 1]
    of[small] = 9
    looked, like = chosen(flags(), of)
    assert set(small) <= set(looked.tolist())
    assert all((looked[like] == i).sum() == 1 for i in small)


def test_one_key_frame_is_enough() -> None:
    keys = np.arange(PACKETS) == 0
    looked, like = chosen(keys, sizes())
    assert (looked[like] == 0).sum() == 1
    assert len(chosen(np.full(PACKETS, True), sizes()).looked) < 100


@pytest.mark.parametrize("small", [2000, PACKETS])
def test_where_too_much_is_small_everything_is_looked_at(small: int) -> None:
    of = sizes()
    of[:small] = 20
    assert pick(flags(), of) is None


def test_without_a_key_frame_everything_is_looked_at() -> None:
    assert pick(np.full(PACKETS, False), sizes()) is None


def test_what_was_found_holds_where_it_bears_out_the_flags() -> None:
    keys = flags()
    right = by_types(np.where(keys, INTRA, INTER))
    assert bear_out(right, keys, used=True)
    other = keys.copy()
    other[0], other[5] = True, True
    assert not bear_out(by_types(np.where(other, INTRA, INTER)), keys, used=True)
    assert not bear_out(None, keys, used=True)
    ordered = Pictures(PACKETS, np.flatnonzero(keys), np.arange(PACKETS))
    assert not bear_out(ordered, keys, used=True)
    every = Pictures(PACKETS, np.arange(PACKETS))
    assert bear_out(every, keys, used=False)  # of a codec that needs no look
    assert not bear_out(every, keys, used=True)
