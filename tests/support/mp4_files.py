"""Changes MP4 files as other writers would write them."""

import struct
from collections.abc import Callable
from io import BytesIO

import av

_PARENTS = (b"moov", b"trak", b"mdia", b"minf", b"stbl")


def empty_samples(data: bytes, which: Callable[[int], bool], track: int = 0) -> bytes:
    """Make some samples of a track empty: what is shown or heard stays as it is. FFmpeg has written
    the file."""
    with av.open(BytesIO(data)) as container:
        entries = [(each.pos, each.size) for each in container.streams[track].index_entries]
    positions, sizes = zip(*entries, strict=True)
    sizes = tuple(0 if which(i) else size for i, size in enumerate(sizes))
    found = {name: _nth(data, name, track) for name in (*_PARENTS[1:], b"stsc", b"stco")}
    found[b"moov"] = data.index(b"moov") - 4
    begin, last = found[b"stsc"], found[b"stco"]
    end = last + int.from_bytes(data[last : last + 4], "big")
    tables = _box(b"stsc", 1, 1, 1, 1)  # each sample is a chunk
    tables += _box(b"stsz", 0, len(sizes), *sizes) + _box(b"stco", len(sizes), *positions)
    changed = bytearray(data)
    for name in _PARENTS:  # which come before the samples' tables
        (length,) = struct.unpack_from(">I", data, found[name])
        struct.pack_into(">I", changed, found[name], length + len(tables) - (end - begin))
    return bytes(changed[:begin]) + tables + data[end:]


def _nth(data: bytes, name: bytes, number: int) -> int:
    """Where a box begins."""
    at = data.index(b"moov")  # behind the samples
    for _ in range(number + 1):
        at = data.index(name, at + 1)
    return at - 4


def _box(name: bytes, *words: int) -> bytes:
    """A box of version 0."""
    return struct.pack(f">I4s{len(words) + 1}I", 12 + 4 * len(words), name, 0, *words)
