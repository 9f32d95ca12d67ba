"""The lease table under whatever may happen, in whatever order.

A `World` plays the engine, workers of both kinds, consumers, and the memory that they share. Every
row of a slot remembers which lease wrote it last: so a batch that is handed over with a row that
was never written, was written for another batch, or may still be written, is found at once.

    local worker    has a lease ── writes rows, at any time ──> answers, leaves, or is killed
    remote worker   has a lease ─────────────────────────────> answers; the engine writes the rows
    consumer        waits ──> is handed batches ──> holds their slots ──> gives them back

The machine plays at random. In the end all play fair, and then every consumer that is still there
must get all of its batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from videoload.catalog import Catalog
from videoload.errors import SpecError, TooManyBadVideos
from videoload.leases import Command, Grant, Kill, LeaseTable, Ready, Recall, Stop
from videoload.plan import Plan, Sample, StreamOptions
from videoload.quarantine import Quarantine

T = TypeVar("T")

STALL_S, SILENCE_S = 10.0, 2.0
MOST_WORKERS, MOST_READERS = 4, 3


class Failure(NamedTuple):
    """A FAILED: which clip of the lease, and whether it was only short."""

    at: int
    dropped: bool


class Nature(NamedTuple):
    """What videos do to those who decode them, by their catalog index."""

    bad: frozenset[int] = frozenset()
    short: frozenset[int] = frozenset()
    deadly: frozenset[int] = frozenset()


@dataclass(eq=False)
class Place:
    """A slot, as the memory itself is."""

    rows: list[tuple[int, Sample] | None]  # lease and sample that wrote it last
    step: int | None = None  # the batch that it is open for
    leases: set[int] = field(default_factory=set)  # granted since it was opened

    def open(self, step: int) -> None:
        self.step = step
        self.leases.clear()

    def close(self) -> None:
        self.step = None


@dataclass(eq=False)
class Stream:
    id: int
    plan: Plan
    quarantine: Quarantine
    nature: Nature
    ordered: bool
    batch: int
    places: list[Place]
    stopped: bool = False


@dataclass(eq=False)
class Reader:
    """A consumer's pass."""

    id: int
    stream: Stream
    steps: range
    inbox: deque[Ready] = field(default_factory=deque)
    taken: list[int] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return len(self.taken) == len(self.steps)


@dataclass(eq=False)
class Fellow:
    """A worker process."""

    name: str
    local: bool
    queue: list[Grant] = field(default_factory=list)  # received and not finished
    sent: list[tuple[Grant, Failure | None]] = field(default_factory=list)  # under way
    old: list[tuple[Grant, Failure | None]] = field(default_factory=list)  # arrived
    alive: bool = True
    silent: bool = False


class Held(NamedTuple):
    """A batch in a consumer's hands."""

    stream: Stream
    slot: int
    rows: tuple[tuple[int, Sample] | None, ...]


def ordinals(samples: tuple[Sample, ...]) -> npt.NDArray[np.int64]:
    """The frames that a decoder answers with: here what the sample is."""
    return np.array([(s.origin, s.attempt) for s in samples], np.int64)


