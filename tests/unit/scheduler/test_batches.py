"""Which answers count, who may write into a slot, and which reader has which slots."""

from collections import Counter

import pytest

from tests.support.desk import Desk, local, ordinals, remote
from tests.support.simulation import Simulation
from videoload.errors import StorageError, VideoloadError
from videoload.plan.batches import Sample
from videoload.plan.plan import Plan
from videoload.scheduler import events
from videoload.scheduler.commands import AddSlots
from videoload.scheduler.files import Files

# The fence


@pytest.mark.parametrize("ends", ["answers", "dies"])
def test_a_slot_is_not_reused_while_a_local_worker_may_still_write_into_it(ends: str) -> None:
    desk = Desk(local("A"), slots=1, steps=9)
    desk.end()
    desk.start(11, steps=range(5, 9))
    desk.join(local("B"))
    assert desk.owes("A") == desk.owes("B") == []
    desk.answer("A") if ends == "answers" else desk.die("A")
    assert (desk.granted[0].slot, desk.granted[0].samples[0].video) == (0, 20)


# Several streams


def test_the_reader_that_waits_is_served_first_also_for_its_last_batch() -> None:
    desk = Desk(local("A"), credit=1, steps=2)
    desk.stream(1)
    desk.start(20, stream=1)
    desk.answer("A")  # reader 10 has its batch, reader 20 waits
    assert [(lease.stream, lease.slot) for lease in desk.granted] == [(1, 0)]
    desk.want()
    desk.answer("A")
    assert [(lease.stream, lease.slot) for lease in desk.granted] == [(0, 1)]
    desk.leave("A")
    desk.join(local("B"))
    assert [(lease.stream, lease.slot) for lease in desk.granted] == [(0, 1)]


def test_a_dropped_stream_is_forgotten() -> None:
    desk = Desk(local("A"), credit=3, steps=1)
    desk.stream(1)
    desk.start(11, steps=1)
    desk.tell(events.StreamDropped(0))
    desk.start(20, stream=1)
    assert [(g.stream, desk.is_void(g)) for g in desk.granted] == [(0, True), (0, True), (1, False)]
    assert (desk.table.file_of("A"), desk.table.file_of("z")) == ("", "")
    desk.answer("A", "A")
    assert desk.table.file_of("A") == "0.avi", "the path, as the stream names it"
    desk.tell(events.SlotBack(0, 3))
    for reader in (10, 11):
        desk.want(reader)
        desk.end(reader)
    assert {lease.stream for lease in desk.granted} == {1}
    assert desk.said == [AddSlots(0, 2)], "for reader 11"


