"""What headers prove of codecs that have no prover of their own, and that garbage proves nothing:
that is of all codecs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bitstreams import (
    PAYLOAD,
    PPS,
    Bits,
    Proof,
    annex_b,
    av1_frame,
    av1_sequence,
    av1_unit,
    avc_configuration,
    h264_slice,
    hevc_configuration,
    hevc_pps,
    hevc_slice,
    hevc_sps,
    proof,
    proven,
    sps,
    vol,
    vop,
    vp9,
)
from videoload.bitstreams.proofs import INTRA_ONLY, PROVABLE, JpegHeader, jpeg_header


def vp8(*, key: bool, shown: bool = True, width: int = 64) -> bytes:
    start = b"\x9d\x01\x2a" + width.to_bytes(2, "little") + (48).to_bytes(2, "little")
    return bytes(((not key) | shown << 4, 0, 0)) + start * key + PAYLOAD


def msmpeg4(kind: int, after: int = 0) -> bytes:
    """A picture whose kind (0: I, 1: P) stands behind so many bits."""
    return Bits().u(after + 2, kind).u(6, 0).padded() + PAYLOAD


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
    found = proof("vp8", vp8(key=True), vp8(key=False, shown=False), vp8(key=False))
    assert found.ordinals == [0, -1, 1]


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        pytest.param("msmpeg4", [msmpeg4(0), msmpeg4(2)], id="another type"),
        pytest.param("vp8", [vp8(key=True), vp8(key=True, width=32)], id="another size"),
        pytest.param("cinepak", [PAYLOAD], id="an unknown codec"),
    ],
)
def test_a_doubt_is_no_proof(codec: str, data: list[bytes]) -> None:
    assert not proven(codec, *data)


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


# Garbage

SEQUENCE = av1_unit(2) + av1_sequence()
BEGINNINGS: dict[str, list[bytes]] = {
    "mpeg4": [vol() + vop("I"), vol(low_delay=None) + b"\0\0\1\xb2DivX503b1393p" + vop("I")],
    "vp9": [vp9(key=True)],
    "libdav1d": [
        SEQUENCE + av1_frame(key=True),
        SEQUENCE[:2],
        av1_unit(6)[:1],
        av1_unit(1)[:1],
    ],
    "h264": [annex_b(sps(), PPS, h264_slice(idr=True)), annex_b(sps(), PPS), b"\0\0\0\1"],
    "hevc": [annex_b(hevc_sps(), hevc_pps(), hevc_slice(19)), b"\0\0\0\1\x02\x01"],
}
EXTRADATA: dict[str, list[bytes]] = {
    "h264": [avc_configuration(sps())],
    "hevc": [hevc_configuration(hevc_sps(), hevc_pps()), hevc_configuration(hevc_sps()[:9])],
}


@given(
    st.sampled_from(sorted(PROVABLE)),
    st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=6),
    st.binary(max_size=40),
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_garbage_raises_nothing_and_starts_are_packets(
    codec: str, data: list[bytes], told: bytes, first: int, rest: int
) -> None:
    """Also behind the beginning of a good file, with the settings of one."""
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
