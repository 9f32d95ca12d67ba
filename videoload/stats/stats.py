"""What a stream did, in numbers and in one sentence."""

from __future__ import annotations

import math
import platform
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from videoload.errors import BadVideo
from videoload.host import cores
from videoload.stats.verdict import Measured, judge, workers_needed
from videoload.stats.waiting import Figures, Taken, count, figures
from videoload.stats.work import FileTimes, Ledger, Work, total

_REMEMBERED = 4096  # batches: minutes or hours, and half a megabyte
_STEPS_BEFORE = 64
_NOTES = 64  # that are booked at once


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """What one worker did.

    Attributes:
        name: ``host:pid``.
        host: Host name that the worker gave.
        pid: Process id on that host.
        clips: Clips that it decoded.
        clips_per_s: Clips per second of decoding; waiting does not count.
        busy_share: Share of its time, 0 to 1, that it decoded. Default 0.
        wire_share: Share of its time, 0 to 1, that it waited for its line. Default 0.
        state: ``"decoding"``, ``"idle"`` (the default: it has no lease), or ``"silent"``: nothing
            was heard of it for two seconds.
        last_error: What it last failed at. Default: nothing, "".
    """

    name: str
    host: str
    pid: int
    clips: int
    clips_per_s: float
    busy_share: float = 0.0
    wire_share: float = 0.0
    state: str = "idle"
    last_error: str = ""


@dataclass(frozen=True, slots=True)
class ClipTimes:
    """Where the time of a clip goes: seconds, the mean of all clips.

    Attributes:
        open: Finding and opening its file.
        index: Reading what is in the file: how many frames, and where.
        seek: Going to the key frame before its first frame.
        decode: Decoding; with all that is none of the others.
        scale: Scaling, cropping and converting its frames.
        transform: The user's function: the spec's transform, or its load.
        slot: Its worker waited for a lease, since no slot was free.
        wire: Its worker waited for its line, with leases or pixels on their way.
    """

    open: float
    index: float
    seek: float
    decode: float
    scale: float
    transform: float
    slot: float
    wire: float

    @classmethod
    def of(cls, work: Work) -> ClipTimes:
        """The means of what was done.

        Args:
            work: Of any number of workers.

        Returns:
            Zeros where there was no clip.
        """
        phases = (
            work.open_s, work.index_s, work.seek_s, work.decode_s, work.scale_s, work.transform_s,
            work.free_s, work.wire_s,
        )  # fmt: skip
        return cls(*(seconds / max(1, work.clips) for seconds in phases))


@dataclass(frozen=True, slots=True)
class SlowFile:
    """A file of which a clip takes long.

    Attributes:
        path: As in the catalog.
        clips: Clips of it that were decoded.
        clip_s: Seconds that each took, as a worker of middling pace would have taken.
    """

    path: str
    clips: int
    clip_s: float


@dataclass(frozen=True, slots=True)
class StreamStats:
    """What a stream did; ``print`` shows it in one line.

    ``clips_per_s`` and ``wait_share`` are of the time in which the stream was read, over its last
    4,096 batches at most: from when a reader asks for its first batch until it gets its last one. A
    wait that goes on is in them; a pause between two batches is not: one that is longer than a
    second, and than ten times what nine in ten steps take, such as a validation.

    Behind `Stream.dataset` it is the trainer's waiting, in `fit` and in a loop, as long as nothing
    behind it reads ahead. ``prefetch``, ``map`` (which TensorFlow may run in parallel),
    ``num_parallel_calls`` and the iterators of a distribution strategy do: then their waiting is
    taken for the trainer's, which waited no longer than that, and maybe less.

    Attributes:
        batches: Batches handed over.
        clips: Clips in them.
        clips_per_s: Clips per second, of all readers together.
        wait_share: Share of the time, 0 to 1, that the trainer spent waiting for batches; where
            several threads read, the mean of theirs.
        copied: Batches that were copied because the trainer kept nearly all slots.
        workers: The workers connected now, with what they did for this stream.
        departed: How many workers of the client there were that are connected no more.
        departed_clips: Clips of this stream that those decoded.
        bad_videos: The videos that could not be decoded.
        verdict: What holds the training back, in one sentence, and what would help.
        bottleneck: The same in one word: ``"trainer"`` where decoding keeps up; ``"decoding"``,
            and ``"storage"``, for which workers wait most of the time, where more workers would
            help; ``"cores"``, where they have to be on other hosts;
            ``"line"``, ``"host"`` or ``"files"``, where one of them is slow; ``"batches"``, where
            neither side is busy; ``"workers"``, where none delivers; ``"unknown"``, the default.
        workers_wanted: Workers like these with which the trainer would wait 5 % of the time at
            most; None, the default, where nothing tells.
        utilisation: Share of their time, 0 to 1, that the workers decoded. Default 0.
        steps_per_s: Batches per second. Default 0.
        ceiling_steps_per_s: Batches per second that the trainer would take if it never waited, by
            `head_room` where that was measured, and else by its steps; infinity where it does
            nothing else than wait. Default 0.
        trainer_waited_s: Seconds that the trainer waited for a batch, the mean. Default 0.
        batch_waited_s: Seconds that a batch lay ready until it was taken, the mean. Default 0.
        clip_times: Where the time of a clip goes. Default: zeros.
        slowest_files: The files of which a clip takes longest, up to 8. Default: none.
    """

    batches: int
    clips: int
    clips_per_s: float
    wait_share: float
    copied: int
    workers: tuple[WorkerStats, ...]
    departed: int
    departed_clips: int
    bad_videos: tuple[BadVideo, ...]
    verdict: str
    bottleneck: str = "unknown"
    workers_wanted: int | None = None
    utilisation: float = 0.0
    steps_per_s: float = 0.0
    ceiling_steps_per_s: float = 0.0
    trainer_waited_s: float = 0.0
    batch_waited_s: float = 0.0
    clip_times: ClipTimes = ClipTimes(0, 0, 0, 0, 0, 0, 0, 0)
    slowest_files: tuple[SlowFile, ...] = ()

    def __str__(self) -> str:
        parts = [
            f"{count(self.clips, 'clip')} in {count(self.batches, 'batch', 'es')}",
            f"{self.clips_per_s:.0f} clips/s",
        ]
        if self.workers:
            parts.append(f"{count(len(self.workers), 'worker')} busy {self.utilisation:.0%}")
        if self.copied:
            parts.append(f"{count(self.copied, 'batch', 'es')} copied")
        if self.bad_videos:
            parts.append(count(len(self.bad_videos), "bad video"))
        return f"{', '.join(parts)}; {self.verdict}"


