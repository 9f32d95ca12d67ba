"""The order of pictures by their types; bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bitstreams import BitWriter
from videoload.bitstreams.pictures import INTER, INTRA, NONE, B, Bits, are_settings_known, by_types

# A group of pictures as it is shown: each number is how many B-pictures stand before a reference.
groups = st.lists(
    st.lists(st.integers(0, 3), min_size=1, max_size=6).map(lambda g: [0, *g[1:]]),
    min_size=1,
    max_size=5,
)


@given(groups)
def test_b_pictures_are_shown_before_the_reference_that_they_follow(
    shown: list[list[int]],
) -> None:
    coded: list[tuple[int, int]] = []  # (type, the ordinal that it is shown at)
    at = 0
    for group in shown:
        for number, before in enumerate(group):
            coded.append((INTER if number else INTRA, at + before))
            coded += [(B, at + i) for i in range(before)]
            at += before + 1
    types = np.array([kind for kind, _ in coded])
    pictures = by_types(types)
    assert pictures is not None
    assert pictures.frames == at
    assert pictures.starts.tolist() == np.flatnonzero(types == INTRA).tolist()
    ordinals = range(at) if pictures.ordinals is None else pictures.ordinals.tolist()
    assert list(ordinals) == [ordinal for _, ordinal in coded]


@given(st.lists(st.sampled_from((INTRA, INTER, B, NONE)), min_size=1, max_size=40))
def test_every_frame_comes_from_one_packet_whatever_the_types(types: list[int]) -> None:
    pictures = by_types(np.array(types))
    if types[0] != INTRA:
        assert pictures is None
        return
    assert pictures is not None
    ordinals = range(len(types)) if pictures.ordinals is None else pictures.ordinals.tolist()
    assert sorted(o for o in ordinals if o >= 0) == list(range(pictures.frames))
    assert all(o < 0 for o, kind in zip(ordinals, types, strict=True) if kind == NONE)


def test_b_pictures_after_only_one_reference_are_not_shown() -> None:
    pictures = by_types(np.array([INTRA, B, B, INTER, B]))
    assert pictures is not None
    assert pictures.ordinals is not None
    assert pictures.ordinals.tolist() == [0, -1, -1, 2, 1]


@pytest.mark.parametrize(
    ("found", "told", "are_known"),
    [
        ({}, b"", True),
        ({0: b"a", 12: b"a"}, b"", True),
        ({0: b"a"}, b"a", True),  # the container told them
        ({0: b"a"}, b"", False),  # who begins at 12 would not know them
        ({0: b"a", 12: b"b"}, b"a", False),  # they change
        ({0: b"a", 5: b"a", 12: b"a"}, b"", True),
    ],
)
def test_settings_are_known_wherever_decoding_begins(
    found: dict[int, bytes], told: bytes, are_known: bool
) -> None:
    assert are_settings_known(found, told, [0, 12]) == are_known


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 1 << 20)), max_size=20))
def test_bits_are_read_as_they_were_written(written: list[tuple[int, int]]) -> None:
    writer = BitWriter()
    for count, value in written:
        writer.put(value % (1 << count), count).golomb(value)
    bits = Bits(writer.to_bytes())
    for count, value in written:
        assert bits.take(count) == value % (1 << count)
        assert bits.golomb() == value


def test_reading_beyond_the_last_bit_raises() -> None:
    bits = Bits(b"\0")
    assert bits.take(8) == 0
    with pytest.raises(EOFError):
        bits.take(1)
    with pytest.raises(EOFError):
        Bits(b"\0\0").golomb()
