"""Picture headers as encoders write them, field by field, and packets that contain them.

The names of fields and the kinds of codes (`Bits.u`, `Bits.ue`, `Bits.se`) are those of the
standards. Where a function takes no argument for a field, its value is the usual one.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from videoload.bitstreams.pictures import HEAD_BYTES, Packets
from videoload.bitstreams.proofs import prove

PAYLOAD = b"\x55" * 60  # data of a picture; contains no start code


class Bits:
    """The bits of a header, written one field after the other."""

    def __init__(self) -> None:
        self._bits = ""

    def u(self, length: int, value: int) -> Self:
        """Append an unsigned number of ``length`` bits."""
        self._bits += f"{value:0{length}b}"
        return self

    def flags(self, *values: bool | int) -> Self:
        """Append fields of one bit each."""
        self._bits += "".join(str(int(value)) for value in values)
        return self

    def ue(self, *values: int) -> Self:
        """Append unsigned Exp-Golomb codes."""
        for value in values:
            self._bits += f"{value + 1:0{2 * (value + 1).bit_length() - 1}b}"
        return self

    def se(self, *values: int) -> Self:
        """Append signed Exp-Golomb codes."""
        return self.ue(*(2 * value - 1 if value > 0 else -2 * value for value in values))

    def add(self, *others: "Bits") -> Self:
        """Append what others hold."""
        self._bits += "".join(other._bits for other in others)
        return self

    def padded(self) -> bytes:
        """Return whole bytes: the bits, a one, and zeros."""
        bits = self._bits + "1"
        bits += "0" * (-len(bits) % 8)
        return int(bits, 2).to_bytes(len(bits) // 8, "big")


NOTHING = Bits()


def packets(
    codec: str, data: Sequence[bytes], *, extradata: bytes = b"", size: tuple[int, int] = (64, 48)
) -> Packets:
    """The coded packets of a video."""
    heads = b"".join(each[:HEAD_BYTES].ljust(HEAD_BYTES, b"\0") for each in data)
    return Packets(
        codec,
        extradata,
        size,
        np.array([len(each) for each in data], np.int64),
        lambda: np.frombuffer(heads, np.uint8).reshape(-1, HEAD_BYTES),
        lambda i, most: data[i][:most],
        lambda i: data[i],
    )


class Proof(NamedTuple):
    """What is proven: the frame that each packet gives (-1: none), where decoding can begin, and
    how many packets may be skipped together from each one on."""

    ordinals: list[int]
    starts: list[int]
    skips: list[int]


def proven(codec: str, *data: bytes, extradata: bytes = b"") -> Proof | None:
    """What the packets of a video prove; None: nothing."""
    pictures = prove(packets(codec, data, extradata=extradata))
    if pictures is None:
        return None
    ordinals, skips = pictures.ordinals, pictures.non_reference
    numbers = range(len(data)) if ordinals is None else ordinals.tolist()
    assert sorted(number for number in numbers if number >= 0) == [*range(pictures.frames)]
    skipped = [0] * len(data) if skips is None else skips.tolist()
    return Proof([*numbers], pictures.starts.tolist(), skipped)


def proof(codec: str, *data: bytes, extradata: bytes = b"") -> Proof:
    """As `proven`, of packets that must prove something."""
    found = proven(codec, *data, extradata=extradata)
    assert found is not None
    return found


# MPEG-4

VIDEO_OBJECT_LAYER, GROUP_OF_VOPS, VOP = b"\0\0\1\x20", b"\0\0\1\xb3", b"\0\0\1\xb6"


def vol(
    *,
    low_delay: int | None = 0,
    resolution: int = 25,
    layer_type: int = 1,
    interlaced: int = 0,
    even: bool = False,
    buffers: bool = False,
    matrices: int = 0,
) -> bytes:
    """The header of a video object layer. ``low_delay`` None leaves out the control parameters.
    ``even``: all pictures last equally long. ``buffers``: it tells their sizes. ``matrices``: it
    has its own."""
    header = Bits().flags(0).u(8, layer_type).flags(0).u(4, 1)  # random access ... aspect ratio
    if low_delay is None:
        header.flags(0)
    else:
        header.flags(1).u(2, 1).flags(low_delay, buffers)
        if buffers:
            header.u(79, (1 << 79) - 1)
    header.u(2, 0).flags(1).u(16, resolution).flags(1, even)
    if even:
        header.u(max(1, (resolution - 1).bit_length()), 1)
    header.flags(1).u(13, 64).flags(1).u(13, 48).flags(1)  # width and height between markers
    header.flags(interlaced, 1, 0, 0, matrices, 1, 1, 0, 0)
    return VIDEO_OBJECT_LAYER + header.padded()


def vop(
    kind: str, units: int = 0, *, seconds: int = 0, is_coded: bool = True, size: int = 5
) -> bytes:
    """A picture of kind I, P, B or S. Its time is given in whole seconds after the picture before,
    and in fractions, twenty-fifths as ``size`` is 5."""
    header = Bits().u(2, "IPBS".index(kind)).flags(*[1] * seconds, 0)
    header.flags(1).u(size, units).flags(1, is_coded)
    return VOP + header.padded() + PAYLOAD * is_coded


def group_of_vops(hours: int, minutes: int, seconds: int) -> bytes:
    """A header with a time code."""
    time = Bits().u(5, hours).u(6, minutes).flags(1).u(6, seconds)
    return GROUP_OF_VOPS + time.flags(1, 0).padded()


# H.264

PPS = bytes((0x68, 0xCE, 0x38, 0x80))
LOSSLESS = 244  # a profile


def sps(
    *,
    frames_only: int = 1,
    gaps: int = 0,
    order_type: int = 0,
    profile: int = 66,
    width: int = 3,
    usability: Bits = NOTHING,
    chroma: int = 1,
    is_scaled: bool = False,
) -> bytes:
    """A sequence parameter set, as a NAL unit; ``usability`` is the VUI at its end. ``is_scaled``:
    a `LOSSLESS` one has lists of scales."""
    unit = Bits().u(8, 0x67).u(8, profile).u(8, 0).u(8, 30).ue(0)
    if profile == LOSSLESS:
        unit.ue(chroma)
        if chroma == 3:
            unit.flags(0)
        unit.ue(0, 0).flags(1, is_scaled)
        if is_scaled:
            unit.flags(1).se(-8)  # eight less than eight: the rest of the first list is as usual
            for number in range(1, 12 if chroma == 3 else 8):
                unit.flags(1).ue(*[0] * (16 if number < 6 else 64))
    unit.ue(4, order_type)
    if order_type == 0:
        unit.ue(4)
    elif order_type == 1:
        unit.flags(0).ue(0, 0, 2, 1, 3)
    unit.ue(3).flags(gaps).ue(width, 2)
    unit.flags(1) if frames_only else unit.flags(0, 0)
    unit.flags(1, 0, usability is not NOTHING)
    return unit.add(usability).padded()


def endless_sps(cycle: int) -> bytes:
    """A sequence parameter set that announces so many offsets in a cycle of order counts."""
    unit = Bits().u(8, 0x67).u(8, 66).u(8, 0).u(8, 30).ue(0, 0, 1).flags(0).ue(0, 0, cycle)
    return unit.padded() + b"\xff" * (1 << 20)


def usability(held: int | None, *, full: bool = False) -> Bits:
    """The VUI of a sequence parameter set: only how many pictures a decoder holds back (None: it
    does not say), or ``full``: all else, too."""
    found = Bits()
    if full:
        found.flags(1).u(8, 255).u(16, 1).u(16, 1)  # aspect ratio
        found.flags(1, 0, 1).u(3, 5).flags(0, 1).u(8, 1).u(8, 1).u(8, 1)  # overscan, colors
        found.flags(1).ue(0, 0).flags(1).u(32, 1).u(32, 50).flags(1)  # chroma, timing
        for _ in ("NAL", "VCL"):  # buffers
            found.flags(1).ue(1).u(8, 0)
            for _ in range(2):
                found.ue(99, 99).flags(0)
            found.u(20, 0)
        found.flags(0)
    else:
        found.u(7, 0)
    found.flags(0, held is not None)
    if held is not None:
        found.flags(1).ue(0, 0, 9, 9, held, 4)
    return found


def pps(*, counts_both: int = 0) -> bytes:
    """A picture parameter set, as a NAL unit."""
    return Bits().u(8, 0x68).u(4, 6 | counts_both).u(16, 0xE388).padded()


def h264_slice(
    number: int = 0,
    count: int | None = 0,
    *,
    idr: bool = False,
    first_macroblock: int = 0,
    reference: bool = True,
    field: int | None = None,
    later: int | None = None,
) -> bytes:
    """A slice of the sets above, as a NAL unit: ``frame_num`` and picture order count (None: of
    order type 2). ``field``: whether it is of a field, if the SPS allows fields. ``later``: how
    much later the other field is shown, at most 0."""
    unit = Bits().u(8, 0x60 * reference | (5 if idr else 1)).ue(first_macroblock, 7, 0)
    unit.u(8, number % 256)
    if field is not None:
        unit.flags(field)
    if idr:
        unit.ue(0)
    if count is not None:
        unit.u(8, count % 256)
    if later is not None:
        unit.se(later)
    return unit.padded() + PAYLOAD


def annex_b(*units: bytes) -> bytes:
    """NAL units behind start codes."""
    return b"".join(b"\0\0\0\1" + unit for unit in units)


def avcc(*units: bytes) -> bytes:
    """NAL units behind their lengths."""
    return b"".join(len(unit).to_bytes(4, "big") + unit for unit in units)


def avc_configuration(sequence: bytes, picture: bytes = PPS) -> bytes:
    """As MP4 keeps it, for lengths of four bytes."""
    told = [len(unit).to_bytes(2, "big") + unit for unit in (sequence, picture)]
    return bytes((1, *sequence[1:4], 0xFF, 0xE1)) + told[0] + b"\1" + told[1]


# HEVC


def hevc_sps(
    *,
    waiting: int = 1,
    buffer: int = 5,
    sets: Sequence[Bits] = (),
    has_long_term: bool = False,
    width: int = 64,
    has_pcm: bool = False,
) -> bytes:
    """A sequence parameter set, as a NAL unit. ``waiting`` pictures wait to be shown, ``buffer``
    are held in all; ``sets`` are reference picture sets."""
    unit = Bits().u(16, 0x4201).u(4, 0).u(3, 0).flags(1).u(96, (1 << 96) - 1)
    unit.ue(0, 1, width + 4, 48).flags(1).ue(1, 1, 0, 0)  # cut by 2 on both sides
    unit.ue(0, 0, 4).flags(1).ue(buffer - 1, waiting, 0)
    unit.ue(0, 0, 0, 0, 0, 0).flags(0, 1, 1, has_pcm)
    if has_pcm:
        unit.u(8, 0x77).ue(0, 0).flags(1)
    unit.ue(len(sets)).add(*sets).flags(has_long_term)
    if has_long_term:
        unit.ue(0)
    return unit.flags(0, 0, 0).padded()


def hevc_pps(*, may_hide: int = 0) -> bytes:
    """A picture parameter set, as a NAL unit."""
    return Bits().u(16, 0x4401).ue(0, 0).flags(0, may_hide).u(3, 0).u(14, 0x3FFF).padded()


def references(*differences: int) -> Bits:
    """A reference picture set by itself: by how much the count of each picture differs."""
    found, steps = Bits(), list[int]()
    sides = [sorted(-d for d in differences if d < 0), sorted(d for d in differences if d > 0)]
    for side in sides:
        steps += [each - last - 1 for last, each in zip([0, *side], side, strict=False)]
    found.ue(len(sides[0]), len(sides[1]))
    for step in steps:
        found.ue(step).flags(1)
    return found


def one_less(back: int | None = None) -> Bits:
    """A reference picture set that is told by another one of a single picture: each difference is
    one less, and the other picture itself is referred to. ``back``: in a slice, by the set so many
    before the last of the sequence's."""
    found = Bits().flags(1)  # told by another
    if back is not None:
        found.ue(back)
    return found.flags(1).ue(0).flags(1, 1)  # a minus sign, one; both are used


