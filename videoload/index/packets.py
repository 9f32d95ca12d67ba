"""The coded packets of a file, and what they prove.

The container's own index tells of all packets in a tenth of a millisecond, if it is whole and true;
for an AVI file that is checked chunk by chunk. Where it is not, one pass over the packets tells, at
6 us a packet. Either way nothing is decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.bitstreams.avi_header import (
    HEADER_BYTES,
    PACKET_BYTES,
    AviHeader,
    DecoderSettings,
    read_avi_header,
)  # fmt: skip
from videoload.bitstreams.looks import Flags, bear_out, pick
from videoload.bitstreams.pictures import DATA_BYTES, HEAD_BYTES, Bytes, Ints, Packets, Pictures
from videoload.bitstreams.proofs import PROVABLE, prove
from videoload.index.avi_index import (
    CHUNK_BYTES,
    StreamNumber,
    find_movi,
    is_chain,
    is_whole,
    read_idx1,
)  # fmt: skip
from videoload.index.avi_index import HEADER_BYTES as AVI_HEADER_BYTES
from videoload.index.containers import OpenedVideo
from videoload.index.timing import Timing, timing_of
from videoload.storage.content import Content

_PASS_BYTES = 64 << 20  # of whole packets, that a pass keeps
_MAX_PASS_BYTES = 256 << 20  # of all of them
_IDX1_KEY = 0x10  # a flag in an idx1
_DESCRIPTIONS = re.compile(b"stsd....(....)", re.DOTALL)  # how many of them there are in an MP4
_UNKNOWN = -1


class PacketTable(NamedTuple):
    """What the headers of all packets prove, and how to seek one: their ``times`` (dts), and their
    ``positions`` in the file as demuxing tells them. -1 where a demuxer that comes there by a seek
    may go on by other packets, since the container's index is not true."""

    positions: Ints
    times: Ints
    pictures: Pictures
    timing: Timing


class PlainAvi(NamedTuple):
    """What it takes to decode a plain AVI file without FFmpeg's demuxer: what a decoder is told,
    the number of the stream, and where its last packet ends."""

    settings: DecoderSettings
    stream: int
    end: int


class _Stream(NamedTuple):
    """The stream of a video, as its container tells; its number if that is an AVI."""

    codec: str
    extradata: bytes
    size: tuple[int, int]
    has_b_frames: bool = False
    avi: StreamNumber | None = None

    @classmethod
    def of(cls, opened: OpenedVideo) -> _Stream:
        """As FFmpeg tells of it."""
        context, container = opened.codec, opened.container
        avi = None
        if container.format.name == "avi":
            avi = StreamNumber(opened.stream.index, len(container.streams))
        return cls(
            context.name, context.extradata or b"", (context.width, context.height),
            bool(context.has_b_frames), avi,
        )  # fmt: skip

    @property
    def headed(self) -> int:
        """Bytes before each packet that are looked at with it."""
        return CHUNK_BYTES if self.avi else 0


class _Entries(NamedTuple):
    """A container's index: where packets begin (in an AVI, their chunks), their dts, and flags, of
    which the one of an ``idx1`` for key frames counts."""

    positions: Ints
    sizes: Ints
    times: Ints
    flags: Ints | npt.NDArray[np.uint32]

    @property
    def keys(self) -> Flags:
        """Those that are flagged as key frames."""
        return (self.flags & _IDX1_KEY) > 0


def read_packets(
    opened: OpenedVideo, content: Content, tick: Callable[[], None]
) -> PacketTable | None:
    """The packets of a file that was just opened, if they prove something. Raises OSError."""
    if opened.codec.name not in PROVABLE or opened.tag is None:
        return None
    table = _from_index(opened, content)
    if table is None:
        return _by_pass(opened, content, tick)
    positions, times, pictures = table
    if pictures is None:
        return None
    timing = opened.timing(_shown(times.tolist(), pictures))
    # These are decoding times. If they are even, so are the times of display; an AVI has no others.
    is_avi = opened.container.format.name == "avi"
    if timing.times is not None and opened.codec.has_b_frames and not is_avi:
        return _by_pass(opened, content, tick)
    return PacketTable(positions, times, pictures, timing)


