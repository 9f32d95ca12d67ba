"""The worker processes that a client has started itself: those that ended are told of, those that
hang are found, and with ``workers="auto"`` there are as many as are needed. All of it is the I/O
thread's, but for `LocalWorkers.needed`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from videoload import host
from videoload.engine.admission import ConnectedWorker
from videoload.engine.auto_workers import FEWEST, WINDOW_S, AutoWorkers
from videoload.engine.membership import Membership
from videoload.engine.open_streams import OpenStream
from videoload.engine.own_files import OwnFiles
from videoload.leases.commands import AskStorage
from videoload.leases.silence import Look
from videoload.leases.table import LeaseTable
from videoload.processes.supervisor import GIVEN_BACK, Supervisor
from videoload.stats.waiting import count
from videoload.transport.sockets import Peer

_log = logging.getLogger(__name__)

_BLOCKED = "DTt"  # states of a process that waits for a disk, or was stopped


class LocalWorkers:
    """Those of one client."""

    def __init__(
        self,
        supervisor: Supervisor,
        membership: Membership,
        table: LeaseTable,
        streams: Mapping[int, OpenStream],
        workers: Mapping[Peer, ConnectedWorker],
        own_files: OwnFiles,
        auto: AutoWorkers | None,
        *,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        """``auto`` decides how many there are, if it is given; ``post`` has a call made in the I/O
        thread."""
        self._supervisor = supervisor
        self._membership = membership
        self._table = table
        self._streams = streams
        self._workers = workers
        self._own_files = own_files
        self._auto = auto
        self._post = post

    def look_after(self) -> None:
        """Reap those that ended, and have others started."""
        self._supervisor.flush()
        for pid, how, lease in self._supervisor.reap():
            if how != GIVEN_BACK:
                _log.warning("worker process %d ended (%s); another takes its place", pid, how)
            self._membership.child_ended(pid, at_work=lease)

    # Those that are silent

    def look_at_silent(self, now: float) -> None:
        """A local worker that hangs burns CPU; one that waits for its storage does not."""
        for peer in self._table.silent(now):
            assert isinstance(peer, Peer)
            told = host.cpu_time(self._workers[peer].pid)
            if told is not None:
                cpu_s, state = told
                self._table.look(peer, Look(cpu_s, blocked=state in _BLOCKED))

    def ask_storage(self, command: AskStorage) -> None:
        """Does the storage answer for what a silent worker is at?"""
        worker, stream = command.worker, self._streams.get(command.stream)
        if stream is not None and not stream.spec.files:  # there is none to wait for
            self._table.storage_answered(worker)
        if stream is None or stream.storage is None:
            return
        paths = [stream.catalog[video].path for video in command.videos]
        self._own_files.ask_storage(
            stream.storage, paths, lambda: self._post(lambda: self._table.storage_answered(worker))
        )

    # How many

    def needed(self) -> float | None:
        """How many workers all streams that are read now are worth, if that is known. Any thread
        may ask."""
        workers = self._membership.records()
        meters = [stream.meter for stream in list(self._streams.values()) if stream.readers]
        needs = [
            meter.workers_needed(workers, WINDOW_S) if meter.totals().batches >= FEWEST else None
            for meter in meters
        ]
        # One that is not known yet may be more than all others.
        return sum(filter(None, needs)) if needs and None not in needs else None

    def resize(self) -> None:
        """With ``workers="auto"``: give back those that idle, and start those that are missing.
        Nothing that is but advice ends a training: a defect in it costs the advice."""
        try:
            self._resize()
        except Exception:
            _log.exception("workers='auto' is given up: how many are needed cannot be told")
            self._auto = None

    def _resize(self) -> None:
        if self._auto is None:
            return
        need, have = self.needed(), self._supervisor.count
        elsewhere = sum(not worker.is_child for worker in self._membership.records())
        keep = self._auto.decide(have, elsewhere, need)
        if keep is None or need is None:
            return
        self._supervisor.resize(keep)
        left = f"{keep} {'is' if keep == 1 else 'are'} left"
        what = f"stopped {count(have - keep, 'idle worker')}; {left}"
        if keep > have:
            what = f"started {count(keep - have, 'worker')} again; {keep} are running"
        _log.info("%s on this host (the trainer needs %.1f)", what, need)
