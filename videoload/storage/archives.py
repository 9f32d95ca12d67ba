"""The members of tar and zip archives: bytes at an offset of a file. Pure, but for a given read.

A member that is stored as it is can be read in place, and everything that holds for a file holds
for it. So an archive is walked once, for the name and the place of each member:

    tar   a record: extended headers (a long name, a size above 8 GB), the header, the bytes
    zip   a record: the local header, whose extra field has a length of its own, and the bytes;
          the central directory at the end of the file names all of them

What a walk finds is a hint, and not more: the archive may be repacked meanwhile, or have lost some
bytes. `member_at` reads the record there, and returns a member only if its header holds (checksum
or signature, kind, name and size), and another record, or the end, follows its bytes.

Formats: old, ustar, GNU and pax tars, also concatenated ones; zips with the extensions for large
files. A member that is compressed, encrypted or sparse has a ``flaw`` in the place of its bytes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from struct import Struct
from struct import error as struct_error
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile
from zlib import adler32

Read = Callable[[int, int], bytes]  # (offset, length) -> bytes, fewer at the end of the file

_BLOCK = 512  # of a tar
_MAX_HEADER = 1 << 20  # bytes of one extended header: a path and some numbers
_MAX_ZEROS = 1 << 20  # between concatenated tars, or behind the last one
_MAX_DIRECTORY = 1 << 28  # bytes of a central directory: three million members
_MAX_EXTENDED = 16  # extended headers of one member: tars have two at most
_COMPRESSED = {
    b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf": "7-Zip", b"Rar!": "RAR",
}  # fmt: skip
_FILES, _HARD_LINK, _SPARSE, _FOLDER = b"\x0007S", b"1", b"S", b"5"  # kinds
_LONGER = {b"L": "path", b"K": "linkpath"}
_EXTENDED = b"LKxgX"
_NO_BYTES = b"123456DVM"  # links, devices, folders: their size counts no bytes
_ADLER = 65521
_OCTAL = re.compile(rb" *([0-7]*)[ \0]*")

_LOCAL = Struct("<4s2xHH8xIIHH")  # of a zip: flags, method, sizes, lengths of name and extra
_EXTRA = Struct("<HH")  # kind, length
_LOCAL_MAGIC, _SIZES_MAGIC, _RECORD = b"PK\x03\x04", b"PK\x07\x08", b"PK"
_MAX_SIZES = 24  # bytes of what follows a member whose size was not known when it was written
_FULL_32, _FULL_16 = 0xFFFFFFFF, 0xFFFF
_UTF8, _STREAMED, _ENCRYPTED = 1 << 11, 1 << 3, 1
_STORED = 0


class ArchiveError(Exception):
    """A file is not an archive that can be read in place; the message gives the reason."""


class Member(NamedTuple):
    """A regular file in an archive.

    Attributes:
        name: In its plainest form.
        at: Where its record begins.
        begin: Offset of its bytes; 0: only its record contains it.
        size: Bytes.
        flaw: Why the bytes cannot be read in place; "" if they can.
        link: It has the bytes of the earlier member of this name.
    """

    name: str
    at: int
    begin: int
    size: int
    flaw: str = ""
    link: str = ""


def members(read: Read, size: int) -> Iterator[Member]:
    """Yield the members of an archive of ``size`` bytes in its order. Of several with one name, the
    last one counts. Raises ArchiveError."""
    start = read(0, _BLOCK)
    if start.startswith((_LOCAL_MAGIC, b"PK\x05\x06")):
        yield from _zip_members(read, size)
        return
    if start.count(0) != len(start) and not _is_header(start):
        for magic, kind in _COMPRESSED.items():
            if start.startswith(magic):
                raise ArchiveError(
                    f"is compressed as a whole ({kind}), so nothing in it can be found without "
                    "reading all of it: unpack it, or write an uncompressed tar"
                )
        raise ArchiveError("is neither a tar nor a zip archive")
    yield from _tar_members(read, size)


def member_at(read: Read, size: int, name: str, at: int, length: int) -> Member | None:
    """Return the member ``name`` of ``length`` bytes whose record begins ``at``; None if there is
    another one, or none, or if some of its bytes are missing."""
    if not 0 <= at < size or not name:
        return None
    with suppress(ArchiveError):
        if read(at, 4) == _LOCAL_MAGIC:
            return _local_member(read, size, name, at, length)
        member, kind, following = _tar_record(read, size, at) or (None, b"", 0)
        if member is None or kind not in _FILES or member.flaw:
            return None
        behind = read(following, _BLOCK) if following < size else b""
        is_last = not behind.strip(b"\0") and size in (member.begin + length, _padded(size))
        if (member.name, member.size) == (name, length) and (is_last or _is_header(behind)):
            return member
    return None


def _plainest(name: str) -> str:
    return posixpath.normpath(name) if name else name


# Tars


def _tar_members(read: Read, size: int) -> Iterator[Member]:
    at = 0
    while at < size:
        record = _tar_record(read, size, at)
        if record is None:
            at = _behind_zeros(read, size, at)
            continue
        member, kind, at = record
        if kind in _FILES or (kind == _HARD_LINK and member.link):
            yield member


def _tar_record(read: Read, size: int, at: int) -> tuple[Member, bytes, int] | None:
    """Return the record that begins ``at``: a member, its kind, and where the next record begins;
    None if there are zeros. Raises ArchiveError."""
    begin, longer = at, dict[str, str]()
    for _ in range(_MAX_EXTENDED):
        block = read(at, _BLOCK)
        if not _is_header(block):
            if at == begin and not block.strip(b"\0"):
                return None
            raise ArchiveError(f"has no valid tar header at byte {at}: it is truncated or damaged")
        kind, length = block[156:157], _number(block[124:136])
        at += _BLOCK
        if kind in _EXTENDED:
            if length > _MAX_HEADER:
                raise ArchiveError(f"has an extended header of {length} bytes at byte {at}")
            text = read(at, length)
            if kind in _LONGER:
                longer[_LONGER[kind]] = _text(text.rstrip(b"\0"))
            elif kind != b"g":
                longer |= _pax(text)
            at += _padded(length)
            continue
        flaw = "is a sparse file" if kind == _SPARSE else ""
        if longer:
            length = int(longer["size"]) if longer.get("size", "").isdecimal() else length
            if any(key.startswith("GNU.sparse") for key in longer):
                flaw = "is a sparse file"
        name, link = longer.get("path") or _short_name(block), ""
        if kind == _HARD_LINK:
            link = longer.get("linkpath") or _text(block[157:257].partition(b"\0")[0])
        stored = 0 if kind in _NO_BYTES else length
        if at + stored > size:
            raise ArchiveError(f"ends within {name!r}: it is truncated")
        if name.endswith("/"):
            kind = _FOLDER
        member = Member(_plainest(name), begin, at, length, flaw, link and _plainest(link))
        return member, kind, at + _padded(stored)
    raise ArchiveError(f"has more than {_MAX_EXTENDED} extended headers at byte {begin}")


def _behind_zeros(read: Read, size: int, at: int) -> int:
    """Return the offset of a concatenated tar after the zeros ``at``, or the end of the file."""
    for block_at in range(at, min(size, at + _MAX_ZEROS), _BLOCK):
        if read(block_at, _BLOCK).strip(b"\0"):
            return block_at
    return size


def _is_header(block: bytes) -> bool:
    """Return whether a block of a tar is a header, by its checksum."""
    if len(block) < _BLOCK or (octal := _OCTAL.fullmatch(block[148:156])) is None or not octal[1]:
        return False
    sum_ = adler32(block[:148] + b" " * 8 + block[156:]) & 0xFFFF  # of all bytes, and 1
    return (int(octal[1], 8) + 1 - sum_) % _ADLER == 0


def _number(field: bytes) -> int:
    """Return a number in octal digits, or in base 256. Raises ArchiveError."""
    if field[0] & 0x80:
        if field[0] & 0x40:
            raise ArchiveError("has a negative size")
        return int.from_bytes(field, "big") & (1 << 8 * len(field) - 1) - 1
    if (octal := _OCTAL.fullmatch(field)) is None:
        raise ArchiveError(f"has the size {field!r}")
    return int(octal[1] or b"0", 8)


def _pax(text: bytes) -> dict[str, str]:
    """Return the lines ``length key=value`` of an extended header. Raises ArchiveError."""
    found, at = dict[str, str](), 0
    while at < len(text):
        digits, space, _ = text[at : at + 20].partition(b" ")
        length = int(digits) if space and digits.isdigit() else 0
        if not len(digits) + 3 <= length <= len(text) - at:
            raise ArchiveError("has a damaged extended header")
        key, _, value = text[at + len(digits) + 1 : at + length - 1].partition(b"=")
        found[_text(key)] = _text(value)
        at += length
    return found


def _short_name(block: bytes) -> str:
    name = block[:100].partition(b"\0")[0]
    prefix = block[345:500].partition(b"\0")[0] if block[257:263] == b"ustar\0" else b""
    return _text(prefix + b"/" + name if prefix else name)


def _padded(length: int) -> int:
    return -(-length // _BLOCK) * _BLOCK


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


# Zips


class _Stream:
    """An archive, as `zipfile` reads it."""

    def __init__(self, read: Read, size: int) -> None:
        self._read, self._size, self._at = read, size, 0

    def seek(self, to: int, whence: int = 0) -> int:
        self._at = to + (0, self._at, self._size)[whence]
        if self._at < 0:
            raise ValueError
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, length: int = -1) -> bytes:
        left = max(0, self._size - self._at)
        length = left if length < 0 else min(length, left)
        if length > _MAX_DIRECTORY:
            raise ValueError
        data = self._read(self._at, length)
        self._at += len(data)
        return data


def _zip_members(read: Read, size: int) -> Iterator[Member]:
    stream: Any = _Stream(read, size)
    try:
        found = ZipFile(stream).infolist()
    except (BadZipFile, NotImplementedError, ValueError, OverflowError, struct_error):
        raise ArchiveError(
            "has no central directory that can be read: it is truncated, damaged or a part of a "
            "split zip"
        ) from None
    for each in found:
        raw = each.orig_filename.encode("utf-8" if each.flag_bits & _UTF8 else "cp437")
        name, at, length = _zip_name(raw, each.flag_bits), each.header_offset, each.file_size
        flaw = "" if 0 <= at <= at + length <= size else "is outside of its archive: it is damaged"
        if not name.endswith("/"):
            flaw = _packed(each.flag_bits, each.compress_type) or flaw
            yield Member(_plainest(name), max(0, at), 0, length, flaw)


def _local_member(read: Read, size: int, name: str, at: int, length: int) -> Member | None:
    """Return the stored member ``name`` of ``length`` bytes whose local header is ``at``."""
    head = read(at, _LOCAL.size)
    if len(head) < _LOCAL.size:
        return None
    _, flags, method, packed, stored, names, extras = _LOCAL.unpack(head)
    rest = read(at + _LOCAL.size, names + extras)
    begin, extra = at + _LOCAL.size + names + extras, rest[names:]
    # The length of the extra field decides where the bytes begin.
    if _packed(flags, method) or begin + length > size or not _is_extra(extra):
        return None
    if _plainest(_zip_name(rest[:names], flags)) != name:
        return None
    behind = read(begin + length, _MAX_SIZES + len(_RECORD))
    skip = _sizes_behind(behind, length) if flags & _STREAMED else 0
    if stored == _FULL_32:
        is_it = skip > 0 or length.to_bytes(8, "little") * 2 in extra
    else:
        is_it = stored == packed == length or (skip > 0 and not stored)
    return Member(name, at, begin, length) if is_it and behind[skip:].startswith(_RECORD) else None


def _sizes_behind(behind: bytes, length: int) -> int:
    """Return the size of the record after a member that confirms its ``length``; 0: there is
    none."""
    begin = 4 + len(_SIZES_MAGIC) * behind.startswith(_SIZES_MAGIC)  # a checksum
    for width in (8, 4):
        if behind.startswith(length.to_bytes(8, "little")[:width] * 2, begin):
            return begin + 2 * width
    return 0


def _is_extra(extra: bytes) -> bool:
    """Return whether an extra field consists of whole parts, and perhaps of zeros that align a
    member."""
    at = 0
    while at + _EXTRA.size <= len(extra) and any(extra[at:]):
        at += _EXTRA.size + _EXTRA.unpack_from(extra, at)[1]
    return at <= len(extra) and not any(extra[at:])


def _packed(flags: int, method: int) -> str:
    """Return why the bytes of a member are not stored as they are; "" if they are."""
    if flags & _ENCRYPTED:
        return "is encrypted"
    return "" if method == _STORED else "is compressed: write the zip with `zip -0`"


def _zip_name(raw: bytes, flags: int) -> str:
    """Return a name, in UTF-8 if it is flagged or valid."""
    if not flags & _UTF8:
        with suppress(UnicodeDecodeError):
            return raw.decode("utf-8")
        return raw.decode("cp437")
    return _text(raw)
