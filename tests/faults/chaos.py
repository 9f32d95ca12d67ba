"""Injects faults of every kind while a client streams; the stream must not change.

    python -m tests.faults.chaos --batches 20000 --faults 400 --seed 1
    python -m tests.faults.chaos --without "endless message"       # leaves out a kind of fault
    python -m tests.faults.chaos --only "lying worker"
    python -m tests.faults.chaos --receivers 2                     # pixels through receivers
    python -m tests.faults.chaos --frame-store-gb 1                # one store for all workers

Two local workers and three that dial in (one directly, one through a proxy, one through a proxy
under CURVE keys) decode shuffled epochs of small videos; some of the videos are bad. The seed alone
decides which fault happens, to whom, and after which batch; a fault whose target is missing waits
for it. Other faults come from outside: workers with a wrong, empty or half-copied root, a lying
worker, strangers with malformed or endless messages, and storage that stands still for everybody.
The batches must equal those of `decode_serially`, byte for byte. At the end no descriptor, thread,
process or memory may be left over.

Exit status 0, or 1 if anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

from rich import box
from rich.console import Console
from rich.table import Table

from tests.faults.liars import LyingWorker
from tests.faults.proxy import Fault, Kind, Proxy, Way
from tests.faults.strangers import endless, poison
from tests.support.digests import digests
from tests.support.forked import Forked, Forking
from tests.support.ports import free_pair
from tests.support.processes import children_of, descriptors, resident_mb
from tests.support.programs import COMMANDS
from tests.support.videos import make_avi
from tests.support.waiting import SECOND, wait_until
from videoload import Catalog, Client, ClipSpec, Stream, VideoloadError, decode_serially
from videoload.engine import listener
from videoload.transport.keys import make_keys
from videoload.transport.sockets import Router

PROJECT = Path(__file__).parents[2]
BATCH = 4
LOCALS = 2
STALL_S = 1.5 * SECOND
PATIENCE_S = 30 * SECOND  # the longest that anything here waits
# The script must not run ahead of the workers. If more than this many faults wait for targets that
# are on their way back (a refused worker rests), the consumer stops reading for a while.
MAX_WAITING = 3
TARGET_S = 10 * SECOND
# If more is held at the end than after the warm-up, that is a leak. The allocator keeps the most
# that strangers and trainer used together: 120 endless messages leave 40 MB, and 40 leave 35.
RSS_MB = 64.0

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
RECEIVER = "a receiver"
GUESTS = (JOIN, WRONG_ROOT, EMPTY_ROOT, HALF_ROOT)  # worker processes that come and go
FREEZE_S = 4 * SECOND  # well above the deadline of a hanging worker
ENDLESS_MB = 256  # a peer that accepted this much of one message accepts all of it


# The script


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
    *,
    receivers: int = 0,
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
        *[(what, RECEIVER) for what in (KILL, HANG, SLOW)] * (2 if receivers else 0),
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


# The videos


def make_videos(root: Path) -> Catalog:
    """Small good videos of three codecs, and two bad ones."""
    for number in range(26):
        codec, pixels = [("mpeg4", "yuv420p"), ("mjpeg", "yuvj420p")][number % 4 == 3]
        make_avi(
            root / f"{'ab'[number % 2]}/{number:02}.avi",
            frames=14 + 3 * number, codec=codec, pixels=pixels, size=(40, 40 + 2 * (number % 5)),
            b_frames=2 * (number % 3 == 1 and codec == "mpeg4"), seed=number,
        )  # fmt: skip
    good = (root / "a/00.avi").read_bytes()
    (root / "a/header.avi").write_bytes(good[:700])
    (root / "b/text.avi").write_text("not a video\n" * 100)
    return Catalog.from_folder(root)


BAD = {"a/header.avi", "b/text.avi"}


def make_roots(videos: Path, folder: Path) -> dict[str, Path]:
    """The roots of workers that were started in the wrong place."""
    roots = {what: folder / what for what in (WRONG_ROOT, EMPTY_ROOT, HALF_ROOT)}
    for root in roots.values():
        root.mkdir(parents=True)
    for number, path in enumerate(sorted(videos.rglob("*.avi"))):
        name = path.relative_to(videos)
        # Other pictures under the same names. In the half-copied root, a third of the files is
        # complete and a third is cut off.
        make_avi(roots[WRONG_ROOT] / name, frames=60, size=(40, 48), seed=1000 + number)
        if number % 3:
            copy = roots[HALF_ROOT] / name
            copy.parent.mkdir(exist_ok=True)
            data = path.read_bytes()
            copy.write_bytes(data if number % 3 == 1 else data[: len(data) // 2])
    return roots


def clip_of(epoch_batches: int, videos: int) -> ClipSpec:
    """Clips of 4 frames of 32x32, with as many of each video as an epoch of about this length
    needs."""
    return ClipSpec(
        frames=4, stride=2, resize=36, size=(32, 32), crop="random", flip=True,
        sampling="random", clips_per_video=max(1, epoch_batches * BATCH // videos),
    )  # fmt: skip


def samples_of(batch: Any) -> Iterator[tuple[int, bytes]]:
    """What identifies a sample of a batch: its video and its frames."""
    info = batch[2]
    for video, frames in zip(info.video, info.frames, strict=True):
        yield int(video), frames.tobytes()


# The fleet


@contextmanager
def keys_at(address: str) -> Iterator[None]:
    """Gives the client keys only for ``address``. At its other loopback addresses it then takes
    workers without keys."""

    def router(context: Any, endpoint: str, *, keys: Any = None, **options: Any) -> Router:
        if endpoint != address:
            keys, options = None, {**options, "admits": None}
        return Router(context, endpoint, keys=keys, **options)

    with mock.patch.object(listener, "Router", router):
        yield


def start(forking: Forking, log: Path, *words: str) -> Forked:
    """``videoload words``."""
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    with log.open("ab") as out:
        return forking.start(COMMANDS, ["-m", "videoload", *words], out, out, env=environment)


class Fleet:
    """The workers that dial in, by role, and the process ids of all workers."""

    def __init__(
        self,
        client: Client,
        root: Path,
        log: Path,
        stack: ExitStack,
        forking: Forking,
        shared: tuple[str, ...] = (),
    ) -> None:
        """``shared``: further arguments of all that dial in."""
        self._shared = shared
        self._forking = forking
        self._client = client
        self._root = root
        self._log = log
        self._dial: dict[str, tuple[str, ...]] = {}
        self._roots: dict[str, Path] = {}
        self._all: list[Forked] = []
        self.by_role: dict[str, Forked] = {}
        stack.callback(self._end)

    def can(self, role: str, *dial: str, root: Path | None = None) -> None:
        """How a role is started: the arguments after ``videoload worker``, and its root if that is
        not the videos."""
        self._dial[role] = dial
        self._roots[role] = root or self._root

    def start(self, role: str) -> None:
        """Start (again) the worker of a role."""
        words = ("--processes", "1", "--root", str(self._roots[role]), *self._dial[role])
        worker = start(self._forking, self._log, "worker", *words, *self._shared)
        self._all.append(worker)
        self.by_role[role] = worker

    def reap(self) -> None:
        """Forget the workers that have ended."""
        self._all = [worker for worker in self._all if worker.poll() is None]

    def connected(self) -> set[int]:
        """Process ids of all workers that the client knows."""
        return {stats.pid for stats in self._client.workers}

    def local(self) -> list[int]:
        """The local workers that are connected."""
        return sorted(self.connected() & {*children_of(os.getpid())})

    def everybody(self) -> set[int]:
        """All workers, and whatever else this process has started."""
        return {*children_of(os.getpid()), *(worker.pid for worker in self._all)}

    def pid(self, role: str) -> int | None:
        """The worker of a role, if it is connected."""
        worker = self.by_role[role]
        there = worker.poll() is None and worker.pid in self.connected()
        return worker.pid if there else None

    def complete(self, roles: tuple[str, ...] = ROLES) -> bool:
        """Whether exactly the workers that should be there are there."""
        self.reap()
        wanted = {self.by_role[role].pid for role in roles}
        return self.connected() == wanted | {*self.local()} and len(self.local()) == LOCALS

    def see_off_guests(self) -> None:
        """Tell the guests to leave, and wait for them and for the guests that were told before."""
        staying = [self.by_role[role] for role in ROLES]
        guests = [worker for worker in self._all if worker not in staying]
        for guest in guests:
            guest.send_signal(signal.SIGTERM)
        for guest in guests:
            guest.wait(PATIENCE_S)

    def _end(self) -> None:
        for worker in self._all:
            worker.kill()
            worker.wait()


# Results


@dataclass
class Strike:
    """A worker was stopped at ``began`` (s), while it owed clips of batch ``step``; that batch
    arrived ``took_s`` later."""

    kind: str
    local: bool
    began: float
    step: int
    took_s: float | None = None


@dataclass
class Left:
    """What a process holds."""

    descriptors: int
    threads: int
    children: int
    rss_mb: float

    @classmethod
    def now(cls) -> Left:
        """What this process holds."""
        return cls(
            len(descriptors()),
            len(os.listdir("/proc/self/task")),
            len(children_of(os.getpid())),
            resident_mb(),
        )

    def beyond(self, before: Left) -> list[str]:
        """What is held more than before."""
        found = [
            f"{name}: {here} now, {there} before"
            for name, here, there in (
                ("descriptors", self.descriptors, before.descriptors),
                ("threads", self.threads, before.threads),
                ("child processes", self.children, before.children),
            )
            if here > there
        ]
        if self.rss_mb > before.rss_mb + RSS_MB:
            found.append(f"resident: {self.rss_mb:.0f} MB now, {before.rss_mb:.0f} MB before")
        return found


@dataclass
class Report:
    """The settings of a run, and everything that was wrong."""

    batches: int
    epochs: int
    seed: int
    injected: list[tuple[int, str, str]] = field(default_factory=list)  # batch, what, whom
    strikes: list[Strike] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    differing: list[int] = field(default_factory=list)  # batches
    blamed: list[str] = field(default_factory=list)  # videos that faults from outside made bad
    never: list[Planned] = field(default_factory=list)  # their targets did not come back in time
    lost: int = 0
    doubled: int = 0
    seconds: float = 0.0
    serial_s: float = 0.0
    longest_s: float = 0.0
    pauses: int = 0  # longer than 1 s
    digest: str = ""
    before: Left | None = None
    after: Left | None = None

    def survived(self) -> list[bool]:
        """For each injected fault, whether all batches until the next one (at least 16)
        are right."""
        marks = [batch for batch, _, _ in self.injected] + [self.batches]
        return [
            not any(first <= bad < max(last, first + 16) for bad in self.differing)
            for first, last in pairwise(marks)
        ]

    def tables(self) -> list[Table]:
        """The tables, readable for people and as Markdown."""
        faults = Table(box=box.MARKDOWN, title=None)
        for name in ("fault", "whom", "injected", "survived"):
            faults.add_column(name, justify="left" if name in ("fault", "whom") else "right")
        injected = Counter((what, whom) for _, what, whom in self.injected)
        survived = Counter(
            (what, whom)
            for (_, what, whom), well in zip(self.injected, self.survived(), strict=True)
            if well
        )
        for (what, whom), times in sorted(injected.items()):
            faults.add_row(what, whom, str(times), str(survived[what, whom]))
        faults.add_row("all", "", str(injected.total()), str(survived.total()))
        waits = Table(box=box.MARKDOWN, title=None)
        for name in ("time until its batch came", "whom", "times", "p50 s", "p99 s"):
            waits.add_column(name, justify="left" if name in ("whom",) else "right")
        for kind in (KILL, CRASH, LEAVE, HANG, ALL_AT_ONCE):
            for local in (True, False):
                took = sorted(
                    strike.took_s
                    for strike in self.strikes
                    if strike.kind == kind and strike.local == local and strike.took_s is not None
                )
                if took:
                    waits.add_row(
                        kind, "local" if local else "dialled in", str(len(took)),
                        f"{took[len(took) // 2]:.2f}", f"{took[int(0.99 * len(took))]:.2f}",
                    )  # fmt: skip
        assert self.before is not None
        assert self.after is not None
        rest = Table(box=box.MARKDOWN, title=None)
        rest.add_column("what")
        rest.add_column("found", justify="right")
        for name, value in (
            ("batches (of 4 clips)", f"{self.batches} in {self.epochs} epochs"),
            ("seconds", f"{self.seconds:.0f}"),
            ("seconds of decode_serially", f"{self.serial_s:.0f}"),
            ("SHA-256 equal to decode_serially's", "no" if self.differing else "yes"),
            ("samples lost / doubled", f"{self.lost} / {self.doubled}"),
            ("faults injected", f"{len(self.injected)} of {len(self.injected) + len(self.never)}"),
            ("videos wrongly taken for bad", str(len(self.blamed))),
            ("longest pause between two batches", f"{self.longest_s:.2f} s"),
            ("pauses of more than 1 s", str(self.pauses)),
            ("descriptors", f"{self.before.descriptors} -> {self.after.descriptors}"),
            ("threads", f"{self.before.threads} -> {self.after.threads}"),
            ("child processes", f"{self.before.children} -> {self.after.children}"),
            ("resident", f"{self.before.rss_mb:.0f} -> {self.after.rss_mb:.0f} MB"),
        ):
            rest.add_row(name, value)
        return [rest, faults, waits]


# The run


class Chaos:
    """Carries out the script against a fleet."""

    def __init__(
        self, client: Client, fleet: Fleet, proxies: dict[str, Proxy], report: Report, seed: int
    ) -> None:
        self._client = client
        self._draw = random.Random(seed)
        self._threads: list[threading.Thread] = []  # faults that take their time
        self._frozen = False
        self._fleet = fleet
        self._proxies = proxies
        self._report = report
        self._waiting: list[Planned] = []
        self._undo: list[tuple[int, Callable[[], None]]] = []
        self._busy: set[str] = set()  # roles that we have disturbed ourselves
        self._armed: list[tuple[int, Planned]] = []  # armed after so many batches
        self._open: list[Strike] = []
        self._batch = 0
        self._patient_from = 0  # batches since a target was missing

    def after(self, batch: int, due: list[Planned]) -> None:
        """``batch`` batches have arrived: do what is due."""
        self._batch = batch
        now = time.monotonic()
        for strike in [s for s in self._open if s.step < batch]:
            strike.took_s = now - strike.began
            self._open.remove(strike)
        due_now = [undo for at, undo in self._undo if at <= batch]
        self._undo = [(at, undo) for at, undo in self._undo if at > batch]
        for undo in due_now:
            undo()
        self._waiting += due
        self._try_all()
        deadline = now + TARGET_S
        most = MAX_WAITING if batch < 0.97 * self._report.batches else 0
        while self._held_up() > most and batch >= self._patient_from:
            time.sleep(0.01)
            self._try_all()
            if time.monotonic() > deadline:
                self._patient_from = batch + 200
        self._note_armed()
        self._fleet.reap()

    def settle(self) -> None:
        """Undo everything that is still to be undone."""
        self._note_armed()
        for proxy in self._proxies.values():
            proxy.disarm()
        for thread in self._threads:
            thread.join()
        left, self._undo = self._undo, []
        for _, undo in left:
            undo()
        self._report.injected.sort()

    def unfinished(self) -> list[Planned]:
        """Faults that did not happen because there was no target, or no message that they fit."""
        return self._waiting + [planned for _, planned in self._armed]

    def _try_all(self) -> None:
        self._waiting = [planned for planned in self._waiting if not self._try(planned)]

    def _held_up(self) -> int:
        """Faults whose targets come back by themselves."""
        return sum(not {planned.whom, planned.what} & self._busy for planned in self._waiting)

    def _note_armed(self) -> None:
        """Note the armed faults that have happened by now."""
        armed = {id(fault) for proxy in self._proxies.values() for fault in proxy.armed}
        for at, planned in list(self._armed):
            if id(planned.fault) not in armed:
                self._armed.remove((at, planned))
                self._report.injected.append((at, planned.what, planned.whom))

    def _try(self, planned: Planned) -> bool:
        """Start a fault. Returns False if its target is missing."""
        what, whom = planned.what, planned.whom
        if planned.fault is not None:
            return self._break_wire(planned, planned.fault, self._proxies[whom])
        if what == CUT_ALL:
            done = self._cut_all(whom)
        elif whom == LOCAL:
            done = self._hit_local(planned)
        elif what == FROZEN:
            done = self._freeze()
        elif whom == EVERYBODY:
            done = self._hit_all(planned)
        elif what == LIAR:
            done = self._lie(planned)
        elif whom == FURTHER:
            done = self._join(planned)
        elif whom == STRANGER:
            done = self._call(what)
        elif whom == RECEIVER:
            done = self._hit_receiver(planned)
        else:
            done = self._hit_remote(planned)
        if done:
            self._report.injected.append((self._batch, what, whom))
        return done

    def _later(
        self, planned: Planned, undo: Callable[[], None], batches: int | None = None
    ) -> None:
        self._undo.append((self._batch + (batches or planned.undo), undo))

    def _cut_all(self, role: str) -> bool:
        if role in self._busy or self._fleet.pid(role) is None:
            return False
        self._proxies[role].cut_all()
        return True

    def _break_wire(self, planned: Planned, fault: Fault, proxy: Proxy) -> bool:
        if planned.whom in self._busy or self._fleet.pid(planned.whom) is None:
            return False
        proxy.arm(fault)
        self._armed.append((self._batch, planned))
        if fault.kind is Kind.HOLD:
            self._busy.add(planned.whom)

            def release() -> None:
                if any(waiting is fault for waiting in proxy.armed):  # it has not begun yet
                    self._later(planned, release)
                    return
                proxy.release()
                self._busy.discard(planned.whom)

            self._later(planned, release)
        return True

    def _hit_local(self, planned: Planned) -> bool:
        there = self._fleet.local()
        if not there or self._frozen:
            return False
        pid = there[planned.undo % len(there)]
        if planned.what == SLOW:
            self._pulse(planned, pid)
        else:
            self._strike(planned.what, pid, DEADLY.get(planned.what, signal.SIGSTOP), local=True)
        return True

    def _hit_receiver(self, planned: Planned) -> bool:
        receivers = self._client._engine._receivers._receivers
        there = [receiver.process.pid for receiver in receivers]
        if not there or self._frozen:
            return False
        pid = there[planned.undo % len(there)]
        if planned.what == SLOW:
            self._pulse(planned, pid)
        else:
            _signal(pid, DEADLY.get(planned.what, signal.SIGSTOP))
        return True

    def _hit_remote(self, planned: Planned) -> bool:
        role = planned.whom
        pid = self._fleet.pid(role)
        if pid is None or role in self._busy or self._frozen:
            return False
        if planned.what == SLOW:
            self._pulse(planned, pid)
            return True
        self._busy.add(role)
        if planned.what == HANG:
            self._strike(HANG, pid, signal.SIGSTOP, local=False)

            def wake() -> None:
                _signal(pid, signal.SIGCONT)
                self._busy.discard(role)

            self._later(planned, wake)
        else:
            self._strike(planned.what, pid, DEADLY[planned.what], local=False)
            self._later(planned, lambda: self._start_again(role))
        return True

    def _start_again(self, role: str) -> None:
        self._fleet.start(role)
        self._busy.discard(role)

    def _hit_all(self, planned: Planned) -> bool:
        there = self._fleet.local()
        roles = [r for r in ROLES if r not in self._busy and self._fleet.pid(r) is not None]
        if len(there) + len(roles) < 4 or self._frozen:
            return False
        for role in roles:
            pid = self._fleet.pid(role)
            if pid is not None:
                self._busy.add(role)
                self._strike(ALL_AT_ONCE, pid, signal.SIGKILL, local=False)
                self._later(planned, lambda role=role: self._start_again(role))  # type: ignore[misc]
        for pid in there:
            self._strike(ALL_AT_ONCE, pid, signal.SIGKILL, local=True)
        return True

    def _join(self, planned: Planned) -> bool:
        guest = planned.what
        if guest in self._busy:
            return False
        self._busy.add(guest)
        self._fleet.start(guest)
        pid = self._fleet.by_role[guest].pid

        def leave() -> None:
            _signal(pid, signal.SIGTERM)
            self._busy.discard(guest)

        self._later(planned, leave, 10 * planned.undo)
        return True

    def _lie(self, planned: Planned) -> bool:
        if LIAR in self._busy:
            return False
        self._busy.add(LIAR)
        liar = LyingWorker(
            self._client.endpoints[0], f"liar{self._batch}", self._draw.getrandbits(32)
        )

        def leave() -> None:
            liar.stop()
            self._busy.discard(LIAR)

        self._later(planned, leave, 3 * planned.undo)
        return True

    def _freeze(self) -> bool:
        """Stop all workers at once, including workers that start meanwhile, then let all continue.
        Workers that another fault has stopped or ended stay so."""
        if self._frozen:
            return False
        self._frozen = True
        left_out = {self._fleet.by_role[role].pid for role in ROLES if role in self._busy}

        def freeze() -> None:
            until = time.monotonic() + FREEZE_S
            stopped: set[int] = set()
            while time.monotonic() < until:
                for pid in self._fleet.everybody() - left_out:
                    _signal(pid, signal.SIGSTOP)
                    stopped.add(pid)
                time.sleep(0.05)
            for pid in stopped:
                _signal(pid, signal.SIGCONT)
            self._frozen = False

        self._start(freeze)
        return True

    def _call(self, what: str) -> bool:
        """A stranger connects: it has no key and is not a worker."""
        endpoint = self._client.endpoints[0]
        if what == POISON:
            self._start(lambda: poison(endpoint, self._draw.getrandbits(32)))
            return True
        if ENDLESS in self._busy:
            return False
        self._busy.add(ENDLESS)

        def call() -> None:
            taken = endless(endpoint, ENDLESS_MB)
            if taken >= ENDLESS_MB:
                self._report.wrong.append(f"{taken} MB of a stranger's one message were taken")
            self._busy.discard(ENDLESS)

        self._start(call)
        return True

    def _start(self, what: Callable[[], None]) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(threading.Thread(target=what, name="a fault"))
        self._threads[-1].start()

    def _pulse(self, planned: Planned, pid: int) -> None:
        for pulse in range(3):
            at = self._batch + 2 * pulse
            if pulse:
                self._undo.append((at, lambda: _signal(pid, signal.SIGSTOP)))
            else:
                _signal(pid, signal.SIGSTOP)
            self._undo.append((at + 1, lambda: _signal(pid, signal.SIGCONT)))

    def _strike(self, kind: str, pid: int, number: signal.Signals, *, local: bool) -> None:
        """Signal a worker from the client's I/O thread, where its debts cannot change meanwhile.
        Only that thread knows which batch the worker owes a part of."""
        done = threading.Event()
        client = self._client._engine

        def strike() -> None:
            try:
                for peer, colleague in client._workers.items():
                    if colleague.pid == pid:
                        leases = client._table._pool._workers[peer].leases.values()
                        steps = [lease.chunk.batch.step for lease in leases if lease.chunk]
                        began = time.monotonic()
                        strikes = [Strike(kind, local, began, step) for step in steps[:1]]
                        self._report.strikes += strikes
                        self._open += strikes
                _signal(pid, number)
            finally:
                done.set()

        client.post(strike)
        if not done.wait(PATIENCE_S):
            raise TimeoutError("the client's I/O thread does not answer")


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def run(
    folder: Path,
    forking: Forking,
    *,
    batches: int,
    faults: int,
    seed: int,
    epoch_batches: int = 500,
    chosen: Callable[[str], bool] = lambda what: True,
    receivers: int = 0,
    frame_store_gb: float | None = None,
) -> Report:
    """Stream at least ``batches`` batches under ``faults`` faults of the ``chosen`` kinds.
    ``folder`` holds the videos, the keys and the workers' output. With ``frame_store_gb``, all
    workers share a frame store, also those with a wrong root."""
    catalog = make_videos(folder / "videos")
    clip = clip_of(epoch_batches, len(catalog))
    options: dict[str, Any] = {"shuffle": True, "seed": seed}
    per_epoch = len(catalog) * clip.clips_per_video // BATCH
    epochs = -(-batches // per_epoch)
    report = Report(epochs * per_epoch, epochs, seed)

    began = time.monotonic()
    expected: list[str] = []
    owed: Counter[tuple[int, int, bytes]] = Counter()
    for batch in decode_serially(catalog, clip, BATCH, epochs=epochs, info=True, **options):
        owed.update((len(expected) // per_epoch, *sample) for sample in samples_of(batch))
        expected += digests([batch])
    report.serial_s = time.monotonic() - began

    script: dict[int, list[Planned]] = {}
    for planned in plan_faults(report.batches, faults, seed, chosen, receivers=receivers):
        script.setdefault(planned.batch, []).append(planned)

    store = None if frame_store_gb is None else folder / "frames"
    shared = ("--frame-store", str(store), "--frame-store-gb", str(frame_store_gb)) if store else ()
    log = folder / "workers.log"
    start(forking, log, "--version").wait(PATIENCE_S)  # from now on there is somebody who forks
    empty = Left.now()
    trainer_keys, worker_keys = make_keys(folder / "keys")
    with ExitStack() as stack:
        sealed_at = f"tcp://127.0.0.1:{free_pair()}"
        with keys_at(sealed_at):
            client = stack.enter_context(
                Client(
                    workers=LOCALS,
                    listen=["tcp://127.0.0.1:*", sealed_at],
                    keys=trainer_keys,
                    stall_s=STALL_S,
                    receivers=receivers,
                    frame_store=store,
                    frame_store_gb=frame_store_gb,
                )
            )
        plain = client.endpoints[0]
        proxies = {
            PROXIED: stack.enter_context(Proxy(plain, seed)),
            SEALED: stack.enter_context(Proxy(sealed_at, seed + 1)),
        }
        fleet = Fleet(client, folder / "videos", log, stack, forking, shared)
        for role, endpoint in ((STRAIGHT, plain), (JOIN, plain), (PROXIED, None)):
            fleet.can(role, "--connect", endpoint or proxies[PROXIED].endpoint)
        for guest, root in make_roots(folder / "videos", folder / "roots").items():
            fleet.can(guest, "--connect", plain, root=root)
        fleet.can(SEALED, "--connect", proxies[SEALED].endpoint, "--keys", str(worker_keys))
        for role in ROLES:
            fleet.start(role)
        wait_until(fleet.complete, PATIENCE_S, "all workers are there")
        stream = client.stream(catalog, clip, BATCH, **options)
        chaos = Chaos(client, fleet, proxies, report, seed)
        got = _read(client, stream, epochs, per_epoch, chaos, script, owed, report)
        _recover(chaos, fleet, proxies, report)
        report.after = Left.now()
        report.blamed = [bad.path for bad in stream.quarantine if bad.path not in BAD]
        del stream, chaos
    _judge(report, got, expected, owed, empty)
    return report


def _recover(chaos: Chaos, fleet: Fleet, proxies: dict[str, Proxy], report: Report) -> None:
    """Mend everything that was broken, and wait until all workers are back."""
    chaos.settle()
    for proxy in proxies.values():
        proxy.release()
    report.never = chaos.unfinished()
    fleet.see_off_guests()
    for role in ROLES:
        if fleet.by_role[role].poll() is not None:
            fleet.start(role)
    try:
        wait_until(fleet.complete, PATIENCE_S, "all workers are there again")
    except TimeoutError as error:
        report.wrong.append(str(error))


def _read(
    client: Client,
    stream: Stream,
    epochs: int,
    per_epoch: int,
    chaos: Chaos,
    script: dict[int, list[Planned]],
    owed: Counter[tuple[int, int, bytes]],
    report: Report,
) -> list[str]:
    got: list[str] = []
    heard = time.monotonic()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            if time.monotonic() - heard > PATIENCE_S:
                report.wrong.append(f"no batch for {PATIENCE_S:g} s after {len(got)}: closed")
                client.close()
                return

    watchdog = threading.Thread(target=watch)
    watchdog.start()
    began = time.monotonic()
    try:
        for batch in stream.batches(epochs=epochs, info=True):
            now = time.monotonic()
            if got:
                report.longest_s = max(report.longest_s, now - heard)
                report.pauses += now - heard > 1
            owed.subtract((len(got) // per_epoch, *sample) for sample in samples_of(batch))
            got += digests([batch])
            del batch
            if len(got) == int(0.02 * report.batches):
                report.before = Left.now()
            chaos.after(len(got), script.get(len(got), []))
            heard = time.monotonic()
    except VideoloadError as error:
        report.wrong.append(f"after {len(got)} batches: {error!r}")
    finally:
        over.set()
        watchdog.join()
    report.seconds = time.monotonic() - began
    return got


def _judge(
    report: Report,
    got: list[str],
    expected: list[str],
    owed: Counter[tuple[int, int, bytes]],
    empty: Left,
) -> None:
    report.differing = [
        at for at in range(len(expected)) if at >= len(got) or got[at] != expected[at]
    ]
    report.digest = hashlib.sha256("".join(got).encode()).hexdigest()
    report.lost = sum(count for count in owed.values() if count > 0)
    report.doubled = -sum(count for count in owed.values() if count < 0)
    if report.differing:
        first = report.differing[0]
        report.wrong.append(f"{len(report.differing)} batches differ, the first is {first}")
    if report.lost or report.doubled:
        report.wrong.append(f"{report.lost} samples lost, {report.doubled} doubled")
    if report.blamed:
        report.wrong.append(f"good videos taken for bad: {', '.join(report.blamed)}")
    assert report.before is not None
    assert report.after is not None
    report.wrong += report.after.beyond(report.before)

    def left() -> list[str]:
        return [what for what in Left.now().beyond(empty) if "res" not in what]

    with suppress(TimeoutError):  # a joined thread stays in the kernel for a moment
        wait_until(lambda: not left(), 2 * SECOND)
    report.wrong += [f"after closing, {what}" for what in left()]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--faults", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--receivers", type=int, default=0)
    parser.add_argument("--frame-store-gb", type=float)
    parser.add_argument("--log", type=Path, help="keep what the workers print here")
    kinds = sorted({planned.what for planned in plan_faults(1000, 1000, 1)})
    for name, what in (("--only", "no other kind of fault"), ("--without", "leave this one out")):
        parser.add_argument(name, action="append", choices=kinds, default=[], help=what)
    asked = parser.parse_args()

    def chosen(what: str) -> bool:
        return what in (asked.only or kinds) and what not in asked.without

    forking = Forking()
    with tempfile.TemporaryDirectory() as folder:
        report = run(
            Path(folder), forking, batches=asked.batches, faults=asked.faults, seed=asked.seed,
            chosen=chosen, receivers=asked.receivers, frame_store_gb=asked.frame_store_gb,
        )  # fmt: skip
        if asked.log:
            asked.log.write_bytes((Path(folder) / "workers.log").read_bytes())
    forking.end()
    console = Console(width=110, highlight=False)
    for table in report.tables():
        console.print(table)
    console.print(f"SHA-256 {report.digest}")
    for what in report.wrong:
        console.print(f"WRONG: {what}", markup=False)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
