"""What H.264 headers prove: pictures by their order counts, as a decoder shows them that holds back
as many as the settings say."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.bitstreams import (
    LOSSLESS,
    PAYLOAD,
    PPS,
    Proof,
    annex_b,
    avc_configuration,
    avcc,
    endless_sps,
    h264_slice,
    packets,
    pps,
    proof,
    proven,
    sps,
    usability,
)
from tests.support.waiting import SECOND
from videoload.bitstreams.h264 import is_non_reference
from videoload.bitstreams.proofs import prove

IDR, SLICE = h264_slice(idr=True), h264_slice(1, 2)
SEI = b"\x06\x05\x10" + b"x264" * 4 + b"\x80"
DELIMITER = b"\x09\xf0"
START = annex_b(sps(), PPS, IDR)


def group(types: str, counts: Sequence[int], sequence: bytes, **how: Any) -> Proof | None:
    """What is proven of pictures of types I (IDR), P and B, where a B is no reference."""
    data: list[bytes] = []
    number = 0
    for kind, count in zip(types, counts, strict=True):
        number *= kind != "I"
        unit = h264_slice(number, count, idr=kind == "I", reference=kind != "B", **how)
        data.append(annex_b(unit) if data else annex_b(sequence, pps(), unit))
        number += kind != "B"
    return proven("h264", *data, extradata=annex_b(sequence, pps()))


def order(types: str, counts: Sequence[int], sequence: bytes, **how: Any) -> list[int] | None:
    """The frame that each of these pictures is; None if nothing is proven."""
    found = group(types, counts, sequence, **how)
    return found and found.ordinals


def holding(pictures: int | None, *, full: bool = False) -> bytes:
    """A sequence parameter set that says how many pictures a decoder holds back."""
    return sps(usability=usability(pictures, full=full))


@pytest.mark.parametrize("order_type", [0, 2])
def test_each_packet_is_a_picture_and_decoding_begins_at_idrs(order_type: int) -> None:
    idr, *others = (
        h264_slice(number, None if order_type else 2 * number, idr=not number, reference=number < 2)
        for number in range(3)
    )
    head = annex_b(sps(order_type=order_type), PPS, SEI, idr)
    found = proven("h264", head, *map(annex_b, others), head)
    assert found == Proof([0, 1, 2, 3], [0, 3], [0, 0, 1, 0])
    by_container = avc_configuration(sps(order_type=order_type))
    assert proven("h264", avcc(idr), avcc(DELIMITER, others[0]), extradata=by_container)


@pytest.mark.parametrize("full", [False, True])
def test_pictures_are_shown_by_their_counts_if_the_decoder_waits_for_them(full: bool) -> None:
    types, counts = "IPBBIPB", [0, 6, 2, 4, 0, 4, 2]
    found = group(types, counts, holding(1, full=full))
    assert found == Proof([0, 3, 1, 2, 4, 6, 5], [0, 4], [0, 0, 1, 1, 0, 0, 1])
    assert group(types, counts, holding(0)) is None, "the Bs come too late"
    assert group(types, counts, holding(None, full=full)) is None
    assert group(types, counts, sps()) is None, "the decoder finds out too late"


def test_a_pyramid_needs_a_decoder_that_waits_for_two() -> None:
    assert order("IPPBB", [0, 8, 4, 2, 6], holding(2)) == [0, 4, 2, 1, 3]
    assert order("IPPBB", [0, 8, 4, 2, 6], holding(1)) is None


@pytest.mark.parametrize(("chroma", "is_scaled"), [(1, False), (1, True), (3, True)])
def test_pictures_in_order_need_no_decoder_that_waits(chroma: int, is_scaled: bool) -> None:
    head = sps(profile=LOSSLESS, chroma=chroma, is_scaled=is_scaled)
    assert order("IPPB", [0, 2, 4, 6], head) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("message", "refers", "references", "begins"),
    [
        pytest.param(0xC4, False, 20, True, id="exactly, at once"),
        pytest.param(0x84, False, 20, False, id="nearly"),
        pytest.param(0x50, False, 20, False, id="later"),
        pytest.param(0xE4, False, 20, False, id="a broken link"),
        pytest.param(0xC4, True, 20, False, id="a leading picture is a reference"),
        pytest.param(0xC4, False, 3, False, id="soon after an IDR picture"),
    ],
)
def test_decoding_begins_at_recovery_points(
    message: int, refers: bool, references: int, begins: bool
) -> None:
    before = [h264_slice(i, 2 * i, idr=not i) for i in range(references)]
    recovery = b"\x06\x06\x01" + bytes((message, 0x80))
    point = h264_slice(references, 2 * references + 2)
    leading = h264_slice(references + 1, 2 * references, reference=refers)
    last = h264_slice(references + 1 + refers, 2 * references + 4)
    found = proof(
        "h264",
        annex_b(holding(1), pps(), before[0]),
        *map(annex_b, before[1:]),
        annex_b(recovery, point),
        annex_b(leading),
        annex_b(last),
        extradata=annex_b(holding(1), pps()),
    )
    assert found.starts == ([0, references] if begins else [0])
    assert found.ordinals[references:] == [references + 1, references, references + 2]


def test_only_the_last_bits_of_a_count_are_written() -> None:
    pairs = [(i + 2, i + 1) for i in range(0, 300, 2)]
    counts = [2 * number for pair in pairs for number in pair]
    found = order("I" + "PB" * 150, [0, *counts], holding(1))
    assert found == [0, *(number for pair in pairs for number in pair)]


@pytest.mark.parametrize(("later", "ordinals"), [(0, [0, 2, 1]), (-2, [0, 1, 2]), (-1, None)])
def test_of_two_fields_in_a_frame_the_first_one_counts(
    later: int, ordinals: list[int] | None
) -> None:
    found = proven(
        "h264",
        annex_b(holding(1), pps(counts_both=1), h264_slice(0, 0, idr=True, later=0)),
        annex_b(h264_slice(1, 3, later=later)),
        annex_b(h264_slice(2, 2, reference=False, later=0)),
    )
    assert (found.ordinals if found else None) == ordinals


def test_frames_may_be_interlaced_but_a_field_is_no_frame() -> None:
    sequence = sps(frames_only=0)
    assert order("IPP", [0, 2, 4], sequence, field=0) == [0, 1, 2]
    assert order("IPP", [0, 2, 4], sequence, field=1) is None


@pytest.mark.parametrize("has_lengths", [False, True])
def test_a_picture_is_unreferenced_if_each_of_its_slices_says_so(has_lengths: bool) -> None:
    non_reference = h264_slice(1, 2, reference=False)
    later = h264_slice(1, 2, reference=False, first_macroblock=9) + PAYLOAD
    filler = b"\x0c\xff\x80"

    def found(*units: bytes) -> bool:
        if has_lengths:
            return is_non_reference(avcc(*units), avc_configuration(sps()))
        return is_non_reference(annex_b(*units), annex_b(sps(), PPS))

    assert found(non_reference)
    assert found(DELIMITER, non_reference, later, later, filler)
    for units in (
        (SLICE,),
        (IDR,),
        (DELIMITER,),
        (),
        (non_reference, later, h264_slice(1, 2, first_macroblock=9)),
        (non_reference, non_reference),  # two pictures
        (later,),  # it has no first slice
        (SEI, non_reference),  # what a message says may concern others
        (non_reference, later, PPS),
    ):
        assert not found(*units)


@pytest.mark.parametrize(
    ("profile", "build", "starts"),
    [
        (LOSSLESS, b"148", [0]),
        (LOSSLESS, b"150", [0]),
        (LOSSLESS, b"151", [0, 2]),
        (66, b"148", [0, 2]),
    ],
)
def test_decoding_of_old_lossless_files_begins_only_where_the_encoder_is_named(
    profile: int, build: bytes, starts: list[int]
) -> None:
    """FFmpeg decodes lossless pictures of x264 before build 151 in another way, once it has read
    the message that names the build."""
    head = (sps(profile=profile), PPS)
    encoder = b"\x06\x05\x30" + bytes(16) + b"x264 - core " + build + b" r2\x80"
    named = annex_b(*head, encoder, IDR)
    assert proof("h264", named, annex_b(SLICE), annex_b(*head, IDR)).starts == starts
    assert proof("h264", named, named).starts == [0, 1], "each says it"


DOUBTS: dict[str, list[bytes]] = {
    "begins in the middle": [annex_b(sps(), PPS, SLICE)],
    "no settings": [annex_b(IDR)],
    "a reference is missing": [START, annex_b(h264_slice(2, 4))],
    "same count": [START, annex_b(SLICE), annex_b(h264_slice(2, 2))],
    "shown before the IDR": [START, annex_b(h264_slice(1, -2))],
    "an IDR that is none": [annex_b(sps(), PPS, h264_slice(idr=True, reference=False))],
    "one of two sequences": [annex_b(sps(), sps(width=9), PPS, IDR)],
    "one of two kinds": [annex_b(sps(), PPS, pps(counts_both=1), IDR)],
    "counted in an unusual way": [annex_b(sps(order_type=1), PPS, IDR)],
    "waits too long": [annex_b(sps(usability=usability(17)), PPS, IDR)],
    "a sequence that is cut off": [annex_b(sps()[:-1], PPS, IDR)],
    "numbers may be left out": [annex_b(sps(gaps=1), PPS, IDR)],
    "a slice a packet": [START, annex_b(h264_slice(1, 2, first_macroblock=9))],
    "a packet without a picture": [START, annex_b(SEI)],
    "an IDR without settings": [START, annex_b(IDR)],
    "settings change": [START, annex_b(sps(order_type=2), PPS, IDR)],
    "lengths, where start codes should be": [avcc(sps(), PPS, IDR)],
}


@pytest.mark.parametrize("why", DOUBTS)
def test_a_doubt_is_no_proof(why: str) -> None:
    assert not proven("h264", *DOUBTS[why])


@pytest.mark.timeout(30 * SECOND)
@pytest.mark.parametrize("count", [256, (1 << 26) - 2])
def test_settings_that_announce_more_than_the_standard_allows_are_not_read_to_their_end(
    count: int,
) -> None:
    """A loop over so many would take minutes."""
    long = endless_sps(count)
    data = [annex_b(long, PPS, IDR), annex_b(h264_slice())]
    assert prove(packets("h264", data, extradata=annex_b(long, PPS))) is None
