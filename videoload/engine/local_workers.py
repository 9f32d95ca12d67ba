"""The worker processes that a client started itself: ended ones are reported, hanging ones are
found. All of this belongs to the I/O thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from videoload import host
from videoload.engine.admission import ConnectedWorker
from videoload.engine.file_checker import FileChecker
from videoload.engine.membership import Membership
from videoload.engine.open_streams import OpenStream
from videoload.leases.commands import AskStorage
from videoload.leases.silence import Look
from videoload.leases.table import LeaseTable
from videoload.processes.supervisor import Supervisor
from videoload.transport.sockets import Peer

_log = logging.getLogger(__name__)

_STOPPED = "Tt"  # states of a process
_BLOCKED = "D" + _STOPPED  # it waits for a disk, or was stopped
_ASKED = 3  # so many videos are read to find out whether the storage answers


@dataclass(eq=False)
class LocalWorkers:
    """The local workers of a client. ``post`` has a call made in the I/O thread."""

    supervisor: Supervisor
    membership: Membership
    table: LeaseTable
    streams: Mapping[int, OpenStream]
    workers: Mapping[Peer, ConnectedWorker]
    files: FileChecker
    post: Callable[[Callable[[], None]], None]

    def look_after(self) -> None:
        """Reap the processes that ended, and have others started."""
        self.supervisor.flush()
        for pid, how, lease in self.supervisor.reap():
            _log.warning("worker process %d ended (%s); another takes its place", pid, how)
            self.membership.child_ended(pid, at_work=lease)

    # Silent workers

    def look_at_silent(self) -> None:
        """A silent worker that hangs uses a core. One that waits for its storage does not."""
        for peer in self.table.pool.silent():
            assert isinstance(peer, Peer)
            found = host.cpu_time(self.workers[peer].pid)
            if found is not None:
                cpu_s, state = found
                look = Look(cpu_s, blocked=state in _BLOCKED, stopped=state in _STOPPED)
                self.table.pool.look(peer, look)

    def ask_storage(self, command: AskStorage) -> None:
        """Find out whether the storage of a silent worker's videos answers, by other videos of it:
        a read of these may be what does not return."""
        worker, stream = command.worker, self.streams.get(command.stream)
        if stream is None or stream.storage is None:
            return
        size = len(stream.catalog)
        spread = {
            (command.videos[0] + n * size // (_ASKED + 1)) % size for n in range(1, _ASKED + 1)
        }
        asked = spread.difference(command.videos) or command.videos
        paths = [stream.catalog[video].path for video in asked]
        answered = lambda: self.table.pool.storage_answered(worker)  # noqa: E731
        self.files.read(stream.storage, paths, lambda: self.post(answered))
