"""A scheduler with simulated workers, consumers, memory and clock.

Workers may be near or far away, share a line, hang in a clip, crash over it, or lack its file. Each
row of a slot remembers the sample that was written there last. So a batch that is handed over with
a row of another batch, or a slot that is free while a worker may still write there, is found at
once (`Simulation.check`).

    local worker    has a lease ── writes its rows ──> answers, leaves, or is killed
    remote worker   has a lease ────────────────────> answers; the rows are written when that comes
    consumer        waits ──> is handed batches ──> holds their slots ──> gives them back
"""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Any, Literal

from tests.support.desk import SILENCE_S, STALL_S, TICK_S, a_stream, ordinals
from videoload.errors import Fault, VideoloadError
from videoload.plan.batches import Sample
from videoload.plan.plan import Pool
from videoload.scheduler import events
from videoload.scheduler.commands import AddSlots, Command, Grant, Identify, Ready, Stop
from videoload.scheduler.events import Event
from videoload.scheduler.records import ChunkState, LeaseState, Stream, Worker
from videoload.scheduler.scheduler import Scheduler

RESTART_S = 1.0  # how long it takes to replace a worker that died or was killed
OWN, OTHER = 11, 22  # fingerprints of the trainer's own files, and of others

How = Literal["sleeps", "crashes", "endless"]
Line = deque[Callable[[], object]]


@dataclass(eq=False)
class SimulatedWorker:
    """A worker that takes ``clip_s(now)`` for a clip. It works on one lease while others wait."""

    known: Worker
    clip_s: Callable[[float], float]
    away_s: float  # round trip of its messages
    store: str  # the workers that name the same one share it
    leases: list[Grant] = field(default_factory=list)
    begun: float = 0.0
    clips: int = 0
    trip_s: float = 0.0  # what a lease takes beyond its clips
    cut_until: float = 0.0  # until then nothing arrives from it
    sending: int = 0  # its answers that wait for the line
    to: Line = field(default_factory=deque)  # messages that are on their way, in their order
    back: Line = field(default_factory=deque)
    hangs: How | None = None  # hangs in its first lease, and sends nothing any more
    waits: bool = False  # ... because it waits for its storage
    loses: int = 0  # so many messages from now on
    came: int = 0  # the number of its last lease
    done: int = 0  # ... of the last one that it is done with
    lies: Fault | None = None  # says this of the next good clip
    lacks_code: bool = False  # cannot import the functions of streams

    @property
    def name(self) -> str:
        return str(self.known.id)


@dataclass(eq=False)
class Consumer:
    """One pass over a stream."""

    stream: Stream
    steps: range
    step_s: float  # with each batch
    inbox: deque[Ready] = field(default_factory=deque)
    taken: dict[int, None] = field(default_factory=dict)
    waits: bool = True


