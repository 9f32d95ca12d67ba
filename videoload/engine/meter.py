"""`Meter` counts the requests and batches of a stream's readers, and the work of its workers."""

from __future__ import annotations

import math
import platform
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from videoload.engine.stats import (
    RESPONDS,
    RootRecord,
    SlowFile,
    StreamStats,
    Totals,
    WorkerRecord,
    clip_times,
)
from videoload.engine.verdict import judge
from videoload.engine.waiting import Figures, Taken, figures
from videoload.engine.work import NO_WORK, FileTimes, Work, WorkHistory, total
from videoload.errors import BadVideo
from videoload.host import cores

_REMEMBERED = 4096  # batches: minutes or hours, and half a megabyte
_STEPS_BEFORE = 64
_SOME = 0.01  # of the clips: below that, no line
_EARLY = 8  # batches: before, workers start and fill the slots, and their need is unknown
_BOOKED = 64  # events at once, since the first one of them finds the caches cold


class Meter:
    """Counts for one stream. Each reader calls it in its own thread, and the I/O thread too."""

    def __init__(
        self, path: Callable[[int], str] = str,
        storage: Callable[[float], RootRecord] = lambda since: RESPONDS,
        function: str = "", lost: Callable[[], str] = str,
        alone: Callable[[float], float] = lambda since: 0.0,
    ) -> None:  # fmt: skip
        """``path`` gives the path of a video. ``storage`` returns what is known of the root since a
        time, and ``lost`` which workers died or are unresponsive, and ``alone`` for how long no
        worker was connected since a time. ``function`` is the name of the user's."""
        self.copied = 0
        self._path, self._storage, self._lost, self._alone = path, storage, lost, alone
        self._function = function
        self._lock = threading.RLock()  # a signal handler may read statistics
        self._taken: deque[Taken] = deque(maxlen=_REMEMBERED)
        self._waiting: dict[int, float] = {}  # since when, by reader
        self._batches = self._clips = 0
        self._blocked_s = 0.0  # of waits that have ended
        self._first_requested: float | None = None
        self._first_batch_s: float | None = None
        self._history, self._files = WorkHistory(), FileTimes()
        self._events: deque[Callable[[], None]] = deque()  # to be booked
        self._marks: dict[str, float] = {}

    # Called by readers and by the I/O thread. They never wait for the lock: the thread that holds
    # it may be inside Python's garbage collector, which may wait for a reader to leave (see
    # `frameworks.tfdata`).

    def requested(self, reader: int) -> None:
        self._events.append(partial(self._book_asked, reader, time.monotonic()))

    def got(self, reader: int, clips: int) -> None:
        self._events.append(partial(self._book_got, reader, time.monotonic(), clips))

    def left(self, reader: int) -> None:
        self._events.append(partial(self._book_left, reader, time.monotonic()))

    def worked(
        self, worker: str, work: Work, clips: Sequence[tuple[int, float]], now: float
    ) -> None:
        """Note a worker's answer to a lease. ``clips``: each clip's video, and its seconds as
        reported by the worker."""
        self._events.append(partial(self._book_worked, worker, work, clips, now))
        if len(self._events) >= _BOOKED and self._lock.acquire(blocking=False):
            try:
                self._book()
            finally:
                self._lock.release()

    # Booking, with the lock

    def _book(self) -> None:
        """Book what happened since the last time."""
        while self._events:
            self._events.popleft()()

    def _book_worked(
        self, worker: str, work: Work, clips: Sequence[tuple[int, float]], now: float
    ) -> None:
        self._history.add(now, worker, work)
        for video, seconds in clips:
            if 0 < seconds <= work.busy_s:  # a worker may claim anything
                self._files.add(video, seconds)

    def _book_asked(self, reader: int, now: float) -> None:
        self._waiting.setdefault(reader, now)  # after an empty batch, it still waits
        if self._first_requested is None:
            self._first_requested = now

    def _book_got(self, reader: int, now: float, clips: int) -> None:
        requested = self._waiting.pop(reader, now)
        self._taken.append(Taken(reader, requested, now, clips))
        if self._first_batch_s is None:
            self._first_batch_s = now - (self._first_requested or requested)
        self._batches += 1
        self._clips += clips
        self._blocked_s += now - requested

    def _book_left(self, reader: int, now: float) -> None:
        if (requested := self._waiting.pop(reader, None)) is not None:
            self._blocked_s += now - requested

    # Results

    def totals(self) -> Totals:
        """The counts since the beginning, including current waits."""
        with self._lock:
            self._book()
            now = time.monotonic()
            going_on = sum(now - requested for requested in self._waiting.values())
            blocked_s = self._blocked_s + going_on
            return Totals(self._batches, self._clips, blocked_s, self._first_batch_s)

    def work(self, since: float) -> dict[str, Work]:
        with self._lock:
            self._book()
            return self._history.read(since)

    def since(self, mark: str) -> float:
        """Return seconds since the last call with this mark; infinity at the first call."""
        now = time.monotonic()
        before, self._marks[mark] = self._marks.get(mark, -math.inf), now
        return now - before

    def read(
        self,
        workers: Sequence[WorkerRecord],
        bad_videos: tuple[BadVideo, ...],
        window_s: float = math.inf,
        *,
        is_ahead: bool = True,
    ) -> StreamStats:
        """Return the figures so far, or of the last ``window_s`` seconds. ``workers`` are
        connected. ``is_ahead``: a batch is ready."""
        found, measured, works = self._measure(workers, window_s)
        with self._lock:
            batches, clips, files = self._batches, self._clips, self._files.slowest()
        since = time.monotonic() - window_s
        verdict = judge(
            found, measured, cores=cores(), own_host=platform.node(), storage=self._storage(since),
            function=self._function, lost=self._lost(), alone_s=self._alone(since),
            is_ahead=is_ahead, is_early=batches < _EARLY,
        )  # fmt: skip
        if window_s < math.inf:
            batches, clips = found.batches, found.clips
        # Infinity if there was no batch.
        batch_clips = found.clips / found.batches if found.clips else math.inf
        work = total(works.values())
        no_room = work.no_room / max(1, work.clips)
        full = f" The frame store is full: {no_room:.0%} of the clips are decoded each time."
        return StreamStats(
            batches=batches,
            clips=clips,
            clips_per_s=found.clips_per_s,
            wait_ratio=found.wait_ratio,
            copied=self.copied,
            workers=tuple(worker.stats() for worker in measured),
            bad_videos=bad_videos,
            verdict=verdict.sentence + full * (no_room > _SOME),
            bottleneck=verdict.bottleneck,
            workers_wanted=verdict.wanted,
            utilisation=verdict.utilisation,
            steps_per_s=found.clips_per_s / batch_clips,
            max_steps_per_s=found.demand / batch_clips,
            clip_times=clip_times(work),
            slowest_files=tuple(
                SlowFile(self._path(file.video), file.clips, file.seconds / file.clips)
                for file in files
            ),
            frame_store_hit_ratio=work.kept / max(1, work.clips),
            frame_store_full_ratio=no_room,
        )

    def _measure(
        self, workers: Sequence[WorkerRecord], window_s: float
    ) -> tuple[Figures, list[WorkerRecord], dict[str, Work]]:
        with self._lock:
            self._book()
            taken, waiting, now = list(self._taken), dict(self._waiting), time.monotonic()
        since = now - window_s
        # A few steps before the window show what a pause is.
        taken = taken[max(0, bisect_right(taken, since, key=_got) - _STEPS_BEFORE) :]
        works = self.work(since)
        measured = [worker._replace(work=works.get(worker.name, NO_WORK)) for worker in workers]
        return figures(taken, waiting, now, since), measured, works


def _got(taken: Taken) -> float:
    return taken.got
