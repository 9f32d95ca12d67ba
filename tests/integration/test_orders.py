"""What headers prove of the order of frames, beside what a complete decode outputs: options of
encoders that change the order of pictures, in all containers."""

import random
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import cycle, zip_longest
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

import videoload as vl
from tests.support.codecs import KINDS, Kind, make
from tests.support.thorough import rest_nightly
from videoload.reading.containers import OpenedVideo
from videoload.reading.frame_decoder import checksum
from videoload.reading.frames import read_canonically, read_frames
from videoload.reading.index import find_index, open_video
from videoload.reading.video import decode_packets
from videoload.storage.files import LocalFile

_X264 = (
    "bframes=3:b-pyramid=normal", "open-gop=1:bframes=3:keyint=9", "bframes=0",
    "bframes=16:b-adapt=0:b-pyramid=strict", "bframes=1:b-pyramid=none",
    "intra-refresh=1:bframes=2", "interlaced=1:bframes=3", "ref=1:bframes=5", "keyint=1",
    "keyint=3:bframes=2:min-keyint=1",
    "weightp=2:bframes=4", "slices=4:bframes=3", "aud=1:pic-struct=1:bframes=3", "bluray-compat=1",
    "nal-hrd=cbr:filler=1:vbv-maxrate=300:vbv-bufsize=300:bitrate=300", "keyint=infinite:bframes=8",
)  # fmt: skip


_X265 = (
    "bframes=3:b-pyramid=1", "open-gop=0:bframes=2", "bframes=0", "bframes=8:b-adapt=0", "keyint=1",
    "radl=2:bframes=4:open-gop=0", "aud=1:keyint=9",
    "slices=3:bframes=3", "ref=1:bframes=5", "weightb=1:bframes=4", "intra-refresh=1:bframes=3",
    "log2-max-poc-lsb=4:bframes=2:keyint=60", "repeat-headers=1:bframes=3", "interlace=tff",
)  # fmt: skip
_VPX = (
    {"auto-alt-ref": "6", "lag-in-frames": "16"}, {"auto-alt-ref": "0"}, {"frame-parallel": "1"},
    {"error-resilient": "default"}, {"auto-alt-ref": "2", "lag-in-frames": "25", "g": "99"},
)  # fmt: skip
_SVT = (
    "pred-struct=2:hierarchical-levels=4", "pred-struct=1", "enable-overlays=1", "irefresh-type=1",
    "lookahead=0", "film-grain=8", "scd=1",
)  # fmt: skip


def _kinds() -> Iterator[Kind]:
    """Each codec in turn, so that the first ones are of all codecs."""
    log = "keyint=12:{}:log-level=none"
    codecs: dict[str, Iterable[tuple[dict[str, str], str]]] = {
        "libx264": zip(
            [{"preset": "fast", "x264-params": log.format(each)} for each in _X264],
            cycle(("avi", "mp4", "matroska", "mpegts", "flv")),
            strict=False,
        ),
        "libx265": zip(
            [
                {"preset": "superfast", "x265-params": log.format(each) + ":pools=none"}
                for each in _X265
            ],
            cycle(("mp4", "matroska", "mpegts", "hevc", "mov")),
            strict=False,
        ),
        "libvpx-vp9": zip(
            [{"deadline": "good", "cpu-used": "5", "b": "100000", **each} for each in _VPX],
            cycle(("webm", "mp4", "matroska")),
            strict=False,
        ),
        "libsvtav1": zip(
            [{"preset": "12", "svtav1-params": f"keyint=12:lp=1:{each}"} for each in _SVT],
            cycle(("mp4", "webm", "obu")),
            strict=False,
        ),
    }
    for turn in zip_longest(*([(codec, *each) for each in how] for codec, how in codecs.items())):
        for codec, options, container in filter(None, turn):
            name = f"{codec} {[*options.values()][-1]} in {container}"
            yield Kind(name.replace("/", " "), codec, options=options, container=container)


