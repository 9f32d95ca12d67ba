"""The packets of a file: from its index if that is complete and true, otherwise by reading them
all; and after a seek, those that the pass over the file found, or else the file is read from its
beginning."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from io import FileIO
from itertools import chain
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from tests.support.avi_files import Chunk, chunk, join, open_dml, split
from tests.support.codecs import FRAMES, KINDS, Kind, make, named
from tests.support.thorough import rest_nightly
from tests.support.videos import make_avi
from videoload.bitstreams.pictures import KeyFrame
from videoload.decoding.decoder import Decoder
from videoload.reading.containers import NotedPackets, OpenedVideo
from videoload.reading.index import KnownHeaders, VideoIndex, find_index, open_video
from videoload.reading.packets import PacketTable, read_packets
from videoload.reading.placed_video import CHUNK
from videoload.reading.plain_avi import read_plain_avi
from videoload.storage.content import Content
from videoload.storage.files import LocalFile

# These have another layout than `tests.support.avi_files` can take apart.
OTHERS = {
    "mpeg4_no_index",
    "mpeg4_open_dml",
    "mpeg4_open_dml_bframes",
    "mpeg4_picture_behind_index",
    "mpeg4_truncated",
}
AVI = [
    kind for kind in KINDS if kind.container == "avi" and kind.is_proven and kind.name not in OTHERS
]
FIRST = [*{kind.codec: kind for kind in reversed(AVI)}.values()]  # one of each codec
AVI.sort(key=lambda kind: kind not in FIRST)


def local(path: Path) -> LocalFile:
    return LocalFile(str(path), path.stat())


def read(path: Path) -> tuple[PacketTable | None, bool]:
    """The packets of a file, and whether its index tells them, so that nobody has to read them
    all."""
    file = local(path)
    opened = OpenedVideo(file)
    with closing(opened), closing(Content(file)) as content:
        table = read_packets(opened, content, lambda: None)
        return table, table is not None and opened.number >= 0


def frames_of(path: Path) -> tuple[int, bool]:
    """How many frames the packets prove, and whether the index tells the packets."""
    table, is_by_index = read(path)
    assert table is not None
    return table.pictures.frames, is_by_index


def coded(packets: Iterator[Any]) -> list[bytes]:
    return [bytes(packet) for packet in packets if packet.size]


def read_by_places(path: Path) -> list[list[bytes]]:
    """The packets of a file from each start on, read where its index or a pass has found them."""
    file = local(path)
    index, opened = find_index(file, lambda: None)
    assert index is not None
    assert index.placed is not None
    assert opened is None
    found = []
    for strict in (True, False):
        for row in index.order.starts.tolist():
            start = KeyFrame(*row)
            with closing(open_video(file, index, strict=strict)) as video:
                first = video.seek_to_keyframe(start)
                assert first is not None
                try:
                    read = coded(chain((first,), video.packets))
                except ValueError:
                    assert strict
                    continue
            found.append(read)
    return found


def same(one: PacketTable | None, other: PacketTable | None) -> bool:
    """Whether both prove the same."""
    if one is None or other is None:
        return one is other
    a, b = one.pictures, other.pictures
    return (
        a.frames == b.frames
        and np.array_equal(a.starts, b.starts)
        and (a.ordinals is None) == (b.ordinals is None)
        and (a.ordinals is None or b.ordinals is None or np.array_equal(a.ordinals, b.ordinals))
    )


@pytest.mark.parametrize("kind", rest_nightly(AVI, usual=len(FIRST)), ids=lambda kind: kind.name)
def test_the_index_and_a_pass_over_the_packets_prove_the_same(kind: Kind, tmp_path: Path) -> None:
    path = named(kind.name, tmp_path)
    table, _ = read(path)
    header, chunks = split(path.read_bytes())
    # Nobody knows what it is, so the index may lack something.
    chunks.insert(1, Chunk(b"what", bytes(10), is_indexed=False))
    path.write_bytes(join(header, chunks))
    by_pass, is_by_index = read(path)
    assert not is_by_index
    assert same(table, by_pass)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An MPEG-4 file with a complete index."""
    path = make(Kind("plain", "mpeg4"), tmp_path_factory.mktemp("plain"))
    assert frames_of(path) == (FRAMES, True)
    return path.read_bytes()


