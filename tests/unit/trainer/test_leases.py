"""The lease table, rule by rule: an event goes in, and these commands come out.

What no single example can show is played at random in `test_leases_at_random`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from videoload.errors import SpecError, TooManyBadVideos, TransformError, VideoError
from videoload.spec.catalog import Catalog
from videoload.spec.plan import Plan, Sample, StreamOptions
from videoload.spec.quarantine import Quarantine
from videoload.trainer.lease_commands import (
    AskStorage,
    Command,
    Dismiss,
    Evict,
    Grant,
    Pause,
    Ready,
    Recall,
    Stop,
)
from videoload.trainer.leases import LeaseTable
from videoload.trainer.silence import Look

STALL_S, SILENCE_S = 10.0, 2.0


class Given(NamedTuple):
    """A `Ready` that can be compared."""

    reader: int
    step: int
    slot: int


Seen = Command | Given


class Desk:
    """A lease table, a clock, and stream 0: shuffled by nothing, four clips a batch, eight slots.

    Its methods are the events, and they return the commands.
    """

    def __init__(self, *workers: str, credit: int = 2, deaths: int = 2, **stream: Any) -> None:
        self.table = LeaseTable(credit=credit, stall_s=STALL_S, silence_s=SILENCE_S, deaths=deaths)
        self.plans: dict[int, Plan] = {}
        self.quarantines: dict[int, Quarantine] = {}
        self.ready: dict[tuple[int, int], Ready] = {}  # by reader and step
        self.now = 0.0
        self.stream(0, **stream)
        self.join(*workers)

    def stream(
        self, stream: int, *, videos: int = 400, batch: int = 4, slots: int = 8,
        ordered: bool = True, on_error: Any = "substitute", max_bad: float = 0.01,
        lease_clips: int = 16, clips: int = 1, fetched: bool = False,
    ) -> None:  # fmt: skip
        options = StreamOptions(
            batch, False, 0, (0, 1), False, ordered, on_error=on_error, max_bad=max_bad
        )
        plan = self.plans[stream] = Plan(videos, clips, options)
        catalog = Catalog([f"v{i}.avi" for i in range(videos)], [0] * videos, ["class"])
        self.quarantines[stream] = Quarantine(catalog, plan, options)
        self.table.add_stream(
            stream, plan, self.quarantines[stream],
            clip_frames=2, slots=slots, ordered=ordered, lease_clips=lease_clips, fetched=fetched,
        )  # fmt: skip

    def join(self, *workers: str) -> list[Seen]:
        """Workers say HELLO; those with a capital letter are local. What stands behind a colon is
        the copy that a worker reads, if that is not the trainer's own; one that ends with ``//`` is
        on another host."""
        commands: list[Command] = []
        for worker in workers:
            copy = worker.partition(":")[2] or None
            commands += self.table.worker_joined(
                worker, local=worker.isupper(), now=self.now, copy=copy,
                fetches=worker.endswith("//"),
            )  # fmt: skip
        return self._seen(commands)

    def start(self, reader: int = 10, *, steps: range = range(100), stream: int = 0) -> list[Seen]:
        return self._seen(self.table.start_reader(stream, reader, steps.start, steps.stop))

    def want(self, reader: int = 10) -> list[Seen]:
        return self._seen(self.table.wanted(reader))

    def end(self, reader: int = 10) -> list[Seen]:
        return self._seen(self.table.end_reader(reader))

    def slot_back(self, slot: int, stream: int = 0) -> list[Seen]:
        return self._seen(self.table.slot_back(stream, slot))

    def recalled(self, reader: int, *batches: Given) -> list[Seen]:
        return self._seen(self.table.recalled(reader, [(g.step, g.slot) for g in batches]))

    def answer(self, *leases: Grant, clip_s: float = 0.0) -> list[Seen]:
        """The workers have decoded these leases, in ``clip_s`` seconds a clip."""
        commands: list[Command] = []
        for lease in leases:
            decode_s = clip_s * len(lease.samples)
            frames = ordinals(lease.samples)
            commands += self.table.result(lease.worker, lease.lease, frames, decode_s)
        return self._seen(commands)

    def fail(self, lease: Grant, at: int = 0, *, dropped: bool = False) -> list[Seen]:
        """The worker could not have clip ``at`` of the lease."""
        return self._seen(
            self.table.failed(lease.worker, lease.lease, at, "broken", dropped=dropped)
        )

    def land(self, *leases: Grant) -> None:
        """Receivers are to write the answers to these."""
        for lease in leases:
            assert self.table.landing(str(lease.worker), lease.lease) is not None

    def landed(self, lease: Grant, *, whole: bool = True, blame: bool = False) -> list[Seen]:
        return self._seen(self.table.landed(lease.lease, whole=whole, blame=blame))

    def die(self, worker: str) -> list[Seen]:
        return self._seen(self.table.worker_left(worker, died=True))

    def leave(self, worker: str) -> list[Seen]:
        return self._seen(self.table.worker_left(worker, died=False))

    def wait(self, seconds: float, *beating: str) -> list[Seen]:
        """Time passes, in ticks of a quarter of a second; these workers beat, others do not."""
        commands: list[Command] = []
        for _ in range(round(seconds * 4)):
            self.now += 0.25
            for worker in beating:
                assert self.table.heard(worker, self.now)
            commands += self.table.tick(self.now)
        return self._seen(commands)

    def lease(
        self, worker: str, lease: int, *, slot: int, step: int, rows: slice = slice(None),
        stream: int = 0,
    ) -> Grant:  # fmt: skip
        """The Grant of these rows of a step as the plan has them."""
        samples = self.plans[stream][step][rows]
        return Grant(worker, lease, stream, slot, rows.start or 0, tuple(samples))

    def is_void(self, lease: Grant) -> bool:
        return self.table.place(lease.worker, lease.lease) is None

    def decode_all(self, *commands: Seen) -> list[Grant]:
        """Answers all leases, and those that come of it; returns them all."""
        queue, done = grants(commands), []
        while queue:
            done.append(queue.pop(0))
            queue += grants(self.answer(done[-1]))
        return done

    def decode_and_see(self, *leases: Grant) -> list[Seen]:
        """Answers these leases and those that come of it; returns all commands."""
        queue, seen = list(leases), list[Seen]()
        while queue:
            seen += (commands := self.answer(queue.pop(0)))
            queue += grants(commands)
        return seen

    def _seen(self, commands: list[Command]) -> list[Seen]:
        seen: list[Seen] = []
        for command in commands:
            if isinstance(command, Ready):
                assert np.array_equal(command.frames, ordinals(command.samples))
                assert (command.reader, command.step) not in self.ready
                self.ready[command.reader, command.step] = command
                seen.append(Given(command.reader, command.step, command.slot))
            else:
                seen.append(command)
        return seen


def ordinals(samples: Iterable[Sample]) -> npt.NDArray[np.int64]:
    """The frames that a decoder would answer with: here the sample's number and its attempt."""
    return np.array([(s.origin, s.attempt) for s in samples], np.int64).reshape(-1, 2)


def grants(commands: Iterable[Seen]) -> list[Grant]:
    return [command for command in commands if isinstance(command, Grant)]


def given(commands: Iterable[Seen]) -> list[Given]:
    return [command for command in commands if isinstance(command, Given)]


def rest(commands: Iterable[Seen]) -> list[Seen]:
    """All but the grants."""
    return [command for command in commands if not isinstance(command, Grant)]


HALF, OTHER_HALF = slice(0, 2), slice(2, 4)


# Who gets what


def test_nothing_is_granted_before_somebody_reads() -> None:
    assert Desk().join("A", "b") == []


def test_nothing_is_granted_without_a_worker() -> None:
    assert Desk().start() == []


def test_a_worker_gets_two_leases_one_to_work_on_and_one_to_wait() -> None:
    desk = Desk("A")
    assert desk.start() == [
        desk.lease("A", 1, slot=0, step=0),
        desk.lease("A", 2, slot=1, step=1),
    ]


def test_a_worker_that_comes_later_is_given_work_at_once() -> None:
    desk = Desk()
    desk.start()
    assert desk.join("a") == [
        desk.lease("a", 1, slot=0, step=0),
        desk.lease("a", 2, slot=1, step=1),
    ]


def test_idle_workers_get_one_lease_each_before_anybody_gets_a_second() -> None:
    desk = Desk("A", "b")
    assert desk.start() == [
        desk.lease("A", 1, slot=0, step=0, rows=HALF),
        desk.lease("b", 2, slot=0, step=0, rows=OTHER_HALF),
        desk.lease("A", 3, slot=1, step=1, rows=HALF),
        desk.lease("b", 4, slot=1, step=1, rows=OTHER_HALF),
    ]


def test_of_idle_workers_the_one_that_has_waited_longest_is_first() -> None:
    desk = Desk("A", "b", "c", credit=1, batch=1)
    first, second, third = grants(desk.start(steps=range(3)))
    desk.answer(second, third, first)
    assert [lease.worker for lease in grants(desk.start(11))] == ["b", "c", "A"]


def test_an_answer_makes_room_for_the_next_lease() -> None:
    desk = Desk("A", "b")
    first = grants(desk.start())
    assert desk.answer(first[0]) == [desk.lease("A", 5, slot=2, step=2, rows=HALF)]
    assert desk.answer(first[3]) == [desk.lease("b", 6, slot=2, step=2, rows=OTHER_HALF)]


def test_a_worker_has_credit_until_it_holds_its_leases_and_again_after_an_answer() -> None:
    desk = Desk(slots=2)
    assert not desk.table.has_credit, "nobody is there"
    desk.join("a")
    assert desk.table.has_credit, "nobody reads"
    first, second = grants(desk.start())
    assert not desk.table.has_credit
    desk.answer(first)
    assert desk.table.has_credit, "the reader holds one slot, the other is being filled"
    assert grants(desk.slot_back(first.slot))
    assert not desk.table.has_credit
    desk.answer(second)
    assert desk.table.has_credit


def test_a_worker_holds_two_more_leases_where_files_are_fetched_before_their_turn() -> None:
    desk = Desk("a:bucket//", "b:folder", slots=64)
    held = [lease.worker for lease in grants(desk.start())]
    assert (held.count("a:bucket//"), held.count("b:folder")) == (4, 2)
    # A local one has them from where the streams have them.
    desk = Desk("A", slots=64, fetched=True)
    desk.join("B")
    held = [lease.worker for lease in grants(desk.start())]
    assert (held.count("A"), held.count("B")) == (4, 4)
    desk = Desk("A", slots=64)
    assert len(grants(desk.start())) == 2
    desk.stream(1, slots=64, fetched=True)
    assert len(grants(desk.start(11, stream=1))) == 2


