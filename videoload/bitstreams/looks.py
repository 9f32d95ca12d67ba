"""Which packets of a long file are looked at, where each look is a request to another host. Pure.

An hour of video has 100 000 packets, and a look at each would read all of it. So some are looked
at, of those that the container flags as key frames and of the others, and all that are so small
that they may be no picture; each of the rest is taken to be like the nearest one of its kind.
What is found so holds only if it bears out the container's flags, each packet a frame: else every
packet is looked at. As everywhere, it depends on the bytes of the file alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.bitstreams.pictures import Ints, Pictures

Flags = npt.NDArray[np.bool_]

_OF_A_KIND = 64  # packets that are looked at, evenly spread
_FIRST = 16  # ... and so many at the beginning
_SMALL_BYTES = 128  # a picture that is not coded takes less, whatever stands before it
_MAX_SMALL = 1024


class Looks(NamedTuple):
    """``looked`` at are these packets, rising; packet i is like ``looked[like[i]]``."""

    looked: Ints
    like: Ints


def pick(keys: Flags, sizes: Ints) -> Looks | None:
    """What to look at; None: at everything, since too much is unusual."""
    small = np.flatnonzero(sizes < _SMALL_BYTES)
    kinds = [np.flatnonzero((keys == kind) & (sizes >= _SMALL_BYTES)) for kind in (True, False)]
    if len(small) > _MAX_SMALL or not len(kinds[0]):
        return None
    some = [kind[spread(len(kind), _OF_A_KIND)] for kind in kinds]
    looked = np.unique(np.concatenate((np.arange(min(_FIRST, len(sizes))), small, *some)))
    like = np.searchsorted(looked, np.arange(len(sizes)))  # exact where it was looked at
    like[like == len(looked)] -= 1
    for kind, those in zip(kinds, some, strict=True):
        if len(kind):
            rest = kind[~np.isin(kind, looked)]
            nearest = those[np.minimum(np.searchsorted(those, rest), len(those) - 1)]
            like[rest] = np.searchsorted(looked, nearest)
    return Looks(looked, like)


def bear_out(pictures: Pictures | None, keys: Flags, *, used: bool) -> bool:
    """Whether what was proven holds for what was not looked at; ``used``: looks were needed."""
    if pictures is None or pictures.ordinals is not None:
        return False
    return not used or np.array_equal(pictures.starts, np.flatnonzero(keys))


def spread(count: int, most: int) -> Ints:
    """So many of ``count`` numbers as are looked at, evenly spread."""
    return np.linspace(0, count - 1, min(count, most)).astype(np.int64)
