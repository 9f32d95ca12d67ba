"""Stories of video 0 for a `Desk`: steps of what its workers do, and of what is known by then.

    desk.play(
        each([local("A"), "b"], joins, dies),
        is_good,
        each("c", joins, dies),
        is_bad(1),
    )

`each` lets one worker after the other do all that is named. A string is workers of one letter.
"""

from collections.abc import Callable, Iterable

from tests.support.desk import STALL_S, Desk, PlayedWorker, name_of
from videoload.activity import Activity
from videoload.errors import Fault
from videoload.scheduler import events

Step = Callable[[Desk], None]
Act = Callable[[Desk, PlayedWorker | str], None]


def play(desk: Desk, *steps: Step) -> Desk:
    """Let all of it happen to a desk. A step that finds something else is named by its number."""
    for number, step in enumerate(steps, 1):
        try:
            step(desk)
        except AssertionError as error:
            error.add_note(f"at step {number} of the story")
            raise
    return desk


def each(workers: Iterable[PlayedWorker | str], *acts: Act) -> Step:
    """One worker after the other does all of it."""

    def step(desk: Desk) -> None:
        for worker in workers:
            for act in acts:
                act(desk, worker)

    return step


# What a worker does


def joins(desk: Desk, worker: PlayedWorker | str) -> None:
    desk.join(worker)


def dies(desk: Desk, worker: PlayedWorker | str) -> None:
    desk.die(name_of(worker))


def dies_between_two_leases(desk: Desk, worker: PlayedWorker | str) -> None:
    desk.die(name_of(worker), at_work=0)


def leaves(desk: Desk, worker: PlayedWorker | str) -> None:
    desk.leave(name_of(worker))


def returns(desk: Desk, worker: PlayedWorker | str) -> None:
    """It connects again: it had not died."""
    desk.tell(events.WorkerLeft(name_of(worker), died=False))


def hangs(desk: Desk, worker: PlayedWorker | str) -> None:
    """It sends no heartbeats any more."""
    desk.hung.add(name_of(worker))


def is_heard(desk: Desk, worker: PlayedWorker | str) -> None:
    desk.hung.discard(name_of(worker))
    desk.heard(name_of(worker))


def sends_a_part(desk: Desk, worker: PlayedWorker | str) -> None:
    """A part of a message comes from it."""
    desk.tell(events.Heard(name_of(worker), whole=False))


def imports(desk: Desk, worker: PlayedWorker | str) -> None:
    desk.beat(name_of(worker), at=Activity.IMPORT)


def answers(desk: Desk, worker: PlayedWorker | str) -> None:
    desk.answer(name_of(worker))


def fails_with(fault: Fault) -> Act:
    """It cannot decode the clip of video 0; it answers what it was granted before."""

    def act(desk: Desk, worker: PlayedWorker | str) -> None:
        name = name_of(worker)
        while desk.leases[name] and desk.owes(name)[:1] != [[0]]:
            desk.answer(name)
        assert desk.owes(name) == [[0]], name
        desk.fail(name, fault=fault)

    return act


fails = fails_with(Fault.VIDEO)


def silent_for(seconds: float) -> Act:
    """Time passes, in which no worker is heard."""
    return lambda desk, worker: desk.wait(seconds)


stalls = silent_for(STALL_S + 1)


# What is so by now


def is_asked(desk: Desk, worker: PlayedWorker | str) -> None:
    """It owes the clip of video 0."""
    assert [0] in desk.owes(name_of(worker)), worker


def is_not_asked(desk: Desk, worker: PlayedWorker | str) -> None:
    assert [0] not in desk.owes(name_of(worker)), worker


def is_good(desk: Desk) -> None:
    """No video is bad."""
    assert desk.bad == []


def is_bad(count: int = 1) -> Step:
    """Video 0 is bad, and so many are in all: its stand-ins."""

    def step(desk: Desk) -> None:
        assert len(desk.bad) == count
        assert desk.bad[0] == "0.avi"

    return step


def is_delivered(desk: Desk) -> None:
    """The reader was given the first batch."""
    assert 0 in desk.steps()


def is_not_delivered(desk: Desk) -> None:
    assert 0 not in desk.steps()


# What happens besides


def wait(seconds: float) -> Step:
    """Time passes. All workers that do not hang send heartbeats."""

    def step(desk: Desk) -> None:
        here = {str(worker.id) for worker in desk.table.pool.responsive} - desk.hung
        desk.wait(seconds, *sorted(here))

    return step


def silence(seconds: float) -> Step:
    """Time passes, in which no worker is heard."""
    return lambda desk: desk.wait(seconds)


def found_elsewhere(desk: Desk) -> None:
    """Video 0 was found to be bad by another stream."""
    desk.streams[0].quarantine.add(0, "found elsewhere")