def test_of_the_last_long_leases_none_waits_behind_another() -> None:
    desk = Desk("A", "B", batch=1, slots=16)
    first, second, third, fourth = grants(desk.start(steps=range(9)))
    [fifth] = grants(desk.answer(first, clip_s=1.0))
    assert fifth == desk.lease("A", 5, slot=4, step=4), "five are left, of two workers"
    assert desk.answer(second, clip_s=1.0) == [Given(10, 1, 1)]
    assert grants(desk.answer(fourth, clip_s=1.0)) == [desk.lease("B", 6, slot=5, step=5)]
    assert not grants(desk.answer(third, clip_s=1.0)), "A is at its second one"
    assert grants(desk.answer(fifth, clip_s=1.0)) == [desk.lease("A", 7, slot=6, step=6)]
    assert grants(desk.join("C")) == [desk.lease("C", 8, slot=7, step=7)]


@pytest.mark.parametrize(
    ("clip_s", "fetched"), [(0.02, False), (1.0, True)], ids=["short", "from afar"]
)
def test_the_last_leases_wait_behind_others_where_that_spares_time(
    clip_s: float, fetched: bool
) -> None:
    desk = Desk("A", "B", batch=1, slots=16, fetched=fetched)
    held = grants(desk.start(steps=range(12)))
    while held:
        assert len(held) == min(8 if fetched else 4, 12 - held[0].lease + 1)
        held += grants(desk.answer(held.pop(0), clip_s=clip_s))


def test_of_one_worker_s_leases_all_wait_behind_others() -> None:
    desk = Desk("A", batch=1, slots=16)
    held = grants(desk.start(steps=range(6)))
    while held:
        assert len(held) == min(2, 6 - held[0].lease + 1)
        held += grants(desk.answer(held.pop(0), clip_s=1.0))


@pytest.mark.parametrize("credit", [1, 3])
def test_credit_is_the_number_of_leases_that_a_worker_holds(credit: int) -> None:
    desk = Desk("a", "b", credit=credit)
    assert [lease.worker for lease in grants(desk.start())] == ["a", "b"] * credit


@pytest.mark.parametrize(
    ("batch", "workers", "longest"),
    [(1, 1, 1), (4, 3, 2), (5, 2, 3), (40, 2, 14), (33, 1, 11), (7, 9, 1), (32, 2, 16)],
)
def test_pieces_cover_each_batch_exactly_once_and_are_spread_over_the_workers(
    batch: int, workers: int, longest: int
) -> None:
    desk = Desk(*(f"w{i}" for i in range(workers)), batch=batch)
    leases = desk.decode_all(*desk.start(steps=range(3)))
    places = sorted((g.slot, g.first + i) for g in leases for i in range(len(g.samples)))
    assert places == [(slot, row) for slot in range(3) for row in range(batch)]
    assert max(len(lease.samples) for lease in leases) == longest
    assert [desk.ready[10, step].samples for step in range(3)] == [
        tuple(desk.plans[0][step]) for step in range(3)
    ]


def test_pieces_get_smaller_when_more_workers_are_there() -> None:
    desk = Desk("a")
    first = grants(desk.start())
    desk.join("b", "c", "d")
    more = grants(desk.answer(*first))
    assert [len(lease.samples) for lease in (*first, *more)] == [4, 4, 1, 1]


@pytest.mark.parametrize(
    ("clip_s", "slots", "size"),
    [
        (0.05, 8, 2),  # spread over the workers
        (0.02, 8, 4),  # 50 ms a lease at least, and all alike
        (0.001, 4, 4),  # no more than keeps all workers at work with half of the slots
        (0.001, 32, 8),  # never more than the batch
        (5e-324, 4, 4),
        (math.inf, 8, 2),
    ],
)
def test_leases_are_longer_where_clips_are_quickly_made(
    clip_s: float, slots: int, size: int
) -> None:
    desk = Desk("a", "b", "c", "d", batch=8, slots=slots, credit=1)
    first = grants(desk.start())
    assert [len(lease.samples) for lease in first] == [2, 2, 2, 2]
    later = [grant for lease in first for grant in grants(desk.answer(lease, clip_s=clip_s))]
    assert len(later[0].samples) == size


@pytest.mark.parametrize(("lease_clips", "most"), [(3, 3), (1, 1), (0, 1), (99, 14)])
def test_a_lease_holds_no_more_clips_than_fit_into_a_message(lease_clips: int, most: int) -> None:
    desk = Desk("a", batch=40, lease_clips=lease_clips)
    sizes = [len(lease.samples) for lease in desk.decode_all(*desk.start(steps=range(1)))]
    assert max(sizes) == most
    assert sum(sizes) == 40


def sizes_once_known(desk: Desk, clip_s: float) -> list[int]:
    """Clips of each lease of a batch, after one whose clips told how long they take."""
    left = grants(desk.start(10, steps=range(1)))
    while left:
        left += grants(desk.answer(left.pop(0), clip_s=clip_s))
    return [len(lease.samples) for lease in desk.decode_all(*desk.start(11, steps=range(1, 2)))]


@pytest.mark.parametrize(
    ("clips", "lease_clips", "clip_s", "sizes"),
    [
        (30, 99, 0.002, [30]),  # of one video, in one pass over it
        (10, 99, 0.004, [20, 10]),  # 14 would be a half of the second one
        (10, 5, 0.002, [5, 5, 5, 5, 5, 5]),  # no more fit into a message
        (30, 99, 0.2, [15, 15]),  # far apart: a worker alone would take 6 s
    ],
)
def test_the_clips_of_a_video_are_one_lease(
    clips: int, lease_clips: int, clip_s: float, sizes: list[int]
) -> None:
    desk = Desk("a", "b", videos=30, batch=30, lease_clips=lease_clips, clips=clips)
    assert sizes_once_known(desk, clip_s) == sizes


@pytest.mark.parametrize(
    ("clip_s", "lease_clips", "sizes"),
    [
        (0.001, 99, [40]),  # 60 would take as long as a lease may
        (0.001, 30, [20, 20]),  # no more fit into a message
        (0.0025, 99, [20, 20]),
        (0.01, 99, [14, 14, 12]),
    ],
)
def test_a_lease_holds_more_clips_where_they_are_made_quickly(
    clip_s: float, lease_clips: int, sizes: list[int]
) -> None:
    assert sizes_once_known(Desk("a", batch=40, lease_clips=lease_clips), clip_s) == sizes


def test_nobody_waits_for_one_worker_where_it_is_not_known_how_long_clips_take() -> None:
    desk = Desk("a", "b", videos=30, batch=30, clips=30)
    assert [len(lease.samples) for lease in grants(desk.start(steps=range(1)))] == [15, 15]


def test_the_last_smaller_batch_is_decoded_as_it_is() -> None:
    desk = Desk("A", videos=6)
    leases = grants(desk.start(steps=range(2)))
    assert [len(lease.samples) for lease in leases] == [4, 2]
    desk.answer(*leases)
    assert desk.ready[10, 1].frames.shape == (2, 2)


def test_a_run_begins_and_ends_where_it_is_told() -> None:
    desk = Desk("A", credit=9)
    leases = [desk.lease("A", i + 1, slot=i, step=7 + i) for i in range(3)]
    assert desk.start(steps=range(7, 10)) == leases
    assert desk.answer(*leases) == [Given(10, 7, 0), Given(10, 8, 1), Given(10, 9, 2)]
    assert desk.want() == desk.slot_back(0) == []


def test_no_more_batches_are_open_than_there_are_slots() -> None:
    desk = Desk("A", credit=9, slots=2)
    leases = grants(desk.start())
    assert len(leases) == 2
    assert desk.answer(*leases) == [Given(10, 0, 0), Given(10, 1, 1)]
    assert desk.want() == []
    assert desk.slot_back(1) == [desk.lease("A", 3, slot=1, step=2)]
    assert desk.slot_back(0) == [desk.lease("A", 4, slot=0, step=3)]


def test_a_worker_that_says_hello_twice_is_one_worker() -> None:
    desk = Desk("a")
    leases = grants(desk.start())
    assert desk.join("a") == []
    assert desk.table.workers == 1
    assert len(grants(desk.answer(*leases))) == 2


# What a consumer gets


def test_a_batch_is_handed_over_when_its_last_piece_is_answered() -> None:
    desk = Desk("A", "b")
    first, second = grants(desk.start(steps=range(1)))
    assert desk.answer(second) == []
    assert desk.answer(first) == [Given(10, 0, 0)]
    ready = desk.ready[10, 0]
    assert ready.samples == tuple(desk.plans[0][0])
    assert np.array_equal(ready.frames, [(0, 0), (1, 0), (2, 0), (3, 0)])
    assert ready.frames.dtype == np.int64


def test_ordered_batches_wait_for_those_before_them() -> None:
    desk = Desk("A", "b", "c")
    leases = grants(desk.start(steps=range(3)))
    by_step = [[g for g in leases if g.slot == step] for step in range(3)]
    assert rest(desk.answer(*by_step[1])) == []
    assert rest(desk.answer(*by_step[2])) == []
    assert rest(desk.answer(*by_step[0])) == [Given(10, 0, 0), Given(10, 1, 1), Given(10, 2, 2)]


def test_unordered_batches_wait_for_nobody() -> None:
    desk = Desk("A", "b", "c", ordered=False)
    leases = grants(desk.start(steps=range(3)))
    by_step = [[g for g in leases if g.slot == step] for step in range(3)]
    assert rest(desk.answer(*by_step[1])) == [Given(10, 1, 1)]
    assert rest(desk.answer(*by_step[2])) == [Given(10, 2, 2)]
    assert rest(desk.answer(*by_step[0])) == [Given(10, 0, 0)]


# Answers that do not count


def test_an_answer_of_nobody_is_dropped() -> None:
    desk = Desk("A", "b")
    first, second, *_ = grants(desk.start())
    frames = ordinals(first.samples)
    assert desk.table.result("b", first.lease, frames) == []
    assert desk.table.result("z", first.lease, frames) == []
    assert desk.table.result("A", 99, frames) == []
    assert desk.table.failed("b", first.lease, 0, "broken", dropped=False) == []
    assert desk.table.place("b", first.lease) is None
    assert desk.table.place("z", first.lease) is None
    assert desk.table.place("A", first.lease) == (0, 0, 0, 2)
    assert desk.table.place("b", second.lease) == (0, 0, 2, 2)
    assert desk.quarantines[0].videos == []


