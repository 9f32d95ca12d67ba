"""What VP9 headers prove."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bitstreams import packets, superframe, vp9
from videoload.bitstreams.pictures import Pictures
from videoload.bitstreams.proofs import prove

KEY, INTER, HIDDEN, AGAIN = vp9(key=True), vp9(), vp9(shown=False), vp9(again=True)


def proven(*data: bytes) -> Pictures | None:
    return prove(packets("vp9", data))


@pytest.mark.parametrize("profile", range(4))
def test_decoding_begins_at_key_frames_that_are_shown(profile: int) -> None:
    key, inter = vp9(key=True, profile=profile), vp9(profile=profile)
    pictures = proven(key, inter, superframe(vp9(shown=False, profile=profile), inter), key)
    assert pictures is not None
    assert (pictures.frames, pictures.starts.tolist()) == (4, [0, 3])
    assert pictures.ordinals is None


def test_a_hidden_key_frame_is_no_place_to_begin() -> None:
    pictures = proven(KEY, superframe(vp9(key=True, shown=False), INTER), superframe(HIDDEN, KEY))
    assert pictures is not None
    assert pictures.starts.tolist() == [0]


def test_a_packet_may_show_nothing_or_a_frame_once_more() -> None:
    pictures = proven(KEY, HIDDEN, superframe(HIDDEN, INTER), AGAIN)
    assert pictures is not None
    assert pictures.ordinals is not None
    assert pictures.ordinals.tolist() == [0, -1, 1, 2]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param([INTER, KEY], id="begins in the middle"),
        pytest.param([KEY, superframe(INTER, INTER)], id="shows two"),
        pytest.param([KEY, superframe(INTER, AGAIN)], id="shows two, one of them again"),
        pytest.param([vp9(key=True, width=66)], id="another size"),
        pytest.param([KEY, b"\x40" + INTER], id="no frame"),
        pytest.param([KEY, INTER + b"\xc8\xff\xff\xc8"], id="a wrong index"),
    ],
)
def test_a_doubt_is_no_proof(data: list[bytes]) -> None:
    assert proven(*data) is None


@given(st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=6))
def test_garbage_raises_nothing(data: list[bytes]) -> None:
    proven(*data)
    proven(KEY, *data)
