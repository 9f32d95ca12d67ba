"""Prove the frames of an H.264 video from its headers. Pure.

Pictures are shown in the order of their picture order counts, which begin again at each IDR
picture. A decoder holds back as many pictures as the sequence parameter set requires, and shows the
one with the lowest count whenever it has one more. Later ones are dropped. If the set has no
number, FFmpeg estimates it while decoding, and drops pictures until then; so in that case only
pictures in order are proven.

**Decoding can begin at an IDR picture, and at a recovery point**: an I-picture with a message that
later shown pictures do not refer to earlier ones. Leading pictures follow it in the file, are shown
before it, and may refer to earlier ones: a decoder that begins there does not receive them. So no
other picture may refer to them.

**Two numbers in each slice header decide.** The count is written as its last bits, or follows from
``frame_num``. ``frame_num`` counts the references since the IDR picture. If it is another number, a
picture is missing, or references are dropped (MMCO 5): nothing is proven.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.bitstreams.nal_units import (
    START_CODES,
    listed_units,
    nal_units,
    next_count,
    unescaped,
)
from videoload.bitstreams.pictures import (
    DATA_BYTES,
    HEAD_BYTES,
    Bits,
    Buffer,
    Ints,
    Packets,
    Pictures,
    are_settings_known,
    by_counts,
    is_shown_in_order,
    only,
)

_SLICE, _IDR, _MESSAGES, _SPS, _PPS = 1, 5, 6, 7, 8
_RECOVERY_POINT = 6  # kind of a message
_INTRA = (2, 7)  # types of slices
_LEAST_COUNT = 32  # FFmpeg counts up to there in pictures that stand for missing ones
_SETTINGS = (_SPS, _PPS, 13, 15)
_EMPTY = (9, 12)  # delimiters, filler
_MACROBLOCK_0 = 0x80
_LOSSLESS_PROFILE = 244
_SLICE_BYTES = 32  # the part of a slice's header that is read is not longer
_MAX_SPS_BYTES = 8192  # more than all that the standard allows takes
_MAX = 16  # bits of a number in a slice's header, and pictures that are held back
_MAX_BUFFERS = 32  # of a hypothetical reference decoder, by the standard
_X264 = re.compile(rb"x264 - core (\d+)")
_X264_AS_SPECIFIED = 151  # from this build on, without loss as well
_HIGH_PROFILES = (100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135)


def prove_h264(packets: Packets) -> Pictures | None:
    """Return the frames if each packet is a picture, without fields or gaps. IDR pictures are found
    in the packets, because containers flag other pictures as keyframes, too."""
    length_bytes, units = _avc_configuration(packets.extradata)
    given = frozenset(unit for unit in units if _kind(unit) in _SETTINGS)
    found = _first_slices(packets, length_bytes)
    if found is None:
        return None
    slices, settings, recovering = found
    starts = [i for i, unit in enumerate(slices) if _kind(unit) == _IDR]
    if starts[:1] != [0] or not are_settings_known(settings, given, starts):
        return None
    used = settings.get(0, given)  # where packets have them, a decoder takes the latest
    if all(_kind(unit) != _SPS for unit in used):
        used |= given
    sps = only({unit for unit in used if _kind(unit) == _SPS})
    sequence = None if sps is None else _sequence(sps)
    counts_both = only({_counts_both(unit) for unit in used | given if _kind(unit) == _PPS})
    if sequence is None or counts_both is None:
        return None
    counts = _order_counts(slices, sequence, counts_both)
    if counts is None or not is_shown_in_order(counts, sequence.held):
        return None
    pictures = by_counts(counts, np.array(starts))
    if pictures is None:
        return None
    is_reference = np.array(list(map(_is_reference, slices)))
    begins = [*starts, *_recovery_points(recovering, counts, pictures, is_reference, sequence)]
    starts = [i for i in sorted(begins) if are_settings_known(settings, given, [i])]
    pictures = pictures._replace(starts=np.array(starts))
    if sequence.profile == _LOSSLESS_PROFILE:
        pictures = pictures._replace(starts=_with_encoder(packets, pictures.starts))
    return pictures.with_non_reference(1 - is_reference.astype(np.int64))


def _recovery_points(
    said: list[int],
    counts: list[tuple[int, int]],
    pictures: Pictures,
    is_reference: npt.NDArray[np.bool_],
    sequence: _Sequence,
) -> Iterator[int]:
    """Yield the recovery points among the packets ``said`` to be some, if FFmpeg decodes correctly
    from there."""
    shown = np.arange(len(counts)) if pictures.ordinals is None else pictures.ordinals
    latest = np.maximum.accumulate(shown)
    referred = np.where(is_reference, shown, len(shown))
    earliest = np.minimum.accumulate(referred[::-1])[::-1]
    number = np.cumsum(is_reference) - 1  # of a reference
    for i in said:
        since = number[i] - number[pictures.starts[pictures.starts <= i][-1]]
        is_between = latest[i] == shown[i] == earliest[i]  # no leading picture is a reference
        # FFmpeg fills its buffer with gray pictures, with the numbers and counts before.
        is_full = since % (1 << sequence.frame_bits) > sequence.references
        if is_between and is_full and counts[i][1] > _LEAST_COUNT:
            yield i


def is_non_reference(data: Buffer, extradata: bytes) -> bool:
    """Return whether a packet is one non-reference picture in each of its slices: the proof reads
    only its first slice. It must contain no units that concern other pictures (parameter sets,
    messages)."""
    length_bytes = (extradata[4] & 3) + 1 if _is_avc(extradata) else 0
    first, *_ = *_with_content(bytes(data[:HEAD_BYTES]), length_bytes), b""
    if not _is_unreferenced_slice(first):
        return False  # as most packets
    units = _with_content(bytes(data), length_bytes)
    return all(
        _is_unreferenced_slice(unit) and (unit[1] >= _MACROBLOCK_0) == (i == 0)
        for i, unit in enumerate(units)
    )


def _with_content(data: bytes, length_bytes: int) -> Iterator[bytes]:
    """Return the NAL units except delimiters and filler."""
    return (unit for unit in nal_units(data, length_bytes) if _kind(unit) not in _EMPTY)


def _is_unreferenced_slice(unit: bytes) -> bool:
    return len(unit) > 1 and _kind(unit) == _SLICE and not _is_reference(unit)


def _is_reference(unit: bytes) -> bool:
    return unit[0] & 0x60 > 0


def _kind(unit: bytes) -> int:
    return unit[0] & 31


def _first_slices(
    packets: Packets, length_bytes: int
) -> tuple[list[bytes], dict[int, frozenset[bytes]], list[int]] | None:
    """Return the header of the first slice in each packet, the settings in packets that have some,
    and the recovery points. None if a packet does not begin with the first slice of a picture."""
    slices: list[bytes] = []
    settings: dict[int, frozenset[bytes]] = {}
    recovering: list[int] = []
    heads = packets.heads().tobytes()
    for i, size in enumerate(packets.sizes.tolist()):
        head = heads[i * HEAD_BYTES : (i + 1) * HEAD_BYTES]
        if not length_bytes and not head.startswith(START_CODES):
            return None
        unit, before = _first_slice(head, length_bytes)
        if len(unit) < _SLICE_BYTES and size > HEAD_BYTES:
            unit, before = _first_slice(packets.data(i, DATA_BYTES), length_bytes)
        if sets := [each for each in before if _kind(each) != _MESSAGES]:
            settings[i] = frozenset(sets)
        if len(sets) < len(before) and _is_intra(unit) and any(map(_is_recovery_point, before)):
            recovering.append(i)
        if len(unit) < 2 or _kind(unit) not in (_SLICE, _IDR) or unit[1] < _MACROBLOCK_0:
            return None
        slices.append(unit[:_SLICE_BYTES])
    return slices, settings, recovering


def _first_slice(data: bytes, length_bytes: int) -> tuple[bytes, list[bytes]]:
    """Return the first slice in the beginning of a packet, and the settings and messages before
    it."""
    before: list[bytes] = []
    for unit in nal_units(data, length_bytes):
        kind = _kind(unit)
        if _SLICE <= kind <= _IDR:
            return unit, before
        if kind in _SETTINGS or kind == _MESSAGES:
            before.append(unit)
    return b"", before


def _is_intra(unit: bytes) -> bool:
    """Return whether a slice is intra-coded."""
    bits = Bits(unescaped(unit[1:_SLICE_BYTES]))
    with suppress(EOFError):
        bits.golomb()
        return bits.golomb() in _INTRA
    return False


def _is_recovery_point(unit: bytes) -> bool:
    """Return whether a unit has the message that decoding can begin here, exactly and at once."""
    data, at = unescaped(unit[1:]) if _kind(unit) == _MESSAGES else b"", 0
    while at + 1 < len(data):
        kind, size = data[at], data[at + 1]  # longer ones follow it
        bits = Bits(data[at + 2 : at + 2 + size])
        with suppress(EOFError):
            if kind == _RECOVERY_POINT:
                return bits.golomb() == 0 and bits.take(2) == 0b10
        at += 2 + size
    return False


def _order_counts(
    slices: list[bytes], sequence: _Sequence, counts_both: bool
) -> list[tuple[int, int]] | None:
    """Return the number of its IDR picture and the picture order count of each picture.
    ``counts_both``: both fields of a frame have a count."""
    counts: list[tuple[int, int]] = []
    group = references = before = 0
    for unit in slices:
        is_idr, is_reference = _kind(unit) == _IDR, _is_reference(unit)
        if is_idr:
            group, references, before = group + 1, 0, 0
        bits = Bits(unescaped(unit[1:]))
        try:
            bits.golomb(), bits.golomb(), bits.golomb()  # macroblock, type, picture parameter set
            if bits.take(sequence.frame_bits) != references % (1 << sequence.frame_bits):
                return None
            if sequence.has_fields and bits.take(1):  # a field
                return None
            if is_idr:
                if not is_reference:
                    return None
                bits.golomb()
            if sequence.order_type:
                count = 2 * references - (not is_reference)
            else:
                count = bits.take(sequence.order_bits)
                if not is_idr:
                    count = next_count(before, count, sequence.order_bits)
                last = count
                if counts_both:
                    count += min(0, bits.signed_golomb())
                if is_reference:
                    before = last
        except EOFError:
            return None
        counts.append((group, count))
        references += is_reference
    return counts


def _with_encoder(packets: Packets, starts: Ints) -> Ints:
    """Return the starts that name the encoder, if that matters: a decoder treats lossless pictures
    of an old x264 differently. Most files name it in the first packet only."""
    said = _X264.search(packets.data(0, DATA_BYTES))
    if said is None or int(said[1]) >= _X264_AS_SPECIFIED:
        return starts
    say = [i for i in starts.tolist() if said[0] in packets.data(i, DATA_BYTES)]
    return np.array(say, np.int64)


def _is_avc(extradata: bytes) -> bool:
    return extradata[:1] == b"\1" and len(extradata) >= 8


def _avc_configuration(extradata: bytes) -> tuple[int, list[bytes]]:
    """Return how many bytes the length before a NAL unit has (0: start codes), and the units in
    it."""
    if not _is_avc(extradata):
        return 0, list(nal_units(extradata, 0))
    units, at = [], 5
    for mask in (31, 255):  # sequence and picture parameter sets
        count = extradata[at] & mask if at < len(extradata) else 0
        some, at = listed_units(extradata, at + 1, count)
        units += some
    return (extradata[4] & 3) + 1, units


class _Sequence(NamedTuple):
    """A sequence parameter set. ``frame_bits``: of ``frame_num``. ``has_fields``: a picture may be
    a field. ``order_type``, ``order_bits``: how picture order counts are written. ``held``:
    pictures that a decoder holds back; 0 if unknown. ``references``: pictures that it stores."""

    profile: int
    frame_bits: int
    has_fields: bool
    order_type: int
    order_bits: int
    held: int
    references: int


@lru_cache(256)  # encoders write the same one into all their files
def _sequence(sps: bytes) -> _Sequence | None:
    """Return a sequence parameter set, or None if it allows gaps or has an unusual order count."""
    bits = Bits.until_stop(unescaped(sps[:_MAX_SPS_BYTES]))
    order_bits = 0
    try:
        bits.take(8)
        profile = bits.take(8)
        bits.take(16)
        bits.golomb()
        if profile in _HIGH_PROFILES:
            chroma = bits.golomb()
            if chroma == 3 and bits.take(1):  # planes apart
                return None
            bits.golomb(), bits.golomb()
            bits.take(1)
            if bits.take(1):
                for i in range(12 if chroma == 3 else 8):
                    if bits.take(1):
                        _skip_scaling_list(bits, 16 if i < 6 else 64)
        frame_bits = bits.golomb() + 4
        order_type = bits.golomb()
        if order_type == 0:
            order_bits = bits.golomb() + 4
        references = bits.golomb()
        gaps = bits.take(1)
        bits.golomb(), bits.golomb()
        has_fields = not bits.take(1)
        if gaps or order_type not in (0, 2):
            return None
        if has_fields:
            bits.take(1)
        held = _held(bits)
        if max(frame_bits, order_bits, held) > _MAX:
            return None
        return _Sequence(profile, frame_bits, has_fields, order_type, order_bits, held, references)
    except EOFError:
        return None


@lru_cache(256)
def _counts_both(pps: bytes) -> bool | None:
    """Return whether slices of a picture parameter set have a count for each field of a frame."""
    bits = Bits(unescaped(pps[1:_SLICE_BYTES]))
    with suppress(EOFError):
        bits.golomb(), bits.golomb()
        bits.take(1)
        return bool(bits.take(1))
    return None


def _held(bits: Bits) -> int:
    """Return how many pictures are held back, if the rest of a set has restrictions of the
    bitstream at its end. Raises EOFError."""
    bits.take(1)
    if bits.take(1):  # cropping
        bits.golomb(), bits.golomb(), bits.golomb(), bits.golomb()
    if not bits.take(1):  # usability information
        return 0
    if bits.take(1) and bits.take(8) == 255:  # aspect ratio
        bits.take(32)
    if bits.take(1):  # overscan
        bits.take(1)
    if bits.take(1):  # signal
        bits.take(4)
        if bits.take(1):  # colors
            bits.take(24)
    if bits.take(1) and max(bits.golomb(), bits.golomb()) > 5:  # place of chroma
        raise EOFError
    if bits.take(1):  # timing
        bits.take(65)
    models = 0
    for _ in range(2):
        if bits.take(1):
            models += 1
            _skip_decoder_model(bits)
    bits.take(2 if models else 1)
    if not bits.take(1):
        return 0
    bits.take(1)
    bits.golomb(), bits.golomb(), bits.golomb(), bits.golomb()
    held, _ = bits.golomb(), bits.golomb()
    return held


def _skip_decoder_model(bits: Bits) -> None:
    """Skip the parameters of a hypothetical reference decoder."""
    count = bits.golomb() + 1
    if count > _MAX_BUFFERS:
        raise EOFError
    bits.take(8)
    for _ in range(count):
        bits.golomb(), bits.golomb()
        bits.take(1)
    bits.take(20)


def _skip_scaling_list(bits: Bits, length: int) -> None:
    last = following = 8
    for _ in range(length):
        if following:
            code = bits.golomb()
            following = (last + (code + 1) // 2 * (1 if code % 2 else -1)) % 256
        last = following or last
