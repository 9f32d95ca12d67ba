from __future__ import annotations

import struct

import pytest

from videoload.sound.chunks import is_chain

Packets = list[tuple[int, int]]

VIDEO, SOUND = b"00dc", b"01wb"


def chunk(name: bytes, length: int) -> bytes:
    return struct.pack("<4sI", name, length) + b"\7" * (length + (length & 1))


def tell(
    data: bytes, packets: Packets, *, begin: int = 0, sound: int = 1, to_end: bool = False
) -> bool:
    def read(length: int, at: int) -> bytes:
        return data[at : at + length]

    return is_chain(read, begin, packets, sound, 1 - sound, to_end=to_end)


DATA = chunk(VIDEO, 100) + chunk(SOUND, 41) + chunk(VIDEO, 0) + chunk(SOUND, 40)
FIRST, SECOND = 108 + 8, 108 + 50 + 8 + 8  # where the data of sound begins
WHOLE: Packets = [(FIRST, 41), (SECOND, 40)]


def test_chunks_that_follow_each_other_are_a_chain() -> None:
    assert tell(DATA, WHOLE)
    assert tell(DATA, WHOLE, begin=FIRST - 8)
    assert tell(DATA, WHOLE[1:])  # a seek leaves out the sound before it


def test_a_chunk_may_come_in_several_packets() -> None:
    assert tell(DATA, [(FIRST, 20), (FIRST + 20, 21), (SECOND, 40)])
    assert tell(DATA, [(FIRST, 20)])


@pytest.mark.parametrize(
    "between", [b"JUNK\4\0\0\0abcd", b"ix01\2\0\0\0ab", b"LIST\xff\0\0\0rec ", chunk(b"00db", 3)]
)
def test_what_ffmpeg_skips_may_stand_between(between: bytes) -> None:
    data = chunk(SOUND, 8) + between + chunk(SOUND, 8)
    assert tell(data, [(8, 8), (16 + len(between) + 8, 8)])


@pytest.mark.parametrize(
    "packets",
    [
        [(FIRST, 41), (SECOND + 1, 39)],  # begins within a chunk
        [(FIRST, 41), (SECOND, 41)],  # longer than its chunk
        [(FIRST, 40), (SECOND, 40)],  # leaves a byte out
        [(FIRST, 41), (SECOND - 16, 8)],  # in another stream
        [(-1, 41)],
        [(SECOND, 40), (FIRST, 41)],
    ],
)
def test_packets_that_are_not_the_chunks_are_none(packets: Packets) -> None:
    assert not tell(DATA, packets)


def test_a_chunk_of_sound_that_was_left_out_breaks_the_chain() -> None:
    data = chunk(SOUND, 8) + chunk(SOUND, 8) + chunk(SOUND, 8)
    assert tell(data, [(8, 8), (24, 8), (40, 8)])
    assert not tell(data, [(8, 8), (40, 8)])


def test_a_flipped_bit_in_a_header_breaks_the_chain() -> None:
    for bit in range(64):
        damaged = bytearray(DATA)
        damaged[bit // 8] ^= 1 << bit % 8
        assert tell(bytes(damaged), WHOLE) == (damaged[:4] == b"00db"), bit


def test_the_end_is_a_part_of_it_if_it_was_read() -> None:
    end = chunk(VIDEO, 6) + chunk(b"idx1", 16)
    assert tell(DATA + end, WHOLE, to_end=True)
    assert not tell(DATA + end + b"01wb", WHOLE, to_end=True)
    assert not tell(DATA + end + chunk(SOUND, 4), WHOLE, to_end=True)
    assert tell(DATA + end + b"rest", WHOLE)


def test_a_chunk_at_an_odd_place_breaks_it() -> None:
    assert not tell(b"\0" + chunk(SOUND, 8), [(9, 8)], begin=1)