class Connected(NamedTuple):
    """A worker that is connected: who it is, and how it is."""

    name: str
    host: str
    pid: int
    is_child: bool
    state: str
    last_error: str

    def stats(self, work: Work, passed_s: float | None = None) -> WorkerStats:
        """Its figures, of what it did; ``passed_s``: in so much time, if not all of it is told."""
        passed_s = passed_s or work.passed_s
        busy, wire = (
            min(1.0, seconds / passed_s) if passed_s > 0 else 0.0
            for seconds in (work.busy_s, work.wire_s)
        )
        rate = work.clips / work.busy_s if work.busy_s else 0.0
        return WorkerStats(
            self.name, self.host, self.pid, work.clips, rate, busy, wire, self.state,
            self.last_error,
        )  # fmt: skip


class Meter:
    """Notes what the readers of a stream ask for and get, any of them in a thread of its own; and
    what the workers do for it."""

    def __init__(
        self, path: Callable[[int], str] = str, line_is_full: Callable[[], bool] = bool
    ) -> None:
        """``path``: of a video. ``line_is_full``: whether that is by which pixels come."""
        self.copied = 0
        self.ceiling: float | None = None  # steps per second
        self._path, self._line_is_full = path, line_is_full
        # Readers and the I/O thread leave notes and wait for no lock. Who holds the books, or wants
        # to read them next, books those.
        self._books = threading.Lock()
        self._taken: deque[Taken] = deque(maxlen=_REMEMBERED)
        self._waiting: dict[int, float] = {}  # since when, by reader
        self._waits: deque[tuple[float, int | None]] = deque()  # seconds, and clips if it got them
        self._batches = self._clips = 0
        self._blocked_s = 0.0  # of waits that are over
        self._told_s = 0.0
        self._began: float | None = None
        self._first_batch_s: float | None = None
        self._lay: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED)  # when, and how long
        self._ledger, self._files = Ledger(), FileTimes()
        self._news: deque[tuple[str, Work, Sequence[tuple[int, float]], float]] = deque()
        self._marks: dict[str, float] = {}

    # The readers

    def asked(self, reader: int) -> None:
        """A reader asks for a batch."""
        self._waiting[reader] = now = time.monotonic()
        if self._began is None:
            self._began = now

    def got(self, reader: int, clips: int) -> None:
        """It got what it asked for."""
        asked, now = self._waiting.pop(reader), time.monotonic()
        self._taken.append(Taken(reader, asked, now, clips))
        if self._first_batch_s is None:
            self._first_batch_s = now - (self._began or asked)
        self._waits.append((now - asked, clips))
        self._book_many(self._waits)

    def left(self, reader: int) -> None:
        """It asks for no more."""
        if (asked := self._waiting.pop(reader, None)) is not None:
            self._waits.append((time.monotonic() - asked, None))

    @property
    def batches(self) -> int:
        """How many readers got."""
        with self._books:
            self._book()
            return self._batches

    def blocked(self) -> tuple[float, float | None]:
        """Seconds that readers waited, since the beginning and by now, and seconds from the first
        question to the first batch."""
        with self._books:
            going_on, now = dict(self._waiting), time.monotonic()
            self._book()
            blocked_s = self._blocked_s + sum(now - asked for asked in going_on.values())
            # A wait that ends meanwhile may be missing in both.
            self._told_s = max(self._told_s, blocked_s)
            return self._told_s, self._first_batch_s

    def lay(self, seconds: float) -> None:
        """A batch was ready for so long before it was taken."""
        self._lay.append((time.monotonic(), seconds))

    # The workers

    def did(self, worker: str, work: Work, clips: Sequence[tuple[int, float]], now: float) -> None:
        """A worker did that; ``clips``: the video of each, and what it took, as the worker says."""
        self._news.append((worker, work, clips, now))
        self._book_many(self._news)

    def _book_many(self, notes: Collection[object]) -> None:
        """Many in a row take a fifth of what each takes alone, between two messages."""
        if len(notes) >= _NOTES and self._books.acquire(blocking=False):
            try:
                self._book()
            finally:
                self._books.release()

    def _book(self) -> None:
        while self._news:
            worker, work, clips, now = self._news.popleft()
            self._ledger.add(now, worker, work)
            # A worker may say anything.
            self._files.add(worker, [clip for clip in clips if 0 < clip[1] <= work.busy_s])
        while self._waits:
            seconds, got = self._waits.popleft()
            self._blocked_s += seconds
            if got is not None:
                self._batches += 1
                self._clips += got

    def work(self, since: float) -> dict[str, Work]:
        """What each worker did since then."""
        with self._books:
            self._book()
            if since > -math.inf:
                return self._ledger.read(since)
            return {worker: total([work]) for worker, work in self._ledger.all.items()}

    # What comes of it

    def since(self, mark: str) -> float:
        """Seconds since this was last asked for the mark, or since ever."""
        now = time.monotonic()
        before, self._marks[mark] = self._marks.get(mark, -math.inf), now
        return now - before

    def need(self, connected: Sequence[Connected], window_s: float) -> float | None:
        """How many workers the trainer would keep busy, if that is known."""
        return workers_needed(*self._measure(connected, window_s)[:2])

    def read(
        self,
        connected: Sequence[Connected],
        departed: int,
        bad_videos: tuple[BadVideo, ...],
        window_s: float = math.inf,
    ) -> StreamStats:
        """The figures so far, or of the last ``window_s`` seconds."""
        found, measured, works = self._measure(connected, window_s)
        with self._books:
            self._book()
            batches, clips, files = self._batches, self._clips, self._files.read()
        verdict = judge(
            found, measured, cores=cores(), files=files, ceiling=self.ceiling,
            line_is_full=self._line_is_full(),
        )  # fmt: skip
        if window_s < math.inf:
            batches, clips = found.batches, found.clips
        since = time.monotonic() - window_s
        lay = [seconds for when, seconds in list(self._lay) if when > since]
        here = {worker.name for worker in connected}
        a_batch = found.clips / found.batches if found.clips else math.inf  # all may be left out
        return StreamStats(
            batches, clips, found.clips_per_s, found.wait_share, self.copied,
            tuple(worker.stats(works.get(worker.name, Work())) for worker in connected),
            departed,
            sum(work.clips for name, work in works.items() if name not in here),
            bad_videos, verdict.sentence, verdict.bottleneck, verdict.wanted, verdict.utilisation,
            found.clips_per_s / a_batch,
            found.demand / a_batch if self.ceiling is None else self.ceiling,
            found.wait_share * found.reading_s / max(1, found.batches),
            sum(lay) / max(1, len(lay)),
            ClipTimes.of(total(works.values())),
            tuple(
                SlowFile(self._path(file.video), file.clips, file.seconds / file.clips)
                for file in files.slowest
            ),
        )  # fmt: skip

    def _measure(
        self, connected: Sequence[Connected], window_s: float
    ) -> tuple[Figures, list[Measured], dict[str, Work]]:
        # Each copied in one step, whoever writes meanwhile.
        taken, waiting, now = list(self._taken), dict(self._waiting), time.monotonic()
        since = now - window_s
        # Steps of before tell what a pause is, but not all of them.
        taken = taken[max(0, bisect_right(taken, since, key=_got) - _STEPS_BEFORE) :]
        works, own = self.work(since), platform.node()
        measured = [
            Measured(
                worker.name, worker.host, worker.is_child or worker.host == own, worker.is_child,
                works.get(worker.name, Work()),
            )
            for worker in connected
        ]  # fmt: skip
        return figures(taken, waiting, now, since), measured, works


def _got(taken: Taken) -> float:
    return taken.got