def _shown(times: list[int | None], pictures: Pictures) -> list[int | None]:
    """The times of packets that give a picture."""
    if pictures.ordinals is None:
        return times
    ordinals = pictures.ordinals.tolist()
    return [time for time, ordinal in zip(times, ordinals, strict=True) if ordinal >= 0]


def read_plain_avi(content: Content) -> tuple[AviHeader, PlainAvi, PacketTable] | None:
    """The packets of a plain AVI file whose index is whole, if they prove something. Raises
    OSError."""
    header = read_avi_header(content.read(0, HEADER_BYTES))
    lines = None if header is None else read_idx1(content, header.movi, header.stream)
    if header is None or lines is None or not len(lines):
        return None
    name = b"%02d" % header.stream
    for base in (header.movi, 0):  # whence the index counts
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
    proven = _prove(content, _entries(lines, base, 0), stream)
    if proven is None:
        return None
    positions, times, pictures = proven
    if pictures is None:
        return None
    end = positions.item(-1) + lines.item(-1, 3)
    rate = header.video.rate
    timing = timing_of(_shown(times.tolist(), pictures), 1 / rate, [rate])
    table = PacketTable(positions, times, pictures, timing)
    return header, PlainAvi(settings, header.stream, end), table


def _from_index(opened: OpenedVideo, content: Content) -> tuple[Ints, Ints, Pictures | None] | None:
    """Positions and times by the container's index, if it is whole, and what they prove."""
    container = opened.container.format.name
    if container != "avi" and not container.startswith("mov"):
        return None  # they index key frames at most
    if opened.tag == "VSSH":
        return None  # FFmpeg puts other packets together
    entries = _of_idx1(opened, content) if container == "avi" else None
    entries = entries or _of_ffmpeg(opened)
    if entries is None:
        return None
    if container != "avi":
        if len(entries.sizes) != opened.stream.frames:  # a fragment's, or edited
            return None
        if not _has_one_description(content):
            return None
    return _prove(content, entries, _Stream.of(opened))


def _prove(
    content: Content, entries: _Entries, stream: _Stream
) -> tuple[Ints, Ints, Pictures | None] | None:
    """Positions and times of the packets, and what they prove; None if the index is not whole."""
    positions, sizes, headed = entries.positions, entries.sizes, stream.headed
    if sizes.min() < 1:
        return None
    positions += headed
    if (positions + sizes).max() > content.size:
        return None
    read_heads = partial(content.heads, positions, sizes, HEAD_BYTES, headed)
    heads = read_heads() if content.is_small else None  # with those of chunks before them
    if stream.avi and not is_whole(content, stream.avi, positions, sizes, heads):
        return None

    def data(i: int, most: int) -> bytes:
        return content.read(positions.item(i), min(sizes.item(i), most))

    packets = Packets(
        stream.codec, stream.extradata, stream.size, stream.has_b_frames, sizes,
        lambda: (read_heads() if heads is None else heads)[:, headed:],
        data, partial(data, most=content.size),
    )  # fmt: skip
    pictures = None
    if content.has_few_looks:
        pictures = _by_some_looks(packets, content, positions, entries.keys)
    return positions, entries.times, pictures or prove(packets)


def _by_some_looks(
    packets: Packets, content: Content, positions: Ints, keys: Flags
) -> Pictures | None:
    """What a few packets prove of a long file on another host, if they suffice."""
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
    if (flags & 2).any() or positions.min() < 0:  # some are to be discarded
        return None
    return _Entries(positions, sizes, times, flags * _IDX1_KEY)


