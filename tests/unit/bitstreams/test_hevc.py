"""What HEVC headers prove, on headers written bit by bit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bitstreams import (
    BitWriter,
    annex_b,
    avcc,
    hevc_configuration,
    hevc_pps,
    hevc_slice,
    hevc_sps,
    packets,
    references,
)
from videoload.bitstreams.pictures import Pictures
from videoload.bitstreams.proofs import prove

SPS, PPS = hevc_sps(), hevc_pps()
TRAIL, LONELY, RADL, RASL, IDR, CRA = 1, 0, 7, 9, 19, 21
START = hevc_slice(IDR)
DELIMITER, END = b"\x46\x01\x50", b"\x48\x01"


def proven(*units: bytes, sps: bytes = SPS, pps: bytes = PPS) -> Pictures | None:
    """What pictures prove, a slice a packet, with settings told by the container."""
    told = hevc_configuration(sps, pps)
    return prove(packets("hevc", [avcc(unit) for unit in units], extradata=told))


def ordinals(pictures: Pictures | None) -> list[int] | None:
    assert pictures is not None
    return None if pictures.ordinals is None else pictures.ordinals.tolist()


def test_pictures_are_shown_by_their_counts_if_the_decoder_waits_for_them() -> None:
    group = (
        START, hevc_slice(TRAIL, 3, -3), hevc_slice(LONELY, 1, -1, 2), hevc_slice(LONELY, 2, -2, 1),
    )  # fmt: skip
    pictures = proven(*group, *group[:2])
    assert pictures is not None
    assert (pictures.frames, pictures.starts.tolist()) == (6, [0, 4])
    assert ordinals(pictures) == [0, 3, 1, 2, 4, 5]
    assert ordinals(proven(START, hevc_slice(TRAIL, 1, -1))) is None, "they are in order"
    assert proven(*group, sps=hevc_sps(waiting=0)) is None, "the others come too late"
    assert proven(*group, sps=hevc_sps(buffer=2)) is None, "there is no room to wait"


def test_settings_may_stand_before_each_start() -> None:
    head = annex_b(DELIMITER, SPS, PPS, START)
    pictures = prove(packets("hevc", [head, annex_b(hevc_slice(TRAIL, 1, -1)), head]))
    assert pictures is not None
    assert pictures.starts.tolist() == [0, 2]
    assert prove(packets("hevc", [head, annex_b(hevc_sps(width=66), PPS, START)])) is None
    assert prove(packets("hevc", [head, annex_b(START)])) is None, "a decoder may begin there"


def test_leading_pictures_are_shown_before_the_start_that_they_follow() -> None:
    open_group = (
        START, hevc_slice(TRAIL, 1, -1), hevc_slice(CRA, 4, -3), hevc_slice(RASL, 2, -1, 2),
        hevc_slice(RADL, 3, 1), hevc_slice(TRAIL, 5, -1),
    )  # fmt: skip
    pictures = proven(*open_group)
    assert pictures is not None
    assert pictures.starts.tolist() == [0, 2]
    assert ordinals(pictures) == [0, 1, 4, 2, 3, 5]


def test_a_decoder_that_begins_at_a_cra_picture_skips_those_that_refer_to_others() -> None:
    pictures = proven(
        hevc_slice(CRA, 4, -3), hevc_slice(RASL, 2, -1, 2), hevc_slice(RASL, 3, -1, 1),
        hevc_slice(TRAIL, 5, -1),
    )  # fmt: skip
    assert pictures is not None
    assert (pictures.frames, ordinals(pictures)) == (2, [0, -1, -1, 1])


def test_reference_picture_sets_may_be_those_of_the_sequence() -> None:
    other = BitWriter().put(1, 1).put(1, 1).golomb(0).put(1, 1).put(1, 1)  # one less each, and -1
    sps = hevc_sps(sets=(references(-1), other))
    told = (hevc_slice(TRAIL, 1, set_number=0, sets=2), hevc_slice(TRAIL, 2, set_number=1, sets=2))
    assert proven(START, *told, sps=sps) is not None
    own = hevc_slice(TRAIL, 1, -1, sets=2)
    assert proven(START, own, sps=sps) is not None
    assert proven(START, hevc_slice(TRAIL, 1, set_number=1, sets=2), sps=sps) is None, "-2 is not"


def test_only_the_last_bits_of_a_count_are_written() -> None:
    units = [hevc_slice(TRAIL, count, -1) for count in range(1, 600)]
    assert ordinals(proven(START, *units)) is None


def _doubts() -> list[Any]:
    trail = hevc_slice(TRAIL, 1, -1)
    cases: dict[str, tuple[tuple[bytes, ...], dict[str, Any]]] = {
        "begins in the middle": ((trail, START), {}),
        "a reference is missing": ((START, hevc_slice(TRAIL, 2, -1)), {}),
        "the same count twice": ((START, trail, hevc_slice(TRAIL, 1, -1)), {}),
        "it refers to a picture before the start": (
            (START, trail, hevc_slice(CRA, 3, -2), hevc_slice(TRAIL, 4, -1, -3)), {}),
        "a start that is shown before others": ((START, trail, hevc_slice(CRA, -1, 1)), {}),
        "a broken link": ((START, hevc_slice(16, 3)), {}),
        "another kind": ((START, hevc_slice(22, 3)), {}),
        "pictures before it are dropped": ((START, hevc_slice(IDR, hides=True)), {}),
        "another layer": ((START, hevc_slice(TRAIL, 1, -1, layer=1)), {}),
        "not the first slice": ((START, hevc_slice(TRAIL, 1, -1, first=False)), {}),
        "pictures may be hidden": ((START,), {"pps": hevc_pps(may_hide=True)}),
        "another size": ((START,), {"sps": hevc_sps(width=66)}),
        "a long-term reference": (
            (START, hevc_slice(TRAIL, 1, -1, long_term=1)), {"sps": hevc_sps(has_long_term=True)}),
        "a sequence that is cut off": ((START,), {"sps": SPS[:20]}),
        "waits for more than it holds": ((START,), {"sps": hevc_sps(waiting=5)}),
    }  # fmt: skip
    return [pytest.param(*case, id=name) for name, case in cases.items()]


@pytest.mark.parametrize(("units", "how"), _doubts())
def test_a_doubt_is_no_proof(units: tuple[bytes, ...], how: dict[str, Any]) -> None:
    assert proven(*units, **how) is None


@pytest.mark.parametrize(
    ("units", "is_proven"),
    [
        ((START, hevc_slice(TRAIL, 1, -1, first=False)), True),  # a second slice ...
        ((START, hevc_slice(IDR, first=False)), True),
        ((START, START), False),
        ((SPS, START, PPS), False),
        ((b"\x52\x01", START), False),  # a reserved kind
        ((b"\x7c\x01x", START), True),  # of no meaning
        ((DELIMITER,), False),
    ],
)
def test_a_packet_is_one_picture(units: tuple[bytes, ...], is_proven: bool) -> None:
    told = hevc_configuration(SPS, PPS)
    slices = {unit[0] >> 1 for unit in units if unit[0] >> 1 < 32}
    found = prove(packets("hevc", [avcc(*units)], extradata=told))
    assert (found is not None) is (is_proven and len(slices) == 1)


@pytest.mark.parametrize(("following", "is_proven"), [(START, True), (CRA, False)])
def test_after_the_end_of_a_sequence_another_one_begins(following: Any, is_proven: bool) -> None:
    unit = following if isinstance(following, bytes) else hevc_slice(CRA, 4)
    data = [avcc(START, END), avcc(unit)]
    found = prove(packets("hevc", data, extradata=hevc_configuration(SPS, PPS)))
    assert (found is not None) is is_proven


@given(st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=6))
def test_garbage_raises_nothing(data: list[bytes]) -> None:
    proven(*data)
    proven(START, *(b"\x02\x01" + each for each in data))
    proven(START, sps=SPS[:2] + data[0], pps=PPS[:2] + data[-1])
    prove(packets("hevc", [annex_b(SPS, PPS, START), *(annex_b(each) for each in data)]))
    prove(packets("hevc", data, extradata=data[0]))
