"""The worker processes of one host: started, watched, replaced, stopped.

Every child is `python -m videoload.worker` with one inherited descriptor, its end of a private
channel; secrets and paths go over that, not over the command line. The supervisor itself waits for
nothing: it hands out a socket for each child that becomes readable when the child ends, and
writable when what was kept for it can be sent; its caller polls them and calls `reap` and `flush`.

All stopping is in one place (`stop`): ask (SIGTERM), wait, kill, reap.

A child that is killed or crashes is replaced at once. One that ends before it could work is
replaced after a pause, and that is given up where none is left that could: see `restarts`.

A child that hangs is found by the trainer's lease table. `keep_running` has none, so its children
count their turns and packets in shared memory, and it checks that the counters change.
"""

from __future__ import annotations

import logging
import math
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import closing, suppress
from typing import NamedTuple

from videoload.errors import WorkerError
from videoload.processes.counters import SIZE, Counters
from videoload.processes.metrics import State, ailment, families
from videoload.processes.restarts import Restarts
from videoload.transport.messages import Share, Unshare, WorkerSettings
from videoload.transport.metrics_port import MetricsPort
from videoload.transport.private_channel import PrivateChannel
from videoload.transport.slots import SHARED, Arena

_log = logging.getLogger(__name__)

GIVEN_BACK = "given back"  # how a child ended that `Supervisor.resize` asked to
_YOUNG_S = 5.0  # a worker that exits with an error so soon could not work
_CHECK_S = 0.2
# A worker has one core, and need not make threads for all that there are: of 64 workers on 64 cores
# they would be 4 000 of OpenBLAS's (or what else multiplies) and as many of obstore's, more than
# many containers may have.
_THREADS = {"OMP_NUM_THREADS": "1", "TOKIO_WORKER_THREADS": "2"}
# An idle worker takes a turn every 200 ms; the longest packet, transform or import takes less than
# this even on a busy host. No trainer waits for it: leases of a silent worker go to others.
_STALL_S = 30.0
_ASK_S = 1.2  # between asking and killing; a worker looks for signals every 200 ms at least
# ... and between killing and leaving it to the kernel. It takes milliseconds, but for a process in
# uninterruptible sleep: it waits for storage, and ends when that answers.
_KILL_S = 0.5


def start(module: str, end: socket.socket, *descriptors: int) -> subprocess.Popen[bytes]:
    """``python -m module FD...`` with the modules that this process has, one end of a socket pair,
    which is closed here, and further ``descriptors``. Raises WorkerError."""
    inherited = [end.fileno(), *descriptors]
    paths = os.pathsep.join(map(os.path.abspath, sys.path))
    environment = {**_THREADS, **os.environ, "PYTHONPATH": paths}
    # Ctrl-C in a terminal reaches children as well. They ignore it once they can; a child begins
    # with the mask of the thread that starts it, so that it is not met while it imports either.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        return subprocess.Popen(
            # -P: the folder that the trainer happens to be started in is not searched for modules.
            [sys.executable, "-P", "-m", module, *map(str, inherited)],
            pass_fds=inherited,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
    except OSError as error:
        raise WorkerError(f"cannot start {sys.executable}: {error.strerror}") from None
    finally:
        end.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Ended(NamedTuple):
    """A child that has ended, and how; and the lease that it was at (0: none; None: who knows)."""

    pid: int
    how: str
    lease: int | None


class Child:
    """One worker process, which counts in memory that is shared with it. With ``pulse``, that tells
    when it has come as far as to work; else, who admits it."""

    def __init__(self, settings: WorkerSettings, *, pulse: bool = False) -> None:
        self._pulse = pulse
        self.began = time.monotonic()
        self.told = False  # its supervisor knows that it has worked
        self.leaving = False  # it was asked to end, and nobody takes its place
        self._admitted = False
        self._last = b""
        self._checks = 0
        memory = None
        try:
            memory = Arena(1, SIZE, "worker-counters") if SHARED else None
            self.channel, theirs = PrivateChannel.pair()
            self._counters = None if memory is None else Counters(memory.view(0, 0, (SIZE,)))
            try:
                self.process = start("videoload.worker", theirs, *([memory.fd] if memory else []))
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
        self.channel.send(settings)

    @property
    def worked(self) -> bool:
        """Whether it has come as far as to work."""
        told = self._counters if self._pulse else None
        return self._admitted or (told is not None and bool(told.pulse[0]))

    def admitted(self) -> None:
        """The trainer has heard of it."""
        self._admitted = True

    def checks_without_progress(self) -> int:
        """How many checks in a row, with this one, found no progress. They are counted, not timed:
        it may be this process that was stopped."""
        now = b"" if self._counters is None else self._counters.pulse.tobytes()
        # Zero before its first turn: its imports may take long where the disk is slow.
        still = now == self._last and any(now)
        self._last, self._checks = now, self._checks + 1 if still else 0
        return self._checks

    @property
    def still_s(self) -> float:
        """How long it had made no progress at the last check."""
        return max(0, self._checks - 1) * _CHECK_S

    def counted(self) -> dict[str, float]:
        """What it counted so far."""
        return {} if self._counters is None else self._counters.read()

    @property
    def lease(self) -> int | None:
        """The lease that it is at, 0 if none; None where memory cannot be shared."""
        return None if self._counters is None else self._counters.lease

    def kill(self) -> None:
        """End it at once, whatever it is doing."""
        self.process.kill()

    def close(self) -> None:
        """Close its channel, after it has ended."""
        self.channel.close()


