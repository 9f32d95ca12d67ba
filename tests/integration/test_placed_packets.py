"""Packets that are read at their places in a file, as its index or one pass has found them: they
are those that FFmpeg gives."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import av
import pytest

from tests.support.avi_files import join, split
from tests.support.codecs import Kind, make, named
from tests.support.packets import (
    data_of,
    known,
    local,
    opened,
    packets_from,
    starts_of,
    table_of,
)
from tests.support.thorough import rest_nightly
from videoload.reading.index import open_video


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda data, at: data, id="cut off"),
        pytest.param(lambda data, at: data[:at] + b"what" + bytes(14) + data[at:], id="strangers"),
        pytest.param(lambda data, at: data[:at] + bytes(6) + data[at:], id="zeros"),
    ],
)
def test_a_file_without_an_index_is_read_at_the_places_that_one_pass_found(
    change: Callable[[bytes, int], bytes], tmp_path: Path
) -> None:
    """As a crash leaves it: it ends in its last picture."""
    path = make(Kind("plain", "mpeg4"), tmp_path)
    header, chunks = split(path.read_bytes())
    whole = join(header, chunks)
    path.write_bytes(change(whole[: whole.rindex(b"idx1") - 10], whole.index(chunks[5].packed)))
    assert not table_of(path)[1]
    with opened(path) as video:
        expected = data_of(video.packets)
    index, ffmpeg_opened_it = known(path)
    assert index.placed is not None
    assert not ffmpeg_opened_it
    starts = starts_of(index)
    assert len(starts) >= 4
    for start in starts:
        found = packets_from(path, index, start, strict=False)
        assert expected[-len(found) :] == found
        assert start.packet or found == expected


SAMPLES = [
    "mp4_named_avi",
    "mov_h264_named_avi",
    "mp4_hevc_named_avi",
    "mp4_av1_named_avi",
    "mp4_bframes_named_avi",
    "mp4_h264_recovery_points",
    "mov_mjpeg_bt709_full",
    "prores",
    "mov_rawvideo_bt709_full",
    "mp4_h264_uneven",
    "mp4_h264_fragments",
    "mkv_hevc_named_avi",
    "mp4_mpeg4_empty_samples",
    "mkv_vp9_named_avi",
    "mkv_h264_uneven",
    "vp8_alternate_references",
]


@pytest.mark.parametrize("name", rest_nightly(SAMPLES[::-1], usual=8))
def test_the_packets_of_an_mp4_or_mkv_are_read_as_ffmpeg_gives_them(
    name: str, tmp_path: Path
) -> None:
    """Its decoder holds back as many pictures, too."""
    path = named(name, tmp_path)
    with opened(path) as video:
        expected = data_of(video.packets)
        held_back = video.decoder.context.reorder_depth
    index, _ = known(path)
    assert index.placed is not None
    for start in starts_of(index):
        for strict in (True, False):
            assert packets_from(path, index, start, strict=strict) == expected[start.packet :]
    with closing(open_video(local(path), index)) as placed:
        assert placed.decoder.context.reorder_depth == held_back


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
    index, ffmpeg_opened_it = known(path)
    assert ffmpeg_opened_it
    assert index.placed is None
