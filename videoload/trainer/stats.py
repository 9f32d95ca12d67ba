"""What a stream did, in numbers and in one sentence."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from videoload.errors import BadVideo

# Below this share of waiting, more workers would not make the training noticeably faster.
_LITTLE_WAITING = 0.05


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
    """What a stream did, from when its first batch was asked for until its last was handed over.

    Attributes:
        batches: Batches handed over.
        clips: Clips in them.
        clips_per_s: Clips per second of that time.
        wait_share: Share of that time, 0 to 1, that the trainer spent waiting for batches. Behind
            a dataset it is TensorFlow's prefetching that waits, also where the trainer does not.
        copied: Batches that were copied because the trainer kept nearly all slots.
        workers: The workers connected now, of all streams of the client.
        bad_videos: The videos that could not be decoded.
        verdict: What ``wait_share`` means, in one sentence.
    """

    batches: int
    clips: int
    clips_per_s: float
    wait_share: float
    copied: int
    workers: tuple[WorkerStats, ...]
    bad_videos: tuple[BadVideo, ...]
    verdict: str


@dataclass(slots=True)
class Meter:
    """Counts what one consumer thread at a time takes from a stream."""

    batches: int = 0
    clips: int = 0
    copied: int = 0
    waited_s: float = 0.0
    began: float | None = None
    ended: float = field(default=0.0)

    def asked(self) -> float:
        """The consumer asks for a batch; returns the time."""
        now = time.monotonic()
        if self.began is None:
            self.began = now
        return now

    def got(self, asked: float, clips: int) -> None:
        """It got one, ``asked`` at that time."""
        self.ended = time.monotonic()
        self.waited_s += self.ended - asked
        self.batches += 1
        self.clips += clips

    def read(
        self, workers: tuple[WorkerStats, ...], bad_videos: tuple[BadVideo, ...]
    ) -> StreamStats:
        """The figures so far."""
        elapsed = self.ended - self.began if self.began is not None and self.batches else 0.0
        rate = self.clips / elapsed if elapsed > 0 else 0.0
        wait_share = min(1.0, self.waited_s / elapsed) if elapsed > 0 else 0.0
        return StreamStats(
            self.batches, self.clips, rate, wait_share, self.copied, workers, bad_videos,
            _verdict(self.batches, wait_share, len(workers)),
        )  # fmt: skip


def _verdict(batches: int, wait_share: float, workers: int) -> str:
    if not batches:
        return "nothing was read yet"
    if wait_share <= _LITTLE_WAITING:
        return f"decoding keeps up: the trainer waited {wait_share:.0%} of the time"
    return (
        f"the trainer waited {wait_share:.0%} of the time for {workers} worker(s): "
        "more of them would make it faster"
    )
