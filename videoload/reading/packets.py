"""The coded packets of a file, and what the headers of all of them prove.

If the container's own index is whole, it gives the places of packets, and their headers are read
there. If not, one pass over the packets finds them; it also notes what each packet must be after a
seek. Either way nothing is decoded.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from av.packet import Packet
from av.stream import Stream

from videoload.bitstreams.pictures import (
    DATA_BYTES,
    HEAD_BYTES,
    Bytes,
    Ints,
    Packets,
    Pictures,
    compact,
)
from videoload.bitstreams.proofs import PROVABLE, UNCOMPRESSED, prove
from videoload.reading.avi_index import StreamNumber, is_whole
from videoload.reading.containers import (
    NotedPackets,
    OpenedVideo,
    changes_decoding,
    checksum_of,
)  # fmt: skip
from videoload.reading.frame_decoder import REFUSALS, REORDERS, FrameDecoder
from videoload.reading.moov import display_offsets, has_one_description, read_moov
from videoload.reading.placed_video import CHUNK, PlacedPackets, chunk_names
from videoload.reading.plain_avi import PlainAvi
from videoload.reading.timing import Timing, timing_of
from videoload.storage.content import Content
from videoload.storage.files import Tick
from videoload.storage.video_file import VideoFile

if TYPE_CHECKING:
    from videoload.reading.frame_decoder import VideoPacket

PASS_BYTES = 64 << 20  # a pass stores so many bytes of packets, and as many of keyframes
_SMALL_BYTES = 16 << 10  # of smaller packets, the heads are most of what a disk reads
_AHEAD = 64  # packets that are fetched before they are read
_DISCARD = 2  # FFmpeg's flag of an index entry that is not shown; PyAV has it signed
_UNKNOWN = -1
_BLOCK_BYTES = 4  # of Matroska, before a packet: track, time, flags; unless several share a block
_NOT_CHECKED = ("pal8", "monow", "monob")


class PacketTable(NamedTuple):
    """The frames that the headers of all packets prove, and how to reach a packet.

    ``positions`` are those of the data in the file; -1 if packets cannot be sought. ``times`` are
    those to seek to. ``placed``: the packets are read by their places. ``noted``: the container's
    index may be incomplete, so a demuxer that seeks may continue with other packets.
    """

    positions: Ints
    times: Ints
    pictures: Pictures
    timing: Timing
    placed: PlacedPackets | None = None
    noted: NotedPackets | None = None


def read_packets(opened: OpenedVideo, content: Content, tick: Tick) -> PacketTable | None:
    """Return the packets of a file that was just opened, if they prove something. Raises
    OSError."""
    if opened.decoder.context.name not in PROVABLE or opened.tag is None:
        return None
    is_mov = opened.container.format.name.startswith("mov")
    moov = read_moov(content) if is_mov else b""
    index = _from_index(opened, content, moov)
    if index is None:
        return _by_pass(opened, content, tick)
    pictures = _prove(opened, index.sizes, index)
    if pictures is None:
        return None
    offsets = display_offsets(moov, opened.stream.id, len(index.times)) if is_mov else 0
    since = None if offsets is None else _since(opened, index.times + offsets)
    placed = None
    if opened.is_avi or (since is not None and _are_samples(opened, content, index)):
        placed = _by_places(opened, index.positions, index.sizes, pictures)
    shown = _by_demuxer(opened, tick) if since is None else since
    timing = timing_in(opened, shown, _numbers(pictures))
    return PacketTable(index.positions, index.times, pictures, timing, placed)


def read_plain(
    avi: PlainAvi, content: Content, like: PlacedPackets, base: Fraction
) -> PacketTable | None:
    """Read packets as `read_packets`, of a file that FFmpeg would describe ``like`` another one,
    with the first picture at 0. ``base``: of its times, in seconds. Return None also if it has to
    be opened."""
    times = np.arange(len(avi.sizes))
    reader = _AtPlaces(content, avi.positions, avi.sizes, times, 0)
    pictures = _pictures(like.codec, like.parameters, avi.sizes, reader)
    if pictures is None:
        return None
    if pictures.ordinals is None and pictures.frames > 1:
        timing = Timing(1 / base, None, Fraction())  # as `timing_of` finds it
    else:
        timing = timing_of(times, _numbers(pictures), base, ())
    if timing.times is None and timing.rate * base != 1:
        return None  # FFmpeg has to guess
    packets = like._replace(
        positions=compact(avi.positions), sizes=compact(avi.sizes),
        are_settings_given=pictures.are_settings_given,
    )  # fmt: skip
    return PacketTable(avi.positions, times, pictures, timing, packets)


def _since(opened: OpenedVideo, shown: Ints) -> Ints:
    """Return times of an index, counted from where FFmpeg counts those of packets from."""
    first = opened.stream.start_time
    if opened.is_avi:  # what it states is not when its first packet is shown
        first = next((entry.timestamp for entry in opened.stream.index_entries), None)
    return shown if first is None else shown + (first - shown[0])


def timing_in(
    opened: OpenedVideo, times: Sequence[int | None] | Ints, numbers: Sequence[int] | Ints
) -> Timing:
    """Return the timing of an open file, as `timing_of`."""
    stream = opened.stream
    return timing_of(times, numbers, stream.time_base, (stream.guessed_rate, stream.average_rate))


def _by_places(
    opened: OpenedVideo, positions: Ints, sizes: Ints, pictures: Pictures
) -> PlacedPackets:
    context, parameters, stream = opened.decoder.context, opened.decoder.parameters, None
    if opened.is_avi:
        stream = opened.stream.index
    else:  # FFmpeg has looked for it in the first pictures
        parameters = {**parameters, REORDERS: context.reorder_depth}
    return PlacedPackets(
        context.codec.name, parameters, stream, compact(positions), compact(sizes),
        pictures.are_settings_given,
    )  # fmt: skip


def _are_samples(opened: OpenedVideo, content: Content, index: _AtPlaces) -> bool:
    """Return whether the packets of an MP4 or MOV that was just opened equal its samples, judged by
    the first one: FFmpeg changes some, and splits those of other codecs."""
    packet = next(opened.packets, None)
    opened.number += 1
    data = content.read(index.positions.item(0), index.sizes.item(0))
    return packet is not None and bytes(packet) == data and not changes_decoding(packet)


def _prove(opened: OpenedVideo, sizes: Ints, reader: _AtPlaces | _InPasses) -> Pictures | None:
    context = opened.decoder.context
    if context.name in UNCOMPRESSED:
        least = sizes.min().item() if len(sizes) else 0
        if least < least_bytes(opened) or not _is_picture(opened, least):
            return None
    return _pictures(context.name, opened.decoder.parameters, sizes, reader)


def _pictures(
    codec: str, parameters: Mapping[str, Any], sizes: Ints, reader: _AtPlaces | _InPasses
) -> Pictures | None:
    extradata, size = parameters["extradata"] or b"", (parameters["width"], parameters["height"])
    return prove(Packets(codec, extradata, size, sizes, reader.heads, reader.data, reader.whole))


def least_bytes(opened: OpenedVideo) -> int:
    """Return bytes of a raw picture with a palette or of one bit a pixel; 0 of others. FFmpeg takes
    fewer, and shows for the rest what its memory held before."""
    parameters = opened.decoder.parameters
    if opened.decoder.context.name != "rawvideo" or parameters["pix_fmt"] not in _NOT_CHECKED:
        return 0
    line_bytes = -(-parameters["width"] * parameters["bits_per_coded_sample"] // 8)
    return int(line_bytes * parameters["height"])


def _is_picture(opened: OpenedVideo, size: int) -> bool:
    """Return whether an uncompressed packet of so many bytes is a picture. One with more is then,
    too."""
    codec, parameters = opened.decoder.context.codec.name, opened.decoder.parameters
    decoder = FrameDecoder.create(codec, parameters, strict=True)
    with suppress(*REFUSALS):
        return bool(decoder.decode(cast("VideoPacket", Packet(size))))
    return False


def _numbers(pictures: Pictures) -> Ints:
    """Return the packet of each frame."""
    numbers = np.arange(pictures.frames)
    if pictures.ordinals is not None:
        giving = (pictures.ordinals >= 0).nonzero()[0]
        numbers[pictures.ordinals[giving]] = giving
    return numbers


def _by_demuxer(opened: OpenedVideo, tick: Tick) -> list[int | None]:
    """Return the presentation time of each packet, by FFmpeg's timestamps. Changes the position in
    the file."""
    opened.number = _UNKNOWN
    shown = []
    for packet in opened.packets:
        shown.append(opened.display_time(packet))
        tick()
    return shown


# By the container's index


class _AtPlaces:
    """Reads the beginnings of packets where an index names them, each with ``before`` bytes before
    it: in an AVI, the header of its chunk. Seeking leads to ``times``."""

    def __init__(
        self, content: Content, positions: Ints, sizes: Ints, times: Ints, before: int
    ) -> None:
        self.positions, self.sizes, self.times = positions, sizes, times
        self._content, self._before = content, before
        self._following = 0
        content.is_wanted = bool(sizes.mean() < _SMALL_BYTES)

    @cached_property
    def rows(self) -> Bytes:
        """Return the bytes before each packet, and its first bytes."""
        return self._content.heads(self.positions, self.sizes, HEAD_BYTES, self._before)

    def heads(self) -> Bytes:
        return self.rows[:, self._before :]

    def data(self, i: int, most: int) -> bytes:
        if i == self._following and i % _AHEAD == 0:  # they are read one after the other
            soon = slice(i, i + 2 * _AHEAD)
            self._content.prefetch(self.positions[soon], np.minimum(self.sizes[soon], most))
        self._following = i + 1
        return self._content.read(self.positions.item(i), min(self.sizes.item(i), most))

    def whole(self, i: int) -> bytes:
        return self.data(i, self.sizes.item(i))


def _from_index(opened: OpenedVideo, content: Content, moov: bytes) -> _AtPlaces | None:
    """Return the packets by the container's index, if it is whole."""
    is_mov = opened.container.format.name.startswith("mov")
    if opened.tag == "VSSH" or not (opened.is_avi or is_mov):
        return None  # FFmpeg merges other packets; other indexes contain keyframes at most
    found = _entries_of(opened.stream)
    if found is None:
        return None
    positions, sizes, times, flags = found
    if opened.is_avi:
        positions += CHUNK.size
    elif len(sizes) != opened.stream.frames or not has_one_description(moov):
        return None  # fragments, an edit list
    unsound = (flags & _DISCARD).any() or sizes.min() < 1 or positions.min() < 0
    if unsound or (positions + sizes).max() > content.size:
        return None
    reader = _AtPlaces(content, positions, sizes, times, CHUNK.size if opened.is_avi else 0)
    if opened.is_avi:
        streams = opened.container.streams
        every = [np.array((positions - CHUNK.size, sizes))]
        every += [
            e[:2]
            for s in streams
            if s.index != opened.stream.index and (e := _entries_of(s)) is not None
        ]
        others = np.concatenate(every, axis=1)
        stream = StreamNumber(opened.stream.index, len(streams))
        if not is_whole(content, stream, positions, sizes, reader.rows, others):
            return None
    return reader


