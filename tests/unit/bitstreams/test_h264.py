"""What H.264 headers prove, on headers written bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bitstreams import (
    PAYLOAD,
    PPS,
    BitWriter,
    annex_b,
    avc_configuration,
    avcc,
    h264_slice,
    packets,
    pps,
    sps,
    usability,
)
from videoload.bitstreams.h264 import is_unreferenced
from videoload.bitstreams.pictures import Pictures
from videoload.bitstreams.proofs import prove

IDR = h264_slice(idr=True)
SLICE = h264_slice(1, 2)
SEI = b"\x06\x05\x10" + b"x264" * 4 + b"\x80"
DELIMITER = b"\x09\xf0"


def proven(*data: bytes, extradata: bytes = b"") -> Pictures | None:
    return prove(packets("h264", data, extradata=extradata))


def stream(types: str, counts: Sequence[int], sequence: bytes, **how: Any) -> Pictures | None:
    """What is proven of pictures of types I (IDR), P and B, where a B is no reference."""
    data: list[bytes] = []
    references = 0
    for kind, count in zip(types, counts, strict=True):
        references *= kind != "I"
        unit = h264_slice(references, count, idr=kind == "I", reference=kind != "B", **how)
        data.append(annex_b(unit) if data else annex_b(sequence, pps(), unit))
        references += kind != "B"
    return prove(packets("h264", data, extradata=annex_b(sequence, pps())))


def held(pictures: int) -> bytes:
    return sps(usability=usability(held=pictures))


def ordinals(pictures: Pictures | None) -> list[int] | None:
    assert pictures is not None
    return None if pictures.ordinals is None else pictures.ordinals.tolist()


@pytest.mark.parametrize("order_type", [0, 2])
def test_each_packet_is_a_picture_and_decoding_begins_at_idrs(order_type: int) -> None:
    def count(number: int) -> int | None:
        return None if order_type else 2 * number

    head = annex_b(sps(order_type=order_type), PPS, SEI, h264_slice(0, count(0), idr=True))
    others = [annex_b(h264_slice(number, count(number))) for number in (1, 2)]
    pictures = proven(head, *others, head)
    assert pictures is not None
    assert (pictures.frames, pictures.starts.tolist()) == (4, [0, 3])
    assert pictures.ordinals is None


def test_the_container_may_tell_the_settings() -> None:
    pictures = proven(avcc(IDR), avcc(DELIMITER, SLICE), extradata=avc_configuration(sps()))
    assert pictures is not None
    assert pictures.frames == 2


@pytest.mark.parametrize("full", [False, True])
def test_pictures_are_shown_by_their_counts_if_the_decoder_waits_for_them(full: bool) -> None:
    types, counts = "IPBBIPB", [0, 6, 2, 4, 0, 4, 2]
    pictures = stream(types, counts, sps(usability=usability(held=1, full=full)))
    assert pictures is not None
    assert (pictures.frames, pictures.starts.tolist()) == (7, [0, 4])
    assert ordinals(pictures) == [0, 3, 1, 2, 4, 6, 5]
    assert stream(types, counts, held(0)) is None, "the Bs come too late"
    assert stream(types, counts, sps(usability=usability(held=None, full=full))) is None
    assert stream(types, counts, sps()) is None, "the decoder finds out too late"
    assert stream("IPPB", [0, 2, 4, 6], sps()) is not None, "they are in order"


def test_a_pyramid_needs_a_decoder_that_waits_for_two() -> None:
    assert ordinals(stream("IPPBB", [0, 8, 4, 2, 6], held(2))) == [0, 4, 2, 1, 3]
    assert stream("IPPBB", [0, 8, 4, 2, 6], held(1)) is None


def test_only_the_last_bits_of_a_count_are_written() -> None:
    pictures = 300
    counts = [count for i in range(0, 2 * pictures, 4) for count in (i + 4, i + 2)]
    found = ordinals(stream("I" + "PB" * (pictures // 2), [0, *counts], held(1)))
    assert found == [0, *(i + 1 for pair in zip(counts[::2], counts[1::2], strict=True)
                          for i in (pair[0] // 2 - 1, pair[1] // 2 - 1))]  # fmt: skip


def test_of_two_fields_in_a_frame_the_first_one_counts() -> None:
    sequence, both = held(1), pps(counts_both=True)

    def ordered(later: int) -> Pictures | None:
        return proven(
            annex_b(sequence, both, h264_slice(0, 0, idr=True, later=0)),
            annex_b(h264_slice(1, 3, later=later)),
            annex_b(h264_slice(2, 2, reference=False, later=0)),
        )

    assert ordinals(ordered(0)) == [0, 2, 1]
    assert ordinals(ordered(-2)) is None, "1 and 2: in order"
    assert ordered(-1) is None, "2 and 2"


def test_frames_may_be_interlaced_but_a_field_is_no_frame() -> None:
    sequence = sps(frames_only=False)
    assert ordinals(stream("IPP", [0, 2, 4], sequence, field=False)) is None
    assert stream("IPP", [0, 2, 4], sequence, field=True) is None


@pytest.mark.parametrize(("types", "expected"), [("IPB", True), ("IPP", False)])
def test_what_is_proven_says_whether_there_are_pictures_that_nobody_refers_to(
    types: str, expected: bool
) -> None:
    pictures = stream(types, [0, 4, 2] if expected else [0, 2, 4], held(1))
    assert pictures is not None
    assert (pictures.unreferenced is not None) == expected
    assert pictures.unreferenced is None or pictures.unreferenced.tolist() == [0, 0, 1]


@pytest.mark.parametrize("has_lengths", [False, True])
def test_nobody_refers_to_a_picture_if_each_of_its_slices_says_so(has_lengths: bool) -> None:
    unreferenced = h264_slice(1, 2, reference=False)
    later = h264_slice(1, 2, reference=False, first_macroblock=9) + PAYLOAD
    filler = b"\x0c\xff\x80"

    def found(*units: bytes) -> bool:
        if has_lengths:
            return is_unreferenced(avcc(*units), avc_configuration(sps()))
        return is_unreferenced(annex_b(*units), annex_b(sps(), PPS))

    assert found(unreferenced)
    assert found(DELIMITER, unreferenced, later, later, filler)
    assert not found(SLICE)
    assert not found(IDR)
    assert not found(unreferenced, later, h264_slice(1, 2, first_macroblock=9))
    assert not found(unreferenced, unreferenced), "two pictures"
    assert not found(later), "it has no first slice"
    assert not found(SEI, unreferenced), "what a message says may concern others"
    assert not found(unreferenced, later, PPS)
    assert not found(DELIMITER)
    assert not found()


@pytest.mark.parametrize(("profile", "build", "starts"), [
    (244, b"148", [0]), (244, b"151", [0, 2]), (66, b"148", [0, 2]),
])  # fmt: skip
def test_decoding_of_old_lossless_files_begins_only_where_the_encoder_is_named(
    profile: int, build: bytes, starts: list[int]
) -> None:
    head = (sps(profile=profile), PPS)
    encoder = b"\x06\x05\x30" + bytes(16) + b"x264 - core " + build + b" r2\x80"
    pictures = proven(annex_b(*head, encoder, IDR), annex_b(SLICE), annex_b(*head, IDR))
    assert pictures is not None
    assert pictures.starts.tolist() == starts
    both = proven(*[annex_b(*head, encoder, IDR)] * 2)
    assert both is not None
    assert both.starts.tolist() == [0, 1], "each says it"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param([annex_b(sps(), PPS, SLICE)], id="begins in the middle"),
        pytest.param([annex_b(IDR)], id="no settings"),
        pytest.param(
            [annex_b(sps(), PPS, IDR), annex_b(h264_slice(2, 4))], id="a reference is missing"
        ),
        pytest.param(
            [annex_b(sps(), PPS, IDR), annex_b(SLICE), annex_b(h264_slice(2, 2))], id="same count"
        ),
        pytest.param(
            [annex_b(sps(), PPS, IDR), annex_b(h264_slice(1, -2))], id="shown before the IDR"
        ),
        pytest.param(
            [annex_b(sps(), PPS, h264_slice(idr=True, reference=False))], id="an IDR that is none"
        ),
        pytest.param([annex_b(sps(), sps(width=9), PPS, IDR)], id="one of two sequences"),
        pytest.param([annex_b(sps(), PPS, pps(counts_both=True), IDR)], id="one of two kinds"),
        pytest.param([annex_b(sps(order_type=1), PPS, IDR)], id="counted in an unusual way"),
        pytest.param([annex_b(sps(usability=usability(held=17)), PPS, IDR)], id="waits too long"),
        pytest.param([annex_b(sps()[:-1], PPS, IDR)], id="a sequence that is cut off"),
        pytest.param([annex_b(sps(gaps=True), PPS, IDR)], id="numbers may be left out"),
        pytest.param(
            [annex_b(sps(), PPS, IDR), annex_b(h264_slice(1, 2, first_macroblock=9))],
            id="a slice a packet",
        ),
        pytest.param([annex_b(sps(), PPS, IDR), annex_b(SEI)], id="a packet without a picture"),
        pytest.param([annex_b(sps(), PPS, IDR), annex_b(IDR)], id="an IDR without settings"),
        pytest.param(
            [annex_b(sps(), PPS, IDR), annex_b(sps(order_type=2), PPS, IDR)], id="settings change"
        ),
        pytest.param([avcc(sps(), PPS, IDR)], id="lengths, where start codes should be"),
    ],
)
def test_a_doubt_is_no_proof(data: list[bytes]) -> None:
    assert proven(*data) is None


@given(st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=6), st.booleans())
def test_garbage_raises_nothing(data: list[bytes], lengths: bool) -> None:
    extradata = avc_configuration(sps()) if lengths else b""
    proven(*data, extradata=extradata)
    proven(annex_b(sps(), PPS, IDR), *(annex_b(each) for each in data))
    proven(*data, extradata=data[0])


@pytest.mark.timeout(5)
@pytest.mark.parametrize("count", [256, (1 << 26) - 2])
def test_a_sequence_parameter_set_that_says_more_than_the_standard_allows_proves_nothing(
    count: int,
) -> None:
    bits = BitWriter().put(0x67, 8).put(66, 8).put(0, 8).put(30, 8).golomb(0).golomb(0).golomb(1)
    bits.put(0, 1).golomb(0).golomb(0).golomb(count)
    long = bits.to_bytes() + b"\xff" * (1 << 20)
    data = [annex_b(long, PPS, h264_slice(idr=True)), annex_b(h264_slice())]
    assert prove(packets("h264", data, extradata=annex_b(long, PPS))) is None
