"""The packets of a file: from its index if that is complete and true, otherwise by reading them
all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from tests.support.avi_files import Chunk, chunk, join, open_dml, split
from tests.support.codecs import KINDS, Kind, make
from tests.support.thorough import rest_nightly
from tests.support.videos import make_avi
from videoload.bitstreams.pictures import KeyFrame
from videoload.decoding.decoder import Decoder
from videoload.index.index import find_index, open_video
from videoload.index.packets import PacketTable, read_packets
from videoload.reading.containers import OpenedVideo
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


def table_of(path: Path) -> PacketTable | None:
    file = LocalFile(str(path), path.stat())
    opened = OpenedVideo(file)
    with closing(opened), closing(Content(file)) as content:
        return read_packets(opened, content, lambda: None)


def is_by_index(path: Path) -> bool:
    """Whether the index of a file tells its packets, so that nobody has to read them all."""
    file = LocalFile(str(path), path.stat())
    opened = OpenedVideo(file)
    with closing(opened), closing(Content(file)) as content:
        return read_packets(opened, content, lambda: None) is not None and opened.number == 0


def coded(packets: Iterator[Any]) -> list[bytes]:
    return [bytes(packet) for packet in packets if packet.size]


def read_by_places(path: Path) -> list[list[bytes]]:
    """The packets of a file from each start on, read where its index or a pass has found them."""
    file = LocalFile(str(path), path.stat())
    index, opened = find_index(file, lambda: None)
    assert index is not None
    assert index.avi is not None
    assert opened is None
    found = []
    for strict in (True, False):
        for row in index.order.starts.tolist():
            start = KeyFrame(*row)
            with closing(open_video(file, index, strict=strict)) as video:
                first = video.go_to(start)
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
    try:
        path = make(kind, tmp_path)
    except (av.error.FFmpegError, ValueError) as error:
        pytest.skip(f"this FFmpeg cannot write {kind.name}: {error}")
    table = table_of(path)
    header, chunks = split(path.read_bytes())
    # Nobody knows what it is, so the index may lack something.
    chunks.insert(1, Chunk(b"what", bytes(10), is_indexed=False))
    path.write_bytes(join(header, chunks))
    by_pass = table_of(path)
    assert not is_by_index(path)
    assert same(table, by_pass)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An MPEG-4 file with a complete index."""
    path = make(Kind("plain", "mpeg4"), tmp_path_factory.mktemp("plain"))
    assert is_by_index(path)
    return path.read_bytes()


def without_an_entry(chunks: list[Chunk]) -> list[Chunk]:
    return [*chunks[:5], chunks[5]._replace(is_indexed=False), *chunks[6:]]


def with_junk(chunks: list[Chunk]) -> list[Chunk]:
    junk = Chunk(b"JUNK", bytes(7), is_indexed=False)
    return [each for chunk in chunks for each in (chunk, junk)]


def same_chunks(chunks: list[Chunk]) -> list[Chunk]:
    return chunks


@pytest.mark.parametrize(
    ("change", "lists", "tail", "by_index"),
    [
        pytest.param(same_chunks, None, b"", True, id="as FFmpeg writes them"),
        pytest.param(same_chunks, 4, b"", True, id="in lists"),
        pytest.param(with_junk, None, b"", True, id="others in between"),
        pytest.param(same_chunks, None, b"\0" * 999, True, id="zeros behind the index"),
        pytest.param(without_an_entry, None, b"", False, id="an entry is missing"),
    ],
)
def test_an_index_is_trusted_as_far_as_the_chunks_confirm_it(
    change: Callable[[list[Chunk]], list[Chunk]],
    lists: int | None,
    tail: bytes,
    by_index: bool,
    plain: bytes,
    tmp_path: Path,
) -> None:
    header, chunks = split(plain)
    path = tmp_path / "changed.avi"
    path.write_bytes(join(header, change(chunks), in_lists_of=lists, tail=tail))
    table = table_of(path)
    assert table is not None
    assert is_by_index(path) == by_index
    assert table.pictures.frames == len(chunks)


def test_a_chunk_after_the_index_belongs_to_the_video(plain: bytes, tmp_path: Path) -> None:
    path = tmp_path / "more.avi"
    header, chunks = split(plain)
    path.write_bytes(join(header, chunks, tail=chunks[1].packed))
    table = table_of(path)
    assert table is not None
    assert not is_by_index(path)
    assert table.pictures.frames == len(chunks) + 1


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
    assert not is_by_index(path)
    with closing(OpenedVideo(LocalFile(str(path), path.stat()))) as opened:
        expected = coded(opened.packets)
    found = read_by_places(path)
    assert len(found) >= 4
    assert all(expected[-len(read) :] == read for read in found)
    assert expected in found