def _entries_of(stream: Stream) -> Ints | None:
    """Return a container's index of a stream, as FFmpeg has it: positions, sizes, decoding times,
    flags. In an AVI, positions are those of chunks."""
    entries = [(e.pos, e.size, e.timestamp, e.flags) for e in stream.index_entries]
    return np.array(entries, np.int64).T.copy() if entries else None


# By a pass over the packets


class _InPasses:
    """Reads the beginnings of packets as a demuxer gives them: first of all packets, then again of
    those that are requested and not stored."""

    def __init__(self, file: VideoFile, kept: list[bytes], sizes: Ints) -> None:
        """``kept``: the bytes of each packet that a first pass stored, at least its head."""
        self._file, self._kept, self._sizes = file, kept, sizes
        self._opened: OpenedVideo | None = None

    def heads(self) -> Bytes:
        rows = [data[:HEAD_BYTES].ljust(HEAD_BYTES, b"\0") for data in self._kept]
        return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, HEAD_BYTES)

    def data(self, i: int, most: int) -> bytes:
        kept, enough = self._kept[i], min(self._sizes.item(i), most)
        return kept[:most] if len(kept) >= enough else self._again(i)[:most]

    def whole(self, i: int) -> bytes:
        return self.data(i, self._sizes.item(i))

    def _again(self, i: int) -> bytes:
        """Return the packet in another pass, which resumes where the last call ended."""
        if self._opened is None or self._opened.number > i:
            self.close()
            self._opened = OpenedVideo(self._file)
        for packet in self._opened.packets:
            self._opened.number += 1
            if self._opened.number > i:
                return bytes(memoryview(packet))
        raise OSError("it has different packets on each read")

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def _by_pass(opened: OpenedVideo, content: Content, tick: Tick) -> PacketTable | None:
    """Return the result of a pass over all packets. The file is no longer at its beginning after
    it."""
    opened.number = _UNKNOWN
    places: list[tuple[int, int, int]] = []
    shown: list[int | None] = []
    sums = array("I")
    kept: list[bytes] = []
    kept_bytes = 0
    is_mov = opened.container.format.name.startswith("mov")
    is_by_display = opened.container.format.name.startswith("matroska")  # its Cues are
    before = _BLOCK_BYTES if is_by_display else 0
    are_placed = (is_mov or is_by_display) and not opened.file.fetches
    for packet in opened.packets:
        if changes_decoding(packet):
            return None  # only the decoder knows
        position = _UNKNOWN if packet.pos is None else packet.pos
        shown.append(opened.display_time(packet))
        time = shown[-1] if is_by_display else packet.dts
        places.append((position, packet.size, time or 0))
        sums.append(checksum_of(packet))
        are_placed = are_placed and position >= 0
        are_placed = are_placed and content.read(position + before, packet.size) == bytes(packet)
        most = packet.size if kept_bytes < PASS_BYTES else HEAD_BYTES
        if packet.is_keyframe and kept_bytes < 2 * PASS_BYTES:  # of these, more is looked at
            most = max(most, DATA_BYTES)
        kept.append(bytes(memoryview(packet)[:most]))
        kept_bytes += len(kept[-1])
        tick()
    positions, sizes, times = np.array(places, np.int64).reshape(-1, 3).T.copy()
    with closing(_InPasses(opened.file, kept, sizes)) as reader:
        pictures = _prove(opened, sizes, reader)
    if pictures is None:
        return None
    timing = timing_in(opened, shown, _numbers(pictures))
    if are_placed:
        placed = _by_places(opened, positions + before, sizes, pictures)
        return PacketTable(positions, times, pictures, timing, placed)
    if opened.is_avi and _are_chunks(content, opened.stream.index, positions, sizes):
        placed = _by_places(opened, positions, sizes, pictures)
        return PacketTable(positions, times, pictures, timing, placed)
    if opened.is_avi or (np.diff(positions, prepend=_UNKNOWN) < 1).any():
        return PacketTable(np.full_like(positions, _UNKNOWN), times, pictures, timing)
    noted = NotedPackets(np.array(sums, np.uint32))
    return PacketTable(positions, times, pictures, timing, noted=noted)


def _are_chunks(content: Content, stream: int, positions: Ints, sizes: Ints) -> bool:
    """Return whether the packets of an AVI equal its chunks, judged by the first one: FFmpeg splits
    some and merges others."""
    name, length = CHUNK.unpack(content.read(positions.item(0) - CHUNK.size, CHUNK.size))
    return bool(
        name in chunk_names(stream) and length == sizes[0] and (np.diff(positions) > 0).all()
    )
