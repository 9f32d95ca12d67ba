"""Search the buckets with the least padding, and the sizes that cut away the least. Pure.

Lengths, or shapes of frames, stand in a row and are divided into groups: one for each bucket or
size. The best k groups follow from the best k - 1 up to each length. So all of them are found
together, from one group to many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.catalog.table import Ints

_TRIED = 256  # of the lengths; up to 65 536, each other one is then less than 5 % below one of them
_ENOUGH, _LITTLE = 0.1, 0.05  # of padding; of the area that is cut away
_MOST_AREA, _SMALL_AREA = 480 * 832, 256 * 256  # of a size, in pixels


class Sizes(NamedTuple):
    """(height, width) of sizes; the size of each clip, int64 [N]; and the share of the frames' area
    that is cut away."""

    sizes: tuple[tuple[int, int], ...]
    of: Ints
    cut: float


def fewest_sizes(shown: npt.ArrayLike) -> Sizes:
    """Return the fewest sizes for frames with these display sizes (width, height), [N, 2], that cut
    away at most 5 % of a frame. They have about the usual area of the frames, and at most that of
    480x832."""
    frames = np.asarray(shown, np.float64)
    area = min(float(np.median(frames.prod(1))), _MOST_AREA)
    step = 16 if area >= _SMALL_AREA else 2  # what models divide by, where it moves little
    ratios, of = np.unique(np.log(frames[:, 0] / frames[:, 1]), return_inverse=True)
    last = _tried(np.exp(ratios))
    kinds, clips = ratios[last], np.bincount(np.searchsorted(last, of), minlength=len(last))
    alone = np.full((len(last),) * 2, np.inf)
    middles = np.zeros_like(alone)
    for first, end in zip(*np.triu_indices(len(last)), strict=True):
        group = slice(first, end + 1)
        half = np.searchsorted(clips[group].cumsum(), clips[group].sum() / 2)  # the median is best
        middles[first, end] = middle = kinds[first + half]
        alone[first, end] = (clips[group] * (1 - np.exp(-abs(kinds[group] - middle)))).sum()
    found = None
    for ends, _ in _divided(alone):
        begins = [0, *(end + 1 for end in ends[:-1])]
        wide = np.exp(middles[begins, ends])
        sides = np.sqrt([area / wide, area * wide]) / step
        pairs = dict.fromkeys(map(tuple, np.maximum(1, np.round(sides)).T.astype(int).tolist()))
        sizes = np.array([(high * step, across * step) for high, across in pairs])
        apart = abs(ratios[:, None] - np.log(sizes[:, 1] / sizes[:, 0]))
        cut = float((1 - np.exp(-apart.min(1)))[of].mean())
        if found is None or cut < found.cut:
            found = Sizes(tuple(map(tuple, sizes.tolist())), apart.argmin(1)[of], cut)
        if found.cut <= _LITTLE:
            break
    assert found is not None
    return found


class Buckets(NamedTuple):
    """Sizes of buckets in frames, which rise; and the frames of padding, as a share of those that
    are decoded."""

    sizes: tuple[int, ...]
    padding: float


def fewest_buckets(lengths: npt.ArrayLike) -> Buckets:
    """Return the fewest buckets for clips of these lengths, of at least one frame, with at most 10
    % of padding."""
    return next(found for found in best_buckets(lengths) if found.padding <= _ENOUGH)


def warnings_of(lengths: npt.ArrayLike, buckets: Sequence[int]) -> list[str]:
    """Return a sentence for the log if so many buckets could pad clips of these lengths much
    less."""
    values, sizes = np.asarray(lengths), np.asarray(buckets)
    padding = sizes[np.searchsorted(sizes, values)].sum() / values.sum() - 1
    *_, best = islice(best_buckets(values), len(sizes))
    if padding - best.padding < _ENOUGH:
        return []
    return [
        f"buckets={tuple(buckets)} pad these clips by {padding:.0%} of their frames: "
        f"max_frames={best.sizes[-1]} and buckets={best.sizes} by {best.padding:.0%}"
    ]


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
    for chosen, least in _divided(alone):
        yield Buckets(tuple(sizes[chosen].tolist()), int(least) / int(frames[-1]))


def _divided(alone: npt.NDArray[Any]) -> Iterator[tuple[list[int], Any]]:
    """Yield the best division into one group, two, three, ...: where each group ends, and the cost
    of all. ``alone``: the cost of a group, by its first and its last member."""
    least, before = alone[0], list[Ints]()
    while True:
        chosen, at = [len(alone) - 1], len(alone) - 1
        for choice in reversed(before):
            at = int(choice[at]) - 1
            chosen.append(at)
        yield chosen[::-1], least[-1]
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