def _of_idx1(opened: OpenedVideo, content: Content) -> _Entries | None:
    """The same, where FFmpeg has read an ``idx1`` and nothing else: in a tenth of the time, since
    there is no object for each entry.

    FFmpeg makes an entry of each of its lines that names this stream, in order and all at the same
    distance, but for empty ones and such as palettes; no two have the same time. So where their
    number, the first and the last agree, all do.
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
    lines = read_idx1(content, movi, opened.stream.index)
    if lines is None or len(lines) != count:
        return None
    found = _entries(lines, first.pos - lines.item(0, 2), first.timestamp)
    keys = found.keys
    for entry, at in ((first, 0), (last, count - 1)):
        told = found.positions[at], found.sizes[at], found.times[at], keys[at]
        if (entry.pos, entry.size, entry.timestamp, entry.flags) != told:
            return None
    return found if found.positions.min() >= 0 else None


def _entries(lines: npt.NDArray[np.uint32], base: int, time: int) -> _Entries:
    """Those of an ``idx1`` that counts from ``base``; the first one's dts is ``time``."""
    positions, sizes = lines[:, 2] + np.int64(base), lines[:, 3].astype(np.int64)
    return _Entries(positions, sizes, np.arange(time, time + len(lines)), lines[:, 1])


def _has_one_description(content: Content) -> bool:
    """Whether an MP4 says once for each track how to decode it, and not anew within it."""
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
    """By reading all packets, after which the file is no longer at its beginning."""
    opened.used = True
    indexed = [(e.pos + CHUNK_BYTES, e.timestamp) for e in opened.stream.index_entries]
    places: list[tuple[int, int]] = []
    shown: list[int | None] = []
    sizes: list[int] = []
    kept: list[bytes] = []
    kept_bytes = 0
    for packet in opened.packets:
        if not packet.size:
            continue
        is_new = packet.has_sidedata("new_extradata")  # who begins behind it is not told
        if packet.is_discard or is_new or kept_bytes > _MAX_PASS_BYTES:
            return None  # it is for the decoder alone
        sizes.append(packet.size)
        places.append((_UNKNOWN if packet.pos is None else packet.pos, packet.dts or 0))
        shown.append(opened.display_time(packet))
        enough = DATA_BYTES if packet.is_keyframe else HEAD_BYTES
        kept.append(bytes(memoryview(packet)[: None if kept_bytes < _PASS_BYTES else enough]))
        kept_bytes += len(kept[-1])
        tick()

    def whole(i: int) -> bytes | None:
        return kept[i] if len(kept[i]) == sizes[i] else None

    def heads() -> Bytes:
        rows = [data[:HEAD_BYTES].ljust(HEAD_BYTES, b"\0") for data in kept]
        return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, HEAD_BYTES)

    stream, lengths = _Stream.of(opened), np.array(sizes, np.int64)
    pictures = prove(Packets(
        stream.codec, stream.extradata, stream.size, stream.has_b_frames, lengths, heads,
        lambda i, most: kept[i][:most], whole,
    ))  # fmt: skip
    if pictures is None:
        return None
    positions, times = np.array(places, np.int64).T.copy()
    sure = 0
    if stream.avi and places[: len(indexed)] == indexed:
        sure = _that_can_be_sought(content, stream.avi, positions, lengths, times)
    positions[sure:] = _UNKNOWN
    return PacketTable(positions, times, pictures, opened.timing(_shown(shown, pictures)))


def _that_can_be_sought(
    content: Content, stream: StreamNumber, positions: Ints, sizes: Ints, times: Ints
) -> int:
    """How many packets of an AVI file that was read to its end, from the first one on: all but the
    last, which may be cut off, or none. FFmpeg has made entries of them, where the file's own index
    ends early or is missing: as long as the file stays open, it finds them at once."""
    last = len(positions) - 1
    if last < 1 or (np.diff(times) < 1).any():
        return 0
    movi = find_movi(content, positions)
    is_sound = movi >= 0 and is_chain(
        content, stream, positions[:last], sizes[:last], None,
        begin=movi + 4, end=positions.item(last) - CHUNK_BYTES,
    )  # fmt: skip
    return last if is_sound else 0
