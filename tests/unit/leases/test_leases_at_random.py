"""The lease table under random events in any order.

A `World` plays the engine, workers of both kinds, consumers, and the memory that they share. Every
row of a slot remembers which lease wrote it last: so a batch that is handed over with a row that
was never written, was written for another batch, or may still be written, is found at once.

    local worker    has a lease ── writes rows, at any time ──> answers, leaves, or is killed
    remote worker   has a lease ─────────────────────────────> answers; the engine writes the rows
    consumer        waits ──> is handed batches ──> holds their slots ──> gives them back

A `Play` lets things happen at random. In the end all play fair, and then every consumer that is
still there must get all of its batches.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.thorough import either, rest_nightly
from videoload.catalog.catalog import Catalog
from videoload.errors import Fault, SpecError, TooManyBadVideos
from videoload.leases import records
from videoload.leases.commands import Command, Evict, Grant, Ready, Recall, Stop
from videoload.leases.records import ChunkState, LeaseState
from videoload.leases.table import LeaseTable
from videoload.plan.options import StreamOptions
from videoload.plan.plan import Plan, Sample
from videoload.plan.quarantine import Quarantine

pytestmark = pytest.mark.timeout(400)  # Hypothesis takes minutes to make a failure short

T = TypeVar("T")

STALL_S, SILENCE_S = 10.0, 2.0
MAX_WORKERS, MAX_READERS = 4, 3


class Failure(NamedTuple):
    """A FAILED: which clip of the lease, and whether it was only short."""

    at: int
    dropped: bool


class Nature(NamedTuple):
    """What videos do to the workers that decode them, by their catalog index."""

    bad: frozenset[int] = frozenset()
    short: frozenset[int] = frozenset()
    deadly: frozenset[int] = frozenset()


@dataclass(eq=False)
class Place:
    """A slot, as it is in memory."""

    rows: list[tuple[int, Sample] | None]  # the lease and sample that wrote it last
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
    """One pass of a consumer."""

    id: int
    stream: Stream
    steps: range
    inbox: deque[Ready] = field(default_factory=deque)
    taken: list[int] = field(default_factory=list)
    asked: bool = False  # it has said that it waits

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
    sentenced: bool = False  # it is to be killed, and may work until then
    clip_s: float = 0.0  # the time for a clip, as it says
    frames: int = 0  # packets decoded so far, as its heartbeats tell
    lost: int = 0  # messages from it or to it that were lost


class Held(NamedTuple):
    """A batch in a consumer's hands."""

    stream: Stream
    slot: int
    rows: tuple[tuple[int, Sample] | None, ...]


def ordinals(samples: tuple[Sample, ...]) -> npt.NDArray[np.int64]:
    """The frames that a decoder would answer with: here the numbers of the sample."""
    return np.array([(s.origin, s.attempt) for s in samples], np.int64)