def test_a_second_answer_to_a_lease_is_dropped() -> None:
    desk = Desk("A", "b")
    first, second, *_ = grants(desk.start(steps=range(1)))
    desk.answer(first)
    assert desk.is_void(first)
    assert desk.answer(first) == []
    assert desk.fail(first) == []
    assert desk.answer(second) == [Given(10, 0, 0)]


def passed_over(desk: Desk) -> tuple[Grant, Grant]:
    """The lease of a remote worker "a" that fell silent, and that of "b", who got the chunk."""
    [first] = grants(desk.join("a"))
    desk.wait(1)
    assert desk.join("b") == []
    [again] = grants(desk.wait(1.5, "b"))
    assert (again.worker, again.slot, again.first) == ("b", first.slot, first.first)
    assert again.samples == first.samples
    return first, again


def test_the_first_answer_wins_and_the_later_one_is_void() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    first, again = passed_over(desk)
    assert desk.answer(again) == [Given(10, 0, 0)]
    assert desk.is_void(first)
    assert desk.answer(first) == []


def test_a_late_answer_of_a_remote_worker_counts_if_it_is_the_first() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    first, again = passed_over(desk)
    assert desk.table.place("a", first.lease) == (0, 0, 0, 4)
    assert desk.answer(first) == [Given(10, 0, 0)]
    assert desk.is_void(again)
    assert desk.answer(again) == []


def test_a_late_answer_makes_the_piece_no_longer_wanted() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    [first] = grants(desk.join("a"))
    assert desk.wait(3) == []  # the chunk waits for another worker
    assert desk.answer(first) == [Given(10, 0, 0)]
    assert desk.join("b") == []


def test_a_void_lease_counts_as_work_until_it_is_answered() -> None:
    desk = Desk(credit=1)
    desk.start(10, steps=range(1))
    first, again = passed_over(desk)
    desk.answer(again)
    desk.wait(0.25, "a", "b")
    assert desk.table.workers == 2
    assert [lease.worker for lease in grants(desk.start(11))] == ["b"]  # a is still busy
    assert [lease.worker for lease in grants(desk.answer(first))] == ["a"]


def test_a_failure_of_a_void_lease_blames_no_video() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    first, again = passed_over(desk)
    desk.answer(again)
    assert desk.fail(first) == []
    assert desk.quarantines[0].videos == []


# Workers that go


def test_a_dead_workers_lease_goes_to_another() -> None:
    desk = Desk("A", "b", batch=2)
    first, second = grants(desk.start(steps=range(1)))
    assert desk.die("A") == [desk.lease("b", 3, slot=0, step=0, rows=slice(0, 1))]
    assert desk.answer(first) == []
    assert rest(desk.answer(second)) == []
    assert desk.decode_all(desk.lease("b", 3, slot=0, step=0, rows=slice(0, 1)))
    assert desk.ready[10, 0].samples == tuple(desk.plans[0][0])


def test_a_worker_that_says_bye_gives_its_leases_back_as_they_are() -> None:
    desk = Desk("A")
    first, second = grants(desk.start(steps=range(2)))
    assert desk.leave("A") == []
    assert desk.join("B") == [
        desk.lease("B", 3, slot=0, step=0),
        desk.lease("B", 4, slot=1, step=1),
    ]
    assert desk.answer(first, second) == []


def test_a_worker_that_leaves_twice_or_was_never_there_is_no_event() -> None:
    desk = Desk("A")
    desk.start()
    assert desk.leave("z") == desk.die("z") == []
    assert not desk.table.heard("z", 1.0)
    desk.leave("A")
    assert desk.die("A") == []
    assert not desk.table.heard("A", 1.0)
    assert desk.table.workers == 0


def test_earlier_steps_are_granted_again_before_later_ones_are_begun() -> None:
    desk = Desk("A", "B", batch=2)
    desk.start()
    assert desk.leave("B") == []
    freed = desk.leave("A")
    assert freed == []
    assert desk.join("C", "D") == [
        desk.lease("C", 5, slot=0, step=0, rows=slice(1, 2)),
        desk.lease("C", 6, slot=0, step=0, rows=slice(0, 1)),
        desk.lease("D", 7, slot=1, step=1, rows=slice(1, 2)),
        desk.lease("D", 8, slot=1, step=1, rows=slice(0, 1)),
    ]


def test_a_silent_local_worker_is_killed_once_and_its_lease_waits_for_its_death() -> None:
    desk = Desk("A", batch=1)
    [first] = grants(desk.start(steps=range(1)))
    desk.join("B")
    assert desk.wait(STALL_S, "B") == []
    assert desk.wait(5, "B") == [Evict("A")]  # and nothing is granted: A may still write
    assert desk.table.place("A", first.lease) is not None
    assert desk.die("A") == [desk.lease("B", 2, slot=0, step=0)]
    assert desk.wait(5, "B") == []


def test_a_worker_that_beats_is_never_killed() -> None:
    desk = Desk("A", "b")
    desk.start(steps=range(1))
    assert desk.wait(60, "A", "b") == []


def test_a_worker_under_sentence_gets_no_leases() -> None:
    desk = Desk("A")
    assert desk.wait(11) == [Evict("A")]
    assert desk.table.workers == 0
    assert desk.start() == []
    assert [lease.worker for lease in grants(desk.join("B"))] == ["B", "B"]


def test_a_local_worker_that_was_only_slow_keeps_its_lease() -> None:
    desk = Desk("A")
    [first] = grants(desk.start(steps=range(1)))
    assert desk.wait(11) == [Evict("A")]
    assert desk.answer(first) == [Given(10, 0, 0)]  # its answer came before the signal


def test_a_silent_remote_worker_is_passed_over_at_once() -> None:
    desk = Desk()
    desk.start(steps=range(2))
    first, second = grants(desk.join("a"))
    desk.wait(1)
    desk.join("B")
    assert desk.wait(1, "B") == []
    assert desk.table.workers == 2
    assert desk.wait(0.25, "B") == [
        desk.lease("B", 3, slot=0, step=0),
        desk.lease("B", 4, slot=1, step=1),
    ]
    assert desk.table.workers == 1
    assert desk.wait(60, "B") == []
    assert desk.is_void(first)
    assert desk.is_void(second)


def test_a_remote_worker_that_is_heard_again_is_given_work_again() -> None:
    desk = Desk("a")
    desk.wait(5)
    assert desk.start() == []
    desk.table.heard("a", desk.now)
    assert desk.table.workers == 1
    assert [lease.worker for lease in grants(desk.wait(0.25, "a"))] == ["a", "a"]


def test_a_piece_goes_on_as_long_as_one_of_its_workers_is_heard_of() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    first, again = passed_over(desk)
    desk.join("c")
    assert desk.leave("a") == []  # b is at it
    [third] = grants(desk.leave("b"))
    assert third == desk.lease("c", 3, slot=0, step=0)
    assert desk.is_void(first)
    assert desk.is_void(again)


def test_a_piece_stays_where_it_is_if_one_that_was_silent_is_heard_again() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    passed_over(desk)
    desk.join("c")
    assert desk.wait(3, "a", "c") == []  # b falls silent, a is at it again
    assert desk.wait(3, "b", "c") == []  # and the other way round
    assert desk.leave("b") == [desk.lease("c", 3, slot=0, step=0)]  # now nobody is


def test_a_piece_stays_where_it_is_if_another_who_had_it_leaves() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    passed_over(desk)
    desk.join("c")
    [third] = grants(desk.wait(3, "c"))
    assert third.worker == "c"
    desk.join("d")
    assert desk.leave("b") == []  # a is silent, but c is at it
    assert desk.leave("c") == [desk.lease("d", 4, slot=0, step=0)]


def test_a_piece_whose_silent_worker_leaves_waits_once() -> None:
    desk = Desk("a")
    desk.start(steps=range(1))
    desk.wait(3)
    desk.leave("a")
    assert desk.join("B") == [desk.lease("B", 2, slot=0, step=0)]
    assert desk.join("C") == []


def test_a_piece_whose_silent_worker_dies_is_granted_clip_by_clip_alone() -> None:
    desk = Desk("a", credit=9)
    desk.start(steps=range(1))
    desk.wait(3)
    desk.die("a")
    assert [(g.first, len(g.samples)) for g in grants(desk.join("B"))] == [
        (0, 1), (1, 1), (2, 1), (3, 1),
    ]  # fmt: skip


def test_a_piece_of_two_silent_workers_goes_to_a_third_once() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    passed_over(desk)
    desk.join("c")
    assert grants(desk.wait(10, "c")) == [desk.lease("c", 3, slot=0, step=0)]


# Silence that the kernel tells more of


class Kernel:
    """What it tells of silent workers: the ``share`` of a core that they take, and their state."""

    def __init__(self, desk: Desk, share: float, *, blocked: bool = False) -> None:
        self.desk, self.share, self.blocked = desk, share, blocked

    def wait(self, seconds: float, *beating: str) -> list[Seen]:
        """As `Desk.wait`, with a look at those that are silent before each tick."""
        commands: list[Seen] = []
        for _ in range(round(seconds * 4)):
            for worker in self.desk.table.silent(self.desk.now + 0.25):
                if worker not in beating:
                    cpu_s = 7.0 + self.share * self.desk.now
                    self.desk.table.look(worker, Look(cpu_s, blocked=self.blocked))
            commands += self.desk.wait(0.25, *beating)
        return commands


def test_where_all_are_silent_and_blocked_nobody_is_killed() -> None:
    desk = Desk("A", "B")
    desk.start()
    assert Kernel(desk, 0.0, blocked=True).wait(STALL_S + 59) == []
    assert Kernel(desk, 0.0, blocked=True).wait(5, "A", "B") == []


def test_who_is_silent_for_a_minute_is_killed_and_nothing_is_blamed_for_it() -> None:
    desk = Desk(deaths=1, batch=1)
    desk.start(steps=range(1))
    for worker in "ABCD":
        desk.join(worker)
        assert Evict(worker) in Kernel(desk, 0.0, blocked=True).wait(STALL_S + 62)
        desk.die(worker)
    assert desk.quarantines[0].videos == []


