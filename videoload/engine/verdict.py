"""The verdict: the bottleneck of a training run, and how many workers are enough. Pure.

The number of workers is demand divided by the mean rate of a worker, as the autoscaler of tf.data's
service computes it. *Demand* is the clips per second that the trainer would take if it never
waited; its steps show it. The *rate* is the clips per second of a worker while it decodes. Neither
depends on who waits for whom at the moment. So one look at a slow stream shows what a fast one
needs.

More workers help only if decoding is the slow part. So the other causes are checked first, and the
first one found is reported: workers that are lost, a storage that does not give the videos, a full
network link, workers that are idle, the user's function, a storage that is slow.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from videoload.engine.stats import RESPONDS, RootRecord, WorkerRecord
from videoload.engine.waiting import Figures
from videoload.engine.work import Work, total
from videoload.errors import count

# "": nothing or too little was read yet.
Bottleneck = Literal["", "trainer", "decoding", "storage", "network", "workers", "function"]

_ENOUGH = 0.05  # with enough workers, the trainer waits this share of the time at most
_KEEPS_UP = 0.10  # below this share of waiting, nothing is recommended
STALLED_S = 5.0  # a longer current wait is reported instead of anything else
_LINK = 0.3  # share of the time with a lease that workers wait for a full network link
_AT_WORK = 0.7  # share of its time that a decoding worker needs a core; else it waits for storage
_NO_CORE = 0.2  # share of that time that it has no core, if all cores are busy
_STORAGE = 0.5  # share of their work that workers wait for slow storage
_DOUBLE = 2  # times the current workers, at most, are requested then
_FUNCTION = 0.5  # share of their work that is the user's own function
_IDLE = 0.5  # workers that are busy for less of their time are not too few
_COMPUTES_S = 0.002  # A loop that uses a batch for less computes nothing with it.
_MOST = 64  # times the present workers; a larger number means nothing


@dataclass(frozen=True, slots=True)
class Verdict:
    """What slows the training down, in one word and in plain English.

    With ``wanted`` workers like these, the trainer would wait a twentieth of the time at most; None
    if that is not known. ``utilisation`` is the share of their time that workers are busy.
    """

    bottleneck: Bottleneck
    sentence: str
    wanted: int | None = None
    utilisation: float = 0.0


def judge(
    found: Figures, workers: Sequence[WorkerRecord], *, cores: int,
    own_host: str = "", storage: RootRecord = RESPONDS, function: str = "", lost: str = "",
    alone_s: float = 0.0, is_ahead: bool = True, is_early: bool = False,
) -> Verdict:  # fmt: skip
    """Return the verdict on the figures. ``cores`` are the cores of ``own_host`` that workers may
    use. ``storage``: the root of the videos. ``function``: the user's transform. ``lost``: the
    workers that died or are silent, by host. ``alone_s``: for how long no worker was connected.
    ``is_ahead``: a batch is ready before it is requested. ``is_early``: too few batches were read
    to know how many workers are needed."""
    works = total(worker.work for worker in workers)
    utilisation = works.busy_s / works.passed_s if works.passed_s > 0 else 0.0
    computes = found.step_s >= _COMPUTES_S
    # While the storage refuses, more workers would send more requests.
    is_known = computes and not storage.error and not is_early
    need = workers_needed(found, workers) if is_known else None
    wanted = None if need is None else max(1, math.ceil(need))

    def verdict(bottleneck: Bottleneck, *sentences: str) -> Verdict:
        return Verdict(bottleneck, " ".join(sentences), wanted, utilisation)

    waits, stalls = f"The trainer waits {found.wait_ratio:.0%} of the time", False
    if found.stalled_s >= STALLED_S:
        waits, stalls = f"The trainer has been waiting for {found.stalled_s:.0f} s", True
    elif not found.batches:
        return verdict("", "No batch was read yet.")
    elif found.wait_ratio <= _KEEPS_UP:
        # If no batch is ready, all workers are needed: others may have a part of their time.
        too_many = is_ahead and wanted is not None and wanted < len(workers)
        shared = "" if all(worker.is_child for worker in workers) else " for this training alone"
        running = f"{_are(wanted or 0)} enough{shared}; {len(workers)} are running."
        enough = [running] if too_many else []
        return verdict("trainer", f"Decoding keeps up. {waits}.", *enough)
    if lost:
        return verdict("workers", f"{waits}.", f"Workers are lost. {lost}.")
    if storage.error:
        return verdict("storage", f"{waits}.", f"The videos cannot be read: {storage.error}.")
    waited_s = found.wait_ratio * found.reading_s
    if storage.unread_s > waited_s / 2:
        unread = f"No worker could read {storage.root} for {storage.unread_s:.0f} s."
        return verdict("storage", f"{waits}.", unread)
    if storage.unread_s > _KEEPS_UP * waited_s:
        waits += f", {storage.unread_s:.0f} s of it as no worker could read the videos"
    if not workers:
        return verdict("workers", f"{waits}.", "No worker is connected.")
    if alone_s > waited_s / 2:
        none = f"No worker was connected for {alone_s:.0f} s."
        return verdict("workers", f"{waits}.", none)
    if alone_s > _KEEPS_UP * waited_s:
        waits += f", {alone_s:.0f} s of it as no worker was connected"
    if stalls:
        none = f"{_are(len(workers))} connected, but none delivers."
        return verdict("workers", f"{waits}.", none)
    if found.first_s > waited_s / 2 and found.later_share <= _KEEPS_UP:
        first = f"most of it for the first batches ({found.first_s:.1f} s)"
        return verdict(
            "decoding", f"{waits}, {first}.",
            "In training, one call for all epochs, batches(epochs=...), waits for them once; "
            "validation waits in each pass.",
        )  # fmt: skip
    if is_early:
        batches = "1 batch was" if found.batches == 1 else f"{found.batches} batches were"
        return verdict("", f"{waits}, but only {batches} read: too few for advice.")
    if full_link := _full_link(workers, own_host):
        return verdict("network", f"{waits}{_steps(found)}.", full_link)
    waited = _waited_for_storage(works)
    occupied_s = works.busy_s + sum(_wire_without_core_s(worker.work) for worker in workers)
    if occupied_s < _IDLE * works.passed_s and waited <= _STORAGE:
        return verdict(
            "workers", f"{waits}{_steps(found)}.",
            f"Workers are busy only {utilisation:.0%} of the time, so more of them would not help. "
            "Try more slots= or longer epochs.",
        )  # fmt: skip
    if function and works.transform_s > _FUNCTION * works.busy_s:
        share, clip_s = works.transform_s / works.busy_s, works.transform_s / max(1, works.clips)
        return verdict(
            "function",
            f"transform {function} is too slow. {waits}{_steps(found)}.",
            f"It takes {share:.0%} of the workers' time, {1000 * clip_s:.0f} ms a clip.",
        )
    if waited > _STORAGE:
        if wanted is not None:  # the storage may have no room for more of them
            wanted = min(wanted, _DOUBLE * len(workers))
        more, wanted = _more(workers, wanted, cores, own_host)
        of_work = f"Workers spend {waited:.0%} of their work waiting for their storage."
        return verdict("storage", f"{waits}{_steps(found)}.", of_work, more)
    if not computes:
        return verdict(
            "decoding",
            "The loop computes nothing between two batches, so it reads as fast as "
            f"{_decode(len(workers))}: {found.clips_per_s:.0f} clips/s.",
        )
    more, wanted = _more(workers, wanted, cores, own_host)
    return verdict("decoding", f"Decoding is too slow. {waits}{_steps(found)}.", more)


def workers_needed(found: Figures, workers: Iterable[WorkerRecord]) -> float | None:
    """Workers that meet the demand if the trainer may wait a twentieth of the time. None if that is
    not known: without a step between two waits, the demand is infinite."""
    rates = [rate for worker in workers if (rate := _rate(worker.work)) > 0]
    if not rates or not found.demand or math.isinf(found.demand):
        return None
    return (1 - _ENOUGH) * found.demand * len(rates) / sum(rates)


def _are(workers: int) -> str:
    return "1 worker is" if workers == 1 else f"{workers} workers are"


def _decode(workers: int) -> str:
    return "1 worker decodes" if workers == 1 else f"{workers} workers decode"


def _rate(work: Work) -> float:
    """Return clips per second of a worker, if it had a core for itself."""
    busy_s = work.busy_s
    if _wants_core(work):
        busy_s -= min(work.no_core_s, 0.9 * busy_s)
    return work.clips / busy_s if busy_s > 0 else 0.0


def _wants_core(work: Work) -> bool:
    return work.core_s + work.no_core_s > _AT_WORK * work.busy_s


def _waited_for_storage(work: Work) -> float:
    """Return the share of their work in which workers neither had nor needed a core; 0 if the
    kernel does not report it."""
    cores_s = work.core_s + work.no_core_s
    waited_s = work.busy_s - work.transform_s - cores_s if cores_s > 0 else 0.0
    return max(0.0, waited_s) / work.busy_s if work.busy_s > 0 else 0.0


def _core_share(work: Work) -> float:
    """Return how much of a core it gets while it needs one."""
    wants_s = work.core_s + work.no_core_s
    return work.core_s / wants_s if _wants_core(work) and wants_s > 0 else 1.0


def _is_short_of_cores(work: Work) -> bool:
    return _wants_core(work) and work.no_core_s > _NO_CORE * (work.core_s + work.no_core_s)


def _wire_without_core_s(work: Work) -> float:
    """Return how long a worker that is short of cores waited for the network: until a core sent its
    messages and took its leases, and so for a core."""
    return work.wire_s if _is_short_of_cores(work) else 0.0


def _full_link(workers: Sequence[WorkerRecord], own_host: str) -> str:
    """Return which network link is full: that of one host, if the others do not wait, or else the
    trainer's. "" if none is: workers of the trainer's host use none."""
    remote: dict[str, list[Work]] = defaultdict(list)
    for worker in workers:
        if not worker.is_child and worker.host != own_host:
            remote[worker.host].append(worker.work)
    works = {host: total(there) for host, there in remote.items()}
    waiting = [
        host
        for host, work in works.items()
        if work.wire_s - _wire_without_core_s(work) > _LINK * (work.busy_s + work.wire_s)
    ]
    if not waiting:
        return ""
    work = total(works[host] for host in waiting)
    number = sum(len(remote[host]) for host in waiting)
    share = work.wire_s / (work.busy_s + work.wire_s)
    rate = work.sent_bytes * number / work.passed_s
    whose = f"{count(number, 'worker')} of {len(waiting)} hosts"
    if len(waiting) == 1:
        whose = f"host {waiting[0]}"
    full = f"The network link from {whose} is saturated ({rate / 1e6:.1f} MB/s)."
    return f"{full} Workers wait for it {share:.0%} of their time with a clip."


def _more(
    workers: Sequence[WorkerRecord], wanted: int | None, cores: int, own_host: str
) -> tuple[str, int | None]:
    """Return a remedy, and the number of workers needed: the current number while they do not get a
    whole core each, because more would only share the same cores."""
    have = len(workers)
    hosts: dict[str, list[Work]] = defaultdict(list)
    here: list[Work] = []
    for worker in workers:
        is_here = worker.is_child or worker.host == own_host
        (here if is_here else hosts[worker.host]).append(worker.work)
    work = total(here)
    full = _is_short_of_cores(work) or (len(here) >= cores and _wants_core(work))
    crowded = [host for host, works in hosts.items() if _is_short_of_cores(total(works))]
    there = f"all cores of {'hosts' if len(crowded) > 1 else 'host'} {', '.join(crowded)}"
    is_known = wanted is not None and wanted <= _MOST * have
    missing = (wanted or 0) - have
    if not full and (here or len(crowded) < len(hosts)):
        about = f"about {count(max(1, missing), 'worker')}" if is_known else "workers"
        like = "like this one" if have == 1 else "like these"
        where = f", but elsewhere: {there} are busy" if crowded else ""
        return f"Add {about} {like}{where}.", wanted
    spare = max(0, len(here) - cores) if full else 0
    busy = "The only core is busy" if cores == 1 else f"All {cores} cores are busy"
    if crowded:
        busy = f"{busy}, and {there} too" if full else f"A{there[1:]} are busy"
    have_cores = sum(_core_share(worker.work) for worker in workers)
    more = max(1, math.ceil((wanted or 0) - have_cores))
    where = "another host" if is_known and more == 1 else "other hosts"
    about = f"about {count(more, 'worker')}" if is_known else "workers"
    limit = f": here, {_are(cores)} as quick as {len(here)}" if spare else ""
    told = f"{busy}{limit}. Add {about} on {where}."
    return told, None if wanted is None else max(wanted, have - spare)


def _steps(found: Figures) -> str:
    """Return the trainer's steps per second, with and without loading."""
    clips = found.clips / found.batches if found.batches else 0.0
    if not clips:
        return ""
    could, takes = found.demand / clips, found.clips_per_s / clips
    return f" ({takes:.3g} of {could:.3g} steps/s)" if math.isfinite(could) else ""
