"""Which packets of a large file are looked at. Pure.

An hour of video has 100 000 packets, and in a bucket each look is a request to another host. So
only some packets are looked at: the first ones, some of those that the container flags as key
frames, some of the others, and all that are so small that they may be no picture. What they prove
holds for all packets only if it confirms the flags. Where the file is kept makes no difference.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from videoload.bitstreams.pictures import Ints, Pictures

Flags = npt.NDArray[np.bool_]

_OF_A_KIND = 64  # so many packets of each kind are looked at, evenly spread
_FIRST = 16  # ... and so many at the beginning
_SMALL_BYTES = 128  # a picture that is not coded takes less, whatever stands before it
_MAX_SMALL = 1024


def pick(keys: Flags, sizes: Ints) -> Ints | None:
    """The packets to look at, rising; None if too much is unusual."""
    small = np.flatnonzero(sizes < _SMALL_BYTES)
    if len(small) > _MAX_SMALL or not keys.any():
        return None
    kinds = np.flatnonzero(keys), np.flatnonzero(~keys)
    some = [kind[spread(len(kind), _OF_A_KIND)] for kind in kinds]
    return np.unique(np.concatenate((np.arange(min(_FIRST, len(sizes))), small, *some)))


def extend(some: Pictures | None, looked: Ints, keys: Flags) -> Pictures | None:
    """What is proven for all packets, if the packets ``looked`` at prove ``some``: that each gives
    one frame, and that those with a flag are the starts. Else None."""
    if some is None or some.ordinals is not None:
        return None
    if not np.array_equal(some.starts, np.flatnonzero(keys[looked])):
        return None
    return Pictures(len(keys), np.flatnonzero(keys))


def spread(count: int, most: int) -> Ints:
    """At most ``most`` of the numbers below ``count``, evenly spread."""
    return np.linspace(0, count - 1, min(count, most)).astype(np.int64)
