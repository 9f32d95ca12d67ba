"""Which host a clip prefers. Pure: no sockets, no threads, no clock.

A host that met a video before has its index, its bytes, and perhaps its scaled frames. So the clips
of a video should go to the same host in each epoch, in each training, and for each rank. Rendezvous
hashing does that without a table of videos: each pair of video and host has a score, and the host
with the best score is preferred. If a host joins or leaves, only the videos that it wins or loses
move, and they move back when it is back.

A host wins a share of the videos that is proportional to its weight. At first, that is the number
of its workers. A host that is quicker than others takes clips that prefer them: these are counted,
and if they are many, weights follow. Otherwise it would keep the frames of nearly all videos in the
end, and the others theirs as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest

from videoload.leases.records import Batch

# Weights are looked at after so many clips, and follow if more than this share of them moved from
# one host to another. A smaller share would move videos for what is left to chance.
_WINDOW, _MOVED = 1000, 0.05
_LEAST = 0.01  # of all videos, so that a host that was stopped has some when it goes on

Keys = npt.NDArray[np.uint64]
Weights = npt.NDArray[np.float64]


class Affinity:
    """The hosts whose workers are connected."""

    def __init__(self) -> None:
        self._workers: Counter[Hashable] = Counter()
        self._speeds: dict[Hashable, float] = {}  # of a worker there, about 1
        self._moved: Counter[Hashable] = Counter()  # clips that it took from others, less its own
        self._clips = 0  # in this window
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
        speeds = [self._speeds.get(name, 1.0) for name in self._names]
        self._weights = np.array(speeds) * list(self._workers.values())

    def weights(self) -> dict[Hashable, float]:
        """The weights of the hosts."""
        return dict(zip(self._names, self._weights.tolist(), strict=True))

    # Clips

    def own(self, batch: Batch, host: Hashable) -> list[int]:
        """The rows that are in no chunk yet and prefer this host."""
        return self._by_host(batch).get(host, [])

    def preferred(self, batch: Batch, rows: Sequence[int]) -> Counter[Hashable]:
        """How many of these rows, which are in no chunk yet, prefer each host."""
        of_host = self._by_host(batch).items()
        return Counter({host: len(set(rows).intersection(own)) for host, own in of_host})

    def _by_host(self, batch: Batch) -> dict[Hashable, list[int]]:
        if batch.by_host is None or batch.sorted_by != self._version:
            name_of = batch.reader.stream.name_of
            videos = keys(name_of(batch.samples[row].video) for row in batch.left)
            batch.by_host, batch.sorted_by = {}, self._version
            for row, at in zip(batch.left, best(videos, self._keys, self._weights), strict=True):
                batch.by_host.setdefault(self._names[at], []).append(row)
        return batch.by_host

    def took(self, host: Hashable, clips: int, lost: Counter[Hashable] | None = None) -> None:
        """A worker of this host is granted so many clips, which these hosts lose."""
        self._clips += clips
        if lost is not None:
            self._moved[host] += clips
            self._moved.subtract(lost)
        if self._clips < _WINDOW:
            return
        if sum(map(abs, self._moved.values())) / 2 > _MOVED * self._clips:
            shares = self._weights / self._weights.sum()
            shares += [self._moved[name] / self._clips for name in self._names]
            each = np.maximum(shares, _LEAST) * self._workers.total() / list(self._workers.values())
            self._speeds = dict(zip(self._names, each.tolist(), strict=True))
            self._weigh()
        self._clips = 0
        self._moved.clear()


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