def test_storage_that_does_not_answer_is_waited_for_though_its_reader_can_be_interrupted() -> None:
    desk = Desk("A")
    desk.start(steps=range(1))
    kernel = Kernel(desk, 0.0)
    assert kernel.wait(STALL_S + 50) == [AskStorage("A", 0, (0, 1, 2, 3))]
    assert kernel.wait(1, "A") == []
    assert kernel.wait(STALL_S) == [AskStorage("A", 0, (0, 1, 2, 3))], "it is asked anew"


def test_who_sleeps_while_the_storage_answers_hangs_and_its_clip_is_blamed() -> None:
    desk = Desk(deaths=9, batch=1)
    desk.start(steps=range(1))
    for worker in "AB":
        desk.join(worker)
        assert Kernel(desk, 0.0).wait(STALL_S - 1) == [AskStorage(worker, 0, (0,))]
        desk.table.storage_answered(worker)
        assert Kernel(desk, 0.0).wait(2) == [Evict(worker)]
        desk.die(worker)
    assert [path for path, _ in desk.quarantines[0].videos] == ["v0.avi"]


def test_what_the_storage_answered_in_an_earlier_silence_does_not_count() -> None:
    desk = Desk("A")
    desk.start(steps=range(1))
    kernel = Kernel(desk, 0.0)
    kernel.wait(STALL_S - 1)
    desk.table.storage_answered("A")
    kernel.wait(1, "A")
    desk.table.storage_answered("A")
    desk.table.storage_answered("Z")
    assert Evict("A") not in kernel.wait(STALL_S + 50)


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_who_burns_cpu_hangs_and_its_clip_is_blamed(share: float) -> None:
    desk = Desk(deaths=9, batch=1)
    desk.start(steps=range(1))
    for worker in "AB":
        desk.join(worker)
        assert Evict(worker) in Kernel(desk, share).wait(STALL_S + 1)
        desk.die(worker)
    assert [path for path, _ in desk.quarantines[0].videos] == ["v0.avi"]


def test_who_burns_little_on_a_busy_host_is_found_later_and_not_before() -> None:
    desk = Desk("A", "B")
    desk.start()
    kernel = Kernel(desk, 0.05)
    assert Evict("A") not in kernel.wait(STALL_S + 10, "B")
    assert Evict("A") in kernel.wait(10, "B")


def test_who_is_blocked_alone_is_killed_and_its_clip_is_not_blamed() -> None:
    desk = Desk(deaths=1, batch=1)
    desk.start(steps=range(1))
    for worker in "BCDE":
        desk.join(worker)
        desk.join("A")  # has nothing to do, and says so
        assert Kernel(desk, 0.0, blocked=True).wait(STALL_S + 1, "A") == [Evict(worker)]
        desk.leave("A")
        desk.die(worker)
    assert desk.quarantines[0].videos == []


def test_of_those_that_stood_still_together_none_is_killed_when_one_is_heard_of_first() -> None:
    desk = Desk("A", "B")
    desk.start()
    Kernel(desk, 0.0, blocked=True).wait(STALL_S + 5)
    assert Kernel(desk, 0.0, blocked=True).wait(0.25, "A") == []
    assert Kernel(desk, 0.0, blocked=True).wait(5, "A", "B") == []


def test_a_blocked_worker_with_nothing_to_do_is_waited_for_like_the_others() -> None:
    desk = Desk("A")
    assert Kernel(desk, 0.0, blocked=True).wait(STALL_S + 5) == []
    assert Kernel(desk, 0.0).wait(0.5) == [Evict("A")], "and if it sleeps, it is not the storage"


def test_who_imports_may_be_silent_for_a_minute_more_and_no_clip_is_blamed() -> None:
    desk = Desk(deaths=1, batch=1)
    desk.start(steps=range(1))
    for worker in "AB":
        desk.join(worker)
        desk.table.heard(worker, desk.now, 0, importing=True)
        assert Evict(worker) not in Kernel(desk, 1.0).wait(STALL_S + 59)
        assert Evict(worker) in Kernel(desk, 1.0).wait(2)
        desk.die(worker)
    assert desk.quarantines[0].videos == []
    desk.join("C")
    desk.table.heard("C", desk.now, 0, importing=True)
    desk.table.heard("C", desk.now, 0)
    assert Evict("C") in Kernel(desk, 1.0).wait(STALL_S + 1), "it has imported"


def test_a_message_that_was_lost_is_no_clips_fault() -> None:
    desk = Desk(deaths=1, batch=1)
    desk.start(steps=range(1))
    desk.join("A")
    assert beat(desk, "A", ticks=IDLE + 1, frames=repeat(7)) == [Evict("A")]
    desk.die("A")
    assert desk.quarantines[0].videos == []


# Messages that are lost on the way


IDLE = 12  # so many ticks are too many


def beat(desk: Desk, worker: str, *, ticks: int, frames: Iterable[int]) -> list[Seen]:
    """So many ticks, before each of which the worker tells how many frames it has decoded."""
    commands: list[Command] = []
    for _, count in zip(range(ticks), frames, strict=False):
        desk.now += 0.25
        assert desk.table.heard(worker, desk.now, count)
        commands += desk.table.tick(desk.now)
    return desk._seen(commands)


@pytest.mark.parametrize("worker", ["A", "a"])
def test_a_worker_that_idles_though_it_has_a_lease_starts_afresh(worker: str) -> None:
    desk = Desk(worker)
    desk.start(steps=range(1))
    assert beat(desk, worker, ticks=IDLE, frames=repeat(7)) == []  # the first tells nothing
    assert beat(desk, worker, ticks=1, frames=repeat(7)) == [Evict(worker)]
    assert desk.join("B") == []
    assert desk.leave(worker) == [desk.lease("B", 2, slot=0, step=0)]


def test_a_worker_that_makes_progress_does_not_idle() -> None:
    desk = Desk("A")
    desk.start(steps=range(1))
    for frames in range(5):
        assert beat(desk, "A", ticks=IDLE, frames=repeat(frames)) == []


def test_a_worker_that_answers_does_not_idle() -> None:
    desk = Desk("A", batch=1)
    lease, _ = grants(desk.start())
    for _ in range(5):
        assert beat(desk, "A", ticks=IDLE - 1, frames=repeat(7)) == []
        desk.table.heard("A", desk.now)
        lease = grants(desk.answer(lease))[0]
        desk.slot_back(0)


def test_a_worker_without_a_lease_may_idle() -> None:
    desk = Desk("A")
    assert beat(desk, "A", ticks=100, frames=repeat(7)) == []
    desk.start(steps=range(1))
    assert beat(desk, "A", ticks=IDLE - 1, frames=repeat(7)) == []


def test_a_worker_that_says_nothing_between_two_ticks_does_not_idle_in_that_time() -> None:
    desk = Desk("A")
    desk.start(steps=range(1))
    beat(desk, "A", ticks=7, frames=repeat(7))  # six of them idle
    assert desk.wait(9) == []
    assert beat(desk, "A", ticks=IDLE - 7, frames=repeat(7)) == []
    assert beat(desk, "A", ticks=1, frames=repeat(7)) == [Evict("A")]


# The fence


def test_a_lease_that_writes_into_shared_memory_makes_the_remote_ones_void() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    [first] = grants(desk.join("a"))
    desk.wait(3)
    [local] = grants(desk.join("B"))
    assert local == desk.lease("B", 2, slot=0, step=0)
    assert desk.is_void(first)  # its pixels must not be received over B's
    assert desk.answer(first) == []
    assert desk.answer(local) == [Given(10, 0, 0)]


def test_a_piece_in_local_hands_is_never_in_a_second_pair() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    desk.join("a")
    desk.wait(3)
    desk.join("B")  # has the chunk now
    assert desk.join("c", "D") == []
    assert desk.wait(15, "a", "c", "D") == [Evict("B")]
    assert desk.leave("a") == desk.leave("c") == []
    assert [g.worker for g in grants(desk.die("B"))] == ["D", "D"]


def test_a_slot_is_not_reused_while_a_local_worker_may_still_write_into_it() -> None:
    desk = Desk("A", slots=1)
    [first] = grants(desk.start(10))
    assert desk.end(10) == []
    assert desk.start(11, steps=range(5, 9)) == []  # the only slot waits for A
    assert desk.is_void(first)
    assert desk.answer(first) == [desk.lease("A", 2, slot=0, step=5)]


def test_a_dead_local_worker_frees_the_slot_that_waited_for_it() -> None:
    desk = Desk("A", slots=1)
    desk.start(10)
    desk.end(10)
    desk.start(11, steps=range(5, 9))
    assert desk.join("B") == []
    assert desk.die("A") == [desk.lease("B", 2, slot=0, step=5)]


def test_a_slot_waits_for_a_worker_under_sentence_as_well() -> None:
    desk = Desk("A", slots=1)
    desk.start(10)
    assert desk.wait(11) == [Evict("A")]
    desk.end(10)
    desk.join("B")
    assert desk.start(11, steps=range(5, 9)) == []
    assert desk.die("A") == [desk.lease("B", 2, slot=0, step=5)]


def test_a_slot_waits_for_all_its_local_writers_and_comes_back_once() -> None:
    desk = Desk("A", "B", "C", slots=1, batch=3)
    leases = grants(desk.start(10))
    desk.end(10)
    desk.start(11, steps=range(5, 9))
    assert desk.answer(leases[1]) == []
    assert desk.die("A") == []
    assert len(grants(desk.answer(leases[2]))) == 2
    free = desk.table._streams[0].free
    assert free == []


def test_a_slot_does_not_wait_for_remote_workers() -> None:
    desk = Desk("a", slots=1)
    [first] = grants(desk.start(10))
    assert desk.end(10) == []
    assert desk.start(11, steps=range(5, 9)) == [desk.lease("a", 2, slot=0, step=5)]
    assert desk.is_void(first)


# Clips that cannot be decoded


def test_a_failed_clip_is_replaced_and_its_piece_granted_again() -> None:
    desk = Desk("A")
    [first] = grants(desk.start(steps=range(1)))
    planned = desk.plans[0][0]
    other = desk.plans[0].substitute(planned[2])
    [again] = grants(desk.fail(first, at=2))
    assert again == Grant("A", 2, 0, 0, 0, (planned[0], planned[1], other, planned[3]))
    assert desk.answer(again) == [Given(10, 0, 0)]
    assert desk.ready[10, 0].samples == again.samples
    assert desk.quarantines[0].videos == [("v2.avi", "broken")]


