"""What a stream did, in numbers and in one sentence."""

from __future__ import annotations

import math
import platform
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from videoload.errors import BadVideo
from videoload.native import cores
from videoload.trainer.waiting import Taken, count, figures, verdict

_REMEMBERED = 4096  # batches: minutes or hours, and half a megabyte


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """What one worker did for this client so far.

    Attributes:
        name: ``host:pid``.
        host: Host name that the worker gave.
        pid: Process id on that host.
        clips: Clips that it decoded.
        clips_per_s: Clips per second of decoding; waiting does not count.
    """

    name: str
    host: str
    pid: int
    clips: int
    clips_per_s: float


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
        workers: The workers connected now, of all streams of the client.
        departed: How many workers of the client there were that are connected no more.
        departed_clips: Clips that those decoded.
        bad_videos: The videos that could not be decoded.
        verdict: What ``wait_share`` means, in one sentence.
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

    def __str__(self) -> str:
        parts = [
            f"{count(self.clips, 'clip')} in {count(self.batches, 'batch', 'es')}",
            f"{self.clips_per_s:.0f} clips/s",
        ]
        if self.copied:
            parts.append(f"{count(self.copied, 'batch', 'es')} copied")
        if self.bad_videos:
            parts.append(count(len(self.bad_videos), "bad video"))
        return f"{', '.join(parts)}; {self.verdict}"


class Departed(NamedTuple):
    """The workers that are connected no more, and the clips that they decoded."""

    workers: int = 0
    clips: int = 0


class Meter:
    """Notes what the readers of a stream ask for and get; any of them in a thread of its own."""

    def __init__(self) -> None:
        self.batches = self.clips = self.copied = 0
        self._lock = threading.Lock()
        self._taken: deque[Taken] = deque(maxlen=_REMEMBERED)
        self._waiting: dict[int, float] = {}  # since when, by reader
        self._blocked_s = 0.0  # of waits that are over
        self._began: float | None = None
        self._first_batch_s: float | None = None

    def asked(self, reader: int) -> None:
        """A reader asks for a batch."""
        with self._lock:
            self._waiting[reader] = time.monotonic()
            self._began = self._began or self._waiting[reader]

    def got(self, reader: int, clips: int) -> None:
        """It got what it asked for."""
        with self._lock:
            asked, now = self._waiting.pop(reader), time.monotonic()
            self._taken.append(Taken(reader, asked, now, clips))
            self._blocked_s += now - asked
            if self._first_batch_s is None:
                self._first_batch_s = now - (self._began or asked)
            self.batches += 1
            self.clips += clips

    def left(self, reader: int) -> None:
        """It asks for no more."""
        with self._lock:
            now = time.monotonic()
            self._blocked_s += now - self._waiting.pop(reader, now)

    def blocked(self) -> tuple[float, float | None]:
        """Seconds that readers waited, since the beginning and by now, and seconds from the first
        question to the first batch."""
        with self._lock:
            now = time.monotonic()
            going_on = sum(now - asked for asked in self._waiting.values())
            return self._blocked_s + going_on, self._first_batch_s

    def read(
        self,
        workers: tuple[WorkerStats, ...],
        departed: Departed,
        bad_videos: tuple[BadVideo, ...],
        window_s: float = math.inf,
    ) -> StreamStats:
        """The figures so far, or of the last ``window_s`` seconds."""
        with self._lock:
            taken, waiting, now = list(self._taken), dict(self._waiting), time.monotonic()
            batches, clips = self.batches, self.clips
        found = figures(taken, waiting, now, now - window_s)
        if window_s < math.inf:
            batches, clips = found.batches, found.clips
        here = sum(worker.host == platform.node() for worker in workers)
        return StreamStats(
            batches, clips, found.clips_per_s, found.wait_share, self.copied,
            workers, departed.workers, departed.clips, bad_videos,
            verdict(found, workers=len(workers), here=here, cores=cores()),
        )  # fmt: skip