def hevc_slice(
    kind: int,
    count: int = 0,
    *differences: int,
    first: int = 1,
    hides: int = 0,
    set_number: int | None = None,
    sets: int = 0,
    layer: int = 0,
    long_term: int | None = None,
    own_set: Bits | None = None,
) -> bytes:
    """A slice, as a NAL unit of a ``kind`` (1 TRAIL_R, 0 TRAIL_N, 9 RASL_R, 8 RASL_N, 19 IDR, 21
    CRA), with the set ``set_number`` of so many ``sets``, or one of its own: ``own_set``, or that
    of ``differences``. ``hides``: pictures before it are no output."""
    unit = Bits().u(16, kind << 9 | layer << 3 | 1).flags(first)
    if kind >= 16:
        unit.flags(hides)
    unit.ue(0, 1)
    if kind not in (19, 20):
        unit.u(8, count % 256).flags(set_number is not None)
        if set_number is not None:
            if sets > 1:
                unit.u((sets - 1).bit_length(), set_number)
        elif own_set is not None:
            unit.add(own_set)
        else:
            unit.flags(*[0] * (sets > 0)).add(references(*differences))
        if long_term is not None:
            unit.ue(long_term)
    return unit.padded() + PAYLOAD


def hevc_configuration(*units: bytes) -> bytes:
    """As MP4 keeps it, for lengths of four bytes."""
    kinds = [bytes((u[0] >> 1, 0, 1)) + len(u).to_bytes(2, "big") + u for u in units]
    return b"\1" + bytes(20) + bytes((3, len(units))) + b"".join(kinds)


