"""What slows a training down: figures in, plain English and a number of workers out."""

import math
from typing import Any

import pytest

from videoload.engine.stats import RESPONDS, RootRecord, WorkerRecord
from videoload.engine.verdict import Verdict, judge, workers_needed
from videoload.engine.waiting import Figures
from videoload.engine.work import Work

PASSED_S, BATCH = 100.0, 8


def figures(
    wait: float, *, step_s: float = 0.05, first_s: float = 0.0, stalled_s: float = 0.0
) -> Figures:
    """A trainer whose steps take ``step_s``, and that waits for this share of the time."""
    batches = round(PASSED_S * (1 - wait) / step_s)
    clips = BATCH * batches
    demand = clips / (PASSED_S * (1 - wait))
    return Figures(batches, clips, clips / PASSED_S, wait, stalled_s, demand, first_s, PASSED_S)


def workers(
    count: int, host: str = "here", rate: float = 40.0, *, busy: float = 1.0, core: float = 0.0,
    no_core: float = 0.0, wire: float = 0.0, transform: float = 0.0,
) -> list[WorkerRecord]:  # fmt: skip
    """Workers that make ``rate`` clips per second while they are busy. Shares are of their time."""
    clips, busy_s = int(rate * busy * PASSED_S), busy * PASSED_S
    work = Work(
        clips=clips, busy_s=busy_s, wire_s=wire * PASSED_S,
        free_s=(1 - busy - wire) * PASSED_S, core_s=core * busy_s, no_core_s=no_core * busy_s,
        sent_bytes=clips * 600_000, transform_s=transform * busy_s,
    )  # fmt: skip
    return [
        WorkerRecord(f"{host}:{n}", host, n, host == "here", "idle", "", work) for n in range(count)
    ]


def refuses(error: str) -> RootRecord:
    return RootRecord("s3://b", error)


def said(found: Figures, those: list[WorkerRecord], **how: Any) -> Verdict:
    return judge(found, those, **{"cores": 2, **how})


