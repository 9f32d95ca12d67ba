"""What workers did for a stream, by worker and by time. Pure: time is passed in.

Nobody's clock is compared with another's. A worker says how long it decoded, and how long it had no
lease before that; the trainer knows how long it had none to give. What is left, the worker waited
for its line: for pixels that are on their way, or a lease that is.

                  trainer:  grants A, B ......... A arrives, grants C ..... B arrives
    line                       \\                 /            \\            /
                  worker:       ── A ── B ────── idle (the line) ── C ──
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from statistics import median
from typing import NamedTuple

from cachetools import LRUCache

from videoload.transport.messages import Result, Spent

_BUCKET_S = 1.0
_OF_A_KIND = 8  # buckets of one length, before two of them are merged: windows are met to an eighth
_PAUSE_S = 1.0  # who has no lease for longer is in a pause: the trainer validates, or its user left
_FILES = 1 << 14  # whose times are kept: the lighter half goes when there are more
_SLOW_FILE = 5.0  # times what a clip takes on average
_FILE_LOOKS = 8  # the slowest files that are told
_WORKERS = 1 << 12  # whose pace is kept, 3 KB each
_RECENT = 64  # clips tell a worker's pace
_PACE_KNOWN = 8  # with fewer, it is taken for one of middling pace


class Work(NamedTuple):
    """What a worker did: clips, bytes of pixels that came by a line, and seconds.

    ``busy_s`` are those of the phases; ``free_s`` it had no lease, which is to say no slot;
    ``wire_s`` it waited for its line. ``core_s`` it was on a core, ``no_core_s`` it waited for one.
    """

    clips: int = 0
    leases: int = 0
    sent_bytes: int = 0
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
        """What both did."""
        return Work(*map(add, self, other))

    @property
    def passed_s(self) -> float:
        """The time that it took: work, and waiting for a slot or for the line."""
        return self.busy_s + self.free_s + self.wire_s

    @property
    def clip_s(self) -> float:
        """What a clip took."""
        return self.busy_s / self.clips if self.clips else 0.0


_NOTHING = Work()


def total(works: Iterable[Work]) -> Work:
    """All of it."""
    return reduce(Work.plus, works, _NOTHING)


def _count(works: dict[str, Work], worker: str, work: Work) -> None:
    works[worker] = works.get(worker, _NOTHING).plus(work)


class Account:
    """A worker's leases, and what it says of them."""

    def __init__(self) -> None:
        self._held = 0
        self._answered = False  # before its first answer, it imports and sets up
        self._since = 0.0  # when it was given its first lease, lost its last one, or answered
        self._free_s = 0.0  # since its last answer

    @property
    def is_free(self) -> bool:
        """Whether it has no lease."""
        return self._held == 0

    def granted(self, now: float) -> None:
        """It was given a lease."""
        if not self._held:
            self._free_s = now - self._since
            self._since = now
        self._held += 1

    def failed(self, now: float) -> None:
        """It answered one with a failure."""
        self._held = max(0, self._held - 1)
        self._since, self._free_s, self._answered = now, 0.0, True

    def answered(self, result: Result, clips: int, sent_bytes: int, now: float) -> Work:
        """It answered one, of so many clips; returns what it did. A worker may say anything: no
        more is believed than has passed."""
        spent, free_s, passed_s = result.spent, self._free_s, max(0.0, now - self._since)

        def said(seconds: float, most: float = passed_s) -> float:
            return min(seconds, most) if seconds > 0 else 0.0  # what is not a number is none

        idle_s, busy_s = said(spent.idle, free_s + passed_s), said(result.decode_s)
        if not self._answered:
            idle_s = free_s = 0.0
        self.failed(now)
        return Work(
            clips, 1, sent_bytes,
            max(0.0, busy_s - said(spent.importing)), min(free_s, _PAUSE_S),
            max(0.0, idle_s - free_s), said(spent.core), said(spent.no_core),
            *map(said, _phases(spent)),
        )  # fmt: skip


def _phases(spent: Spent) -> tuple[float, ...]:
    return spent.open, spent.index, spent.seek, spent.decode, spent.scale, spent.transform


