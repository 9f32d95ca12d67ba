"""What AV1 headers prove."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bitstreams import av1_frame, av1_sequence, av1_unit, packets
from videoload.bitstreams.pictures import Pictures
from videoload.bitstreams.proofs import prove

DELIMITER, SEQUENCE = av1_unit(2), av1_sequence()
KEY, INTER, HIDDEN = av1_frame(key=True), av1_frame(), av1_frame(shown=False)
AGAIN = av1_frame(again=True)
START = DELIMITER + SEQUENCE + KEY


def proven(*data: bytes) -> Pictures | None:
    return prove(packets("libdav1d", data))


@pytest.mark.parametrize("full", [False, True])
def test_decoding_begins_at_key_frames_behind_a_sequence_header(full: bool) -> None:
    start = av1_sequence(full=full) + KEY
    pictures = proven(start, DELIMITER + HIDDEN + INTER, AGAIN, KEY, start)
    assert pictures is not None
    assert (pictures.frames, pictures.starts.tolist()) == (5, [0, 4])
    assert pictures.ordinals is None


def test_a_packet_may_show_nothing() -> None:
    pictures = proven(START, HIDDEN, SEQUENCE + av1_frame(key=True, shown=False) + AGAIN)
    assert pictures is not None
    assert pictures.ordinals is not None
    assert pictures.ordinals.tolist() == [0, -1, 1]
    assert pictures.starts.tolist() == [0]


def test_the_last_unit_may_lack_its_length() -> None:
    without = bytes((6 << 3, 0x30)) + b"x" * 9
    assert proven(START, without) is not None


@pytest.mark.parametrize(
    "data",
    [
        pytest.param([INTER, START], id="begins in the middle"),
        pytest.param([KEY], id="no sequence header"),
        pytest.param([START, INTER + AGAIN], id="shows two"),
        pytest.param([START, av1_sequence(full=True) + KEY], id="another sequence"),
        pytest.param([av1_sequence(width=66) + KEY], id="another size"),
        pytest.param([av1_sequence(layers=0x103) + KEY], id="layers"),
        pytest.param([START, av1_unit(6, b"\x30", layer=True)], id="of a layer"),
        pytest.param([START, av1_unit(7, b"\x30")], id="a header once more"),
        pytest.param([START, INTER[:-1]], id="cut off"),
        pytest.param([START, av1_unit(6)], id="an empty frame"),
    ],
)
def test_a_doubt_is_no_proof(data: list[bytes]) -> None:
    assert proven(*data) is None


@given(st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=6))
def test_garbage_raises_nothing(data: list[bytes]) -> None:
    proven(*data)
    proven(START, *data)
    proven(*(SEQUENCE[:2] + each for each in data))
    proven(av1_unit(1, data[0]) + KEY)
