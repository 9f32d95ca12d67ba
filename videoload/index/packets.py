"""The coded packets of a file, and what they prove.

If the container's own index is whole, it tells all packets in a tenth of a millisecond. If not, one
pass over the packets tells, which takes 6 us a packet. Either way nothing is decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from videoload.bitstreams.avi_header import (
    HEADER_BYTES,
    PACKET_BYTES,
    AviHeader,
    read_avi_header,
)  # fmt: skip
from videoload.bitstreams.looks import Flags, bear_out, pick
from videoload.bitstreams.pictures import DATA_BYTES, HEAD_BYTES, Bytes, Ints, Packets, Pictures
from videoload.bitstreams.proofs import PROVABLE, prove
from videoload.index.avi_index import (
    CHUNK_BYTES,
    AviPackets,
    Lines,
    StreamNumber,
    chunk_names,
    is_whole,
    read_idx1,
)  # fmt: skip
from videoload.index.avi_index import HEADER_BYTES as AVI_HEADER_BYTES
from videoload.index.containers import OpenedVideo
from videoload.index.timing import Timing, timing_of
from videoload.storage.content import Content

_PASS_BYTES = 64 << 20  # a pass keeps whole packets of so many bytes
_MAX_PASS_BYTES = 256 << 20  # ... and so many bytes in all
_IDX1_KEY = 0x10  # the flag of a key frame in an idx1
_DISCARD = 2  # FFmpeg's flag of an index entry that is not shown; PyAV has it signed
_DESCRIPTIONS = re.compile(b"stsd....(....)", re.DOTALL)  # how many of them an MP4 has
_UNKNOWN = -1


class PacketTable(NamedTuple):
    """What the headers of all packets prove, and how to reach a packet.

    ``positions`` are those of the data in the file. They are -1 if a demuxer that seeks there may
    go on with other packets, because the container's index is not whole. ``times`` are decoding
    times. ``avi``: the packets are read by their places.
    """

    positions: Ints
    times: Ints
    pictures: Pictures
    timing: Timing
    avi: AviPackets | None = None


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
    timing = opened.timing(_shown(times.tolist(), pictures))
    # These are decoding times. If they are even, so are the times of display.
    if timing.times is not None and context.has_b_frames and not opened.is_avi:
        opened.moved = True
        shown = []
        for packet in opened.packets:
            if packet.size:
                shown.append(opened.display_time(packet))
            tick()
        timing = opened.timing(_shown(shown, pictures))
    avi = _by_places(opened, positions, sizes) if opened.is_avi else None
    return PacketTable(positions, times, pictures, timing, avi)


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
    index = None if header is None else read_idx1(content, header.movi, header.stream)
    if header is None or index is None or not len(index[0]):
        return None
    lines, others = index
    name = b"%02d" % header.stream
    for base in (header.movi, 0):  # the index counts from one of these
        at = base + lines.item(0, 2)
        if content.read(at, 2) == name:
            break
    else:
        return None
    settings = header.video.settings(
        content.read(at + CHUNK_BYTES, min(lines.item(0, 3), PACKET_BYTES))
    )
    if settings is None:
        return None
    avi = StreamNumber(header.stream, header.streams)
    stream = _Stream("mpeg4", settings.extradata, settings.size, avi=avi)
    proof = _prove(content, _entries(lines, others, base, 0), stream)
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
    if pictures.ordinals is not None:
        timing = timing_of(_shown(times.tolist(), pictures), 1 / rate, [rate])
    packets = AviPackets.of("mpeg4", told, header.stream, positions, sizes)
    return header, PacketTable(positions, times, pictures, timing, packets)


def _from_index(opened: OpenedVideo, content: Content) -> _Proof | None:
    """The packets by the container's index, if it is whole."""
    if not opened.is_avi and not opened.container.format.name.startswith("mov"):
        return None  # they index key frames at most
    if opened.tag == "VSSH":
        return None  # FFmpeg puts other packets together
    entries = _of_idx1(opened, content) if opened.is_avi else None
    entries = entries or _of_ffmpeg(opened)
    if entries is None:
        return None
    if not opened.is_avi:
        if len(entries.sizes) != opened.stream.frames:  # fragments, or an edit list
            return None
        if not _has_one_description(content):
            return None
    return _prove(content, entries, _Stream.of(opened))


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
    looks = pick(keys, packets.sizes)
    if looks is None:
        return None
    looked, like = looks
    content.want(positions[looked], np.minimum(packets.sizes[looked], DATA_BYTES))
    used = False

    def heads() -> Bytes:
        nonlocal used
        used = True
        return content.heads(positions[looked], packets.sizes[looked], HEAD_BYTES)[like]

    pictures = prove(packets._replace(
        heads=heads,
        data=lambda i, most: packets.data(int(looked[like[i]]), most),
        whole=lambda i: None,
    ))  # fmt: skip
    return pictures if bear_out(pictures, keys, used=used) else None


