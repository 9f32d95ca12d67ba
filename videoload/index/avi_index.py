"""The index of an AVI file, and whether it is whole: it has to name all chunks of the video.

The chunks that an index names must not overlap, and between two of them there may only be chunks
that FFmpeg skips. In a small file, each chunk of the video must also have a header that says what
the index says. In a large file some are looked at; the others are compared when they are read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.bitstreams.avi_header import CHUNK
from videoload.bitstreams.looks import spread
from videoload.bitstreams.pictures import Bytes, Ints
from videoload.reading.avi_video import chunk_names
from videoload.storage.content import Content

CHUNK_BYTES = CHUNK.size
HEADER_BYTES = 1 << 20  # the first packet of an AVI file must begin within so many bytes
_LINE_BYTES = 16  # a line of an idx1: name, flags, position, length
_GAP_BYTES = 8192  # most gaps between chunks are shorter
_LOOKS = 64  # so many chunks of a large file are looked at, and as many gaps between chunks
_MAX_HOPS = 4096  # from chunk to chunk through the gaps; four more for each gap
_TAIL_BYTES = 1 << 20  # behind the index, so many bytes are searched

Lines = npt.NDArray[np.uint32]  # [n, 4]: name, flags, position, length


class StreamNumber(NamedTuple):
    """The number of a stream, and how many there are."""

    number: int
    streams: int


def read_idx1(content: Content, movi: int, stream: int) -> tuple[Lines, Lines] | None:
    """The lines of an ``idx1`` right behind the list of packets: those of this stream, and all."""
    length = int.from_bytes(content.read(movi - 4, 4), "little")
    end = movi + length + (length & 1)
    chunk = content.read(end, CHUNK_BYTES)
    length = int.from_bytes(chunk[4:], "little") // _LINE_BYTES * _LINE_BYTES
    index = content.read(end + CHUNK_BYTES, min(length, content.size))
    if chunk[:4] != b"idx1" or len(index) < length:
        return None
    lines = np.frombuffer(index, "<u4").reshape(-1, 4)
    tens, ones = (b"%02d" % stream)[:2]
    if index[::_LINE_BYTES].count(tens) == index[1::_LINE_BYTES].count(ones) == len(lines):
        return lines, lines
    return lines[np.frombuffer(index, "<u2")[::8] == tens + (ones << 8)], lines


def is_whole(
    content: Content, stream: StreamNumber, positions: Ints, sizes: Ints, heads: Bytes | None,
    others: tuple[Ints, Ints] | None = None,
) -> bool:  # fmt: skip
    """Whether these are all chunks of an AVI's video.

    Args:
        content: The file.
        stream: The stream of the video.
        positions: Where the data of each packet begins, int64 [n].
        sizes: Bytes of each packet, int64 [n].
        heads: The header of each chunk, with more behind it; None in a large file.
        others: Where chunks of all streams begin and end, as the index names them, if it does.
    """
    rows: slice | Ints = slice(None)
    if heads is None:
        rows = spread(len(positions), _LOOKS)
        content.want(positions[rows] - CHUNK_BYTES, np.full(len(rows), CHUNK_BYTES))
        heads = content.heads(positions[rows], sizes[rows], 0, CHUNK_BYTES)
    words = heads[:, :CHUNK_BYTES].view("<u4")
    (dc, db), names = chunk_names(stream.number), words[:, 0]
    is_video = (names == dc).all() or ((names == dc) | (names == db)).all()
    if not is_video or not (words[:, 1] == sizes[rows]).all():
        return False
    movi = content.read(0, min(positions.item(0), HEADER_BYTES)).find(b"movi")
    begins, ends = others or (positions - CHUNK_BYTES, positions + sizes + (sizes & 1))
    return movi >= 0 and _is_chain(content, stream, begins, ends, movi + 4)


def _is_chain(content: Content, stream: StreamNumber, begins: Ints, ends: Ints, begin: int) -> bool:
    """Whether FFmpeg skips all that lies from ``begin`` to the end of the file, except for these
    chunks."""
    gaps = (ends[:-1] != begins[1:]).nonzero()[0]
    if (ends[gaps] > begins[gaps + 1]).any():
        return False
    if not content.is_small:
        gaps = gaps[spread(len(gaps), _LOOKS)]
        content.want(ends[gaps], np.minimum(begins[gaps + 1] - ends[gaps], _GAP_BYTES))
    places = [(begin, begins.item(0)), (ends.item(-1), content.size)]
    if len(gaps):
        places += zip(ends[gaps].tolist(), begins[gaps + 1].tolist(), strict=True)
    hops = _MAX_HOPS + 4 * len(gaps)
    for start, goal in places:
        at = start
        while at < goal and hops > 0:
            hops -= 1
            following = _behind(content, at, stream)
            if following < 0:
                return False
            if goal == content.size and content.read(at, 4) == b"idx1":
                # Anything may lie behind the index, but FFmpeg looks for chunks there as well.
                tail = content.read(following, _TAIL_BYTES + 1)
                if len(tail) > _TAIL_BYTES or b"%02d" % stream.number in tail:
                    return False
                following = goal
            at = following
        if at != goal:
            return False
    return True


def _behind(content: Content, at: int, stream: StreamNumber) -> int:
    """Where FFmpeg goes on behind a chunk; -1 if the chunk may be a packet of the stream."""
    head = content.read(at, CHUNK_BYTES)
    name, length = head[:4], int.from_bytes(head[4:], "little")
    if name in (b"LIST", b"RIFF"):
        return at + CHUNK_BYTES + 4  # its content comes next
    if name[:2].isdigit():
        number = int(name[:2])
        is_skipped = number < stream.streams and (number != stream.number or not length)
    else:
        is_skipped = name in (b"JUNK", b"idx1") or (name[:2] == b"ix" and name[2:].isdigit())
    return at + CHUNK_BYTES + length + (length & 1) if is_skipped else -1
