"""What HEVC headers prove: pictures by their order counts, leading pictures, reference sets."""

from typing import Any

import pytest

from tests.support.bitstreams import (
    Proof,
    annex_b,
    avcc,
    hevc_configuration,
    hevc_pps,
    hevc_slice,
    hevc_sps,
    one_less,
    proof,
    proven,
    references,
)

TRAIL, TRAIL_N, RADL, RASL, BROKEN_LINK, IDR, CRA, RESERVED = 1, 0, 7, 9, 16, 19, 21, 22
START, SECOND = hevc_slice(IDR), hevc_slice(TRAIL, 1, -1)
SPS, PPS = hevc_sps(), hevc_pps()
END_OF_SEQUENCE = b"\x48\x01"
DELIMITER = b"\x46\x01\x50"


def hevc(*units: bytes, sps: bytes = SPS, pps: bytes = PPS) -> Proof | None:
    """What pictures prove, a slice a packet, with settings told by the container."""
    return proven("hevc", *map(avcc, units), extradata=hevc_configuration(sps, pps))


def order(*units: bytes, **settings: bytes) -> list[int] | None:
    """The frame that each of these pictures is; None if nothing is proven."""
    found = hevc(*units, **settings)
    return found and found.ordinals


def test_pictures_are_shown_by_their_counts_if_the_decoder_waits_for_them() -> None:
    group = (
        START,
        hevc_slice(TRAIL, 3, -3),
        hevc_slice(TRAIL_N, 1, -1, 2),
        hevc_slice(TRAIL_N, 2, -2, 1),
    )
    found = hevc(*group, *group[:2])
    assert found is not None
    assert (found.ordinals, found.starts) == ([0, 3, 1, 2, 4, 5], [0, 4])
    assert order(START, SECOND) == [0, 1]
    assert order(*group, sps=hevc_sps(waiting=0)) is None, "the others come too late"
    assert order(*group, sps=hevc_sps(buffer=2)) is None, "there is no room to wait"
    assert order(*group, sps=hevc_sps(has_pcm=True)) == [0, 3, 1, 2]


@pytest.mark.parametrize("kind", [TRAIL, 3, 5])
def test_only_the_last_bits_of_a_count_are_written(kind: int) -> None:
    units = [hevc_slice(kind, count, -1) for count in range(1, 600)]
    assert order(START, *units) == [*range(600)]


def test_settings_may_stand_before_each_start() -> None:
    head = annex_b(DELIMITER, SPS, PPS, START)
    assert proof("hevc", head, annex_b(SECOND), head).starts == [0, 2]
    assert not proven("hevc", head, annex_b(hevc_sps(width=66), PPS, START))
    assert not proven("hevc", head, annex_b(START)), "a decoder may begin there"


def test_leading_pictures_are_shown_before_the_start_that_they_follow_or_are_skipped() -> None:
    after = hevc_slice(TRAIL, 5, -1)
    cra, rasl, radl = hevc_slice(CRA, 4, -3), hevc_slice(RASL, 2, -1, 2), hevc_slice(RADL, 3, 1)
    found = hevc(START, SECOND, cra, rasl, radl, after)
    assert found is not None
    assert (found.ordinals, found.starts) == ([0, 1, 4, 2, 3, 5], [0, 2])
    # A decoder that begins there lacks what some refer to.
    assert order(cra, rasl, hevc_slice(RASL, 3, -1, 1), after) == [0, -1, -1, 1]


def test_reference_picture_sets_may_be_those_of_the_sequence() -> None:
    sets = hevc_sps(sets=(references(-1), one_less()))  # -1; and -2 with -1
    told = [hevc_slice(TRAIL, number + 1, set_number=number, sets=2) for number in (0, 1)]
    assert hevc(START, *told, sps=sets)
    assert hevc(START, hevc_slice(TRAIL, 1, -1, sets=2), sps=sets), "one of its own"
    assert hevc(START, told[0], hevc_slice(TRAIL, 2, set_number=0, sets=2), sps=sets)
    assert not hevc(START, hevc_slice(TRAIL, 1, set_number=1, sets=2), sps=sets), "-2 is not there"


@pytest.mark.parametrize(("back", "is_there"), [(0, True), (1, False)])
def test_the_set_of_a_picture_may_be_told_by_one_of_the_sequence(back: int, is_there: bool) -> None:
    own = hevc_slice(TRAIL, 2, sets=1, own_set=one_less(back))
    found = hevc(START, hevc_slice(TRAIL, 1, -1, sets=1), own, sps=hevc_sps(sets=[references(-1)]))
    assert (found is not None) is is_there, "there is one set"


@pytest.mark.parametrize(
    "settings",
    [
        {"pps": hevc_pps(may_hide=1)},
        {"sps": hevc_sps(width=66)},
        {"sps": hevc_sps(has_long_term=True)},
        {"sps": SPS[:20]},
        {"sps": hevc_sps(waiting=5)},  # it waits for more than it holds
    ],
)
def test_some_settings_prove_nothing(settings: dict[str, Any]) -> None:
    assert hevc(START, hevc_slice(TRAIL, 1, -1, long_term=1), **settings) is None
    assert hevc(START, SECOND)


@pytest.mark.parametrize(
    ("units", "is_proven"),
    [
        ((START, hevc_slice(IDR, first=0)), True),  # a second slice
        ((START, hevc_slice(TRAIL, 1, -1, first=0)), False),
        ((START, START), False),
        ((SPS, START, PPS), False),
        ((b"\x52\x01", START), False),  # a reserved kind
        ((b"\x7c\x01x", START), True),  # of no meaning
        ((DELIMITER,), False),
    ],
)
def test_a_packet_is_one_picture(units: tuple[bytes, ...], is_proven: bool) -> None:
    found = proven("hevc", avcc(*units), extradata=hevc_configuration(SPS, PPS))
    assert (found is not None) is is_proven


@pytest.mark.parametrize(("following", "is_proven"), [(START, True), (hevc_slice(CRA, 4), False)])
def test_after_the_end_of_a_sequence_another_one_begins(following: bytes, is_proven: bool) -> None:
    data = avcc(START, END_OF_SEQUENCE), avcc(following)
    found = proven("hevc", *data, extradata=hevc_configuration(SPS, PPS))
    assert (found is not None) is is_proven


DOUBTS: dict[str, list[bytes]] = {
    "begins in the middle": [SECOND, START],
    "a reference is missing": [START, hevc_slice(TRAIL, 2, -1)],
    "the same count twice": [START, SECOND, SECOND],
    "it refers to a picture before the start": [
        START,
        SECOND,
        hevc_slice(CRA, 3, -2),
        hevc_slice(TRAIL, 4, -1, -3),
    ],
    "a start that is shown before others": [START, SECOND, hevc_slice(CRA, -1, 1)],
    "a broken link": [START, hevc_slice(BROKEN_LINK, 3)],
    "another kind": [START, hevc_slice(RESERVED, 3)],
    "pictures before it are dropped": [START, hevc_slice(IDR, hides=1)],
    "another layer": [START, hevc_slice(TRAIL, 1, -1, layer=1)],
    "not the first slice": [START, hevc_slice(TRAIL, 1, -1, first=0)],
}


@pytest.mark.parametrize("why", DOUBTS)
def test_a_doubt_is_no_proof(why: str) -> None:
    assert not hevc(*DOUBTS[why])