@pytest.mark.parametrize("files", [None, Files(400, has_own=True)])
def test_what_a_plan_raises_ends_its_stream_at_that_batch_whoever_causes_it(
    files: Files | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(remote("b", copy="copy") if files else "b", credit=3, slots=4, files=files)
    desk.stream(1)
    samples_of, broken = Plan.__getitem__, desk.streams[0].plan

    def samples(plan: Plan, step: int) -> list[Sample]:
        if plan is broken and step > 2:
            raise ZeroDivisionError("a defect")
        return samples_of(plan, step)

    monkeypatch.setattr(Plan, "__getitem__", samples)
    desk.start()
    desk.start(20, stream=1)
    desk.identified(*range(12), file=7)
    while desk.granted:
        desk.answer(*desk.workers)
    assert (desk.steps(), desk.error()) == ([0, 1, 2], None), "read-ahead decides nothing"
    desk.want()
    error = desk.error()
    assert error is not None
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert len(desk.steps(20)) == 8
    desk.slot_back(0, reader=20, stream=1)
    desk.answer(*desk.workers)
    assert (len(desk.steps(20)), desk.error()) == (9, None)


def test_a_stream_that_has_ended_gives_nothing_but_its_first_error() -> None:
    desk = Desk(local("A"), steps=4)
    desk.tell(events.StreamFailed(0, ZeroDivisionError("a defect")))
    desk.tell(events.StreamFailed(0, StorageError("and then this")))
    error = desk.error()
    assert isinstance(error, VideoloadError)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert desk.streams[0].ended is error
    desk.answer_all()
    desk.want()
    assert (desk.steps(), desk.granted, desk.said) == ([], [], [])


def test_each_event_is_handled_whatever_it_is_about() -> None:
    """A stream, a reader or a worker may be gone when the event comes."""
    desk = Desk("a", files=Files(400, has_own=True), steps=1)
    worker, lease = desk.workers["a"], desk.table.lease("a", 1)
    assert lease is not None
    told: list[events.Event] = [
        events.StreamFailed(7, ValueError()), events.BatchWanted(7), events.SlotBack(7, 0),
        events.ReaderEnded(7), events.Identified(7, {0: 5}), events.FileChanged(7, 0),
        events.WorkerJoined(worker), events.Heard("b"), events.Heard("b", whole=False),
        events.Heartbeat("b", 9, storage="away"), events.WorkerLeft("b", died=True, at_work=3),
        events.WorkerLeft("b", died=False, refused="away"), events.SlotsAdded(0, 9),
        events.ReaderBegan(0, 7, range(2)), events.StreamDropped(0),
        events.Answered(lease, ordinals(()), 0.1), events.StreamAdded(desk.streams[0]),
        events.Tick(),
    ]  # fmt: skip
    for event in told:
        desk.tell(event)
    assert {type(event) for event in told} | {events.Failed} == {*events.Event.__subclasses__()}


@pytest.mark.parametrize(("hosts", "opened"), [(1, 3), (2, 64)])
def test_batches_are_planned_ahead_only_if_it_depends_on_the_worker_which_clips_it_gets(
    hosts: int, opened: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the first lease would wait until thousands of clips are planned."""
    samples_of, steps = Plan.__getitem__, set[int]()

    def samples(plan: Plan, step: int) -> list[Sample]:
        steps.add(step)
        return samples_of(plan, step)

    monkeypatch.setattr(Plan, "__getitem__", samples)
    workers = [remote(f"w{number}", host=f"host{number}") for number in range(hosts)]
    Desk(*workers, credit=2, slots=64, steps=99)
    assert len(steps) == opened


# Several readers of one stream


def test_each_reader_has_slots_of_its_own_and_keeps_what_it_was_given() -> None:
    desk = Desk("a", credit=9, slots=3, steps=5)
    desk.answer("a", "a", "a")
    assert desk.steps() == [0, 1, 2]
    desk.start(11, steps=range(50, 60))
    assert desk.take(AddSlots) == [AddSlots(0, 2)]
    assert [(lease.slot, lease.samples[0].video) for lease in desk.granted] == [(3, 200), (4, 204)]
    desk.answer("a", "a")
    assert (desk.steps(11), desk.granted) == ([50, 51], []), "both wait for their consumers"
    desk.slot_back(1)
    assert [(lease.slot, lease.samples[0].video) for lease in desk.granted] == [(1, 12)]
    desk.start(12)
    assert desk.take(AddSlots) == [AddSlots(0, 2)]
    assert {lease.slot for lease in desk.granted} == {1, 5, 6}


def test_the_slots_of_a_reader_that_ends_are_for_the_next_one_or_for_those_that_have_few() -> None:
    desk = Desk("a", credit=9, slots=4, steps=99)
    desk.answer("a", "a", "a", "a")
    for reader in (11, 12, 13):
        desk.start(reader, steps=range(50, 52))
        desk.answer("a", "a")
        assert desk.steps(reader) == [50, 51]
        desk.end(reader)
        desk.slot_back(50, 51, reader=reader)
    assert desk.take(AddSlots) == [AddSlots(0, 2)], "once, and not for each"
    assert desk.granted == [], "the first reader has as many as the stream was made for"
    desk.start(14, steps=range(50, 99))
    assert {lease.slot for lease in desk.granted} == {4, 5}
    desk.end()
    desk.slot_back(0, 1, 2, 3)
    assert len(desk.granted) == 4, "as many as the stream was made for"
    desk.answer("a", "a", "a", "a")
    desk.end(14)
    desk.slot_back(50, 51, 52, 53, reader=14)
    desk.start(15)
    assert len(desk.granted) == 4, "the others stay for a reader beside it"
    desk.start(16)
    assert desk.take(AddSlots) == []
    assert len(desk.granted) == 6


def test_a_reader_beside_others_has_half_as_many_slots_as_far_as_there_is_memory() -> None:
    for most, added in ((99, 4), (11, 3), (8, 2)):
        desk = Desk("a", credit=99, slots=8, steps=99, most_slots=most)
        assert len(desk.granted) == 8
        desk.start(11)
        assert desk.take(AddSlots) == [AddSlots(0, added)]
        assert len(desk.granted) == 8 + added


def test_readers_of_one_stream_get_equal_shares() -> None:
    simulation = Simulation(batch=4, slots=8)
    for name in ("a", "b"):
        simulation.add_worker(name, 0.01, local=True)
    simulation.read(0)
    for reader in range(1, 4):
        simulation.read(reader, stream=0)
    assert simulation.run(45.0) > 0.97 * 2 / 0.01
    batches = Counter(reader for _, reader in simulation.taken)
    share = len(simulation.taken) / 4
    assert min(batches[reader] for reader in range(4)) > 0.8 * share
    assert simulation.added == 6, "two for each but the first"
