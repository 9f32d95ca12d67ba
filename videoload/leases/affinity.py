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

from videoload.leases.records import Batch

Keys = npt.NDArray[np.uint64]
Weights = npt.NDArray[np.float64]


class Affinity:
    """The hosts whose workers are connected."""

    def __init__(self) -> None:
        self._workers: Counter[Hashable] = Counter()
        self._version = 0  # of what follows
        self._names: list[Hashable] = []
        self._keys = keys(())
        self._weights: Weights = np.empty(0)

    @property
    def has_choice(self) -> bool:
        """Whether workers of several hosts are connected."""
        return len(self._names) > 1

    # Hosts

    def joined(self, host: Hashable) -> None:
        """A worker of this host is connected."""
        self._workers[host] += 1
        self._weigh()

    def left(self, host: Hashable) -> None:
        """A worker of this host has left."""
        self._workers[host] -= 1
        self._workers += Counter()  # drops what is 0
        self._weigh()

    def _weigh(self) -> None:
        self._version += 1
        self._names = list(self._workers)
        self._keys = keys(map(str, self._names))
        self._weights = np.array(list(self._workers.values()), float)

    # Clips

    def own(self, batch: Batch, host: Hashable) -> list[int]:
        """The rows that are in no chunk yet and prefer this host."""
        if batch.by_host is None or batch.sorted_by != self._version:
            path_of = batch.reader.stream.quarantine.path_of
            videos = keys(path_of(batch.samples[row].video) for row in batch.left)
            batch.by_host, batch.sorted_by = {}, self._version
            for row, at in zip(batch.left, best(videos, self._keys, self._weights), strict=True):
                batch.by_host.setdefault(self._names[at], []).append(row)
        return batch.by_host.get(host, [])


def keys(names: Iterable[str]) -> Keys:
    """A number for each name, the same in each process."""
    return np.array([xxh3_64_intdigest(name.encode(errors="replace")) for name in names], np.uint64)


def best(videos: Keys, hosts: Keys, weights: Weights) -> npt.NDArray[np.intp]:
    """For each video, the place in ``hosts`` of the host with the best score."""
    mixed = videos[:, None] ^ hosts
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):  # as splitmix64 does
        mixed ^= mixed >> np.uint64(30)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    evenly = (mixed >> np.uint64(11)) * 2.0**-53  # in [0, 1)
    first: npt.NDArray[np.intp] = np.argmin(-np.log1p(-evenly) / weights, axis=1)
    return first
