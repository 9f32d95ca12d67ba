"""What MPEG-2 headers prove, on headers written bit by bit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bitstreams import mpeg2_picture, mpeg2_sequence, packets
from videoload.bitstreams.pictures import Pictures
from videoload.bitstreams.proofs import prove

GROUP = b"\0\0\1\xb8"
CUT = mpeg2_picture("P", 1).partition(b"\0\0\1\xb5")[0] + b"\0\0\1\xb5\x8f"


def proven(*data: bytes) -> Pictures | None:
    return prove(packets("mpeg2video", data))


def group(seconds: int, kinds: str) -> list[bytes]:
    """One that begins with a sequence header and a time code."""
    first, *others = [mpeg2_picture(kind, i) for i, kind in enumerate(kinds)]
    return [mpeg2_sequence() + GROUP + bytes((0, 8, seconds, 0x40)) + first, *others]


def test_b_pictures_are_shown_before_the_reference_that_they_follow() -> None:
    pictures = proven(*group(0, "IPBBP"), *group(1, "IBP"))
    assert pictures is not None
    assert pictures.ordinals is not None
    assert pictures.ordinals.tolist() == [0, 3, 1, 2, 4, 6, 5, 7]
    assert pictures.starts.tolist() == [0, 5]


def test_decoding_begins_where_a_sequence_header_stands() -> None:
    pictures = proven(*group(0, "IPIP"), *group(1, "IP"))
    assert pictures is not None
    assert (pictures.frames, pictures.starts.tolist()) == (6, [0, 4])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param([mpeg2_picture("I")], id="no sequence header"),
        pytest.param(group(0, "PI"), id="does not begin with a key frame"),
        pytest.param([*group(0, "I"), mpeg2_picture("P", 1, structure=1)], id="a field"),
        pytest.param([*group(0, "I"), CUT], id="a picture's extension is cut"),
        pytest.param([*group(0, "I"), mpeg2_picture("P") * 2], id="two pictures in a packet"),
        pytest.param([*group(0, "I"), b"\0\0\1\xb7"], id="a packet without a picture"),
        pytest.param(group(0, "IBP"), id="a B-picture of one reference"),
        pytest.param(
            [mpeg2_sequence(low_delay=True) + mpeg2_picture("I"), *group(0, "PPB")[1:]],
            id="B-pictures denied",
        ),
        pytest.param(
            [*group(0, "IP"), mpeg2_sequence(low_delay=True) + mpeg2_picture("I")],
            id="settings change",
        ),
    ],
)
def test_where_there_is_a_doubt_there_is_no_proof(data: list[bytes]) -> None:
    assert proven(*data) is None


@given(st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=6))
def test_garbage_raises_nothing(data: list[bytes]) -> None:
    proven(*data)
    proven(*group(0, "IPB"), *data)
