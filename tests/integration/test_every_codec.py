"""Frame i is the i-th frame of a complete sequential decode, for every codec that can be made here.
A push tries each codec and each way to index a file; a night tries all kinds."""

import hashlib
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import av
import numpy as np
import pytest
from av.codec.context import Flags
from av.video.frame import VideoFrame

from tests.support.codecs import KINDS, Kind, named
from tests.support.frames import clip_of
from tests.support.thorough import either, rest_nightly
from videoload.clips.clip_params import clip_params
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.rows import Clip, Video
from videoload.decoding.decoder import Decoder
from videoload.decoding.filter_graphs import FilterGraphs
from videoload.decoding.planes import Buffer
from videoload.reading.complete_decode import decode_index
from videoload.reading.containers import OpenedVideo
from videoload.reading.frames import read_frames
from videoload.reading.index import VideoIndex, find_index, open_video, prove_index
from videoload.reading.video import VideoReader as Opened
from videoload.storage.content import Content
from videoload.storage.files import LocalFile
from videoload.storage.video_file import VideoFile

WINDOWS = either(16, 40)  # each stride from 1 to 8 several times
CLIPS = either(8, 40)

CLIP = ClipSpec(frames=1, resize=32, size=(32, 32))

# The quick tests run each way to index a file, and each codec that is common in AVI files.
QUICK = {
    "mpeg4_xvid", "mpeg4_divx", "mpeg4_bframes", "mpeg4_no_index", "mpeg4_packed",
    "mpeg4_n_vops_bframes", "mpeg4_one_byte_packets", "mpeg4_b_times_wrong", "mpeg4_open_dml",
    "mpeg4_truncated", "mpeg4_interlaced_bframes", "mpeg4_n_vop_at_end", "msmpeg4v3", "wmv2",
    "flv1", "mpeg1_bframes", "mpeg2_bframes", "h264", "h264_bframes", "h264_reordering_begins_late",
    "h264_intra_refresh", "h264_interlaced", "mjpeg", "mjpeg_tables_in_first",
    "huffyuv_rgb", "ffv1_inter", "cinepak", "vp8", "raw_gray", "raw_short_chunks",
    "raw_long_chunks", "mp4_bframes_named_avi", "ts_h264_named_avi",
    "matroska_ffv1_bt709_full", "mov_rawvideo_bt2020", "avi_mpeg4_uneven", "mp4_h264_uneven",
    "mp4_mpeg4_trimmed_by_5", "mp4_h264_open_gop_trimmed_by_17", "mp4_mpeg4_empty_samples",
    "mp4_hevc_empty_samples", "mp4_h264_recovery_points", "ps_mpeg2_bframes",
}  # fmt: skip
# And a push runs one kind of each other codec, container and oddity.
SLOW = {
    "mpeg4_quarter_pel", "mpeg4_one_frame", "mpeg4_garbage_index", "mpeg4_dropped_frames",
    "mpeg4_in_record_lists", "mpeg4_settings_change", "msmpeg4v2", "wmv1", "h263p", "h264_10bit",
    "h264_nothing_told", "h264_slice_a_packet", "mjpeg_a_field_a_packet", "utvideo", "magicyuv",
    "msvideo1", "msrle", "asv1", "snow", "zlib", "raw_pal8", "vp8_invisible",
    "mp4_h264_cut_by_edit_list", "mp4_h264_fragments", "flv_h264_settings_change",
    "mkv_hevc_named_avi", "webm_vp9_uneven", "mp4_av1_named_avi", "ps_h264_named_avi",
}  # fmt: skip


def fingerprint(frame: VideoFrame) -> str:
    """A digest of the visible pixels, independent of how the planes lie in memory."""
    picture = frame.to_ndarray(format="rgb24", threads=1)
    return hashlib.md5(picture.tobytes() + frame.format.name.encode()).hexdigest()


def decode_from_start_to_end(path: Path) -> Iterator[VideoFrame]:
    """The independent reference: PyAV's own loop, one thread, bad packets skipped."""
    with av.open(str(path), metadata_errors="replace") as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_type = "NONE"
        stream.codec_context.thread_count = 1
        # otherwise FFmpeg rounds some codecs differently
        stream.codec_context.flags |= Flags.bitexact
        for packet in container.demux(stream):
            if not packet.size and packet.dts is not None:
                continue  # FFmpeg's own command passes over an empty packet
            try:
                frames = packet.decode()
            except av.error.FFmpegError:
                continue
            while frames:
                yield frames.pop(0)


def index_of(file: VideoFile) -> VideoIndex:
    """The index as a decoder makes it, and as a complete decode makes it."""
    decoded, _ = decode_index(file, lambda: None)
    proven, _ = find_index(file, lambda: None)
    with closing(Content(file)) as content:
        by_ffmpeg = prove_index(OpenedVideo(file), content, lambda: None)
    assert (proven is None) == (by_ffmpeg is None)
    if proven is not None and by_ffmpeg is not None:
        assert proven.info == by_ffmpeg.info
        # Headers prove more places where decoding can begin, or fewer.
        assert proven.info._replace(keys=None) == decoded.info._replace(keys=None)
        assert proven.order.starts[:, :2].tolist() == by_ffmpeg.order.starts[:, :2].tolist()
    return proven or decoded


