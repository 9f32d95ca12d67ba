"""Broken copies of good files, made from a seed: what disks, networks and attackers do to AVI
files."""

import random
import re

# What is read first: pictures, chunks, entries of an index, clusters.
_FIRST = re.compile(rb"\x00\x00\x01|0[0-9](dc|db|wb)|\x1f\x43\xb6\x75|\x1c\x53\xbb\x6b")
_LENGTHS = (1, 4, 16, 64, 512, 4096)
_NUMBERS = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)  # that a field rather does not have


def flip_a_bit(data: bytes, seed: int) -> bytes:
    """A copy in which one bit is another; the same for the same seed."""
    draw, broken = random.Random(seed), bytearray(data)
    broken[_somewhere(broken, draw)] ^= 1 << draw.randrange(8)
    return bytes(broken)


def mutant(data: bytes, seed: int) -> bytes:
    """A copy in which a stretch or two became something else; the same for the same seed."""
    draw, broken = random.Random(seed), bytearray(data)
    for _ in range(draw.choice((1, 1, 2))):
        at, length = _somewhere(broken, draw), draw.choice(_LENGTHS)
        old, other = broken[at : at + length], draw.randrange(len(broken))
        broken[at : at + length] = draw.choice(
            (
                bytes(len(old)),  # as a sector that was never written
                draw.randbytes(len(old)),
                bytes(byte ^ (1 << draw.randrange(8)) * (draw.random() < 0.1) for byte in old),
                b"",
                2 * old,
                broken[other : other + length],
                draw.choice(_NUMBERS).to_bytes(4, "little") + old[4:],
            )
        )
        if draw.random() < 0.1:
            del broken[draw.randrange(1, len(broken)) :]
    return bytes(broken)


def _somewhere(data: bytearray, draw: random.Random) -> int:
    """Anywhere, in the header, or near what is read first."""
    marks = [found.end() for found in _FIRST.finditer(data)]
    places = (
        draw.randrange(len(data)),
        draw.randrange(min(2048, len(data))),
        (draw.choice(marks or [0]) + draw.randrange(-4, 12)) % len(data),
    )
    return draw.choices(places, (2, 1, 3))[0]
