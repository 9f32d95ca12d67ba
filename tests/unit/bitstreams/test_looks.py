"""Which packets of a large file are looked at, and when that proves something for all."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from videoload.bitstreams.looks import extend, pick
from videoload.bitstreams.pictures import INTER, INTRA, Ints, Pictures, by_types

PACKETS = 5000


def flags(every: int = 12) -> npt.NDArray[np.bool_]:
    return np.array([i % every == 0 for i in range(PACKETS)])


def sizes() -> Ints:
    return np.random.default_rng(0).integers(1000, 3000, PACKETS)


def chosen(keys: npt.NDArray[np.bool_], of: Ints) -> Ints:
    looked = pick(keys, of)
    assert looked is not None
    return looked


def test_few_packets_of_each_kind_are_looked_at() -> None:
    keys = flags()
    looked = chosen(keys, sizes())
    assert len(looked) < 160
    assert keys[looked].sum() >= 64
    assert (np.diff(looked) > 0).all()
    assert {0, 15, PACKETS - 1} <= set(looked.tolist())


def test_all_small_packets_are_looked_at() -> None:
    of = sizes()
    small = [77, 78, 1234, PACKETS - 1]
    of[small] = 9
    assert set(small) <= set(chosen(flags(), of).tolist())


def test_one_key_frame_is_enough() -> None:
    assert 0 in chosen(np.arange(PACKETS) == 0, sizes())
    assert len(chosen(np.full(PACKETS, True), sizes())) < 100


@pytest.mark.parametrize("small", [2000, PACKETS])
def test_everything_is_looked_at_if_too_much_is_small(small: int) -> None:
    of = sizes()
    of[:small] = 20
    assert pick(flags(), of) is None


def test_everything_is_looked_at_if_there_is_no_key_frame() -> None:
    assert pick(np.full(PACKETS, False), sizes()) is None


def test_what_some_packets_prove_holds_for_all_if_it_confirms_the_flags() -> None:
    keys = flags()
    looked = chosen(keys, sizes())
    right = by_types(np.where(keys[looked], INTRA, INTER))
    assert right is not None
    whole = extend(right, looked, keys)
    assert whole is not None
    assert (whole.frames, whole.ordinals) == (PACKETS, None)
    assert whole.starts.tolist() == np.flatnonzero(keys).tolist()
    assert extend(None, looked, keys) is None
    other = keys.copy()
    other[5] = True
    assert extend(by_types(np.where(other[looked], INTRA, INTER)), looked, keys) is None
    ordered = Pictures(len(looked), np.flatnonzero(keys[looked]), np.arange(len(looked)))
    assert extend(ordered, looked, keys) is None
