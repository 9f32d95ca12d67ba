"""Small files of every codec and quirk that FFmpeg's wheel can write, for the tests of exactness.

Each picture differs everywhere from all others (moving gradients, a moving square, the ordinal in
its brightness). So a frame that was decoded without its references, or mistaken for its neighbour,
is noticed.
"""

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import av
import numpy as np
import numpy.typing as npt
import pytest
from av.container import InputContainer
from av.packet import PacketSideData
from av.video.frame import PictureType
from av.video.stream import VideoStream

from tests.support.avi_files import Chunk, join, open_dml, split
from tests.support.mp4_files import empty_samples
from tests.support.videos import same_scheduling

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
    pts: Callable[[int], int] | None = None  # of each picture, in frames; the ordinal by default
    muxing: dict[str, str] = field(default_factory=dict)
    types: str = ""  # of the first pictures, as letters
    then: Rewrite | None = None  # applied to the finished file
    is_proven: bool = True  # without decoding


def picture(ordinal: int, width: int, height: int) -> npt.NDArray[np.uint8]:
    """RGB picture number ``ordinal``."""
    y, x = np.mgrid[0:height, 0:width]
    image = np.stack([x * 2 + 5 * ordinal, y * 3 + 3 * ordinal, x + y + 7 * ordinal], axis=-1) % 256
    left = (7 * ordinal) % max(1, width - 16)
    image[height // 3 : height // 3 + 12, left : left + 16] = 255 - (11 * ordinal) % 256
    return image.astype(np.uint8)


def make(kind: Kind, folder: Path) -> Path:
    """Write the file ``folder/<name>.avi``. Raises av.error.FFmpegError if the wheel cannot."""
    path = folder / f"{kind.name}.avi"
    with (
        same_scheduling(),
        av.open(str(path), "w", format=kind.container, options=kind.muxing) as out,
    ):
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
            frame = _frame(kind, ordinal)
            if kind.pts is not None:
                frame.pts = kind.pts(ordinal)
            if ordinal < len(kind.types):
                frame.pict_type = PictureType[kind.types[ordinal]]
            out.mux(stream.encode(frame))
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
    """As a killed recorder leaves it: no idx1, and sizes of zero."""
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
    """Make both frame counts of the header wrong."""

    def rewrite(data: bytes) -> bytes:
        out = bytearray(data)
        main, stream = data.index(b"avih") + 8, data.index(b"strh") + 8
        out[main + 16 : main + 20] = out[stream + 32 : stream + 36] = count.to_bytes(4, "little")
        return bytes(out)

    return rewrite


def _chunks(change: Callable[[list[Chunk]], Sequence[Chunk]], **how: Any) -> Rewrite:
    """Rewrite the chunks of an AVI file."""

    def rewrite(data: bytes) -> bytes:
        header, chunks = split(data)
        return join(header, change(chunks), **how)

    return rewrite


def _with_dropped_frames(chunks: list[Chunk]) -> list[Chunk]:
    """Every seventh chunk after the tenth is empty, as when a capture falls behind."""
    return [c._replace(data=b"") if i % 7 == 3 and i >= 10 else c for i, c in enumerate(chunks)]


def _cut_or_grown(by: int) -> Callable[[list[Chunk]], list[Chunk]]:
    """Every fifth chunk is so much longer, or shorter."""

    def change(chunks: list[Chunk]) -> list[Chunk]:
        longer = [c._replace(data=(c.data + bytes(9))[: len(c.data) + by]) for c in chunks]
        return [longer[i] if i % 5 == 3 else each for i, each in enumerate(chunks)]

    return change


def _with_another_every_fifth(another: Chunk) -> Callable[[list[Chunk]], list[Chunk]]:
    def change(chunks: list[Chunk]) -> list[Chunk]:
        out = []
        for i, each in enumerate(chunks):
            out += [another, each] if i % 5 == 4 else [each]
        return out

    return change


_VOP, _N_VOP = b"\0\0\1\xb6", b"\0\0\1\xb6\x50\x4f"  # not coded, of 25 frames a second
_ONE_BYTE = Chunk(b"00dc", b"\x7f")
_DIVX, _DIVX_PACKED = b"\0\0\1\xb2DivX503b1393", b"\0\0\1\xb2DivX503b1393p"


def _say(user_data: bytes) -> Callable[[list[Chunk]], list[Chunk]]:
    """Put user data into the headers of key frames."""

    def change(chunks: list[Chunk]) -> list[Chunk]:
        def say(data: bytes) -> bytes:
            at = data.index(_VOP)
            return data[:at] + user_data + data[at:] if at else data

        return [c._replace(data=say(c.data)) for c in chunks]

    return change


def _packed(chunks: list[Chunk]) -> list[Chunk]:
    """As DivX and Xvid pack B-VOPs into AVI files: the first B-VOP goes into the packet of the
    reference picture that follows it, and an empty picture comes after the last one."""
    chunks = _say(_DIVX_PACKED)(chunks)
    out: list[Chunk] = []
    in_run = False
    for each, following in zip(chunks, [*chunks[1:], None], strict=True):
        is_b, next_is_b = (c is not None and _vop_type(c) == 2 for c in (each, following))
        if is_b and not in_run:
            out[-1] = out[-1]._replace(data=out[-1].data + each.data)
        else:
            out.append(each)
        if is_b and not next_is_b:
            out.append(Chunk(b"00dc", _N_VOP))
        in_run = is_b
    return out


def _vop_type(chunk: Chunk) -> int:
    return chunk.data[chunk.data.index(_VOP) + 4] >> 6


def _without_b_times(chunks: list[Chunk]) -> list[Chunk]:
    """All B-VOPs have the time of the beginning of their second."""

    def change(data: bytes) -> bytes:
        at = data.index(_VOP) + 4
        return data[:at] + bytes([data[at] & 0xF0, data[at + 1] & 0x7F]) + data[at + 2 :]

    return [c._replace(data=change(c.data)) if _vop_type(c) == 2 else c for c in chunks]


def _low_delay(data: bytes) -> bytes:
    """Make all headers say that there are no B-VOPs."""
    out, at = bytearray(data), -1
    while (at := data.find(b"\0\0\1\x20", at + 1)) >= 0:
        # random access, type, version and priority, aspect ratio, control parameters, chroma
        place = 8 * (at + 4) + 1 + 8 + 8 + 4 + 1 + 2
        out[place // 8] |= 0x80 >> place % 8
    return bytes(out)


def _invisible(chunks: list[Chunk]) -> list[Chunk]:
    """Every fifth VP8 frame that is not a key frame is hidden, like an alternate reference."""

    def hide(c: Chunk) -> Chunk:
        return c._replace(data=bytes([c.data[0] & ~0x10]) + c.data[1:])

    return [hide(c) if i % 5 == 3 and not c.is_key else c for i, c in enumerate(chunks)]


def _without_tables(which: Callable[[int], bool]) -> Callable[[list[Chunk]], list[Chunk]]:
    """Some MJPEG pictures use the quantization tables of an earlier one."""
    quantization = re.compile(b"\xff\xdb\0\x43.{65}", re.DOTALL)

    def change(chunks: list[Chunk]) -> list[Chunk]:
        bare = [c._replace(data=quantization.sub(b"", c.data)) for c in chunks]
        return [bare[i] if which(i) else c for i, c in enumerate(chunks)]

    return change


def _twice_as_high(data: bytes) -> bytes:
    """Make the header say twice the height, so that the packets hold fields."""
    out, at = bytearray(data), data.index(b"strf") + 16
    out[at : at + 4] = (2 * int.from_bytes(data[at : at + 4], "little")).to_bytes(4, "little")
    return bytes(out)


def _without_reordering_told(chunks: list[Chunk]) -> list[Chunk]:
    """H.264 whose headers do not say how far pictures are reordered (no VUI)."""
    return [c._replace(data=_SPS.sub(lambda sps: _without_vui(sps[0]), c.data)) for c in chunks]


_SPS = re.compile(b"\0\0\1[\x67\x27].*?(?=\0\0\0?\1)", re.DOTALL)


def _without_vui(sps: bytes) -> bytes:
    bits = "".join(f"{byte:08b}" for byte in sps[4:].replace(b"\0\0\3", b"\0\0"))
    at = 24

    def golomb() -> int:
        nonlocal at
        zeros = bits.index("1", at) - at
        at += 2 * zeros + 1
        return int(bits[at - zeros - 1 : at], 2) - 1

    golomb()
    if sps[4] in (100, 110, 244):  # chroma, depths, no scaling lists
        golomb(), golomb(), golomb()
        at += 2
    golomb()
    if golomb() == 0:
        golomb()
    golomb()
    at += 1
    golomb(), golomb()
    at += 1  # frames only
    at += 1
    if bits[at] == "1":  # cropped
        at += 1
        golomb(), golomb(), golomb(), golomb()
        at -= 1
    bits = bits[: at + 1] + "01"  # no VUI; the end
    bits += "0" * (-len(bits) % 8)
    packed = bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))
    return sps[:4] + re.sub(b"\0\0(?=[\0-\3])", b"\0\0\3", packed)


