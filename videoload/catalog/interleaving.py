"""Which part has its turn if several parts share one stream. Pure, by random access.

``order[i]`` is the part at place i of an endless sequence, and how many places it had before. The
sequence consists of blocks in which each part has w places, its weight. Divide a block into w equal
pieces: the part's k-th place is in the k-th piece, at a random point (stratified sampling: Cochran
1977, Sampling Techniques) or in the middle. So the shares hold in every stretch, to within a place
or two of each part, and not only on average. Parts of equal weight have a new order in each block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from hashlib import shake_256

import numpy as np
import numpy.typing as npt

from videoload.errors import SpecError

Ints = npt.NDArray[np.int64]
_LONGEST_EXACT = 1000  # tries blocks up to this length for exact shares
_BLOCK = 10_000  # if none is exact: shares to a ten-thousandth


def weights(shares: Sequence[float]) -> list[int]:
    """Return places of each part in a block, at least one. Raises SpecError if a share is too small
    for one place."""
    total = math.fsum(shares)
    wanted = [share / total for share in shares]
    for block in (*range(len(shares), _LONGEST_EXACT + 1), _BLOCK):
        found = [round(share * block) for share in wanted]
        if min(found) and all(
            abs(share * block - n) < 1e-9 * block for share, n in zip(wanted, found, strict=True)
        ):
            return found
    if not min(found):
        raise SpecError(f"a share of {min(wanted):g} is too small: at least 1 in {_BLOCK}")
    return found


class Interleaving:
    """``order[i]``: (part, its number of earlier turns). ``key`` None: nothing is random."""

    def __init__(self, weights: Sequence[int], key: bytes | None) -> None:
        self._weights = list(weights)
        self._size = sum(weights)
        part = np.repeat(np.arange(len(weights)), weights)
        nth = np.concatenate([np.arange(weight) for weight in weights])
        self._block = lru_cache(4)(partial(_block, part, nth, np.repeat(weights, weights), key))

    def __getitem__(self, at: int) -> tuple[int, int]:
        block, place = divmod(at, self._size)
        part, nth = (row[place] for row in self._block(block))
        return part, block * self._weights[part] + nth


def _block(
    part: Ints, nth: Ints, weight: Ints, key: bytes | None, block: int
) -> tuple[list[int], list[int]]:
    """Return the part at each place of a block, and its number of earlier places in the block."""
    offset: npt.NDArray[np.float64] | float = 0.5
    if key is not None:
        drawn = shake_256(key + block.to_bytes(16, "little")).digest(8 * len(part))
        offset = (np.frombuffer(drawn, "<u8") >> 11) / (1 << 53)  # [0, 1)
    order = np.lexsort((part, (nth + offset) / weight))
    return part[order].tolist(), nth[order].tolist()
