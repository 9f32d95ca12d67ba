"""Files whose packets have no places (MPEG-TS, FLV): a seek must find the packets that the pass
over the file noted, or else the file is read from its beginning."""

from contextlib import closing
from io import FileIO
from pathlib import Path

import pytest

from tests.support.codecs import named
from tests.support.packets import known, packets_from, starts_of
from videoload.reading.containers import NotedPackets
from videoload.reading.index import VideoIndex, open_video
from videoload.storage.files import LocalFile


class CountingFile(FileIO):
    """A file that counts the bytes that are read."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size) or b""
        self.count += len(data)
        return data


class CountedFile(LocalFile):
    def ffmpeg_source(self) -> CountingFile:  # type: ignore[override]
        self.source = CountingFile(self.path)
        return self.source


def noted(path: Path) -> tuple[VideoIndex, NotedPackets]:
    index, _ = known(path)
    assert index.noted is not None
    return index, index.noted


@pytest.mark.parametrize("name", ["flv_h264_named_avi", "ts_mpeg4_named_avi"])
def test_a_seek_reads_little_and_finds_the_packets_of_the_pass(name: str, tmp_path: Path) -> None:
    path = named(name, tmp_path, size=(320, 240), frames=150).rename(tmp_path / name)
    index, packets = noted(path)
    starts = starts_of(index)
    every = packets_from(path, index, starts[0])
    for start in starts[3::4]:
        assert packets_from(path, index, start) == every[start.packet :]
    assert packets.are_right
    file = CountedFile(str(path), path.stat())
    with closing(open_video(file, index)) as video:
        before = file.source.count
        video.seek_to_keyframe(starts[-2])
        read = file.source.count - before
    file.source.close()
    assert read < file.size / 2


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_from_the_first_other_packet_on_the_file_is_read_from_its_beginning(
    ahead: int, tmp_path: Path
) -> None:
    path = named("ts_h264_named_avi", tmp_path)
    index, packets = noted(path)
    first, _, start, *_ = starts_of(index)
    expected = packets_from(path, index, first)[start.packet :]
    assert packets_from(path, index, start) == expected
    assert packets.are_right
    packets.sums[start.packet + ahead] ^= 1  # as if the seek gave another packet
    assert packets_from(path, index, start) == expected
    assert not packets.are_right
    assert packets_from(path, index, start) == expected
    assert index.byte_ranges([start.ordinal], path.stat().st_size) == []
