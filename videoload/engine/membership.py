"""Who is connected to a client: workers are admitted and welcomed, paused, sent away, and leave.

Whether a worker is admitted is decided by `admission`, what becomes of its leases by the table.
All of it is the I/O thread's, but for what says that any thread may ask.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

from videoload.engine.admission import Admission, Refusal
from videoload.engine.copy_check import CopyCheck
from videoload.engine.rate_limited_log import RateLimitedLog
from videoload.leases.commands import Command, Dismiss, Evict, Pause
from videoload.leases.table import LeaseTable
from videoload.processes.supervisor import Supervisor
from videoload.receivers.pool import Receivers
from videoload.stats.stats import WorkerRecord
from videoload.transport.messages import Bye, Heartbeat, Hello, Notice, Refused, Welcome
from videoload.transport.slots import SHARED
from videoload.transport.sockets import Peer, Router

_log = logging.getLogger(__name__)

_ALONE_S = 5.0  # no worker for so long while a consumer waits: warn
_REMIND_S = 60.0


class Membership:
    """The workers of one client. ``private``: where its children dial in, once that is known;
    ``departed``: how many workers are connected no more."""

    def __init__(
        self,
        admission: Admission[Peer],
        table: LeaseTable,
        supervisor: Supervisor,
        receivers: Receivers,
        copies: CopyCheck,
        mixtures: RateLimitedLog,
        *,
        beat_s: float,
        commands: deque[Command],
    ) -> None:
        """``mixtures``: a log for workers that are unlike the others. ``beat_s``: seconds between
        two heartbeats of a worker. The engine carries out what is added to ``commands``."""
        self.private: Router | None = None
        self.departed = 0
        self._admission = admission
        self._workers = admission.workers
        self._table = table
        self._supervisor = supervisor
        self._receivers = receivers
        self._copies = copies
        self._mixtures, self._full = mixtures, RateLimitedLog(_log)
        self._beat_s = beat_s
        self._commands = commands
        self._changed = threading.Condition()
        self._warn_alone_at: float | None = None

    # Any thread may ask

    def records(self) -> list[WorkerRecord]:
        """The connected workers, without their work."""
        now = time.monotonic()
        return [worker.record(now) for worker in list(self._workers.values())]

    def wait_for(self, count: int, timeout_s: float, is_over: Callable[[], bool]) -> int:
        """Wait until ``count`` workers are connected, or time is out, or all is over; returns how
        many are."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._workers) >= count or is_over(), timeout_s)
            return len(self._workers)

    def wake(self) -> None:
        """Have those that wait look whether all is over."""
        with self._changed:
            self._changed.notify_all()

    # They come

    def admit(self, peer: Peer, hello: Hello, now: float) -> None:
        """A worker said HELLO."""
        if peer.router is self.private:
            decision = self._admission.child(peer, hello, self._supervisor.pids())
        else:
            decision = self._admission.remote(peer, hello)
        if isinstance(decision, Refusal):
            peer.send(Refused(decision.reason))
            if decision.is_full:
                self._full.add(f"{hello.host}:{hello.pid}: {decision.reason}", now)
            elif decision.is_other:
                what = f"worker {hello.host}:{hello.pid} is refused: {decision.reason}"
                self._mixtures.add(what, now)
            return
        for other in decision.replaces:
            self.gone(other, died=False)
            if decision.returned:
                self._table.worker_returned(other)
        worker = decision.worker
        if worker.is_child:
            self._supervisor.admitted(worker.pid)
        with self._changed:
            self._workers[peer] = worker
            self._changed.notify_all()
        peer.admitted()
        if not worker.is_child:
            _log.info("worker %s joined", worker.name)
        self.welcome(peer)
        copy = None if worker.is_child else worker.which_copy
        local = worker.is_child and SHARED
        self._commands.extend(
            self._table.worker_joined(peer, local=local, now=now, copy=copy, fetches=worker.fetches)
        )

    def welcome(self, peer: Peer) -> None:
        """Tell a worker what it needs to know, anew where its data connection has ended."""
        is_child = peer.router is self.private
        offer = None if is_child else self._receivers.offer(peer, peer.router.endpoint)
        peer.send(Welcome(self._beat_s, offer))

    def offer_connections(self) -> None:
        """A receiver works by now: offer it to those that send pixels here."""
        for peer, worker in self._workers.items():
            if not worker.is_child and self._receivers.lacks_offer(peer):
                self.welcome(peer)

    # They leave

    def gone(self, peer: Peer, *, died: bool, at_work: int | None = None) -> None:
        """A worker is connected no more; the rest as for `LeaseTable.worker_left`."""
        with self._changed:
            worker = self._workers.pop(peer, None)
        if worker is not None:
            self.departed += 1
            peer.left()
            self._receivers.left(peer)
        if worker is not None and not worker.is_child:
            _log.info("worker %s left", worker.name)
        self._commands.extend(self._table.worker_left(peer, died=died, at_work=at_work))
        if worker is not None and not worker.is_child:
            self._copies.left(worker)

    def said_bye(self, peer: Peer, bye: Bye, now: float) -> None:
        """A worker leaves. So may a local one: its thread says so after it has left its decoder."""
        worker = self._workers.get(peer)
        if worker is not None and bye.kept_from_leases and not worker.is_child:
            reason = bye.reason
            self._mixtures.add(f"worker {worker.name} hands its leases back: {reason}", now)
        self.gone(peer, died=False)

    def child_ended(self, pid: int, *, at_work: int | None) -> None:
        """The process of a local worker was reaped."""
        for peer, worker in list(self._workers.items()):
            if worker.is_child and worker.pid == pid:
                self.gone(peer, died=True, at_work=at_work)

    def evict(self, peer: Peer) -> None:
        """Remove a worker that is alive. A local one may be writing into shared memory, so it keeps
        its leases until it is killed and reaped."""
        worker = self._workers.get(peer)
        if worker is not None and worker.is_child:
            self._supervisor.kill(worker.pid)
        else:
            self.gone(peer, died=False)

    def evict_stuck(self, command: Evict) -> None:
        """The table wants a worker removed."""
        worker = self._workers.get(_peer(command))
        if worker is None:
            return
        if worker.is_child:
            _log.warning("worker process %d hangs; killing it", worker.pid)
        else:
            _log.warning("worker %s lost its leases; starting afresh with it", worker.name)
        self.evict(_peer(command))

    def pause(self, command: Pause) -> None:
        """Tell a worker why it gets no leases."""
        peer = _peer(command)
        text = (
            f"no leases for {command.seconds:g} s, since others can decode this: {command.reason}"
        )
        peer.send(Notice(text))
        if (worker := self._workers.get(peer)) is not None:
            self._mixtures.add(f"worker {worker.name}: {text}", time.monotonic())

    def dismiss(self, command: Dismiss) -> None:
        """Have no more of a worker."""
        peer = _peer(command)
        name = self._admission.bar(peer, command.reason)
        _log.warning("worker %s is not asked any more: %s", name, command.reason)
        peer.send(Refused(command.reason))
        self.gone(peer, died=False)

    # Time passes

    def send_heartbeats(self) -> None:
        """Tell the workers that this trainer is alive, and find those that are gone."""
        for peer, worker in list(self._workers.items()):
            if not peer.send(Heartbeat()) and not worker.is_child:
                self.gone(peer, died=True)

    def keep(self, now: float, routers: Iterable[Router], *, is_read: bool) -> None:
        """Warn where nobody is there to decode what is read, and tell what was held back."""
        self._full.tell(now)
        if self._workers or not is_read:
            self._warn_alone_at = None
        elif self._warn_alone_at is None:
            self._warn_alone_at = now + _ALONE_S
        elif now >= self._warn_alone_at:
            self._warn_alone_at = now + _REMIND_S
            where = ", ".join(router.endpoint for router in routers if router is not self.private)
            _log.warning("no worker is connected; waiting for one at %s", where or "this host")


def _peer(command: Evict | Pause | Dismiss) -> Peer:
    assert isinstance(command.worker, Peer)
    return command.worker
