"""Start, monitor, replace and stop the worker processes of one host.

The supervisor waits for nothing. It returns one socket for each child: the socket becomes readable
when the child ends, and writable when pending messages for the child can be sent. Its caller polls
these sockets and calls `supervise`.

A child that is killed or crashes is replaced at once. A child that ends before it could work is
replaced after a pause. If no child is left that ever worked, this is given up: see `Restarts`.

A child without progress for too long hangs, and is killed and replaced. A child that reads is not
killed while its watch thread runs: its storage may be down. If that thread can read another file,
the child is STUCK, and hangs. If the thread stands still as well, the child was stopped.
"""

from __future__ import annotations

import math
import socket
import time
from collections import Counter
from contextlib import suppress

from videoload import native
from videoload.activity import Activity
from videoload.backoff import Backoff
from videoload.errors import ProtocolError, WorkerError
from videoload.logs import Log
from videoload.wire.private_channel import PrivateChannel
from videoload.wire.private_messages import Connect, Share, Unshare, WorkerSettings
from videoload.wire.reserve import RESERVE
from videoload.wire.slots import Arena
from videoload.worker.child import ChildProcess, end_all
from videoload.worker.counters import SIZE, Counters
from videoload.worker.stall_clock import StallClock

_log = Log(__name__)

MODULE = "videoload.worker"  # what a worker process runs
_YOUNG_S = 5.0  # a worker that exits with an error so soon could not work
CHECK_S = 0.2
_STEP_S = 0.5  # no more time counts between two looks
_WATCHED_S = 5.0  # a worker that reads is looked at every second, by its own thread
_ASK_S = 1.2  # from asking to killing; a worker looks for signals every 200 ms at least
PAUSE_S, _MAX_PAUSE_S = 0.25, 15.0  # between two starts, after one that failed
_GAVE_UP, _KILLED = 3, 6  # failed starts in a row: 1 s of pauses, and 8 s


class Restarts:
    """When a worker that ended is started again, and when this is given up. Pure.

    A worker that never began to work means that something is wrong with this host: its Python, its
    memory, its limits. An immediate restart would fill the log and burn a core for ever, so there
    is a pause, twice as long each time. If no worker is left that ever worked, this ends with an
    error: soon if workers give up by themselves (they print why), later if they are killed, as that
    may pass. Workers that are started together fail together, and this counts once.
    """

    def __init__(self) -> None:
        self.failed = 0  # starts in a row
        self._pauses = Backoff(PAUSE_S, _MAX_PAUSE_S)
        self._last = self._next = -math.inf

    def worked(self) -> None:
        self.failed = 0
        self._pauses.reset()

    def start_failed(self, began: float, now: float) -> None:
        """A worker that was started at ``began`` ended before it worked, or could not start."""
        if began < self._last:
            return
        self.failed += 1
        self._last = now
        self._next = now + self._pauses.next_s()

    def is_due(self, now: float) -> bool:
        return now >= self._next

    def is_hopeless(self, *, killed: bool) -> bool:
        """Return whether to give up if no worker is left. ``killed``: the last worker did not end
        by itself, or could not be started."""
        return self.failed >= (_KILLED if killed else _GAVE_UP)


class WorkerProcess:
    """One worker process. It counts what it does in memory that it shares with this process."""

    def __init__(self, settings: WorkerSettings) -> None:
        """Start it. Raises WorkerError."""
        self.worked_before = False  # its supervisor knows that it has worked
        self.hung_at: Activity | None = None  # it hung there, and was killed
        self.asks = self.has_reserve = False  # for one, to connect
        memory = None
        try:
            memory = Arena(1, SIZE, "worker-counters")
            self.channel, theirs = PrivateChannel.pair()
            self.counters = Counters.from_buffer(memory.view(0, 0, (SIZE,)).data)
            try:
                env = native.hidden_gpus() if settings.token else {}
                self.process = ChildProcess(MODULE, theirs, memory.fd, env=env)
            except WorkerError:
                self.channel.close()
                raise
        except OSError as error:  # no descriptor is left
            raise WorkerError(f"cannot start a worker: {error.strerror}") from None
        except MemoryError as error:
            raise WorkerError(f"cannot start a worker: {error}") from None
        finally:
            if memory is not None:
                memory.close()
        self.pid = self.process.pid
        self.stall = StallClock(_STEP_S)
        self.channel.send(settings)

    @property
    def worked(self) -> bool:
        """Whether it has begun to work: its imports are done, and its loop runs."""
        return self.counters.turns > 0

    def read(self) -> None:
        """Note whether it requests to connect."""
        with suppress(EOFError, ProtocolError):
            while self.channel.receive(0) is not None:
                self.asks = True

    def connected(self) -> None:
        """Note that it has connected, or has ended."""
        if self.has_reserve:
            self.has_reserve = False
            RESERVE.take_back()

    def hangs(self, stall_s: float) -> bool:
        """Return whether it has made no progress for too long. ``stall_s``: the limit without a
        lease."""
        limit_s = self.counters.stall_s or stall_s
        if self.counters.activity is Activity.READING:
            limit_s = max(limit_s, _WATCHED_S)
        return self.stall.look(self.counters.progress) > limit_s

    @property
    def cause(self) -> int:
        """The lease that it worked on, and that may have ended it; 0: none, as in an import."""
        return 0 if self.hung_at is Activity.IMPORT else self.counters.lease


