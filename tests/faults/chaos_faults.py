"""Carries out the script of `tests.faults.chaos`."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from tests.faults.chaos_fleet import (
    PATIENCE_S,
    Fleet,
)
from tests.faults.chaos_report import Report, Strike
from tests.faults.chaos_script import (
    ALL_AT_ONCE,
    CUT_ALL,
    DEADLY,
    ENDLESS,
    EVERYBODY,
    FROZEN,
    FURTHER,
    HANG,
    LIAR,
    LOCAL,
    POISON,
    ROLES,
    SLOW,
    STRANGER,
    Planned,
)
from tests.faults.liars import LyingWorker
from tests.faults.proxy import Fault, Kind, Proxy
from tests.faults.strangers import endless, poison
from tests.support.waiting import SECOND
from videoload import Client

# The script must not run ahead of the workers. If more than this many faults wait for targets that
# are on their way back (a refused worker rests), the consumer stops reading for a while.
MAX_WAITING = 3
TARGET_S = 20 * SECOND
FREEZE_S = 4 * SECOND  # well above the deadline of a hanging worker
ENDLESS_MB = 256  # a peer that accepted this much of one message accepts all of it


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
        strike = partial(self._strike, planned.what, local=True)
        return self._hit_one(planned, self._fleet.local(), strike)

    def _hit_one(
        self, planned: Planned, pids: Sequence[int], strike: Callable[[int, signal.Signals], None]
    ) -> bool:
        """Slow one of these processes down, or have ``strike`` send it the planned signal."""
        if not pids or self._frozen:
            return False
        pid = pids[planned.undo % len(pids)]
        if planned.what == SLOW:
            self._pulse(planned, pid)
        else:
            strike(pid, DEADLY.get(planned.what, signal.SIGSTOP))
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
                        leases = client._table.pool._workers[peer].leases.values()
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
