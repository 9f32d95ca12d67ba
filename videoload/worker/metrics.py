"""What the worker processes of a host did, for Prometheus. Pure: plain data in and out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from videoload.wire.metrics_port import Metric

HANGS_S = 10.0  # a supervisor that does not look for so long hangs
UNSERVED_S = 30.0  # in which a trainer that is there is reached


@dataclass(frozen=True, slots=True)
class State:
    """A supervisor's children at one ``time`` (of `time.monotonic`): what each has counted (see
    `counters.COUNTED`), by process id; what children that are gone had counted, and how many there
    were; and when a child served a trainer last, or the supervisor began."""

    time: float
    counted: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    gone: Mapping[str, float] = field(default_factory=dict)
    restarts: int = 0
    served: float = 0.0


def families(state: State) -> Iterable[Metric]:
    """The figures of all processes of one ``videoload worker``, replaced ones included."""
    total = {
        name: state.gone.get(name, 0.0) + sum(each[name] for each in state.counted.values())
        for name in ("clips", "failures", "decode_seconds")
    }
    trainers = max((each["trainers"] for each in state.counted.values()), default=0.0)
    refused, away = (
        sum(each[name] for each in state.counted.values()) for name in ("refused", "turned_away")
    )
    for name, text, value in (
        ("clips_total", "Clips decoded.", total["clips"]),
        ("failures_total", "Leases with a clip that failed.", total["failures"]),
        ("decode_seconds_total", "Seconds of decoding, of all processes.", total["decode_seconds"]),
        ("restarts_total", "Processes that ended and were replaced.", state.restarts),
        ("processes", "Worker processes that run.", len(state.counted)),
        ("trainers", "Trainers that are being served.", trainers),
        ("storage_refused", "Processes whose storage refuses the videos.", refused),
        ("rejected", "Processes that a trainer rejects.", away),
    ):
        kind: Literal["counter", "gauge"] = "counter" if name.endswith("_total") else "gauge"
        yield Metric(f"videoload_worker_{name}", kind, text, [({}, value)])


def ailment(state: State, now: float) -> str:
    """What is wrong with the supervisor, which replaces processes that hang; "" if nothing is."""
    if now - state.time > HANGS_S:
        return f"nobody has looked after the worker processes for {now - state.time:.0f} s"
    return "" if state.counted else "no worker process"


def unready(state: State, now: float) -> str:
    """Why these processes would serve no trainer; "" if they would. Where there is none, none is
    missed: between two trainings, a rollout goes on."""
    if wrong := ailment(state, now):
        return wrong
    children = state.counted.values()
    if all(each["refused"] for each in children):
        return "the storage refuses the videos; see the log"
    if any(each["trainers"] for each in children):
        return ""
    if any(each["turned_away"] for each in children):
        return "a trainer refuses this host; see the log"
    return "" if now - state.served > UNSERVED_S else "a trainer is looked for"
