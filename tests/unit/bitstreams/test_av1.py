"""What AV1 headers prove: which frames are shown, by their order hints, and which slots keep."""

import pytest

from tests.support.bitstreams import (
    Proof,
    av1_again,
    av1_frame,
    av1_sequence,
    av1_unit,
    proof,
    proven,
)

CODEC = "libdav1d"
DELIMITER = av1_unit(2)
SEQUENCE = DELIMITER + av1_sequence()
KEY = av1_frame(key=True)
START = SEQUENCE + KEY


def av1(*data: bytes) -> Proof | None:
    return proven(CODEC, *data)


@pytest.mark.parametrize("full", [0, 1])
def test_decoding_begins_at_key_frames_behind_a_sequence_header(full: int) -> None:
    start = av1_sequence(full=full) + av1_frame(key=True, full=full)
    hidden = av1_frame(2, shown=False, replaces=1, full=full)
    second, third = DELIMITER + hidden + av1_frame(1, full=full), av1_again()
    found = proof(CODEC, start, second, third, av1_frame(3, key=True, full=full), start)
    assert (found.ordinals, found.starts) == ([0, 1, 2, 3, 4], [0, 4])


def test_a_packet_may_show_nothing() -> None:
    hidden, key = av1_frame(1, shown=False, replaces=4), av1_frame(1, key=True, shown=False)
    found = proof(CODEC, START, hidden, av1_again(2), SEQUENCE + key + av1_frame(2))
    assert (found.ordinals, found.starts) == ([0, -1, 1, 2], [0])


def test_a_frame_that_no_slot_keeps_may_be_skipped() -> None:
    hidden, alone = av1_frame(2, shown=False, replaces=1), av1_frame(3, replaces=0)
    found = proof(CODEC, START, hidden + av1_frame(1, replaces=0), av1_again(), DELIMITER + alone)
    assert found.skips == [0, 0, 0, 1], "a hidden one stands before the second"
    assert proof(CODEC, START, av1_frame(1, replaces=1)).skips == [0, 0], "a slot keeps it"


def test_the_last_unit_may_lack_its_length() -> None:
    frame = av1_frame(1)
    assert av1(START, bytes((frame[0] & ~2,)) + frame[2:])


def test_a_hint_that_is_left_out_is_a_packet_that_is_missing() -> None:
    frames = [av1_frame(hint) for hint in range(1, 300)]
    assert av1(START, *frames), "only the last bits are written"
    assert not av1(START, *frames[:7], *frames[8:])
    hidden = av1_frame(2, shown=False, replaces=1)
    assert av1(START, hidden + frames[0], av1_again(), frames[2])
    assert not av1(START, frames[0], av1_again(), frames[2]), "the slot keeps another"


def test_without_hints_no_packet_is_known_to_be_missing() -> None:
    start = av1_sequence(hints=0) + av1_frame(None, key=True)
    assert av1(start, av1_frame(None), av1_frame(None))


@pytest.mark.parametrize("is_key", [False, True])
def test_a_key_frame_that_is_shown_later_is_in_all_slots_then(is_key: bool) -> None:
    later = [av1_frame(hint) for hint in range(3, 130)]
    again = av1_again(5)  # is 2 again, as the next hint is
    hidden = av1_frame(2, key=is_key, shown=False, replaces=1)
    found = av1(START, hidden + av1_frame(1), av1_again(), *later, again)
    assert (found is not None) is is_key


DOUBTS: dict[str, list[bytes]] = {
    "begins in the middle": [av1_frame(0), START],
    "no sequence header": [KEY],
    "shows two": [START, av1_frame(1) + av1_again()],
    "another sequence": [START, av1_sequence(hints=0) + KEY],
    "another size": [av1_sequence(width=66) + KEY],
    "layers": [av1_sequence(layers=0x103) + KEY],
    "of a layer": [START, av1_unit(6, av1_frame(1)[2:], layer=True)],
    "a header once more": [START, av1_unit(7, av1_frame(1)[2:])],
    "cut off": [START, av1_frame(1)[:-1]],
    "an empty frame": [START, av1_unit(6)],
    "no frame": [START, SEQUENCE],
}


@pytest.mark.parametrize("why", DOUBTS)
def test_a_doubt_is_no_proof(why: str) -> None:
    assert not av1(*DOUBTS[why])