class Supervisor:
    """Keeps worker processes alive: none before `start`, nor after `stop`."""

    def __init__(self, *, pulse: bool = False) -> None:
        """``pulse``: as for a `Child`."""
        self._count = 0
        self._settings: WorkerSettings | None = None
        self._pulse = pulse
        self._shares: dict[int, tuple[Share, int | None]] = {}
        self._restarts = Restarts()
        self._gone: Counter[str] = Counter()  # what those that ended had counted
        self._ended = 0
        self.children: list[Child] = []

    def start(self, workers: int, settings: WorkerSettings) -> None:
        """Start so many. Raises WorkerError if that is not possible."""
        self._count, self._settings = workers, settings
        try:
            for _ in range(workers):
                self._start()
        except WorkerError:
            self.stop()
            raise

    def share(self, message: Share, descriptor: int | None) -> None:
        """Share an arena with all children, the later ones included. The descriptor stays the
        caller's and must stay open until `unshare`."""
        self._shares[message.arena] = (message, descriptor)
        for child in self.children:
            child.channel.send(message, descriptor)

    def unshare(self, arena: int) -> None:
        """The arena is no longer used."""
        del self._shares[arena]
        for child in self.children:
            child.channel.send(Unshare(arena))

    def watched(self) -> dict[socket.socket, bool]:
        """Sockets of which one becomes readable when a child ends: children never write to it. And
        whether there is something to `flush` when it becomes writable."""
        return {child.channel.socket: child.channel.is_full for child in self.children}

    def flush(self) -> None:
        """Send the children what they had no room for. Call it again and again."""
        for child in self.children:
            child.channel.flush()

    def admitted(self, pid: int) -> None:
        """A child has come as far as to work: its trainer admitted it."""
        for child in self.children:
            if child.pid == pid:
                child.admitted()

    def pids(self) -> set[int]:
        """Those of all children that were not reaped."""
        return {child.pid for child in self.children}

    @property
    def count(self) -> int:
        """Children that are to be alive."""
        return self._count

    def resize(self, workers: int) -> None:
        """Keep so many alive from now on: others are asked to end, the last ones first, and those
        that are missing are started by `reap`."""
        staying = [child for child in self.children if not child.leaving]
        for child in staying[workers:]:
            child.leaving = True
            child.process.terminate()
        self._count = workers

    def kill(self, pid: int) -> None:
        """Kill one child; `reap` then reports it."""
        for child in self.children:
            if child.pid == pid:
                child.kill()

    def reap(self) -> list[Ended]:
        """The children that have ended since the last call, each already replaced by a new one, or
        soon, but for those that were given back. Call it again and again: it also starts those that
        are due. Raises WorkerError if they keep ending before they can work, and none is left that
        could."""
        now = time.monotonic()
        ended = [child for child in self.children if child.process.poll() is not None]
        for child in self.children:
            if child.worked and not child.told:
                child.told = True
                self._restarts.worked()
        for child in ended:
            self.children.remove(child)
            self._gone.update(child.counted())
            self._ended += 1
            child.close()
            status = child.process.returncode
            if child.leaving:
                continue
            gave_up = status > 0 and now - child.began < _YOUNG_S
            if gave_up or not child.worked:
                self._restarts.start_failed(child.began, now)
                self._give_up_if_hopeless(_why(status, self._restarts.failed), killed=not gave_up)
        while self._missing and self._restarts.is_due(now):
            try:
                self._start()
            except WorkerError as error:
                _log.warning("%s; trying again", error)
                self._restarts.start_failed(now, now)
                self._give_up_if_hopeless(str(error), killed=True)
        return [
            Ended(
                child.pid,
                GIVEN_BACK if child.leaving else _how(child.process.returncode),
                child.lease,
            )
            for child in ended
        ]

    def state(self) -> State:
        """The children as they are now, for `metrics`."""
        counted = {child.pid: child.counted() for child in self.children}
        still_s = {child.pid: child.still_s for child in self.children}
        return State(time.monotonic(), counted, still_s, dict(self._gone), self._ended)

    def stop(self) -> None:
        """Ask, wait, kill, reap. Afterwards no child is left, but for one that the kernel cannot
        end now. Takes two seconds at most."""
        for child in self.children:
            child.process.terminate()
        self._wait(_ASK_S)
        for child in self.children:
            child.kill()
        self._wait(_KILL_S)
        for child in self.children:
            _log.warning(
                "worker process %d is killed and does not end: it waits for storage, or for a "
                "debugger, and ends with that", child.pid,
            )  # fmt: skip
            child.close()
        self.children.clear()

    @property
    def _missing(self) -> bool:
        return sum(not child.leaving for child in self.children) < self._count

    def _wait(self, timeout_s: float) -> None:
        """Wait for the children to end, and let go of those that have."""
        deadline = time.monotonic() + timeout_s
        for child in list(self.children):
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.0, deadline - time.monotonic()))
                child.close()
                self.children.remove(child)

    def _give_up_if_hopeless(self, why: str, *, killed: bool) -> None:
        if not any(child.worked for child in self.children) and self._restarts.is_hopeless(
            killed=killed
        ):
            raise WorkerError(why)

    def _start(self) -> None:
        assert self._settings is not None
        child = Child(self._settings, pulse=self._pulse)
        self.children.append(child)
        for message, descriptor in self._shares.values():
            child.channel.send(message, descriptor)