CASES: dict[str, tuple[Figures, list[WorkerRecord], dict[str, Any], str, list[str]]] = {
    # figures, workers, what else is known, the bottleneck, what the sentence says
    "too few": (figures(0.75), workers(1), {}, "decoding", ["75%", "5 of 20", " 3 "]),
    "nearly enough": (figures(0.41), workers(2), {}, "decoding", [" 2 "]),
    "more than enough": (figures(0.02), workers(6, busy=0.3), {}, "trainer", [" 4 ", "6"]),
    "exactly enough": (figures(0.03), workers(4), {}, "trainer", ["! 4 "]),
    "one is enough": (
        figures(0.02), workers(2, rate=400.0), {}, "trainer", [" 1 ", "2", "!alone"]),
    "one of a pool that others may use": (
        figures(0.02), workers(2, "there", 400.0), {}, "trainer", [" 1 ", "this training alone"]),
    "no batch is ready": (
        figures(0.02), workers(2, "there", 400.0), {"is_ahead": False}, "trainer", ["!enough"]),
    # all cores are busy
    "more workers than cores": (
        figures(0.6), workers(4, rate=20.0, core=0.5, no_core=0.5), {}, "decoding",
        ["core", " 2 ", " 2 ", " 4"]),
    "as many as cores": (figures(0.5), workers(2, core=0.95), {}, "decoding", ["core", " 2 "]),
    "one of two cores": (figures(0.5), workers(1, core=0.95), {}, "decoding", [" 3 "]),
    "the only core": (figures(0.5), workers(1, core=0.95), {"cores": 1}, "decoding", ["core"]),
    "others have the other core": (
        figures(0.5), workers(1, core=0.6, no_core=0.4), {}, "decoding", ["core", " 2 "]),
    "others have a little of it": (
        figures(0.5), workers(1, core=0.8, no_core=0.15), {}, "decoding", []),
    "another host has room": (
        figures(0.5), [*workers(2, core=0.95), *workers(2, "there", core=0.95)], {}, "decoding",
        ["core", " 1 "]),
    "no host has": (
        figures(0.5),
        [*workers(2, core=0.95), *workers(2, "there", core=0.6, no_core=0.4)], {}, "decoding",
        ["core", " 2 ", "there"]),
    "only other hosts": (
        figures(0.5), workers(2, "there", core=0.6, no_core=0.4), {}, "decoding",
        ["core", "there"]),
    "hosts with a part of a core": (
        figures(0.9), workers(6, "there", 5.0, core=0.15, no_core=0.85), {}, "decoding",
        ["core", " 5 "]),
    "both of them": (
        figures(0.5),
        [*workers(2, "there", core=0.6, no_core=0.4), *workers(1, "far", core=0.6, no_core=0.4)],
        {}, "decoding", ["cores", "there", "far"]),
    "one of them has room": (
        figures(0.5),
        [*workers(2, "far", core=0.9), *workers(2, "there", core=0.6, no_core=0.4)], {},
        "decoding", [" 1 ", "there"]),
    # storage, network links, hosts
    "slow storage": (
        figures(0.75), workers(1, core=0.25, no_core=0.05), {}, "storage",
        ["70%", " 1 ", "! 3 "]),
    "storage that refuses": (
        figures(0.75), workers(1), {"storage": refuses("s3://b: 503")}, "storage", ["503", "! 2 "]),
    "storage that was not mounted": (
        figures(0.75), workers(1), {"storage": RootRecord("/data", "", 38.0)}, "storage",
        ["75%", "/data", "38 s", "! Add "]),
    "... while it is waited for": (
        figures(0.75, stalled_s=12), workers(1), {"storage": RootRecord("/data", "", 38.0)},
        "storage", ["/data"]),
    "... for less than half of the time": (
        figures(0.75), workers(1), {"storage": RootRecord("/data", "", 37.0)}, "decoding",
        ["37 s", "Add", "!/data"]),
    "no worker was connected": (
        figures(0.75), workers(1), {"alone_s": 38.0}, "workers", ["75%", "38 s", "!Add "]),
    "... for less than half of that time": (
        figures(0.75), workers(1), {"alone_s": 37.0}, "decoding", ["37 s", "Add"]),
    "... and is not yet": (
        figures(0.75), [], {"alone_s": 38.0}, "workers", ["75%", "!38 s"]),
    "slow storage, and hosts that differ": (
        figures(0.75), [*workers(2, core=0.1), *workers(2, "there", 13.3, core=0.2)], {},
        "storage", ["8"]),
    "the slow storage of one host": (
        figures(0.75), [*workers(2, core=0.9), *workers(2, "there", 13.3, core=0.2)], {},
        "decoding", []),
    "half of it is a core's": (figures(0.75), workers(1, core=0.6), {}, "decoding", []),
    "the kernel does not report it": (figures(0.75), workers(1), {}, "decoding", []),
    "a full link": (
        figures(0.4), [*workers(1), *workers(3, "far", 50.0, busy=0.2, wire=0.6)], {}, "network",
        ["far", "18.0 MB/s", "75%"]),
    "a link over which little is asked for": (
        figures(0.4), [*workers(2), *workers(2, "far", 40.0, busy=0.02, wire=0.2)], {}, "network",
        ["far"]),
    "a link that many fill": (
        figures(0.4), [*workers(1), *(w for n in range(20)
                                      for w in workers(1, f"far{n}", 10.0, busy=0.2, wire=0.6))],
        {}, "network", [" 20 "]),
    "many, and no link": (
        figures(0.4), [*workers(1), *workers(20, "far", 10.0, busy=0.2)], {},
        "workers", ["24%"]),
    "workers of this host have no link": (
        figures(0.4), workers(2, "own", busy=0.3, wire=0.3), {"own_host": "own"}, "workers",
        ["30%", "!link"]),
    "workers that wait for a core, not for a link": (
        figures(0.4), [w for n in range(4) for w in workers(
            1, f"h{n}", 4.0, busy=0.3, core=0.4, no_core=0.6, wire=0.5)], {}, "decoding",
        ["cores", "h0", "h3", "!link", "!slots="]),
    "a slow host": (
        figures(0.4), [*workers(2), *workers(2, "there", 13.3)], {}, "decoding", []),
    # idle workers, first batches, the user's function
    "workers idle": (figures(0.4), workers(4, busy=0.2), {}, "workers", ["20%", "slots="]),
    "the first batches": (figures(0.3, first_s=28.0), workers(4), {}, "decoding",
                          ["28.0 s", "!keeps up", "validation"]),
    "not much of them": (figures(0.102, first_s=0.3), workers(4), {}, "decoding", []),
    "a few batches": (
        figures(0.4), workers(2), {"is_early": True}, "", ["40%", "!Add", "!slots="]),
    "a few batches, and nobody waits": (
        figures(0.02), workers(6, busy=0.3), {"is_early": True}, "trainer", ["!enough"]),
    "a few batches, and no worker": (
        figures(0.6), [], {"is_early": True}, "workers", ["60%"]),
    "the user's function": (
        figures(0.95), workers(1, rate=1.0, transform=0.99), {"function": "m:slow"}, "function",
        ["m:slow", "99%", "990 ms", "1 of 20"]),
    "of a loop that computes nothing": (
        figures(0.95, step_s=0.001), workers(1, rate=1.0, transform=0.99),
        {"function": "m:slow"}, "function", ["m:slow"]),
    "it takes less than half": (
        figures(0.95), workers(1, rate=1.0, transform=0.4), {"function": "m:slow"}, "decoding",
        ["!m:slow"]),
    # workers that are lost, and a storage that speaks
    "lost, and all else as well": (
        figures(0.4), [*workers(1), *workers(3, "far", 50.0, busy=0.2, wire=0.6)],
        {"lost": "node-b: 14 workers died in 120 s", "storage": refuses("s3://b: 403")}, "workers",
        ["node-b", "14", "!403"]),
    "lost, and nobody waits": (
        figures(0.02), workers(6), {"lost": "node-b: 14 workers died"}, "trainer", ["!node-b"]),
    "lost in a stall": (
        figures(0.01, stalled_s=12), [], {"lost": "node-b: 14 workers died"}, "workers",
        ["12 s", "node-b"]),
    "the storage before a link": (
        figures(0.4), [*workers(1), *workers(3, "far", 50.0, busy=0.2, wire=0.6)],
        {"storage": refuses("s3://b: 403")}, "storage", ["403"]),
    "a function of two hosts": (
        figures(0.4), [*workers(2, transform=0.6), *workers(2, "there", 13.3, transform=0.9)],
        {"function": "m:slow"}, "function", ["m:slow"]),
    # stalls
    "nobody": (figures(0.6), [], {}, "workers", ["60%"]),
    "a stall": (figures(0.01, stalled_s=12), workers(2), {}, "workers", ["12 s", " 2 "]),
    "a stall of one": (figures(0.01, stalled_s=5), workers(1), {}, "workers", [" 1 "]),
    "a short one": (figures(0.01, stalled_s=4.9), workers(1), {}, "trainer", []),
    "a stall without workers": (Figures(0, 0, 0.0, 1.0, 12.0), [], {}, "workers", []),
    "a stall of the storage": (
        figures(0.01, stalled_s=12), workers(2), {"storage": refuses("s3://b: 403")}, "storage",
        ["12 s", "s3://b: 403"]),
    "no batch yet": (Figures(0, 0, 0.0, 1.0, 1.0), workers(2), {}, "", []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_slow_and_what_is_said_of_it(case: str) -> None:
    found, those, how, bottleneck, words = CASES[case]
    told = said(found, those, **how)
    assert told.bottleneck == bottleneck, told.sentence
    assert told.bottleneck == "trainer" or "keeps up" not in told.sentence
    refused = how.get("storage", RESPONDS).error
    assert not refused or told.wanted is None, "more would ask it more often"
    assert not how.get("is_early") or told.wanted is None, "too little is known"
    for word in words:
        assert (word.lstrip("!") in told.sentence) is not word.startswith("!"), told.sentence
    passed_s = sum(worker.work.passed_s for worker in those)
    busy_s = sum(worker.work.busy_s for worker in those)
    assert told.utilisation == pytest.approx(busy_s / passed_s if those else 0.0)


def test_where_cores_are_shared_no_fewer_and_no_more_workers_are_wanted() -> None:
    told = said(figures(0.9), workers(6, "there", 5.0, core=0.15, no_core=0.85))
    assert (told.bottleneck, told.wanted) == ("decoding", 6)


@pytest.mark.parametrize("step_s", [0.02, 0.05, 0.1, 0.33])
@pytest.mark.parametrize("batch_s", [0.03, 0.2, 1.0])
@pytest.mark.parametrize("have", [1, 3])
def test_the_number_of_workers_follows_from_one_look_whoever_waits(
    step_s: float, batch_s: float, have: int
) -> None:
    right = batch_s / step_s
    wait = max(0.0, 1 - have / right)
    busy = min(1.0, right / have)
    wanted = said(
        figures(wait, step_s=step_s), workers(have, rate=BATCH / batch_s, busy=busy)
    ).wanted
    assert wanted is not None
    assert 1 - wanted / right < 0.051, "then a twentieth is waited at most"
    assert wanted == 1 or 1 - (wanted - 2) / right > 0.05, "and with two workers fewer, more"


@pytest.mark.parametrize("step_s", [0.0, 0.0005])
def test_a_loop_that_computes_nothing_is_told_its_rate_and_no_need(step_s: float) -> None:
    """It would take any number of clips, so it was told to add 77 workers."""
    demand = 8 / step_s if step_s else math.inf
    found = Figures(1000, 8000, 80.0, 1 - 10 * step_s, 0.0, demand, 1.0, 100.0)
    told = said(found, workers(2))
    assert "80 clips/s" in told.sentence
    assert "Add" not in told.sentence
    assert (told.bottleneck, told.wanted) == ("decoding", None)


def test_the_number_of_workers_needed_is_unknown_without_figures() -> None:
    assert workers_needed(figures(0.5), []) is None
    assert workers_needed(figures(0.5), workers(1, busy=0.0)) is None
    assert workers_needed(Figures(0, 0, 0.0, 0.0, 0.0), workers(1)) is None
    assert workers_needed(Figures(1, 8, 8.0, 1.0, 0.0, demand=math.inf), workers(1)) is None
    both = [*workers(1), *workers(1, busy=0.0)]
    assert workers_needed(figures(0.5), both) == pytest.approx(3.8)
    crowded = workers(1, core=0.5, no_core=0.5)
    assert workers_needed(figures(0.5), crowded) == pytest.approx(1.9), "with a core for itself"