def compare(name: str, path: Path) -> VideoIndex:
    """Compare random windows with every stride from 1 to 8 with the reference; a used decoder makes
    half of them."""
    file = LocalFile(str(path), path.stat())
    index = index_of(file)
    params, graphs = clip_params(CLIP, index.info, Clip(0)), FilterGraphs()
    reference, scaled = [], []
    for frame in decode_from_start_to_end(path):
        reference.append(fingerprint(frame))
        scaled.append(clip_of([frame], CLIP, index.info, params, graphs)[0])
        del frame
    assert index.info.num_frames == len(reference)
    draw = random.Random(name)
    wrong: list[int] = []
    kept: list[Opened] = []

    def look(ordinal: int, frame: VideoFrame) -> None:
        shown[ordinal] = fingerprint(frame) == reference[ordinal]

    for window in range(WINDOWS):
        stride, length = 1 + window % 8, draw.randint(1, 6)
        start = draw.randint(0, max(0, len(reference) - 1 - (length - 1) * stride))
        wanted = [i for i in range(start, start + length * stride, stride) if i < len(reference)]
        shown: dict[int, bool] = {}  # some come twice, if the decoder complained
        opened = kept.pop() if kept and draw.random() < 0.5 else open_video(file, index)
        if read_frames(opened, index.order, wanted, look, lambda: None):
            kept.append(opened)
        assert shown.keys() == set(wanted)
        wrong += [ordinal for ordinal, right in shown.items() if not right]
    assert not wrong
    compare_clips(path, scaled, draw)
    return index


def compare_clips(path: Path, expected: list[Buffer], draw: random.Random) -> None:
    """What clips show, scaled, in the order of the file and shuffled, by one decoder each, against
    the frames of the reference."""
    ordinals = sorted(draw.sample(range(len(expected)), min(len(expected), CLIPS)))
    for shuffled in (False, True):
        decoder = Decoder(path.parent)
        if shuffled:
            draw.shuffle(ordinals)
        for ordinal in ordinals:
            out = np.empty((1, *CLIP.shape), np.uint8)
            where = Clip(0, row=Video("", start=ordinal, end=ordinal + 1))
            assert decoder.decode(path.name, CLIP, [where], out).tolist() == [[ordinal]]
            assert np.array_equal(out[0, 0], expected[ordinal]), (shuffled, ordinal)


def when(kind: Kind) -> tuple[pytest.MarkDecorator, ...]:
    if kind.name in QUICK:
        return ()
    return (pytest.mark.slow,) if kind.name in SLOW else (pytest.mark.nightly,)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=when(kind)) for kind in KINDS], ids=lambda kind: kind.name
)
def test_every_frame_equals_the_one_of_a_sequential_decode(kind: Kind, tmp_path: Path) -> None:
    path = named(kind.name, tmp_path)
    index = compare(kind.name, path)
    assert index.order.is_proven == kind.is_proven


@pytest.mark.parametrize(
    ("name", "most"),
    [
        *[("mpeg4_xvid", 8), ("mpeg4_bframes", 8), ("h264_bframes", 8), ("mjpeg", 8), ("ffv1", 8)],
        # where packets share a position, or groups of pictures are open
        *[("mp4_h264_recovery_points", 59), ("ps_mpeg2_bframes", 59)],
    ],
)
def test_a_frame_is_decoded_from_a_place_near_it(name: str, most: int, tmp_path: Path) -> None:
    """Right frames alone could also come from decoding everything from the start."""
    path = named(name, tmp_path)
    file = LocalFile(str(path), path.stat())
    index, ticks = index_of(file), list[None]()
    for wanted in range(38, index.info.num_frames, 5):
        ticks.clear()
        video = open_video(file, index)
        read_frames(video, index.order, [wanted], lambda *_: None, lambda: ticks.append(None))
        assert len(ticks) <= most


@pytest.mark.parametrize(
    ("name", "times"),
    rest_nightly(
        [("avi_mpeg4_uneven", True), ("mp4_h264_uneven", True), ("mkv_h264_uneven", True),
         ("mp4_mpeg4_empty_samples", True),
         ("mpeg4_dropped_frames", True), ("mp4_bframes_named_avi", False),
         ("avi_mjpeg_uneven", True), ("mp4_mpeg4_uneven", True), ("webm_vp9_uneven", True),
         ("mkv_named_avi", False)],
        usual=6,
    ),
)  # fmt: skip
def test_a_frame_is_shown_when_its_container_says(name: str, times: bool, tmp_path: Path) -> None:
    path = named(name, tmp_path)
    index = index_of(LocalFile(str(path), path.stat()))
    told = [frame.time or 0.0 for frame in decode_from_start_to_end(path)]
    shown = np.sort(told) - min(told)
    assert (index.info.times is not None) == times
    np.testing.assert_allclose(index.info.times_of(np.arange(len(shown))), shown, atol=0.002)