class World:
    """All that surrounds a lease table."""

    def __init__(self, credit: int, hosts: int) -> None:
        self.credit, self.hosts = credit, hosts
        self.table = LeaseTable(credit=credit, stall_s=STALL_S, silence_s=SILENCE_S)
        self.now = self.ticked = 0.0
        self.streams: list[Stream] = []
        self.readers: dict[int, Reader] = {}
        self.workers: dict[str, Fellow] = {}  # those that the table knows
        self.gone: list[Fellow] = []
        self.held: list[Held] = []
        self.names = 0
        self.commands: deque[Command] = deque()
        self.obeying = False
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
        self.table.add_stream(records.Stream(
            stream.id, plan, stream.quarantine, slots=slots, ordered=ordered
        ))  # fmt: skip

    def start(self, stream: Stream, steps: range) -> None:
        self.names += 1
        reader = Reader(self.names, stream, steps)
        self.readers[reader.id] = reader
        self.table.start_reader(stream.id, reader.id, steps.start, steps.stop)
        self.obey()

    def want(self, reader: Reader) -> None:
        reader.asked = True
        self.table.wanted(reader.id)
        self.obey()

    def take(self, reader: Reader) -> None:
        """The consumer takes a batch that is there."""
        batch = reader.inbox.popleft()
        reader.asked = False
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
        self.table.slot_back(held.stream.id, held.slot)
        self.obey()

    def end(self, reader: Reader) -> None:
        del self.readers[reader.id]
        owner = self.table._streams[reader.stream.id].owner
        if owner is not None and owner.id == reader.id:
            self.close_places(reader.stream)
        self.table.end_reader(reader.id)
        self.obey()
        for batch in reader.inbox:
            reader.stream.places[batch.slot].close()
            self.table.slot_back(reader.stream.id, batch.slot)
            self.obey()

    def close_places(self, stream: Stream) -> None:
        """Open batches were cancelled. Batches that were handed over stay."""
        kept = {held.slot for held in self.held if held.stream is stream}
        kept |= {b.slot for r in self.readers.values() if r.stream is stream for b in r.inbox}
        for slot, place in enumerate(stream.places):
            if slot not in kept:
                place.close()

    # Workers

    def join(self, *, local: bool, clip_s: float = 0.01) -> None:
        self.names += 1
        worker = Fellow(f"{'local' if local else 'remote'}{self.names}", local, clip_s=clip_s)
        self.workers[worker.name] = worker
        host = self.names % self.hosts
        self.table.worker_joined(
            records.Worker(worker.name, local=local, joined=self.now, host=host)
        )
        self.obey()

    def write(self, lease: Grant, row: int) -> None:
        """A local worker writes one row of a lease that it was granted, void or not."""
        place = self.streams[lease.stream].places[lease.slot]
        place.rows[lease.rows[row]] = (lease.lease, lease.samples[row])

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
        """The engine gets an answer of any worker at any time."""
        lease, failure = answer
        before = self.table.pool.taking
        if not self.table.heard(worker.name, self.now):
            return
        self.back_again |= self.table.pool.taking > before
        found = self.table.lease(worker.name, lease.lease)
        if failure is not None:
            if found is not None:
                fault = Fault.SHORT if failure.dropped else Fault.VIDEO
                self.table.failed(found, failure.at, "broken", fault)
                self.obey()
            return
        if found is None:
            return
        if found.is_owed:
            assert (found.stream, found.slot, found.rows) == (lease.stream, lease.slot, lease.rows)
            if not worker.local:
                for row in range(len(lease.samples)):
                    self.write(lease, row)
        decode_s = worker.clip_s * len(lease.samples)
        self.table.answered(found, ordinals(lease.samples), decode_s)
        self.obey()

    def come_back(self, worker: Fellow) -> None:
        """A remote worker was only cut off, and says HELLO again."""
        self.gone.remove(worker)
        self.table.worker_returned(worker.name)
        self.join(local=False)

    def die(self, worker: Fellow) -> None:
        """A local worker is still to be reaped. A remote one cannot be reached any more."""
        worker.alive = False
        if not worker.local:
            self.leave(worker, died=True)

    def leave(self, worker: Fellow, *, died: bool) -> None:
        worker.alive = False
        del self.workers[worker.name]
        self.gone.append(worker)
        self.table.worker_left(worker.name, died=died)
        self.obey()

    # Time

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for worker in self.workers.values():
            if worker.alive and not worker.silent and not worker.sent:  # answers come before beats
                worker.frames += bool(worker.queue)  # it is at work
                assert self.table.heard(worker.name, self.now, worker.frames)
        self.ticked = self.now
        self.table.tick(self.now)
        self.obey()
        self.back_again = False

    def sleep(self, seconds: float) -> None:
        """This process is stopped for a while. Time is the first that it learns of. It counts for
        one second at most."""
        known = [found for name in self.workers if (found := self.table.pool.get(name)) is not None]
        late = {worker.id for worker in known if worker.still.seconds >= STALL_S - SILENCE_S / 2}
        self.now += seconds
        self.ticked = self.now
        self.table.tick(self.now)
        ended = {each.worker for each in self.table._outbox if isinstance(each, Evict)}
        assert ended <= late
        self.obey()
        self.back_again = False

    # Commands

    def obey(self) -> None:
        """Carry out all commands in order, and after them those that follow, as the engine does."""
        self.commands.extend(self.table.data_to_send())
        while self.commands and not self.obeying:
            self.obeying = True
            try:
                self.carry_out(self.commands.popleft())
            finally:
                self.obeying = False

    def carry_out(self, command: Command) -> None:
        match command:
            case Grant():
                self.granted(command)
            case Ready():
                self.handed_over(command)
            case Recall():
                reader = self.readers[command.reader]
                self.close_places(reader.stream)
                back = [(batch.step, batch.slot) for batch in reader.inbox]
                reader.inbox.clear()
                reader.asked = False  # if it still waits, it says so again
                for _, slot in back:
                    reader.stream.places[slot].close()
                self.table.recalled(command.reader, back)
                self.obey()
            case Evict():
                worker = self.workers[str(command.worker)]
                late = worker.silent or worker.sent or not worker.alive
                assert worker.lost or (worker.local and late)
                if worker.local:
                    worker.sentenced = True
                else:
                    self.leave(worker, died=False)
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
        known = self.table.pool._workers[worker.name]
        assert len(known.leases) <= self.credit + known.pace.on_the_way

    def handed_over(self, batch: Ready) -> None:
        reader = self.readers[batch.reader]
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
            while origin != sample:  # each sample before it in the chain is known to be bad
                assert origin.video in stream.quarantine._avoided
                origin = stream.plan.substitute(origin)
        assert np.array_equal(batch.frames, ordinals(batch.samples))
        reader.inbox.append(batch)

    # What must always hold

    def check_slots(self) -> None:
        """Each slot is in exactly one place."""
        draining: dict[int, list[int]] = {stream.id: [] for stream in self.streams}
        batches = set()
        for worker in self.table.pool._workers.values():
            for lease in worker.leases.values():
                batch = lease.chunk.batch
                if lease.state is LeaseState.LANDING and batch not in batches:
                    batches.add(batch)
                    draining[lease.stream].append(lease.slot)
        for stream in self.streams:
            known = self.table._streams[stream.id]
            slots = [*known.free, *draining[stream.id]]
            for reader in known.readers.values():
                slots += [b.slot for b in [*reader.filling.values(), *reader.complete.values()]]
            slots += [held.slot for held in self.held if held.stream is stream]
            slots += [b.slot for r in self.readers.values() if r.stream is stream for b in r.inbox]
            assert sorted(slots) == list(range(len(stream.places)))

    def check_writers(self) -> None:
        """No worker may write into a slot that is free or handed over. One may write into a row."""
        writers: set[tuple[int, int, int]] = set()
        written: list[Grant] = []
        for worker in self.workers.values():
            written += worker.queue if worker.local and worker.alive else ()
        for lease in written:
            rows = {(lease.stream, lease.slot, row) for row in lease.rows}
            assert not rows & writers
            writers |= rows
        slots = {(stream, slot) for stream, slot, _ in writers}
        for stream in self.streams:
            assert not slots & {(stream.id, slot) for slot in self.table._streams[stream.id].free}
        assert not slots & {(held.stream.id, held.slot) for held in self.held}
        for reader in self.readers.values():
            assert not slots & {(reader.stream.id, batch.slot) for batch in reader.inbox}

    def check_lists(self) -> None:
        """Each worker that takes leases is in its row."""
        for worker in self.table.pool._workers.values():
            listed = [held for held, row in enumerate(self.table.pool._by_leases) if worker in row]
            full = worker in self.table.pool._full
            held = len(worker.leases)
            # A slow worker that has a lease takes no other.
            if worker.is_silent:
                assert (listed, full) == ([], False)
            elif full:
                assert held > worker.pace.on_the_way or (held and worker.on_probation)
            else:
                assert listed == [held]
                assert held < self.credit + worker.pace.on_the_way
        assert self.table.pool.taking == sum(
            not w.is_silent for w in self.table.pool._workers.values()
        )

    def check_nobody_idles(self) -> None:
        """No worker has room for a lease while there are clips to decode, except slow ones."""
        full = self.table.pool._full
        room = [
            worker
            for worker in self.table.pool._workers.values()
            if worker.row is not None and worker.row is not full
            if not self.table.pool.is_slow(worker)
        ]
        accused = [
            chunk
            for stream in self.table._streams.values()
            for reader in ([stream.owner] if stream.owner else [])
            for _, _, chunk in reader.accused
            if chunk.state is ChunkState.WAITING
        ]
        # Who may try one of these is given nothing else before.
        room = [worker for worker in room if not (accused and worker.leases)]
        if self.back_again or not room:
            return
        for stream in self.table._streams.values():
            reader = stream.owner
            if reader is None or stream.stopped:
                continue
            assert not any(
                self.table._blame.may_take(worker, chunk)
                for _, _, chunk in [*reader.orphans, *reader.accused]
                if chunk.state is ChunkState.WAITING
                for worker in room
                if not chunk.blamed or (worker in self.table.pool.reliable and not worker.leases)
            )
            if self.hosts > 1 and all(len(w.leases) > w.pace.on_the_way for w in room):
                continue  # what is left prefers other hosts, and nobody is idle
            assert not reader.splitting
            assert not stream.free or not (reader.again or reader.opened < reader.stop)

    # The end

    def play_fair(self) -> None:
        """From now on all workers work, except silent remote ones. So each consumer gets all its
        batches."""
        for worker in list(self.workers.values()):
            if not worker.alive or worker.sentenced or (worker.silent and worker.local):
                self.leave(worker, died=True)
        wanted = sum(len(reader.steps) for reader in self.readers.values())
        for _ in range(100 + 12 * wanted):
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
            if not any(w.local is local and not w.silent for w in self.workers.values()):
                self.join(local=local)
        for reader in list(self.readers.values()):
            if not (reader.inbox or reader.done or reader.asked or reader.stream.stopped):
                self.want(reader)
        for worker in list(self.workers.values()):
            while worker.alive and worker.queue and not worker.silent:
                self.finish(worker)
            while worker.sent and worker.name in self.workers and not worker.silent:
                self.arrive(worker, worker.sent.pop(0))
            if (worker.sentenced or not worker.alive) and worker.name in self.workers:
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
        self.check_lists()
        self.check_nobody_idles()


