"""Frames are turned, mirrored and cut as a player does, whatever container tells it."""

import itertools
import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.bitstream import BitStreamFilterContext
from av.packet import Packet

import videoload as vl
from tests.support.videos import make_avi
from videoload.decoding.recording import Frames

CONTAINERS = {
    "avi": "avi", "mp4": "mp4", "mov": "mov", "mkv": "matroska", "flv": "flv", "ts": "mpegts"
}  # fmt: skip
CUT = (8, 4, 16, 12)  # left, top, right, bottom
BOXES = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd")


def copy(source: Path, to: Path, filters: str = "null", change: Callable[[bytes], bytes] = bytes
) -> Path:  # fmt: skip
    """The packets of a file in another container."""
    with av.open(source) as read, av.open(to, "w") as written:
        stream = read.streams.video[0]
        out = written.add_stream_from_template(stream, opaque=True)
        through = BitStreamFilterContext(filters, stream, out)
        for packet in read.demux(stream):
            if packet.dts is None:
                continue
            for filtered in through.filter(packet):
                made = Packet(change(bytes(filtered)))
                made.dts, made.time_base = filtered.dts, filtered.time_base
                made.pts = filtered.dts if filtered.pts is None else filtered.pts
                made.is_keyframe = filtered.is_keyframe
                made.stream = out
                written.mux(made)
    return to


def frame_of(path: Path, number: int = 5) -> Frames:
    with vl.open(path, cache=False) as video:
        return video[number]


@pytest.mark.parametrize("codec", ["mpeg4", "libx264", "mjpeg"])
@pytest.mark.parametrize("container", ["avi", "mov", "mkv"])
def test_pixels_that_are_not_square_are_displayed_as_wide_as_a_player_shows_them(
    codec: str, container: str, tmp_path: Path
) -> None:
    for aspect, degrees in itertools.product((Fraction(16, 11), Fraction(8, 9)), (0, 90)):
        path = make_avi(
            tmp_path / f"a.{container}", frames=3, codec=codec, size=(72, 88), aspect=aspect,
            degrees=degrees if container == "mov" else 0, container_format=CONTAINERS[container],
            pixels="yuvj420p" if codec == "mjpeg" else "yuv420p",
        )  # fmt: skip
        catalog = vl.Catalog([path.name], root=tmp_path)
        shown = (88, 81)
        if aspect > 1:
            shown = 128, 72
        if degrees and container == "mov":
            shown = shown[::-1]
        sizes = [(72, 128), (81, 88), (88, 81), (128, 72)]
        clip = vl.ClipSpec(1, size=sizes)
        ((pixels, _),) = vl.decode_serially(catalog, clip, 1)
        assert pixels.shape[2:4] == shown[::-1]


@pytest.mark.parametrize("container", CONTAINERS)
def test_an_orientation_in_h264_holds_in_every_container(container: str, tmp_path: Path) -> None:
    plain = make_avi(
        tmp_path / f"plain.{container}", frames=8, codec="libx264",
        container_format=CONTAINERS[container],
    )  # fmt: skip
    turned = copy(
        plain, tmp_path / f"a.{container}", "h264_metadata=display_orientation=insert:rotate=90"
    )
    assert np.array_equal(frame_of(turned), np.rot90(frame_of(plain), 1))


def exif(orientation: int) -> Callable[[bytes], bytes]:
    """A JPEG picture that says how it is to be shown."""
    entry = struct.pack(">HHIHH", 0x0112, 3, 1, orientation, 0)
    told = b"Exif\0\0MM\0*\0\0\0\x08\0\1" + entry + bytes(4)
    segment = b"\xff\xe1" + struct.pack(">H", 2 + len(told)) + told
    return lambda picture: picture[:2] + segment + picture[2:]


@pytest.mark.parametrize("container", ["avi", "mov", "mkv"])
@pytest.mark.parametrize(("orientation", "turns"), [(1, 0), (6, -1), (3, 2)])
def test_an_orientation_in_exif_holds_in_every_container(
    orientation: int, turns: int, container: str, tmp_path: Path
) -> None:
    """PyAV cannot name EXIF among what comes with a frame."""
    plain = make_avi(
        tmp_path / f"plain.{container}", frames=8, codec="mjpeg", pixels="yuvj420p",
        container_format=CONTAINERS[container],
    )  # fmt: skip
    told = copy(plain, tmp_path / f"a.{container}", change=exif(orientation))
    assert np.array_equal(frame_of(told), np.rot90(frame_of(plain), turns))