def without_an_entry(data: bytes) -> bytes:
    header, chunks = split(data)
    return join(header, [*chunks[:5], chunks[5]._replace(is_indexed=False), *chunks[6:]])


def with_junk(data: bytes) -> bytes:
    header, chunks = split(data)
    junk = Chunk(b"JUNK", bytes(7), is_indexed=False)
    return join(header, [each for chunk in chunks for each in (chunk, junk)])


def with_a_title(data: bytes) -> bytes:
    header, chunks = split(data)
    return join(header + chunk(b"LIST", b"INFO" + chunk(b"INAM", b"movi and others")), chunks)


def with_a_moved_entry(data: bytes) -> bytes:
    at = data.rindex(b"idx1") + 8 + 5 * 16 + 8  # the place of the sixth chunk
    moved = int.from_bytes(data[at : at + 4], "little") + 2
    return data[:at] + moved.to_bytes(4, "little") + data[at + 4 :]


@pytest.mark.parametrize(
    ("change", "by_index", "more"),
    [
        pytest.param(lambda d: join(*split(d), in_lists_of=4), True, 0, id="in lists"),
        pytest.param(with_junk, True, 0, id="others in between"),
        pytest.param(lambda d: d + b"\0" * 999, True, 0, id="zeros behind the index"),
        pytest.param(with_a_title, True, 0, id="a title that names the list of packets"),
        pytest.param(open_dml, True, 0, id="several RIFFs"),
        pytest.param(without_an_entry, False, 0, id="an entry is missing"),
        pytest.param(with_a_moved_entry, False, 0, id="an entry names another place"),
        pytest.param(lambda d: d + split(d)[1][1].packed, False, 1, id="a chunk behind the index"),
    ],
)
def test_an_index_is_trusted_as_far_as_the_chunks_confirm_it(
    change: Callable[[bytes], bytes], by_index: bool, more: int, plain: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "changed.avi"
    path.write_bytes(change(plain))
    assert frames_of(path) == (FRAMES + more, by_index)


def test_so_is_that_of_a_long_file_with_much_in_between(tmp_path: Path) -> None:
    path = make_avi(tmp_path / "long.avi", frames=2000, size=(16, 16))
    path.write_bytes(with_junk(path.read_bytes()))
    assert frames_of(path) == (2000, True)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda data, at: data, id="cut off"),
        pytest.param(lambda data, at: data[:at] + b"what" + bytes(14) + data[at:], id="strangers"),
        pytest.param(lambda data, at: data[:at] + b"\0" * 6 + data[at:], id="zeros"),
    ],
)
def test_a_file_without_an_index_is_read_at_the_places_that_one_pass_found(
    change: Callable[[bytes, int], bytes], plain: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "cut.avi"
    header, chunks = split(plain)
    whole = join(header, chunks)
    cut = whole[: whole.rindex(b"idx1") - 10]  # in its last picture, as a crash leaves it
    path.write_bytes(change(cut, whole.index(chunks[5].packed)))
    assert not read(path)[1]
    with closing(OpenedVideo(local(path))) as opened:
        expected = coded(opened.packets)
    found = read_by_places(path)
    assert len(found) >= 4
    assert all(expected[-len(read) :] == read for read in found)
    assert expected in found


SAMPLES = [
    "mp4_named_avi", "mov_h264_named_avi", "mp4_hevc_named_avi", "mp4_av1_named_avi",
    "mp4_bframes_named_avi", "mp4_h264_recovery_points", "mov_mjpeg_bt709_full", "prores",
    "mov_rawvideo_bt709_full", "mp4_h264_uneven", "mp4_h264_fragments", "mkv_hevc_named_avi",
    "mp4_mpeg4_empty_samples", "mkv_vp9_named_avi", "mkv_h264_uneven", "vp8_alternate_references",
]  # fmt: skip


@pytest.mark.parametrize("name", rest_nightly(SAMPLES[::-1], usual=8))
def test_the_packets_of_an_mp4_or_mkv_are_read_as_ffmpeg_gives_them(
    name: str, tmp_path: Path
) -> None:
    path = named(name, tmp_path)
    with closing(OpenedVideo(local(path))) as opened:
        every = coded(opened.packets)
        held_back = opened.decoder.context.reorder_depth
    index, _ = find_index(local(path), lambda: None)
    assert index is not None
    starts = index.order.starts[:, 1].tolist()
    assert read_by_places(path) == 2 * [every[start:] for start in starts]
    with closing(open_video(local(path), index)) as video:
        assert video.decoder.context.reorder_depth == held_back


def test_packets_that_ffmpeg_changes_are_read_by_ffmpeg(tmp_path: Path) -> None:
    path = tmp_path / "changed.mkv"  # it lacks a header that each picture has
    with (
        av.open(str(named("prores", tmp_path))) as container,
        av.open(str(path), "w", format="matroska") as out,
    ):
        stream = out.add_stream_from_template(container.streams.video[0])
        for packet in container.demux(video=0):
            if packet.size:
                packet.stream = stream
                out.mux(packet)
    index, opened = find_index(local(path), lambda: None)
    assert opened is not None
    opened.close()
    assert index is not None
    assert index.placed is None


def test_the_length_of_an_mp4s_boxes_is_not_trusted(tmp_path: Path) -> None:
    path = named("mp4_named_avi", tmp_path)
    plain = path.read_bytes()
    at = plain.rindex(b"moov") - 4
    far = b"\0\0\0\1moov" + (1 << 62).to_bytes(8, "big")
    # it is not a small file
    between = (5 << 20).to_bytes(4, "big") + b"free" + bytes((5 << 20) - 8)
    path.write_bytes(plain[:at] + between + far + plain[at + 8 :])
    assert frames_of(path) == (FRAMES, True)


@pytest.mark.parametrize(
    "name", ["mjpeg", "mpeg4_no_index", "mp4_hevc_named_avi", "ts_h264_named_avi"]
)
def test_small_packets_are_read_in_few_reads_each_with_a_sign_of_life(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = named(name, tmp_path)
    monkeypatch.setattr("videoload.storage.content.SMALL_BYTES", 0)
    seen, pread = list[str](), os.pread

    def read(file: int, length: int, at: int) -> bytes:
        seen.append("read")
        return pread(file, length, at)

    monkeypatch.setattr(os, "pread", read)
    Decoder(tmp_path).info(path.name, lambda: seen.append("tick"))
    between = "".join(each[0] for each in seen).split("t")
    assert max(map(len, between)) <= 2
    assert seen.count("read") < 30


@pytest.mark.parametrize("name", ["matroska_ffv1_bt709_full", "mkv_h264_named_avi"])
def test_what_a_pass_cannot_keep_is_read_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = named(name, tmp_path)
    table, _ = read(path)
    assert table is not None
    monkeypatch.setattr("videoload.reading.packets.PASS_BYTES", 2000)
    assert same(read(path)[0], table)


def packed(path: Path, headers: KnownHeaders | None) -> bytes | None:
    """The index of a file, as it is kept on the disk; None if headers do not prove it."""
    index, opened = find_index(local(path), lambda: None, headers=headers)
    if opened is not None:
        opened.close()
    return index and index.to_bytes()


def is_known(path: Path, headers: KnownHeaders) -> bool:
    """Whether FFmpeg need not open a file."""
    avi = read_plain_avi(path.read_bytes())
    with closing(Content(local(path))) as content:
        return avi is not None and headers.index_of(avi, content) is not None


def test_what_ffmpeg_told_of_other_files_changes_no_index(tmp_path: Path) -> None:
    headers = KnownHeaders()
    paths = [named(kind.name, tmp_path) for kind in KINDS if kind.name.startswith("mpeg4")]
    for path in paths * 2:
        assert packed(path, headers) == packed(path, None), path
    assert sum(is_known(path, headers) for path in paths) > len(paths) // 2


def test_files_that_differ_in_length_are_opened_once(tmp_path: Path) -> None:
    headers = KnownHeaders()
    one = make_avi(tmp_path / "one.avi", frames=20, seed=1)
    other = make_avi(tmp_path / "other.avi", frames=33, seed=2)
    packed(one, headers)
    assert is_known(other, headers)
    assert packed(other, headers) == packed(other, None)


@pytest.mark.parametrize(
    ("chunk_name", "at"),
    [(b"strh", 4), (b"strh", 20), (b"strh", 24), (b"strh", 28), (b"strf", 4), (b"strf", 16)],
    ids=["handler", "scale", "rate", "start", "width", "codec"],
)
def test_a_file_whose_headers_say_something_else_is_opened(
    chunk_name: bytes, at: int, plain: bytes, tmp_path: Path
) -> None:
    headers = KnownHeaders()
    for number, path in enumerate((tmp_path / "plain.avi", tmp_path / "other.avi")):
        data = bytearray(plain)
        data[data.index(chunk_name) + CHUNK.size + at] += number
        path.write_bytes(data)
        assert not is_known(path, headers)
        assert packed(path, headers) == packed(path, None)


def index_of(path: Path) -> tuple[VideoIndex, NotedPackets]:
    index, opened = find_index(local(path), lambda: None)
    assert index is not None
    assert opened is not None
    opened.close()
    assert index.noted is not None
    return index, index.noted


def packets_from(path: Path, index: VideoIndex, start: KeyFrame) -> list[bytes]:
    with closing(open_video(local(path), index)) as video:
        first = video.seek_to_keyframe(start)
        assert first is not None
        return [bytes(packet) for packet in chain((first,), video.packets) if packet.size]


class Counted(FileIO):
    """A file that counts the bytes that are read."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size) or b""
        self.count += len(data)
        return data


class CountedFile(LocalFile):
    def ffmpeg_source(self) -> Counted:  # type: ignore[override]
        self.source = Counted(self.path)
        return self.source


@pytest.mark.parametrize("name", ["flv_h264_named_avi", "ts_mpeg4_named_avi"])
def test_a_seek_reads_little_and_finds_the_packets_of_the_pass(name: str, tmp_path: Path) -> None:
    path = named(name, tmp_path, size=(320, 240), frames=150).rename(tmp_path / name)
    index, noted = index_of(path)
    every = packets_from(path, index, index.order.start(0))
    for group in range(3, len(index.order.starts), 4):
        start = index.order.start(group)
        assert packets_from(path, index, start) == every[start.packet :]
    assert noted.are_right
    file = CountedFile(str(path), path.stat())
    with closing(open_video(file, index)) as video:
        before = file.source.count
        video.seek_to_keyframe(index.order.start(len(index.order.starts) - 2))
        read = file.source.count - before
    file.source.close()
    assert read < file.size / 2


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_from_the_first_other_packet_on_the_file_is_read_from_its_beginning(
    ahead: int, tmp_path: Path
) -> None:
    path = named("ts_h264_named_avi", tmp_path)
    index, noted = index_of(path)
    start = index.order.start(2)
    expected = packets_from(path, index, index.order.start(0))[start.packet :]
    assert packets_from(path, index, start) == expected
    assert noted.are_right
    noted.sums[start.packet + ahead] ^= 1
    assert packets_from(path, index, start) == expected
    assert not noted.are_right
    assert packets_from(path, index, start) == expected
    assert index.byte_ranges([start.ordinal], path.stat().st_size) == []
