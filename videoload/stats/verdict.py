"""What holds a training back, in one sentence, and how many workers would do. Pure.

The number of workers is demand over the mean rate of a worker, as the autoscaler of tf.data's
service has it. *Demand*: the clips per second that the trainer would take if it never waited, known
from its steps. *Rate*: the clips per second that a worker decodes while it decodes. Neither changes
with who waits for whom, so that one look at a slow stream tells what a quick one needs.

But more workers help only where decoding is what is short, and where there is room for them. So
what speaks against it is asked first, and what it is becomes the sentence: a line that is full, a
few files, one host or worker much slower than the others, cores that are all in use.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from videoload.stats.waiting import Figures, count
from videoload.stats.work import SlowFiles, Work, total

Bottleneck = Literal[
    "unknown",
    "trainer",
    "decoding",
    "storage",
    "cores",
    "line",
    "host",
    "files",
    "workers",
    "batches",
]

_ENOUGH = 0.05  # of the time a trainer may wait where the workers suffice
_KEEPS_UP = 0.10  # below this share of waiting nobody is told to do anything
_STALLED_S = 5.0  # a wait that is longer and goes on is told by itself
_LINE = 0.3  # of their time workers wait for their line: it is full
_FILES, _FEW = 0.2, 0.1  # of the decoding, for so few of the files that were met
_SLOW = 2.0  # times as slow as the others
_KNOWN = 3  # leases of a worker tell its pace
_AT_WORK = 0.7  # of its time a worker that decodes wants a core; else it waits for its storage
_NO_CORE = 0.2  # of the time that it wants one it has none: they are all in use
_STORAGE = 0.5  # of their work, workers wait for their storage: that is what takes the time
_IDLE = 0.5  # busy for less of their time, workers are not what is short
_MOST = 64  # times as many workers: then the number says nothing


@dataclass(frozen=True, slots=True)
class Measured:
    """What a worker that is connected now did for the stream; ``here``: on the trainer's host."""

    name: str
    host: str
    here: bool
    is_child: bool
    work: Work


@dataclass(frozen=True, slots=True)
class Verdict:
    """What holds the training back; ``sentence`` says it. ``wanted``: workers like these with which
    the trainer would wait a twentieth of the time at most; None where nothing tells.
    ``utilisation``: the share of their time that workers are busy."""

    bottleneck: Bottleneck
    sentence: str
    wanted: int | None = None
    utilisation: float = 0.0


def judge(
    found: Figures, workers: Sequence[Measured], *, cores: int, files: SlowFiles,
    ceiling: float | None = None, line_is_full: bool = False,
) -> Verdict:  # fmt: skip
    """What the figures mean. ``cores``: of this host, for workers; ``ceiling``: steps per second
    that the trainer takes without loading, if that was measured; ``line_is_full``: workers of other
    hosts get no leases, since the answers of others are all that the line brings."""
    works = total(worker.work for worker in workers)
    utilisation = works.busy_s / works.passed_s if works.passed_s > 0 else 0.0
    need = workers_needed(found, workers)
    wanted = None if need is None else max(1, math.ceil(need))

    def verdict(bottleneck: Bottleneck, sentence: str) -> Verdict:
        return Verdict(bottleneck, sentence, wanted, utilisation)

    stalled = found.stalled_s >= _STALLED_S
    if not found.batches and not stalled:
        return verdict("unknown", "nothing was read")
    waits = f"it waits {found.wait_share:.0%} of the time"
    if stalled:
        waits = f"the trainer has been waiting for {found.stalled_s:.0f} s"
        those = count(len(workers), "worker")
        why = f"{those} connected, and none delivers" if workers else "no worker is connected"
        return verdict("workers", f"{waits}: {why}")
    if found.wait_share <= _KEEPS_UP:
        if wanted is not None and wanted < len(workers):
            would = f"{wanted} of {len(workers)} workers would do"
            return verdict("trainer", f"the trainer is the slower side: {waits}; {would}")
        return verdict("trainer", f"decoding keeps up: the trainer {waits[3:]}")
    if not workers:
        return verdict("workers", f"the trainer {waits[3:]}: no worker is connected")
    if found.later_share <= _KEEPS_UP:
        first = f"nearly all of it for the first batches, {found.first_s:.1f} s"
        return verdict("batches", f"decoding keeps up, but the trainer {waits[3:]}, {first}")
    bottleneck, why = _reason(workers, files, utilisation, line_is_full=line_is_full)
    if bottleneck == "decoding":
        bottleneck, why = _more(workers, wanted, cores)
        if bottleneck == "decoding" and (waited := _waited_for_storage(works)) > _STORAGE:
            bottleneck = "storage"
            why = f"workers wait for their storage for {waited:.0%} of their work; {why}"
    cost = _cost(found, ceiling)
    return verdict(bottleneck, f"decoding holds the trainer back: {waits}{cost}; {why}")


def workers_needed(found: Figures, workers: Iterable[Measured]) -> float | None:
    """Workers that the demand is worth, if no more than a twentieth of the time may be waited; None
    where that is not known: without a step between two waits, the demand is infinite."""
    rates = [rate for worker in workers if (rate := _rate(worker.work)) > 0]
    if not rates or not found.demand or math.isinf(found.demand):
        return None
    return (1 - _ENOUGH) * found.demand * len(rates) / sum(rates)


