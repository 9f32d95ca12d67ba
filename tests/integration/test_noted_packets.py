"""Seeking in files whose container does not tell all packets: each packet after a seek is the one
that the pass over the file found, or else the file is read from its beginning."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from io import FileIO
from itertools import chain
from pathlib import Path

import pytest

from tests.support.codecs import KINDS, make
from tests.support.waiting import SECOND
from videoload.bitstreams.pictures import KeyFrame
from videoload.index.index import VideoIndex, find_index, open_video
from videoload.reading.containers import NotedPackets
from videoload.storage.files import LocalFile

pytestmark = pytest.mark.timeout(120 * SECOND)


def make_kind(name: str, folder: Path, **changes: object) -> Path:
    kind = replace(next(k for k in KINDS if k.name == name), **changes)  # type: ignore[arg-type]
    return make(kind, folder).rename(folder / name)


def local(path: Path) -> LocalFile:
    return LocalFile(str(path), path.stat())


def index_of(path: Path) -> tuple[VideoIndex, NotedPackets]:
    index, opened = find_index(local(path), lambda: None)
    assert index is not None
    assert opened is not None
    opened.close()
    assert index.noted is not None
    return index, index.noted


def packets_from(path: Path, index: VideoIndex, start: KeyFrame) -> list[bytes]:
    with closing(open_video(local(path), index)) as video:
        first = video.go_to(start)
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


@pytest.mark.parametrize("name", ["mkv_named_avi", "ts_mpeg4_named_avi"])
def test_a_seek_reads_little_and_finds_the_packets_of_the_pass(name: str, tmp_path: Path) -> None:
    path = make_kind(name, tmp_path, size=(320, 240), frames=150)
    index, noted = index_of(path)
    every = packets_from(path, index, index.order.start(0))
    for group in range(3, len(index.order.starts), 4):
        start = index.order.start(group)
        assert packets_from(path, index, start) == every[start.packet :]
    assert noted.are_right
    file = CountedFile(str(path), path.stat())
    with closing(open_video(file, index)) as video:
        before = file.source.count
        video.go_to(index.order.start(len(index.order.starts) - 2))
        read = file.source.count - before
    file.source.close()
    assert read < file.size / 2


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_from_the_first_other_packet_on_the_file_is_read_from_its_beginning(
    ahead: int, tmp_path: Path
) -> None:
    path = make_kind("mkv_h264_named_avi", tmp_path)
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


def test_a_seek_that_leads_behind_the_key_frame_is_given_up(tmp_path: Path) -> None:
    path = make_kind("mkv_h264_named_avi", tmp_path)
    index, noted = index_of(path)
    start, later = index.order.start(1), index.order.start(3)
    expected = packets_from(path, index, start)
    assert packets_from(path, index, start._replace(time=later.time)) == expected
    assert not noted.are_right