class Simulation:
    """A scheduler, its workers and its consumers. All remote workers share a line, which carries a
    limited number of clips a second.

    Attributes:
        bad: What these videos do to those that decode them.
        lacks: The videos that workers of these copies do not have.
        taken: Time and reader of each batch that a consumer took.
        samples: Of the batches that were taken.
    """

    def __init__(
        self, *, line: float = math.inf, kill_s: float = STALL_S, kept: float | None = None,
        buckets: Sequence[int] = (), credit: int = 2, videos: int = 800, batch: int = 8,
        grows: bool = False,
        **stream: Any,
    ) -> None:  # fmt: skip
        """``kill_s``: after so long, its supervisor kills a remote worker that hangs. ``kept``:
        hosts keep what they decoded, and such a clip takes this times as long. ``buckets``: equally
        many clips have these frames each, and take as much longer as they are longer. ``stream``:
        as for `a_stream`. If it ``grows``, it has the slots that the workers need."""
        each = videos // max(1, len(buckets))
        pools = {
            frames: Pool(range(each * at, each * (at + 1)), 1) for at, frames in enumerate(buckets)
        }
        self._stream = {
            "videos": videos, "batch": batch, "max_bad": 0.1, "buckets": pools, **stream,
        }  # fmt: skip
        self.table = Scheduler(credit=credit, stall_s=STALL_S, silence_s=SILENCE_S)
        self.now = 0.0
        self.line, self._line_free = line, 0.0
        self.storage_works = True
        self.away: set[Hashable] = set()  # copies whose root is away
        # What the trainer finds when it looks at its own copies.
        self.own: Callable[[int], int | VideoloadError] = lambda video: OWN
        self._credit, self._kept, self._kill_s, self._buckets = credit, kept, kill_s, buckets
        self._grows = grows
        self.streams: dict[int, Stream] = {}
        self._with_function: set[int] = set()  # streams
        self.workers: dict[str, SimulatedWorker] = {}
        self.consumers: dict[int, Consumer] = {}
        self.sent: dict[str, int] = {}  # the number of the last lease, by worker
        self.memory: dict[tuple[int, int], list[Sample | None]] = {}
        self.held: list[tuple[Stream, int, list[Sample | None]]] = []
        self.bad: dict[int, How | Fault] = {}
        self.lacks: dict[str, set[int]] = {}
        self.suspects: dict[int, set[str]] = defaultdict(set)  # who died or was silent at a video
        self.lied_about: set[int] = set()  # or could not be read
        self.met: float | None = None  # when a worker first met a bad video
        self.taken: list[tuple[float, int]] = []
        self.samples: list[Sample] = []
        self.errors: dict[int, VideoloadError] = {}
        self.granted = self.deaths = self.from_store = self.added = 0
        self.stores: dict[str, set[int]] = defaultdict(set)
        self.is_checked = False  # at each event
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()
        self._commands: deque[Command] = deque()
        self._obeying = False
        self.after(TICK_S, self._tick)

    # What happens

    def add_worker(
        self, name: str, clip_s: float | Callable[[float], float], *, local: bool,
        away_s: float = 0.0, copy: Hashable = None, host: Hashable = None, store: str = "",
    ) -> None:  # fmt: skip
        """A worker joins."""
        takes = clip_s if callable(clip_s) else lambda now: clip_s
        known = Worker(name, local=local, joined=self.now, copy=copy, host=host)
        self.workers[name] = SimulatedWorker(known, takes, away_s, store)
        self._tell(events.WorkerJoined(known))
        self._obey()
        # It answers with a heartbeat.
        self.after(away_s, lambda: self._beats(self.workers.get(name)))

    def add_stream(self, number: int, **more: Any) -> Stream:
        stream = self.streams[number] = a_stream(number, **{**self._stream, **more})
        self._with_function |= {number} if stream.function else set()
        self._tell(events.StreamAdded(stream))
        return stream

    def drop_stream(self, number: int) -> None:
        """A stream is dropped: its consumers are gone, or hold batches still."""
        stream = self.streams.pop(number)
        self.errors.pop(number, None)
        self.consumers = {
            reader: consumer for reader, consumer in self.consumers.items()
            if consumer.stream is not stream
        }  # fmt: skip
        self._tell(events.StreamDropped(number))
        self._obey()

    def grow(self, number: int, more: int) -> None:
        """A stream has so many more slots from now on."""
        self._tell(events.SlotsAdded(number, self.streams[number].slots + more))
        self._obey()

    def read(
        self, reader: int = 0, steps: int | range = 10_000, *, stream: int | None = None,
        step_s: float = 0.0,
    ) -> None:  # fmt: skip
        """A consumer begins to read, its own stream if it is not said which."""
        if stream is None:
            stream = self.add_stream(reader).id
        steps = range(steps) if isinstance(steps, int) else steps
        self.consumers[reader] = Consumer(self.streams[stream], steps, step_s)
        self._tell(events.ReaderBegan(stream, reader, steps))
        self._obey()

    def end_reader(self, reader: int) -> None:
        """A consumer reads no further."""
        ended = self.consumers.pop(reader)
        self._tell(events.ReaderEnded(reader))
        self._obey()
        for batch in ended.inbox:
            self._slot_back(ended.stream, batch.slot)

    def run(self, seconds: float) -> float:
        """Let time pass. Returns the clips per second of the second half of it."""
        begun = self.now
        while self._due and self._due[0][0] <= begun + seconds:
            self._next()
        self.now = max(self.now, begun + seconds)
        late = sum(when > begun + seconds / 2 for when, _ in self.taken)
        return float(2 * late * self._stream["batch"] / (seconds or 1))

    def run_until(self, is_so: Callable[[], bool], *, at_most_s: float) -> float:
        """Let time pass until the condition holds. Returns how long that took."""
        begun = self.now
        while not is_so():
            assert self.now <= begun + at_most_s, f"after {at_most_s} s it is not so"
            self._next()
        return self.now - begun

    def sleep(self, seconds: float) -> None:
        """The trainer's process is stopped for a while. The time is the first that it learns of."""
        self.now += seconds
        self._tell(events.Tick())
        self._obey()

    def end_worker(
        self, name: str, *, died: bool = True, returns: bool = False, after_s: float = 0.05
    ) -> None:
        """A worker ends, and another one may take its place."""
        worker = self.workers.pop(name)
        self.deaths += died
        self._suspect(worker)
        self._tell(events.WorkerLeft(name, died))
        self._obey()
        if returns:
            known = worker.known
            again = partial(
                self.add_worker, f"{name}'", worker.clip_s, local=known.local,
                away_s=worker.away_s, copy=known.copy, host=known.host, store=worker.store,
            )  # fmt: skip
            self.after(after_s, again)

    def cut(self, worker: SimulatedWorker, seconds: float) -> None:
        """Nothing arrives from a worker for a while."""
        worker.cut_until = max(worker.cut_until, self.now + seconds)

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

    def after(self, seconds: float, happens: Callable[[], object]) -> None:
        heappush(self._due, (self.now + seconds, next(self._numbers), happens))

    # How workers work

    def _next(self) -> None:
        when, _, happens = heappop(self._due)
        self.now = max(self.now, when)
        happens()
        if self.is_checked:
            self.check()

    def _tick(self) -> None:
        for worker in list(self.workers.values()):
            is_cut = self.now < worker.cut_until
            if is_cut or (worker.hangs is not None and not worker.waits):
                self._suspect(worker)
            elif worker.sending:
                self._tell(events.Heard(worker.name, whole=False))
            else:
                self._beats(worker)
                self._hears_beat(worker)
        self._tell(events.Tick())
        for stream in self.streams.values() if self._grows else ():
            wanted = 8 + 4 * len(self.workers) // stream.batch_clips
            self._tell(events.SlotsAdded(stream.id, max(stream.slots, wanted)))
        self._obey()
        if self.is_checked:
            self._check_nobody_idles()
        self.after(TICK_S, self._tick)

    def _beats(self, worker: SimulatedWorker | None) -> None:
        if worker is not None and self.workers.get(worker.name) is worker:
            storage_s = self.now - worker.begun if worker.waits else 0.0
            file = "/v/a.avi" * worker.waits
            self._tell(
                events.Heartbeat(worker.name, worker.done, storage=file, storage_s=storage_s)
            )
            self._obey()

    def _hears_beat(self, worker: SimulatedWorker) -> None:
        """The trainer's own heartbeat tells which lease was sent last: a worker that did not get it
        joins anew."""
        sent = self.sent.get(worker.name, 0)

        def come() -> None:
            is_here = self.workers.get(worker.name) is worker
            if is_here and worker.came < sent and not worker.leases and worker.hangs is None:
                self.end_worker(worker.name, died=False, returns=True)

        self._send(max(worker.away_s / 2, worker.cut_until - self.now), come, worker.to)

    def _suspect(self, worker: SimulatedWorker) -> None:
        for lease in worker.known.leases.values():
            for video in lease.videos:
                self.suspects[video].add(worker.name)

    def _begin(self, worker: SimulatedWorker) -> None:
        samples = worker.leases[0].samples
        worker.begun = self.now
        if not self.storage_works:
            self._hang(worker, "sleeps", waits=True)
            return
        if worker.known.copy in self.away:
            self.after(0.001, lambda: self._answer(worker, (0, Fault.AWAY)))
            return
        has_function = worker.leases[0].stream in self._with_function
        if worker.lacks_code and has_function:
            self.after(0.001, lambda: self._answer(worker, (0, Fault.CODE)))
            return
        lacks = self.lacks.get(str(worker.known.copy), ())
        for at, sample in enumerate(samples):
            how = Fault.COPY if sample.video in lacks else self.bad.get(sample.video)
            if how is Fault.FUNCTION and not has_function:
                how = None
            if how is None and worker.lies and at == len(samples) // 2:
                worker.lies, how = None, worker.lies
                self.lied_about.add(sample.video)
            if how is not None:
                self.after((at + 1) * worker.clip_s(self.now), partial(self._meet, worker, at, how))
                return
        takes_s = self._clips(worker, samples) * worker.clip_s(self.now) + worker.trip_s
        self.after(takes_s, lambda: self._answer(worker))

    def _clips(self, worker: SimulatedWorker, samples: Sequence[Sample]) -> float:
        """How many clips take as long as these, some of which its host may have kept."""
        if self._buckets:
            plan = self.streams[0].plan
            frames = sum(plan.shape_of(sample).frames for sample in samples)
            return frames * len(self._buckets) / sum(self._buckets)
        if self._kept is None:
            return len(samples)
        store = self.stores[worker.store]
        kept = sum(sample.video in store for sample in samples)
        self.from_store += kept
        store.update(sample.video for sample in samples)
        return len(samples) - kept + kept * self._kept

    def _meet(self, worker: SimulatedWorker, at: int, how: How | Fault) -> None:
        """A worker has met a clip that it cannot decode."""
        self.met = self.now if self.met is None else self.met
        if self.workers.get(worker.name) is not worker:
            return
        if isinstance(how, Fault):
            self._answer(worker, (at, how))
        elif how == "crashes":
            self.end_worker(worker.name, returns=True, after_s=RESTART_S)
        else:
            self._hang(worker, how)

    def _hang(self, worker: SimulatedWorker, how: How, *, waits: bool = False) -> None:
        worker.hangs, worker.waits = how, waits
        since = worker.begun
        if not waits:
            seconds = STALL_S if worker.known.local else self._kill_s
            self.after(seconds, lambda: self._kill(worker, since))

    def _kill(self, worker: SimulatedWorker, since: float) -> None:
        """Kill a worker that has hung since then."""
        is_here = self.workers.get(worker.name) is worker
        if is_here and worker.hangs is not None and worker.begun == since:
            self.end_worker(worker.name, returns=True, after_s=RESTART_S)

    def _answer(self, worker: SimulatedWorker, failed: tuple[int, Fault] | None = None) -> None:
        if self.workers.get(worker.name) is not worker:
            return
        worker.hangs = None
        lease = worker.leases.pop(0)
        worker.clips += len(lease.samples)
        worker.done = lease.lease
        decode_s = self.now - worker.begun
        if worker.known.local:
            self._write(lease, len(lease.samples) if failed is None else failed[0])
        if worker.leases:
            self._begin(worker)
        comes_s = worker.away_s / 2
        if not worker.known.local:
            self._line_free = max(self.now, self._line_free) + len(lease.samples) / self.line
            comes_s += self._line_free - self.now
        if self._loses(worker):
            return
        worker.sending += 1
        self._send(
            max(comes_s, worker.cut_until - self.now),
            lambda: self._take(worker, lease, decode_s, failed),
            worker.back,
        )

    def _loses(self, worker: SimulatedWorker) -> bool:
        lost = worker.loses > 0
        worker.loses -= lost
        return lost

    def _send(self, seconds: float, come: Callable[[], object], line: Line) -> None:
        """What a line carries comes in its order, also if this process has slept meanwhile."""

        def arrive() -> None:
            line.popleft()()

        line.append(come)
        if seconds > 0 or len(line) > 1:
            self.after(seconds, arrive)
        else:
            arrive()

    def _take(
        self,
        worker: SimulatedWorker,
        lease: Grant,
        decode_s: float,
        failed: tuple[int, Fault] | None,
    ) -> None:
        """An answer comes."""
        worker.sending -= 1
        known = self.table.lease(worker.name, lease.lease)
        if known is not None and failed is not None:
            at, fault = failed
            file = OTHER if fault is Fault.COPY else OWN
            self._tell(events.Failed(known, at, "broken", fault, file))
        elif known is not None:
            if known.is_owed and not worker.known.local:
                self._write(lease, len(lease.samples))
            info = ordinals(lease.samples)
            self._tell(events.Answered(known, info, decode_s, files=lease.files or ()))
        else:
            self._tell(events.Heard(worker.name))
        self._obey()

    def _write(self, lease: Grant, clips: int) -> None:
        for row, sample in zip(lease.rows[:clips], lease.samples, strict=False):
            self.memory[lease.stream, lease.slot][row] = sample

    # Commands

    def _tell(self, event: Event) -> None:
        self._commands += self.table.apply(event, self.now)

    def _obey(self) -> None:
        """Carry out all commands in order, and after them those that follow, as the engine does."""
        while self._commands and not self._obeying:
            self._obeying = True
            try:
                self._carry_out(self._commands.popleft())
            finally:
                self._obeying = False

    def _carry_out(self, command: Command) -> None:
        match command:
            case Grant():
                if (worker := self.workers.get(str(command.worker))) is not None:
                    self._grant(worker, command)
            case Ready():
                self._ready(command)
            case AddSlots():
                self.added += command.slots
            case Identify():
                self.after(0.1, partial(self._identified, command))
            case Stop():
                self.errors[command.stream] = command.error

    def _identified(self, asked: Identify) -> None:
        """The trainer's own copies were looked at."""
        for video in asked.videos:
            found = self.own(video)
            if not isinstance(found, int):
                self.lied_about.add(video)
            self._tell(events.Identified(asked.stream, {video: found}))
        self._obey()

    def _grant(self, worker: SimulatedWorker, lease: Grant) -> None:
        held = len(worker.known.leases)
        assert held <= self._credit + worker.known.pace.extra_credit
        assert lease.stream not in self.errors
        self.granted += len(lease.samples)
        self.sent[worker.name] = lease.lease
        self._note_slot(self.streams[lease.stream], lease.slot)
        if self._loses(worker):
            return

        def bring() -> None:
            worker.leases.append(lease)
            worker.came = lease.lease
            if len(worker.leases) == 1:
                self._begin(worker)

        self._send(max(worker.away_s / 2, worker.cut_until - self.now), bring, worker.to)

    def _note_slot(self, stream: Stream, slot: int) -> None:
        if (stream.id, slot) not in self.memory:
            self.memory[stream.id, slot] = [None] * len(stream.plan[0])

    def _ready(self, batch: Ready) -> None:
        consumer = self.consumers[batch.reader]
        stream = consumer.stream
        self._note_slot(stream, batch.slot)  # all clips of the first batch in it may be bad
        rows = range(len(batch.samples)) if batch.rows is None else batch.rows
        assert [self.memory[stream.id, batch.slot][row] for row in rows] == [*batch.samples]
        assert batch.info[: len(rows)].tolist() == ordinals(batch.samples).tolist()
        planned = stream.plan[batch.step]
        if not stream.quarantine.skips:
            assert len(batch.samples) == len(planned)
            for sample, at in zip(batch.samples, planned, strict=True):
                chain = at
                while chain != sample:  # each sample before it is known to be bad
                    assert chain.video in stream.quarantine.reasons
                    chain = stream.plan.substitute(chain)
        left_out = {sample.origin for sample in planned} - {s.origin for s in batch.samples}
        assert all(s.video in stream.quarantine.reasons for s in planned if s.origin in left_out)
        consumer.inbox.append(batch)
        self._take_batch(batch.reader)

    # Consumers

    def _want(self, reader: int) -> None:
        if reader in self.consumers and self.consumers[reader].waits:
            self._tell(events.BatchWanted(reader))
            self._obey()

    def _take_batch(self, reader: int) -> None:
        consumer = self.consumers[reader]
        if not (consumer.waits and consumer.inbox):
            return
        batch, consumer.waits = consumer.inbox.popleft(), False
        if consumer.stream.ordered:
            assert batch.step == consumer.steps.start + len(consumer.taken)
        assert batch.step in consumer.steps
        assert batch.step not in consumer.taken
        consumer.taken[batch.step] = None
        self.taken.append((self.now, reader))
        self.samples += batch.samples
        blank: list[Sample | None] = [None] * len(consumer.stream.plan[0])  # all were left out
        rows = self.memory.setdefault((consumer.stream.id, batch.slot), blank)
        held = (consumer.stream, batch.slot, [*rows])
        self.held.append(held)
        self._send(consumer.step_s, lambda: self._trained(reader, held), deque())

    def _trained(self, reader: int, held: tuple[Stream, int, list[Sample | None]]) -> None:
        """The consumer is done with a batch."""
        self.held.remove(held)
        stream, slot, rows = held
        assert self.memory[stream.id, slot] == rows, "nobody writes into what a consumer holds"
        self._slot_back(stream, slot)
        if reader in self.consumers:
            self.consumers[reader].waits = True
            self._take_batch(reader)
            self._want(reader)

    def _slot_back(self, stream: Stream, slot: int) -> None:
        self.memory[stream.id, slot] = [None] * len(self.memory[stream.id, slot])
        self._tell(events.SlotBack(stream.id, slot))
        self._obey()

    # What must always hold

    def check(self) -> None:
        """Each slot is in one place. Nobody may write where others write or read. Nothing is bad
        without a reason."""
        known = [worker.known for worker in self.workers.values()]
        for worker in known:
            is_void = [lease.state is LeaseState.VOID for lease in worker.leases.values()]
            assert not (worker.local and any(is_void)), "it may still write"
        for stream in self.streams.values():
            given = [slot for held, slot, _ in self.held if held is stream]
            for consumer in self.consumers.values():
                given += [b.slot for b in consumer.inbox if consumer.stream is stream]
            landing = {
                lease.slot for worker in known for lease in worker.leases.values()
                if lease.stream == stream.id and lease.state is LeaseState.LANDING
            }  # fmt: skip
            slots, free = [*stream.free, *given, *landing], [*stream.free]
            for reader in stream.readers.values():
                batches = [*reader.filling.values(), *reader.complete.values()]
                slots += [*reader.free, *(batch.slot for batch in batches)]
                free += reader.free
                rest = [each for each in stream.readers.values() if each is not reader]
                assert all(reader.owned.isdisjoint(each.owned) for each in rest)
            assert sorted(slots) == list(range(stream.slots))
            written = Counter(
                (lease.slot, row) for worker in self.workers.values() if worker.known.local
                for lease in worker.leases if lease.stream == stream.id for row in lease.rows
            )  # fmt: skip
            assert max(written.values(), default=1) == 1, "one writes into a row"
            others = {
                (lease.slot, row) for worker in known if not worker.local
                for lease in worker.leases.values() if lease.is_owed and lease.stream == stream.id
                for row in lease.rows
            }  # fmt: skip
            assert not others & {*written}, "the answer of another would count"
            assert not {slot for slot, _ in written} & {*free, *given}
            for video in stream.quarantine.reasons:
                is_told = video in self.bad or video in self.lied_about
                assert is_told or len(self.suspects[video]) >= 3

    def _check_nobody_idles(self) -> None:
        """No worker has nothing to do while there are clips for it, and none has credit while
        there are clips that prefer its host, except slow ones."""
        pool = self.table.pool
        tried = [w for w in pool.idle if self.table.roots.may_try("", w.copy, self.now)]
        idle = [w for w in tried if not pool.is_slow(w)]
        readers = [each for stream in self.streams.values() for each in stream.readers.values()]
        takers = [w for w in pool.available if self.table.roots.may_try("", w.copy, self.now)]
        hosts = {worker.host for worker in takers if not pool.is_slow(worker)}
        if pool.affinity.has_choice and not any(each.suspects for each in readers):
            for each in readers:
                assert each.stream.files is not None or not hosts & each.by_host.keys()
        for stream in self.streams.values():
            for reader in stream.readers.values():
                if stream.ended or not idle or stream.files is not None:
                    continue
                left = [
                    chunk for _, _, chunk in reader.requeued
                    if chunk.state is ChunkState.WAITING and not chunk.attempts
                ]  # fmt: skip
                assert not any((left, reader.splitting, reader.can_open))

    def finish(self) -> None:
        """All consumers get what they wait for, and nothing is left behind."""
        for reader in list(self.consumers):
            self.end_reader(reader)
        while self.held:
            self._trained(-1, self.held[0])
        for name in list(self.workers):
            self.end_worker(name, died=False)
        for stream in self.streams.values():
            assert sorted(stream.free) == list(range(stream.slots))