def with_clap(data: bytes, size: tuple[int, int], cut: tuple[int, ...]) -> bytes:
    """An MP4 whose header says which part of its frames is clean."""
    left, top, right, bottom = cut
    width, height = size[0] - left - right, size[1] - top - bottom
    clap = struct.pack(
        ">I4sIIIIiIiI", 40, b"clap", width, 1, height, 1, left - right, 2, top - bottom, 2
    )
    at, begins = 0, []
    for name in BOXES:
        while data[at + 4 : at + 8] != name:
            at += int.from_bytes(data[at : at + 4], "big")
        begins.append(at)
        at += 8
    begins.append(at + 8)  # the only entry of stsd
    end = begins[-1] + int.from_bytes(data[begins[-1] : begins[-1] + 4], "big")
    changed = bytearray(data[:end] + clap + data[end:])
    for begin in begins:
        length = int.from_bytes(changed[begin : begin + 4], "big") + len(clap)
        changed[begin : begin + 4] = length.to_bytes(4, "big")
    return bytes(changed)


@pytest.mark.parametrize(
    ("codec", "degrees", "cut", "container"),
    [
        *(("libx264", degrees, CUT, name) for degrees in (0, 90) for name in ("mp4", "mov", "mkv")),
        *(
            (codec, 0, (0, 0, 0, 8), name)
            for codec in ("libx264", "libsvtav1")
            for name in ("mp4", "mkv")
        ),
    ],
)
def test_what_a_container_cuts_off_is_not_shown(
    codec: str, degrees: int, cut: tuple[int, ...], container: str, tmp_path: Path
) -> None:
    how = {"codec": codec, "container_format": "mp4", "size": (72, 96)}
    plain = make_avi(tmp_path / "plain.mp4", frames=8, degrees=degrees, **how)  # type: ignore[arg-type]
    told = tmp_path / "cut.mp4"
    told.write_bytes(with_clap(plain.read_bytes(), (96, 72), cut))
    shown = frame_of(copy(told, tmp_path / f"a.{container}"))
    whole = np.rot90(frame_of(plain), degrees // 90)  # as stored
    left, top, right, bottom = cut
    expected = np.rot90(whole[top : 72 - bottom, left : 96 - right], -degrees // 90)
    assert np.array_equal(shown, expected)
    with vl.open(told, resize=32, cache=False) as video:
        assert min(video.size) == 32


@pytest.mark.parametrize(("bits", "fourcc"), [(8, b"Y800"), (8, bytes(4)), (24, bytes(4))])
def test_frames_whose_last_line_comes_first_are_upright(
    bits: int, fourcc: bytes, tmp_path: Path
) -> None:
    """FFmpeg gives lines of negative length for them."""
    width, height, channels = 64, 48, bits // 8
    rows = np.tile(np.arange(height, dtype=np.uint8)[:, None, None] * 5, (1, width, channels))
    extradata = b"BottomUp\0" if fourcc == b"Y800" else b""
    colors = bytes(each for n in range(256) for each in (n, n, n, 0)) if bits == 8 else b""

    def chunk(name: bytes, data: bytes) -> bytes:
        return name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)

    head = struct.pack("<14I", 40_000, 0, 0, 16, 2, 0, 1, 0, width, height, 0, 0, 0, 0)
    stream = struct.pack("<4s4s8xIIIIII", b"vids", fourcc, 0, 1, 25, 0, 2, 0) + bytes(12)
    form = struct.pack("<IiiHH4sIiiII", 40, width, height, 1, bits, fourcc, 0, 0, 0, 0, 0)
    told = extradata or (colors if not fourcc.strip(b"\0") else b"")
    described = chunk(b"strh", stream) + chunk(b"strf", form + told)
    header = chunk(b"LIST", b"hdrl" + chunk(b"avih", head) + chunk(b"LIST", b"strl" + described))
    pictures = b"".join(chunk(b"00db", rows.tobytes()) for _ in range(2))
    body = b"AVI " + header + chunk(b"LIST", b"movi" + pictures)
    (tmp_path / "a.avi").write_bytes(chunk(b"RIFF", body))
    for pixels in ("rgb24", "gray"):
        with vl.open(tmp_path / "a.avi", pixels=pixels, cache=False) as video:
            for number in range(2):
                assert np.abs(video[number].astype(int) - rows[::-1, :, :1]).max() <= 1