def _file(path: Path) -> LocalFile:
    return LocalFile(str(path), path.stat())


def _decoded(path: Path) -> list[int]:
    """The packet of each frame that a complete decode outputs."""
    with closing(OpenedVideo(_file(path), strict=False)) as opened:
        return [number for number, _ in decode_packets(opened, opened.packets, _tick)]


def _tick() -> None:
    pass


@pytest.mark.parametrize("kind", rest_nightly(_kinds(), usual=4), ids=lambda kind: kind.name)
def test_the_order_that_headers_prove_is_the_one_of_a_complete_decode(
    kind: Kind, tmp_path: Path
) -> None:
    path = make(kind, tmp_path)
    index, opened = find_index(_file(path), _tick)
    if opened is not None:
        opened.close()
    assert index is not None
    assert [index.order.ordinal(packet) for packet in _decoded(path)] == list(
        range(index.info.num_frames)
    )


def test_a_frame_that_is_shown_again_belongs_to_the_packet_that_shows_it(tmp_path: Path) -> None:
    kind = Kind("vp9", "libvpx-vp9", container="webm", options={"cpu-used": "8"})
    again, path = b"\x88", tmp_path / "again.webm"  # nothing but the number of a frame
    with av.open(str(make(kind, tmp_path))) as one, av.open(str(path), "w") as other:
        stream = other.add_stream_from_template(one.streams.video[0])
        for packet in one.demux(video=0):
            if packet.pts is None:
                continue
            for data, pts in ((bytes(packet), 2 * packet.pts), (again, 2 * packet.pts + 1)):
                copy = av.Packet(data)
                copy.stream, copy.time_base = stream, packet.time_base
                copy.pts = copy.dts = pts
                copy.is_keyframe = packet.is_keyframe and data != again
                other.mux(copy)
    assert _decoded(path) == list(range(80))
    with vl.open(path) as video:
        assert len(video) == 80
        frames = [np.array(frame) for frame in video.frames([0, 1, 40, 41])]
        assert np.array_equal(frames[0], frames[1])


