"""The processes of ``videoload worker``: kept alive until a signal ends them."""

from __future__ import annotations

import select
import signal
import socket
import time
from collections.abc import Iterable

from videoload.logs import Log
from videoload.wire.metrics_port import MetricsPort
from videoload.wire.private_messages import WorkerSettings
from videoload.worker.child import ignore_warnings
from videoload.worker.metrics import State, ailment, families, unready
from videoload.worker.supervisor import CHECK_S, Supervisor

_log = Log(__name__)

# An idle worker takes a turn every 200 ms. At a lease, it is its trainer that says how long it may
# make no progress.
STALL_S = 30.0


def keep_running(
    workers: int,
    settings: WorkerSettings,
    *,
    stall_s: float = STALL_S,
    metrics_port: int | str | None = None,
) -> int:
    """Keep ``workers`` worker processes alive until SIGTERM (returns 0) or Ctrl-C (returns 130).

    A worker that makes no progress for as long as its trainer's ``stall_s``, or without a lease for
    this ``stall_s``, is killed and replaced. ``metrics_port`` serves what the workers did, as for
    `MetricsPort`. Raises WorkerError, TransportError.
    """
    state = State(time.monotonic(), served=time.monotonic())  # the last one
    scrapes = None
    if metrics_port is not None:
        scrapes = MetricsPort(
            metrics_port,
            lambda: families(state),
            healthz=lambda: ailment(state, time.monotonic()),
            readyz=lambda: unready(state, time.monotonic()),
        )
        _log.info("metrics are served at port %d", scrapes.port)
    stopped_by: list[int] = []
    ignore_warnings()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _: stopped_by.append(got))
    supervisor = Supervisor()
    try:
        supervisor.start(workers, settings)
        while not stopped_by:
            _wait(supervisor.watched())
            supervisor.look_after(stall_s)
            state = state_of(supervisor, state)
        _log.info("%s came; ending the workers", signal.Signals(stopped_by[0]).name)
    finally:
        supervisor.stop()
        if scrapes is not None:
            scrapes.close()
    return 130 if stopped_by[0] == signal.SIGINT else 0


def _wait(channels: Iterable[socket.socket]) -> None:
    """Wait until a child ends, or a moment. (`select` knows no descriptors above 1 023.)"""
    poller = select.poll()
    for channel in channels:
        poller.register(channel, select.POLLIN)
    poller.poll(1000 * CHECK_S)


def state_of(supervisor: Supervisor, before: State) -> State:
    """The children as they are now."""
    now, children = time.monotonic(), supervisor.children
    counted = {child.pid: child.counters.read() for child in children}
    served = now if any(each["trainers"] for each in counted.values()) else before.served
    return State(now, counted, dict(supervisor.gone), supervisor.ended, served)