# VP9


def vp9(*, key: bool = False, shown: int = 1, profile: int = 0, width: int = 64) -> bytes:
    """A coded frame."""
    frame = Bits().u(2, 2).flags(profile & 1, profile >> 1)
    if profile == 3:
        frame.flags(0)
    frame.flags(0, not key, shown, 0)
    if key:
        frame.u(24, 0x498342)
        if profile >= 2:
            frame.flags(0)  # of ten bits
        frame.u(3, 1)
        frame.u(4, 0) if profile & 1 else frame.u(1, 0)
        frame.u(16, width - 1).u(16, 47)
    return frame.padded() + PAYLOAD


VP9_AGAIN = Bits().u(2, 2).flags(0, 0).flags(1).u(3, 1).padded()  # shows a frame once more


def superframe(*frames: bytes) -> bytes:
    """Several coded frames in a packet."""
    marker = bytes((0xC8 | len(frames) - 1,))  # two bytes for each size
    sizes = b"".join(len(frame).to_bytes(2, "little") for frame in frames)
    return b"".join(frames) + marker + sizes + marker


# AV1


def av1_unit(kind: int, content: bytes = b"", *, layer: bool = False) -> bytes:
    """A unit (OBU) with its length."""
    header = bytes((kind << 3 | layer << 2 | 2,)) + bytes(layer)
    return header + bytes((len(content),)) + content


