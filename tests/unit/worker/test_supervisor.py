"""Which children hang, and what they were at."""

import socket
from itertools import count
from typing import Any

import pytest

from videoload.activity import Activity
from videoload.wire.private_messages import WorkerSettings
from videoload.worker.stall_clock import StallClock
from videoload.worker.supervisor import Supervisor

PIDS = count(1)


class Child:
    """A process that does nothing."""

    exit_reason, began = "SIGKILL", 0.0

    def __init__(self, module: str, theirs: socket.socket, *_: Any, **__: Any) -> None:
        theirs.close()
        self.pid = next(PIDS)
        self.status: int | None = None

    def kill(self) -> None:
        self.status = -9


@pytest.mark.parametrize(
    ("at", "looks", "after_s", "lease"),
    [
        (Activity.DECODING, 1, 10, 7),
        (Activity.FUNCTION, 1, 10, 7),
        (Activity.READING, 1, None, 7),  # its storage may be away
        (Activity.READING, 0, 10, 7),  # it was stopped
        (Activity.STUCK, 1, 10, 7),  # another file can be read
        (Activity.IMPORT, 1, 70, 0),  # no clip is the cause
        (Activity.IDLE, 1, 30, 0),
    ],
)
def test_a_child_without_progress_is_killed_unless_it_waits_for_its_storage(
    at: Activity, looks: int, after_s: float | None, lease: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``looks`` of the thread that watches its reads, between two looks at it."""
    monkeypatch.setattr("videoload.worker.supervisor.ChildProcess", Child)
    supervisor, now = Supervisor(), 0.0
    supervisor.start(2, WorkerSettings(["tcp://127.0.0.1:1"]))
    hung, other = supervisor.children
    for child in supervisor.children:
        child.stall = StallClock(0.5, lambda: now)
    hung.counters.turns, hung.counters.looks, hung.counters.at = 1, 1, at
    hung.counters.lease = 0 if at is Activity.IDLE else 7
    hung.counters.stall_s = {Activity.IDLE: 0, Activity.IMPORT: 70}.get(at, 10)
    causes: dict[int, int] = {}
    while not causes and now < 100:
        now += 0.25
        other.counters.turns += 1
        hung.counters.looks += looks
        causes = supervisor.supervise(30)
    assert now == (pytest.approx(after_s, abs=1) if after_s else 100)
    assert [*causes.values()] == [lease] * bool(after_s)
    for child in supervisor.children:
        child.channel.close()
