"""Whether FFmpeg reads a part of an AVI as its chunks stand there.

Where a chunk does not follow the one before it, FFmpeg looks for the next one byte by byte, and
what it takes for a chunk depends on all that it has read from this file. Where each follows the
other, what it reads depends on the bytes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from videoload.reading.avi_video import CHUNK

Read = Callable[[int, int], bytes | memoryview]  # so many bytes, from a place on

_LIST_BYTES = 12  # FFmpeg goes into a list
_MAX_HOPS = 20_000  # from chunk to chunk


def is_chain(
    read: Read, begin: int, packets: Iterable[tuple[int, int]], sound: int, video: int, *,
    to_end: bool = False,
) -> bool:  # fmt: skip
    """Whether chunks follow each other from ``begin`` to the last packet, and the packets are the
    data of all chunks of sound, in their order, from the first packet on. May raise OSError.

    Args:
        read: Reads the file.
        begin: Where FFmpeg begins to read.
        packets: Where the data of each packet begins, and its bytes.
        sound: The number of the stream of the sound; there are two streams.
        video: The number of the stream of the video.
        to_end: FFmpeg has read on to the end of the file.
    """
    names = {b"%02dwb" % sound: True, b"%02ddc" % video: False, b"%02ddb" % video: False}
    known = {*names, b"LIST", b"JUNK", b"idx1", b"ix%02d" % sound, b"ix%02d" % video}
    at, hops = begin, 0

    def hop() -> tuple[bytes, int, int] | None:
        """The name of the next chunk, where its data begins, and its bytes."""
        nonlocal at, hops
        header, hops = read(CHUNK.size, at), hops + 1
        if len(header) < CHUNK.size or hops > _MAX_HOPS or at & 1:
            return (b"", at, 0) if to_end and not header else None
        name, length = CHUNK.unpack(header)
        data = at + CHUNK.size
        at = at + _LIST_BYTES if name == b"LIST" else data + length + (length & 1)
        return (name, data, length) if name in known else None

    left = None  # where the rest of a chunk of sound is
    for place, size in packets:
        while left is None or left[0] == left[1]:
            if at > place or (chunk := hop()) is None:
                return False
            name, data, length = chunk
            if names.get(name) and length and (data == place or left is not None):
                left = data, data + length
        if place != left[0] or place + size > left[1]:
            return False
        left = place + size, left[1]
    while to_end:
        chunk = hop()
        if chunk is None or names.get(chunk[0]):
            return False
        to_end = chunk[0] != b""
    return True