def test_pictures_out_of_order_in_one_scene_of_a_long_file_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An encoder that chooses where B-pictures pay puts them into a quiet scene only."""
    monkeypatch.setattr("videoload.storage.content.SMALL_BYTES", 9000)  # it counts as large
    path, noise = tmp_path / "few.avi", np.random.default_rng(0)
    with av.open(str(path), "w") as container:
        options = {"b_strategy": "1", "qmin": "4", "qmax": "4", "sc_threshold": "1000000000"}
        stream = container.add_stream("mpeg4", rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.gop_size, stream.codec_context.max_b_frames = 12, 2
        quiet = noise.integers(0, 255, (72, 64), np.uint8)
        for i in range(1500):
            picture = noise.integers(0, 255, (72, 64), np.uint8)
            if 905 <= i < 925:
                picture = quiet.copy()
                picture[10 + i % 20, 10:54] = 255
            picture[48:] = 128
            frame = av.VideoFrame.from_ndarray(picture, "yuv420p")
            frame.pts = i
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with av.open(str(path)) as container:
        container.streams.video[0].thread_type = "NONE"
        expected = [frame.to_ndarray(format="gray") for frame in container.decode(video=0)]
    with vl.open(path, pixels="gray", cache=False) as video:
        assert video.is_proven
        assert len(video) == len(expected)
    for i in (1, 890, *range(900, 930), 1400):
        with vl.open(path, pixels="gray", cache=False) as video:
            assert np.array_equal(video[i][..., 0], expected[i]), i


def _kind(name: str) -> Kind:
    return next(kind for kind in KINDS if kind.name == name)


_MANY_B = {"preset": "fast", "x264-params": "keyint=40:slices=2:bframes=4:b-pyramid=normal"}
_LEAVES_OUT = [
    Kind("mpeg4", "mpeg4", size=(96, 64), options={"bf": "2", "g": "30"}),
    Kind("mpeg4 in mp4", "mpeg4", container="mp4", size=(96, 64), options={"bf": "3", "g": "30"}),
    Kind("h264", "libx264", size=(96, 64), options=_MANY_B),
    Kind("h264 in mkv", "libx264", container="matroska", size=(96, 64), options=_MANY_B),
    _kind("mpeg4_packed"),
    Kind("av1", "libsvtav1", container="mp4", options={"preset": "12", "g": "40"}),
    _kind("mpeg4_packed_runs"),
]


@pytest.mark.parametrize("kind", _LEAVES_OUT, ids=lambda kind: kind.name)
def test_pictures_that_nobody_refers_to_or_shows_are_not_decoded(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _file(make(kind, tmp_path))
    with closing(OpenedVideo(file, strict=False)) as opened:
        decoded = [checksum(frame) for _, frame in decode_packets(opened, opened.packets, _tick)]
    with closing(OpenedVideo(file, strict=False)) as opened:
        opened.decoder.context.skip_frame = "NONREF"  # FFmpeg's own opinion
        referenced = {number for number, _ in decode_packets(opened, opened.packets, _tick)}
    index, first_video = find_index(file, _tick)
    assert index is not None
    assert index.order.non_reference is not None
    video, order, draw = first_video or open_video(file, index), index.order, random.Random(0)
    decoder = video.decoder
    given: list[Any] = []
    decode = decoder.decode

    def count(packet: Any) -> list[av.VideoFrame]:
        if packet is not None and decoder.context.skip_frame == "DEFAULT":
            given.append(packet)
        return decode(packet)

    monkeypatch.setattr(decoder, "decode", count)
    for stride in (1, 2, 5, 2, 9, 1):
        first = draw.randrange(order.frames - 20)
        wanted = list(range(first, first + 20, stride))
        shown: dict[int, int] = {}
        given.clear()
        assert read_frames(video, order, wanted, partial(_sum, shown), _tick), "no complaint"
        assert shown == {ordinal: decoded[ordinal] for ordinal in wanted}
        expected = 0
        for group in {order.group_of(ordinal) for ordinal in wanted}:
            packets = [order.packet(i) for i in wanted if order.group_of(i) == group]
            every = range(order.start(group).packet, max(packets) + 1)
            needed = {*packets, *referenced.intersection(every)}
            if kind.name in ("av1", "mpeg4_packed_runs"):  # pictures share packets
                needed = {number for number in every if not order.left_out(number, wanted)}
            expected += len(needed)
        assert len(given) == expected
    video.close()


@pytest.mark.parametrize("kind", _LEAVES_OUT[:3], ids=lambda kind: kind.name)
def test_a_damaged_group_is_decoded_twice_however_many_of_its_pictures_are_shown(
    kind: Kind, tmp_path: Path
) -> None:
    sound = make(kind, tmp_path)
    with av.open(str(sound)) as container:
        packets = [(p.pos or 0, bytes(p)) for p in container.demux(video=0) if p.size]
    changed = bytearray(sound.read_bytes())
    at = changed.index(packets[1][1], packets[1][0]) + len(packets[1][1]) // 2  # others refer to it
    changed[at] ^= 255
    sound.write_bytes(changed)
    index, video = find_index(file := _file(sound), _tick)
    assert index is not None
    ticks, shown, wanted = [], dict[int, int](), list(range(10, 29))
    with closing(video or open_video(file, index)) as opened:
        read_canonically(opened, index.order, wanted, partial(_sum, shown), lambda: ticks.append(1))
    assert sorted(shown) == wanted
    assert len(ticks) <= 2 * (wanted[-1] + 3)


def _sum(shown: dict[int, int], ordinal: int, frame: av.VideoFrame) -> None:
    shown[ordinal] = checksum(frame)
