"""AVI files with the same headers as another file. Pure.

FFmpeg takes longer to open a small AVI file than it takes to prove what is in it: it looks for all
that may be there, and decodes the first picture. FFmpeg's other findings about MPEG-4 video follow
from the bytes before the first picture, which are the same in most files of a dataset. So FFmpeg
opens one of them, and for the others its answer is remembered.

All that FFmpeg reads there must be the same, except for counts of frames and bytes, from which it
only guesses rates. A file of another form, such as OpenDML, is always opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as struct_error
from typing import NamedTuple

import numpy as np

from videoload.bitstreams.mpeg4 import VOP
from videoload.bitstreams.pictures import DATA_BYTES, Ints
from videoload.reading.placed_video import CHUNK, chunk_names

_MAX_CHUNKS = 64  # before the packets
_HEADER_BYTES = 56  # of an "avih" or "strh"
_COUNTS = {  # where they are: bytes in a second, frames, the largest chunk; frames, the largest one
    b"avih": (slice(4, 8), slice(16, 20), slice(28, 32)),
    b"strh": (slice(32, 40),),
}
_FORMAT_BYTES = {b"vids": 40, b"auds": 14}  # of a "strf", at least
_PASSED_OVER = (b"JUNK", b"strn", b"dmlh")  # fillings, titles, a number of frames
_ENTRY_BYTES = 16  # of the index


class PlainAvi(NamedTuple):
    """A file whose list of packets has exactly the chunks that its index names.

    ``headers``: all from which FFmpeg derives how the video is decoded. ``stream``: the number of
        the
    video's. ``positions``, ``sizes``: of the data of its packets, int64 [packets].
    """

    headers: bytes
    stream: int
    positions: Ints
    sizes: Ints


def read_plain_avi(data: bytes) -> PlainAvi | None:
    """Return the chunks of a file, if its form is a usual one and its video seems to be MPEG-4."""
    try:
        return _packets(data, *_headers(data))
    except (struct_error, ValueError, LookupError):  # it has another form, or ends too early
        return None


def _headers(data: bytes) -> tuple[bytes, list[bytes], int]:
    """Return the compared bytes before the packets, the types of the streams, and the offset of the
    list of packets. Raises struct.error, ValueError or LookupError for another form."""
    compared: list[bytes | bytearray] = [data[:4], data[8:12]]
    kinds: list[bytes] = []
    at = list_end = 12
    for _ in range(_MAX_CHUNKS):
        name, length = CHUNK.unpack_from(data, at)
        begin, end = at + CHUNK.size, at + CHUNK.size + length
        kind = data[begin : begin + 4]
        if name == b"LIST" and kind == b"movi":
            return b"".join(compared), kinds, begin
        compared.append(data[at:begin])
        at = end + (length & 1)
        if name in _PASSED_OVER:
            continue
        if name == b"LIST" and kind in (b"hdrl", b"strl", b"odml"):
            at, list_end = begin + len(kind), end  # its content follows
            compared.append(kind)
            continue
        body = bytearray(data[begin:end])
        if length & 1 or not _is_usual(name, body, kinds) or (name == b"strf" and end > list_end):
            break
        if name == b"strh":
            kinds.append(kind)
        for count in _COUNTS.get(name, ()):
            body[count] = bytes(count.stop - count.start)
        compared.append(body)
    raise ValueError


def _is_usual(name: bytes, body: bytearray, kinds: Sequence[bytes]) -> bool:
    """Return whether FFmpeg reads all of a chunk and nothing after it."""
    if name == b"LIST":  # with a single text
        return body.startswith(b"INFO") and CHUNK.unpack_from(body, 4)[1] == len(body) - 12
    if name == b"strf":
        return len(body) >= _FORMAT_BYTES[kinds[-1]]
    return name == b"vprp" or (name in _COUNTS and len(body) == _HEADER_BYTES)


def _packets(data: bytes, headers: bytes, kinds: Sequence[bytes], movi: int) -> PlainAvi | None:
    """Return the packets that the index names. Raises the errors of `_headers`."""
    stream = kinds.index(b"vids")
    names = [*chunk_names(stream)]
    names += [b"%02dwb" % number for number, kind in enumerate(kinds) if kind == b"auds"]
    if len(names) != 1 + len(kinds):
        return None
    length = int.from_bytes(data[movi - 4 : movi], "little")
    at = movi + length + (length & 1)
    name, length = CHUNK.unpack_from(data, at)
    begin, behind = at + CHUNK.size, data[at + CHUNK.size + length :]
    # FFmpeg would read another index, and packets behind it.
    if name != b"idx1" or length % _ENTRY_BYTES or b"idx1" in behind or b"%02d" % stream in behind:
        return None
    rows = np.frombuffer(data, "<u4", length // 4, begin).reshape(-1, _ENTRY_BYTES // 4)
    begins, lengths = rows[:, 2:].astype(np.int64).T
    begins += movi + 4 - begins[0]  # they may be counted from anywhere
    ends = begins + CHUNK.size + lengths + (lengths & 1)
    if ends[-1] != at or (begins[1:] != ends[:-1]).any():
        return None
    chunks = np.ndarray((at,), f"V{CHUNK.size}", data, 0, (1,))[begins].view("<u4").reshape(-1, 2)
    is_named = rows[:, :1] == np.frombuffer(b"".join(names), "<u4")
    if (chunks != rows[:, ::3]).any() or not is_named.any(axis=1).all():
        return None
    is_video = is_named[:, : len(chunk_names(stream))].any(axis=1)
    positions, sizes = begins[is_video] + CHUNK.size, lengths[is_video]
    first = positions.item(0)
    before, vop, _ = data[first : first + min(sizes.item(0), DATA_BYTES)].partition(VOP)
    is_usual = vop and sizes.all()  # FFmpeg skips an empty packet, and counts it
    return PlainAvi(headers + before, stream, positions, sizes) if is_usual else None
