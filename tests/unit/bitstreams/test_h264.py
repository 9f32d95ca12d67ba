"""What H.264 headers prove, on headers written bit by bit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bitstreams import (
    PPS,
    BitWriter,
    annex_b,
    avc_configuration,
    avcc,
    h264_slice,
    packets,
    sps,
    usability,
)
from videoload.bitstreams.h264 import may_turn
from videoload.bitstreams.pictures import Pictures
from videoload.bitstreams.proofs import prove

IDR = h264_slice(idr=True)
SLICE = h264_slice()
SEI = b"\x06\x05\x10" + b"x264" * 4 + b"\x80"
DELIMITER = b"\x09\xf0"


def proven(*data: bytes, extradata: bytes = b"", has_b_frames: bool = False) -> Pictures | None:
    return prove(packets("h264", data, extradata=extradata, has_b_frames=has_b_frames))


@pytest.mark.parametrize("has_b_frames", [False, True])
@pytest.mark.parametrize("order_type", [0, 1, 2])
def test_each_packet_is_a_picture_and_decoding_begins_at_idrs(
    order_type: int, has_b_frames: bool
) -> None:
    head = annex_b(sps(order_type=order_type), PPS, SEI, IDR)
    pictures = proven(head, annex_b(SLICE), annex_b(SLICE), head, has_b_frames=has_b_frames)
    assert pictures is not None
    assert (pictures.frames, pictures.starts.tolist()) == (4, [0, 3])
    assert pictures.reordered == has_b_frames


def test_the_container_may_tell_the_settings() -> None:
    pictures = proven(avcc(IDR), avcc(DELIMITER, SLICE), extradata=avc_configuration(sps()))
    assert pictures is not None
    assert pictures.frames == 2


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("kind", range(10))
def test_b_slices_are_proven_if_the_sps_says_how_far_they_are_reordered(
    kind: int, full: bool
) -> None:
    def is_proven(sequence: bytes) -> bool:
        data = (
            annex_b(sequence, PPS, IDR),
            annex_b(DELIMITER, SLICE),
            annex_b(h264_slice(kind=kind)),
        )
        return proven(*data, has_b_frames=True) is not None

    assert is_proven(sps(usability=usability(restricted=True, full=full)))
    assert is_proven(sps(order_type=2)), "they are in order"
    is_b = kind % 5 == 1
    assert is_proven(sps()) is not is_b
    assert is_proven(sps(usability=usability(restricted=False, full=full))) is not is_b


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
        pytest.param([annex_b(sps(frames_only=False), PPS, IDR)], id="may be fields"),
        pytest.param([annex_b(sps(gaps=True), PPS, IDR)], id="numbers may be left out"),
        pytest.param(
            [annex_b(sps(), PPS, IDR), annex_b(h264_slice(first_macroblock=9))],
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


def _with_lengths(*units: bytes) -> bytes:
    return b"".join(len(unit).to_bytes(4, "big") + unit for unit in units)


def _with_start_codes(*units: bytes) -> bytes:
    return b"".join(b"\0\0\0\1" + unit for unit in units)


@pytest.mark.parametrize(
    ("units", "may"),
    [
        ((b"\x67sps", b"\x65slice"), False),
        ((b"\x06\x05\x03abc\x80", b"\x65slice"), False),  # a text
        ((b"\x06\x05\x03abc\x01\x01x\x80", b"\x65slice"), False),
        ((b"\x06\x2f\x03abc\x80", b"\x65slice"), True),  # "display orientation"
        ((b"\x06\x05\x03abc\x2f\x01x\x80", b"\x65slice"), True),
        ((b"\x06\x05\xff\x01" + b"a" * 256 + b"\x2f\x01x\x80", b"\x65slice"), True),
        ((b"\x06\x05\x09abc\x80", b"\x65slice"), True),  # it is cut off
        ((b"\x06\x05\x03\0\0\3\x02\x2f\x01x\x80", b"\x65slice"), True),  # behind an escape
        ((b"\x06\x05\x03abc\x80",), True),  # the picture is farther behind
        ((b"\x65slice", b"\x06\x2f\x03abc\x80"), False),  # of another picture
    ],
)
def test_a_message_that_turns_a_picture_is_seen(units: tuple[bytes, ...], may: bool) -> None:
    configuration = b"\1\x64\0\x1f\xff\xe0\0\0"  # lengths of four bytes, no settings
    assert may_turn(configuration, _with_lengths(*units)) is may
    assert may_turn(b"", _with_start_codes(*units)) is may
