"""What headers prove, written bit by bit, and when they prove nothing."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bitstreams import (
    PAYLOAD,
    PPS,
    VP9_AGAIN,
    Proof,
    annex_b,
    av1_again,
    av1_frame,
    av1_sequence,
    av1_unit,
    avc_configuration,
    avcc,
    coded,
    h264_slice,
    hevc_configuration,
    hevc_pps,
    hevc_slice,
    hevc_sps,
    packets,
    pps,
    proven,
    references,
    sps,
    superframe,
    usability,
    vol,
    vop,
    vp9,
)
from videoload.bitstreams.h264 import is_unreferenced
from videoload.bitstreams.proofs import INTRA_ONLY, PROVABLE, JpegHeader, jpeg_header, prove


def vp8(*, key: bool, shown: bool = True, width: int = 64) -> bytes:
    start = b"\x9d\x01\x2a" + width.to_bytes(2, "little") + (48).to_bytes(2, "little")
    return bytes(((not key) | shown << 4, 0, 0)) + start * key + PAYLOAD


def msmpeg4(kind: int, after: int = 0) -> bytes:
    return coded(f"{after + 2}:{kind} 6:0") + PAYLOAD


@pytest.mark.parametrize("codec", sorted(INTRA_ONLY))
def test_each_packet_of_an_intra_only_codec_is_a_frame(codec: str) -> None:
    assert proven(codec, *[PAYLOAD] * 3) == Proof([0, 1, 2], [0, 1, 2], [0, 0, 0])
    assert proven(codec, PAYLOAD, bytes(8)), "it is as short as can be"
    assert not proven(codec, PAYLOAD, bytes(7)), "it may stand for a picture dropped"


@pytest.mark.parametrize(
    ("codec", "key", "other"),
    [
        ("msmpeg4", msmpeg4(0), msmpeg4(1)),
        ("msmpeg4v1", bytes(4) + msmpeg4(0, 5), bytes(4) + msmpeg4(1, 5)),
        ("msmpeg4v2", msmpeg4(0), msmpeg4(1)),
        ("ffv1", b"\xf0" + PAYLOAD, b"\x10" + PAYLOAD),
        ("vp8", vp8(key=True), vp8(key=False)),
    ],
)
def test_types_are_read_from_headers(codec: str, key: bytes, other: bytes) -> None:
    found = proven(codec, key, other, other, key, other)
    assert found == Proof([*range(5)], [0, 3], [0] * 5)
    assert not proven(codec, other, key)
    assert not proven(codec, key, key[:2])


def test_vp8_pictures_that_are_not_shown_give_no_frame() -> None:
    found = proven("vp8", vp8(key=True), vp8(key=False, shown=False), vp8(key=False))
    assert found
    assert found.ordinals == [0, -1, 1]


# MJPEG


def segment(marker: int, content: bytes) -> bytes:
    return bytes((0xFF, marker)) + (len(content) + 2).to_bytes(2, "big") + content


QUANTIZATION = segment(0xDB, b"\0" + bytes(64))
HUFFMAN = segment(0xC4, b"\x10" + bytes((1, *[0] * 15)) + b"\0")
SCAN = segment(0xDA, bytes(10)) + PAYLOAD
FRAME = segment(0xC0, b"\x08\0\x30\0\x40\1\1\x11\0")  # 64x48
WHOLE = b"\xff\xd8" + QUANTIZATION + HUFFMAN + FRAME + SCAN
BARE = b"\xff\xd8" + FRAME + SCAN
FIELD = WHOLE.replace(b"\0\x30\0\x40", b"\0\x18\0\x40")  # half as high


def test_jpeg_tables_are_those_before_the_scan() -> None:
    length = WHOLE.index(b"\xff\xda") + 2
    assert jpeg_header(WHOLE) == JpegHeader(frozenset({(0xDB, 0), (0xC4, 0x10)}), True, length, 48)
    bare = JpegHeader(frozenset(), True, BARE.index(b"\xff\xda") + 2, 48)
    assert jpeg_header(BARE + QUANTIZATION) == bare
    cut = (frozenset({(0xDB, 0)}), False)
    assert jpeg_header(b"\xff\xd8" + QUANTIZATION[:20])[:2] == cut, "the first bytes tell"
    wide = b"\x11" + bytes(128) + b"\x02" + bytes(64)
    two = segment(0xC4, bytes((0x11, 2, *[0] * 15, 7, 7)) + bytes((0x01, *[0] * 16)))
    found = jpeg_header(b"\xff\xd8" + segment(0xDB, wide) + two)
    assert found.tables == {(0xDB, 1), (0xDB, 2), (0xC4, 0x11), (0xC4, 0x01)}


def test_mjpeg_pictures_that_all_bring_their_tables_and_are_whole_are_key_frames() -> None:
    assert proven("mjpeg", *[WHOLE] * 3) == Proof([0, 1, 2], [0, 1, 2], [0, 0, 0])
    assert proven("mjpeg", *[BARE] * 3), "those of the standard"
    assert proven("mjpeg", *[FIELD + FIELD] * 4), "two fields are a frame"
    assert not proven("mjpeg", *[FIELD] * 4)
    assert not proven("mjpeg", *[FIELD + FIELD] * 3, FIELD)
    assert not proven("mjpeg", WHOLE, BARE, BARE), "they take another's tables"


@pytest.mark.parametrize("odd", [BARE, FIELD])
@pytest.mark.parametrize("at", [2, 9, 57, 99])
@pytest.mark.parametrize("more", [0, 100_000])
def test_one_mjpeg_picture_that_is_no_whole_frame_proves_nothing(
    odd: bytes, at: int, more: int
) -> None:
    many = [WHOLE + bytes(more)] * 100
    assert proven("mjpeg", *many)
    many[at] = odd + bytes(more)
    assert not proven("mjpeg", *many)


def orders(found: Proof | None) -> list[int]:
    assert found is not None
    return found.ordinals


# MPEG-4

DIVX = b"\0\0\1\xb2DivX503b1393"
PACKED = vol(low_delay=None, layer_type=4) + DIVX + b"p"
PLACEHOLDER = vop("P", is_coded=False)


def timed(kinds: str) -> list[bytes]:
    """VOPs in the order of coding, with the times that their order of display gives them."""
    shown: list[int] = []
    anchors = [i for i, kind in enumerate(kinds) if kind != "B"]
    for begin, end in pairwise([*anchors, len(kinds)]):
        # B-VOPs are shown before the reference that they follow in the file.
        shown += [*range(begin + 1, end), begin]
    times = {coded: at for at, coded in enumerate(shown)}
    data, second, before = [], 0, 0  # `second` that of the last reference
    for i, kind in enumerate(kinds):
        at = times[i] + 1
        data.append(vop(kind, at % 25, seconds=at // 25 - (before if kind == "B" else second)))
        if kind != "B":
            before, second = second, at // 25
    return data


@given(
    st.lists(st.tuples(st.sampled_from("IPPPS"), st.integers(0, 3)), max_size=40).map(
        lambda pairs: "IP" + "".join(kind + "B" * count for kind, count in pairs)
    )
)
def test_b_vops_are_shown_before_their_second_reference(kinds: str) -> None:
    first, *others = timed(kinds)
    found = proven("mpeg4", vol() + first, *others, extradata=vol())
    assert found is not None
    assert found.starts == [i for i, kind in enumerate(kinds) if kind == "I"]
    assert found.skips == [int(kind == "B") for kind in kinds]
    for i, kind in enumerate(kinds):
        if kind == "B":
            reference = max(j for j in range(i) if kinds[j] != "B")
            assert found.ordinals[i] == found.ordinals[i - 1] + 1 or kinds[i - 1] != "B"
            assert found.ordinals[i] < found.ordinals[reference]


@pytest.mark.parametrize("extradata", [b"", vol(buffers=True), vol()])
@pytest.mark.parametrize("buffers", [False, True])
def test_settings_may_stand_before_each_start_and_the_first_may_tell_the_sizes_of_buffers(
    extradata: bytes, buffers: bool
) -> None:
    # As DivX's encoder writes them; FFmpeg skips the sizes.
    data = vol(buffers=buffers) + vop("I"), vop("P", 1), vol() + vop("I", 2), vop("S", 3)
    found = proven("mpeg4", *data, extradata=extradata)
    assert found == Proof([0, 1, 2, 3], [0, 2], [0] * 4)


def test_packed_b_vops_are_decoded_with_the_placeholders_and_left_out_with_those_behind_them() -> (
    None
):
    """FFmpeg decodes each in the place of the next packet. If that brings another B-VOP, it would
    be lost with the packet."""
    i, p1, b1, p2, b2, b3 = timed("IPBPBB")
    found = proven("mpeg4", PACKED + i, p1 + b1, PLACEHOLDER, p2 + b2, b3, PLACEHOLDER)
    assert found == Proof([0, 2, 1, 5, 3, 4], [0], [0, 0, 1, 0, 2, 1])
    assert orders(proven("mpeg4", vol() + i, p1, b1, p2, b2, b3)) == found.ordinals
    found = proven("mpeg4", PACKED + i, p1 + b1, PLACEHOLDER, p2 + b2, b3)
    assert found is not None
    assert found.skips == [0, 0, 1, 0, 0], "the last one waits for another packet"
    for lost in (vop("P", 9), vop("P", 9) + vop("B", 8)):
        assert not proven("mpeg4", PACKED + i, p1 + b1, lost, PLACEHOLDER)


@pytest.mark.parametrize("padding", [b"", b"\x7f" * 40, bytes(60), b"\x55" * 500])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_vop_that_is_not_coded_gives_no_frame_however_long_its_packet_is(
    padding: bytes, at: int
) -> None:
    data = [vol() + vop("I"), *(vop("P", number) for number in range(1, 5))]
    data[at] = vop("P", at, is_coded=False) + padding
    assert orders(proven("mpeg4", *data)) == [*range(at), -1, *range(at, 4)]
    for count in (1, 2):  # at the end, FFmpeg shows the last picture once more
        assert not proven("mpeg4", *data[:at], *data[at : at + 1] * count)


@pytest.mark.parametrize("after", [(), (vop("P", 2),)])
def test_a_packet_of_one_byte_is_no_frame_in_a_file_of_divx(after: tuple[bytes, ...]) -> None:
    found = proven("mpeg4", vol() + DIVX + vop("I"), vop("P", 1), b"\x7f", *after)
    assert orders(found) == [0, 1, -1, 2][: 3 + len(after)]


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("kinds", ["IPP", "IPB"])
@pytest.mark.parametrize("interlaced", [0, 1])
def test_interlaced_files_are_proven_if_they_have_no_b_vops(
    even: bool, kinds: str, interlaced: int
) -> None:
    first, *others = timed(kinds)
    found = proven("mpeg4", vol(interlaced=interlaced, even=even) + first, *others)
    assert (found is None) is (bool(interlaced) and kinds == "IPB")


@pytest.mark.parametrize(
    ("one", "other"), [((0, 0, 31), (0, 0, 32)), ((0, 0, 59), (0, 1, 0)), ((0, 59, 59), (1, 0, 0))]
)
def test_a_time_code_sets_the_seconds(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    before, after = (
        vol() + b"\0\0\1\xb3" + coded("5:{} 6:{} 1 6:{} 10".format(*code)) for code in (one, other)
    )
    p, i, b = vop("P", 20), vop("I", 20), vop("B", 10)
    assert orders(proven("mpeg4", before + vop("I"), p, after + i, b)) == [0, 1, 3, 2]
    assert not proven("mpeg4", after + vop("I"), p, before + i, b), "it is not between them"


@pytest.mark.parametrize("seconds", [0, 1, 2, 5])
@pytest.mark.parametrize("resolution", [1, 25, 30000])
def test_coded_vops_are_found_at_every_resolution_of_time(seconds: int, resolution: int) -> None:
    time: Any = {"seconds": seconds, "size": max(1, (resolution - 1).bit_length())}
    i, p = (vop(kind, resolution - 1, **time) for kind in "IP")
    head = vol(resolution=resolution) + i
    assert orders(proven("mpeg4", head, p, p, p)) == [0, 1, 2, 3]
    skipped = vop("P", resolution - 1, is_coded=False, **time)
    assert orders(proven("mpeg4", head, p, skipped, p)) == [0, 1, -1, 2]


# H.264

IDR, SLICE = h264_slice(idr=True), h264_slice(1, 2)
SEI = b"\x06\x05\x10" + b"x264" * 4 + b"\x80"
DELIMITER = b"\x09\xf0"


def stream(types: str, counts: Sequence[int], sequence: bytes, **how: Any) -> Proof | None:
    """What is proven of pictures of types I (IDR), P and B, where a B is no reference."""
    data: list[bytes] = []
    number = 0
    for kind, count in zip(types, counts, strict=True):
        number *= kind != "I"
        unit = h264_slice(number, count, idr=kind == "I", reference=kind != "B", **how)
        data.append(annex_b(unit) if data else annex_b(sequence, pps(), unit))
        number += kind != "B"
    return proven("h264", *data, extradata=annex_b(sequence, pps()))


def held(pictures: int | None, *, full: bool = False) -> bytes:
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
    # The container may tell the settings.
    told = avc_configuration(sps(order_type=order_type))
    assert proven("h264", avcc(idr), avcc(DELIMITER, others[0]), extradata=told)


@pytest.mark.parametrize("full", [False, True])
def test_pictures_are_shown_by_their_counts_if_the_decoder_waits_for_them(full: bool) -> None:
    types, counts = "IPBBIPB", [0, 6, 2, 4, 0, 4, 2]
    found = stream(types, counts, held(1, full=full))
    assert found == Proof([0, 3, 1, 2, 4, 6, 5], [0, 4], [0, 0, 1, 1, 0, 0, 1])
    assert stream(types, counts, held(0)) is None, "the Bs come too late"
    assert stream(types, counts, held(None, full=full)) is None
    assert stream(types, counts, sps()) is None, "the decoder finds out too late"
    for chroma, is_scaled in ((1, False), (1, True), (3, True)):
        head = sps(profile=244, chroma=chroma, is_scaled=is_scaled)
        assert orders(stream("IPPB", [0, 2, 4, 6], head)) == [0, 1, 2, 3], "they are in order"
    # A pyramid needs a decoder that waits for two.
    assert orders(stream("IPPBB", [0, 8, 4, 2, 6], held(2))) == [0, 4, 2, 1, 3]
    assert stream("IPPBB", [0, 8, 4, 2, 6], held(1)) is None


@pytest.mark.parametrize(
    ("told", "refers", "references", "begins"),
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
    told: int, refers: bool, references: int, begins: bool
) -> None:
    before = [h264_slice(i, 2 * i, idr=not i) for i in range(references)]
    message = b"\x06\x06\x01" + bytes((told, 0x80))
    point = h264_slice(references, 2 * references + 2)
    leading = h264_slice(references + 1, 2 * references, reference=refers)
    last = h264_slice(references + 1 + refers, 2 * references + 4)
    found = proven(
        "h264", annex_b(held(1), pps(), before[0]), *map(annex_b, before[1:]),
        annex_b(message, point), annex_b(leading), annex_b(last), extradata=annex_b(held(1), pps()),
    )  # fmt: skip
    assert found is not None
    assert found.starts == ([0, references] if begins else [0])
    assert found.ordinals[references:] == [references + 1, references, references + 2]


def test_only_the_last_bits_of_a_count_are_written() -> None:
    pairs = [(i + 2, i + 1) for i in range(0, 300, 2)]
    counts = [2 * number for pair in pairs for number in pair]
    found = stream("I" + "PB" * 150, [0, *counts], held(1))
    assert orders(found) == [0, *(number for pair in pairs for number in pair)]


@pytest.mark.parametrize(("later", "ordinals"), [(0, [0, 2, 1]), (-2, [0, 1, 2]), (-1, None)])
def test_of_two_fields_in_a_frame_the_first_one_counts(
    later: int, ordinals: list[int] | None
) -> None:
    found = proven(
        "h264",
        annex_b(held(1), pps(counts_both=1), h264_slice(0, 0, idr=True, later=0)),
        annex_b(h264_slice(1, 3, later=later)),
        annex_b(h264_slice(2, 2, reference=False, later=0)),
    )
    assert (found.ordinals if found else None) == ordinals


def test_frames_may_be_interlaced_but_a_field_is_no_frame() -> None:
    sequence = sps(frames_only=0)
    assert orders(stream("IPP", [0, 2, 4], sequence, field=0)) == [0, 1, 2]
    assert stream("IPP", [0, 2, 4], sequence, field=1) is None


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
    for units in (
        (SLICE,), (IDR,), (DELIMITER,), (),
        (unreferenced, later, h264_slice(1, 2, first_macroblock=9)),
        (unreferenced, unreferenced),  # two pictures
        (later,),  # it has no first slice
        (SEI, unreferenced),  # what a message says may concern others
        (unreferenced, later, PPS),
    ):  # fmt: skip
        assert not found(*units)


@pytest.mark.parametrize(
    ("profile", "build", "starts"),
    [(244, b"148", [0]), (244, b"150", [0]), (244, b"151", [0, 2]), (66, b"148", [0, 2])],
)
def test_decoding_of_old_lossless_files_begins_only_where_the_encoder_is_named(
    profile: int, build: bytes, starts: list[int]
) -> None:
    head = (sps(profile=profile), PPS)
    encoder = b"\x06\x05\x30" + bytes(16) + b"x264 - core " + build + b" r2\x80"
    named = annex_b(*head, encoder, IDR)
    found = proven("h264", named, annex_b(SLICE), annex_b(*head, IDR))
    assert found is not None
    assert found.starts == starts
    both = proven("h264", named, named)
    assert both is not None
    assert both.starts == [0, 1], "each says it"


# HEVC

TRAIL, LONELY, RADL, RASL, HEVC_IDR, CRA = 1, 0, 7, 9, 19, 21
START = hevc_slice(HEVC_IDR)
HEVC_SPS, HEVC_PPS = hevc_sps(), hevc_pps()
END = b"\x48\x01"


def hevc(*units: bytes, sps: bytes = HEVC_SPS, pps: bytes = HEVC_PPS) -> Proof | None:
    """What pictures prove, a slice a packet, with settings told by the container."""
    return proven("hevc", *map(avcc, units), extradata=hevc_configuration(sps, pps))


def test_hevc_pictures_are_shown_by_their_counts_if_the_decoder_waits_for_them() -> None:
    group = (
        START, hevc_slice(TRAIL, 3, -3), hevc_slice(LONELY, 1, -1, 2), hevc_slice(LONELY, 2, -2, 1),
    )  # fmt: skip
    found = hevc(*group, *group[:2])
    assert found is not None
    assert found[:2] == ([0, 3, 1, 2, 4, 5], [0, 4])
    assert orders(hevc(START, hevc_slice(TRAIL, 1, -1))) == [0, 1]
    assert hevc(*group, sps=hevc_sps(waiting=0)) is None, "the others come too late"
    assert hevc(*group, sps=hevc_sps(buffer=2)) is None, "there is no room to wait"
    assert orders(hevc(*group, sps=hevc_sps(has_pcm=True))) == [0, 3, 1, 2]
    for kind in (TRAIL, 3, 5):
        units = [hevc_slice(kind, count, -1) for count in range(1, 600)]
        assert orders(hevc(START, *units)) == [*range(600)], "only the last bits are written"


def test_hevc_settings_may_stand_before_each_start() -> None:
    head = annex_b(b"\x46\x01\x50", HEVC_SPS, HEVC_PPS, START)
    found = proven("hevc", head, annex_b(hevc_slice(TRAIL, 1, -1)), head)
    assert found is not None
    assert found.starts == [0, 2]
    assert not proven("hevc", head, annex_b(hevc_sps(width=66), HEVC_PPS, START))
    assert not proven("hevc", head, annex_b(START)), "a decoder may begin there"


def test_leading_pictures_are_shown_before_the_start_that_they_follow_or_are_skipped() -> None:
    after = hevc_slice(TRAIL, 5, -1)
    cra, rasl, radl = hevc_slice(CRA, 4, -3), hevc_slice(RASL, 2, -1, 2), hevc_slice(RADL, 3, 1)
    found = hevc(START, hevc_slice(TRAIL, 1, -1), cra, rasl, radl, after)
    assert found is not None
    assert found[:2] == ([0, 1, 4, 2, 3, 5], [0, 2])
    # A decoder that begins there lacks what some refer to.
    assert orders(hevc(cra, rasl, hevc_slice(RASL, 3, -1, 1), after)) == [0, -1, -1, 1]


def test_reference_picture_sets_may_be_those_of_the_sequence() -> None:
    sets = hevc_sps(sets=(references(-1), "1 1 g0 1 1"))  # the second: one less each, and -1
    told = [hevc_slice(TRAIL, number + 1, set_number=number, sets=2) for number in (0, 1)]
    assert hevc(START, *told, sps=sets)
    assert hevc(START, hevc_slice(TRAIL, 1, -1, sets=2), sps=sets)
    assert hevc(START, told[0], hevc_slice(TRAIL, 2, set_number=0, sets=2), sps=sets)
    assert not hevc(START, hevc_slice(TRAIL, 1, set_number=1, sets=2), sps=sets), "-2 is not there"
    for back, is_there in ((0, True), (1, False)):  # one less than those of the last set: -2 and -1
        own = hevc_slice(TRAIL, 2, sets=1, by_another=f"1 g{back} 1 g0 1 1")
        found = hevc(
            START, hevc_slice(TRAIL, 1, -1, sets=1), own, sps=hevc_sps(sets=[references(-1)])
        )
        assert bool(found) == is_there, "there is one set"


@pytest.mark.parametrize(
    "how",
    [
        {"pps": hevc_pps(may_hide=1)},
        {"sps": hevc_sps(width=66)},
        {"sps": hevc_sps(has_long_term=True)},
        {"sps": HEVC_SPS[:20]},
        {"sps": hevc_sps(waiting=5)},  # it waits for more than it holds
    ],
)
def test_some_hevc_settings_prove_nothing(how: dict[str, bytes]) -> None:
    assert hevc(START, hevc_slice(TRAIL, 1, -1, long_term=1), **how) is None
    assert hevc(START, hevc_slice(TRAIL, 1, -1))


@pytest.mark.parametrize(
    ("units", "is_proven"),
    [
        ((START, hevc_slice(HEVC_IDR, first=0)), True),  # a second slice
        ((START, hevc_slice(TRAIL, 1, -1, first=0)), False),
        ((START, START), False),
        ((HEVC_SPS, START, HEVC_PPS), False),
        ((b"\x52\x01", START), False),  # a reserved kind
        ((b"\x7c\x01x", START), True),  # of no meaning
        ((b"\x46\x01\x50",), False),
    ],
)
def test_a_hevc_packet_is_one_picture(units: tuple[bytes, ...], is_proven: bool) -> None:
    told = hevc_configuration(HEVC_SPS, HEVC_PPS)
    assert (proven("hevc", avcc(*units), extradata=told) is not None) is is_proven


@pytest.mark.parametrize(("following", "is_proven"), [(START, True), (hevc_slice(CRA, 4), False)])
def test_after_the_end_of_a_sequence_another_one_begins(following: bytes, is_proven: bool) -> None:
    told = hevc_configuration(HEVC_SPS, HEVC_PPS)
    found = proven("hevc", avcc(START, END), avcc(following), extradata=told)
    assert (found is not None) is is_proven


# VP9

KEY, HIDDEN = vp9(key=True), vp9(shown=0)


@pytest.mark.parametrize("profile", range(4))
def test_decoding_begins_at_key_frames_that_are_shown(profile: int) -> None:
    key, inter = vp9(key=True, profile=profile), vp9(profile=profile)
    found = proven("vp9", key, inter, superframe(vp9(shown=0, profile=profile), inter), key)
    assert found == Proof([0, 1, 2, 3], [0, 3], [0] * 4)
    hidden = superframe(vp9(key=True, shown=0), vp9()), superframe(HIDDEN, KEY)
    assert proven("vp9", KEY, *hidden) == Proof([0, 1, 2], [0], [0] * 3)


def test_a_vp9_packet_may_show_nothing_or_a_frame_once_more() -> None:
    found = proven("vp9", KEY, HIDDEN, superframe(HIDDEN, vp9()), VP9_AGAIN)
    assert orders(found) == [0, -1, 1, 2]


# AV1

SEQUENCE = av1_unit(2) + av1_sequence()
AV1_START = SEQUENCE + av1_frame(key=True)


def av1(*data: bytes) -> Proof | None:
    return proven("libdav1d", *data)


@pytest.mark.parametrize("full", [0, 1])
def test_decoding_begins_at_key_frames_behind_a_sequence_header(full: int) -> None:
    start = av1_sequence(full=full) + av1_frame(key=True, full=full)
    hidden = av1_frame(2, shown=False, replaces=1, full=full)
    second, third = av1_unit(2) + hidden + av1_frame(1, full=full), av1_again()
    found = av1(start, second, third, av1_frame(3, key=True, full=full), start)
    assert found is not None
    assert found[:2] == ([0, 1, 2, 3, 4], [0, 4])


def test_an_av1_packet_may_show_nothing() -> None:
    hidden, key = av1_frame(1, shown=False, replaces=4), av1_frame(1, key=True, shown=False)
    found = av1(AV1_START, hidden, av1_again(2), SEQUENCE + key + av1_frame(2))
    assert found is not None
    assert found[:2] == ([0, -1, 1, 2], [0])


def test_nobody_refers_to_a_frame_that_no_slot_keeps() -> None:
    hidden, alone = av1_frame(2, shown=False, replaces=1), av1_frame(3, replaces=0)
    found = av1(AV1_START, hidden + av1_frame(1, replaces=0), av1_again(), av1_unit(2) + alone)
    assert found is not None
    assert found.skips == [0, 0, 0, 1], "a hidden one stands before the second"
    kept = av1(AV1_START, av1_frame(1, replaces=1))
    assert kept is not None
    assert kept.skips == [0, 0]


def test_the_last_unit_may_lack_its_length() -> None:
    frame = av1_frame(1)
    assert av1(AV1_START, bytes((frame[0] & ~2,)) + frame[2:])


def test_a_hint_that_is_left_out_is_a_packet_that_is_missing() -> None:
    frames = [av1_frame(hint) for hint in range(1, 300)]
    assert av1(AV1_START, *frames), "only the last bits are written"
    assert not av1(AV1_START, *frames[:7], *frames[8:])
    hidden = av1_frame(2, shown=False, replaces=1)
    assert av1(AV1_START, hidden + frames[0], av1_again(), frames[2])
    assert not av1(AV1_START, frames[0], av1_again(), frames[2]), "the slot keeps another"
    start = av1_sequence(hints=0) + av1_frame(None, key=True)
    assert av1(start, av1_frame(None), av1_frame(None)), "without hints nothing is known"


@pytest.mark.parametrize("is_key", [False, True])
def test_a_key_frame_that_is_shown_later_is_in_all_slots_then(is_key: bool) -> None:
    later = [av1_frame(hint) for hint in range(3, 130)]
    again = av1_again(5)  # is 2 again, as the next hint is
    hidden = av1_frame(2, key=is_key, shown=False, replaces=1)
    found = av1(AV1_START, hidden + av1_frame(1), av1_again(), *later, again)
    assert (found is not None) is is_key


# A doubt is no proof

H264 = annex_b(sps(), PPS, IDR)
KEY1 = av1_frame(key=True)
START1 = SEQUENCE + KEY1
SECOND = hevc_slice(TRAIL, 1, -1)

DOUBTS: dict[str, dict[str, list[bytes]]] = {
    "mpeg4": {
        "an empty video": [],
        "no header of the layer": [vop("I")],
        "does not begin with a key frame": [vol() + vop("P"), vop("I")],
        "a packet without a VOP": [vol() + vop("I"), b"\0\0\1\xb3" + bytes(30)],
        "a byte, and no word of DivX": [vol() + vop("I"), b"\x7f"],
        "settings change": [vol() + vop("I"), vol(resolution=30) + vop("I")],
        "settings change, and are not understood": [
            vol(buffers=True, matrices=1) + vop("I"), vol(matrices=1) + vop("I")],
        "a key frame without settings": [vol() + vop("I"), vop("I", 1)],
        "B-VOPs denied": [vol(low_delay=1) + vop("I"), vop("P", 2), vop("B", 1)],
        "B-VOPs not told of": [vol(low_delay=None) + vop("I"), vop("P", 2), vop("B", 1)],
        "a B-VOP after its references": [vol() + vop("I"), vop("P", 2), vop("B", 3)],
        "B-VOPs, and some that are not coded": [
            vol() + vop("I"), vop("P", 2), vop("B", 1), vop("P", 3, is_coded=False)],
        "not coded, at the end": [vol() + vop("I"), vop("P", 1), vop("P", 2, is_coded=False)],
    },
    "msmpeg4": {"another type": [msmpeg4(0), msmpeg4(2)]},
    "vp8": {"another size": [vp8(key=True), vp8(key=True, width=32)]},
    "cinepak": {"an unknown codec": [PAYLOAD]},
    "vp9": {
        "begins in the middle": [vp9(), KEY],
        "shows two": [KEY, superframe(vp9(), vp9())],
        "shows two, one of them again": [KEY, superframe(vp9(), VP9_AGAIN)],
        "another size": [vp9(key=True, width=66)],
        "no frame": [KEY, b"\x40" + vp9()],
        "a wrong index": [KEY, vp9() + b"\xc8\xff\xff\xc8"],
    },
    "libdav1d": {
        "begins in the middle": [av1_frame(0), START1],
        "no sequence header": [KEY1],
        "shows two": [START1, av1_frame(1) + av1_again()],
        "another sequence": [START1, av1_sequence(hints=0) + KEY1],
        "another size": [av1_sequence(width=66) + KEY1],
        "layers": [av1_sequence(layers=0x103) + KEY1],
        "of a layer": [START1, av1_unit(6, av1_frame(1)[2:], layer=True)],
        "a header once more": [START1, av1_unit(7, av1_frame(1)[2:])],
        "cut off": [START1, av1_frame(1)[:-1]],
        "an empty frame": [START1, av1_unit(6)],
        "no frame": [START1, SEQUENCE],
    },
    "h264": {
        "begins in the middle": [annex_b(sps(), PPS, SLICE)],
        "no settings": [annex_b(IDR)],
        "a reference is missing": [H264, annex_b(h264_slice(2, 4))],
        "same count": [H264, annex_b(SLICE), annex_b(h264_slice(2, 2))],
        "shown before the IDR": [H264, annex_b(h264_slice(1, -2))],
        "an IDR that is none": [annex_b(sps(), PPS, h264_slice(idr=True, reference=False))],
        "one of two sequences": [annex_b(sps(), sps(width=9), PPS, IDR)],
        "one of two kinds": [annex_b(sps(), PPS, pps(counts_both=1), IDR)],
        "counted in an unusual way": [annex_b(sps(order_type=1), PPS, IDR)],
        "waits too long": [annex_b(sps(usability=usability(17)), PPS, IDR)],
        "a sequence that is cut off": [annex_b(sps()[:-1], PPS, IDR)],
        "numbers may be left out": [annex_b(sps(gaps=1), PPS, IDR)],
        "a slice a packet": [H264, annex_b(h264_slice(1, 2, first_macroblock=9))],
        "a packet without a picture": [H264, annex_b(SEI)],
        "an IDR without settings": [H264, annex_b(IDR)],
        "settings change": [H264, annex_b(sps(order_type=2), PPS, IDR)],
        "lengths, where start codes should be": [avcc(sps(), PPS, IDR)],
    },
    "hevc": {
        "begins in the middle": [SECOND, START],
        "a reference is missing": [START, hevc_slice(1, 2, -1)],
        "the same count twice": [START, SECOND, SECOND],
        "it refers to a picture before the start": [
            START, SECOND, hevc_slice(21, 3, -2), hevc_slice(1, 4, -1, -3)],
        "a start that is shown before others": [START, SECOND, hevc_slice(21, -1, 1)],
        "a broken link": [START, hevc_slice(16, 3)],
        "another kind": [START, hevc_slice(22, 3)],
        "pictures before it are dropped": [START, hevc_slice(19, hides=1)],
        "another layer": [START, hevc_slice(1, 1, -1, layer=1)],
        "not the first slice": [START, hevc_slice(1, 1, -1, first=0)],
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("codec", "data"),
    [pytest.param(c, data, id=f"{c}: {why}") for c in DOUBTS for why, data in DOUBTS[c].items()],
)
def test_a_doubt_is_no_proof(codec: str, data: list[bytes]) -> None:
    is_hevc = codec == "hevc"
    told = hevc_configuration(hevc_sps(), hevc_pps()) if is_hevc else b""
    assert not proven(codec, *(map(avcc, data) if is_hevc else data), extradata=told)


BEGINNINGS: dict[str, list[bytes]] = {
    "mpeg4": [vol() + vop("I"), vol(low_delay=None) + b"\0\0\1\xb2DivX503b1393p" + vop("I")],
    "vp9": [KEY],
    "libdav1d": [START1, SEQUENCE[:2], av1_unit(6)[:1], av1_unit(1)[:1]],
    "h264": [H264, annex_b(sps(), PPS), b"\0\0\0\1"],
    "hevc": [annex_b(hevc_sps(), hevc_pps(), START), b"\0\0\0\1\x02\x01"],
}
EXTRADATA: dict[str, list[bytes]] = {
    "h264": [avc_configuration(sps())],
    "hevc": [hevc_configuration(hevc_sps(), hevc_pps()), hevc_configuration(hevc_sps()[:9])],
}


@given(
    st.sampled_from(sorted(PROVABLE)),
    st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=6),
    st.binary(max_size=40), st.integers(0, 9), st.integers(0, 9),
)  # fmt: skip
def test_garbage_raises_nothing_and_starts_are_packets(
    codec: str, data: list[bytes], told: bytes, first: int, rest: int
) -> None:
    begins = [b"", b"", *BEGINNINGS.get(codec, [])]
    head, each = begins[first % len(begins)], begins[rest % len(begins)]
    whole = EXTRADATA.get(codec, [b""])[first % len(EXTRADATA.get(codec, [b""]))]
    for extradata in (told, whole, whole[: len(told)] + told):
        found: Any = proven(
            codec, head + data[0], *(each + part for part in data), extradata=extradata
        )
        if found:
            assert found.ordinals[0] >= 0 or max(found.ordinals) >= 0
            assert found.starts[0] == 0
            assert found.starts == sorted(set(found.starts))
            assert found.starts[-1] <= len(data)


@pytest.mark.timeout(5)
@pytest.mark.parametrize("count", [256, (1 << 26) - 2])
def test_a_sequence_parameter_set_that_says_more_than_the_standard_allows_proves_nothing(
    count: int,
) -> None:
    long = coded(f"8:0x67 8:66 8:0 8:30 g0 g0 g1 0 g0 g0 g{count}") + b"\xff" * (1 << 20)
    data = [annex_b(long, PPS, IDR), annex_b(h264_slice())]
    assert prove(packets("h264", data, extradata=annex_b(long, PPS))) is None