def test_a_failed_piece_may_go_to_another_worker() -> None:
    desk = Desk("A", credit=1)
    [first] = grants(desk.start(steps=range(1)))
    desk.leave("A")
    [first] = grants(desk.join("B"))
    desk.join("C")
    [again] = grants(desk.fail(first))
    assert again.worker == "C"
    assert desk.leave("C") == [Grant("B", 4, 0, 0, 0, again.samples)]


def test_known_bad_videos_are_replaced_before_they_are_granted() -> None:
    desk = Desk("A", credit=1)
    [first] = grants(desk.start(steps=range(2)))
    desk.quarantines[0].add(5, "found elsewhere")
    [second] = grants(desk.answer(first))
    planned = desk.plans[0][1]
    other = desk.plans[0].substitute(planned[1])
    assert second.samples == (planned[0], other, planned[2], planned[3])


def test_all_known_bad_videos_of_a_failed_piece_are_replaced_at_once() -> None:
    desk = Desk("A")
    [first] = grants(desk.start(steps=range(1)))
    desk.quarantines[0].add(1, "found elsewhere")
    [again] = grants(desk.fail(first, at=3))
    assert [sample.attempt for sample in again.samples] == [0, 1, 0, 1]


def test_known_bad_videos_are_replaced_before_their_piece_is_granted_again() -> None:
    desk = Desk("A")
    desk.start(steps=range(1))
    desk.leave("A")
    desk.quarantines[0].add(1, "found elsewhere")
    [again] = grants(desk.join("B"))
    assert [sample.attempt for sample in again.samples] == [0, 1, 0, 0]


def test_what_a_silent_worker_decodes_is_not_changed_behind_its_back() -> None:
    desk = Desk("a")
    [first] = grants(desk.start(steps=range(1)))
    desk.wait(3)
    desk.quarantines[0].add(1, "found elsewhere")
    [again] = grants(desk.join("b"))
    assert again.samples == first.samples
    assert desk.answer(first) == [Given(10, 0, 0)]
    assert desk.ready[10, 0].samples == first.samples


def test_a_dropped_video_is_replaced_but_not_counted() -> None:
    desk = Desk("A")
    [first] = grants(desk.start(steps=range(1)))
    [again] = grants(desk.fail(first, at=0, dropped=True))
    assert again.samples[0] == desk.plans[0].substitute(first.samples[0])
    assert desk.quarantines[0].videos == []


@pytest.mark.parametrize("at", [4, -1, 99])
def test_a_failure_of_no_clip_of_the_lease_is_put_on_its_first(at: int) -> None:
    desk = Desk("A")
    [first] = grants(desk.start(steps=range(1)))
    [again] = grants(desk.fail(first, at=at))
    assert [sample.attempt for sample in again.samples] == [1, 0, 0, 0]
    assert desk.quarantines[0].videos == [("v0.avi", f"worker named clip {at} of 4: broken")]


def test_a_failure_makes_other_leases_of_the_piece_void() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    first, again = passed_over(desk)
    [third] = grants(desk.fail(first))
    assert third.samples != again.samples
    assert desk.is_void(again)
    assert desk.answer(again) == []
    assert desk.answer(third) == [Given(10, 0, 0)]


def stop_of(commands: list[Seen]) -> Stop:
    [stop] = [command for command in commands if isinstance(command, Stop)]
    return stop


def test_too_many_bad_videos_stop_the_stream() -> None:
    desk = Desk("A", videos=100)
    lease, other = grants(desk.start())
    desk.start(11)
    for _ in range(3):
        lease = grants(desk.fail(lease))[0]
    commands = desk.fail(lease)
    stop = stop_of(commands)
    assert commands == [stop]
    assert stop.stream == 0
    assert isinstance(stop.error, TooManyBadVideos)
    assert len(stop.error.videos) == 4
    assert desk.is_void(other)
    assert desk.answer(other) == desk.want() == desk.wait(1, "A") == []


def test_a_stopped_stream_passes_no_turns() -> None:
    desk = Desk("a", credit=9, on_error="raise")
    first = grants(desk.start(10, steps=range(3)))
    desk.answer(first[0])
    other, last = grants(desk.start(11, steps=range(2)))
    desk.want(10)
    desk.answer(other)  # so it would be the turn of reader 10
    stop_of(desk.fail(last))
    assert desk.wait(1, "a") == []


def test_a_fatal_failure_stops_the_stream_and_blames_no_video() -> None:
    desk = Desk("A", "b")
    desk.stream(1)
    leases = grants(desk.start())
    assert desk.start(20, stream=1) == []
    failure = "m:f: division by zero"
    desk._seen(desk.table.failed("A", leases[0].lease, 0, failure, fatal=True))
    commands = desk.answer(*(lease for lease in leases if (lease.slot, lease.first) == (0, 2)))
    error = stop_of(commands).error
    assert isinstance(error, TransformError)
    assert str(error) == failure
    assert {lease.stream for lease in grants(commands)} == {1}
    assert all(map(desk.is_void, leases))
    assert desk.quarantines[0].videos == []


@pytest.mark.parametrize("what", ["bad, raise", "too many bad", "fatal"])
def test_what_fails_ahead_ends_the_stream_at_its_own_batch_and_no_earlier(what: str) -> None:
    on_error = "raise" if what == "bad, raise" else "substitute"
    desk = Desk("A", credit=4, on_error=on_error, videos=100)
    first, second, third, fourth = grants(desk.start(steps=range(4)))
    commands: list[Seen] = []
    if what == "fatal":
        commands += desk._seen(desk.table.failed("A", third.lease, 0, "1 / 0", fatal=True))
    failing = third
    for _ in range(0 if what == "fatal" else 4):  # 3 may be bad
        commands += (seen := desk.fail(failing))
        failing = grants(seen)[0]
    assert not given(commands)
    assert not any(isinstance(command, Stop) for command in commands)
    commands = desk.decode_and_see(first, second, failing, fourth)
    assert given(commands) == [Given(10, 0, first.slot), Given(10, 1, second.slot)]
    error = stop_of(commands).error
    expected = {"bad, raise": VideoError, "too many bad": TooManyBadVideos, "fatal": TransformError}
    assert type(error) is expected[what]
    if isinstance(error, VideoError):
        assert error.path == "v8.avi"


def test_of_two_bad_clips_of_a_batch_the_first_one_is_named() -> None:
    desk = Desk("A", "B", "C", "D", credit=1, on_error="raise")
    leases = {lease.first: lease for lease in grants(desk.start(steps=range(1)))}
    commands = desk.fail(leases[3])
    commands += desk.fail(leases[1])
    assert not any(isinstance(command, Stop) for command in commands)
    error = stop_of(desk.answer(leases[0]) + desk.answer(*grants(commands), leases[2])).error
    assert isinstance(error, VideoError)
    assert error.path == "v1.avi"


# Clips that are left out


def test_a_skipped_clip_leaves_its_row_empty() -> None:
    desk = Desk("A", on_error="skip")
    [first] = grants(desk.start(steps=range(1)))
    again = grants(desk.fail(first, at=1))
    planned = desk.plans[0][0]
    assert [(lease.first, lease.samples) for lease in again] == [
        (0, (planned[0],)), (2, (planned[2], planned[3])),
    ]  # fmt: skip
    assert desk.answer(*again) == [Given(10, 0, 0)]
    ready = desk.ready[10, 0]
    assert ready.samples == (planned[0], planned[2], planned[3])
    assert ready.rows == (0, 2, 3)


def test_what_is_known_to_be_bad_is_left_out_from_the_start() -> None:
    desk = Desk("A", on_error="skip")
    desk.quarantines[0].add(2, "broken")
    [lease] = grants(desk.start(steps=range(1)))
    planned = desk.plans[0][0]
    assert lease.samples == (planned[0], planned[1], planned[3])
    assert desk.answer(lease) == [Given(10, 0, 0)]
    assert desk.ready[10, 0].rows is None


@pytest.mark.parametrize("known", [False, True])
def test_a_batch_of_which_all_is_left_out_is_handed_over_in_its_turn(known: bool) -> None:
    desk = Desk("A", on_error="skip", batch=1, credit=3)
    if known:
        desk.quarantines[0].add(1, "broken")
    leases = grants(desk.start(steps=range(3)))
    if not known:
        assert desk.fail(leases.pop(1)) == []
    first, third = leases
    assert [lease.samples[0].video for lease in leases] == [0, 2]
    assert desk.answer(third) == []
    assert [ready.step for ready in given(desk.answer(first))] == [0, 1, 2]
    assert desk.ready[10, 1].samples == ()


def test_a_stream_that_only_skips_hands_over_empty_batches_and_idles() -> None:
    desk = Desk("A", on_error="skip", videos=8, batch=4)
    for video in range(3):
        desk.quarantines[0].add(video, "broken")
    desk.quarantines[0].add(3, "short", dropped=True)
    [lease] = grants(seen := desk.start(steps=range(1, 3)))
    assert lease.samples == tuple(desk.plans[0][1])
    assert given(seen) == []
    assert [ready.step for ready in given(desk.answer(lease))] == [1, 2]


def test_a_fatal_failure_of_a_void_lease_stops_nothing() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    first, again = passed_over(desk)
    desk.answer(again)
    assert desk.table.failed("a", first.lease, 0, "no", fatal=True) == []


def test_on_error_raise_stops_the_stream_at_the_first_bad_video() -> None:
    desk = Desk("A", on_error="raise")
    lease, _ = grants(desk.start())
    [again] = grants(desk.fail(lease, at=1))  # whether clip 0 is good is not known yet
    error = stop_of(desk.answer(again)).error
    assert isinstance(error, VideoError)
    assert (error.path, error.reason) == ("v1.avi", "broken")


def test_a_stream_of_only_short_videos_stops() -> None:
    desk = Desk("A", videos=1, batch=1)
    [lease] = grants(desk.start())[:1]
    assert isinstance(stop_of(desk.fail(lease, dropped=True)).error, SpecError)


def test_a_stopped_stream_leaves_the_others_alone() -> None:
    desk = Desk("A", credit=1, on_error="raise")
    desk.stream(1)
    [lease] = grants(desk.start(10))
    assert desk.start(20, stream=1) == []
    commands = desk.fail(lease)
    assert grants(commands) == [desk.lease("A", 2, stream=1, slot=0, step=0)]
    assert stop_of(commands).stream == 0


