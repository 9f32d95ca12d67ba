"""The worker processes that a client started itself: ended ones are reported, hanging ones are
found. All of this belongs to the I/O thread."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from videoload.engine.admission import ConnectedWorker
from videoload.engine.membership import Membership
from videoload.leases.table import LeaseTable
from videoload.processes.supervisor import Supervisor
from videoload.transport.sockets import Peer

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class LocalWorkers:
    """The local workers of a client."""

    supervisor: Supervisor
    membership: Membership
    table: LeaseTable
    workers: Mapping[Peer, ConnectedWorker]

    def look_after(self) -> None:
        """Reap the processes that ended, and have others started."""
        self.supervisor.flush()
        for pid, how, lease in self.supervisor.reap():
            _log.warning("worker process %d ended (%s); another takes its place", pid, how)
            self.membership.child_ended(pid, at_work=lease)

    def look_at_silent(self) -> None:
        """Tell the table what silent workers are at."""
        for peer in self.table.pool.silent_children():
            assert isinstance(peer, Peer)
            if (at := self.supervisor.activity(self.workers[peer].pid)) is not None:
                self.table.pool.is_at(peer, at)
