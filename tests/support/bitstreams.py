"""Picture headers as encoders write them, and packets that contain them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from videoload.bitstreams.pictures import HEAD_BYTES, Packets
from videoload.bitstreams.proofs import prove

PAYLOAD = b"\x55" * 60  # data of a picture; contains no start code


def bits(text: str) -> str:
    """Bits as text. ``text`` has words: ``0`` and ``1`` as they are, ``8:103`` a number in so many
    bits, ``g5`` an Exp-Golomb code."""
    written = ""
    for word in text.split():
        if word.startswith("g"):
            code = int(word[1:]) + 1
            written += f"{code:0{2 * code.bit_length() - 1}b}"
        elif ":" in word:
            count, _, value = word.partition(":")
            written += f"{int(value, 0):0{count}b}"
        else:
            written += word
    return written


def coded(text: str) -> bytes:
    """These bits, padded with a one and zeros, as in MPEG."""
    padded = bits(text) + "1"
    padded += "0" * (-len(padded) % 8)
    return int(padded, 2).to_bytes(len(padded) // 8, "big")


def packets(
    codec: str, data: Sequence[bytes], *, extradata: bytes = b"", size: tuple[int, int] = (64, 48)
) -> Packets:
    """The coded packets of a video."""
    heads = b"".join(each[:HEAD_BYTES].ljust(HEAD_BYTES, b"\0") for each in data)
    return Packets(
        codec, extradata, size, np.array([len(each) for each in data], np.int64),
        lambda: np.frombuffer(heads, np.uint8).reshape(-1, HEAD_BYTES),
        lambda i, most: data[i][:most], lambda i: data[i],
    )  # fmt: skip


class Proof(NamedTuple):
    """What is proven: the frame that each packet gives (-1: none), where decoding can begin, and
    how many packets may be skipped together from each one on."""

    ordinals: list[int]
    starts: list[int]
    skips: list[int]


def proven(codec: str, *data: bytes, extradata: bytes = b"") -> Proof | None:
    """What the packets of a video prove."""
    pictures = prove(packets(codec, data, extradata=extradata))
    if pictures is None:
        return None
    ordinals, skips = pictures.ordinals, pictures.non_reference
    numbers = range(len(data)) if ordinals is None else ordinals.tolist()
    assert sorted(number for number in numbers if number >= 0) == [*range(pictures.frames)]
    skipped = [0] * len(data) if skips is None else skips.tolist()
    return Proof([*numbers], pictures.starts.tolist(), skipped)


# MPEG-4


def vol(
    *, low_delay: int | None = 0, resolution: int = 25, layer_type: int = 1, interlaced: int = 0,
    even: bool = False, buffers: bool = False, matrices: int = 0,
) -> bytes:  # fmt: skip
    """The header of a video object layer. ``low_delay`` None leaves it out. ``even``: all pictures
    last equally long. ``buffers``: it tells their sizes. ``matrices``: it has its own."""
    told = f"1 01 {low_delay} {f'1 79:{(1 << 79) - 1}' if buffers else '0'}"
    step = f"1 {max(1, (resolution - 1).bit_length())}:1" if even else "0"
    return b"\0\0\1\x20" + coded(
        f"0 8:{layer_type} 0 4:1 {'0' if low_delay is None else told} 00 1 16:{resolution} 1 {step}"
        f" 1 13:64 1 13:48 1 {interlaced} 100 {matrices} 1100"
    )


def vop(
    kind: str, units: int = 0, *, seconds: int = 0, is_coded: bool = True, size: int = 5
) -> bytes:
    """A picture of kind I, P, B or S. Its time is given in whole seconds after the picture before,
    and in fractions, twenty-fifths as ``size`` is 5."""
    header = coded(f"2:{'IPBS'.index(kind)} {'1' * seconds}0 1 {size}:{units} 1 {is_coded:d}")
    return b"\0\0\1\xb6" + header + PAYLOAD * is_coded


# H.264

PPS = bytes((0x68, 0xCE, 0x38, 0x80))


def sps(
    *, frames_only: int = 1, gaps: int = 0, order_type: int = 0, profile: int = 66, width: int = 3,
    usability: str = "", chroma: int = 1, is_scaled: bool = False,
) -> bytes:  # fmt: skip
    """A sequence parameter set, as a NAL unit; ``usability`` is the VUI at its end. ``is_scaled``:
    it has lists of scales."""
    high = f"g{chroma}{' 0' * (chroma == 3)} g0 g0 1 " if profile == 244 else ""  # and lossless
    lists = [" 1" + " g0" * (16 if i < 6 else 64) for i in range(12 if chroma == 3 else 8)]
    lists[0] = " 1 g16"  # eight less than eight: the rest is as usual
    high += ("1" + "".join(lists) if is_scaled else "0") * (profile == 244)
    order = ("g4", "0 g0 g0 g2 g1 g3", "")[order_type]
    return coded(
        f"8:0x67 8:{profile} 8:0 8:30 g0 {high} g4 g{order_type} {order} g3 {gaps} g{width} g2"
        f" {frames_only if frames_only else '0 0'} 1 0 {f'1 {usability}' if usability else '0'}"
    )


def usability(held: int | None, *, full: bool = False) -> str:
    """The VUI of a sequence parameter set: only how many pictures a decoder holds back (None: it
    does not say), or ``full``."""
    told = "0" * 7
    if full:
        told = "1 8:255 16:1 16:1 1 0  1 3:5 0 1 8:1 8:1 8:1  1 g0 g0 1 32:1 32:50 1"
        told += 2 * " 1 g1 8:0 g99 g99 0 g99 g99 0 20:0" + " 0"
    return f"{told} 0 " + ("0" if held is None else f"1 1 g0 g0 g9 g9 g{held} g4")


def pps(*, counts_both: int = 0) -> bytes:
    """A picture parameter set, as a NAL unit."""
    return coded(f"8:0x68 4:{6 | counts_both} 16:0xE388")


def h264_slice(
    number: int = 0, count: int | None = 0, *, idr: bool = False, first_macroblock: int = 0,
    reference: bool = True, field: int | None = None, later: int | None = None,
) -> bytes:  # fmt: skip
    """A slice of the sets above, as a NAL unit: ``frame_num`` and picture order count (None: of
    order type 2). ``field``: whether it is of a field, if the SPS allows fields. ``later``: how
    much later the other field is shown, at most 0."""
    text = f"8:{0x60 * reference | (5 if idr else 1)} g{first_macroblock} g7 g0 8:{number % 256}"
    text += "" if field is None else f" {field}"
    text += " g0" * idr + ("" if count is None else f" 8:{count % 256}")
    return coded(text + ("" if later is None else f" g{-2 * later}")) + PAYLOAD


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
    *, waiting: int = 1, buffer: int = 5, sets: Sequence[str] = (), has_long_term: bool = False,
    width: int = 64, has_pcm: bool = False,
) -> bytes:  # fmt: skip
    """A sequence parameter set, as a NAL unit. ``waiting`` pictures wait to be shown, ``buffer``
    are held in all; ``sets`` are reference picture sets."""
    return coded(
        f"16:0x4201 4:0 3:0 1 96:{(1 << 96) - 1} g0 g1 g{width + 4} g48 1 g1 g1 g0 g0"  # cut by 2
        f" g0 g0 g4 1 g{buffer - 1} g{waiting} g0 {'g0 ' * 6} 0 11 "
        f"{'1 8:0x77 g0 g0 1' if has_pcm else '0'} g{len(sets)} {' '.join(sets)}"
        f" {'1 g0' if has_long_term else '0'} 000"
    )


def hevc_pps(*, may_hide: int = 0) -> bytes:
    """A picture parameter set, as a NAL unit."""
    return coded(f"16:0x4401 g0 g0 0 {may_hide} 000 14:0x3FFF")


def references(*differences: int) -> str:
    """A reference picture set as such: by how much the count of each picture differs."""
    sides = [sorted(-d for d in differences if d < 0), sorted(d for d in differences if d > 0)]
    steps = [
        each - last - 1 for side in sides for last, each in zip([0, *side], side, strict=False)
    ]
    return f"g{len(sides[0])} g{len(sides[1])} " + " ".join(f"g{step} 1" for step in steps)


def hevc_slice(
    kind: int, count: int = 0, *differences: int, first: int = 1, hides: int = 0,
    set_number: int | None = None, sets: int = 0, layer: int = 0, long_term: int | None = None,
    by_another: str = "",
) -> bytes:  # fmt: skip
    """A slice, as a NAL unit of a ``kind`` (1 TRAIL_R, 0 TRAIL_N, 9 RASL_R, 8 RASL_N, 19 IDR, 21
    CRA), with the set ``set_number`` of so many ``sets``, or one of its own, which may be told
    ``by_another``. ``hides``: pictures before it are no output."""
    text = f"16:{kind << 9 | layer << 3 | 1} {first} {hides if kind >= 16 else ''} g0 g1 "
    if kind not in (19, 20):
        own = by_another or f"{'0' * (sets > 0)} {references(*differences)}"
        number = f"{(sets - 1).bit_length()}:{set_number}" if sets > 1 else ""
        text += f"8:{count % 256} " + (f"0 {own}" if set_number is None else f"1 {number}")
        text += "" if long_term is None else f" g{long_term}"
    return coded(text) + PAYLOAD


def hevc_configuration(*units: bytes) -> bytes:
    """As MP4 keeps it, for lengths of four bytes."""
    kinds = [bytes((u[0] >> 1, 0, 1)) + len(u).to_bytes(2, "big") + u for u in units]
    return b"\1" + bytes(20) + bytes((3, len(units))) + b"".join(kinds)


# VP9


def vp9(*, key: bool = False, shown: int = 1, profile: int = 0, width: int = 64) -> bytes:
    """A coded frame."""
    text = f"10 {profile & 1} {profile >> 1} {'0' * (profile == 3)} 0 {not key:d} {shown} 0"
    if key:
        colours = f"{'0' * (profile >= 2)} 001 {'0000' if profile & 1 else '0'}"
        text += f" 24:0x498342 {colours} 16:{width - 1} 16:47"
    return coded(text) + PAYLOAD


VP9_AGAIN = coded("10 0 0 1 001")  # shows a frame once more


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
    timing = "32:1 32:50 1 g0 0" if full else ""
    tools = f"{'00' * hints} {not full:d} {'1' * full}"  # frames choose those for screens, or not
    return av1_unit(1, coded(
        f"000 0 0 {full} {timing} {full} 5:0 12:{layers} 5:8 0 {'1 4:3' if full else ''} 4:7 4:7"
        f" 8:{width - 1} 8:47 {full} {'4:2 3:1' if full else ''} 7:0 {hints} {tools} 1"
        f" {'3:6' if hints else ''}"
    ))  # fmt: skip


def av1_frame(
    hint: int | None = 0, *, key: bool = False, shown: bool = True, replaces: int = 0,
    full: int = 0,
) -> bytes:  # fmt: skip
    """A frame of the sequences above. ``replaces``: a bit for each slot that it is kept in."""
    is_first = key and shown
    return av1_unit(6, coded(
        f"0 2:{0 if key else 1} {shown:d} {'' if shown else '1'} {'' if is_first else '0'} 0"
        f" {'0 6:9' if full else '0'} 0 {'' if hint is None else f'7:{hint % 128}'}"
        f" {'' if key else '111'} {'' if is_first else f'8:{replaces}'}"
    ) + PAYLOAD)  # fmt: skip


def av1_again(slot: int = 0) -> bytes:
    """A header that shows the frame of a slot."""
    return av1_unit(3, bytes((0x80 | slot << 4,)))
