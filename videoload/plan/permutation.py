"""Pseudorandom numbers that are the same in every run: hashes and permutations.

A permutation is a Feistel network over the pairs (left, right) with left < a and right < b, where
a*b is just above its size. A result beyond the end is mapped again until it falls inside (cycle
walking). This preserves the bijection (Black and Rogaway 2002, Ciphers with Arbitrary Finite
Domains).
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from hashlib import blake2b

_ROUNDS = 8  # Four passes over each half.
_NOISES_KEPT = 1 << 16  # 10 MB: all noises of 67 million positions.


class Permutation:
    """A one-to-one map of 0..size-1 onto itself, decided by ``seed``: ``permutation[i]``."""

    def __init__(self, size: int, seed: bytes) -> None:
        self._size = size
        self._left = max(1, math.isqrt(size))
        self._right = max(1, -(-size // self._left))
        # With a million positions, a half has only a thousand values. So most hashes repeat, and a
        # cache makes a position four times as fast.
        self._noise = lru_cache(_NOISES_KEPT)(partial(_noise, seed))

    def __getitem__(self, at: int) -> int:
        if not 0 <= at < self._size:
            raise IndexError(f"{at} is not in 0..{self._size - 1}")
        while True:
            left, right = divmod(at, self._right)
            for turn in range(0, _ROUNDS, 2):
                left = (left + self._noise(turn, right)) % self._left
                right = (right + self._noise(turn + 1, left)) % self._right
            at = left * self._right + right
            if at < self._size:
                return at


def _noise(seed: bytes, turn: int, half: int) -> int:
    text = turn.to_bytes(1, "little") + half.to_bytes(8, "little")
    return int.from_bytes(blake2b(text, digest_size=8, key=seed).digest(), "little")


def hash64(*parts: object) -> int:
    """Return 64 bits out of the parts, the same on every machine."""
    text = ":".join(map(str, parts)).encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")
