"""The coded packets of a file, and what they prove.

The container's own index tells of all packets in a tenth of a millisecond, if it is whole and true;
for an AVI file that is checked chunk by chunk. Where it is not, one pass over the packets tells, at
6 us a packet. Either way nothing is decoded.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.decoding.open_files import OpenedVideo
from videoload.decoding.picture_headers import DATA_BYTES, HEAD_BYTES, Packets, Pictures, prove

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_WHOLE_BYTES = 4 << 20  # a file up to this size is read in one go
_PASS_BYTES = 64 << 20  # of packets, that a pass keeps
_MAX_CHECKED = 4096  # chunks of a large file, evenly spread, that are compared with its index
_MAX_HOPS = 4096  # from a chunk of the video's to its next one
_CHUNK_BYTES = 8  # of a chunk's header: name and length
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


def _by_index(opened: OpenedVideo) -> PacketTable | None:
    """By the container's index, if it is whole."""
    container = opened.container.format.name
    if container != "avi" and not container.startswith("mov"):
        return None  # they index key frames at most
    entries = [(e.pos, e.size, e.timestamp, e.flags) for e in opened.stream.index_entries]
    if not entries:
        return None
    positions, sizes, times, flags = np.array(entries, np.int64).T.copy()
    if (flags > 1).any() or sizes.min() < 1 or positions.min() < 0:  # some are to be discarded
        return None
    file = os.open(opened.file.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = _Content(file, opened.file.status.st_size)
        if container == "avi":
            positions += _CHUNK_BYTES
            if not _is_whole(content, positions, sizes, opened.stream.index):
                return None
        if (positions + sizes).max() > content.size:
            return None

        def data(i: int) -> bytes:
            return content.read(int(positions[i]), min(int(sizes[i]), DATA_BYTES))

        def whole(i: int) -> bytes:
            return content.read(int(positions[i]), int(sizes[i]))

        context = opened.codec
        pictures = prove(Packets(
            context.name, context.extradata or b"", context.has_b_frames, sizes, flags == 1,
            lambda: content.heads(positions, sizes, HEAD_BYTES), data, whole,
        ))  # fmt: skip
    finally:
        os.close(file)
    return PacketTable(positions, times, flags == 1, pictures)


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
        columns = np.arange(length)
        found: Bytes
        if self._all is not None and (not len(positions) or positions.max() + length <= self.size):
            found = np.frombuffer(self._all, np.uint8)[positions[:, None] + columns]
        else:
            rows = [self.read(at, length).ljust(length, b"\0") for at in positions.tolist()]
            found = np.frombuffer(b"".join(rows), np.uint8).reshape(-1, length).copy()
        if len(sizes) and sizes.min() < length:
            found[columns >= sizes[:, None]] = 0
        return found


def _is_whole(content: _Content, positions: Ints, sizes: Ints, stream: int) -> bool:
    """Whether an AVI's index names exactly the chunks of its video: each has a header that says the
    same, and from its end one comes to the next by chunks of other streams alone."""
    movi = content.read(0, 1 << 20).find(b"movi")
    if movi < 0:
        return False
    rows = np.arange(len(positions))
    if content.size > _WHOLE_BYTES and len(rows) > _MAX_CHECKED:
        rows = np.linspace(0, len(positions) - 1, _MAX_CHECKED).astype(np.int64)
    number = np.frombuffer(b"%02d" % stream, np.uint8)
    names, lengths = _chunks(content, positions[rows] - _CHUNK_BYTES)
    if (names[:, :2] != number).any() or (lengths != sizes[rows]).any():
        return False
    ends = positions + sizes + (sizes & 1)
    goals = np.append(positions[1:] - _CHUNK_BYTES, content.size)
    at = np.concatenate(([movi + 4], ends[rows]))
    goals = np.concatenate((positions[:1] - _CHUNK_BYTES, goals[rows]))
    for _ in range(_MAX_HOPS):
        under_way = at != goals
        at, goals = at[under_way], goals[under_way]
        if not len(at):
            return True
        names, lengths = _chunks(content, at)
        if len(at) == 1 and goals[0] == content.size and (names[0] == _INDEX).all():
            return True  # behind it there may be anything
        lists = (names == _LIST).all(axis=1) | (names == _RIFF).all(axis=1)
        lengths = np.where(lists, 4, lengths)  # what it holds comes next
        named = (names >= 0x20) & (names < 0x7F)
        own = (names[:, :2] == number).all(axis=1) & (lengths > 0)  # an empty one is no packet
        if not named.all() or own.any() or (at > goals).any():
            return False
        at = at + _CHUNK_BYTES + lengths + (lengths & 1)
    return False


_LIST, _RIFF, _INDEX = (np.frombuffer(name, np.uint8) for name in (b"LIST", b"RIFF", b"idx1"))


def _chunks(content: _Content, at: Ints) -> tuple[Bytes, Ints]:
    """Names, uint8 [n, 4], and lengths of the chunks at these places."""
    heads = content.heads(at, np.full(len(at), _CHUNK_BYTES), _CHUNK_BYTES)
    return heads[:, :4], heads[:, 4:].copy().view("<u4")[:, 0].astype(np.int64)


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

    def whole(i: int) -> bytes | None:
        return kept[i] if len(kept[i]) == sizes[i] else None

    def heads() -> Bytes:
        rows = [data[:HEAD_BYTES].ljust(HEAD_BYTES, b"\0") for data in kept]
        return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, HEAD_BYTES)

    context = opened.codec
    pictures = prove(Packets(
        context.name, context.extradata or b"", context.has_b_frames, sizes, keys == 1,
        heads, lambda i: kept[i][:DATA_BYTES], whole,
    ))  # fmt: skip
    return PacketTable(positions, times, keys == 1, pictures)
