"""The coded packets of a file, and what they prove.

The container's own index tells of all packets in a tenth of a millisecond, if it is whole and true;
for an AVI file that is checked chunk by chunk. Where it is not, one pass over the packets tells, at
6 us a packet. Either way nothing is decoded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.decoding.open_files import OpenedVideo
from videoload.decoding.picture_headers import DATA_BYTES, HEAD_BYTES, Packets, Pictures, prove

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]

_WHOLE_BYTES = 4 << 20  # a file up to this size is read in one go
_PASS_BYTES = 64 << 20  # of packets, that a pass keeps
_MAX_CHECKED = 4096  # chunks of a large file, evenly spread, that are compared with its index
_MAX_HOPS = 4096  # from a chunk of the video's to its next one
_HEADER_BYTES = 1 << 20  # at most, of an AVI file before its first packet
_CHUNK_BYTES = 8  # of a chunk's header: name and length
_LINE_BYTES = 16  # of an idx1: name, flags, position, length
_UNKNOWN = -1


class PacketTable(NamedTuple):
    """All packets of a video stream: their ``positions`` in the file and ``times`` (dts) as
    demuxing tells them, -1 where it does not; and what their headers prove, if anything."""

    positions: Ints
    times: Ints
    keys: npt.NDArray[np.bool_]  # as the container flags them
    pictures: Pictures | None


def read_packets(opened: OpenedVideo, tick: Callable[[], None]) -> PacketTable:
    """The packets of a file that was just opened. Raises OSError."""
    return _by_index(opened) or _by_pass(opened, tick)


class _Entries(NamedTuple):
    """The container's index: where each packet's data begins, its size, dts and key flag."""

    positions: Ints
    sizes: Ints
    times: Ints
    keys: npt.NDArray[np.bool_]


def _by_index(opened: OpenedVideo) -> PacketTable | None:
    """By the container's index, if it is whole."""
    container = opened.container.format.name
    if container != "avi" and not container.startswith("mov"):
        return None  # they index key frames at most
    file = os.open(opened.file.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = _Content(file, opened.file.status.st_size)
        avi = container == "avi"
        entries = _of_idx1(opened, content) if avi else None
        entries = entries or _of_ffmpeg(opened, _CHUNK_BYTES if avi else 0)
        if entries is None:
            return None
        positions, sizes, times, keys = entries
        if sizes.min() < 1 or positions.min() < 0 or (positions + sizes).max() > content.size:
            return None
        if avi and not _is_whole(content, positions, sizes, opened.stream.index):
            return None

        def data(i: int) -> bytes:
            return content.read(int(positions[i]), min(int(sizes[i]), DATA_BYTES))

        def whole() -> Iterator[bytes]:
            return map(content.read, positions.tolist(), sizes.tolist())

        context = opened.codec
        pictures = prove(Packets(
            context.name, context.extradata or b"", context.has_b_frames, sizes, keys,
            lambda: content.heads(positions, sizes, HEAD_BYTES), data, whole,
        ))  # fmt: skip
    finally:
        os.close(file)
    return PacketTable(positions, times, keys, pictures)


def _of_ffmpeg(opened: OpenedVideo, header_bytes: int) -> _Entries | None:
    """As FFmpeg has read it."""
    entries = [(e.pos, e.size, e.timestamp, e.flags) for e in opened.stream.index_entries]
    if not entries:
        return None
    positions, sizes, times, flags = np.array(entries, np.int64).T.copy()
    if (flags > 1).any():  # some are to be discarded
        return None
    return _Entries(positions + header_bytes, sizes, times, flags == 1)


def _of_idx1(opened: OpenedVideo, content: _Content) -> _Entries | None:
    """What FFmpeg has read, where that was an ``idx1`` and nothing else: a tenth of the time, since
    there is no object for each entry.

    FFmpeg makes an entry of each of its lines that names this stream, in order and all at the same
    distance, but for empty ones and such as palettes. So where their number, the first and the last
    agree, all do.
    """
    entries = opened.stream.index_entries
    count = len(entries)
    if not count:
        return None
    first, last = entries[0], entries[count - 1]
    header = content.read(0, min(max(first.pos, 0), _HEADER_BYTES))
    movi = header.rfind(b"movi")
    if movi < 0 or b"indx" in header:
        return None
    end = movi + int.from_bytes(header[movi - 4 : movi], "little")
    end += end & 1
    chunk = content.read(end, _CHUNK_BYTES)
    length = int.from_bytes(chunk[4:], "little") // _LINE_BYTES * _LINE_BYTES
    index = content.read(end + _CHUNK_BYTES, min(length, content.size))
    if chunk[:4] != b"idx1" or len(index) < length:
        return None
    lines = np.frombuffer(index, "<u4").reshape(-1, 4)
    lines = lines[lines[:, 0] & 0xFFFF == _number(opened.stream.index)]
    if len(lines) != count:
        return None
    _, flags, positions, sizes = lines.T.astype(np.int64)
    positions += first.pos - positions[0]
    keys = flags & _IDX1_KEY > 0
    for entry, at in ((first, 0), (last, -1)):
        told = positions[at], sizes[at], first.timestamp + at % count, keys[at]
        if (entry.pos, entry.size, entry.timestamp, entry.flags) != told:
            return None
    # No two entries have the same time.
    return _Entries(positions + _CHUNK_BYTES, sizes, first.timestamp + np.arange(count), keys)


class _Content:
    """The bytes of a file, a small one's in memory."""

    def __init__(self, file: int, size: int) -> None:
        self.size = size
        self._file = file
        self._all = os.pread(file, size, 0) if size <= _WHOLE_BYTES else None
        if self._all is not None:
            self.size = len(self._all)

    def read(self, at: int, length: int) -> bytes:
        """``length`` bytes from ``at`` on, fewer at the end of the file."""
        if self._all is not None:
            return self._all[at : at + length]
        return os.pread(self._file, length, at)

    def heads(self, positions: Ints, sizes: Ints, length: int) -> Bytes:
        """The first ``length`` bytes of what lies at each position, zeros behind its size."""
        found: Bytes
        if self._all is not None and (not len(positions) or positions.max() + length <= self.size):
            # Whatever is `length` bytes long, wherever it begins.
            heads = np.ndarray((self.size - length + 1,), f"V{length}", self._all, 0, (1,))
            found = heads[positions].view(np.uint8).reshape(-1, length)
        else:
            rows = [self.read(at, length).ljust(length, b"\0") for at in positions.tolist()]
            found = np.frombuffer(b"".join(rows), np.uint8).reshape(-1, length).copy()
        if len(sizes) and sizes.min() < length:
            found[np.arange(length) >= sizes[:, None]] = 0
        return found

    def chunks(self, at: Ints) -> tuple[Words, Words]:
        """Names and lengths of the chunks at these places, as numbers."""
        names, lengths = self.heads(at, _NONE, _CHUNK_BYTES).view("<u4").T.copy()
        return names, lengths


def _is_whole(content: _Content, positions: Ints, sizes: Ints, stream: int) -> bool:
    """Whether an AVI's index names exactly the chunks of its video: each has a header that says the
    same, and from its end one comes to the next by chunks of other streams alone."""
    movi = content.read(0, min(int(positions[0]), _HEADER_BYTES)).rfind(b"movi")
    if movi < 0:
        return False
    begins = positions - _CHUNK_BYTES
    at = np.append(movi + 4, positions + sizes + (sizes & 1))
    goals = np.append(begins, content.size)
    if content.size > _WHOLE_BYTES and len(begins) > _MAX_CHECKED:
        rows = np.linspace(0, len(begins) - 1, _MAX_CHECKED).astype(np.int64)
        begins, sizes = begins[rows], sizes[rows]
        ends = np.append(0, rows + 1)
        at, goals = at[ends], goals[ends]
    names, lengths = content.chunks(begins)
    if (names & 0xFFFF != _number(stream)).any() or (lengths != sizes).any():
        return False
    for _ in range(_MAX_HOPS):
        under_way = at != goals
        at, goals = at[under_way], goals[under_way]
        if not len(at):
            return True
        names, lengths = content.chunks(at)
        if len(at) == 1 and goals[0] == content.size and names[0] == _INDEX:
            return True  # behind it there may be anything
        lists = (names == _LIST) | (names == _RIFF)
        lengths = np.where(lists, 4, lengths)  # what it holds comes next
        letters = names.view(np.uint8)
        own = (names & 0xFFFF == _number(stream)) & (lengths > 0)  # an empty one is no packet
        if letters.min() < 0x20 or letters.max() >= 0x7F or own.any() or (at > goals).any():
            return False
        at = at + _CHUNK_BYTES + lengths + (lengths & 1)
    return False


def _number(stream: int) -> int:
    """The first two bytes of the names of a stream's chunks."""
    return int.from_bytes(b"%02d" % stream, "little")


_LIST, _RIFF, _INDEX = (int.from_bytes(name, "little") for name in (b"LIST", b"RIFF", b"idx1"))
_IDX1_KEY = 0x10
_NONE = np.empty(0, np.int64)


def _by_pass(opened: OpenedVideo, tick: Callable[[], None]) -> PacketTable:
    """By reading all packets, after which the file is no longer at its beginning."""
    opened.used = True
    rows: list[tuple[int, int, int, bool]] = []
    kept: list[bytes] = []
    kept_bytes = 0
    for packet in opened.packets:
        if not packet.size:
            continue
        position = _UNKNOWN if packet.pos is None else packet.pos
        time = _UNKNOWN if packet.dts is None else packet.dts
        rows.append((position, packet.size, time, packet.is_keyframe))
        enough = DATA_BYTES if packet.is_keyframe else HEAD_BYTES
        kept.append(bytes(memoryview(packet)[: None if kept_bytes < _PASS_BYTES else enough]))
        kept_bytes += len(kept[-1])
        tick()
    positions, sizes, times, keys = np.array(rows, np.int64).reshape(-1, 4).T.copy()

    def whole() -> Iterator[bytes | None]:
        for data, size in zip(kept, sizes.tolist(), strict=True):
            yield data if len(data) == size else None

    def heads() -> Bytes:
        rows = [data[:HEAD_BYTES].ljust(HEAD_BYTES, b"\0") for data in kept]
        return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, HEAD_BYTES)

    context = opened.codec
    pictures = prove(Packets(
        context.name, context.extradata or b"", context.has_b_frames, sizes, keys == 1,
        heads, lambda i: kept[i][:DATA_BYTES], whole,
    ))  # fmt: skip
    return PacketTable(positions, times, keys == 1, pictures)
