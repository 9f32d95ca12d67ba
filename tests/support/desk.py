"""A scheduler with a clock, in short words: what happens, and what is so afterwards."""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from videoload.activity import Activity
from videoload.catalog.catalog import Catalog
from videoload.clips.sample_spec import Shape
from videoload.errors import Fault, VideoloadError
from videoload.plan.batches import Sample
from videoload.plan.options import checked_options
from videoload.plan.plan import Plan, Pool
from videoload.plan.quarantine import Quarantine
from videoload.scheduler import events
from videoload.scheduler.commands import Command, Grant, Identify, Ready, Stop
from videoload.scheduler.events import Event
from videoload.scheduler.records import Stream, Worker
from videoload.scheduler.scheduler import Scheduler

STALL_S, SILENCE_S = 10.0, 2.0
TICK_S = 0.25

C = TypeVar("C")


def a_stream(
    number: int, *, videos: int = 400, batch: int = 4, shuffle: bool = False, clips: int = 1,
    on_error: Any = "substitute", max_bad: float = 0.01, ordered: bool = True, slots: int = 8,
    buckets: Mapping[int, Pool] = MappingProxyType({}), rows: int = 1,
    frame_s: float = math.inf, **more: Any,
) -> Stream:  # fmt: skip
    """A stream of the scheduler. Video 5 is ``5.avi``; or 5 modulo the number of files, where
    each file has several ``rows``. ``frame_s``: how long a frame takes, infinity if not known."""
    options = checked_options(
        batch,
        shuffle=shuffle,
        drop_remainder=False,
        ordered=ordered,
        on_error=on_error,
        max_bad=max_bad,
    )
    pools = {Shape(frames): pool for frames, pool in buckets.items()}
    plan = Plan(videos, clips, options, buckets=pools or None)
    names = [f"{video % (videos // rows)}.avi" for video in range(videos)]
    catalog = Catalog(names, [0] * videos, ["class"], duplicates=rows > 1)
    quarantine = Quarantine(catalog, plan, options)
    return Stream(
        number, plan, quarantine, slots=slots, ordered=ordered, frame_s=frame_s, **more
    )  # fmt: skip


def ordinals(samples: Iterable[Sample]) -> npt.NDArray[np.int64]:
    """The frames that a decoder would answer with; here the sample's number and its attempt."""
    return np.array([(s.origin, s.substitution) for s in samples], np.int64).reshape(-1, 2)


@dataclass(frozen=True)
class PlayedWorker:
    """A worker, as `Desk.join` takes it: see `Worker` for what is said of it."""

    name: str
    is_local: bool = False
    host: str | None = None
    copy: str | None = None
    fetches: bool = False


def local(name: str, host: str | None = None) -> PlayedWorker:
    """A worker that the trainer started: it writes into shared memory, and can be waited for."""
    return PlayedWorker(name, is_local=True, host=host)


def remote(
    name: str, *, copy: str | None = None, host: str | None = None, fetches: bool = False
) -> PlayedWorker:
    """A worker that has dialled in. ``copy``: of the videos that it reads; None is the trainer's
    own. ``fetches``: they are on another host."""
    return PlayedWorker(name, False, host, copy, fetches)


def name_of(worker: PlayedWorker | str) -> str:
    return worker if isinstance(worker, str) else worker.name


