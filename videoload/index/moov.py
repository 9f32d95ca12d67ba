"""What the header of an MP4 or MOV says, its box ``moov``. Pure, but for reading it."""

from __future__ import annotations

import re

from videoload.storage.content import Content

_BOX_BYTES = 8  # length, kind
_DESCRIPTIONS = re.compile(b"stsd....(....)", re.DOTALL)  # how many of them
_HEADERS = re.compile(b"(mvhd|tkhd)(.)", re.DOTALL)  # of the movie and of a track; version
# Where the matrix begins behind the header's name, in versions 0 and 1.
_MATRIX = {b"mvhd": (36, 48), b"tkhd": (40, 52)}
_AS_STORED = b"".join(n.to_bytes(4, "big") for n in (1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30))


def read_moov(content: Content) -> bytes:
    """The box; nothing if there is none. Raises OSError."""
    at = 0
    while at < content.size:
        head = content.read(at, 16)
        size, kind = int.from_bytes(head[:4], "big"), head[4:8]
        size = int.from_bytes(head[8:], "big") if size == 1 else size  # of 64 bits
        if kind == b"moov":
            return content.read(at, min(size, content.size - at))
        if size < _BOX_BYTES:
            break
        at += size
    return b""


def has_one_description(moov: bytes) -> bool:
    """Whether it says only once for each track how to decode it."""
    counts = _DESCRIPTIONS.findall(moov)
    return bool(counts) and set(counts) == {b"\0\0\0\1"}


def shows_as_stored(moov: bytes) -> bool:
    """Whether it certainly turns, mirrors and cuts no frames."""
    headers = list(_HEADERS.finditer(moov))
    if {header[1] for header in headers} != _MATRIX.keys() or b"cmov" in moov or b"clap" in moov:
        return False
    for header in headers:
        kind, version = header[1], header[2][0]
        if version > 1:
            return False
        at = header.start() + len(kind) + _MATRIX[kind][version]
        if moov[at : at + len(_AS_STORED)] != _AS_STORED:
            return False
    return True
