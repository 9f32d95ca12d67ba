"""Answers wait until it is decided which copy is used, but not for ever. See also
tests/faults/test_copies.py, with real workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from videoload.catalog.catalog import Catalog
from videoload.engine.admission import ConnectedWorker
from videoload.engine.copy_check import CopyCheck
from videoload.engine.copy_votes import CopyVotes
from videoload.leases.commands import Command, Grant
from videoload.leases.table import LeaseTable
from videoload.plan.options import StreamOptions
from videoload.plan.plan import Plan
from videoload.plan.quarantine import Quarantine
from videoload.transport.messages import Compared, Result

VIDEOS = 8


class Desk:
    """Two workers with different copies, and a stream of one clip per batch. The trainer has none
    itself. The workers stand for their own peers."""

    def __init__(self) -> None:
        self.commands: deque[Command] = deque()  # which nobody carries out
        self.grants: list[Grant] = []
        self.posted: list[Callable[[], None]] = []
        self.streams: dict[int, Any] = {}
        self.table = LeaseTable(credit=2, stall_s=10.0, silence_s=2.0)
        self.workers: dict[Any, ConnectedWorker] = {}
        self.check = CopyCheck(
            self.table, self.streams, self.workers, None, SimpleNamespace(add=lambda *told: None),  # type: ignore[arg-type]
            self.commands, self.posted.append,
        )  # fmt: skip
        self.a, self.b = (self.join(host) for host in "ab")
        options = StreamOptions(1, False, 0, (0, 1), False, True, "substitute", 1.0)
        plan = Plan(VIDEOS, 1, options)
        catalog = Catalog([f"v{i}.avi" for i in range(VIDEOS)], [0] * VIDEOS, ["class"])
        self.table.add_stream(
            0, plan, Quarantine(catalog, plan, options), clip_frames=1, slots=4, ordered=True
        )
        self.streams[0] = SimpleNamespace(
            id=0,
            catalog=catalog,
            storage=None,
            copies=CopyVotes(VIDEOS),
        )
        self.execute(self.table.start_reader(0, 1, 0, VIDEOS))

    def join(self, host: str) -> Any:
        asked: list[object] = []
        peer = SimpleNamespace(send=asked.append, asked=asked)
        key = _Peer(peer)
        self.workers[key] = ConnectedWorker(host, 1, is_child=False, copy=host)
        self.execute(self.table.worker_joined(key, local=False, now=0.0, copy=host))
        return key

    def execute(self, commands: list[Command]) -> None:
        self.grants += [command for command in commands if isinstance(command, Grant)]

    def answer(self, worker: Any) -> None:
        """Answer the first lease of this worker."""
        grant = next(g for g in self.grants if g.worker is worker)
        self.grants.remove(grant)
        rows = len(grant.samples)
        result = Result(grant.lease, [[0]] * rows, 0.01, [77] * rows)
        self.check.add(worker, result, np.zeros((rows, 1), np.int64), 0)


class _Peer:
    def __init__(self, peer: Any) -> None:
        self.send = peer.send
        self.asked = peer.asked


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_an_answer_waits_for_the_vote_of_another_copy(desk: Desk) -> None:
    desk.answer(desk.a)
    assert len(desk.check._waiting) == 1
    [asked] = desk.b.asked
    desk.check.compared(desk.b, Compared(0, dict.fromkeys(asked.paths, 77)))
    assert desk.check._waiting == []


def test_a_vote_on_one_video_does_not_release_answers_of_other_videos(desk: Desk) -> None:
    desk.answer(desk.a)
    desk.answer(desk.a)
    first, second = desk.b.asked
    desk.check.compared(desk.b, Compared(0, dict.fromkeys(second.paths, 77)))
    [left] = desk.check._waiting
    assert set(left.videos) == set(first.paths)


def test_void_answers_do_not_keep_the_leases_of_their_workers(desk: Desk) -> None:
    desk.answer(desk.a)
    desk.answer(desk.a)
    del desk.streams[0]
    desk.execute(desk.table.drop_stream(0))
    desk.check.compared(desk.b, Compared(0, {0: 77}))
    assert desk.table.held(desk.a) == 2
    desk.check.settle_void()
    assert desk.check._waiting == []
    assert desk.table.held(desk.a) == 0
