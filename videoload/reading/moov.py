"""Parse the header of an MP4 or MOV, its box ``moov``. Pure, except for reading it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from videoload.bitstreams.pictures import Ints
from videoload.storage.content import Content

_BOX_BYTES = 8  # length, kind
_MAX_BOXES = 1000  # are looked at, one after the other
_MAX_OFFSET = 1 << 28  # FFmpeg takes no table with a larger one
_TABLE = (b"mdia", b"minf", b"stbl", b"ctts")  # the way to the offsets of a track
_DESCRIPTIONS = re.compile(b"stsd....(....)", re.DOTALL)  # how many of them


def read_moov(content: Content) -> bytes:
    """Return the content of the box; nothing if it is not among the first boxes. Raises OSError."""
    at = 0
    for _ in range(_MAX_BOXES):
        head = content.read(at, 16)
        size, kind = int.from_bytes(head[:4], "big"), head[4:8]
        begin = at + _BOX_BYTES
        if size == 1:  # it is written in 64 bits
            size, begin = int.from_bytes(head[8:], "big"), at + 2 * _BOX_BYTES
        if kind == b"moov":
            return content.read(begin, min(at + size, content.size) - begin)
        at += size
        if size < _BOX_BYTES or at >= content.size:
            break
    return b""


def has_one_description(moov: bytes) -> bool:
    """Return whether each track has only one sample description."""
    counts = _DESCRIPTIONS.findall(moov)
    return bool(counts) and set(counts) == {b"\0\0\0\1"}


def display_offsets(moov: bytes, track: int, samples: int) -> Ints | None:
    """Return how long after its decoding time each sample of a track is shown, int64 [samples], but
    for the same time for all; None if that is not clear."""
    for begin, end in _boxes(moov, b"trak", 0, len(moov)):
        [(at, _), *_] = [*_boxes(moov, b"tkhd", begin, end), (len(moov), 0)]
        number = at + (20 if moov[at : at + 1] == b"\1" else 12)
        if int.from_bytes(moov[number : number + 4], "big") != track:
            continue
        places = [(begin, end)]
        for kind in _TABLE:
            places = [box for place in places for box in _boxes(moov, kind, *place)]
        if not places:
            return np.zeros(samples, np.int64)
        [(at, last), *others] = places
        rows = np.frombuffer(moov[at + 8 : last - (last - at) % 8], ">i4").reshape(-1, 2)
        count = int.from_bytes(moov[at + 4 : at + 8], "big")
        counts, offsets = rows[:count].astype(np.int64).T
        is_clear = not others and len(counts) == count and counts.min(initial=1) > 0
        if is_clear and counts.sum() == samples and np.abs(offsets).max() <= _MAX_OFFSET:
            return np.repeat(offsets, counts)
        return None
    return None


def _boxes(data: bytes, kind: bytes, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield where the contents of the boxes of a kind begin and end, of those from ``at`` to
    ``end``."""
    for _ in range(_MAX_BOXES):
        size = int.from_bytes(data[at : at + 4], "big")
        if size < _BOX_BYTES or at + _BOX_BYTES > end:
            break
        if data[at + 4 : at + 8] == kind:
            yield at + _BOX_BYTES, min(at + size, end)
        at += size
