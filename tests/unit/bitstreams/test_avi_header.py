"""What the header of a plain AVI file says, and what makes it one for FFmpeg."""

from __future__ import annotations

import struct
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.avi_files import chunk
from tests.support.bitstreams import BitWriter
from videoload.bitstreams.avi_header import AviHeader, read_avi_header

PICTURE = b"\0\0\1\xb6" + bytes(20)


def strh(
    kind: bytes = b"vids", handler: bytes = b"xvid", rate: int = 25, start: int = 0, scale: int = 1
) -> bytes:
    told = struct.pack("<4s4sIHHIIIII", kind, handler, 0, 0, 0, 0, scale, rate, start, 40)
    return chunk(b"strh", told.ljust(56, b"\0"))


def strf(tag: bytes = b"xvid", extra: bytes = b"", bits: int = 24) -> bytes:
    told = struct.pack("<IiiHH4sIiiII", 40, 320, 240, 1, bits, tag, 0, 0, 0, 0, 0)
    return chunk(b"strf", told + extra)


def vprp(high: int, wide: int) -> bytes:
    told = struct.pack("<5I2H3I", 0, 0, 0, 0, 0, high, wide, 320, 240, 1)
    return chunk(b"vprp", told + bytes(32))


def listed(name: bytes, *parts: bytes) -> bytes:
    return chunk(b"LIST", name + b"".join(parts))


VIDEO = listed(b"strl", strh(), strf())
SOUND = listed(b"strl", strh(b"auds"), chunk(b"strf", bytes(18)))


def avi(*streams: bytes, behind: bytes = b"") -> bytes:
    header = listed(b"hdrl", chunk(b"avih", bytes(56)), *streams) + behind
    return b"RIFF\0\0\0\0AVI " + header + listed(b"movi", bytes(100))


def layer(width: int = 320, height: int = 240, aspect: int = 1) -> bytes:
    bits = BitWriter().put(0, 1).put(1, 8).put(0, 1).put(aspect, 4).put(0, 1).put(0, 2).put(1, 1)
    bits.put(25, 16).put(1, 1).put(0, 1).put(1, 1).put(width, 13).put(1, 1).put(height, 13)
    made = b"\0\0\1\x20" + bits.put(1, 1).put(0, 1).put(0, 30).to_bytes()
    return made + bytes(len(made) % 2)


def read(*streams: bytes, behind: bytes = b"") -> AviHeader:
    found = read_avi_header(avi(*streams, behind=behind))
    assert found is not None
    return found


def test_a_plain_header_tells_the_stream_and_its_pictures() -> None:
    header = read(VIDEO, SOUND, behind=chunk(b"JUNK", bytes(7)))
    assert (header.stream, header.streams) == (0, 2)
    assert avi(VIDEO, SOUND, behind=chunk(b"JUNK", bytes(7)))[header.movi :][:4] == b"movi"
    assert header.video.size == (320, 240)
    assert header.video.rate == 25
    assert (header.video.tag, header.video.bits, header.video.aspect) == ("xvid", 24, None)
    assert read(SOUND, VIDEO).stream == 1


def test_the_handler_of_xvid_is_the_tag() -> None:
    header = read(listed(b"strl", strh(handler=b"XVID"), strf(b"DX50")))
    assert header.video.tag == "XVID"


def test_texts_and_names_are_skipped() -> None:
    info = listed(b"INFO", chunk(b"ISFT", b"made by no one"), chunk(b"INAM", b"odd"))
    assert read(listed(b"strl", strh(), strf(), chunk(b"strn", b"name")), behind=info)