def _rate(work: Work) -> float:
    """Clips per second of a worker that has a core for itself."""
    busy_s = work.busy_s
    if _wants_core(work):
        busy_s -= min(work.no_core_s, 0.9 * busy_s)
    return work.clips / busy_s if busy_s > 0 else 0.0


def _wants_core(work: Work) -> bool:
    return work.core_s + work.no_core_s > _AT_WORK * work.busy_s


def _waited_for_storage(work: Work) -> float:
    """The share of their work that workers had no core and wanted none; 0 where the kernel does not
    tell."""
    cores_s = work.core_s + work.no_core_s
    waited_s = work.busy_s - work.transform_s - cores_s if cores_s > 0 else 0.0
    return max(0.0, waited_s) / work.busy_s if work.busy_s > 0 else 0.0


def _is_short_of_cores(work: Work) -> bool:
    return _wants_core(work) and work.no_core_s > _NO_CORE * (work.core_s + work.no_core_s)


def _reason(
    workers: Sequence[Measured], files: SlowFiles, utilisation: float, *, line_is_full: bool
) -> tuple[Bottleneck, str]:
    """What but the number of workers it is."""
    dialled = [worker.work for worker in workers if not worker.is_child]
    work = total(dialled)
    if line_is_full and work.passed_s > 0:
        all_of_them = count(len(dialled), "worker")
        rate = work.sent_bytes * len(dialled) / work.passed_s
        return "line", f"the line from {all_of_them} is full ({rate / 1e6:.1f} MB/s)"
    hosts: dict[str, list[Measured]] = defaultdict(list)
    for worker in workers:
        hosts[worker.host].append(worker)
    works = {host: total(worker.work for worker in those) for host, those in hosts.items()}
    for host, those in hosts.items():
        work = total(worker.work for worker in those if not worker.is_child)
        if work.wire_s > _LINE * work.passed_s:
            waiting = work.wire_s / work.passed_s
            rate = work.sent_bytes / (work.busy_s + work.wire_s)
            brings = f"{rate * len(those) / 1e6:.1f} MB/s, and workers there wait for it"
            return "line", f"host {host}'s line is full ({brings} {waiting:.0%} of the time)"
    if files.share > _FILES and files.slow <= max(1, _FEW * files.met):
        those_files = count(files.slow, "file")
        verb = "takes" if files.slow == 1 else "take"
        return "files", f"{those_files} {verb} {files.share:.0%} of the decoding"
    slow = _slower(works) if len(hosts) > 1 else None
    if slow is not None:
        return "host", f"host {slow[0]} is {slow[1]:.0f} times as slow as the others"
    slow = _slower({worker.name: worker.work for worker in workers})
    if slow is not None:
        return "host", f"worker {slow[0]} is {slow[1]:.0f} times as slow as the others"
    if utilisation < _IDLE:
        return "batches", (
            f"workers are busy for {utilisation:.0%} of it only: more of them would not help, "
            "more slots= or longer epochs may"
        )
    return "decoding", ""


def _slower(works: Mapping[str, Work]) -> tuple[str, float] | None:
    """Who is much slower than the others in the middle, and how many times."""
    paces = {name: work.clip_s for name, work in works.items() if work.leases >= _KNOWN}
    if len(paces) < 2:
        return None
    name = max(paces, key=lambda name: paces[name])
    others = median(pace for other, pace in paces.items() if other != name)
    times = paces[name] / others if others > 0 else 1.0
    return (name, times) if times >= _SLOW else None


def _more(workers: Sequence[Measured], wanted: int | None, cores: int) -> tuple[Bottleneck, str]:
    """How many more workers, and where."""
    have = len(workers)
    hosts: dict[str, list[Work]] = defaultdict(list)
    for worker in workers:
        hosts["" if worker.here else worker.host].append(worker.work)
    here = hosts.pop("", [])
    work = total(here)
    full = _is_short_of_cores(work) or (len(here) >= cores and _wants_core(work))
    crowded = [host for host, works in hosts.items() if _is_short_of_cores(total(works))]
    names = f"{'hosts' if len(crowded) > 1 else 'host'} {', '.join(crowded)}"
    told = wanted is not None and wanted <= _MOST * have
    if not full and (here or len(crowded) < len(hosts)):
        more = max(1, (wanted or 0) - have)
        those = count(more, "more worker")
        like = "like this one" if have == 1 else "like these"
        where = f", but not on {names}, whose cores are all in use" if crowded else ""
        if told:
            return "decoding", f"about {those} {like} would end that{where}"
        return "decoding", f"more workers {like} would make it faster{where}"
    spare = max(0, len(here) - cores) if full else 0
    too_many = f", and {cores} of the {len(here)} workers here would do" if spare else ""
    can = f"the {count(cores, 'core')} of this host can do no more{too_many}"
    if crowded:
        can = f"{can}, nor can those of {names}" if full else f"the cores of {names} are all in use"
    more = max(1, (wanted or 0) - have + spare)
    if told:
        return "cores", f"{can}: about {count(more, 'worker')} on other hosts would end that"
    return "cores", f"{can}: workers on other hosts would make it faster"


def _cost(found: Figures, ceiling: float | None) -> str:
    """What loading costs, in steps a second."""
    clips = found.clips / found.batches if found.batches else 0.0
    if not clips:
        return ""
    could = found.demand / clips if ceiling is None else ceiling
    takes = found.clips_per_s / clips
    return f" ({takes:.3g} steps/s of {could:.3g})" if math.isfinite(could) else ""