def _slices(chunk: Chunk) -> list[Chunk]:
    """Put the second slice of a picture into a packet of its own."""
    at = chunk.data.rindex(b"\0\0\1")
    return [chunk._replace(data=chunk.data[:at]), Chunk(chunk.name, chunk.data[at:])]


def _followed_by(other: Kind) -> Rewrite:
    """Another encoder's pictures follow, without any announcement."""

    def rewrite(data: bytes) -> bytes:
        header, chunks = split(data)
        with TemporaryDirectory() as folder:
            more = split(make(other, Path(folder)).read_bytes())[1]
        return join(header, [*chunks, *more])

    return rewrite


def _joined(other: Kind, container: str) -> Rewrite:
    """Another encoder's pictures follow, as a muxer writes them that knows of it."""

    def rewrite(data: bytes) -> bytes:
        with TemporaryDirectory() as folder:
            out = Path(folder, "joined")
            with (
                av.open(BytesIO(data)) as first,
                av.open(str(make(other, Path(folder)))) as second,
                av.open(str(out), "w", format=container) as joined,
            ):
                stream = joined.add_stream_from_template(first.streams.video[0])
                shift = 0
                for part in (first, second):
                    settings = part.streams.video[0].codec_context.extradata or b""
                    last = shift
                    for packet in cast(InputContainer, part).demux(part.streams.video[0]):
                        if packet.pts is None or packet.dts is None:
                            continue
                        if part is second and settings:
                            told = cast(Any, PacketSideData)(1, len(settings))  # new extradata
                            told.update(settings)
                            packet.set_sidedata(told)
                            settings = b""
                        packet.pts, packet.dts = packet.pts + shift, packet.dts + shift
                        last = max(last, packet.pts + 4 * (packet.duration or 1))
                        packet.stream = stream
                        joined.mux(packet)
                    shift = last
            return out.read_bytes()

    return rewrite


