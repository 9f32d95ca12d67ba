"""Statistics of a worker, a stream and a client: one record of each, for all displays.

WorkerRecord ──> WorkerStats   `Client.workers`, `StreamStats`
StreamRecord ──> StreamStats   `Stream.stats`, and the log at the end of an epoch
both         ──> ClientRecord  /metrics, see `metrics`; shortened: the live page, ``videoload top``
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from videoload.engine.work import NO_WORK, Work
from videoload.errors import BadVideo, count


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """Statistics of one worker.

    Attributes:
        name: ``host:pid``.
        host: Host name that the worker gave.
        pid: Process id on that host.
        clips: Clips that it decoded.
        clips_per_s: Clips per second of decoding. Waiting does not count.
        busy_ratio: Share of its time, 0 to 1, that it decoded. Default 0.
        network_ratio: Share of its time, 0 to 1, that it waited for the network. Default 0.
        state: ``"decoding"``, ``"idle"`` (the default: it has no lease), ``"failing"`` (idle, and
            it has failed but decoded no clip), ``"cannot read"`` (its storage gives nothing), or
            ``"silent"`` (no message for two seconds).
        last_error: Its last failure. Default: none, "".
        file: The file that it decodes, as in the catalog. Default: none, "".
        clip_times: Where the time of its clips goes. Default: zeros.
    """

    name: str
    host: str
    pid: int
    clips: int
    clips_per_s: float
    busy_ratio: float = 0.0
    network_ratio: float = 0.0
    state: str = "idle"
    last_error: str = ""
    file: str = ""
    clip_times: ClipTimes = field(default_factory=lambda: ClipTimes(0, 0, 0, 0, 0, 0, 0, 0))


@dataclass(frozen=True, slots=True)
class ClipTimes:
    """The time of a clip by phase: seconds, averaged over all clips.

    Attributes:
        open: Finding and opening its file.
        index: Reading how many frames the file has, and where they are.
        seek: Seeking to the keyframe before its first frame.
        decode: Decoding, and everything that belongs to no other phase.
        scale: Scaling, cropping and converting its frames.
        transform: The user's function.
        slot: Its worker waited for a lease, because no slot was free.
        wire: Its worker waited for the network, with leases or pixels on their way.
    """

    open: float
    index: float
    seek: float
    decode: float
    scale: float
    transform: float
    slot: float
    wire: float


def clip_times(work: Work) -> ClipTimes:
    """Return the averages of some work."""
    phases = (
        work.open_s, work.index_s, work.seek_s, work.decode_s, work.scale_s, work.transform_s,
        work.free_s, work.wire_s,
    )  # fmt: skip
    return ClipTimes(*(seconds / max(1, work.clips) for seconds in phases))


@dataclass(frozen=True, slots=True)
class SlowFile:
    """A file whose clips take long.

    Attributes:
        path: As in the catalog.
        clips: Clips of it that were decoded.
        clip_s: Seconds per clip.
    """

    path: str
    clips: int
    clip_s: float


@dataclass(frozen=True, slots=True)
class StreamStats:
    """Statistics of a stream. ``print`` shows it in one line.

    ``clips_per_s`` and ``wait_ratio`` cover the time in which the stream was read, over its last
    4,096 batches at most: from a reader's first request until it gets its last batch. A current
    wait counts. A pause between two batches, such as a validation, does not count: it is longer
    than a second and longer than ten times what nine in ten steps take.

    Behind `Stream.dataset` this is the trainer's waiting, in `fit` and in a loop, as long as
    nothing behind it reads ahead. ``prefetch``, ``map`` (which TensorFlow may run in parallel),
    ``num_parallel_calls`` and the iterators of a distribution strategy do read ahead. Then their
    waiting is counted as the trainer's, which waited no longer than that, and maybe less.

    Attributes:
        batches: Batches handed over.
        clips: Clips in them.
        clips_per_s: Clips per second, of all readers together.
        wait_ratio: Share of the time, 0 to 1, that the trainer spent waiting for batches. If
            several threads read, this is their average.
        copied: Batches that were copied because the trainer held nearly all slots.
        workers: The workers connected now, with what they did for this stream.
        bad_videos: The files that could not be decoded, each once.
        verdict: What slows the training down, in plain English, and what would help.
        bottleneck: The same in one word. ``"trainer"``: decoding keeps up. ``"decoding"``: more
            workers would help. ``"storage"``: workers wait for it most of the time, or cannot read
            it. ``"network"``: the link from remote workers is full. ``"workers"``: they are
            missing, lost or idle. ``"function"``: the user's own takes most of the time. "", the
            default: too little was read.
        workers_wanted: Workers like these with which the trainer would wait 5 % of the time at
            most. None, the default, if that is not known.
        utilisation: Share of their time, 0 to 1, that the workers decoded. Default 0.
        steps_per_s: Batches per second. Default 0.
        max_steps_per_s: Batches per second that the trainer would take if it never waited, as
            derived from its steps. Infinity if it only waits. Default 0.
        clip_times: Where the time of a clip goes. Default: zeros.
        slowest_files: Up to 8 files whose clips take longest. Default: none.
        frame_store_hit_ratio: Share, 0 to 1, of the clips whose frames were all in the frame store.
            Default 0.
        frame_store_full_ratio: Share, 0 to 1, of the clips whose videos do not fit into it: they
            are decoded each time. Default 0.
        bad_rows: The rows that could not be decoded, in increasing order: segments or episodes of
            the ``bad_videos``. Each is a position in the stream's catalog, as ``info.video`` is.
            Default: none.
    """

    batches: int
    clips: int
    clips_per_s: float
    wait_ratio: float
    copied: int
    workers: tuple[WorkerStats, ...]
    bad_videos: tuple[BadVideo, ...]
    verdict: str
    bottleneck: str = ""
    workers_wanted: int | None = None
    utilisation: float = 0.0
    steps_per_s: float = 0.0
    max_steps_per_s: float = 0.0
    clip_times: ClipTimes = ClipTimes(0, 0, 0, 0, 0, 0, 0, 0)
    slowest_files: tuple[SlowFile, ...] = ()
    frame_store_hit_ratio: float = 0.0
    frame_store_full_ratio: float = 0.0
    bad_rows: tuple[int, ...] = ()

    def __str__(self) -> str:
        parts = [
            f"{count(self.clips, 'clip')} in {count(self.batches, 'batch', 'es')}",
            f"{self.clips_per_s:.0f} clips/s",
        ]
        if self.workers:
            parts.append(f"{count(len(self.workers), 'worker')} busy {self.utilisation:.0%}")
        if self.frame_store_hit_ratio:
            parts.append(f"{self.frame_store_hit_ratio:.0%} of the clips from the frame store")
        if self.copied:
            parts.append(f"{count(self.copied, 'batch', 'es')} copied")
        if self.bad_videos:
            files, bad = len(self.bad_videos), len(self.bad_rows)
            rows = f" ({count(bad, 'row')})" if bad > files else ""
            parts.append(count(files, "bad video") + rows)
        return f"{', '.join(parts)}. {self.verdict}"


class RootRecord(NamedTuple):
    """The root of a stream's videos. ``error``: why it does not respond now, "" if it does.
    ``unread_s``: for how long no worker could read it."""

    root: str = ""
    error: str = ""
    unread_s: float = 0.0


RESPONDS = RootRecord()


class WorkerRecord(NamedTuple):
    """A connected worker, and its ``work``. ``is_child``: the trainer's process started it.
    ``age_s``: how long it has been connected."""

    name: str
    host: str
    pid: int
    is_child: bool
    state: str
    last_error: str
    work: Work = NO_WORK
    age_s: float = math.inf

    def stats(self, lately: Work | None = None, lately_s: float = 0.0) -> WorkerStats:
        """Return the statistics for display. The ratios cover its work ``lately``, in ``lately_s``
        seconds or since it joined, if given, and else all its work."""
        of, passed_s = self.work, self.work.passed_s
        if lately is not None:
            of, passed_s = lately, min(lately_s, self.age_s)
        busy, wire = (
            min(1.0, seconds / passed_s) if passed_s > 0 else 0.0
            for seconds in (of.busy_s, of.wire_s)
        )
        rate = self.work.clips / self.work.busy_s if self.work.busy_s else 0.0
        fails = self.state == "idle" and self.last_error and not self.work.clips
        state = "failing" if fails else self.state
        return WorkerStats(
            self.name, self.host, self.pid, self.work.clips, rate, busy, wire, state,
            self.last_error, clip_times=clip_times(of),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Totals:
    """What the readers of a stream got since its beginning, and what they waited, in seconds.
    ``first_batch_s``: from the first request to the first batch; None if none was got."""

    batches: int
    clips: int
    blocked_s: float
    first_batch_s: float | None


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """All figures of a stream at one time; ``stats`` may cover less time than ``totals``."""

    stream: int  # its number in the client
    what: str  # its videos and clips, for people
    step: int  # the last one that a reader took, counted over all epochs; -1 before the first
    batches_per_epoch: int
    readers: int
    ready: int  # batches that wait for a reader
    slots: int
    bad: int  # files
    stats: StreamStats
    totals: Totals
    changed: int = 0  # files that became others while it ran
    changed_files: tuple[str, ...] = ()  # the last ones of them
    max_bad: int = 0  # files; more end the stream
    bad_rows: int = 0  # of the catalog, in the bad files
    storage_unavailable_s: float = 0.0  # so long has no worker been able to read the videos


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """What a client does. ``workers`` are connected, and ``more`` of them are not listed;
    ``departed`` have left, and all of them ``decoded`` so many clips. ``refusals``: how often
    workers were refused, by cause; ``refused``: the last ones, and why. ``has_paths``: nothing was
    left out because the asker may not see it."""

    trainer: str
    workers: tuple[WorkerStats, ...]
    streams: tuple[StreamRecord, ...]
    more: int = 0
    refused: tuple[str, ...] = ()
    has_paths: bool = True
    began_s: float = 0.0  # after 1970
    departed: int = 0
    decoded: int = 0
    refusals: dict[str, int] = field(default_factory=dict)