class Desk:
    """Stream 0 is not shuffled and has eight slots for batches of four, and it is known how long
    its clips take; more options are those of `a_stream`. With ``steps``, reader 10 begins with them
    once the workers are here.

    A worker is given as `local` or `remote`; a name alone is a remote one that reads the trainer's
    own copy. Later it is named. What may happen to it in turn is in `tests.support.stories`.

    Attributes:
        said: All commands but `Grant`, `Ready` and `Identify` that were not looked at yet.
        asked: The videos that `Identify` asked for, all of them.
        ready: What the readers were given, by reader and step.
        leases: What each worker was granted and did not answer.
    """

    def __init__(
        self, *workers: PlayedWorker | str, credit: int = 2, steps: int | range = 0,
        storage_timeout_s: float | None = None, **stream: Any,
    ) -> None:  # fmt: skip
        self.table = Scheduler(
            credit=credit, stall_s=STALL_S, silence_s=SILENCE_S, storage_timeout_s=storage_timeout_s
        )
        self.now = 0.0
        self.said: list[Command] = []
        self.asked: list[int] = []
        self.ready: dict[tuple[int, int], Ready] = {}
        self.leases: dict[Hashable, list[Grant]] = defaultdict(list)
        self.workers: dict[str, Worker] = {}
        self.hung: set[str] = set()  # workers that send no heartbeats, in stories
        self.streams: dict[int, Stream] = {}
        self.stream(0, **stream)
        self.join(*workers)
        if steps:
            self.start(steps=steps)

    # What happens

    def stream(self, number: int, **stream: Any) -> None:
        self.streams[number] = a_stream(number, **{"frame_s": 0.001, **stream})
        self.tell(events.StreamAdded(self.streams[number]))

    def join(self, *workers: PlayedWorker | str) -> None:
        for worker in workers:
            each = PlayedWorker(worker) if isinstance(worker, str) else worker
            self.workers[each.name] = Worker(
                each.name,
                local=each.is_local,
                joined=self.now,
                copy=each.copy,
                host=each.host,
                fetches=each.fetches,
            )
            self.tell(events.WorkerJoined(self.workers[each.name]))

    def start(self, reader: int = 10, *, steps: int | range = 100, stream: int = 0) -> None:
        steps = range(steps) if isinstance(steps, int) else steps
        self.tell(events.ReaderBegan(stream, reader, steps))

    def want(self, reader: int = 10) -> None:
        self.tell(events.BatchWanted(reader))

    def end(self, reader: int = 10) -> None:
        self.tell(events.ReaderEnded(reader))

    def slot_back(self, *steps: int, reader: int = 10, stream: int = 0) -> None:
        """The consumer is done with these batches."""
        for step in steps:
            self.tell(events.SlotBack(stream, self.ready[reader, step].slot))

    def answer(self, *workers: str, clip_s: float = 0.0, waited_s: float = 0.0) -> None:
        """Each worker has decoded what it was granted first, in ``clip_s`` seconds a clip."""
        for worker in workers:
            self.answer_lease(self.leases[worker][0], clip_s, waited_s)

    def answer_lease(self, lease: Grant, clip_s: float = 0.0, waited_s: float = 0.0) -> None:
        if lease in self.leases[lease.worker]:
            self.leases[lease.worker].remove(lease)
        if (known := self.table.lease(lease.worker, lease.lease)) is not None:
            decode_s = clip_s * len(lease.samples)
            info, files = ordinals(lease.samples), lease.files or ()
            self.tell(events.Answered(known, info, decode_s, waited_s, files))

    def answer_all(self, *workers: str, clip_s: float = 0.0) -> list[Grant]:
        """These workers, or all of them, answer all leases, and those that follow from that."""
        done = []
        while open_leases := [
            lease for worker in workers or [*self.leases] for lease in self.leases[worker]
        ]:
            done.append(min(open_leases, key=lambda lease: lease.lease))
            self.answer_lease(done[-1], clip_s)
        return done

    def fail(
        self, *workers: str, at: int = 0, fault: Fault = Fault.VIDEO, file: int = 0,
        reason: str = "broken",
    ) -> None:  # fmt: skip
        """Each worker cannot decode clip ``at`` of what it was granted first."""
        for worker in workers:
            self.fail_lease(self.leases[worker][0], at, fault, file, reason)

    def fail_lease(
        self, lease: Grant, at: int = 0, fault: Fault = Fault.VIDEO, file: int = 0,
        reason: str = "broken",
    ) -> None:  # fmt: skip
        if lease in self.leases[lease.worker]:
            self.leases[lease.worker].remove(lease)
        if (known := self.table.lease(lease.worker, lease.lease)) is not None:
            self.tell(events.Failed(known, at, reason, fault, file))

    def leave(self, *workers: str, died: bool = False, at_work: int | None = None) -> None:
        for worker in workers:
            self.leases.pop(worker, None)
            self.tell(events.WorkerLeft(worker, died, at_work))

    def die(self, *workers: str, at_work: int | None = None) -> None:
        self.leave(*workers, died=True, at_work=at_work)

    def kill(self, *workers: PlayedWorker | str) -> None:
        """One after the other, these workers come, begin with what is first in line, and die."""
        for worker in workers:
            self.join(worker)
            self.die(name_of(worker))

    def heard(self, *workers: str) -> None:
        for worker in workers:
            assert self.table.pool.get(worker) is not None
            self.tell(events.Heard(worker))

    def beat(
        self, *workers: str, done: int = 0, at: Activity = Activity.IDLE, storage: str = "",
        storage_s: float = 0.0,
    ) -> None:  # fmt: skip
        for worker in workers:
            assert self.table.pool.get(worker) is not None
            self.tell(events.Heartbeat(worker, done, at, storage, storage_s))

    def wait(self, seconds: float, *beating: str) -> None:
        """Time passes, in ticks of a quarter of a second. These workers send heartbeats, others do
        not."""
        for _ in range(round(seconds / TICK_S)):
            self.now += TICK_S
            self.heard(*beating)
            self.tell(events.Tick())

    def identified(self, *videos: int, file: int) -> None:
        """The trainer's own copies of these videos were looked at."""
        for video in videos:
            self.tell(events.Identified(0, {video: file}))

    def unread(self, *videos: int, error: VideoloadError) -> None:
        for video in videos:
            self.tell(events.Identified(0, {video: error}))

    # What is so

    def owes(self, worker: str) -> list[list[int]]:
        """The videos of each lease of a worker whose answer counts."""
        return [
            [sample.video for sample in lease.samples]
            for lease in self.leases[worker]
            if not self.is_void(lease)
        ]

    def is_void(self, lease: Grant) -> bool:
        known = self.table.lease(lease.worker, lease.lease)
        return known is None or not known.is_owed

    @property
    def granted(self) -> list[Grant]:
        """All that was granted and not answered, as it was granted."""
        leases = [lease for held in self.leases.values() for lease in held]
        return sorted(leases, key=lambda lease: lease.lease)

    @property
    def bad(self) -> list[str]:
        return [video.path for video in self.streams[0].quarantine.videos]

    def steps(self, reader: int = 10) -> list[int]:
        """The steps that a reader was given, in this order."""
        return [step for who, step in self.ready if who == reader]

    def take(self, kind: type[C]) -> list[C]:
        """What was said of this kind since the last call."""
        taken: list[C] = [command for command in self.said if isinstance(command, kind)]
        self.said = [command for command in self.said if not isinstance(command, kind)]
        return taken

    def error(self) -> VideoloadError | None:
        """What the stream was stopped with, if it was."""
        stops = self.take(Stop)
        assert len(stops) < 2
        return stops[0].error if stops else None

    def tell(self, event: Event) -> None:
        for command in self.table.apply(event, self.now):
            if isinstance(command, Grant):
                self.leases[command.worker].append(command)
            elif isinstance(command, Ready):
                told = command.info.reshape(-1, 2)
                assert np.array_equal(told, ordinals(command.samples))
                assert (command.reader, command.step) not in self.ready
                self.ready[command.reader, command.step] = command
            elif isinstance(command, Identify):
                self.asked += command.videos
            else:
                self.said.append(command)
