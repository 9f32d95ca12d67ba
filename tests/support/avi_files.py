"""Takes AVI files apart into chunks, and puts them together again as other writers would do."""

import struct
from collections.abc import Sequence
from typing import NamedTuple


class Chunk(NamedTuple):
    """A chunk of the movi list, and whether idx1 names it."""

    name: bytes
    data: bytes
    is_key: bool = False
    is_indexed: bool = True

    @property
    def packed(self) -> bytes:
        """The bytes of the chunk in the file, padded."""
        return chunk(self.name, self.data)


def chunk(name: bytes, data: bytes) -> bytes:
    """A RIFF chunk, padded."""
    return struct.pack("<4sI", name, len(data)) + data + bytes(len(data) % 2)


def split(data: bytes) -> tuple[bytes, list[Chunk]]:
    """The bytes before the movi list of an AVI file, and its chunks."""
    movi = data.index(b"movi")
    flags = {}
    begin = data.rindex(b"idx1") + 8
    for at in range(begin, begin + _number(data, begin - 4), 16):
        _, flag, offset, _ = struct.unpack_from("<4sIII", data, at)
        flags[movi + offset] = flag
    chunks, at = [], movi + 4
    end = movi + _number(data, movi - 4)
    while at < end:
        name, length = struct.unpack_from("<4sI", data, at)
        content = data[at + 8 : at + 8 + length]
        chunks.append(Chunk(name, content, bool(flags.get(at, 0) & 0x10), at in flags))
        at += 8 + length + length % 2
    return data[: movi - 8], chunks


def join(
    header: bytes, chunks: Sequence[Chunk], *, in_lists_of: int | None = None, tail: bytes = b""
) -> bytes:
    """An AVI file of these chunks, in LIST rec if ``rec`` says so; ``tail`` follows its index."""
    movi, index = b"movi", b""
    for i, each in enumerate(chunks):
        if in_lists_of is not None and i % in_lists_of == 0:
            inside = b"".join(c.packed for c in chunks[i : i + in_lists_of])
            movi += struct.pack("<4sI4s", b"LIST", 4 + len(inside), b"rec ")
        if each.is_indexed:
            index += entry(each, len(movi))
        movi += each.packed
    body = header + chunk(b"LIST", movi) + chunk(b"idx1", index) + tail
    return body[:4] + struct.pack("<I", len(body) - 8) + body[8:]


def entry(each: Chunk, offset: int) -> bytes:
    """An entry of idx1."""
    return struct.pack("<4sIII", each.name, 0x10 * each.is_key, offset, len(each.data))


def open_dml(data: bytes, segments: int = 2) -> bytes:
    """The same video as several RIFFs with an index of indexes, like files above a gigabyte."""
    return b"".join(open_dml_parts(data, segments, 0))


def open_dml_parts(data: bytes, segments: int, junk_bytes: int) -> tuple[bytes, bytes]:
    """As `open_dml`, in two parts: the bytes before a run of junk, and the bytes after it."""
    header, chunks = split(data)
    strf = header.index(b"strf")
    behind_strf = strf + 8 + _number(header, strf + 4)
    super_bytes = 8 + 24 + 16 * segments
    grown = bytearray(header[:behind_strf] + bytes(super_bytes) + header[behind_strf:])
    for name in (b"hdrl", b"strl"):  # the lists that hold the new chunk
        at = grown.index(name) - 4
        grown[at : at + 4] = struct.pack("<I", _number(grown, at) + super_bytes)
    parts, entries = [bytes(grown), b""], b""
    each = -(-len(chunks) // segments)
    for segment in range(segments):
        part = chunks[segment * each : (segment + 1) * each]
        if segment == 1:
            parts[0] += struct.pack("<4sI", b"JUNK", junk_bytes) if junk_bytes else b""
        base = len(parts[0]) + (junk_bytes + len(parts[1]) if segment else 0)
        riff, movi, index = b"", b"movi", b""
        if segment:
            riff, base = struct.pack("<4sI4s", b"RIFF", 0, b"AVIX"), base + 12
        for c in part:
            index += struct.pack("<II", 8 + len(movi) + 8, len(c.data) | (not c.is_key) << 31)
            movi += c.packed
        index = struct.pack("<HBBI4sQI", 2, 0, 1, len(part), b"00dc", base, 0) + index
        entries += struct.pack("<QII", base + 8 + len(movi), 8 + len(index), len(part))
        riff += chunk(b"LIST", movi + chunk(b"ix00", index))
        if segment:
            riff = riff[:4] + struct.pack("<I", len(riff) - 8) + riff[8:]
        parts[segment > 0] += riff
    table = struct.pack("<HBBI4sIII", 4, 0, 0, segments, b"00dc", 0, 0, 0) + entries
    first = parts[0][:behind_strf] + chunk(b"indx", table) + parts[0][behind_strf + super_bytes :]
    return first[:4] + struct.pack("<I", len(first) - 8) + first[8:], parts[1]


def _number(data: bytes | bytearray, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")