_X264 = {"preset": "ultrafast", "x264-params": "log-level=none"}
_LATER_SETTINGS = Kind(
    "later", "libx264", container="mp4", frames=24,
    options={**_X264, "bf": "0", "x264-params": "chroma-qp-offset=6:log-level=none"},
)  # fmt: skip


def _uneven(ordinal: int) -> int:
    """The time of a picture: a steady start, a long gap, then every fourth time."""
    return ordinal if ordinal < 20 else 40 + 4 * (ordinal - 20)


def _trimmed(frames: int) -> Rewrite:
    """What is shown begins so many frames later and ends three earlier, by an edit list: as `ffmpeg
    -ss ... -c copy` and phones cut."""

    def rewrite(data: bytes) -> bytes:
        out = bytearray(data)
        scale = int.from_bytes(data[(at := data.index(b"mvhd") + 16) : at + 4], "big")
        media = int.from_bytes(data[(at := data.index(b"mdhd") + 16) : at + 4], "big")
        edit = data.index(b"elst") + 12  # its duration, and where it begins
        lasts, begins = struct.unpack_from(">II", data, edit)
        if lasts <= (frames + 3) * scale // 25:
            raise ValueError("it has too few frames")
        struct.pack_into(
            ">II", out, edit, lasts - (frames + 3) * scale // 25, begins + frames * media // 25
        )
        return bytes(out)

    return rewrite


