"""Small files of every codec and quirk that FFmpeg's wheel can write, for the tests of exactness.

Each picture differs from all others and from its neighbours everywhere (moving gradients, a moving
square, the ordinal in its brightness), so that a frame decoded without its references, or taken for
its neighbour, is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import numpy.typing as npt
from av.video.stream import VideoStream

FRAMES = 40
Rewrite = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Kind:
    """How to make one file."""

    name: str
    codec: str
    pixels: str = "yuv420p"
    size: tuple[int, int] = (96, 64)  # width, height
    options: dict[str, str] = field(default_factory=dict)
    tag: str | None = None
    container: str = "avi"
    frames: int = FRAMES
    rate: Fraction = Fraction(25)
    audio: bool = False
    key_every: int = 12
    then: Rewrite | None = None  # done to the finished file


def picture(ordinal: int, width: int, height: int) -> npt.NDArray[np.uint8]:
    """RGB picture number ``ordinal``."""
    y, x = np.mgrid[0:height, 0:width]
    image = np.stack([x * 2 + 5 * ordinal, y * 3 + 3 * ordinal, x + y + 7 * ordinal], axis=-1) % 256
    left = (7 * ordinal) % max(1, width - 16)
    image[height // 3 : height // 3 + 12, left : left + 16] = 255 - (11 * ordinal) % 256
    return image.astype(np.uint8)


def make(kind: Kind, folder: Path) -> Path:
    """Write the file ``folder/<name>.avi``. Raises av.error.FFmpegError where the wheel cannot."""
    path = folder / f"{kind.name}.avi"
    with av.open(str(path), "w", format=kind.container) as out:
        sound = out.add_stream("pcm_s16le", rate=8000, layout="mono") if kind.audio else None
        stream = cast(VideoStream, out.add_stream(kind.codec, rate=kind.rate, options=kind.options))
        stream.width, stream.height = kind.size
        stream.pix_fmt = kind.pixels
        stream.codec_context.gop_size = kind.key_every
        stream.codec_context.thread_count = 1
        if kind.tag is not None:
            stream.codec_context.codec_tag = kind.tag
        if sound is not None:
            silence = av.AudioFrame.from_ndarray(
                np.zeros((1, 8000), np.int16), format="s16", layout="mono"
            )
            silence.rate = 8000
            out.mux(sound.encode(silence))
        for ordinal in range(kind.frames):
            out.mux(stream.encode(_frame(kind, ordinal)))
        out.mux(stream.encode(None))
    if kind.then is not None:
        path.write_bytes(kind.then(path.read_bytes()))
    return path


def _frame(kind: Kind, ordinal: int) -> av.VideoFrame:
    image = picture(ordinal, *kind.size)
    if kind.pixels != "pal8":
        return av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format=kind.pixels)
    levels = np.arange(256, dtype=np.uint8)
    palette = np.stack([np.full(256, 255, np.uint8), levels, levels[::-1], levels], axis=-1)
    indices_and_palette: Any = (image[..., 0], palette)
    return av.VideoFrame.from_ndarray(indices_and_palette, format="pal8")


def _without_index(data: bytes) -> bytes:
    """As a recorder leaves it that was killed: no idx1, and sizes of zero."""
    cut = data[: data.rindex(b"idx1")]
    return cut[:4] + b"\0\0\0\0" + cut[8:]


def _index(change: Callable[[int, int, int, int], tuple[int, int, int]]) -> Rewrite:
    """Rewrite idx1: (number, flags, offset, size) -> (flags, offset, size)."""

    def rewrite(data: bytes) -> bytes:
        out = bytearray(data)
        begin = data.rindex(b"idx1") + 8
        entries = int.from_bytes(data[begin - 4 : begin], "little") // 16
        for i in range(entries):
            at = begin + 16 * i
            old = [int.from_bytes(data[at + k : at + k + 4], "little") for k in (4, 8, 12)]
            for k, value in zip((4, 8, 12), change(i, *old), strict=True):
                out[at + k : at + k + 4] = (value % (1 << 32)).to_bytes(4, "little")
        return bytes(out)

    return rewrite


def _header_frames(count: int) -> Rewrite:
    """Make both frame counts of the header lie."""

    def rewrite(data: bytes) -> bytes:
        out = bytearray(data)
        main, stream = data.index(b"avih") + 8, data.index(b"strh") + 8
        out[main + 16 : main + 20] = out[stream + 32 : stream + 36] = count.to_bytes(4, "little")
        return bytes(out)

    return rewrite


def _with_dropped_frames(data: bytes) -> bytes:
    """Empty every seventh chunk after the tenth, as a capture that fell behind does: their size
    becomes 0 in the index, and their place in the file a JUNK chunk."""
    out = bytearray(data)
    begin = data.rindex(b"idx1") + 8
    movi = data.index(b"movi")
    for i in range(10, int.from_bytes(data[begin - 4 : begin], "little") // 16, 7):
        entry = begin + 16 * i
        chunk = movi + int.from_bytes(data[entry + 8 : entry + 12], "little")
        out[chunk : chunk + 4] = b"JUNK"
        out[entry + 12 : entry + 16] = bytes(4)
    return bytes(out)


_X264 = {"preset": "ultrafast", "x264-params": "log-level=none"}

KINDS = [
    Kind("mpeg4_xvid", "mpeg4", tag="xvid"),
    Kind("mpeg4_divx", "mpeg4", tag="DX50"),
    Kind("mpeg4_bframes", "mpeg4", options={"bf": "2"}),
    Kind("mpeg4_quarter_pel", "mpeg4", options={"flags": "+qpel"}),
    Kind("mpeg4_qpel_bframes", "mpeg4", options={"flags": "+qpel", "bf": "2"}),
    Kind("mpeg4_interlaced", "mpeg4", options={"flags": "+ilme+ildct"}),
    Kind("mpeg4_data_partitioning", "mpeg4", options={"data_partitioning": "1"}),
    Kind("mpeg4_one_key_frame", "mpeg4", key_every=600),
    Kind("mpeg4_all_key_frames", "mpeg4", key_every=1),
    Kind("mpeg4_odd_size", "mpeg4", size=(97, 63)),
    Kind("mpeg4_one_frame", "mpeg4", frames=1),
    Kind("mpeg4_two_frames", "mpeg4", frames=2),
    Kind("mpeg4_ntsc", "mpeg4", rate=Fraction(30000, 1001)),
    Kind("mpeg4_audio_first", "mpeg4", audio=True),
    Kind("mpeg4_no_index", "mpeg4", then=_without_index),
    Kind("mpeg4_garbage_index", "mpeg4", then=_index(lambda i, f, o, s: (f, o * 7 + i, s))),
    Kind("mpeg4_index_off_by_one", "mpeg4", then=_index(lambda i, f, o, s: (f, o + 1, s))),
    Kind("mpeg4_all_flagged_key", "mpeg4", then=_index(lambda i, f, o, s: (0x10, o, s))),
    Kind("mpeg4_none_flagged_key", "mpeg4", then=_index(lambda i, f, o, s: (0, o, s))),
    Kind("mpeg4_flags_shifted", "mpeg4", then=_index(lambda i, f, o, s: (16 * (i % 5 == 3), o, s))),
    Kind("mpeg4_header_says_9999", "mpeg4", then=_header_frames(9999)),
    Kind("mpeg4_header_says_0", "mpeg4", then=_header_frames(0)),
    Kind("mpeg4_dropped_frames", "mpeg4", then=_with_dropped_frames),
    Kind("mpeg4_truncated", "mpeg4", then=lambda data: data[: len(data) * 6 // 10]),
    Kind("msmpeg4v2", "msmpeg4v2"),
    Kind("msmpeg4v3", "msmpeg4"),
    Kind("wmv1", "wmv1"),
    Kind("wmv2", "wmv2"),
    Kind("h263", "h263", size=(176, 144)),
    Kind("h263p", "h263p"),
    Kind("flv1", "flv"),
    Kind("mpeg1", "mpeg1video"),
    Kind("mpeg2", "mpeg2video"),
    Kind("mpeg2_bframes", "mpeg2video", options={"bf": "2"}),
    Kind("h264", "libx264", options={**_X264, "bf": "0"}),
    Kind("h264_bframes", "libx264", options={**_X264, "preset": "veryfast", "bf": "3"}),
    Kind("h264_open_gop", "libx264", options={
        "preset": "veryfast", "bf": "3", "x264-params": "open-gop=1:keyint=12:log-level=none"}),
    Kind("h264_intra_refresh", "libx264", options={
        "preset": "veryfast", "x264-params": "intra-refresh=1:keyint=12:log-level=none"}),
    Kind("h264_many_refs", "libx264", options={
        "preset": "veryfast", "x264-params": "ref=8:keyint=12:scenecut=0:log-level=none"}),
    Kind("h264_444", "libx264", pixels="yuv444p", options=_X264),
    Kind("h264_10bit", "libx264", pixels="yuv420p10le", options=_X264),
    Kind("mjpeg", "mjpeg", pixels="yuvj420p"),
    Kind("mjpeg_422", "mjpeg", pixels="yuvj422p"),
    Kind("mjpeg_444", "mjpeg", pixels="yuvj444p"),
    Kind("huffyuv_422", "huffyuv", pixels="yuv422p"),
    Kind("huffyuv_rgb", "huffyuv", pixels="rgb24"),
    Kind("ffvhuff", "ffvhuff"),
    Kind("ffv1", "ffv1"),
    Kind("ffv1_inter", "ffv1", options={"context": "1"}),
    Kind("ffv1_rgb", "ffv1", pixels="bgr0"),
    Kind("ffv1_gray", "ffv1", pixels="gray"),
    Kind("ffv1_422_10bit", "ffv1", pixels="yuv422p10le"),
    Kind("ffv1_410", "ffv1", pixels="yuv410p"),
    Kind("utvideo", "utvideo"),
    Kind("utvideo_rgb", "utvideo", pixels="gbrp"),
    Kind("magicyuv", "magicyuv"),
    Kind("cinepak", "cinepak", pixels="rgb24"),
    Kind("msvideo1", "msvideo1", pixels="rgb555le"),
    Kind("msrle", "msrle", pixels="pal8"),
    Kind("asv1", "asv1"),
    Kind("asv2", "asv2"),
    Kind("snow", "snow", options={"strict": "-2"}),
    Kind("zlib", "zlib", pixels="bgr24"),
    Kind("vp8", "libvpx", options={"deadline": "realtime", "cpu-used": "8"}),
    Kind("raw_bgr24", "rawvideo", pixels="bgr24"),
    Kind("raw_yuv420p", "rawvideo"),
    Kind("raw_uyvy422", "rawvideo", pixels="uyvy422"),
    Kind("raw_gray", "rawvideo", pixels="gray"),
    Kind("raw_pal8", "rawvideo", pixels="pal8"),
    Kind("dv", "dvvideo", size=(720, 576), frames=6),
    Kind("mp4_named_avi", "mpeg4", container="mp4"),
    Kind("mp4_bframes_named_avi", "mpeg4", container="mp4", options={"bf": "2"}),
    Kind("mov_h264_named_avi", "libx264", container="mov", options={**_X264, "bf": "2"}),
    Kind("mkv_named_avi", "mpeg4", container="matroska"),
    Kind("mpeg_ps_named_avi", "mpeg2video", container="mpeg"),
    Kind("mpegts_named_avi", "mpeg2video", container="mpegts"),
    Kind("mjpeg_stream_named_avi", "mjpeg", pixels="yuvj420p", container="mjpeg"),
    Kind("m4v_named_avi", "mpeg4", container="m4v"),
]  # fmt: skip


def all_made(folder: Path) -> Iterator[tuple[Kind, Path]]:
    """Each kind that this wheel can write, with its file."""
    for kind in KINDS:
        try:
            yield kind, make(kind, folder)
        except (av.error.FFmpegError, ValueError):
            continue
