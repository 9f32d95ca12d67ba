"""Picture headers as encoders write them, and packets that contain them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from videoload.bitstreams.pictures import HEAD_BYTES, Packets

PAYLOAD = b"\x55" * 60  # data of a picture; contains no start code


class BitWriter:
    """Writes bits, the most significant one first."""

    def __init__(self) -> None:
        self._bits = ""

    def put(self, value: int, count: int) -> BitWriter:
        """Write ``value`` in ``bits`` bits."""
        self._bits += f"{value:0{count}b}"
        return self

    def golomb(self, value: int) -> BitWriter:
        """Write an Exp-Golomb code."""
        code = value + 1
        return self.put(code, 2 * code.bit_length() - 1)

    def join(self, others: BitWriter) -> BitWriter:
        """Append all bits of other writers."""
        self._bits += others._bits
        return self

    def to_bytes(self) -> bytes:
        """All bits, padded with a one and zeros, as in MPEG."""
        bits = self._bits + "1"
        bits += "0" * (-len(bits) % 8)
        return int(bits, 2).to_bytes(len(bits) // 8, "big")


def packets(
    codec: str,
    data: Sequence[bytes],
    *,
    extradata: bytes = b"",
    size: tuple[int, int] = (64, 48),
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


# MPEG-4


def vol(
    *,
    low_delay: bool | None = False,
    resolution: int = 25,
    layer_type: int = 1,
    interlaced: bool = False,
    even: bool = False,
    buffers: bool = False,
    matrices: bool = False,
) -> bytes:
    """The header of a video object layer. ``low_delay`` None leaves it out. ``even``: all pictures
    last equally long. ``buffers``: it tells their sizes. ``matrices``: it has its own."""
    bits = BitWriter().put(0, 1).put(layer_type, 8).put(0, 1).put(1, 4)
    bits.put(low_delay is not None, 1)
    if low_delay is not None:
        bits.put(1, 2).put(low_delay, 1).put(buffers, 1)
        if buffers:
            bits.put((1 << 79) - 1, 79)
    bits.put(0, 2).put(1, 1).put(resolution, 16).put(1, 1).put(even, 1)
    if even:
        bits.put(1, max(1, (resolution - 1).bit_length()))
    bits.put(1, 1).put(64, 13).put(1, 1).put(48, 13).put(1, 1).put(interlaced, 1)
    bits.put(0b100, 3).put(matrices, 1).put(0b1100, 4)
    return b"\0\0\1\x20" + bits.to_bytes()


def vop(kind: str, units: int = 0, *, seconds: int = 0, is_coded: bool = True) -> bytes:
    """A picture of kind I, P, B or S. Its time is given in whole seconds after the picture before,
    and in twenty-fifths of a second."""
    bits = BitWriter().put("IPBS".index(kind), 2)
    for _ in range(seconds):
        bits.put(1, 1)
    bits.put(0, 1).put(1, 1).put(units, 5).put(1, 1).put(is_coded, 1)
    return b"\0\0\1\xb6" + bits.to_bytes() + (PAYLOAD if is_coded else b"")


# H.264


def sps(
    *,
    frames_only: bool = True,
    gaps: bool = False,
    order_type: int = 0,
    profile: int = 66,
    width: int = 3,
    usability: BitWriter | None = None,
) -> bytes:
    """A sequence parameter set, as a NAL unit; ``usability`` is the VUI at its end."""
    bits = BitWriter().put(0x67, 8).put(profile, 8).put(0, 8).put(30, 8).golomb(0)
    if profile == 244:  # high, and lossless
        bits.golomb(1).golomb(0).golomb(0).put(1, 1).put(0, 1)
    bits.golomb(4)
    bits.golomb(order_type)
    if order_type == 0:
        bits.golomb(4)
    elif order_type == 1:
        bits.put(0, 1).golomb(0).golomb(0).golomb(2).golomb(1).golomb(3)
    bits.golomb(3).put(gaps, 1).golomb(width).golomb(2).put(frames_only, 1)
    if not frames_only:
        bits.put(0, 1)
    bits.put(1, 1).put(0, 1).put(usability is not None, 1)
    return (bits if usability is None else bits.join(usability)).to_bytes()


def usability(*, held: int | None, full: bool = False) -> BitWriter:
    """The VUI of a sequence parameter set: only how many pictures a decoder holds back (None: it
    does not say), or ``full``."""
    bits = BitWriter()
    if full:
        bits.put(1, 1).put(255, 8).put(1, 16).put(1, 16).put(1, 1).put(0, 1)  # aspect, overscan
        bits.put(1, 1).put(5, 3).put(0, 1).put(1, 1).put(1, 8).put(1, 8).put(1, 8)  # colours
        bits.put(1, 1).golomb(0).golomb(0).put(1, 1).put(1, 32).put(50, 32).put(1, 1)  # timing
        for _ in range(2):
            bits.put(1, 1).golomb(1).put(0, 8)
            for _ in range(2):
                bits.golomb(99).golomb(99).put(0, 1)
            bits.put(0, 20)
        bits.put(0, 1)
    else:
        bits.put(0, 7)
    bits.put(0, 1).put(held is not None, 1)
    if held is not None:
        bits.put(1, 1).golomb(0).golomb(0).golomb(9).golomb(9).golomb(held).golomb(4)
    return bits


PPS = bytes((0x68, 0xCE, 0x38, 0x80))


def pps(*, counts_both: bool = False) -> bytes:
    """A picture parameter set, as a NAL unit."""
    return BitWriter().put(0x68, 8).put(6 | counts_both, 4).put(0xE388, 16).to_bytes()


def h264_slice(
    number: int = 0,
    count: int | None = 0,
    *,
    idr: bool = False,
    first_macroblock: int = 0,
    reference: bool = True,
    field: bool | None = None,
    later: int | None = None,
) -> bytes:
    """A slice of the sets above, as a NAL unit: ``frame_num`` and picture order count (None: of
    order type 2). ``field``: whether it is of a field, if the SPS allows fields. ``later``: how
    much later the other field is shown, at most 0."""
    header = (0x60 if reference else 0) | (5 if idr else 1)
    bits = BitWriter().put(header, 8).golomb(first_macroblock).golomb(7).golomb(0)
    bits.put(number % 256, 8)
    if field is not None:
        bits.put(field, 1)
    if idr:
        bits.golomb(0)
    if count is not None:
        bits.put(count % 256, 8)
    if later is not None:
        bits.golomb(-2 * later)
    return bits.to_bytes() + PAYLOAD


def annex_b(*units: bytes) -> bytes:
    """NAL units behind start codes."""
    return b"".join(b"\0\0\0\1" + unit for unit in units)


def avcc(*units: bytes) -> bytes:
    """NAL units behind their lengths."""
    return b"".join(len(unit).to_bytes(4, "big") + unit for unit in units)


def avc_configuration(sequence: bytes, picture: bytes = PPS) -> bytes:
    """As MP4 keeps it, for lengths of four bytes."""
    header = bytes((1, *sequence[1:4], 0xFF, 0xE1))
    told = len(sequence).to_bytes(2, "big") + sequence
    return header + told + b"\1" + len(picture).to_bytes(2, "big") + picture


# HEVC

HEVC_SIZE = (64, 48)


def hevc_sps(
    *,
    waiting: int = 1,
    buffer: int = 5,
    sets: Sequence[BitWriter] = (),
    has_long_term: bool = False,
    width: int = 64,
) -> bytes:
    """A sequence parameter set, as a NAL unit. ``waiting`` pictures wait to be shown, ``buffer``
    are held in all; ``sets`` are reference picture sets."""
    bits = BitWriter().put(0x4201, 16).put(0, 4).put(0, 3).put(1, 1).put((1 << 96) - 1, 96)
    bits.golomb(0).golomb(1).golomb(width + 4).golomb(48)
    bits.put(1, 1).golomb(1).golomb(1).golomb(0).golomb(0)  # cut by 2 pixels at either side
    bits.golomb(0).golomb(0).golomb(4).put(1, 1)
    bits.golomb(buffer - 1).golomb(waiting).golomb(0)
    for _ in range(6):
        bits.golomb(0)
    bits.put(0, 1).put(3, 2).put(0, 1).golomb(len(sets))
    for each in sets:
        bits.join(each)
    bits.put(has_long_term, 1)
    if has_long_term:
        bits.golomb(0)
    return bits.put(0, 3).to_bytes()


def hevc_pps(*, may_hide: bool = False, extra: int = 0) -> bytes:
    """A picture parameter set, as a NAL unit."""
    bits = BitWriter().put(0x4401, 16).golomb(0).golomb(0).put(0, 1).put(may_hide, 1)
    return bits.put(extra, 3).put(0x3FFF, 14).to_bytes()


def references(*differences: int) -> BitWriter:
    """A reference picture set as such: by how much the count of each picture differs."""
    before = sorted(-each for each in differences if each < 0)
    after = sorted(each for each in differences if each > 0)
    bits = BitWriter().golomb(len(before)).golomb(len(after))
    for side in (before, after):
        for last, each in zip([0, *side], side):  # noqa: B905 - the last one has no next
            bits.golomb(each - last - 1).put(1, 1)
    return bits


def hevc_slice(
    kind: int,
    count: int = 0,
    *differences: int,
    first: bool = True,
    hides: bool = False,
    set_number: int | None = None,
    sets: int = 0,
    layer: int = 0,
    long_term: int | None = None,
) -> bytes:
    """A slice, as a NAL unit of a ``kind`` (1 TRAIL_R, 0 TRAIL_N, 9 RASL_R, 8 RASL_N, 19 IDR, 21
    CRA), with the set ``set_number`` of so many ``sets``, or one of its own. ``hides``: pictures
    before it are no output."""
    bits = BitWriter().put(kind << 9 | layer << 3 | 1, 16).put(first, 1)
    if kind >= 16:
        bits.put(hides, 1)
    bits.golomb(0).golomb(1)
    if kind not in (19, 20):
        bits.put(count % 256, 8).put(set_number is not None, 1)
        if set_number is None:
            if sets:
                bits.put(0, 1)
            bits.join(references(*differences))
        elif sets > 1:
            bits.put(set_number, (sets - 1).bit_length())
        if long_term is not None:
            bits.golomb(long_term)
    return bits.to_bytes() + PAYLOAD


def hevc_configuration(*units: bytes) -> bytes:
    """As MP4 keeps it, for lengths of four bytes."""
    kinds = b"".join(
        bytes((unit[0] >> 1, 0, 1)) + len(unit).to_bytes(2, "big") + unit for unit in units
    )
    return b"\1" + bytes(20) + bytes((3, len(units))) + kinds


# VP9


def vp9(
    *,
    key: bool = False,
    shown: bool = True,
    again: bool = False,
    profile: int = 0,
    width: int = 64,
) -> bytes:
    """A coded frame; ``again``: one that shows another."""
    bits = BitWriter().put(2, 2).put(profile & 1, 1).put(profile >> 1, 1)
    if profile == 3:
        bits.put(0, 1)
    bits.put(again, 1)
    if again:
        return bits.put(1, 3).to_bytes()
    bits.put(not key, 1).put(shown, 1).put(0, 1)
    if key:
        bits.put(0x498342, 24)
        if profile >= 2:
            bits.put(0, 1)
        bits.put(1, 3).put(0, 4 if profile & 1 else 1).put(width - 1, 16).put(47, 16)
    return bits.to_bytes() + PAYLOAD


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


def av1_sequence(
    *, layers: int = 0, width: int = 64, full: bool = False, hints: bool = True
) -> bytes:
    """A sequence header; ``full``: with timing, delays and numbers of frames. ``hints``: frames
    have order hints."""
    bits = BitWriter().put(0, 3).put(0, 1).put(0, 1).put(full, 1)
    if full:  # timing
        bits.put(1, 32).put(50, 32).put(1, 1).golomb(0).put(0, 1)
    bits.put(full, 1).put(0, 5).put(layers, 12).put(8, 5).put(0, 1)
    if full:
        bits.put(1, 1).put(3, 4)
    bits.put(7, 4).put(7, 4).put(width - 1, 8).put(47, 8).put(full, 1)
    if full:
        bits.put(2, 4).put(1, 3)
    bits.put(0, 7).put(hints, 1)
    if hints:
        bits.put(0, 2)
    bits.put(not full, 1)  # frames choose tools for screens, or have them
    if full:
        bits.put(1, 1)
    bits.put(1, 1)
    if hints:
        bits.put(6, 3)
    return av1_unit(1, bits.to_bytes())


def av1_frame(
    hint: int | None = 0,
    *,
    key: bool = False,
    shown: bool = True,
    replaces: int = 0,
    full: bool = False,
) -> bytes:
    """A frame of the sequences above. ``replaces``: a bit for each slot that it is kept in."""
    bits = BitWriter().put(0, 1).put(0 if key else 1, 2).put(shown, 1)
    if not shown:
        bits.put(1, 1)
    if not (key and shown):
        bits.put(0, 1)
    bits.put(0, 1)
    if full:  # motion in whole pixels, a number
        bits.put(0, 1).put(9, 6)
    else:
        bits.put(0, 1)
    bits.put(0, 1)
    if hint is not None:
        bits.put(hint % 128, 7)
    if not key:
        bits.put(7, 3)
    if not (key and shown):
        bits.put(replaces, 8)
    return av1_unit(6, bits.to_bytes() + PAYLOAD)


def av1_again(slot: int = 0) -> bytes:
    """A header that shows the frame of a slot."""
    return av1_unit(3, bytes((0x80 | slot << 4,)))
