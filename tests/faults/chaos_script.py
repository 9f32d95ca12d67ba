"""Which fault happens, to whom, and after which batch: the script of `tests.faults.chaos`."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from dataclasses import dataclass

from tests.faults.proxy import Fault, Kind, Way

STRAIGHT, PROXIED, SEALED = "dialled in", "through a proxy", "CURVE through a proxy"
ROLES = (STRAIGHT, PROXIED, SEALED)
LOCAL = "local"
EVERYBODY = "everybody"
FURTHER = "a further worker"

KILL, CRASH, HANG, LEAVE, SLOW = (
    "SIGKILL",
    "SIGSEGV",
    "SIGSTOP past the deadline",
    "SIGTERM",
    "slow (SIGSTOP/SIGCONT pulses)",
)
DEADLY = {KILL: signal.SIGKILL, CRASH: signal.SIGSEGV, LEAVE: signal.SIGTERM}
CUT_ALL = "cut all connections"
ALL_AT_ONCE = "SIGKILL to all at once"
FROZEN = "frozen storage"  # simulated by SIGSTOP to all workers
JOIN = "a worker joins, later leaves"
WRONG_ROOT, EMPTY_ROOT, HALF_ROOT = "wrong root", "empty root", "half-copied root"
LIAR = "lying worker"
POISON, ENDLESS = "poisonous message", "endless message"
STRANGER = "a stranger"
GUESTS = (JOIN, WRONG_ROOT, EMPTY_ROOT, HALF_ROOT)  # worker processes that come and go


@dataclass(frozen=True)
class Planned:
    """``what`` happens to ``whom`` after ``batch`` batches, and is undone ``undo``
    batches later."""

    batch: int
    what: str
    whom: str
    undo: int = 0
    fault: Fault | None = None  # of a proxy


def plan_faults(
    batches: int,
    faults: int,
    seed: int,
    chosen: Callable[[str], bool] = lambda what: True,
) -> list[Planned]:
    """The faults, in order. Every kind happens to every target in turn, in random order, and no
    kind a second time before all have come once; one fault in seven follows directly on the one
    before. ``chosen`` decides by name which kinds happen."""
    draw = random.Random(seed)
    kinds = [
        *[(what, LOCAL) for what in (KILL, CRASH, HANG, LEAVE, SLOW)] * 3,
        *[(what, role) for role in ROLES for what in (KILL, CRASH, HANG, LEAVE, SLOW)],
        *[(str(kind), role) for role in (PROXIED, SEALED) for kind in Kind],
        *[(CUT_ALL, role) for role in (PROXIED, SEALED)],
        (ALL_AT_ONCE, EVERYBODY),
        (FROZEN, EVERYBODY),
        *[(what, FURTHER) for what in (*GUESTS, LIAR)],
        *[(what, STRANGER) for what in (POISON, ENDLESS)],
    ]
    kinds = [(what, whom) for what, whom in kinds if chosen(what)]
    mean = 0.9 * batches / faults
    at = 0.03 * batches
    planned: list[Planned] = []
    deck: list[tuple[str, str]] = []
    while len(planned) < faults:
        if not deck:
            rest = draw.sample(kinds, len(kinds))
            for each in (one_of_each := [*dict(rest).items()]):
                rest.remove(each)
            deck = rest + one_of_each  # taken from the end: a short run has all kinds, too
        what, whom = deck.pop()
        close = draw.random() < 1 / 7
        at += draw.randrange(3) if close else mean * 7 / 6 * draw.uniform(0.4, 1.6)
        fault = None
        if what in set(Kind):
            way = draw.choice(list(Way))
            words = [b""] if whom is SEALED else [b"", *HELD_BY[way]]
            fault = Fault(Kind(what), way, draw.choice(words), draw.uniform(0.1, 0.6))
        undo = draw.randrange(10, 40)
        planned.append(Planned(min(int(at), int(0.97 * batches)), what, whom, undo, fault))
    return planned


# MessagePack's names of the messages in each direction.
HELD_BY = {
    Way.UP: [b"\xa6result", b"\xa9heartbeat"],
    Way.DOWN: [b"\xa5lease", b"\xa9heartbeat"],
}
