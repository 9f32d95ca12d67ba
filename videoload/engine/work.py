"""What workers did for a stream, by worker and by time. Pure: time is passed in.

Clocks of two hosts are never compared. A worker reports how long it decoded, and how long it had no
lease before. The trainer knows how long it had no lease to give to that worker. For the rest of the
time, the worker waited for the network: for a lease, or for pixels to be sent.

                  trainer:  grants A, B ......... A arrives, grants C ..... B arrives
    network                    \\                 /            \\            /
                  worker:       -- A -- B ------ idle (the network) -- C --
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import chain, pairwise
from operator import add
from typing import NamedTuple

from videoload.wire.messages import Result, Timings

_BUCKET_S = 1.0
_SAME_LENGTH = 8  # buckets of one length, before two are merged: windows are exact to an eighth
_LEVELS = 32  # lengths of buckets: of up to 2**31 seconds
_PAUSE_S = 1.0  # longer times without a lease are pauses: the trainer validates, or its user left
_FILES = 1 << 14  # with more files, the half that took the least time is forgotten
_SLOWEST = 8  # files that are reported


class Work(NamedTuple):
    """The work of a worker: clips, bytes of pixels received over a network, and seconds.

    ``busy_s`` is the sum of the phases, from ``open_s`` on. In ``free_s`` the worker had no lease,
    because no slot was free. In ``wire_s`` it waited for the network. It ran on a core for
    ``core_s``, and waited for a core for ``no_core_s``. ``kept`` clips are from the frame store.
    The store had no room for the videos of ``no_room`` clips.
    """

    clips: int = 0
    sent_bytes: int = 0
    kept: int = 0
    no_room: int = 0
    busy_s: float = 0.0
    free_s: float = 0.0
    wire_s: float = 0.0
    core_s: float = 0.0
    no_core_s: float = 0.0
    open_s: float = 0.0
    index_s: float = 0.0
    seek_s: float = 0.0
    decode_s: float = 0.0
    scale_s: float = 0.0
    transform_s: float = 0.0

    def plus(self, other: Work) -> Work:
        return Work(*map(add, self, other))

    @property
    def passed_s(self) -> float:
        """Seconds of work, and of waiting for a slot or for the network."""
        return self.busy_s + self.free_s + self.wire_s


NO_WORK = Work()


def total(works: Iterable[Work]) -> Work:
    return reduce(Work.plus, works, NO_WORK)


def _add_all(works: dict[str, Work], more: Mapping[str, Work]) -> None:
    for worker, work in more.items():
        works[worker] = works.get(worker, NO_WORK).plus(work)


class WorkTimer:
    """Measures one worker: when it has leases, and what it reports about them."""

    def __init__(self) -> None:
        self._held = 0
        self._answered = False  # before its first answer, a worker imports and sets up
        self._since = 0.0  # when it got its first lease, lost its last one, or answered
        self._free_s = 0.0  # since its last answer

    @property
    def is_free(self) -> bool:
        return self._held == 0

    def granted(self, now: float) -> None:
        if not self._held:
            self._free_s = now - self._since
            self._since = now
        self._held += 1

    def failed(self, now: float) -> None:
        """The worker answered a lease with a failure."""
        self._held = max(0, self._held - 1)
        self._since, self._free_s, self._answered = now, 0.0, True

    def answered(self, result: Result, clips: int, sent_bytes: int, now: float) -> Work:
        """Return the worker answered a lease of ``clips`` clips; returns what it did. A worker may
        claim any time. It is limited to the time that has passed here."""
        spent, free_s, passed_s = result.spent, self._free_s, max(0.0, now - self._since)

        def limited(seconds: float, most: float = passed_s) -> float:
            return min(seconds, most) if seconds > 0 else 0.0  # also if it is not a number

        idle_s, busy_s = limited(spent.idle, free_s + passed_s), limited(result.decode_s)
        if not self._answered:
            idle_s = free_s = 0.0
        self.failed(now)
        return Work(
            clips, sent_bytes, min(result.kept, clips), min(result.no_room, clips),
            max(0.0, busy_s - limited(spent.importing)), min(free_s, _PAUSE_S),
            max(0.0, idle_s - free_s), limited(spent.core), limited(spent.no_core),
            *map(limited, _phases(spent)),
        )  # fmt: skip


def _phases(spent: Timings) -> tuple[float, ...]:
    return spent.open, spent.index, spent.seek, spent.decode, spent.scale, spent.transform


class WorkHistory:
    """The work of all workers, by time.

    There is one bucket per second. Two older ones are merged into one of twice the length. So a day
    takes a hundred buckets, and a window is exact to an eighth of its length.
    """

    def __init__(self) -> None:
        self._all: dict[str, Work] = {}
        self._levels: list[deque[_Bucket]] = [deque() for _ in range(_LEVELS)]

    def add(self, now: float, worker: str, work: Work) -> None:
        latest = self._levels[0]
        if not latest or now >= latest[-1].begin + _BUCKET_S:
            latest.append(_Bucket(now, now, {}))
            for level, longer in pairwise(self._levels):
                if len(level) > _SAME_LENGTH:
                    first, second = level.popleft(), level.popleft()
                    _add_all(first.works, second.works)
                    longer.append(_Bucket(first.begin, second.end, first.works))
        latest[-1].end = now
        for works in (self._all, latest[-1].works):
            _add_all(works, {worker: work})

    def read(self, since: float) -> dict[str, Work]:
        if since == -math.inf:
            return dict(self._all)
        found: dict[str, Work] = {}
        for bucket in chain(*self._levels):
            if bucket.end >= since:
                _add_all(found, bucket.works)
        return found


@dataclass(eq=False, slots=True)
class _Bucket:
    begin: float
    end: float  # when work was added last
    works: dict[str, Work]


class FileTime(NamedTuple):
    """The seconds that all clips of a file took."""

    video: int
    clips: int
    seconds: float


class FileTimes:
    """The time that the clips of each file took."""

    def __init__(self) -> None:
        self._files: dict[int, FileTime] = {}

    def add(self, video: int, seconds: float) -> None:
        """A clip of this video took so long."""
        _, clips, before_s = self._files.get(video, FileTime(video, 0, 0.0))
        self._files[video] = FileTime(video, clips + 1, before_s + seconds)
        if len(self._files) > _FILES:
            heavy = sorted(self._files.values(), key=_seconds)[_FILES // 2 :]
            self._files = {file.video: file for file in heavy}

    def slowest(self) -> list[FileTime]:
        """Return the files whose clips took longest."""
        return sorted(self._files.values(), key=lambda file: -file.seconds / file.clips)[:_SLOWEST]


def _seconds(file: FileTime) -> float:
    return file.seconds
