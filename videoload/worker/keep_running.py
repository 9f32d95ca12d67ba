"""Run the processes of ``videoload worker`` until a signal ends them, and serve their metrics."""

from __future__ import annotations

import select
import signal
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from videoload.logs import Log
from videoload.wire.metrics_port import Metric, MetricsPort
from videoload.wire.private_messages import WorkerSettings
from videoload.worker.child import ignore_warnings
from videoload.worker.supervisor import CHECK_S, Supervisor

_log = Log(__name__)

HANGS_S = 10.0  # a supervisor that does not run for so long hangs
UNSERVED_S = 30.0  # in which a running trainer is reached


@dataclass(frozen=True, slots=True)
class State:
    """A supervisor's children at one ``time`` (of `time.monotonic`): what each has counted (see
    `counters.COUNTED`), by process id; the counts and the number of children that have ended; and
    when a child served a trainer last, or the supervisor began."""

    time: float
    counted: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    gone: Mapping[str, float] = field(default_factory=dict)
    restarts: int = 0
    served: float = 0.0


def families(state: State) -> Iterable[Metric]:
    """Yield the figures of all processes of one ``videoload worker``, replaced ones included."""
    total = {
        name: state.gone.get(name, 0.0) + sum(each[name] for each in state.counted.values())
        for name in ("clips", "failures", "decode_seconds")
    }
    trainers = max((each["trainers"] for each in state.counted.values()), default=0.0)
    refused, away = (
        sum(each[name] for each in state.counted.values()) for name in ("refused", "rejected")
    )
    for name, text, value in (
        ("clips_total", "Clips decoded.", total["clips"]),
        ("failures_total", "Leases with a clip that failed.", total["failures"]),
        ("decode_seconds_total", "Seconds of decoding, of all processes.", total["decode_seconds"]),
        ("restarts_total", "Processes that ended and were replaced.", state.restarts),
        ("processes", "Worker processes that run.", len(state.counted)),
        ("trainers", "Trainers that are being served.", trainers),
        ("storage_refused", "Processes that cannot read the videos.", refused),
        ("rejected", "Rejections, one for each process and trainer.", away),
    ):
        yield Metric(f"videoload_worker_{name}", text, [({}, value)])


def ailment(state: State, now: float) -> str:
    """Return the problem of the supervisor, which replaces processes that hang; "" if there is
    none."""
    if now - state.time > HANGS_S:
        return f"the supervisor of the worker processes has not run for {now - state.time:.0f} s"
    return "" if state.counted else "no worker process"


def unready(state: State, now: float) -> str:
    """Return why these processes would serve no trainer; "" if they would. Without a trainer they
    are ready: between two training runs, a rollout continues."""
    if wrong := ailment(state, now):
        return wrong
    children = state.counted.values()
    if all(each["refused"] for each in children):
        return "the storage refuses the videos, or is not mounted; see the log"
    if any(each["trainers"] for each in children):
        return ""
    if any(each["rejected"] for each in children):
        return "a trainer rejects this host; see the log"
    return "" if now - state.served > UNSERVED_S else "searching for a trainer"


# An idle worker takes a turn every 200 ms. During a lease, its trainer's ``stall_s`` applies.
STALL_S = 30.0


def keep_running(
    workers: int,
    settings: WorkerSettings,
    *,
    stall_s: float = STALL_S,
    metrics_port: int | str | None = None,
) -> int:
    """Run ``workers`` worker processes until SIGTERM (return 0) or Ctrl-C (return 130).

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
            supervisor.supervise(stall_s)
            state = state_of(supervisor, state)
        _log.info("received %s; stopping the workers", signal.Signals(stopped_by[0]).name)
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
    """Return the children as they are now."""
    now, children = time.monotonic(), supervisor.children
    counted = {child.pid: child.counters.read() for child in children}
    served = now if any(each["trainers"] for each in counted.values()) else before.served
    return State(now, counted, dict(supervisor.gone), supervisor.ended, served)