def test_an_index_that_names_another_place_is_not_trusted(plain: bytes, tmp_path: Path) -> None:
    path = tmp_path / "moved.avi"
    at = plain.rindex(b"idx1") + 8 + 5 * 16 + 8  # the place of the sixth chunk
    moved = int.from_bytes(plain[at : at + 4], "little") + 2
    path.write_bytes(plain[:at] + moved.to_bytes(4, "little") + plain[at + 4 :])
    assert not is_by_index(path)


def test_a_file_of_several_riffs_is_read_by_its_index(plain: bytes, tmp_path: Path) -> None:
    path = tmp_path / "open_dml.avi"
    path.write_bytes(open_dml(plain))
    table = table_of(path)
    assert table is not None
    assert is_by_index(path)
    assert table.pictures.frames == len(split(plain)[1])


def test_the_length_of_an_mp4s_boxes_is_not_trusted(tmp_path: Path) -> None:
    path = make(next(kind for kind in KINDS if kind.name == "mp4_named_avi"), tmp_path)
    plain = path.read_bytes()
    at = plain.rindex(b"moov") - 4
    far = b"\0\0\0\1moov" + (1 << 62).to_bytes(8, "big")
    # it is not a small file
    between = (5 << 20).to_bytes(4, "big") + b"free" + bytes((5 << 20) - 8)
    path.write_bytes(plain[:at] + between + far + plain[at + 8 :])
    table = table_of(path)
    assert is_by_index(path)
    assert table is not None
    assert table.pictures.frames == 40


def test_a_title_that_names_the_list_of_packets_is_none(plain: bytes, tmp_path: Path) -> None:
    path = tmp_path / "titled.avi"
    header, chunks = split(plain)
    title = chunk(b"LIST", b"INFO" + chunk(b"INAM", b"movi and others"))
    path.write_bytes(join(header + title, chunks))
    assert is_by_index(path)


@pytest.mark.parametrize(
    "name", ["mjpeg", "mpeg4_no_index", "mp4_hevc_named_avi", "ts_h264_named_avi"]
)
def test_small_packets_are_read_in_few_reads_each_with_a_sign_of_life(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(next(kind for kind in KINDS if kind.name == name), tmp_path)
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
    path = make(next(kind for kind in KINDS if kind.name == name), tmp_path)
    table = table_of(path)
    assert table is not None
    monkeypatch.setattr("videoload.index.packets._PASS_BYTES", 2000)
    assert same(table_of(path), table)


def test_times_of_display_are_those_of_the_container(tmp_path: Path) -> None:
    """Although the decoding times are even."""
    path = tmp_path / "a.mp4"
    shown = [0, 1, 2, 3, 8, 9, 10, 15, 16, 22, 23, 31]
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"bf": "0"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        packets = []
        for i in range(len(shown)):
            frame = av.VideoFrame.from_ndarray(np.full((72, 64), 9 * i, np.uint8), "yuv420p")
            frame.pts = i
            packets += stream.encode(frame)
        for i, packet in enumerate([*packets, *stream.encode(None)]):
            unit = int(1 / 25 / (packet.time_base or 1))
            packet.dts, packet.pts = i * unit, shown[i] * unit
            container.mux(packet)
    assert is_by_index(path)
    table = table_of(path)
    assert table is not None
    assert table.timing.times is not None
    np.testing.assert_allclose(table.timing.times, np.array(shown) / 25, atol=1e-6)


@pytest.mark.parametrize("container", ["avi", "mp4"])
def test_frames_need_the_packets_from_their_key_frame_to_their_own(
    container: str, tmp_path: Path
) -> None:
    path = make_avi(tmp_path / "a", frames=48, size=(240, 320), container_format=container)
    file = LocalFile(str(path), path.stat())
    index, opened = find_index(file, lambda: None)
    if opened is not None:
        opened.close()
    assert index is not None
    assert index.positions is not None
    positions = index.positions.tolist()
    group = index.order.start(1).ordinal
    [(begin, end)] = index.byte_ranges([group + 2, group + 1], file.size)
    assert positions[group] - 5000 < begin <= positions[group]
    assert positions[group + 3] <= end < positions[group + 3] + 5000
    assert end < positions[group + 9]
    assert [last for _, last in index.byte_ranges([47], file.size)] == [file.size]
