"""Search the buckets with the least padding. Pure.

The best k buckets follow from the best k - 1 up to each length. So all of them are found together,
from one bucket to many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_TRIED = 256  # of the lengths; up to 65 536, each other one is then less than 5 % below one of them
_ENOUGH = 0.1  # of padding


class Buckets(NamedTuple):
    """Sizes of buckets in frames, which rise; and the frames of padding, as a share of those that
    are decoded."""

    sizes: tuple[int, ...]
    padding: float


def fewest_buckets(lengths: npt.ArrayLike) -> Buckets:
    """Return the fewest buckets for clips of these lengths, of at least one frame, with at most 10
    % of padding."""
    return next(found for found in best_buckets(lengths) if found.padding <= _ENOUGH)


def best_buckets(lengths: npt.ArrayLike) -> Iterator[Buckets]:
    """Yield the best bucket for clips of these lengths, the best two, the best three, ..."""
    values, clips = np.unique(np.asarray(lengths, np.int64), return_counts=True)
    last = _tried(values)
    sizes = values[last]
    # Of the clips up to each size, and of none: their number, and their frames.
    number = np.concatenate([[0], np.cumsum(clips)[last]])
    frames = np.concatenate([[0], np.cumsum(clips * values)[last]])
    # Padding of a bucket, by the sizes before the one before it, and by those before itself.
    alone = sizes * (number[1:] - number[:-1, None]) - (frames[1:] - frames[:-1, None])
    alone = np.where(np.triu(np.ones_like(alone)), alone, np.iinfo(np.int64).max // 4)
    least, before = alone[0], list[Ints]()
    while True:
        chosen, at = [len(alone) - 1], len(alone) - 1
        for choice in reversed(before):
            at = int(choice[at]) - 1
            chosen.append(at)
        yield Buckets(tuple(sizes[chosen[::-1]].tolist()), int(least[-1]) / int(frames[-1]))
        if len(chosen) == len(alone):
            return
        more = np.concatenate([[alone.max()], least[:-1]])[:, None] + alone
        before.append(more.argmin(0))
        least = more.min(0)


def _tried(values: Ints) -> Ints:
    """Return where the lengths stand that may be sizes: all, or the last in each of equal
    ratios."""
    if len(values) <= _TRIED:
        return np.arange(len(values))
    ratio = np.log(values / values[0])
    part = (ratio / ratio[-1] * (_TRIED - 1)).astype(np.int64)
    return np.flatnonzero(np.diff(part, append=part[-1] + 1))
