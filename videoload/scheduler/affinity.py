"""Which host a clip prefers. Pure: no sockets, no threads, no clock.

A host that met a video before has its index, its bytes, and perhaps its scaled frames. So the clips
of a video should go to the same host in each epoch, in each training, and for each rank. Rendezvous
hashing does that without a table of videos: each pair of video and host has a score, and the host
with the best score is preferred. If a host joins or leaves, only the videos that it wins or loses
move, and they move back when it is back.

A host wins a share of the videos that is proportional to the number of its workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest

_Keys = npt.NDArray[np.uint64]


class Affinity:
    """The hosts whose workers are connected."""

    def __init__(self) -> None:
        self._workers: Counter[Hashable] = Counter()
        self._names: list[Hashable] = []  # of the hosts, as they were weighed last
        self._keys, self._weights = _keys(()), np.empty(0)
        self._is_weighed = True

    @property
    def has_choice(self) -> bool:
        """Return whether workers of several hosts are connected."""
        return len(self._workers) > 1

    def joined(self, host: Hashable) -> None:
        """A worker of this host is connected."""
        self._workers[host] += 1
        self._is_weighed = False

    def left(self, host: Hashable) -> None:
        """A worker of this host has left."""
        self._workers[host] -= 1
        if not self._workers[host]:
            del self._workers[host]
        self._is_weighed = False

    def hosts_of(self, paths: Iterable[str]) -> list[Hashable]:
        """Return the host that each of these videos prefers."""
        if not self._is_weighed:
            self._names = list(self._workers)
            self._keys = _keys(map(str, self._names))
            self._weights = np.array(list(self._workers.values()), float)
            self._is_weighed = True
        return [self._names[at] for at in _best(_keys(paths), self._keys, self._weights)]


def _keys(names: Iterable[str]) -> _Keys:
    """Return a number for each name, the same in each process."""
    return np.array([xxh3_64_intdigest(name.encode(errors="replace")) for name in names], np.uint64)


def _best(videos: _Keys, hosts: _Keys, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Return the index in ``hosts`` of the host with the best score, for each video."""
    mixed = videos[:, None] ^ hosts
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):  # as splitmix64 does
        mixed ^= mixed >> np.uint64(30)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    evenly = (mixed >> np.uint64(11)) * 2.0**-53  # in [0, 1)
    first: npt.NDArray[np.intp] = np.argmin(-np.log1p(-evenly) / weights, axis=1)
    return first