def step_of(plan: Plan, sample: Sample) -> int:
    """The step that has this sample, or the one that it stands in for, in the plan."""
    for step in range(sample.epoch * len(plan), (sample.epoch + 1) * len(plan)):
        if any(planned.origin == sample.origin for planned in plan[step]):
            return step
    raise AssertionError(sample)


# Random plays


class Play:
    """A world in which something happens at each `step`. ``draw(n)`` is one of 0..n-1."""

    def __init__(self, draw: Callable[[int], int]) -> None:
        self.draw = draw
        self.lies = 0
        self.world = World(credit=1 + draw(3), hosts=1 + draw(3))
        for _ in range(1 + draw(2)):
            self.world.add_stream(
                batch=1 + draw(5), steps=2 + draw(5), slots=2 + draw(3), ordered=draw(2) == 0,
                nature=Nature() if draw(2) else Nature(*(self.some_videos() for _ in range(3))),
                max_bad=0.0 if draw(4) == 0 else 1.0,
            )  # fmt: skip
        for _ in range(1 + draw(4)):
            self.world.join(local=draw(2) == 0, clip_s=(0.0, 0.01, 0.01, 0.5)[draw(4)])
        # Each play prefers other events, so that rare ones meet each other.
        self.likes = [draw(4) for _ in EVENTS]

    def some_videos(self) -> frozenset[int]:
        return frozenset(self.draw(20) for _ in range(self.draw(4)))

    def one_of(self, things: Sequence[T]) -> T:
        return things[self.draw(len(things))]

    def step(self) -> str:
        """One event. Returns its name."""
        if self.draw(4) == 0:
            event = Play.all_but_one_do_their_work
        else:
            event = EVENTS[self.draw(len(EVENTS))]
            if self.draw(3) >= self.likes[EVENTS.index(event)]:
                event = Play.a_worker_does_its_work
        event(self)
        self.world.check()
        return event.__name__

    def workers(self) -> list[Fellow]:
        return [worker for worker in self.world.workers.values() if worker.alive]

    def at_work(self) -> list[Fellow]:
        return [worker for worker in self.workers() if worker.queue and not worker.silent]

    def readers(self) -> list[Reader]:
        return list(self.world.readers.values())

    # Normal life

    def all_but_one_do_their_work(self) -> None:
        self.keep_alive()
        idle = self.one_of(self.workers()) if self.workers() else None
        for worker in self.at_work():
            if worker is not idle:
                self.work(worker, 2)
        for reader in self.readers():
            while reader.inbox:
                self.world.take(reader)
                self.world.give_back(self.world.held[-1])
            self.world.want(reader)
        self.world.pass_time(0.25)

    def keep_alive(self) -> None:
        """Somebody works, and somebody reads."""
        if len([w for w in self.workers() if not w.silent]) < 2:
            self.a_worker_joins()
        for reader in self.readers():
            if reader.done:
                self.world.end(reader)
        for stream in self.world.streams:
            if not stream.stopped and not any(r.stream is stream for r in self.readers()):
                self.world.start(stream, range(self.draw(3), 5 + self.draw(8)))

    def a_worker_does_its_work(self) -> None:
        if self.at_work():
            self.work(self.one_of(self.at_work()), 1 + self.draw(3))

    def work(self, worker: Fellow, leases: int) -> None:
        for _ in range(leases):
            if worker.alive and worker.queue:
                self.world.finish(worker)
            if worker.sent and worker.name in self.world.workers:
                self.arrive(worker, len(worker.sent) - 1)

    def arrive(self, worker: Fellow, which: int) -> None:
        worker.old.append(worker.sent.pop(which))
        self.hear(worker, worker.old[-1])

    def hear(self, worker: Fellow, answer: tuple[Grant, Failure | None]) -> None:
        self.world.arrive(worker, answer)

    # Workers

    def a_worker_joins(self) -> None:
        if len(self.world.workers) < MAX_WORKERS:
            self.world.join(local=self.draw(2) == 0)

    def a_worker_finishes_a_lease(self) -> None:
        if self.at_work():
            worker = self.one_of(self.at_work())
            self.world.finish(worker, min(self.draw(3) // 2, len(worker.queue) - 1))

    def a_worker_fails_a_good_clip(self) -> None:
        if self.at_work() and self.lies < 2:
            self.lies += 1
            worker = self.one_of(self.at_work())
            worker.sent.append((worker.queue.pop(0), Failure(self.draw(7) - 1, dropped=False)))

    def a_local_worker_writes_a_row(self) -> None:
        writers = [worker for worker in self.workers() if worker.local and worker.queue]
        if writers:
            lease = self.one_of(self.one_of(writers).queue)
            self.world.write(lease, self.draw(len(lease.samples)))

    def an_answer_arrives(self) -> None:
        senders = [w for w in [*self.world.workers.values(), *self.world.gone] if w.sent]
        if senders:
            worker = self.one_of(senders)
            self.arrive(worker, self.draw(len(worker.sent)))

    def an_answer_arrives_again(self) -> None:
        answered = [worker for worker in self.workers() if worker.old]
        if answered:
            worker = self.one_of(answered)
            self.hear(worker, self.one_of(worker.old))

    def a_worker_is_silent(self) -> None:
        if self.at_work():
            worker = self.one_of(self.at_work())
            worker.silent = True
            for _ in range(45 if worker.local else 9):
                self.world.pass_time(0.25)

    def a_silent_worker_answers_after_all(self) -> None:
        silent = [worker for worker in self.workers() if worker.silent]
        if silent:
            worker = self.one_of(silent)
            worker.silent = False
            self.work(worker, self.draw(3))

    def a_worker_dies(self) -> None:
        if self.workers():
            self.world.die(self.one_of(self.workers()))

    def a_dead_worker_is_reaped(self) -> None:
        dead = [w for w in self.world.workers.values() if w.sentenced or not w.alive]
        if dead:
            self.world.leave(self.one_of(dead), died=True)

    def a_worker_says_bye(self) -> None:
        if self.workers():
            self.world.leave(self.one_of(self.workers()), died=False)

    def a_lease_is_lost(self) -> None:
        if self.at_work():
            worker = self.one_of(self.at_work())
            worker.queue.pop(self.draw(len(worker.queue)))
            worker.lost += 1

    def an_answer_is_lost(self) -> None:
        senders = [worker for worker in self.workers() if worker.sent]
        if senders:
            worker = self.one_of(senders)
            worker.sent.pop(self.draw(len(worker.sent)))
            worker.lost += 1

    def a_worker_comes_back(self) -> None:
        cut_off = [worker for worker in self.world.gone if not worker.local]
        if cut_off and len(self.world.workers) < MAX_WORKERS:
            self.world.come_back(self.one_of(cut_off))

    # Time

    def time_passes(self) -> None:
        self.world.pass_time(self.one_of([0.25, 0.9]))

    def much_time_passes(self) -> None:
        for _ in range(25):
            self.world.pass_time(0.25)

    def the_process_sleeps(self) -> None:
        self.world.sleep(self.one_of([1.5, 1000.0]))

    # Consumers

    def a_consumer_starts(self) -> None:
        stream = self.one_of(self.world.streams)
        if not stream.stopped and len(self.world.readers) < MAX_READERS:
            start = self.draw(9)
            self.world.start(stream, range(start, start + self.draw(13)))

    def a_consumer_waits(self) -> None:
        if self.readers():
            self.world.want(self.one_of(self.readers()))

    def a_consumer_takes_batches(self) -> None:
        takers = [reader for reader in self.readers() if reader.inbox]
        if takers:
            reader = self.one_of(takers)
            for _ in range(1 + self.draw(len(reader.inbox))):
                self.world.take(reader)

    def a_consumer_gives_a_slot_back(self) -> None:
        if self.world.held:
            self.world.give_back(self.one_of(self.world.held))

    def a_consumer_ends(self) -> None:
        if self.readers():
            self.world.end(self.one_of(self.readers()))


EVENTS = [
    Play.a_worker_joins,
    Play.a_worker_finishes_a_lease,
    Play.a_worker_finishes_a_lease,
    Play.a_worker_fails_a_good_clip,
    Play.a_local_worker_writes_a_row,
    Play.an_answer_arrives,
    Play.an_answer_arrives,
    Play.an_answer_arrives_again,
    Play.a_worker_is_silent,
    Play.a_silent_worker_answers_after_all,
    Play.a_worker_dies,
    Play.a_dead_worker_is_reaped,
    Play.a_worker_says_bye,
    Play.a_lease_is_lost,
    Play.an_answer_is_lost,
    Play.a_worker_comes_back,
    Play.time_passes,
    Play.much_time_passes,
    Play.the_process_sleeps,
    Play.a_consumer_starts,
    Play.a_consumer_waits,
    Play.a_consumer_takes_batches,
    Play.a_consumer_gives_a_slot_back,
    Play.a_consumer_ends,
]


@pytest.mark.parametrize("seed", rest_nightly(range(10), 4))
def test_whatever_happens_each_consumer_gets_the_right_batches(seed: int) -> None:
    for number in range(30):
        play = Play(random.Random(f"{seed}.{number}").randrange)
        for _ in range(50):
            play.step()
        play.world.play_fair()


def test_the_same_events_lead_to_the_same_decisions() -> None:
    def names(seed: str) -> list[str]:
        play = Play(random.Random(seed).randrange)
        kept.append([object() for _ in range(997)])  # other objects lie at other addresses
        return [play.step() for _ in range(80)]

    kept: list[list[object]] = []
    for number in range(either(15, 40)):
        assert names(f"again {number}") == names(f"again {number}")


class Machine(RuleBasedStateMachine):
    """The same with Hypothesis, which looks for new cases and makes a failure short."""

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.play = Play(lambda n: data.draw(st.integers(0, n - 1)))

    @rule(data=st.data())
    def something_happens(self, data: st.DataObject) -> None:
        self.play.draw = lambda n: data.draw(st.integers(0, n - 1))
        note(self.play.step())

    @invariant()
    def all_is_well(self) -> None:
        if hasattr(self, "play"):
            self.play.world.check()

    def teardown(self) -> None:
        if hasattr(self, "play"):
            self.play.draw = lambda n: 0
            self.play.world.play_fair()


TestLeasesAtRandom = Machine.TestCase
TestLeasesAtRandom.settings = settings(
    deadline=None,
    max_examples=either(20, 50),
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
