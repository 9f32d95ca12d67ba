"""A lease table with a clock, and short names for its events and commands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.catalog.catalog import Catalog
from videoload.errors import Fault
from videoload.leases.commands import (
    Command,
    Grant,
    Ready,
)
from videoload.leases.files import Files
from videoload.leases.records import Stream, Worker
from videoload.leases.table import LeaseTable
from videoload.plan.options import StreamOptions
from videoload.plan.plan import Plan, Sample
from videoload.plan.quarantine import Quarantine

STALL_S, SILENCE_S = 10.0, 2.0


class Given(NamedTuple):
    """A `Ready` that can be compared."""

    reader: int
    step: int
    slot: int


Seen = Command | Given


class Desk:
    """A lease table, a clock, and stream 0: not shuffled, four clips a batch, eight slots.

    Its methods are the events, and they return the commands.
    """

    def __init__(self, *workers: str, credit: int = 2, **stream: Any) -> None:
        self.table = LeaseTable(credit=credit, stall_s=STALL_S, silence_s=SILENCE_S)
        self.plans: dict[int, Plan] = {}
        self.quarantines: dict[int, Quarantine] = {}
        self.ready: dict[tuple[int, int], Ready] = {}  # by reader and step
        self.now = 0.0
        self.stream(0, **stream)
        self.join(*workers)

    def stream(
        self, stream: int, *, videos: int = 400, batch: int = 4, slots: int = 8,
        ordered: bool = True, on_error: Any = "substitute", max_bad: float = 0.01,
        lease_clips: int = 16, clips: int = 1, fetched: bool = False, function: str = "",
        files: Files | None = None, copy: str | None = None,
    ) -> None:  # fmt: skip
        options = StreamOptions(
            batch, False, 0, (0, 1), False, ordered, on_error=on_error, max_bad=max_bad
        )
        plan = self.plans[stream] = Plan(videos, clips, options)
        catalog = Catalog([f"v{i}.avi" for i in range(videos)], [0] * videos, ["class"])
        self.quarantines[stream] = Quarantine(catalog, plan, options)
        self.table.add_stream(Stream(
            stream, plan, self.quarantines[stream],
            slots=slots, ordered=ordered, lease_clips=lease_clips, fetched=fetched,
            function=function, files=files, copy=copy,
        ))  # fmt: skip

    def join(self, *workers: str) -> list[Seen]:
        """Workers say HELLO; those with a capital letter are local. A colon is followed by the copy
        that a worker reads, if it is not the trainer's own; a copy that ends with ``//`` is on
        another host. A name that has a "/" begins with the host that the worker runs on."""
        for worker in workers:
            name, _, copy = worker.partition(":")
            self.table.worker_joined(Worker(
                worker, local=worker.isupper(), joined=self.now, copy=copy or None,
                host=name.rpartition("/")[0] or None, fetches=worker.endswith("//"),
            ))  # fmt: skip
        return self.seen()

    def start(self, reader: int = 10, *, steps: range = range(100), stream: int = 0) -> list[Seen]:
        self.table.start_reader(stream, reader, steps.start, steps.stop)
        return self.seen()

    def want(self, reader: int = 10) -> list[Seen]:
        self.table.wanted(reader)
        return self.seen()

    def end(self, reader: int = 10) -> list[Seen]:
        self.table.end_reader(reader)
        return self.seen()

    def slot_back(self, slot: int, stream: int = 0) -> list[Seen]:
        self.table.slot_back(stream, slot)
        return self.seen()

    def recalled(self, reader: int, *batches: Given) -> list[Seen]:
        self.table.recalled(reader, [(g.step, g.slot) for g in batches])
        return self.seen()

    def answer(self, *leases: Grant, clip_s: float = 0.0) -> list[Seen]:
        """The workers have decoded these leases, in ``clip_s`` seconds a clip."""
        for lease in leases:
            if (known := self.table.lease(lease.worker, lease.lease)) is not None:
                decode_s = clip_s * len(lease.samples)
                self.table.answered(known, ordinals(lease.samples), decode_s)
        return self.seen()

    def fail(
        self, lease: Grant, at: int = 0, reason: str = "broken", fault: Fault = Fault.VIDEO,
        file: int = 0,
    ) -> list[Seen]:  # fmt: skip
        """The worker cannot decode clip ``at`` of the lease."""
        if (known := self.table.lease(lease.worker, lease.lease)) is not None:
            self.table.failed(known, at, reason, fault, file)
        return self.seen()

    def die(self, worker: str, at_work: int | None = None) -> list[Seen]:
        self.table.worker_left(worker, died=True, at_work=at_work)
        return self.seen()

    def leave(self, worker: str) -> list[Seen]:
        self.table.worker_left(worker, died=False)
        return self.seen()

    def wait(self, seconds: float, *beating: str) -> list[Seen]:
        """Time passes, in ticks of a quarter of a second. These workers send heartbeats, others do
        not."""
        for _ in range(round(seconds * 4)):
            self.now += 0.25
            for worker in beating:
                assert self.table.heard(worker, self.now)
            self.table.tick(self.now)
        return self.seen()

    def lease(
        self, worker: str, lease: int, *, slot: int, step: int, rows: slice = slice(None),
        stream: int = 0,
    ) -> Grant:  # fmt: skip
        """The Grant of these rows of a step, as in the plan."""
        samples = self.plans[stream][step][rows]
        first = rows.start or 0
        places = range(first, first + len(samples))
        return Grant(worker, lease, stream, slot, places, tuple(samples))

    def is_void(self, lease: Grant) -> bool:
        known = self.table.lease(lease.worker, lease.lease)
        return known is None or not known.is_owed

    def decode_all(self, *commands: Seen) -> list[Grant]:
        """Answer all leases, and the leases that follow from the answers; return them all."""
        queue, done = grants(commands), []
        while queue:
            done.append(queue.pop(0))
            queue += grants(self.answer(done[-1]))
        return done

    def decode_and_see(self, *leases: Grant) -> list[Seen]:
        """Answer these leases and the leases that follow from the answers; return all commands."""
        queue, seen = list(leases), list[Seen]()
        while queue:
            seen += (commands := self.answer(queue.pop(0)))
            queue += grants(commands)
        return seen

    def seen(self) -> list[Seen]:
        """What the events since the last call led to."""
        seen: list[Seen] = []
        for command in self.table.data_to_send():
            if isinstance(command, Ready):
                told = command.frames.reshape(-1, 2)
                assert np.array_equal(told, ordinals(command.samples))
                assert (command.reader, command.step) not in self.ready
                self.ready[command.reader, command.step] = command
                seen.append(Given(command.reader, command.step, command.slot))
            else:
                seen.append(command)
        return seen


def ordinals(samples: Iterable[Sample]) -> npt.NDArray[np.int64]:
    """The frames that a decoder would answer with; here the sample's number and its attempt."""
    return np.array([(s.origin, s.attempt) for s in samples], np.int64).reshape(-1, 2)


def grants(commands: Iterable[Seen]) -> list[Grant]:
    return [command for command in commands if isinstance(command, Grant)]


def given(commands: Iterable[Seen]) -> list[Given]:
    return [command for command in commands if isinstance(command, Given)]


def rest(commands: Iterable[Seen]) -> list[Seen]:
    """All commands but the grants."""
    return [command for command in commands if not isinstance(command, Grant)]


def passed_over(desk: Desk) -> tuple[Grant, Grant]:
    """The lease of a remote worker "a" that fell silent, and of "b", which got the chunk."""
    [first] = grants(desk.join("a"))
    desk.wait(1)
    assert desk.join("b") == []
    [again] = grants(desk.wait(1.5, "b"))
    assert (again.worker, again.slot, again.rows) == ("b", first.slot, first.rows)
    assert again.samples == first.samples
    return first, again


HALF, OTHER_HALF = slice(0, 2), slice(2, 4)