class Supervisor:
    """Runs worker processes, and replaces those that end. It has none before `start` and after
    `stop`."""

    def __init__(self) -> None:
        self._count = 0
        self._settings: WorkerSettings | None = None
        self._shares: dict[int, tuple[Share, int]] = {}
        self._restarts = Restarts()
        self.gone: Counter[str] = Counter()  # what children that ended had counted
        self.ended = 0  # ... and how many
        self.children: list[WorkerProcess] = []

    def start(self, workers: int, settings: WorkerSettings) -> None:
        """Start the workers. Raises WorkerError if that is not possible."""
        self._count, self._settings = workers, settings
        try:
            for _ in range(workers):
                self._start()
        except WorkerError:
            self.stop()
            raise

    def share(self, message: Share, descriptor: int) -> None:
        """Share an arena with all children, also with later ones. The descriptor stays
        the caller's and must stay open until `unshare`."""
        self._shares[message.arena] = (message, descriptor)
        for child in self.children:
            child.channel.send(message, descriptor)

    def unshare(self, arena: int) -> None:
        del self._shares[arena]
        for child in self.children:
            child.channel.send(Unshare(arena))

    def watched(self) -> dict[socket.socket, bool]:
        """Return one socket for each child, which becomes readable when the child ends or requests
        to connect. The value: whether to poll for writing, too."""
        return {child.channel.socket: child.channel.is_full for child in self.children}

    def pids(self) -> set[int]:
        """Return the process ids of all children that were not reaped."""
        return {child.pid for child in self.children}

    def connected(self, pid: int) -> None:
        """A child has connected."""
        for child in self.children:
            if child.pid == pid:
                child.connected()

    def kill(self, pid: int) -> None:
        """Kill one child."""
        for child in self.children:
            if child.pid == pid:
                child.process.kill()

    def supervise(self, stall_s: float) -> dict[int, int]:
        """Send pending messages, kill the children that hang, and replace those that have ended,
        now or in a later call. To be called again and again. Returns the lease that may have ended
        each of them (0: none), by its process id. ``stall_s``: how long one may make no progress
        without a lease. Raises WorkerError if children keep exiting before they can work, and none
        is left."""
        now = time.monotonic()
        RESERVE.fill()
        for child in self.children:
            child.channel.flush()
            child.read()
            if child.asks and (child.has_reserve or RESERVE.lend()):
                child.asks, child.has_reserve = False, True
                child.channel.send(Connect())
            if child.hangs(stall_s) and child.hung_at is None:
                child.hung_at = child.counters.activity
                _log.warning("worker process %d hangs; killing it", child.pid)
                child.process.kill()
        ended = [child for child in self.children if child.process.status is not None]
        for child in self.children:
            if child.worked and not child.worked_before:
                child.worked_before = True
                self._restarts.worked()
        for child in ended:
            self.children.remove(child)
            self.gone.update(child.counters.read())
            self.ended += 1
            child.connected()
            child.channel.close()
            gave_up = (child.process.status or 0) > 0 and now - child.process.began < _YOUNG_S
            if gave_up or not child.worked:
                self._restarts.start_failed(child.process.began, now)
                self._give_up_if_hopeless(self._why(child.process), killed=not gave_up)
        while len(self.children) < self._count and self._restarts.is_due(now):
            try:
                self._start()
            except WorkerError as error:
                _log.warning("%s; trying again", error)
                self._restarts.start_failed(now, now)
                self._give_up_if_hopeless(str(error), killed=True)
        for child in ended:
            how = child.process.exit_reason
            _log.warning("worker process %d ended (%s); starting another", child.pid, how)
        return {child.pid: child.cause for child in ended}

    def stop(self) -> None:
        """End all children. Afterwards none is left, unless the kernel cannot end it now. Takes two
        seconds at most."""
        self._count = 0
        for process in end_all((child.process for child in self.children), ask_s=_ASK_S):
            _log.warning(
                "worker process %d was killed but has not exited: it waits for storage, or for a "
                "debugger, and exits after that", process.pid,
            )  # fmt: skip
        for child in self.children:
            child.connected()
            child.channel.close()
        self.children.clear()

    def _give_up_if_hopeless(self, why: str, *, killed: bool) -> None:
        if not any(child.worked for child in self.children) and self._restarts.is_hopeless(
            killed=killed
        ):
            raise WorkerError(why)

    def _why(self, last: ChildProcess) -> str:
        """Return why starts failed, ``last`` being the last one."""
        if (last.status or 0) > 0:
            return (
                f"{self._restarts.failed} workers in a row gave up as soon as they were started, "
                f"the last one with {last.exit_reason}; see what it printed"
            )
        return (
            f"{self._restarts.failed} workers in a row ended before they could work, the last one "
            f"with {last.exit_reason}; memory may be short (see the kernel's log), or something "
            "on this host kills or crashes them"
        )

    def _start(self) -> None:
        assert self._settings is not None
        with RESERVE.let_go():
            child = WorkerProcess(self._settings)
        self.children.append(child)
        for message, descriptor in self._shares.values():
            child.channel.send(message, descriptor)