def test_a_stopped_stream_gets_its_slots_back() -> None:
    desk = Desk("A", "B", on_error="raise", slots=4)
    first, second, third, fourth = grants(desk.start())
    desk.fail(first)
    free = desk.table._streams[0].free
    assert len(free) == 2  # those that nobody had begun
    desk.answer(third)
    assert len(free) == 2
    desk.answer(fourth)
    assert len(free) == 3
    desk.die("B")  # was at the second
    assert second.slot in free
    assert sorted(free) == [0, 1, 2, 3]


# Videos that kill


def test_the_piece_that_a_worker_died_over_is_granted_again_clip_by_clip() -> None:
    desk = Desk("A")
    desk.start(steps=range(2))
    desk.die("A")
    leases = desk.decode_all(*desk.join("B"))
    assert [(g.slot, g.first, len(g.samples)) for g in leases] == [
        (0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 3, 1),
        (1, 0, 4),  # that was waiting, not at work
    ]  # fmt: skip
    assert [desk.ready[10, step].samples for step in range(2)] == [
        tuple(desk.plans[0][step]) for step in range(2)
    ]


def kill_over_and_over(desk: Desk, times: int) -> list[Seen]:
    """So many local workers come, begin with the chunk that is first in line, and die."""
    commands: list[Seen] = []
    for i in range(times):
        desk.join(f"W{i}")
        commands = desk.die(f"W{i}")
    return commands


def test_a_clip_that_killed_two_workers_is_taken_for_bad() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    kill_over_and_over(desk, 1)
    assert desk.quarantines[0].videos == []
    kill_over_and_over(desk, 1)
    assert desk.quarantines[0].videos == [("v0.avi", "2 workers died while decoding it")]
    [again] = grants(desk.join("A"))
    assert again.samples == (desk.plans[0].substitute(desk.plans[0][0][0]),)


def test_in_a_piece_of_many_only_the_clip_that_kills_is_taken_for_bad() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    for turn in range(20):
        worker = f"W{turn}"
        queue = grants(desk.join(worker))
        while queue and not any(s.video == 2 for s in queue[0].samples):
            queue += grants(desk.answer(queue.pop(0)))
        if not queue:
            break
        desk.die(worker)
    assert turn == 3  # one for the whole chunk, which proves nothing, and two for the clip alone
    assert desk.quarantines[0].videos == [("v2.avi", "2 workers died while decoding it")]
    assert [s.attempt for s in desk.ready[10, 0].samples] == [0, 0, 1, 0]


def test_a_stand_in_is_not_blamed_for_the_deaths_before_it() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    kill_over_and_over(desk, 3)
    assert len(desk.quarantines[0].videos) == 1
    kill_over_and_over(desk, 1)
    assert len(desk.quarantines[0].videos) == 2


def test_what_stands_in_for_a_video_found_bad_elsewhere_is_not_blamed_either() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    kill_over_and_over(desk, 1)
    desk.quarantines[0].add(0, "found elsewhere")
    kill_over_and_over(desk, 1)
    assert desk.quarantines[0].videos == [("v0.avi", "found elsewhere")]
    kill_over_and_over(desk, 1)
    assert len(desk.quarantines[0].videos) == 2


def test_workers_that_say_bye_blame_nothing() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    for i in range(9):
        desk.join(f"W{i}")
        desk.leave(f"W{i}")
    assert desk.quarantines[0].videos == []


def test_only_the_lease_at_work_is_blamed_for_a_death() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(2))
    kill_over_and_over(desk, 2)
    assert [path for path, _ in desk.quarantines[0].videos] == ["v0.avi"]


def test_a_worker_that_says_what_it_was_at_may_have_lost_the_answer_before_that() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(2))
    for number in range(2):
        first, second = grants(desk.join(f"W{number}"))
        assert [lease.samples[0].video for lease in (first, second)] == [0, 1]
        desk.table.worker_left(f"W{number}", died=True, crashed=True, at_work=second.lease)
    assert [path for path, _ in desk.quarantines[0].videos] == ["v1.avi"]


def test_a_worker_that_dies_between_two_leases_blames_neither() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(2))
    for number in range(4):
        assert len(grants(desk.join(f"W{number}"))) == 2
        desk.table.worker_left(f"W{number}", died=True, crashed=True, at_work=0)
    assert desk.quarantines[0].videos == []


def test_a_death_over_a_void_lease_blames_nothing() -> None:
    desk = Desk("W", batch=1)
    desk.start(10)
    desk.end(10)
    desk.start(11)
    kill_over_and_over(desk, 1)
    desk.die("W")  # it was at work for reader 10
    assert desk.quarantines[0].videos == []


def test_a_death_over_a_void_lease_does_not_blame_the_next_one_either() -> None:
    desk = Desk("W")
    desk.start(10, steps=range(1))
    desk.end(10)
    assert len(grants(desk.start(11))) == 1
    desk.die("W")
    assert [len(lease.samples) for lease in grants(desk.join("A"))] == [4, 4]


def test_a_piece_that_another_worker_has_as_well_is_not_blamed() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    for i in range(4):
        desk.join(f"w{i}")
        desk.wait(3)
    assert [desk.die(f"w{i}") for i in range(3)] == [[], [], []]
    assert desk.quarantines[0].videos == []


def crash_over_and_over(desk: Desk, times: int) -> None:
    """As above, but the deaths look like a decoder's doing."""
    for i in range(times):
        desk.join(f"C{i}")
        desk.table.worker_left(f"C{i}", died=True, crashed=True)


def test_two_crashes_are_enough_whatever_is_allowed_of_other_deaths() -> None:
    desk = Desk(batch=1, deaths=4)
    desk.start(steps=range(1))
    crash_over_and_over(desk, 1)
    kill_over_and_over(desk, 1)
    assert desk.quarantines[0].videos == []
    crash_over_and_over(desk, 1)
    assert desk.quarantines[0].videos == [("v0.avi", "3 workers died while decoding it")]


def test_a_crash_is_a_death_as_well() -> None:
    desk = Desk(batch=1, deaths=3)
    desk.start(steps=range(1))
    crash_over_and_over(desk, 1)
    kill_over_and_over(desk, 1)
    assert desk.quarantines[0].videos == []
    kill_over_and_over(desk, 1)
    assert len(desk.quarantines[0].videos) == 1


def test_a_stand_in_is_not_blamed_for_the_crashes_before_it() -> None:
    desk = Desk(batch=1, deaths=9)
    desk.start(steps=range(1))
    crash_over_and_over(desk, 3)
    assert len(desk.quarantines[0].videos) == 1
    desk.quarantines[0].add(394, "the stand-in, found elsewhere")
    crash_over_and_over(desk, 1)
    assert len(desk.quarantines[0].videos) == 2
    crash_over_and_over(desk, 1)
    assert len(desk.quarantines[0].videos) == 3


def test_a_crash_over_many_clips_proves_nothing() -> None:
    desk = Desk(credit=9, deaths=9)
    desk.start(steps=range(1))
    crash_over_and_over(desk, 2)  # the first over all four of them
    assert desk.quarantines[0].videos == []
    crash_over_and_over(desk, 1)
    assert len(desk.quarantines[0].videos) == 1


def cut_off(desk: Desk, worker: str) -> None:
    """A remote worker takes the first chunk, and then it cannot be reached any more."""
    desk.join(worker)
    desk.die(worker)


def test_a_clip_is_not_blamed_for_a_line_that_broke() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    for i in range(10):
        cut_off(desk, f"w{i}")
        desk.table.worker_returned(f"w{i}")
    assert desk.quarantines[0].videos == []
    cut_off(desk, "x")
    assert desk.quarantines[0].videos == []
    cut_off(desk, "y")
    assert len(desk.quarantines[0].videos) == 1


def test_a_worker_that_returns_takes_no_more_than_its_own_death_back() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    cut_off(desk, "a")
    desk.table.worker_returned("a")
    desk.table.worker_returned("a")
    desk.table.worker_returned("z")
    cut_off(desk, "b")
    assert desk.quarantines[0].videos == []
    desk.table.worker_returned("a")
    cut_off(desk, "c")
    assert len(desk.quarantines[0].videos) == 1


def test_a_worker_that_returns_too_late_blames_the_stand_in_no_less() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    cut_off(desk, "a")
    cut_off(desk, "b")
    assert len(desk.quarantines[0].videos) == 1
    desk.table.worker_returned("a")  # there is nothing to take back any more
    cut_off(desk, "c")
    assert len(desk.quarantines[0].videos) == 1
    cut_off(desk, "d")
    assert len(desk.quarantines[0].videos) == 2


def test_of_two_deaths_only_the_one_that_was_none_is_taken_back() -> None:
    desk = Desk(batch=1, deaths=3)
    desk.start(steps=range(1))
    cut_off(desk, "a")
    cut_off(desk, "b")
    desk.table.worker_returned("a")
    kill_over_and_over(desk, 1)
    assert desk.quarantines[0].videos == []
    kill_over_and_over(desk, 1)
    assert len(desk.quarantines[0].videos) == 1


def test_what_was_answered_takes_no_blame_from_others() -> None:
    desk = Desk(batch=1, credit=1)
    desk.start(steps=range(2))
    cut_off(desk, "a")  # over step 0
    [first] = grants(desk.join("c"))
    desk.join("b")  # over step 1
    desk.wait(3, "b", "c")  # not as soon as it is started
    desk.die("b")
    [second] = grants(desk.answer(first))
    assert list(desk.table._blame._blamed) == ["b"]  # step 0 killed nobody
    desk.table.worker_returned("b")
    assert second.worker == "c"
    desk.die("c")
    assert desk.quarantines[0].videos == []


def test_a_local_worker_does_not_return() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    kill_over_and_over(desk, 1)
    desk.table.worker_returned("W0")
    kill_over_and_over(desk, 1)
    assert len(desk.quarantines[0].videos) == 1


@pytest.mark.parametrize("deaths", [1, 3])
def test_so_many_deaths_as_the_table_is_told_blame_a_clip(deaths: int) -> None:
    desk = Desk(deaths=deaths, batch=1)
    desk.start(steps=range(1))
    kill_over_and_over(desk, deaths - 1)
    assert desk.quarantines[0].videos == []
    kill_over_and_over(desk, 1)
    assert len(desk.quarantines[0].videos) == 1


def test_too_many_deaths_stop_the_stream() -> None:
    desk = Desk(batch=1, on_error="raise")
    desk.start()
    commands = kill_over_and_over(desk, 2)
    assert isinstance(stop_of(commands).error, VideoError)
    assert sorted(desk.table._streams[0].free) == list(range(8))


# This process slept