KINDS = [
    Kind("mpeg4_xvid", "mpeg4", tag="xvid"),
    Kind("mpeg4_divx", "mpeg4", tag="DX50"),
    Kind("mpeg4_bframes", "mpeg4", options={"bf": "2"}),
    Kind("mpeg4_quarter_pel", "mpeg4", options={"flags": "+qpel"}),
    Kind("mpeg4_qpel_bframes", "mpeg4", options={"flags": "+qpel", "bf": "2"}),
    Kind("mpeg4_interlaced", "mpeg4", options={"flags": "+ilme+ildct"}),
    Kind("mpeg4_interlaced_bframes", "mpeg4", is_proven=False,
         options={"flags": "+ilme+ildct", "bf": "2"}),
    Kind("mpeg4_alternate_scan_bframes", "mpeg4", is_proven=False,
         options={"alternate_scan": "1", "bf": "2"}),
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
    Kind("mpeg4_dropped_frames", "mpeg4", then=_chunks(_with_dropped_frames)),
    Kind("mpeg4_packed", "mpeg4", options={"bf": "1"}, then=_chunks(_packed)),
    Kind("mpeg4_packed_runs", "mpeg4", options={"bf": "2"}, then=_chunks(_packed)),
    Kind("mpeg4_n_vops", "mpeg4",
         then=_chunks(_with_another_every_fifth(Chunk(b"00dc", _N_VOP)))),
    Kind("mpeg4_n_vop_at_end", "mpeg4", is_proven=False,
         then=_chunks(lambda chunks: [*chunks, Chunk(b"00dc", _N_VOP)])),
    Kind("mpeg4_n_vops_bframes", "mpeg4", options={"bf": "2"}, is_proven=False,
         then=_chunks(_with_another_every_fifth(Chunk(b"00dc", _N_VOP)))),
    Kind("mpeg4_b_times_wrong", "mpeg4", options={"bf": "2"}, is_proven=False,
         then=_chunks(_without_b_times)),
    Kind("mpeg4_one_byte_packets", "mpeg4",
         then=_chunks(lambda chunks: _with_another_every_fifth(_ONE_BYTE)(_say(_DIVX)(chunks)))),
    Kind("mpeg4_one_byte_packets_unsaid", "mpeg4", is_proven=False,
         then=_chunks(_with_another_every_fifth(_ONE_BYTE))),
    Kind("mpeg4_low_delay_said", "mpeg4", options={"bf": "2"}, then=_low_delay, is_proven=False),
    Kind("mpeg4_in_record_lists", "mpeg4", then=_chunks(lambda chunks: chunks, in_lists_of=5)),
    Kind("mpeg4_open_dml", "mpeg4", then=open_dml),
    Kind("mpeg4_open_dml_bframes", "mpeg4", options={"bf": "2"}, then=lambda d: open_dml(d, 4)),
    Kind("mpeg4_picture_behind_index", "mpeg4",
         then=lambda data: data + split(data)[1][1].packed),
    Kind("mpeg4_picture_in_unknown_chunk", "mpeg4",
         then=_chunks(lambda c: [*c[:9], Chunk(b"ABCD", c[1].packed, is_indexed=False), *c[9:]])),
    Kind("mpeg4_entry_missing", "mpeg4",
         then=_chunks(lambda c: [each._replace(is_indexed=i != 9) for i, each in enumerate(c)])),
    Kind("mpeg4_settings_change", "mpeg4", is_proven=False,
         then=_chunks(lambda c: [*_say(b"\0\0\1\xb2XviD0050")(c[:24]), *c[24:]])),
    Kind("mpeg4_truncated", "mpeg4", then=lambda data: data[: len(data) * 6 // 10]),
    Kind("msmpeg4v2", "msmpeg4v2"),
    Kind("msmpeg4v3", "msmpeg4"),
    Kind("wmv1", "wmv1", is_proven=False),
    Kind("wmv2", "wmv2", is_proven=False),
    Kind("msmpeg4v2_320x240", "msmpeg4v2", size=(320, 240)),
    Kind("msmpeg4v3_320x240", "msmpeg4", size=(320, 240)),
    Kind("wmv1_320x240", "wmv1", size=(320, 240), is_proven=False),
    Kind("wmv2_320x240", "wmv2", size=(320, 240), is_proven=False),
    Kind("flv1_all_flagged_key", "flv", is_proven=False,
         then=_index(lambda i, f, o, s: (0x10, o, s))),
    Kind("h263", "h263", size=(176, 144), is_proven=False),
    Kind("h263p", "h263p", is_proven=False),
    Kind("flv1", "flv", is_proven=False),
    Kind("mpeg1", "mpeg1video", is_proven=False),
    Kind("mpeg2", "mpeg2video", is_proven=False),
    Kind("mpeg2_bframes", "mpeg2video", options={"bf": "2"}, is_proven=False),
    Kind("mpeg1_bframes", "mpeg1video", options={"bf": "2"}, is_proven=False),
    Kind("mpeg2_closed_gop", "mpeg2video", options={
        "bf": "2", "flags": "+cgop", "sc_threshold": "1000000000"}, is_proven=False),
    Kind("h264", "libx264", options={**_X264, "bf": "0"}),
    Kind("h264_bframes", "libx264", options={**_X264, "preset": "veryfast", "bf": "3"}),
    Kind("h264_open_gop", "libx264", options={
        "preset": "veryfast", "bf": "3", "x264-params": "open-gop=1:keyint=12:log-level=none"}),
    Kind("mp4_h264_recovery_points", "libx264", container="mp4", frames=96, options={
        "preset": "veryfast", "x264-params": "open-gop=1:keyint=12:bframes=3:log-level=none"}),
    Kind("ps_mpeg2_bframes", "mpeg2video", container="vob", frames=96, options={"bf": "2"},
         size=(320, 240), is_proven=False),
    Kind("h264_intra_refresh", "libx264", options={
        "preset": "veryfast", "x264-params": "intra-refresh=1:keyint=12:log-level=none"}),
    Kind("h264_many_refs", "libx264", options={
        "preset": "veryfast", "x264-params": "ref=8:keyint=12:scenecut=0:log-level=none"}),
    Kind("h264_444", "libx264", pixels="yuv444p", options=_X264),
    Kind("h264_10bit", "libx264", pixels="yuv420p10le", options=_X264),
    Kind("h264_pyramid", "libx264", options={
        "preset": "veryfast", "x264-params": "bframes=5:b-pyramid=normal:keyint=12:scenecut=0:"
        "b-adapt=0:log-level=none"}),
    Kind("h264_reordering_not_told", "libx264", options={
        "preset": "veryfast", "x264-params": "bframes=3:keyint=12:b-adapt=0:log-level=none"},
        is_proven=False, then=_chunks(_without_reordering_told)),
    Kind("h264_reordering_begins_late", "libx264", types="I" + 19 * "P", frames=60, options={
        "preset": "veryfast", "x264-params": "bframes=3:keyint=30:b-adapt=0:scenecut=0:"
        "log-level=none"}, is_proven=False, then=_chunks(_without_reordering_told)),
    Kind("h264_nothing_told", "libx264", options={**_X264, "bf": "0"},
         then=_chunks(_without_reordering_told)),
    Kind("h264_lossless", "libx264", options={
        "preset": "medium", "x264-params": "qp=0:bframes=0:keyint=12:log-level=none"}),
    Kind("h264_lossless_of_old_x264", "libx264", options={
        "preset": "medium", "x264-params": "qp=0:bframes=0:keyint=12:log-level=none"},
        then=lambda data: re.sub(rb"core \d\d\d", b"core 148", data)),
    Kind("h264_interlaced", "libx264", options={
        "preset": "veryfast", "x264-params": "interlaced=1:tff=1:keyint=12:log-level=none"}),
    Kind("h264_from_mid_gop", "libx264", is_proven=False, options={**_X264, "bf": "0"},
         then=_chunks(lambda chunks: chunks[3:])),
    Kind("h264_another_sps", "libx264", is_proven=False, options={**_X264, "bf": "0"}, frames=20,
         then=_followed_by(Kind("other", "libx264", frames=20, options={
             "preset": "veryfast", "x264-params": "ref=4:keyint=12:log-level=none"}))),
    Kind("h264_aud", "libx264", options={
        "preset": "ultrafast", "x264-params": "aud=1:keyint=12:log-level=none"}),
    Kind("h264_slices", "libx264", options={
        "preset": "ultrafast", "x264-params": "slices=4:keyint=12:log-level=none"}),
    Kind("h264_slice_a_packet", "libx264", is_proven=False, options={
        "preset": "ultrafast", "x264-params": "slices=2:keyint=12:log-level=none"},
        then=_chunks(lambda chunks: [part for c in chunks for part in _slices(c)])),
    Kind("mjpeg", "mjpeg", pixels="yuvj420p"),
    Kind("mjpeg_422", "mjpeg", pixels="yuvj422p"),
    Kind("mjpeg_444", "mjpeg", pixels="yuvj444p"),
    Kind("mjpeg_dropped_frames", "mjpeg", pixels="yuvj420p", then=_chunks(_with_dropped_frames)),
    Kind("mjpeg_tables_in_first", "mjpeg", pixels="yuvj420p", is_proven=False,
         options={"huffman": "default"}, then=_chunks(_without_tables(lambda i: i > 0))),
    Kind("mjpeg_tables_not_in_all", "mjpeg", pixels="yuvj420p", is_proven=False,
         options={"huffman": "default"}, then=_chunks(_without_tables(lambda i: i % 3 == 2))),
    Kind("mjpeg_tables_in_first_half", "mjpeg", pixels="yuvj420p", is_proven=False,
         options={"huffman": "default"}, then=_chunks(_without_tables(lambda i: i >= 20))),
    Kind("mjpeg_a_field_a_packet", "mjpeg", pixels="yuvj422p", is_proven=False,
         then=_twice_as_high),
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
    Kind("cinepak", "cinepak", pixels="rgb24", size=(48, 32), is_proven=False),
    Kind("msvideo1", "msvideo1", pixels="rgb555le", is_proven=False),
    Kind("msrle", "msrle", pixels="pal8", is_proven=False),
    Kind("asv1", "asv1"),
    Kind("asv2", "asv2"),
    Kind("prores", "prores_ks", pixels="yuv422p10le", container="mov"),
    Kind("dnxhd", "dnxhd", pixels="yuv422p", size=(256, 128), container="mov",
         options={"profile": "dnxhr_lb"}),
    Kind("jpeg2000", "jpeg2000", container="matroska"),
    *(Kind(f"mov_{name}", name, pixels=pixels, container="mov") for name, pixels in (
        ("v210", "yuv422p10le"), ("v308", "yuv444p"), ("v410", "yuv444p10le"),
        ("r210", "gbrp10le"), ("yuv4", "yuv420p"))),
    Kind("snow", "snow", options={"strict": "-2"}, is_proven=False),
    Kind("zlib", "zlib", pixels="bgr24", is_proven=False),
    Kind("vp8", "libvpx", options={"deadline": "realtime", "cpu-used": "8"}),
    Kind("vp8_invisible", "libvpx", options={"deadline": "realtime", "cpu-used": "8"},
         then=_chunks(_invisible)),
    Kind("vp8_alternate_references", "libvpx", container="matroska", options={
        "deadline": "good", "auto-alt-ref": "1", "lag-in-frames": "16"}),
    Kind("raw_bgr24", "rawvideo", pixels="bgr24"),
    Kind("raw_yuv420p", "rawvideo"),
    Kind("raw_uyvy422", "rawvideo", pixels="uyvy422"),
    Kind("raw_gray", "rawvideo", pixels="gray"),
    Kind("raw_pal8", "rawvideo", pixels="pal8", is_proven=False),
    Kind("raw_short_chunks", "rawvideo", is_proven=False, then=_chunks(_cut_or_grown(-1))),
    Kind("raw_long_chunks", "rawvideo", then=_chunks(_cut_or_grown(5))),
    Kind("dv", "dvvideo", size=(720, 576), frames=6),
    Kind("mp4_tag_not_ascii", "mpeg4", container="mp4", is_proven=False,
         then=lambda data: data.replace(b"mp4v", b"mp4\xff")),
    Kind("mp4_named_avi", "mpeg4", container="mp4"),
    Kind("mp4_bframes_named_avi", "mpeg4", container="mp4", options={"bf": "2"}),
    Kind("mov_h264_named_avi", "libx264", container="mov", options={**_X264, "bf": "2"}),
    Kind("mp4_h264_cut_by_edit_list", "libx264", container="mp4", pts=lambda i: i - 15,
         options={**_X264, "bf": "2"}, is_proven=False),
    Kind("mp4_h264_fragments", "libx264", container="mp4", options={**_X264, "bf": "2"},
         muxing={"movflags": "frag_keyframe+empty_moov"}),
    Kind("mp4_h264_settings_change", "libx264", container="mp4", is_proven=False, frames=24,
         options={**_X264, "bf": "0"}, then=_joined(_LATER_SETTINGS, "mp4")),
    Kind("flv_h264_settings_change", "libx264", container="mp4", is_proven=False, frames=24,
         options={**_X264, "bf": "0"}, then=_joined(_LATER_SETTINGS, "flv")),
    Kind("mkv_h264_named_avi", "libx264", container="matroska", options={**_X264, "bf": "2"}),
    Kind("ts_h264_named_avi", "libx264", container="mpegts", options={**_X264, "bf": "2"}),
    Kind("flv_h264_named_avi", "libx264", container="flv", options={**_X264, "bf": "2"}),
    Kind("mkv_hevc_named_avi", "libx265", container="matroska",
         options={"preset": "ultrafast", "x265-params": "log-level=none:pools=none:keyint=12"}),
    Kind("mp4_hevc_named_avi", "libx265", container="mp4",
         options={"preset": "ultrafast", "x265-params": "log-level=none:pools=none:keyint=12"}),
    Kind("mkv_vp9_named_avi", "libvpx-vp9", container="matroska",
         options={"deadline": "realtime", "cpu-used": "8"}),
    Kind("mp4_av1_named_avi", "libsvtav1", container="mp4",
         options={"preset": "12", "svtav1-params": "keyint=12:lp=1"}),
    Kind("ts_mpeg4_named_avi", "mpeg4", container="mpegts", options={"bf": "2"}),
    Kind("ps_h264_named_avi", "libx264", container="vob", options={**_X264, "bf": "0"}),
    Kind("mkv_named_avi", "mpeg4", container="matroska"),
    Kind("h264_alone_named_avi", "libx264", container="h264", options={**_X264, "bf": "2"}),
    Kind("hevc_alone_named_avi", "libx265", container="hevc",
         options={"preset": "ultrafast", "x265-params": "log-level=none:pools=none:keyint=12"}),
    Kind("av1_alone_named_avi", "libsvtav1", container="obu",
         options={"preset": "12", "svtav1-params": "keyint=12:lp=1"}),
    *(
        Kind(f"{container}_{codec}_{name}", codec, container=container, key_every=5,
             pixels=pixels, options=options)
        for container, codec, pixels in (
            ("matroska", "ffv1", "yuv420p"), ("matroska", "mjpeg", "yuv420p"),
            ("mov", "mjpeg", "yuv420p"), ("mov", "rawvideo", "yuyv422"),
        )
        for name, options in (
            ("bt709_full", {"colorspace": "bt709", "color_range": "pc", "strict": "-1"}),
            ("bt2020", {"colorspace": "bt2020nc", "color_primaries": "bt2020", "strict": "-1",
                        "color_trc": "smpte2084"}),
        )
    ),
    Kind("avi_mpeg4_uneven", "mpeg4", pts=_uneven),
    Kind("avi_mjpeg_uneven", "mjpeg", pixels="yuvj420p", pts=_uneven),
    Kind("mp4_mpeg4_empty_samples", "mpeg4", container="mp4", key_every=1,
         then=lambda data: empty_samples(data, {0, 11, 12, FRAMES - 1}.__contains__)),
    Kind("mp4_hevc_empty_samples", "libx265", container="mp4",
         options={"preset": "ultrafast", "x265-params": "log-level=none:pools=none:keyint=12"},
         then=lambda data: empty_samples(data, {11, 12, FRAMES - 1}.__contains__)),
    Kind("mp4_mpeg4_uneven", "mpeg4", container="mp4", pts=_uneven),
    Kind("mp4_h264_uneven", "libx264", container="mp4", pts=_uneven, options={**_X264, "bf": "2"}),
    Kind("mkv_h264_uneven", "libx264", container="matroska", pts=_uneven,
         options={**_X264, "bf": "2"}),
    Kind("webm_vp9_uneven", "libvpx-vp9", container="webm", pts=_uneven,
         options={"deadline": "realtime", "cpu-used": "8"}),
    *(
        Kind(f"{name}_trimmed_by_{cut}", codec, container=container, options=options,
             then=_trimmed(cut), is_proven=False)
        for name, codec, container, options in (
            ("mp4_mpeg4", "mpeg4", "mp4", {}),
            ("mov_mpeg4_bframes", "mpeg4", "mov", {"bf": "2"}),
            ("mp4_h264", "libx264", "mp4", {**_X264, "bf": "0"}),
            ("mp4_h264_open_gop", "libx264", "mp4", {
                "preset": "veryfast",
                "x264-params": "open-gop=1:keyint=12:bframes=3:log-level=none"}),
            ("mp4_hevc", "libx265", "mp4", {
                "preset": "ultrafast", "x265-params": "log-level=none:pools=none:keyint=12"}),
        )
        for cut in (5, 17)
    ),
]  # fmt: skip


def named(name: str, folder: Path, **changes: Any) -> Path:
    """A file of the kind of that name, with changes. Skips the test if this wheel has no such
    encoder."""
    kind = replace(next(kind for kind in KINDS if kind.name == name), **changes)
    try:
        return make(kind, folder)
    except (av.error.FFmpegError, ValueError) as error:
        pytest.skip(f"this FFmpeg cannot write {name}: {error}")


def all_made(folder: Path) -> Iterator[tuple[Kind, Path]]:
    """Each kind that this wheel can write, with its file."""
    for kind in KINDS:
        try:
            yield kind, make(kind, folder)
        except (av.error.FFmpegError, ValueError):
            continue
