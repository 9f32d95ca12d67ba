"""The coded packets of a file, and what they prove.

If the container's own index is whole, it tells all packets in a tenth of a millisecond. If not, one
pass over the packets tells, which takes 6 us a packet; it also notes what each packet must be after
a seek. Either way nothing is decoded.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from videoload.bitstreams.avi_header import (
    HEADER_BYTES,
    PACKET_BYTES,
    AviHeader,
    read_avi_header,
)  # fmt: skip
from videoload.bitstreams.looks import Flags, extend, pick
from videoload.bitstreams.pictures import DATA_BYTES, HEAD_BYTES, Bytes, Ints, Packets, Pictures
from videoload.bitstreams.proofs import PROVABLE, prove
from videoload.index.avi_index import (
    CHUNK_BYTES,
    StreamNumber,
    is_whole,
    read_idx1,
)  # fmt: skip
from videoload.index.avi_index import HEADER_BYTES as AVI_HEADER_BYTES
from videoload.index.moov import has_one_description, read_moov
from videoload.index.timing import Timing, timing_of
from videoload.reading.avi_video import AviPackets, chunk_names
from videoload.reading.containers import (
    NotedPackets,
    OpenedVideo,
    changes_decoding,
    checksum_of,
)  # fmt: skip
from videoload.storage.content import Content

_PASS_BYTES = 64 << 20  # a pass keeps whole packets of so many bytes
_MAX_PASS_BYTES = 256 << 20  # ... and so many bytes in all
_IDX1_KEY = 0x10  # the flag of a key frame in an idx1
_DISCARD = 2  # FFmpeg's flag of an index entry that is not shown; PyAV has it signed
_UNKNOWN = -1


class PacketTable(NamedTuple):
    """What the headers of all packets prove, and how to reach a packet.

    ``positions`` are those of the data in the file; -1 if packets cannot be sought. ``times`` are
    those to seek to. ``avi``: the packets are read by their places. ``noted``: the container's
    index may not be whole, so a demuxer that seeks may go on with other packets.
    """

    positions: Ints
    times: Ints
    pictures: Pictures
    timing: Timing
    avi: AviPackets | None = None
    noted: NotedPackets | None = None


class _Stream(NamedTuple):
    """What the container says of a video stream; its number if that is an AVI."""

    codec: str
    extradata: bytes
    size: tuple[int, int]
    has_b_frames: bool = False
    avi: StreamNumber | None = None

    @classmethod
    def of(cls, opened: OpenedVideo) -> _Stream:
        """As FFmpeg tells it."""
        context = opened.decoder.context
        avi = None
        if opened.is_avi:
            avi = StreamNumber(opened.stream.index, len(opened.container.streams))
        return cls(
            context.name, context.extradata or b"", (context.width, context.height),
            bool(context.has_b_frames), avi,
        )  # fmt: skip

    @property
    def headed(self) -> int:
        """So many bytes before each packet are looked at with it."""
        return CHUNK_BYTES if self.avi else 0


class _Entries(NamedTuple):
    """A container's index: where packets begin (in an AVI, their chunks), their decoding times and
    whether they are flagged as key frames. ``others``: where chunks of all streams begin and end.
    """

    positions: Ints
    sizes: Ints
    times: Ints
    keys: Flags
    others: tuple[Ints, Ints] | None = None


class _Proof(NamedTuple):
    """Where packets are, and what they prove."""

    positions: Ints
    sizes: Ints
    times: Ints
    pictures: Pictures | None


def read_packets(
    opened: OpenedVideo, content: Content, tick: Callable[[], None]
) -> PacketTable | None:
    """The packets of a file that was just opened, if they prove something. Raises OSError."""
    context = opened.decoder.context
    if context.name not in PROVABLE or opened.tag is None:
        return None
    proof = _from_index(opened, content)
    if proof is None:
        return _by_pass(opened, content, tick)
    positions, sizes, times, pictures = proof
    if pictures is None:
        return None
    timing = timing_in(opened, _shown(times.tolist(), pictures))
    # These are decoding times. If they are even, so are the times of display.
    if timing.times is not None and context.has_b_frames and not opened.is_avi:
        opened.moved = True
        shown = []
        for packet in opened.packets:
            if packet.size:
                shown.append(opened.display_time(packet))
            tick()
        timing = timing_in(opened, _shown(shown, pictures))
    avi = _by_places(opened, positions, sizes) if opened.is_avi else None
    return PacketTable(positions, times, pictures, timing, avi)


def timing_in(opened: OpenedVideo, shown: Sequence[int | None]) -> Timing:
    """The timing of pictures of an open file that are shown at these times."""
    stream = opened.stream
    return timing_of(shown, stream.time_base, (stream.guessed_rate, stream.average_rate))


def _by_places(opened: OpenedVideo, positions: Ints, sizes: Ints) -> AviPackets:
    codec, told = opened.decoder.context.codec.name, opened.decoder.told
    return AviPackets.of(codec, told, opened.stream.index, positions, sizes)


def _shown(times: list[int | None], pictures: Pictures) -> list[int | None]:
    """The times of packets that give a picture."""
    if pictures.ordinals is None:
        return times
    ordinals = pictures.ordinals.tolist()
    return [time for time, ordinal in zip(times, ordinals, strict=True) if ordinal >= 0]


def read_plain_avi(content: Content) -> tuple[AviHeader, PacketTable] | None:
    """The packets of a plain AVI file whose index is whole, if they prove something. Raises
    OSError."""
    header = read_avi_header(content.read(0, HEADER_BYTES))
    entries = None if header is None else _of_idx1(content, header.movi, header.stream)
    if header is None or entries is None:
        return None
    first, size = entries.positions.item(0), entries.sizes.item(0)
    settings = header.video.settings(content.read(first + CHUNK_BYTES, min(size, PACKET_BYTES)))
    if settings is None:
        return None
    avi = StreamNumber(header.stream, header.streams)
    proof = _prove(content, entries, _Stream("mpeg4", settings.extradata, settings.size, avi=avi))
    if proof is None:
        return None
    positions, sizes, times, pictures = proof
    if pictures is None:
        return None
    rate, (width, height) = header.video.rate, settings.size
    told = {
        "extradata": settings.extradata, "width": width, "height": height,
        "codec_tag": settings.tag, "bits_per_coded_sample": settings.bits,
    }  # fmt: skip
    timing = Timing(rate)
    if pictures.ordinals is not None or times.item(-1) >= len(times):
        timing = timing_of(_shown(times.tolist(), pictures), 1 / rate, [rate])
    packets = AviPackets.of("mpeg4", told, header.stream, positions, sizes)
    return header, PacketTable(positions, times, pictures, timing, packets)


def _from_index(opened: OpenedVideo, content: Content) -> _Proof | None:
    """The packets by the container's index, if it is whole."""
    if opened.tag == "VSSH":
        return None  # FFmpeg puts other packets together
    stream = _Stream.of(opened)
    if stream.avi:
        movi = content.read(0, AVI_HEADER_BYTES).find(b"movi")
        entries = _of_idx1(content, movi, stream.avi.number) if movi > 0 else None
        if entries is not None and (proof := _prove(content, entries, stream)) is not None:
            return proof
    elif not opened.container.format.name.startswith("mov"):
        return None  # they index key frames at most
    entries = _of_ffmpeg(opened)
    if entries is None:
        return None
    # The index of an MP4 may lack packets (fragments, an edit list).
    is_odd = not stream.avi and len(entries.sizes) != opened.stream.frames
    if is_odd or not (stream.avi or has_one_description(read_moov(content))):
        return None
    return _prove(content, entries, stream)


