"""A lease table with simulated workers of known speed and a simulated clock.

Workers may be near or far away, share a line, hang in a clip or crash over it. Consumers take each
batch as soon as it is ready.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Literal

import numpy as np

from videoload.catalog.catalog import Catalog
from videoload.leases.commands import AskStorage, Evict, Grant, Ready
from videoload.leases.records import Stream, Worker
from videoload.leases.silence import Look
from videoload.leases.table import LeaseTable
from videoload.plan.options import StreamOptions
from videoload.plan.plan import Plan, Pool, Sample
from videoload.plan.quarantine import Quarantine

STALL_S, SILENCE_S = 10.0, 2.0
BEAT_S = 0.25
RESTART_S = 1.0  # how long it takes to replace a worker that died or was killed
CLIP_BYTES = 2_400_000

How = Literal["sleeps", "crashes", "endless"]


@dataclass(eq=False)
class SimulatedWorker:
    """A worker that takes ``clip_s(now)`` for a clip. It works on one lease while others wait."""

    name: str
    local: bool
    clip_s: Callable[[float], float]
    copy: str | None = None
    leases: list[Grant] = field(default_factory=list)
    begun: float = 0.0
    frames: int = 0
    clips: int = 0
    trip_s: float = 0.0  # what a lease takes beyond its clips
    cut_until: float = 0.0  # until then nothing arrives from it
    away_s: float = 0.0  # round trip of its messages
    sending: int = 0  # its answers that wait for the line
    hangs: How | None = None  # hangs in its first lease, and sends nothing any more
    waits: bool = False  # ... because it waits for its storage
    cpu_s: float = 0.0
    host: str | None = None
    store: str = ""  # the workers that name the same one share it


class Simulation:
    """A table, its workers and its consumers. All remote workers share a line, which carries a
    limited number of clips a second."""

    def __init__(
        self, *, ordered: bool = True, batch: int = 8, slots: int = 8, line: float = math.inf,
        kill_s: float = STALL_S, videos: int = 800, shuffle: bool = False,
        kept: float | None = None, step_s: float = 0.0, buckets: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """``kill_s``: after so long, its supervisor kills a remote worker that hangs. ``kept``:
        hosts keep what they decoded, and such a clip takes this times as long. ``buckets``: equally
        many clips have these frames each, and take as much longer as they are longer."""
        self.table = LeaseTable(credit=2, stall_s=STALL_S, silence_s=SILENCE_S)
        self.now = 0.0
        self.workers: dict[str, SimulatedWorker] = {}
        self.taken: list[tuple[float, int]] = []  # time and reader of each
        self.samples: list[Sample] = []  # samples of the batches that were taken
        self._ordered, self._batch, self._slots = ordered, batch, slots
        self._videos = videos
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self.quarantines: dict[int, Quarantine] = {}
        self.bad: dict[int, How] = {}  # what these videos do to their workers
        self.slow: dict[int, float] = {}  # how long these videos keep their workers silent
        self.met: float | None = None  # when a worker first met one of them
        self.storage_works = True
        self.line = line
        self._line_free = self._step_free = 0.0
        self.granted = 0
        self._shuffle, self._kept, self._step_s = shuffle, kept, step_s
        each = videos // max(1, len(buckets))
        self._buckets = {
            frames: Pool(range(each * at, each * (at + 1)), 1) for at, frames in enumerate(buckets)
        }
        self.stores: dict[str, set[int]] = defaultdict(set)
        self.from_store = 0  # clips
        self.deaths = 0
        self._kill_s = kill_s
        self.after(BEAT_S, self._tick)

    # What happens

    def add_worker(
        self,
        name: str,
        clip_s: float | Callable[[float], float],
        *,
        local: bool,
        away_s: float = 0.0,
        copy: str | None = None,
        host: str | None = None,
        store: str = "",
    ) -> None:
        """A worker joins."""
        takes = clip_s if callable(clip_s) else lambda now: clip_s
        self.workers[name] = SimulatedWorker(
            name, local, takes, copy=copy, away_s=away_s, host=host, store=store
        )
        self.table.worker_joined(Worker(name, local=local, joined=self.now, copy=copy, host=host))
        self._obey()

        def greet() -> None:
            self.table.heard(name, self.now, 0)

        self.after(away_s, greet)

    def read(self, reader: int = 0, steps: int = 10_000) -> None:
        """A consumer begins to read a stream of its own."""
        options = StreamOptions(
            self._batch, self._shuffle, 0, (0, 1), False, self._ordered, "substitute", 0.1
        )
        plan = self._plan = Plan(self._videos, 1, options, buckets=self._buckets)
        paths = [f"{i}.avi" for i in range(self._videos)]
        catalog = Catalog(paths, [0] * len(paths), ["class"])
        self.quarantines[reader] = Quarantine(catalog, plan, options)
        self.table.add_stream(Stream(
            reader, plan, self.quarantines[reader],
            slots=self._slots, ordered=self._ordered, clip_bytes=CLIP_BYTES,
        ))  # fmt: skip
        self.table.start_reader(reader, reader, 0, steps)
        self._obey()

    def run(self, seconds: float) -> float:
        """Let time pass. Returns the clips per second of the second half of it."""
        begun = self.now
        while self._due and self._due[0][0] <= begun + seconds:
            self._next()
        self.now = begun + seconds
        late = sum(when > begun + seconds / 2 for when, _ in self.taken)
        return late * self._batch / (seconds / 2)

    def run_until(self, is_so: Callable[[], bool], *, at_most_s: float) -> float:
        """Let time pass until the condition holds. Returns how long that took."""
        begun = self.now
        while not is_so():
            assert self.now <= begun + at_most_s, f"after {at_most_s} s it is not so"
            self._next()
        return self.now - begun

    def end_worker(self, name: str, *, returns: bool = False, after_s: float = 0.05) -> None:
        """A worker dies, and another one may take its place."""
        worker = self.workers.pop(name)
        self.deaths += 1
        self.table.worker_left(name, died=True)
        self._obey()
        if returns:
            again = partial(
                self.add_worker, f"{name}'", worker.clip_s, local=worker.local,
                away_s=worker.away_s, copy=worker.copy, host=worker.host,
                store=worker.store,
            )  # fmt: skip
            self.after(after_s, again)

    def stop_storage(self) -> None:
        """From now on, all workers that begin a lease wait."""
        self.storage_works = False

    def start_storage(self) -> None:
        """All waiting workers continue."""
        self.storage_works = True
        for worker in self.workers.values():
            if worker.waits:
                worker.waits, worker.hangs = False, None
                self._begin(worker)

    def after(self, seconds: float, happens: Callable[[], None]) -> None:
        heappush(self._due, (self.now + seconds, next(self._numbers), happens))

    # How

    def _next(self) -> None:
        self.now, _, happens = heappop(self._due)
        self.table.pool.clock(self.now)
        happens()

    def _tick(self) -> None:
        for worker in list(self.workers.values()):
            worker.cpu_s += BEAT_S if worker.hangs == "endless" else 0.0
            worker.frames += bool(worker.leases)
            if self.now < worker.cut_until or worker.hangs is not None:
                continue
            if worker.sending:
                self.table.pool.sends(worker.name, self.now)
            else:
                self.table.heard(worker.name, self.now, worker.frames)
        for name in self.table.pool.silent():
            worker = self.workers[str(name)]
            self.table.pool.look(name, Look(worker.cpu_s, blocked=worker.waits))
        self.table.tick(self.now)
        self._obey()
        self.after(BEAT_S, self._tick)

    def _begin(self, worker: SimulatedWorker) -> None:
        samples = worker.leases[0].samples
        worker.begun = self.now
        if not self.storage_works:
            self._hang(worker, "sleeps", waits=True)
            return
        found = next((i for i, sample in enumerate(samples) if sample.video in self.bad), None)
        if found is None:
            silent_s = sum(self.slow.get(sample.video, 0.0) for sample in samples)
            worker.hangs = "sleeps" if silent_s else None
            takes_s = self._clips(worker, samples) * worker.clip_s(self.now) + worker.trip_s
            self.after(takes_s + silent_s, lambda: self._answer(worker))
            return
        how = self.bad[samples[found].video]
        self.after(found * worker.clip_s(self.now), lambda: self._meet(worker, how))

    def _clips(self, worker: SimulatedWorker, samples: Sequence[Sample]) -> float:
        """How many clips take as long as these, some of which its host may have kept."""
        if self._buckets:
            frames = sum(map(self._plan.frames_of, samples))
            return frames * len(self._buckets) / sum(self._buckets)
        if self._kept is None:
            return len(samples)
        store = self.stores[worker.store]
        kept = sum(sample.video in store for sample in samples)
        self.from_store += kept
        store.update(sample.video for sample in samples)
        return len(samples) - kept + kept * self._kept

    def _meet(self, worker: SimulatedWorker, how: How) -> None:
        """A worker has met a bad video."""
        self.met = self.now if self.met is None else self.met
        if self.workers.get(worker.name) is not worker:
            return
        if how == "crashes":
            self.end_worker(worker.name, returns=True, after_s=RESTART_S)
        else:
            self._hang(worker, how)

    def _hang(self, worker: SimulatedWorker, how: How, *, waits: bool = False) -> None:
        worker.hangs, worker.waits = how, waits
        since = worker.begun
        if not worker.local:
            self.after(self._kill_s, lambda: self._kill(worker, since))

    def _kill(self, worker: SimulatedWorker, since: float | None = None) -> None:
        """Kill a worker that has hung since then."""
        is_here = self.workers.get(worker.name) is worker
        if is_here and (since is None or (worker.hangs is not None and worker.begun == since)):
            self.end_worker(worker.name, returns=True, after_s=RESTART_S)

    def _answer(self, worker: SimulatedWorker) -> None:
        if self.workers.get(worker.name) is not worker:
            return
        worker.hangs = None
        lease = worker.leases.pop(0)
        worker.clips += len(lease.samples)
        worker.frames += len(lease.samples)
        decode_s = self.now - worker.begun
        if worker.leases:
            self._begin(worker)
        comes_s = worker.away_s / 2
        if not worker.local:
            self._line_free = max(self.now, self._line_free) + len(lease.samples) / self.line
            comes_s += self._line_free - self.now
        comes_s = max(comes_s, worker.cut_until - self.now)
        worker.sending += 1
        if comes_s:
            self.after(comes_s, lambda: self._take(worker, lease, decode_s))
        else:
            self._take(worker, lease, decode_s)

    def _take(self, worker: SimulatedWorker, lease: Grant, decode_s: float) -> None:
        worker.sending -= 1
        self.table.heard(worker.name, self.now)
        frames = np.zeros((len(lease.samples), 2), np.int64)
        if (known := self.table.lease(worker.name, lease.lease)) is not None:
            self.table.answered(known, frames, decode_s)
        self._obey()

    def _bring(self, worker: SimulatedWorker, lease: Grant) -> None:
        worker.leases.append(lease)
        if len(worker.leases) == 1:
            self._begin(worker)

    def _trained(self, batch: Ready) -> None:
        """The consumer is done with a batch."""
        self.table.slot_back(batch.reader, batch.slot)
        self._obey()
        self.table.wanted(batch.reader)
        self._obey()

    def _obey(self) -> None:
        for command in self.table.data_to_send():
            if isinstance(command, Grant):
                worker = self.workers.get(str(command.worker))
                if worker is None:  # it left while the commands were carried out
                    continue
                self.granted += len(command.samples)
                comes_s = max(worker.away_s / 2, worker.cut_until - self.now)
                if comes_s:
                    self.after(comes_s, partial(self._bring, worker, command))
                else:
                    self._bring(worker, command)
            elif isinstance(command, Ready):
                self.taken.append((self.now, command.reader))
                self.samples += command.samples
                self._step_free = max(self.now, self._step_free) + self._step_s
                if self._step_s:
                    self.after(self._step_free - self.now, partial(self._trained, command))
                else:
                    self._trained(command)
            elif isinstance(command, AskStorage) and self.storage_works:
                self.table.pool.storage_answered(command.worker)
            elif isinstance(command, Evict):
                self.after(0.0, partial(self._kill, self.workers[str(command.worker)]))
