"""What headers prove of codecs without B-pictures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bitstreams import PAYLOAD, BitWriter, packets
from videoload.bitstreams.proofs import PROVABLE, JpegHeader, jpeg_header, prove

INTRA_ONLY = ("dvvideo", "ffvhuff", "huffyuv", "magicyuv", "rawvideo", "utvideo")


def vp8(*, key: bool, shown: bool = True, width: int = 64) -> bytes:
    tag = (not key) | shown << 4
    start = b"\x9d\x01\x2a" + width.to_bytes(2, "little") + (48).to_bytes(2, "little")
    return bytes((tag, 0, 0)) + (start if key else b"") + PAYLOAD


def msmpeg4(kind: int, after: int = 0) -> bytes:
    return BitWriter().put(kind, after + 2).put(0, 6).to_bytes() + PAYLOAD


@pytest.mark.parametrize("codec", INTRA_ONLY)
def test_each_packet_of_an_intra_only_codec_is_a_frame(codec: str) -> None:
    pictures = prove(packets(codec, [PAYLOAD] * 3))
    assert pictures is not None
    assert (pictures.frames, pictures.starts.tolist()) == (3, [0, 1, 2])
    assert prove(packets(codec, [PAYLOAD, b"\0"])) is None, "it may stand for a picture dropped"


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
    pictures = prove(packets(codec, [key, other, other, key, other]))
    assert pictures is not None
    assert (pictures.frames, pictures.starts.tolist()) == (5, [0, 3])
    assert prove(packets(codec, [other, key])) is None


def test_a_picture_of_another_type_proves_nothing() -> None:
    assert prove(packets("msmpeg4", [msmpeg4(0), msmpeg4(2)])) is None


def test_a_picture_of_another_size_proves_nothing() -> None:
    assert prove(packets("vp8", [vp8(key=True), vp8(key=True, width=32)])) is None


def test_vp8_pictures_that_are_not_shown_give_no_frame() -> None:
    pictures = prove(packets("vp8", [vp8(key=True), vp8(key=False, shown=False), vp8(key=False)]))
    assert pictures is not None
    assert pictures.frames == 2


def test_an_empty_video_and_an_unknown_codec_prove_nothing() -> None:
    assert prove(packets("mpeg4", [])) is None
    assert prove(packets("cinepak", [PAYLOAD])) is None
    assert "cinepak" not in PROVABLE


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


def test_mjpeg_pictures_that_bring_their_tables_are_key_frames() -> None:
    pictures = prove(packets("mjpeg", [WHOLE] * 3))
    assert pictures is not None
    assert pictures.frames == 3
    assert prove(packets("mjpeg", [WHOLE, BARE, BARE])) is None, "they take another's tables"
    assert prove(packets("mjpeg", [BARE] * 3)) is not None, "those of the standard"
    for bare in (2, 20, 99):
        some = [BARE if i == bare else WHOLE for i in range(100)]
        assert prove(packets("mjpeg", some)) is None, "one takes another's"


@pytest.mark.parametrize("odd", [BARE, FIELD])
@pytest.mark.parametrize("at", [9, 57, 99])
def test_one_mjpeg_picture_that_is_no_whole_frame_proves_nothing(odd: bytes, at: int) -> None:
    long = [WHOLE + bytes(100_000)] * 100
    assert prove(packets("mjpeg", long)) is not None
    long[at] = odd + bytes(100_000)
    assert prove(packets("mjpeg", long)) is None


def test_two_mjpeg_fields_in_one_packet_are_a_frame() -> None:
    assert prove(packets("mjpeg", [FIELD] * 4)) is None
    pictures = prove(packets("mjpeg", [FIELD + FIELD] * 4))
    assert pictures is not None
    assert pictures.frames == 4
    assert prove(packets("mjpeg", [FIELD + FIELD] * 3 + [FIELD])) is None


@given(
    st.sampled_from(sorted(PROVABLE)),
    st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=6),
    st.binary(max_size=20),
)
def test_garbage_raises_nothing_and_starts_are_packets(
    codec: str, data: list[bytes], extradata: bytes
) -> None:
    pictures = prove(packets(codec, data, extradata=extradata))
    if pictures is not None:
        assert 0 < pictures.frames <= len(data)
        assert pictures.starts[0] == 0
        assert (np.diff(pictures.starts) > 0).all()
        assert pictures.starts[-1] < len(data)