def _prove(content: Content, entries: _Entries, stream: _Stream) -> _Proof | None:
    """The packets, and what they prove; None if the index is not whole."""
    sizes, headed = entries.sizes, stream.headed
    positions = entries.positions + headed
    if sizes.min() < 1:
        return None
    if (positions + sizes).max() > content.size:
        return None
    read_heads = partial(content.heads, positions, sizes, HEAD_BYTES, headed)
    heads = read_heads() if content.is_small else None  # with the headers of chunks before them
    if stream.avi and not is_whole(content, stream.avi, positions, sizes, heads, entries.others):
        return None

    def data(i: int, most: int) -> bytes:
        return content.read(positions.item(i), min(sizes.item(i), most))

    packets = Packets(
        stream.codec, stream.extradata, stream.size, stream.has_b_frames, sizes,
        lambda: (read_heads() if heads is None else heads)[:, headed:],
        data, partial(data, most=content.size),
    )  # fmt: skip
    pictures = None
    if not content.is_small:
        pictures = _by_some_looks(packets, content, positions, entries.keys)
    return _Proof(positions, sizes, entries.times, pictures or prove(packets))


def _by_some_looks(
    packets: Packets, content: Content, positions: Ints, keys: Flags
) -> Pictures | None:
    """What a few packets prove of a large file, if they suffice."""
    sizes = packets.sizes
    looked = pick(keys, sizes)
    if looked is None:
        return None
    content.want(positions[looked], np.minimum(sizes[looked], DATA_BYTES))
    some = packets._replace(
        sizes=sizes[looked],
        heads=lambda: content.heads(positions[looked], sizes[looked], HEAD_BYTES),
        data=lambda i, most: packets.data(looked.item(i), most),
        whole=lambda i: None,
    )
    return extend(prove(some), looked, keys)