def keep_running(
    workers: int,
    settings: WorkerSettings,
    *,
    stall_s: float = _STALL_S,
    metrics_port: int | None = None,
) -> int:
    """Keep ``workers`` worker processes alive until SIGTERM (returns 0) or Ctrl-C (returns 130).
    One that makes no progress for ``stall_s`` is killed and replaced. What they did is told at
    ``metrics_port``. Raises WorkerError, TransportError."""
    state = State(time.monotonic())  # the last one
    scrapes = None
    if metrics_port is not None:
        scrapes = MetricsPort(
            metrics_port, lambda: families(state), lambda: ailment(state, time.monotonic())
        )
        _log.info("metrics are served at port %d", scrapes.port)
    stopped_by: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _: stopped_by.append(got))
    try:
        with closing(watch(workers, settings, stall_s)) as states:
            for now in states:
                state = now
                if stopped_by:
                    break
    finally:
        if scrapes is not None:
            scrapes.close()
    return 130 if stopped_by[0] == signal.SIGINT else 0


def watch(
    workers: int, settings: WorkerSettings, stall_s: float = _STALL_S
) -> Generator[State, None, None]:
    """Keep ``workers`` worker processes alive as long as it is asked for what they did, and stop
    them when it is closed. One that makes no progress for ``stall_s`` is killed and replaced.
    Raises WorkerError."""
    supervisor = Supervisor(pulse=True)
    try:
        supervisor.start(workers, settings)
        while True:
            ended, *_ = select.select(supervisor.watched(), [], [], _CHECK_S)
            supervisor.flush()
            for child in supervisor.children if not ended else ():  # all of _CHECK_S has passed
                if child.checks_without_progress() == math.ceil(stall_s / _CHECK_S):
                    _log.warning("worker process %d hangs; killing it", child.pid)
                    child.kill()
            for pid, how, _ in supervisor.reap():
                _log.warning("worker process %d ended (%s); another takes its place", pid, how)
            yield supervisor.state()
    finally:
        supervisor.stop()


def _why(status: int, failed: int) -> str:
    """What to tell of so many starts in a row that failed, the last one with ``status``."""
    if status > 0:
        return (
            f"{failed} workers in a row gave up as soon as they were started, the last one with "
            f"{_how(status)}; see what it printed"
        )
    return (
        f"{failed} workers in a row ended before they could work, the last one with "
        f"{_how(status)}; memory may be short (the kernel's log tells), or something on this host "
        "kills or crashes them"
    )


def _how(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