def _of_ffmpeg(opened: OpenedVideo) -> _Entries | None:
    """The container's index, as FFmpeg has it."""
    entries = [(e.pos, e.size, e.timestamp, e.flags) for e in opened.stream.index_entries]
    if not entries:
        return None
    positions, sizes, times, flags = np.array(entries, np.int64).T.copy()
    if (flags & _DISCARD).any() or positions.min() < 0:
        return None
    return _Entries(positions, sizes, times, flags == 1)


def _of_idx1(opened: OpenedVideo, content: Content) -> _Entries | None:
    """The index of an AVI, if FFmpeg has read an ``idx1`` and nothing else. This takes a tenth of
    the time of `_of_ffmpeg`, because there is no object for each entry.

    FFmpeg makes an entry of each line that names this stream, in order and at equal distances,
    except for empty chunks and palettes. No two entries have the same time. So if their number, the
    first and the last agree, all agree.
    """
    entries = opened.stream.index_entries
    count = len(entries)
    if not count:
        return None
    first, last = entries[0], entries[count - 1]
    header = content.read(0, min(max(first.pos, 0), AVI_HEADER_BYTES))
    movi = header.rfind(b"movi")
    if movi < 0 or b"indx" in header:
        return None
    index = read_idx1(content, movi, opened.stream.index)
    if index is None or len(index[0]) != count:
        return None
    found = _entries(*index, first.pos - index[0].item(0, 2), first.timestamp)
    for entry, at in ((first, 0), (last, count - 1)):
        told = found.positions[at], found.sizes[at], found.times[at], found.keys[at]
        if (entry.pos, entry.size, entry.timestamp, entry.flags) != told:
            return None
    return found if found.positions.min() >= 0 else None


def _entries(lines: Lines, others: Lines, base: int, time: int) -> _Entries:
    """The entries of an ``idx1`` whose positions count from ``base``. The first packet is decoded
    at ``time``."""
    positions, sizes = lines[:, 2] + np.int64(base), lines[:, 3].astype(np.int64)
    begins, ends = positions, positions + CHUNK_BYTES + sizes + (sizes & 1)
    if others is not lines:
        begins, lengths = others[:, 2] + np.int64(base), others[:, 3].astype(np.int64)
        order = np.argsort(begins, kind="stable")
        begins, ends = begins[order], (begins + CHUNK_BYTES + lengths + (lengths & 1))[order]
    times = np.arange(time, time + len(lines))
    return _Entries(positions, sizes, times, (lines[:, 1] & _IDX1_KEY) > 0, (begins, ends))


def _has_one_description(content: Content) -> bool:
    """Whether an MP4 says only once for each track how to decode it."""
    at = 0
    while at < content.size:
        head = content.read(at, 16)
        size, kind = int.from_bytes(head[:4], "big"), head[4:8]
        size = int.from_bytes(head[8:], "big") if size == 1 else size  # of 64 bits
        if kind == b"moov":
            counts = _DESCRIPTIONS.findall(content.read(at, min(size, content.size - at)))
            return bool(counts) and set(counts) == {b"\0\0\0\1"}
        if size < CHUNK_BYTES:
            return False
        at += size
    return False


def _by_pass(opened: OpenedVideo, content: Content, tick: Callable[[], None]) -> PacketTable | None:
    """What a pass over all packets tells. The file is no longer at its beginning after it."""
    opened.moved = True
    places: list[tuple[int, int, int]] = []
    shown: list[int | None] = []
    kept: list[bytes] = []
    kept_bytes = 0
    for packet in opened.packets:
        if not packet.size:
            continue
        is_new = packet.has_sidedata("new_extradata")  # a later start would not know it
        if packet.is_discard or is_new or kept_bytes > _MAX_PASS_BYTES:
            return None  # only the decoder can tell
        position = _UNKNOWN if packet.pos is None else packet.pos
        places.append((position, packet.size, packet.dts or 0))
        shown.append(opened.display_time(packet))
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
    timing = opened.timing(_shown(shown, pictures))
    if stream.avi and _are_chunks(content, stream.avi, positions, sizes):
        avi = _by_places(opened, positions, sizes)
        return PacketTable(positions, times, pictures, timing, avi)
    return PacketTable(np.full_like(positions, _UNKNOWN), times, pictures, timing)


def _are_chunks(content: Content, stream: StreamNumber, positions: Ints, sizes: Ints) -> bool:
    """Whether the packets of an AVI are chunks as they are, by a look at the first one: FFmpeg
    splits some and puts others together."""
    name, length = np.frombuffer(content.read(positions.item(0) - CHUNK_BYTES, CHUNK_BYTES), "<u4")
    return bool(
        name in chunk_names(stream.number) and length == sizes[0] and (np.diff(positions) > 0).all()
    )