def _of_ffmpeg(opened: OpenedVideo) -> _Entries | None:
    """The container's index, as FFmpeg has it."""
    entries = [(e.pos, e.size, e.timestamp, e.flags) for e in opened.stream.index_entries]
    if not entries:
        return None
    positions, sizes, times, flags = np.array(entries, np.int64).T.copy()
    if (flags & _DISCARD).any() or positions.min() < 0:
        return None
    return _Entries(positions, sizes, times, flags == 1)


def _of_idx1(content: Content, movi: int, stream: int) -> _Entries | None:
    """The index of an AVI whose list of packets is named at ``movi``. FFmpeg counts a time for each
    chunk, but has no entry for an empty one."""
    index = read_idx1(content, movi, stream)
    if index is None:
        return None
    lines, others = index
    times = np.flatnonzero(lines[:, 3])
    if not len(times):
        return None
    lines = lines if len(times) == len(lines) else lines[times]
    name = b"%02d" % stream
    bases = movi, 0  # the positions count from one of these
    base = next((b for b in bases if content.read(b + lines.item(0, 2), 2) == name), None)
    if base is None:
        return None
    begins, sizes = others[:, 2] + np.int64(base), others[:, 3].astype(np.int64)
    ends = begins + CHUNK_BYTES + sizes + (sizes & 1)
    positions, lengths = begins, sizes
    if others is not lines:
        order = np.argsort(begins, kind="stable")
        begins, ends = begins[order], ends[order]
        positions, lengths = lines[:, 2] + np.int64(base), lines[:, 3].astype(np.int64)
    keys = (lines[:, 1] & _IDX1_KEY) > 0
    return _Entries(positions, lengths, times, keys, (begins, ends))


def _by_pass(opened: OpenedVideo, content: Content, tick: Callable[[], None]) -> PacketTable | None:
    """What a pass over all packets tells. The file is no longer at its beginning after it."""
    opened.moved = True
    places: list[tuple[int, int, int]] = []
    shown: list[int | None] = []
    sums = array("I")
    kept: list[bytes] = []
    kept_bytes = 0
    is_by_display = opened.container.format.name.startswith("matroska")  # its Cues are
    for packet in opened.packets:
        if not packet.size:
            continue
        if changes_decoding(packet) or kept_bytes > _MAX_PASS_BYTES:
            return None  # only the decoder can tell
        position = _UNKNOWN if packet.pos is None else packet.pos
        shown.append(opened.display_time(packet))
        time = shown[-1] if is_by_display else packet.dts
        places.append((position, packet.size, time or 0))
        sums.append(checksum_of(packet))
        enough = DATA_BYTES if packet.is_keyframe else HEAD_BYTES
        kept.append(bytes(memoryview(packet)[: None if kept_bytes < _PASS_BYTES else enough]))
        kept_bytes += len(kept[-1])
        tick()
    positions, sizes, times = np.array(places, np.int64).reshape(-1, 3).T.copy()

    def whole(i: int) -> bytes | None:
        return kept[i] if len(kept[i]) == sizes[i] else None

    def heads() -> Bytes:
        rows = [data[:HEAD_BYTES].ljust(HEAD_BYTES, b"\0") for data in kept]
        return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, HEAD_BYTES)

    stream = _Stream.of(opened)
    pictures = prove(Packets(
        stream.codec, stream.extradata, stream.size, stream.has_b_frames, sizes, heads,
        lambda i, most: kept[i][:most], whole,
    ))  # fmt: skip
    if pictures is None:
        return None
    timing = timing_in(opened, _shown(shown, pictures))
    if stream.avi and _are_chunks(content, stream.avi, positions, sizes):
        avi = _by_places(opened, positions, sizes)
        return PacketTable(positions, times, pictures, timing, avi)
    if stream.avi or (np.diff(positions, prepend=_UNKNOWN) < 1).any():
        return PacketTable(np.full_like(positions, _UNKNOWN), times, pictures, timing)
    noted = NotedPackets(np.array(sums, np.uint32))
    return PacketTable(positions, times, pictures, timing, noted=noted)


def _are_chunks(content: Content, stream: StreamNumber, positions: Ints, sizes: Ints) -> bool:
    """Whether the packets of an AVI are chunks as they are, by a look at the first one: FFmpeg
    splits some and puts others together."""
    name, length = np.frombuffer(content.read(positions.item(0) - CHUNK_BYTES, CHUNK_BYTES), "<u4")
    return bool(
        name in chunk_names(stream.number) and length == sizes[0] and (np.diff(positions) > 0).all()
    )