class Ledger:
    """The work of all workers, by time: a bucket a second, and of older ones two are merged into
    one of twice the length. So a day takes a hundred buckets, and a window is met to an eighth."""

    def __init__(self) -> None:
        self.all: dict[str, Work] = {}  # since it began
        self._buckets: list[_Bucket] = []  # the oldest first

    def add(self, now: float, worker: str, work: Work) -> None:
        """A worker did that."""
        _count(self.all, worker, work)
        if not self._buckets or now >= self._buckets[-1].begin + _BUCKET_S:
            self._buckets.append(_Bucket(now, now, 0, {}))
            self._merge()
        self._buckets[-1].end = now
        _count(self._buckets[-1].works, worker, work)

    def read(self, since: float) -> dict[str, Work]:
        """The work since then, by worker."""
        found: dict[str, Work] = {}
        for bucket in reversed(self._buckets):
            if bucket.end < since:
                break
            for worker, work in bucket.works.items():
                _count(found, worker, work)
        return found

    def _merge(self) -> None:
        end = len(self._buckets)
        for kind in range(64):
            begin = end
            while begin and self._buckets[begin - 1].kind == kind:
                begin -= 1
            if end - begin <= _OF_A_KIND:
                return
            older, newer = self._buckets[begin : begin + 2]
            for worker, work in newer.works.items():
                _count(older.works, worker, work)
            older.kind += 1
            older.end = newer.end
            del self._buckets[begin + 1]
            end = begin + 1


@dataclass(eq=False, slots=True)
class _Bucket:
    begin: float
    end: float  # when it was added to last
    kind: int  # it is 2**kind seconds long, or longer
    works: dict[str, Work]


class FileTime(NamedTuple):
    """What the clips of a file took, in all, and ``least`` one of them."""

    video: int
    clips: int
    seconds: float
    least: float = math.inf


_NO_FILE = FileTime(-1, 0, 0.0)


class SlowFiles(NamedTuple):
    """So many files of those that were ``met``, of which each clip takes five times as long as of
    others (of at least two: what was slow once may have been its storage), and the share of all
    decoding that they take; and of which a clip takes longest."""

    slow: int = 0
    met: int = 0
    share: float = 0.0
    slowest: tuple[FileTime, ...] = ()


class FileTimes:
    """What the clips of each file took, as a worker of middling pace would have taken: else the
    files that a slow worker met would look slow.

    A pace is a median: the clips of slow files do not make those who met them slow workers."""

    def __init__(self) -> None:
        self._files: dict[int, FileTime] = {}
        self._all = _NO_FILE
        self._recent: deque[float] = deque(maxlen=_RECENT)
        # What its last clips took. Workers come and go: a long training meets more and more names.
        self._workers: LRUCache[str, deque[float]] = LRUCache(_WORKERS)

    def add(self, worker: str, clips: Sequence[tuple[int, float]]) -> None:
        """A worker took so many seconds for a clip of each of these videos."""
        count, spent_s = len(clips), sum(seconds for _, seconds in clips)
        if not spent_s:
            return
        mine = self._workers.setdefault(worker, deque(maxlen=_RECENT))
        for recent in (mine, self._recent):
            recent.extend(seconds for _, seconds in clips)
        clip_s = median(mine) if len(mine) >= _PACE_KNOWN else 0.0
        pace = median(self._recent) / clip_s if clip_s > 0 else 1.0
        _, all_clips, all_s, _ = self._all
        self._all = FileTime(-1, all_clips + count, all_s + spent_s * pace)
        for video, seconds in clips:
            _, before, before_s, least = self._files.get(video, _NO_FILE)
            took = seconds * pace
            self._files[video] = FileTime(video, before + 1, before_s + took, min(least, took))
        if len(self._files) > _FILES:
            heavy = sorted(self._files.values(), key=_seconds)[_FILES // 2 :]
            self._files = {file.video: file for file in heavy}

    def read(self) -> SlowFiles:
        """Which files are slow."""
        _, clips, seconds, _ = self._all
        if not seconds:
            return SlowFiles()
        most = _SLOW_FILE / 2 * seconds / clips
        # What is slow is no measure of itself: the others are, once they are known.
        for _ in range(2):
            slow = [file for file in self._files.values() if file.clips > 1 and file.least > most]
            others = clips - sum(file.clips for file in slow)
            if others:
                most = _SLOW_FILE * max(0.0, seconds - sum(map(_seconds, slow))) / others
        share = min(1.0, sum(map(_seconds, slow)) / seconds)
        slowest = sorted(self._files.values(), key=lambda file: -file.seconds / file.clips)
        return SlowFiles(len(slow), len(self._files), share, tuple(slowest[:_FILE_LOOKS]))


def _seconds(file: FileTime) -> float:
    return file.seconds