def av1_sequence(*, layers: int = 0, width: int = 64, full: int = 0, hints: int = 1) -> bytes:
    """A sequence header; ``full``: with timing, delays and numbers of frames. ``hints``: frames
    have order hints."""
    unit = Bits().u(3, 0).flags(0, 0, full)
    if full:
        unit.u(32, 1).u(32, 50).flags(1).ue(0).flags(0)  # timing
    unit.flags(full).u(5, 0).u(12, layers).u(5, 8).flags(0)
    if full:
        unit.flags(1).u(4, 3)
    unit.u(4, 7).u(4, 7).u(8, width - 1).u(8, 47).flags(full)
    if full:
        unit.u(4, 2).u(3, 1)  # lengths of the numbers of frames
    unit.u(7, 0).flags(hints)
    if hints:
        unit.u(2, 0)
    unit.flags(not full)  # frames choose the tools for screens, or not
    if full:
        unit.flags(1)
    unit.flags(1)
    if hints:
        unit.u(3, 6)
    return av1_unit(1, unit.padded())


def av1_frame(
    hint: int | None = 0, *, key: bool = False, shown: bool = True, replaces: int = 0, full: int = 0
) -> bytes:
    """A frame of the sequences above. ``replaces``: a bit for each slot that it is kept in."""
    frame = Bits().flags(0).u(2, 0 if key else 1).flags(shown)
    if not shown:
        frame.flags(1)
    if not (key and shown):
        frame.flags(0)
    frame.flags(0)
    if full:
        frame.flags(0).u(6, 9)
    else:
        frame.flags(0)
    frame.flags(0)
    if hint is not None:
        frame.u(7, hint % 128)
    if not key:
        frame.u(3, 7)
    if not (key and shown):
        frame.u(8, replaces)
    return av1_unit(6, frame.padded() + PAYLOAD)


def av1_again(slot: int = 0) -> bytes:
    """A header that shows the frame of a slot."""
    return av1_unit(3, bytes((0x80 | slot << 4,)))
