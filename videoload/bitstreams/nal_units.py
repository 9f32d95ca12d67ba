"""Parse the NAL units of H.264 and HEVC. Pure.

A packet has one picture: units that describe it, then its slices. Units are separated by start
codes (AVI, MPEG-TS), or preceded by their length (MP4, MKV), as the container's configuration
states. Within a unit, a 3 after two zeros is an escape byte, and not part of the data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

START_CODES = (b"\0\0\1", b"\0\0\0\1")
_START_CODE = re.compile(b"\0\0\1")


def nal_units(data: bytes, length_bytes: int) -> Iterator[bytes]:
    """Yield each NAL unit in ``data``. ``length_bytes``: size of the length field; 0: start
    codes."""
    at = 0
    while length_bytes and at + length_bytes < len(data):
        begin = at + length_bytes
        at = begin + int.from_bytes(data[at:begin], "big")
        if at > begin:
            yield data[begin:at]
    if not length_bytes:
        for unit in _START_CODE.split(data)[1:]:
            if unit := unit.rstrip(b"\0"):
                yield unit


def listed_units(data: bytes, at: int, counts: int) -> tuple[list[bytes], int]:
    """Return so many units behind each other in a configuration, each behind its length in two
    bytes; and where they end."""
    units = []
    for _ in range(counts):
        length = int.from_bytes(data[at : at + 2], "big")
        units.append(data[at + 2 : at + 2 + length])
        at += 2 + length
    return list(filter(None, units)), at


def unescaped(unit: bytes) -> bytes:
    """Return a unit without its escape bytes."""
    return unit.replace(b"\0\0\3", b"\0\0")


def next_count(before: int, last_bits: int, bits: int) -> int:
    """Return a picture's order count of which the ``last_bits`` are written: the one that is next
    to the count of the last reference ``before``."""
    half = 1 << bits >> 1
    count = before + (last_bits - before + half) % (2 * half) - half
    return count + 2 * half if count == before - half else count
