"""The index of an AVI file, and whether it is true: it has to name exactly the chunks of the video.

Each chunk must have a header that says the same, and from its end one must come to the next by
chunks that FFmpeg skips.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.bitstreams.avi_header import CHUNK
from videoload.bitstreams.looks import spread
from videoload.bitstreams.pictures import Bytes, Ints
from videoload.storage.content import Content

CHUNK_BYTES = CHUNK.size
HEADER_BYTES = 1 << 20  # at most, of an AVI file before its first packet
_LINE_BYTES = 16  # of an idx1: name, flags, position, length
_GAP_BYTES = 8192  # of a gap between chunks, enough for most
_MAX_HOPS = 4096  # from a chunk of the video's to its next one, on average four
_TAIL_BYTES = 1 << 20  # of a file, behind its index, that are looked through


class StreamNumber(NamedTuple):
    """The number of a stream, and how many there are."""

    number: int
    streams: int


def read_idx1(content: Content, movi: int, stream: int) -> npt.NDArray[np.uint32] | None:
    """The lines of an ``idx1`` right behind the list of packets that name this stream."""
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
        return lines
    ours: npt.NDArray[np.uint32] = lines[np.frombuffer(index, "<u2")[::8] == tens + (ones << 8)]
    return ours


def is_whole(
    content: Content, stream: StreamNumber, positions: Ints, sizes: Ints, heads: Bytes | None
) -> bool:
    """Whether an AVI's index names exactly the chunks of its video: each has a header that says the
    same, and from its end one comes to the next by chunks that FFmpeg skips. ``heads``: all of
    those headers, with more behind them; if None, some are read."""
    movi = find_movi(content, positions)
    return movi >= 0 and is_chain(
        content, stream, positions, sizes, heads, begin=movi + 4, end=content.size
    )


def find_movi(content: Content, positions: Ints) -> int:
    """Where an AVI file's list of packets is named; -1 if not in its first megabyte."""
    return content.read(0, min(positions.item(0), HEADER_BYTES)).find(b"movi")


def is_chain(
    content: Content, stream: StreamNumber, positions: Ints, sizes: Ints, heads: Bytes | None,
    *, begin: int, end: int,
) -> bool:  # fmt: skip
    """Whether all these are chunks of its video, and one comes from ``begin`` to each of them and
    to ``end`` by chunks that FFmpeg skips."""
    rows: slice | Ints = slice(None)
    if heads is None:
        rows = spread(len(positions), content.max_checked)
        content.want(positions[rows] - CHUNK_BYTES, np.full(len(rows), CHUNK_BYTES))
        heads = content.heads(positions[rows], sizes[rows], 0, CHUNK_BYTES)
    words = heads[:, :CHUNK_BYTES].view("<u4")
    (dc, db), names = _names(stream.number), words[:, 0]
    is_video = (names == dc).all() or ((names == dc) | (names == db)).all()
    if not is_video or not (words[:, 1] == sizes[rows]).all():
        return False
    begins, ends = positions - CHUNK_BYTES, positions + sizes + (sizes & 1)
    gaps = (ends[:-1] != begins[1:]).nonzero()[0]
    if not content.is_small:
        gaps = gaps[spread(len(gaps), content.max_checked)]
        content.want(ends[gaps], np.minimum(begins[gaps + 1] - ends[gaps], _GAP_BYTES))
    places = [(begin, begins.item(0)), (ends.item(-1), end)]
    if len(gaps):
        places += zip(ends[gaps].tolist(), begins[gaps + 1].tolist(), strict=True)
    hops = _MAX_HOPS + 4 * len(gaps)
    for start, goal in places:
        at = start
        while at < goal and hops > 0:
            hops -= 1
            following = _behind(content, at, stream.number, stream.streams)
            if following < 0:
                return False
            if goal == content.size and content.read(at, 4) == b"idx1":
                # There may be anything behind it, but FFmpeg looks for chunks there as well.
                tail = content.read(following, _TAIL_BYTES + 1)
                if len(tail) > _TAIL_BYTES or b"%02d" % stream.number in tail:
                    return False
                following = goal
            at = following
        if at != goal:
            return False
    return True


@cache
def _names(stream: int) -> tuple[int, int]:
    """Of the chunks of a video stream, as numbers."""
    dc, db = (int.from_bytes(b"%02d" % stream + kind, "little") for kind in (b"dc", b"db"))
    return dc, db


def _behind(content: Content, at: int, stream: int, streams: int) -> int:
    """Where FFmpeg goes on behind a chunk that is no packet of the stream; -1 if it may be one."""
    head = content.read(at, CHUNK_BYTES)
    name, length = head[:4], int.from_bytes(head[4:], "little")
    if name in (b"LIST", b"RIFF"):
        return at + CHUNK_BYTES + 4  # what it holds comes next
    if name[:2].isdigit():
        number = int(name[:2])
        is_skipped = number < streams and (number != stream or not length)
    else:
        is_skipped = name in (b"JUNK", b"idx1") or (name[:2] == b"ix" and name[2:].isdigit())
    return at + CHUNK_BYTES + length + (length & 1) if is_skipped else -1