def test_a_pause_of_this_process_kills_nobody() -> None:
    desk = Desk("A", "b")
    desk.start()
    desk.wait(1, "A", "b")
    desk.now += 3600
    assert rest(desk.wait(1)) == []
    assert desk.table.workers == 2


def test_a_pause_gives_no_more_than_its_own_length() -> None:
    desk = Desk("A", "b")
    desk.wait(1, "A", "b")
    desk.now += 3600
    assert desk.wait(2.25) == []
    assert desk.table.workers == 2
    assert desk.wait(0.25) == []
    assert desk.table.workers == 1  # b is passed over
    assert desk.wait(8) == [Evict("A")]


def test_many_short_pauses_hide_no_stall() -> None:
    desk = Desk("A")
    commands = []
    for _ in range(20):
        desk.now += 0.75
        commands += desk.wait(0.25)
    assert commands == [Evict("A")]


def test_the_first_tick_may_be_late() -> None:
    desk = Desk()
    desk.now = 1000.0
    desk.join("A")
    assert desk.wait(1) == []


# Several streams


def test_the_run_whose_consumer_waits_goes_first() -> None:
    desk = Desk("A", credit=1)
    desk.stream(1)
    [lease] = grants(desk.start(10))
    assert desk.start(20, stream=1) == []
    commands = desk.answer(lease)  # reader 10 has its batch, reader 20 waits
    assert commands == [Given(10, 0, 0), desk.lease("A", 2, stream=1, slot=0, step=0)]
    desk.want(10)
    commands = desk.answer(*grants(commands))
    assert commands == [Given(20, 0, 0), desk.lease("A", 3, slot=1, step=1)]


def test_a_run_that_waits_for_its_last_batch_goes_first() -> None:
    desk = Desk("a", credit=1)
    desk.stream(1)
    [lease] = grants(desk.start(10, steps=range(2)))
    desk.answer(lease)
    desk.start(20, stream=1)
    [other] = grants(desk.join("b"))
    [other] = grants(desk.answer(other))
    assert desk.want(10) == desk.leave("a") == []  # b is busy
    assert grants(desk.answer(other)) == [desk.lease("b", 5, slot=1, step=1)]


def test_among_runs_that_do_not_wait_the_one_least_ahead_goes_first() -> None:
    desk = Desk("A")
    desk.stream(1)
    leases = desk.decode_all(*desk.start(10), *desk.start(20, stream=1))
    assert [lease.stream for lease in leases] == [0, 0, 1, 1, *[0, 1] * 6]


def test_streams_have_slots_of_their_own() -> None:
    desk = Desk("A", credit=9, slots=2)
    desk.stream(1, slots=3)
    leases = [*grants(desk.start(10)), *grants(desk.start(20, stream=1))]
    assert [(g.stream, g.slot) for g in leases] == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
    desk.answer(*leases)
    assert {g.stream for g in grants(desk.slot_back(0, stream=1))} == {1}


def test_a_dropped_stream_is_forgotten() -> None:
    desk = Desk("A")
    desk.stream(1)
    [lease] = grants(desk.start(10, steps=range(1)))
    desk.start(11)  # waits for its turn
    assert desk.table.drop_stream(0) == []
    assert desk.is_void(lease)
    assert desk.start(20, stream=1) == [desk.lease("A", 2, stream=1, slot=0, step=0)]
    assert desk.answer(lease) == [desk.lease("A", 3, stream=1, slot=1, step=1)]
    assert desk.slot_back(3, stream=0) == desk.want(10) == desk.want(11) == desk.end(10) == []


# Several consumers of one stream


def test_the_run_that_is_asked_last_gets_the_slots() -> None:
    desk = Desk("a", credit=3, slots=3)
    first = grants(desk.start(10, steps=range(5)))
    assert desk.answer(first[0]) == [Given(10, 0, 0)]
    assert desk.start(11, steps=range(50, 60)) == [
        Recall(10),
        desk.lease("a", 4, slot=2, step=50),
    ]
    assert all(map(desk.is_void, first))
    assert desk.recalled(10, Given(10, 0, 0)) == []  # a has three leases, two of them void
    assert [g.slot for g in grants(desk.answer(*first[1:]))] == [0, 1]


