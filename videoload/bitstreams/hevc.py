"""Prove the frames of an HEVC video from its headers. Pure.

A coded video sequence begins with an IDR picture. Within it, pictures are shown in the order of
their counts (POC). Decoding can also begin at a CRA picture: pictures that follow it in the file
but are shown before it are *leading* pictures. Some of these (RASL) refer to pictures before the
CRA picture; a decoder that begins there skips them, so at the beginning of a file they are not
shown.

**FFmpeg silently drops a picture if a picture of its reference picture set is missing**, so in most
files with lost packets, the numbers of frames and packets differ. So each picture of each set must
be available here as well. This module simulates FFmpeg's picture buffer: after each picture it
shows the lowest count if more pictures wait, or if the buffer holds more, than the sequence
parameter set allows. The order is proven only if this equals the order of counts.

Rare features prove nothing: broken links (BLA), long-term references, layers, pictures that are not
for display, two pictures in a packet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from operator import lt
from typing import NamedTuple

import numpy as np

from videoload.bitstreams.nal_units import (
    START_CODES,
    listed_units,
    nal_units,
    next_count,
    unescaped,
)
from videoload.bitstreams.pictures import Bits, Packets, Pictures, are_settings_known, only

_RASL = (8, 9)
_LEADING = (6, 7, *_RASL)
_IDR = (19, 20)
_CRA = 21
_COUNTED_FROM = (1, 3, 5, _CRA)  # references of temporal layer 0, from which others are counted
_PICTURES = (*range(10), *_IDR, _CRA)
_SPS, _PPS = 33, 34
_SETTINGS = (32, _SPS, _PPS)
_ENDS = (36, 37)  # of a sequence, of a stream
_OTHERS = (35, 38, 39, 40, *range(48, 64))  # delimiters, filler, messages, and of no meaning
_FIRST = 0x80  # the first slice of a picture
_HEADER_BYTES = 2
_SLICE_BYTES = 96  # the part of a slice's header that is read is not longer
_MAX_SETS, _MAX_REFERENCES = 64, 16

References = tuple[int, ...]  # a reference picture set: by how much each picture's count differs


def prove_hevc(packets: Packets) -> Pictures | None:
    """Return the frames if each packet is a picture, and a decoder shows all but the first RASL
    pictures."""
    length_bytes, units = _configuration(packets.extradata)
    given = frozenset(unit for unit in units if len(unit) > 2 and _kind(unit) in _SETTINGS)
    slices: list[bytes] = []
    settings: dict[int, frozenset[bytes]] = {}
    ended: set[int] = set()
    for i in range(len(packets.sizes)):
        data = packets.whole(i)
        found = None if data is None else _picture(data, length_bytes)
        if found is None:
            return None
        slices.append(found.slice)
        if found.settings:
            settings[i] = found.settings
        ended.update(i + after for after in found.ends)
    starts = [i for i, unit in enumerate(slices) if _kind(unit) in (*_IDR, _CRA)]
    if starts[:1] != [0] or not are_settings_known(settings, given, starts):
        return None
    if any(i < len(slices) and _kind(slices[i]) not in _IDR for i in ended):
        return None
    used = settings.get(0, given)
    sps = only({unit for unit in used if _kind(unit) == _SPS})
    sequence = None if sps is None else _sequence(sps)
    extra = only({_extra_bits(unit) for unit in used if _kind(unit) == _PPS})
    if sequence is None or extra is None or sequence.size != packets.size:
        return None
    try:
        pictures = list(_pictures(slices, sequence, extra))
    except (EOFError, IndexError):
        return None
    return _shown(pictures, starts, sequence)


def is_hevc(packet: bytes) -> bool:
    """Return whether a packet begins as the first one of a file with start codes does."""
    first = next(nal_units(packet, 0), b"")
    return packet.startswith(START_CODES) and first[:2] in (b"\x40\1", b"\x46\1")


class _Found(NamedTuple):
    """The header of the first slice in a packet, the settings before it, and 0 or 1 where a
    sequence ends before the picture or after it."""

    slice: bytes
    settings: frozenset[bytes]
    ends: set[int]


class _Picture(NamedTuple):
    """A picture: the kind of its slices; its sequence and count in ``shown``; its reference
    pictures."""

    kind: int
    shown: tuple[int, int]
    references: References


def _kind(unit: bytes) -> int:
    return unit[0] >> 1


def _picture(data: bytes, length_bytes: int) -> _Found | None:
    """Return the picture of a packet, if it has one picture, with its first slice first."""
    if not length_bytes and not data.startswith(START_CODES):
        return None
    first = b""
    settings: set[bytes] = set()
    ends: set[int] = set()
    for unit in nal_units(data, length_bytes):
        kind = unit[0] >> 1
        if len(unit) < _HEADER_BYTES + (kind not in _ENDS):
            return None
        if unit[0] & 1 or unit[1] >> 3:  # another layer
            return None
        if kind in _PICTURES:
            if (unit[2] >= _FIRST) == bool(first) or (first and kind != _kind(first)):
                return None
            first = first or unit[:_SLICE_BYTES]
        elif kind in _SETTINGS and not first:
            settings.add(unit)
        elif kind in _ENDS:
            ends |= {1} if first else {0, 1}
        elif kind not in _OTHERS:
            return None
    return _Found(first, frozenset(settings), ends) if first else None


def _pictures(slices: list[bytes], sequence: _Sequence, extra: int) -> Iterator[_Picture]:
    """Yield the pictures. Raises EOFError if something is unusual."""
    group = before = 0
    for i, unit in enumerate(slices):
        kind, count = _kind(unit), 0
        references: References = ()
        bits = Bits(unescaped(unit[_HEADER_BYTES:]))
        bits.take(1)
        if kind >= _IDR[0] and bits.take(1) and i:
            raise EOFError  # pictures before it are dropped
        bits.golomb()  # picture parameter set
        bits.take(extra)
        bits.golomb()  # type
        if kind in _IDR:
            group += 1
        else:
            count = next_count(before, bits.take(sequence.count_bits), sequence.count_bits)
            if bits.take(1):
                number = bits.take((len(sequence.sets) - 1).bit_length())
                references = sequence.sets[number]
            else:
                references = _references(bits, sequence.sets, len(sequence.sets))
            if sequence.has_long_term:
                if sequence.long_terms and bits.golomb():
                    raise EOFError
                if bits.golomb():
                    raise EOFError
        if unit[1] & 7 == 1 and (kind in _COUNTED_FROM or kind in _IDR):
            before = count
        yield _Picture(kind, (group, count), references)


def _shown(pictures: list[_Picture], starts: list[int], sequence: _Sequence) -> Pictures | None:
    """Return the shown frames, if only leading pictures change sides of a start between file and
    presentation order."""
    counts: list[tuple[int, int] | None] = []
    waiting: list[tuple[int, int]] = []
    shown: list[tuple[int, int]] = []
    held: set[tuple[int, int]] = set()  # references
    since: set[tuple[int, int]] = set()  # pictures from the last start on
    last = before = highest = pictures[0].shown  # the last start, the one before it
    are_skipped = True  # RASL pictures of the last start
    for i, (kind, count, references) in enumerate(pictures):
        if kind in _RASL and are_skipped:
            counts.append(None)
            continue
        group, number = count
        kept = {(group, number + difference) for difference in references}
        if kind in _IDR:
            shown += sorted(waiting)
            waiting.clear()
        elif i and not kept <= held:
            return None
        if kind >= _IDR[0]:
            if i and count <= highest:
                return None
            since, are_skipped = set(), kind in _IDR or not i
            last, before = count, last
        elif kind in _LEADING:
            if count <= before:
                return None
        elif count <= last or not kept <= since:
            return None
        highest = max(highest, count)
        counts.append(count)
        since.add(count)
        held = kept | {count}
        heappush(waiting, count)
        while waiting and (
            len(waiting) > sequence.waiting or len(held.union(waiting)) > sequence.buffer
        ):
            shown.append(heappop(waiting))
    shown += sorted(waiting)
    if not all(map(lt, shown, shown[1:])):
        return None
    ordinals = {count: ordinal for ordinal, count in enumerate(shown)}
    given = np.array([-1 if count is None else ordinals[count] for count in counts])
    is_same = np.array_equal(given, np.arange(len(given)))
    return Pictures(len(shown), np.array(starts), None if is_same else given)


def _configuration(extradata: bytes) -> tuple[int, list[bytes]]:
    """Return how many bytes the length before a NAL unit has (0: start codes), and the units in
    it."""
    if extradata[:1] != b"\1" or len(extradata) < 23:
        return 0, list(nal_units(extradata, 0))
    units, at = [], 23
    for _ in range(extradata[22]):
        count = int.from_bytes(extradata[at + 1 : at + 3], "big")
        some, at = listed_units(extradata, at + 3, count)
        units += some
    return (extradata[21] & 3) + 1, units


class _Sequence(NamedTuple):
    """A sequence parameter set. ``size``: width, height. ``count_bits``: of a picture's count.
    ``waiting``: so many pictures wait to be shown; ``buffer``: so many are held in all. ``sets``:
    reference picture sets. ``long_terms``: so many long-term references are listed."""

    size: tuple[int, int]
    count_bits: int
    waiting: int
    buffer: int
    sets: tuple[References, ...]
    has_long_term: bool
    long_terms: int


@lru_cache(256)  # encoders write the same one into all their files
def _sequence(sps: bytes) -> _Sequence | None:
    """Return a set, if it is of a usual kind."""
    bits = Bits.until_stop(unescaped(sps[_HEADER_BYTES:]))
    try:
        bits.take(4)
        layers = bits.take(3)  # temporal ones above the lowest
        bits.take(1)
        _skip_profile(bits, layers)
        bits.golomb()
        chroma = bits.golomb()
        if chroma == 3 and bits.take(1):  # planes apart
            return None
        width, height = bits.golomb(), bits.golomb()
        if bits.take(1):  # cropping
            width -= (bits.golomb() + bits.golomb()) * (1 + (chroma in (1, 2)))
            height -= (bits.golomb() + bits.golomb()) * (1 + (chroma == 1))
        bits.golomb(), bits.golomb()  # depths
        count_bits = bits.golomb() + 4
        for _ in range(layers + 1 if bits.take(1) else 1):  # the highest layer is last
            buffer, waiting, _ = bits.golomb() + 1, bits.golomb(), bits.golomb()
        for _ in range(6):  # sizes and depths of blocks
            bits.golomb()
        if bits.take(1) and bits.take(1):  # scaling lists
            return None
        bits.take(2)
        if bits.take(1):  # samples as they are
            bits.take(8)
            bits.golomb(), bits.golomb()
            bits.take(1)
        sets: list[References] = []
        many = bits.golomb()
        if many > _MAX_SETS or count_bits > 16 or not waiting < buffer <= _MAX_REFERENCES:
            return None
        for _ in range(many):
            sets.append(_references(bits, sets, many))
        has_long_term, long_terms = bool(bits.take(1)), 0
        if has_long_term:
            long_terms = bits.golomb()
        return _Sequence(
            (width, height), count_bits, waiting, buffer, tuple(sets), has_long_term, long_terms
        )
    except (EOFError, IndexError):
        return None


def _skip_profile(bits: Bits, layers: int) -> None:
    bits.take(96)
    if not layers:
        return
    present = [bits.take(2) for _ in range(8)][:layers]
    for each in present:
        bits.take(88 * (each >> 1) + 8 * (each & 1))


def _references(bits: Bits, sets: Sequence[References], many: int) -> References:
    """Return the next reference picture set: pictures before this one, nearest first, then pictures
    after it. ``sets``: the sets of the sequence so far, of ``many``. Raises EOFError."""
    if sets and bits.take(1):  # it is coded as its differences to another set
        back = bits.golomb() + 1 if len(sets) == many else 1
        sign = bits.take(1)
        difference = (1 - 2 * sign) * (bits.golomb() + 1)
        if back > len(sets):
            raise EOFError
        found = [
            each + difference
            for each in (*sets[-back], 0)
            if bits.take(1) or bits.take(1)  # it is used, or stored
        ]
    else:
        found = []
        counts = bits.golomb(), bits.golomb()
        if sum(counts) > _MAX_REFERENCES:
            raise EOFError
        for sign, count in zip((-1, 1), counts, strict=True):
            at = 0
            for _ in range(count):
                at += sign * (bits.golomb() + 1)
                bits.take(1)
                found.append(at)
    if len(found) > _MAX_REFERENCES:
        raise EOFError
    return tuple(sorted(set(found) - {0}, key=lambda each: (each > 0, abs(each))))


@lru_cache(256)
def _extra_bits(pps: bytes) -> int | None:
    """Return how many bits without a meaning a slice's header has; None if pictures of this picture
    parameter set may be no output."""
    bits = Bits(unescaped(pps[_HEADER_BYTES:_SLICE_BYTES]))
    try:
        bits.golomb(), bits.golomb()
        bits.take(1)
        return None if bits.take(1) else bits.take(3)
    except EOFError:
        return None
