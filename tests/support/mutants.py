"""Broken copies of good files, made from a seed: what disks, networks and attackers do to AVI
files."""

import random
import re
from collections.abc import Callable, Sequence

Mutation = Callable[[bytearray, random.Random], None]


_FIRST = re.compile(rb"\x00\x00\x01|0[0-9](dc|db|wb)|\x1f\x43\xb6\x75|\x1c\x53\xbb\x6b")


def flip_a_bit(data: bytearray, draw: random.Random) -> None:
    """Anywhere, or in what is read first: near a start code, or in the header of a chunk, an entry
    of an index, or a cluster."""
    marks = [found.end() for found in _FIRST.finditer(data)]
    at = draw.choice(marks) + draw.randrange(-4, 12) if marks and draw.random() < 0.7 else 0
    data[(at or draw.randrange(len(data))) % len(data)] ^= 1 << draw.randrange(8)


def _flip_bits(data: bytearray, draw: random.Random) -> None:
    for _ in range(draw.choice((1, 4, 32, 256))):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _truncate(data: bytearray, draw: random.Random) -> None:
    del data[draw.randrange(len(data)) :]


def _edit_header(data: bytearray, draw: random.Random) -> None:
    """Write random and badly chosen numbers into the first two kilobytes."""
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(12, min(2048, len(data) - 4))
        value = draw.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, draw.getrandbits(32)))
        data[at : at + 4] = value.to_bytes(4, "little")


def _edit_chunk_sizes(data: bytearray, draw: random.Random) -> None:
    at = data.find(b"movi")
    for _ in range(draw.randint(1, 4)):
        at = data.find(b"00d", at + 1)
        if at < 0 or at + 8 > len(data):
            return
        if draw.random() < 0.5:
            size = draw.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, draw.getrandbits(16)))
            data[at + 4 : at + 8] = size.to_bytes(4, "little")


def _edit_index(data: bytearray, draw: random.Random) -> None:
    at = data.rfind(b"idx1")
    if at < 0:
        _flip_bits(data, draw)
        return
    for _ in range(draw.randint(1, 20)):
        place = draw.randrange(at, len(data))
        data[place] = draw.randrange(256)


def _wipe(data: bytearray, draw: random.Random) -> None:
    """Write a run of zeros, like an unwritten sector."""
    at = draw.randrange(len(data))
    length = draw.choice((16, 512, 4096))
    data[at : at + length] = bytes(len(data[at : at + length]))


def _cut_out(data: bytearray, draw: random.Random) -> None:
    at = draw.randrange(len(data))
    del data[at : at + draw.choice((1, 7, 512, 4096))]


def _repeat(data: bytearray, draw: random.Random) -> None:
    at = draw.randrange(len(data))
    data[at:at] = data[at : at + draw.choice((1, 64, 2048))]


def _shuffle_blocks(data: bytearray, draw: random.Random) -> None:
    size = draw.choice((64, 512, 4096))
    a, b = (draw.randrange(len(data)) for _ in range(2))
    first, second = bytes(data[a : a + size]), bytes(data[b : b + size])
    length = min(len(first), len(second))
    data[a : a + length], data[b : b + length] = second[:length], first[:length]


def _damage_a_picture(data: bytearray, draw: random.Random) -> None:
    """Damage a chunk: flip bits, put garbage into its header, end it with zeros or garbage, remove
    or add bytes, or put in another picture's bytes."""
    begin = data.find(b"00d", draw.randrange(len(data)))
    size = int.from_bytes(data[begin + 4 : begin + 8], "little")
    if begin < 0 or not 8 < size <= len(data) - begin - 8:
        begin, size = draw.randrange(len(data) - 8), 8
    picture = data[begin + 8 : begin + 8 + size]
    size = len(picture)
    at = draw.randrange(size) if size else 0
    match draw.randrange(7 if size else 1):
        case 0:
            for _ in range(draw.choice((1, 2, 8)) if size else 0):
                picture[draw.randrange(size)] ^= 1 << draw.randrange(8)
        case 1:
            picture[draw.randrange(min(size, 40))] ^= 1 << draw.randrange(8)
        case 2:
            picture[at:] = bytes(size - at)
        case 3:
            picture[at:] = draw.randbytes(size - at)
        case 4:
            del picture[at : at + draw.randrange(1, 9)]
        case 5:
            picture[at:at] = draw.randbytes(draw.randrange(1, 40))
        case 6:
            other = draw.randrange(len(data))
            picture[:] = data[other : other + size]
    data[begin + 8 : begin + 8 + size] = picture[:size].ljust(size, b"\0")


MUTATIONS: tuple[Mutation, ...] = (
    _flip_bits, _flip_bits, _truncate, _edit_header, _edit_header, _edit_chunk_sizes, _edit_index,
    _wipe, _cut_out, _repeat, _shuffle_blocks, *[_damage_a_picture] * 5,
)  # fmt: skip


def mutant(data: bytes, seed: int, mutations: Sequence[Mutation] = MUTATIONS) -> bytes:
    """A broken copy of ``data``; the same for the same seed."""
    draw = random.Random(seed)
    broken = bytearray(data)
    for mutate in draw.choices(mutations, k=draw.choice((1, 1, 2)) if len(mutations) > 1 else 1):
        if len(broken) > 16:
            mutate(broken, draw)
    return bytes(broken)
