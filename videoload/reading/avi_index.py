"""Check that the index of an AVI file is complete: it must name all chunks of the video.

The chunks that an index names must not overlap, and between two of them there may only be chunks
that FFmpeg skips. The header of each video chunk must match the index.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from videoload.bitstreams.pictures import Bytes, Ints
from videoload.reading.placed_video import CHUNK, chunk_names
from videoload.storage.content import Content

_HEADER_BYTES = 1 << 20  # the first packet of an AVI file must begin within so many bytes
_MAX_HOPS = 4096  # from chunk to chunk through the gaps; four more for each gap
_TAIL_BYTES = 1 << 20  # behind the index, so many bytes are searched


class StreamNumber(NamedTuple):
    """The number of a stream, and how many there are."""

    number: int
    streams: int


def is_whole(
    content: Content, stream: StreamNumber, positions: Ints, sizes: Ints, rows: Bytes, others: Ints
) -> bool:
    """Return whether these are all chunks of an AVI's video.

    Args:
        content: The file.
        stream: The stream of the video.
        positions: Where the data of each packet begins, int64 [n].
        sizes: Bytes of each packet, int64 [n].
        rows: The header of each chunk, with more behind it.
        others: Where chunks of all streams begin, and the sizes of their data, int64 [2, m].
    """
    words = rows[:, : CHUNK.size].view("<u4")
    dc, db = np.frombuffer(b"".join(chunk_names(stream.number)), "<u4")
    is_video = ((words[:, 0] == dc) | (words[:, 0] == db)).all()
    if not is_video or not (words[:, 1] == sizes).all():
        return False
    begins, lengths = others[:, np.argsort(others[0], kind="stable")]
    ends = begins + CHUNK.size + lengths + (lengths & 1)
    first = _first_chunk(content)
    return first >= 0 and _is_chain(content, stream, begins, ends, first)


def _first_chunk(content: Content) -> int:
    """Return the offset of the list of packets; -1 if there is none."""
    at = 12  # behind the name and the length of all
    for _ in range(_MAX_HOPS):
        head = content.read(at, 12)
        if head[:4] == b"LIST" and head[8:] == b"movi":
            return at + 12
        length = int.from_bytes(head[4:8], "little")
        at += CHUNK.size + length + (length & 1)
        if len(head) < 12 or at > _HEADER_BYTES:
            break
    return -1


def _is_chain(content: Content, stream: StreamNumber, begins: Ints, ends: Ints, begin: int) -> bool:
    """Return whether FFmpeg skips all that lies from ``begin`` to the end of the file, except for
    these chunks."""
    gaps = (ends[:-1] != begins[1:]).nonzero()[0]
    if (ends[gaps] > begins[gaps + 1]).any():
        return False
    places = [(begin, begins.item(0)), (ends.item(-1), content.size)]
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
    """Return where FFmpeg continues after a chunk; -1 if the chunk may be a packet of the
    stream."""
    head = content.read(at, CHUNK.size)
    name, length = head[:4], int.from_bytes(head[4:], "little")
    if name in (b"LIST", b"RIFF"):
        return at + CHUNK.size + 4  # its content follows
    if name[:2].isdigit():
        number = int(name[:2])
        is_skipped = number < stream.streams and (number != stream.number or not length)
    else:
        is_skipped = name in (b"JUNK", b"idx1") or (name[:2] == b"ix" and name[2:].isdigit())
    return at + CHUNK.size + length + (length & 1) if is_skipped else -1