def test_a_run_that_is_left_goes_on_where_its_consumer_was() -> None:
    desk = Desk("a", slots=3, credit=9)
    first = grants(desk.start(10, steps=range(9)))
    desk.answer(first[0], first[1], first[2])
    desk.start(11, steps=range(50, 51))
    # step 0 was consumed, 1 and 2 were not
    [other] = grants(desk.recalled(10, Given(10, 1, 1), Given(10, 2, 2)))
    assert desk.answer(other) == [Given(11, 50, other.slot)]
    desk.ready.clear()
    again = desk.want(10)
    assert again[0] == Recall(11)
    leases = desk.decode_all(
        *again, *desk.recalled(11), *desk.slot_back(0), *desk.slot_back(other.slot)
    )
    assert [g.samples[0].origin // 4 for g in leases] == [1, 2, 3]
    assert list(desk.ready) == [(10, 1), (10, 2), (10, 3)]


def test_an_unordered_run_that_is_left_gets_the_rest_and_nothing_twice() -> None:
    desk = Desk("a", slots=3, credit=9, ordered=False)
    first = grants(desk.start(10, steps=range(6)))
    assert desk.answer(first[1]) == [Given(10, 1, 1)]
    assert desk.answer(first[2]) == [Given(10, 2, 2)]
    other = desk.start(11, steps=range(50, 51))
    assert other[0] == Recall(10)
    desk.recalled(10, Given(10, 2, 2))  # step 1 was consumed
    desk.decode_all(*other)
    del desk.ready[10, 2]
    leases = desk.decode_all(
        *desk.want(10), *desk.slot_back(1), *desk.slot_back(desk.ready[11, 50].slot)
    )
    assert [g.samples[0].origin // 4 for g in leases] == [0, 2, 3]


def test_a_run_that_waits_is_handed_a_batch_before_another_takes_over() -> None:
    desk = Desk("a")
    first, _ = grants(desk.start(10))
    assert desk.start(11) == desk.want(11) == []
    assert rest(desk.answer(first)) == [Given(10, 0, 0)]
    assert desk.want(11)[0] == Recall(10)


def test_runs_that_wait_take_turns() -> None:
    desk = Desk("a")
    queue = grants(desk.start(10))
    desk.start(11)
    desk.start(12)
    turns = []
    for _ in range(40):
        commands = desk.answer(queue.pop(0))
        for batch in given(commands):
            turns.append(batch.reader)
            commands += desk.slot_back(batch.slot)
            commands += desk.want(batch.reader)
        commands += desk.wait(0.25, "a")
        for command in list(commands):
            if isinstance(command, Recall):
                commands += desk.recalled(command.reader)
        queue += grants(commands)
    assert set(turns[:3]) == set(turns[3:6]) == {10, 11, 12}


def test_a_run_that_does_not_wait_is_given_no_turn() -> None:
    desk = Desk("a", credit=9, slots=2)
    [first, _] = grants(desk.start(10))
    desk.answer(first)
    [other] = grants(desk.start(11))
    assert given(desk.answer(other)) == [Given(11, 0, other.slot)]
    assert desk.wait(5, "a") == []  # reader 10 does not wait


def test_a_complete_batch_that_waited_for_an_earlier_one_is_decoded_again() -> None:
    desk = Desk("a", credit=9, slots=4)
    first, _, third = grants(desk.start(10, steps=range(3)))
    assert desk.answer(third, first) == [Given(10, 0, 0)]
    desk.decode_all(*desk.start(11, steps=range(50, 51)))
    one, two = grants(desk.want(10))
    assert desk.answer(one) == [Given(10, 1, one.slot)]
    assert desk.answer(two) == [Given(10, 2, two.slot)]


def test_the_run_that_waits_goes_on_when_another_ends() -> None:
    desk = Desk("a", slots=2)
    desk.start(10)
    desk.start(11)
    assert [g.samples[0].origin for g in grants(desk.end(10))] == []  # a is busy with void leases
    desk.leave("a")
    assert desk.join("b") == [
        desk.lease("b", 3, slot=1, step=0),
        desk.lease("b", 4, slot=0, step=1),
    ]


def test_a_run_that_has_everything_takes_no_turn_from_others() -> None:
    desk = Desk("a", credit=1)
    [first] = grants(desk.start(10, steps=range(1)))
    desk.answer(first)
    [other] = grants(desk.start(11))
    assert desk.want(10) == []  # said before its last batch came
    assert rest(desk.answer(other)) == [Given(11, 0, other.slot)]
    assert desk.want(10) == []


def test_the_end_of_a_run_that_is_over_is_no_event() -> None:
    desk = Desk("A")
    desk.start()
    desk.end()
    assert desk.end() == desk.want() == []


def test_batches_that_nobody_took_free_their_slots_when_the_run_ends() -> None:
    desk = Desk("a", "b", slots=2, batch=2)
    leases = grants(desk.start(10))
    desk.answer(*leases[2:])  # step 1 is complete and waits for step 0
    desk.end(10)
    assert sorted(desk.table._streams[0].free) == [0, 1]


# One worker's word


def test_what_one_worker_cannot_decode_another_is_asked_for() -> None:
    desk = Desk("a:1", "b:2", credit=1, batch=4, lease_clips=4, slots=2)
    first, _ = grants(desk.start())
    asked = grants(desk.fail(first, 1))
    assert not desk.quarantines[0].videos
    # The rest of the lease may go to anybody, the doubted clip to others only.
    doubted = first.samples[1]
    assert all(doubted not in lease.samples for lease in asked if lease.worker == "a:1")
    leases = desk.decode_all(*asked)
    assert not desk.quarantines[0].videos
    assert all(lease.worker == "b:2" for lease in leases if doubted in lease.samples) or not leases


def test_two_copies_that_say_the_same_have_the_last_word() -> None:
    desk = Desk("a:1", "b:2", credit=1, batch=1, slots=2)
    one, two = grants(desk.start())
    desk.fail(one)
    commands = desk.answer(two)
    again = next(lease for lease in grants(commands) if lease.samples == one.samples)
    assert again.worker == "b:2"
    desk.fail(again)
    assert [video.path for video in desk.quarantines[0].videos] == ["v0.avi"]


def test_a_worker_of_the_same_copy_is_asked_only_where_there_is_no_other() -> None:
    desk = Desk("a:1", "b:1", "c:2", credit=1, batch=1, slots=3)
    one, two, three = grants(desk.start())
    assert [lease.worker for lease in (one, two, three)] == ["a:1", "b:1", "c:2"]
    desk.fail(one)
    assert all(lease.samples != one.samples for lease in grants(desk.answer(two)))
    again = grants(desk.answer(three))
    assert [lease.worker for lease in again if lease.samples == one.samples] == ["c:2"]

    desk = Desk("a:1", "b:1", credit=1, batch=1, slots=2)
    one, two = grants(desk.start())
    desk.fail(one)
    again = [lease for lease in grants(desk.answer(two)) if lease.samples == one.samples]
    assert [lease.worker for lease in again] == ["b:1"]
    desk.fail(again[0])
    desk.wait(3.0, "a:1", "b:1")
    assert desk.quarantines[0].videos, "nobody is left to ask"


def test_alone_a_worker_is_believed() -> None:
    desk = Desk("a:1", credit=1, batch=1, slots=2)
    desk.wait(3.0, "a:1")
    [one] = grants(desk.start())
    desk.fail(one)
    assert [video.path for video in desk.quarantines[0].videos] == ["v0.avi"]


def test_who_is_quicker_than_the_others_to_dial_in_has_not_the_only_word() -> None:
    desk = Desk("a:1", credit=1, batch=1, slots=2)
    [one] = grants(desk.start())
    desk.fail(one)
    desk.wait(2.75, "a:1")
    assert not desk.quarantines[0].videos
    [again] = [lease for lease in grants(desk.join("b:2")) if lease.samples == one.samples]
    desk.answer(again)
    desk.wait(3.0, "a:1", "b:2")
    assert not desk.quarantines[0].videos

    desk = Desk("a:1", credit=1, batch=1, slots=2)
    [one] = grants(desk.start())
    desk.fail(one)
    desk.wait(3.0, "a:1")
    assert desk.quarantines[0].videos, "nobody came"


def test_the_trainers_own_copy_has_the_last_word_at_once() -> None:
    desk = Desk("A", "b:2", credit=1, batch=1, slots=2)
    one, _ = grants(desk.start())
    assert one.worker == "A"
    desk.fail(one)
    assert [video.path for video in desk.quarantines[0].videos] == ["v0.avi"]


def test_when_nobody_is_left_to_ask_it_is_decided() -> None:
    desk = Desk("a:1", "b:2", credit=1, batch=1, slots=2)
    one, _ = grants(desk.start())
    desk.fail(one)
    desk.leave("b:2")
    assert not desk.quarantines[0].videos
    desk.wait(3.0, "a:1")
    assert [video.path for video in desk.quarantines[0].videos] == ["v0.avi"]


def test_nobody_is_asked_while_nobody_is_there() -> None:
    desk = Desk("a:1", "b:2", credit=1, batch=1, slots=2)
    one, _ = grants(desk.start())
    desk.fail(one)
    desk.leave("a:1")
    desk.leave("b:2")
    desk.wait(1)
    assert not desk.quarantines[0].videos
    assert any(lease.samples == one.samples for lease in grants(desk.join("c:3")))


def fails_at_everything(desk: Desk, worker: str, seconds: float) -> list[Seen]:
    """A worker that fails at all it gets, beside one that can decode all."""
    seen: list[Seen] = []
    open_leases = grants(desk.start(steps=range(10_000)))
    for _ in range(round(seconds * 4)):
        for lease in open_leases:
            if desk.is_void(lease):
                continue
            seen += desk.fail(lease) if lease.worker == worker else desk.answer(lease)
        for step in [step for _, step in desk.ready]:
            batch = desk.ready.pop((10, step))
            seen += desk._seen(desk.table.slot_back(0, batch.slot))
        seen += desk.wait(0.25, "good:1", worker)
        open_leases = [lease for lease in grants(seen) if not desk.is_void(lease)]
    return seen


def test_who_fails_where_others_do_not_is_paused_and_in_the_end_dismissed() -> None:
    desk = Desk("bad:2", "good:1", credit=2, batch=1, slots=4)
    seen = fails_at_everything(desk, "bad:2", seconds=90)
    pauses = [command for command in seen if isinstance(command, Pause)]
    assert [pause.seconds for pause in pauses] == [2, 4, 8, 16, 32]
    assert {pause.worker for pause in pauses} == {"bad:2"}
    dismissed = [command for command in seen if isinstance(command, Dismiss)]
    assert dismissed[:1] == [Dismiss("bad:2", "broken")]
    assert not desk.quarantines[0].videos


def test_a_fatal_failure_of_one_worker_stops_no_stream() -> None:
    desk = Desk("a:1", "b:2", credit=1, batch=1, slots=2)
    one, two = grants(desk.start())
    seen = desk._seen(desk.table.failed(one.worker, one.lease, 0, "not allowed", fatal=True))
    assert not any(isinstance(command, Stop) for command in seen)
    again = [lease for lease in grants(desk.answer(two)) if lease.samples == one.samples]
    seen = desk._seen(desk.table.failed("b:2", again[0].lease, 0, "not allowed", fatal=True))
    assert any(isinstance(command, Stop) for command in seen)


def test_where_a_local_worker_can_be_asked_no_number_of_others_condemns_a_file() -> None:
    # Hosts and copies are what a worker says of itself: one liar can be as many as it likes.
    desk = Desk("A", "b:2", "c:3", credit=1, batch=1, slots=3)
    leases = {lease.worker: lease for lease in grants(desk.start())}
    doubted = leases["b:2"].samples
    desk.fail(leases["b:2"])
    asked = [lease for lease in grants(desk.answer(leases["c:3"])) if lease.samples == doubted]
    assert [lease.worker for lease in asked] == ["c:3"]
    desk.fail(asked[0])
    assert not desk.quarantines[0].videos
    asked = [lease for lease in grants(desk.answer(leases["A"])) if lease.samples == doubted]
    assert [lease.worker for lease in asked] == ["A"]
    desk.answer(asked[0])
    assert not desk.quarantines[0].videos


def test_an_answer_that_is_not_taken_is_asked_of_others_and_counts_against_its_worker() -> None:
    desk = Desk("a:1", "b:2", credit=1, batch=1, slots=2)
    one, two = grants(desk.start())
    desk._seen(desk.table.refused(one.worker, one.lease, 0, "another copy"))
    again = [lease for lease in grants(desk.answer(two)) if lease.samples == one.samples]
    assert [lease.worker for lease in again] == ["b:2"]
    desk.answer(again[0])
    assert not desk.quarantines[0].videos


def test_alone_a_worker_whose_answers_are_not_taken_is_asked_three_times() -> None:
    desk = Desk("a:1", credit=1, batch=1, slots=2)
    [lease] = grants(desk.start())
    first = lease.samples
    for _ in range(2):
        [lease] = grants(desk._seen(desk.table.refused("a:1", lease.lease, 0, "another copy")))
        assert lease.samples == first
    desk._seen(desk.table.refused("a:1", lease.lease, 0, "another copy"))
    assert [video.path for video in desk.quarantines[0].videos] == ["v0.avi"]


# Answers that receivers write


def test_what_lands_is_nobody_elses_until_it_has_landed() -> None:
    desk = Desk("a", "b")
    first, *_ = grants(desk.start(steps=range(1)))
    desk.land(first)
    assert grants(desk.wait(3, "b")) == []  # a is silent, and b idle but for its own half
    assert desk.is_void(first)  # nothing more is taken for it
    assert desk.fail(first) == []
    assert desk.landed(first) == []
    assert not desk.is_void(first)


def test_what_does_not_land_is_granted_again() -> None:
    desk = Desk("a")
    first, *_ = grants(desk.start(steps=range(1)))
    desk.land(first)
    [again] = grants(desk.landed(first, whole=False))
    assert again.samples == first.samples
    assert given(desk.answer(again)) == [Given(10, 0, 0)]


def test_what_lands_of_a_worker_that_has_left_is_granted_again_only_then() -> None:
    desk = Desk("a", "B")
    lease = next(g for g in grants(desk.start(steps=range(1))) if g.worker == "a")
    desk.land(lease)
    assert grants(desk.leave("a")) == []
    [again] = grants(desk.landed(lease))
    assert (again.worker, again.samples) == ("B", lease.samples)


def test_who_left_and_came_back_under_its_name_is_another_one() -> None:
    desk = Desk("a")
    first, *_ = grants(desk.start(steps=range(1)))
    desk.land(first)
    desk.leave("a")
    assert desk.join("a") == []
    [again] = grants(desk.landed(first))
    assert given(desk.answer(again)) == [Given(10, 0, 0)]


def test_a_batch_that_was_cancelled_keeps_its_slot_until_all_of_it_has_landed() -> None:
    desk = Desk("a", slots=2)
    first, second = grants(desk.start(steps=range(2)))
    desk.land(first)
    desk.end()
    assert desk.table._streams[0].free == [second.slot]
    desk.landed(first)
    assert desk.answer(first) == []
    assert sorted(desk.table._streams[0].free) == [0, 1]


def test_who_announces_pixels_that_never_come_has_a_pause() -> None:
    desk = Desk("a", "b")
    asked = [g for g in grants(desk.start()) if g.worker == "a"]
    told: list[Seen] = []
    for _ in range(31):
        desk.land(asked[0])
        told += (commands := desk.landed(asked.pop(0), whole=False, blame=True))
        asked += [g for g in grants(commands) if g.worker == "a"]
        if not asked:
            break
    [pause] = rest(told)
    assert isinstance(pause, Pause)
    assert (pause.worker, pause.reason) == ("a", "the pixels that it announced did not come")


@pytest.mark.parametrize("lands", [True, False])
def test_a_doubted_clip_is_not_given_up_while_somebody_writes_it(lands: bool) -> None:
    desk = Desk("a:x", "b:x", credit=1, slots=1, batch=1, on_error="skip")
    first, *_ = grants(desk.start(steps=range(2)))
    other = "b:x" if first.worker == "a:x" else "a:x"
    [second] = grants(desk.fail(first))
    assert second.worker == other
    if lands:
        desk.land(second)
    seen = desk.wait(3, str(first.worker))  # the other one is silent, and nobody else may judge
    if lands:
        assert seen == []
        assert desk.landed(second) == []
        assert given(desk.answer(second)) == [Given(10, 0, 0)]
    else:
        assert given(seen) == [Given(10, 0, 0)]
        assert desk.is_void(second), "the slot is the consumer's"
        assert given(desk.answer(second)) == []
