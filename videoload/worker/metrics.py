"""What the worker processes of a host did, for Prometheus. Pure: plain data in and out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from videoload.transport.metrics_port import Metric

HANGS_S = 10.0  # a supervisor that does not look for so long hangs
UNSERVED_S = 30.0  # without a trainer, a host is not ready any more: trainers come and go


@dataclass(frozen=True, slots=True)
class State:
    """A supervisor's children at one ``time`` (of `time.monotonic`): what each has counted (see
    `counters.COUNTED`), by process id; what children that are gone had counted, and how many there
    were; and when a child served a trainer last."""

    time: float
    counted: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    gone: Mapping[str, float] = field(default_factory=dict)
    restarts: int = 0
    served: float = -math.inf


def families(state: State) -> Iterable[Metric]:
    """The figures of all processes of one ``videoload worker``, replaced ones included."""
    total = {
        name: state.gone.get(name, 0.0) + sum(each[name] for each in state.counted.values())
        for name in ("clips", "failures", "decode_seconds")
    }
    trainers = max((each["trainers"] for each in state.counted.values()), default=0.0)
    for name, text, value in (
        ("clips_total", "Clips decoded.", total["clips"]),
        ("failures_total", "Leases with a clip that failed.", total["failures"]),
        ("decode_seconds_total", "Seconds of decoding, of all processes.", total["decode_seconds"]),
        ("restarts_total", "Processes that ended and were replaced.", state.restarts),
        ("processes", "Worker processes that run.", len(state.counted)),
        ("trainers", "Trainers that are being served.", trainers),
    ):
        kind: Literal["counter", "gauge"] = "counter" if name.endswith("_total") else "gauge"
        yield Metric(f"videoload_worker_{name}", kind, text, [({}, value)])


def ailment(state: State, now: float) -> str:
    """What is wrong with the supervisor, which replaces processes that hang; "" if nothing is."""
    if now - state.time > HANGS_S:
        return f"nobody has looked after the worker processes for {now - state.time:.0f} s"
    return "" if state.counted else "no worker process"


def unready(state: State, now: float) -> str:
    """Why these processes serve nobody; "" if they serve a trainer, or did just before."""
    unserved_s = now - state.served
    if wrong := ailment(state, now):
        return wrong
    if state.counted and all(each["refused"] for each in state.counted.values()):
        return "the storage refuses the videos; see the log"
    if unserved_s <= UNSERVED_S:
        return ""
    since = "no trainer was" if math.isinf(unserved_s) else f"for {unserved_s:.0f} s no trainer is"
    return f"{since} served: each refuses this host, or cannot be reached; see the log"
