"""What AV1 headers prove."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bitstreams import av1_again, av1_frame, av1_sequence, av1_unit, packets
from videoload.bitstreams.pictures import Pictures
from videoload.bitstreams.proofs import prove

DELIMITER, SEQUENCE = av1_unit(2), av1_sequence()
KEY = av1_frame(key=True)
START = DELIMITER + SEQUENCE + KEY


def proven(*data: bytes) -> Pictures | None:
    return prove(packets("libdav1d", data))


@pytest.mark.parametrize("full", [False, True])
def test_decoding_begins_at_key_frames_behind_a_sequence_header(full: bool) -> None:
    start = av1_sequence(full=full) + av1_frame(key=True, full=full)
    hidden = av1_frame(2, shown=False, replaces=1, full=full)
    second, third = hidden + av1_frame(1, full=full), av1_again()
    pictures = proven(start, DELIMITER + second, third, av1_frame(3, key=True, full=full), start)
    assert pictures is not None
    assert (pictures.frames, pictures.starts.tolist()) == (5, [0, 4])
    assert pictures.ordinals is None


def test_a_packet_may_show_nothing() -> None:
    hidden, key = av1_frame(1, shown=False, replaces=4), av1_frame(1, key=True, shown=False)
    pictures = proven(START, hidden, av1_again(2), SEQUENCE + key + av1_frame(2))
    assert pictures is not None
    assert pictures.ordinals is not None
    assert pictures.ordinals.tolist() == [0, -1, 1, 2]
    assert pictures.starts.tolist() == [0]


def test_nobody_refers_to_a_frame_that_no_slot_keeps() -> None:
    hidden, alone = av1_frame(2, shown=False, replaces=1), av1_frame(3, replaces=0)
    pictures = proven(START, hidden + av1_frame(1, replaces=0), av1_again(), DELIMITER + alone)
    assert pictures is not None
    assert pictures.unreferenced is not None
    assert pictures.unreferenced.tolist() == [0, 0, 0, 1], "a hidden one stands before the second"
    kept = proven(START, av1_frame(1, replaces=1))
    assert kept is not None
    assert kept.unreferenced is None


def test_the_last_unit_may_lack_its_length() -> None:
    frame = av1_frame(1)
    assert proven(START, bytes((frame[0] & ~2,)) + frame[2:]) is not None


def test_a_hint_that_is_left_out_is_a_packet_that_is_missing() -> None:
    frames = [av1_frame(hint) for hint in range(1, 300)]
    assert proven(START, *frames) is not None, "only the last bits are written"
    assert proven(START, *frames[:7], *frames[8:]) is None
    hidden = av1_frame(2, shown=False, replaces=1)
    assert proven(START, hidden + frames[0], av1_again(), frames[2]) is not None
    assert proven(START, frames[0], av1_again(), frames[2]) is None, "the slot keeps another"


def test_a_key_frame_that_is_shown_later_is_in_all_slots_then() -> None:
    key = av1_frame(2, key=True, shown=False, replaces=1)
    later = [av1_frame(hint) for hint in range(3, 130)]
    again = av1_again(5)  # is 2 again, as the next hint is
    assert proven(START, key + av1_frame(1), av1_again(), *later, again) is not None
    hidden = av1_frame(2, shown=False, replaces=1)
    assert proven(START, hidden + av1_frame(1), av1_again(), *later, again) is None


def test_without_hints_nothing_is_known_to_be_missing() -> None:
    start = av1_sequence(hints=False) + av1_frame(None, key=True)
    assert proven(start, av1_frame(None), av1_frame(None)) is not None


@pytest.mark.parametrize(
    "data",
    [
        pytest.param([av1_frame(0), START], id="begins in the middle"),
        pytest.param([KEY], id="no sequence header"),
        pytest.param([START, av1_frame(1) + av1_again()], id="shows two"),
        pytest.param([START, av1_sequence(hints=False) + KEY], id="another sequence"),
        pytest.param([av1_sequence(width=66) + KEY], id="another size"),
        pytest.param([av1_sequence(layers=0x103) + KEY], id="layers"),
        pytest.param([START, av1_unit(6, av1_frame(1)[2:], layer=True)], id="of a layer"),
        pytest.param([START, av1_unit(7, av1_frame(1)[2:])], id="a header once more"),
        pytest.param([START, av1_frame(1)[:-1]], id="cut off"),
        pytest.param([START, av1_unit(6)], id="an empty frame"),
        pytest.param([START, SEQUENCE], id="no frame"),
    ],
)
def test_a_doubt_is_no_proof(data: list[bytes]) -> None:
    assert proven(*data) is None


@given(st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=6))
def test_garbage_raises_nothing(data: list[bytes]) -> None:
    proven(*data)
    proven(START, *data)
    proven(START, *(av1_unit(6, each) for each in data))
    proven(*(SEQUENCE[:2] + each for each in data))
    proven(av1_unit(1, data[0]) + KEY)