class World:
    """All that is around a lease table."""

    def __init__(self, credit: int) -> None:
        self.credit = credit
        self.table = LeaseTable(credit=credit, stall_s=STALL_S, silence_s=SILENCE_S)
        self.now = 0.0
        self.streams: list[Stream] = []
        self.readers: dict[int, Reader] = {}
        self.workers: dict[str, Fellow] = {}  # those that the table knows
        self.gone: list[Fellow] = []
        self.held: list[Held] = []
        self.names = 0
        self.back_again = False  # a worker was heard of again: it gets leases at the next tick
        self.table.tick(self.now)

    # Streams and consumers

    def add_stream(
        self, *, batch: int, steps: int, slots: int, ordered: bool, nature: Nature, max_bad: float
    ) -> None:
        videos = batch * steps - (batch > 1)  # the last batch is smaller
        options = StreamOptions(batch, True, 0, (0, 1), False, ordered, "substitute", max_bad)
        plan = Plan(videos, 1, options)
        catalog = Catalog([f"v{i}.avi" for i in range(videos)], [0] * videos, ["class"])
        stream = Stream(
            len(self.streams), plan, Quarantine(catalog, plan, options), nature, ordered, batch,
            [Place([None] * batch) for _ in range(slots)],
        )  # fmt: skip
        self.streams.append(stream)
        self.table.add_stream(
            stream.id, plan, stream.quarantine, clip_frames=2, slots=slots, ordered=ordered
        )

    def start(self, stream: Stream, steps: range) -> None:
        self.names += 1
        reader = Reader(self.names, stream, steps)
        self.readers[reader.id] = reader
        self.obey(self.table.start_run(stream.id, reader.id, steps.start, steps.stop))

    def want(self, reader: Reader) -> None:
        self.obey(self.table.wanted(reader.id))

    def take(self, reader: Reader) -> None:
        """The consumer takes a batch that is there."""
        batch = reader.inbox.popleft()
        if reader.stream.ordered:
            assert batch.step == reader.steps.start + len(reader.taken)
        assert batch.step in reader.steps
        assert batch.step not in reader.taken
        reader.taken.append(batch.step)
        rows = tuple(reader.stream.places[batch.slot].rows)
        self.held.append(Held(reader.stream, batch.slot, rows))

    def give_back(self, held: Held) -> None:
        self.held.remove(held)
        place = held.stream.places[held.slot]
        assert tuple(place.rows) == held.rows  # nobody wrote into the consumer's batch
        place.close()
        self.obey(self.table.slot_back(held.stream.id, held.slot))

    def end(self, reader: Reader) -> None:
        del self.readers[reader.id]
        owner = self.table._streams[reader.stream.id].owner
        if owner is not None and owner.id == reader.id:
            self.close_places(reader.stream)
        self.obey(self.table.end_run(reader.id))
        for batch in reader.inbox:
            reader.stream.places[batch.slot].close()
            self.obey(self.table.slot_back(reader.stream.id, batch.slot))

    def close_places(self, stream: Stream) -> None:
        """What is open now was cancelled; what is handed over stays."""
        kept = {held.slot for held in self.held if held.stream is stream}
        kept |= {b.slot for r in self.readers.values() if r.stream is stream for b in r.inbox}
        for slot, place in enumerate(stream.places):
            if slot not in kept:
                place.close()

    # Workers

    def join(self, *, local: bool) -> None:
        self.names += 1
        worker = Fellow(f"{'local' if local else 'remote'}{self.names}", local)
        self.workers[worker.name] = worker
        self.obey(self.table.worker_joined(worker.name, local=local, now=self.now))

    def write(self, lease: Grant, row: int) -> None:
        """A local worker writes one row of a lease that it was given, valid or not."""
        place = self.streams[lease.stream].places[lease.slot]
        place.rows[lease.first + row] = (lease.lease, lease.samples[row])

    def finish(self, worker: Fellow, at: int = 0) -> None:
        """The worker does a lease of its queue and sends its answer, or dies over it."""
        lease = worker.queue.pop(at)
        nature = self.streams[lease.stream].nature
        for row, sample in enumerate(lease.samples):
            if sample.video in nature.deadly:
                worker.queue.insert(0, lease)
                self.die(worker)
                return
            if sample.video in nature.bad | nature.short:
                worker.sent.append((lease, Failure(row, sample.video in nature.short)))
                return
            if worker.local:
                self.write(lease, row)
        worker.sent.append((lease, None))

    def arrive(self, worker: Fellow, answer: tuple[Grant, Failure | None]) -> None:
        """The engine gets an answer, of whomever and whenever."""
        lease, failure = answer
        before = self.table.workers
        if not self.table.heard(worker.name, self.now):
            return
        self.back_again |= self.table.workers > before
        if failure is not None:
            self.obey(
                self.table.failed(
                    worker.name, lease.lease, failure.at, "broken", dropped=failure.dropped
                )
            )
            return
        found = self.table.place(worker.name, lease.lease)
        if found is not None:
            assert found == (lease.stream, lease.slot, lease.first, len(lease.samples))
            if not worker.local:
                for row in range(len(lease.samples)):
                    self.write(lease, row)
        self.obey(self.table.result(worker.name, lease.lease, ordinals(lease.samples)))

    def die(self, worker: Fellow) -> None:
        """A local one is still to be reaped; a remote one cannot be reached any more."""
        worker.alive = False
        if not worker.local:
            self.leave(worker, died=True)

    def leave(self, worker: Fellow, *, died: bool) -> None:
        worker.alive = False
        del self.workers[worker.name]
        self.gone.append(worker)
        self.obey(self.table.worker_left(worker.name, died=died))

    # Time

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for worker in self.workers.values():
            if worker.alive and not worker.silent:
                assert self.table.heard(worker.name, self.now)
        self.obey(self.table.tick(self.now))
        self.back_again = False

    def sleep(self, seconds: float) -> None:
        """This process hears nothing for a while, and learns of the time first."""
        self.now += seconds
        commands = self.table.tick(self.now)
        assert not any(isinstance(command, Kill) for command in commands)
        self.obey(commands)
        self.back_again = False

    # Commands

    def obey(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case Grant():
                    self.granted(command)
                case Ready():
                    self.handed_over(command)
                case Recall():
                    reader = self.readers[command.run]
                    self.close_places(reader.stream)
                    back = [(batch.step, batch.slot) for batch in reader.inbox]
                    reader.inbox.clear()
                    for _, slot in back:
                        reader.stream.places[slot].close()
                    self.obey(self.table.recalled(command.run, back))
                case Kill():
                    worker = self.workers[str(command.worker)]
                    assert worker.local
                    assert worker.silent or not worker.alive
                    worker.alive = False
                case Stop():
                    assert isinstance(command.error, TooManyBadVideos | SpecError)
                    stream = self.streams[command.stream]
                    stream.stopped = True
                    self.close_places(stream)

    def granted(self, lease: Grant) -> None:
        worker = self.workers.get(str(lease.worker))
        if worker is None:  # it left while the commands were obeyed
            return
        stream = self.streams[lease.stream]
        assert not stream.stopped
        [step] = {step_of(stream.plan, sample) for sample in lease.samples}
        place = stream.places[lease.slot]
        if place.step is None:
            place.open(step)
        assert place.step == step
        place.leases.add(lease.lease)
        worker.queue.append(lease)
        assert len(self.table._workers[worker.name].leases) <= self.credit

    def handed_over(self, batch: Ready) -> None:
        reader = self.readers[batch.run]
        stream, place = reader.stream, reader.stream.places[batch.slot]
        assert place.step == batch.step
        planned = stream.plan[batch.step]
        assert len(batch.samples) == len(planned)
        for row, sample in enumerate(batch.samples):
            written = place.rows[row]
            assert written is not None
            assert written[0] in place.leases, "written before the slot was opened"
            assert written[1] == sample
            assert sample.video not in stream.nature.bad | stream.nature.short
            origin = planned[row]
            while origin != sample:  # each one before it in the chain is known not to be had
                assert origin.video in stream.quarantine._avoided
                origin = stream.plan.substitute(origin)
        assert np.array_equal(batch.frames, ordinals(batch.samples))
        reader.inbox.append(batch)

    # What must always hold

    def check_slots(self) -> None:
        """Each slot is in exactly one place."""
        draining: dict[int, list[int]] = {stream.id: [] for stream in self.streams}
        batches = set()
        for worker in self.table._workers.values():
            for lease in worker.leases.values():
                if lease.drains is not None and lease.drains not in batches:
                    batches.add(lease.drains)
                    draining[lease.drains.run.stream.id].append(lease.drains.slot)
        for stream in self.streams:
            known = self.table._streams[stream.id]
            slots = [*known.free, *draining[stream.id]]
            for run in known.runs.values():
                slots += [b.slot for b in [*run.filling.values(), *run.complete.values()]]
            slots += [held.slot for held in self.held if held.stream is stream]
            slots += [b.slot for r in self.readers.values() if r.stream is stream for b in r.inbox]
            assert sorted(slots) == list(range(len(stream.places)))

    def check_writers(self) -> None:
        """Who may write: nobody into what is free or handed over, one into each row."""
        writers: set[tuple[int, int, int]] = set()
        for worker in self.workers.values():
            for lease in worker.queue if worker.local and worker.alive else ():
                rows = {
                    (lease.stream, lease.slot, lease.first + i) for i in range(len(lease.samples))
                }
                assert not rows & writers
                writers |= rows
        slots = {(stream, slot) for stream, slot, _ in writers}
        for stream in self.streams:
            assert not slots & {(stream.id, slot) for slot in self.table._streams[stream.id].free}
        assert not slots & {(held.stream.id, held.slot) for held in self.held}
        for reader in self.readers.values():
            assert not slots & {(reader.stream.id, batch.slot) for batch in reader.inbox}

    def check_nobody_idles(self) -> None:
        """No worker has room for a lease while there is something to decode."""
        workers = self.table._workers.values()
        if self.back_again or all(w.suspect or len(w.leases) >= self.credit for w in workers):
            return
        for stream in self.table._streams.values():
            run = stream.owner
            if run is None or stream.stopped:
                continue
            assert not any(piece in piece.batch.pieces for _, _, piece in run.orphans)
            assert run.cutting is None
            assert not stream.free or not (run.again or run.opened < run.stop)

    # The end

    def play_fair(self) -> None:
        """From now on all do their work; so everybody gets everything."""
        for worker in list(self.workers.values()):
            if not worker.alive or (worker.silent and worker.local):
                self.leave(worker, died=True)
            worker.silent = False
        wanted = sum(len(reader.steps) for reader in self.readers.values())
        for _ in range(60 + 12 * wanted):
            if not any(not r.done and not r.stream.stopped for r in self.readers.values()):
                break
            self.one_fair_turn()
        for reader in list(self.readers.values()):
            if not reader.stream.stopped:
                assert sorted(reader.taken) == list(reader.steps)
            self.end(reader)
        while self.held:
            self.give_back(self.held[0])
        for worker in list(self.workers.values()):
            self.leave(worker, died=False)
        self.check_slots()
        for stream in self.streams:
            assert len(self.table._streams[stream.id].free) == len(stream.places)

    def one_fair_turn(self) -> None:
        for local in (True, False):
            if not any(w.alive and w.local is local for w in self.workers.values()):
                self.join(local=local)
        for reader in list(self.readers.values()):
            if not reader.inbox and not reader.done and not reader.stream.stopped:
                self.want(reader)
        for worker in list(self.workers.values()):
            while worker.alive and worker.queue:
                self.finish(worker)
            while worker.sent and worker.name in self.workers:
                self.arrive(worker, worker.sent.pop(0))
            if not worker.alive and worker.name in self.workers:
                self.leave(worker, died=True)
        for reader in list(self.readers.values()):  # each wakes up before the next tick
            if reader.inbox:
                self.take(reader)
        while self.held:
            self.give_back(self.held[0])
        self.pass_time(0.25)
        self.check()

    def check(self) -> None:
        self.check_slots()
        self.check_writers()
        self.check_nobody_idles()


def step_of(plan: Plan, sample: Sample) -> int:
    """The step that a sample, or what it stands in for, is planned for."""
    for step in range(sample.epoch * len(plan), (sample.epoch + 1) * len(plan)):
        if any(planned.origin == sample.origin for planned in plan[step]):
            return step
    raise AssertionError(sample)


# The machine

PICK = st.integers(0, 11)  # one of several, by its number modulo how many there are
VIDEOS = st.frozensets(st.integers(0, 20), max_size=4)
STREAMS = st.fixed_dictionaries({
    "batch": st.integers(1, 5),
    "steps": st.integers(2, 6),
    "slots": st.integers(2, 4),
    "ordered": st.booleans(),
    "nature": st.just(Nature()) | st.builds(Nature, bad=VIDEOS, short=VIDEOS, deadly=VIDEOS),
    "max_bad": st.sampled_from([1.0, 1.0, 0.0]),
})  # fmt: skip


class Machine(RuleBasedStateMachine):
    """Plays with a `World`."""

    world: World
    lies = 0

    @initialize(
        credit=st.integers(1, 3),
        streams=st.lists(STREAMS, min_size=1, max_size=2),
        workers=st.lists(st.booleans(), min_size=1, max_size=4),
        steps=st.integers(3, 12),
    )
    def begin(
        self, credit: int, streams: list[dict[str, object]], workers: list[bool], steps: int
    ) -> None:
        self.world = World(credit)
        for stream in streams:
            self.world.add_stream(**stream)  # type: ignore[arg-type]
        for local in workers:
            self.world.join(local=local)
        for made in self.world.streams:
            self.world.start(made, range(steps))

    def workers(self) -> list[Fellow]:
        return [worker for worker in self.world.workers.values() if worker.alive]

    def at_work(self) -> list[Fellow]:
        return [worker for worker in self.workers() if worker.queue and not worker.silent]

    def writers(self) -> list[Fellow]:
        return [worker for worker in self.workers() if worker.queue and worker.local]

    def silent(self) -> list[Fellow]:
        return [worker for worker in self.workers() if worker.silent]

    def senders(self) -> list[Fellow]:
        return [w for w in [*self.world.workers.values(), *self.world.gone] if w.sent]

    def readers(self) -> list[Reader]:
        return list(self.world.readers.values())

    # Workers

    @precondition(lambda self: len(self.world.workers) < MOST_WORKERS)
    @rule(local=st.booleans())
    def a_worker_joins(self, local: bool) -> None:
        self.world.join(local=local)

    @precondition(lambda self: self.at_work())
    @rule(pick=PICK, leases=st.integers(1, 4))
    def a_worker_does_its_work(self, pick: int, leases: int) -> None:
        self.works(one_of(self.at_work(), pick), leases)

    def works(self, worker: Fellow, leases: int) -> None:
        for _ in range(leases):
            if worker.alive and worker.queue:
                self.world.finish(worker)
            if worker.sent and worker.name in self.world.workers:
                self.arrives(worker, -1)

    @rule(pick=PICK, local=st.booleans(), turns=st.integers(1, 2))
    def all_but_one_do_their_work(self, pick: int, local: bool, turns: int) -> None:
        self.keep_alive(local=local)
        for _ in range(turns):
            for worker in self.at_work():
                if worker is not one_of(self.workers(), pick):
                    self.works(worker, 2)
            for reader in self.readers():
                while reader.inbox:
                    self.world.take(reader)
                    self.world.give_back(self.world.held[-1])
                self.world.want(reader)
            self.world.pass_time(0.25)

    def keep_alive(self, *, local: bool) -> None:
        """Somebody works, and somebody reads."""
        if len(self.workers()) - len(self.silent()) < 2 and len(self.world.workers) < MOST_WORKERS:
            self.world.join(local=local)
        for reader in self.readers():
            if reader.done:
                self.world.end(reader)
        for stream in self.world.streams:
            if not stream.stopped and not any(r.stream is stream for r in self.readers()):
                self.world.start(stream, range(12))

    @precondition(lambda self: self.at_work())
    @rule(pick=PICK, which=st.sampled_from([0, 0, 1]))
    def a_worker_finishes_a_lease(self, pick: int, which: int) -> None:
        worker = one_of(self.at_work(), pick)
        self.world.finish(worker, which % len(worker.queue))

    @precondition(lambda self: self.at_work() and self.lies < 2)
    @rule(pick=PICK, at=st.integers(-1, 9))
    def a_worker_fails_a_good_clip(self, pick: int, at: int) -> None:
        self.lies += 1
        worker = one_of(self.at_work(), pick)
        worker.sent.append((worker.queue.pop(0), Failure(at, dropped=False)))

    @precondition(lambda self: self.writers())
    @rule(pick=PICK, which=PICK, row=PICK)
    def a_local_worker_writes_a_row(self, pick: int, which: int, row: int) -> None:
        lease = one_of(one_of(self.writers(), pick).queue, which)
        self.world.write(lease, row % len(lease.samples))

    @precondition(lambda self: self.senders())
    @rule(pick=PICK, which=PICK)
    def an_answer_arrives(self, pick: int, which: int) -> None:
        worker = one_of(self.senders(), pick)
        self.arrives(worker, which % len(worker.sent))

    def arrives(self, worker: Fellow, which: int) -> None:
        worker.old.append(worker.sent.pop(which))
        self.world.arrive(worker, worker.old[-1])

    @precondition(lambda self: any(worker.old for worker in self.workers()))
    @rule(pick=PICK, which=PICK)
    def an_answer_arrives_again(self, pick: int, which: int) -> None:
        worker = one_of([worker for worker in self.workers() if worker.old], pick)
        self.world.arrive(worker, one_of(worker.old, which))

    @precondition(lambda self: self.at_work())
    @rule(pick=PICK)
    def a_worker_is_silent(self, pick: int) -> None:
        worker = one_of(self.at_work(), pick)
        worker.silent = True
        for _ in range(45 if worker.local else 9):
            self.world.pass_time(0.25)

    @precondition(lambda self: self.silent())
    @rule(pick=PICK, leases=st.integers(0, 3))
    def a_silent_worker_answers_after_all(self, pick: int, leases: int) -> None:
        worker = one_of(self.silent(), pick)
        worker.silent = False
        self.works(worker, leases)

    @precondition(lambda self: len(self.workers()) > 1)
    @rule(pick=PICK)
    def a_worker_dies(self, pick: int) -> None:
        self.world.die(one_of(self.workers(), pick))

    @precondition(lambda self: any(not w.alive for w in self.world.workers.values()))
    @rule(pick=PICK)
    def a_dead_worker_is_reaped(self, pick: int) -> None:
        dead = [worker for worker in self.world.workers.values() if not worker.alive]
        self.world.leave(one_of(dead, pick), died=True)

    @precondition(lambda self: len(self.workers()) > 1)
    @rule(pick=PICK)
    def a_worker_says_bye(self, pick: int) -> None:
        self.world.leave(one_of(self.workers(), pick), died=False)

    # Time

    @rule(seconds=st.sampled_from([0.25, 0.9, 1.5, 1000.0]))
    def time_passes(self, seconds: float) -> None:
        if seconds < 1:
            self.world.pass_time(seconds)
        else:
            self.world.sleep(seconds)

    # Consumers

    @precondition(lambda self: len(self.world.readers) < MOST_READERS)
    @rule(pick=PICK, start=st.integers(0, 8), count=st.integers(0, 12))
    def a_consumer_starts(self, pick: int, start: int, count: int) -> None:
        stream = one_of(self.world.streams, pick)
        if not stream.stopped:
            self.world.start(stream, range(start, start + count))

    @precondition(lambda self: len(self.readers()) > 1)
    @rule(pick=PICK)
    def a_consumer_waits(self, pick: int) -> None:
        self.world.want(one_of(self.readers(), pick))

    @precondition(lambda self: any(reader.inbox for reader in self.readers()))
    @rule(pick=PICK, batches=st.integers(1, 3), keeps=st.booleans())
    def a_consumer_takes_batches(self, pick: int, batches: int, keeps: bool) -> None:
        reader = one_of([reader for reader in self.readers() if reader.inbox], pick)
        for _ in range(min(batches, len(reader.inbox))):
            self.world.take(reader)
            if not keeps:
                self.world.give_back(self.world.held[-1])

    @precondition(lambda self: self.world.held)
    @rule(pick=PICK)
    def a_consumer_gives_a_slot_back(self, pick: int) -> None:
        self.world.give_back(one_of(self.world.held, pick))

    @precondition(lambda self: len(self.readers()) > 1)
    @rule(pick=PICK)
    def a_consumer_ends(self, pick: int) -> None:
        self.world.end(one_of(self.readers(), pick))

    # What must always hold

    @invariant()
    def all_is_well(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.play_fair()


def one_of(things: Sequence[T], pick: int) -> T:
    return things[pick % len(things)]


TestLeasesAtRandom = Machine.TestCase
TestLeasesAtRandom.settings = settings(
    deadline=None,
    max_examples=200,
    stateful_step_count=60,
    suppress_health_check=[HealthCheck.too_slow],
)