def test_a_file_inside_the_texts_is_not_the_file() -> None:
    other = listed(b"hdrl", listed(b"strl", strh(rate=10), strf())) + listed(b"movi", bytes(9))
    inside = avi(VIDEO, behind=listed(b"INFO", other))
    found = read_avi_header(inside)
    assert found is not None
    assert found.movi > inside.rindex(b"LIST")
    assert found.video.rate == 25
    cut = avi(VIDEO, behind=listed(b"INFO", other[:-6]))
    assert read_avi_header(cut) is None, "the chunks of the texts do not fill their list"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(avi(VIDEO)[:200], id="cut off"),
        pytest.param(b"RIFX" + avi(VIDEO)[4:], id="another order of bytes"),
        pytest.param(avi(SOUND), id="no video"),
        pytest.param(avi(VIDEO, VIDEO), id="two videos"),
        pytest.param(avi(VIDEO, listed(b"strl", strh(b"txts"), strf())), id="subtitles"),
        pytest.param(avi(listed(b"strl", strh(), strf(b"MJPG"))), id="another codec"),
        pytest.param(avi(listed(b"strl", strh())), id="no format"),
        pytest.param(avi(listed(b"strl", strh(), strf(), strf())), id="two formats"),
        pytest.param(avi(listed(b"strl", strh(), chunk(b"strd", bytes(8)), strf())), id="strd"),
        pytest.param(avi(listed(b"strl", strh(), strf(), chunk(b"indx", bytes(8)))), id="OpenDML"),
        pytest.param(avi(listed(b"strl", strh(start=3), strf())), id="begins late"),
        pytest.param(avi(listed(b"strl", strh(rate=1), strf())), id="slow"),
        pytest.param(avi(listed(b"strl", strh(rate=1000), strf())), id="fast"),
        pytest.param(avi(listed(b"strl", strh(rate=0, scale=0), strf())), id="no rate"),
        pytest.param(avi(listed(b"strl", strh(), strf(extra=b"a", bits=8))), id="a palette"),
        pytest.param(avi(listed(b"strl", strh(), strf(), vprp(1, 1000))), id="stretched"),
        pytest.param(avi(VIDEO, behind=chunk(b"what", b"ever")), id="something else"),
        pytest.param(avi(VIDEO).replace(b"LIST", b"LOST", 1), id="no list"),
    ],
)
def test_what_is_not_plain_is_left_to_ffmpeg(data: bytes) -> None:
    assert read_avi_header(data) is None


@pytest.mark.parametrize(
    ("high", "wide", "aspect"), [(3, 4, 1), (9, 16, Fraction(4, 3)), (0, 4, None)]
)
def test_the_container_may_tell_the_aspect_of_pixels(
    high: int, wide: int, aspect: Fraction | None
) -> None:
    assert read(listed(b"strl", strh(), strf(), vprp(high, wide))).video.aspect == aspect


def test_the_bytes_before_the_first_picture_are_the_settings_of_the_decoder() -> None:
    video = read(VIDEO).video
    first = video.settings(layer() + PICTURE)
    assert first is not None
    assert first.extradata == layer()
    assert (first.size, first.tag, first.bits) == ((320, 240), "xvid", 24)
    assert video.settings(layer() + PICTURE[:8] + b"another") is first, "kept once for all files"
    group = layer() + b"\0\0\1\xb3\0\0\0"
    assert video.settings(group + PICTURE) == first


def test_the_settings_of_the_decoder_may_be_in_the_container() -> None:
    video = read(listed(b"strl", strh(), strf(extra=layer()))).video
    told = video.settings(PICTURE)
    assert told is not None
    assert told.extradata == layer()


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(layer(), id="no picture"),
        pytest.param(PICTURE, id="no layer"),
        pytest.param(layer(width=352) + PICTURE, id="of another size"),
        pytest.param(layer(aspect=2) + PICTURE, id="pixels that are not square"),
        pytest.param(b"\0\0\1\xb0\xe1" + layer() + PICTURE, id="of a studio"),
    ],
)
def test_a_decoder_that_needs_more_is_left_to_ffmpeg(packet: bytes) -> None:
    assert read(VIDEO).video.settings(packet) is None


def test_the_aspect_in_the_codec_does_not_matter_if_the_container_has_one() -> None:
    video = read(listed(b"strl", strh(), strf(), vprp(3, 4))).video
    assert video.settings(layer(aspect=2) + PICTURE) is not None


def test_two_layers_that_differ_are_left_to_ffmpeg() -> None:
    video = read(listed(b"strl", strh(), strf(extra=layer(aspect=0)))).video
    assert video.settings(layer() + PICTURE) is not None
    video = read(listed(b"strl", strh(), strf(extra=layer(width=352)))).video
    assert video.settings(layer() + PICTURE) is None


@given(st.binary(max_size=300), st.integers(0, 260))
def test_garbage_raises_nothing(data: bytes, at: int) -> None:
    plain = avi(VIDEO)
    for damaged in (data, plain[:at] + data + plain[at + len(data) :]):
        header = read_avi_header(damaged)
        if header is not None:
            assert damaged[header.movi :][:4] == b"movi"
            header.video.settings(data)
