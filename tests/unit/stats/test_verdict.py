"""What slows a training down: figures in, plain English and a number of workers out."""

from __future__ import annotations

import math

import pytest

from videoload.stats.stats import WorkerRecord
from videoload.stats.verdict import Verdict, judge, workers_needed
from videoload.stats.waiting import Figures
from videoload.stats.work import SlowFiles, Work

PASSED_S = 100.0
BATCH = 8


def figures(
    wait: float, *, step_s: float = 0.05, first_s: float = 0.0, stalled_s: float = 0.0
) -> Figures:
    """A trainer whose steps take ``step_s``, and that waits for this share of the time."""
    batches = round(PASSED_S * (1 - wait) / step_s)
    clips = BATCH * batches
    demand = clips / (PASSED_S * (1 - wait)) if wait < 1 else math.inf
    return Figures(
        batches, clips, clips / PASSED_S, wait, stalled_s, demand, first_s, PASSED_S
    )  # fmt: skip


def worker(
    number: int = 1, *, host: str = "here", rate: float = 40.0, busy: float = 1.0,
    core: float = 0.0, no_core: float = 0.0, wire: float = 0.0,
) -> WorkerRecord:  # fmt: skip
    """A worker that makes ``rate`` clips per second while it is busy. Shares are of its time."""
    work = Work(
        clips=int(rate * busy * PASSED_S), leases=50, busy_s=busy * PASSED_S,
        wire_s=wire * PASSED_S, free_s=(1 - busy - wire) * PASSED_S,
        core_s=core * busy * PASSED_S, no_core_s=no_core * busy * PASSED_S,
        sent_bytes=int(rate * busy * PASSED_S) * 600_000,
    )  # fmt: skip
    return WorkerRecord(f"{host}:{number}", host, number, host == "here", "idle", "", work)


def workers(count: int, **how: object) -> list[WorkerRecord]:
    return [worker(number, **how) for number in range(count)]  # type: ignore[arg-type]


def said(
    found: Figures, those: list[WorkerRecord], *, cores: int = 2, files: SlowFiles | None = None,
    ceiling: float | None = None, line_is_full: bool = False, storage: str = "",
    function: str = "",
) -> Verdict:  # fmt: skip
    return judge(
        found, those, cores=cores, files=files or SlowFiles(), ceiling=ceiling,
        line_is_full=line_is_full, storage=storage, function=function,
    )  # fmt: skip


def test_busy_workers_that_are_too_few() -> None:
    """Steps of 50 ms, and a worker needs 200 ms for a batch of 8."""
    found = said(figures(0.75), workers(1))
    assert found == Verdict(
        "decoding",
        "Decoding is too slow. The trainer waits 75% of the time (5 of 20 steps/s). "
        "Add about 3 workers like this one.",
        4,
        1.0,
    )
    assert said(figures(0.41), workers(2)).sentence.endswith("Add about 2 workers like these.")


@pytest.mark.parametrize("step_s", [0.02, 0.05, 0.1, 0.33])
@pytest.mark.parametrize("batch_s", [0.03, 0.2, 1.0])
@pytest.mark.parametrize("have", [1, 3])
def test_the_number_of_workers_follows_from_one_look_whoever_waits(
    step_s: float, batch_s: float, have: int
) -> None:
    right = batch_s / step_s
    wait = max(0.0, 1 - have / right)
    busy = min(1.0, right / have)
    found = said(figures(wait, step_s=step_s), workers(have, rate=BATCH / batch_s, busy=busy))
    assert found.wanted is not None
    assert 1 - found.wanted / right < 0.051, "then a twentieth is waited at most"
    assert found.wanted == 1 or 1 - (found.wanted - 2) / right > 0.05, (
        "and with two workers fewer, more"
    )


def test_a_slow_trainer_hears_how_many_workers_are_enough() -> None:
    found = said(figures(0.02), workers(6, busy=0.3))
    assert found.bottleneck == "trainer"
    assert found.sentence == (
        "Decoding keeps up. The trainer waits 2% of the time. 4 workers are enough; 6 are running."
    )
    assert said(figures(0.03), workers(4)).sentence == (
        "Decoding keeps up. The trainer waits 3% of the time."
    )


@pytest.mark.parametrize("wait", [0.0, 0.04, 0.07, 0.1])
@pytest.mark.parametrize("rate", [1.0, 10.0, 40.0, 400.0])
def test_below_a_tenth_of_waiting_nothing_is_recommended(wait: float, rate: float) -> None:
    for those in (workers(1, rate=rate), workers(4, rate=rate), []):
        found = said(figures(wait), those)
        assert found.bottleneck == "trainer"
        assert "Add" not in found.sentence


def test_four_workers_on_two_cores_need_other_hosts_and_not_more_workers_here() -> None:
    found = said(figures(0.6), workers(4, rate=20.0, core=0.5, no_core=0.5))
    assert found.bottleneck == "cores"
    assert found.sentence == (
        "Decoding is too slow. The trainer waits 60% of the time (8 of 20 steps/s). All 2 cores "
        "are busy. Add about 2 workers on other hosts. You can stop 2 of the 4 here."
    )


def test_as_many_decoding_workers_as_cores_keep_all_cores_busy() -> None:
    assert said(figures(0.5), workers(2, core=0.95)).bottleneck == "cores"
    assert said(figures(0.5), workers(2, core=0.3)).bottleneck == "storage"
    assert said(figures(0.5), workers(1, core=0.95)).bottleneck == "decoding"
    one = said(figures(0.5), workers(1, core=0.6, no_core=0.4))
    assert one.bottleneck == "cores", "the trainer, or another program, has the other core"


def test_workers_on_other_hosts_help_if_all_cores_here_are_busy() -> None:
    both = [*workers(2, core=0.95), *workers(2, host="there", core=0.95)]
    found = said(figures(0.5), both)
    assert "Add about 1 worker on another host." in found.sentence


def test_hosts_whose_cores_are_all_busy_are_named() -> None:
    there = workers(2, host="there", core=0.6, no_core=0.4)
    found = said(figures(0.5), there)
    assert found.bottleneck == "cores"
    assert " All cores of host there are busy. Add about " in found.sentence
    found = said(figures(0.5), [*workers(2, core=0.95), *there])
    assert found.bottleneck == "cores"
    assert " All 2 cores are busy, and all cores of host there too. Add about " in found.sentence
    found = said(figures(0.5), [*workers(2, host="far", core=0.9), *there])
    assert found.bottleneck == "decoding"
    assert found.sentence.endswith(
        " Add about 1 worker like these, but elsewhere: all cores of host there are busy."
    )


def test_slow_storage_is_named() -> None:
    found = said(figures(0.75), workers(1, core=0.25, no_core=0.05))
    assert found == Verdict(
        "storage",
        "Decoding is too slow. The trainer waits 75% of the time (5 of 20 steps/s). Workers spend "
        "70% of their work waiting for their storage. Add about 3 workers like this one.",
        4,
        1.0,
    )
    assert said(figures(0.75), workers(1, core=0.6)).bottleneck == "decoding"
    assert said(figures(0.75), workers(1)).bottleneck == "decoding", "the kernel does not report it"


def test_a_full_line_is_named() -> None:
    both = [worker(1), *workers(3, host="far", busy=0.2, wire=0.6, rate=50.0)]
    found = said(figures(0.4), both)
    assert found.bottleneck == "line"
    assert found.sentence.endswith(
        " The line from host far is full (22.5 MB/s). Its workers wait for it 60% of the time."
    )


def test_a_line_that_many_workers_fill_together_is_named() -> None:
    """They get no more leases than the line carries, so they do not wait for it themselves."""
    many = [worker(1), *workers(20, host="far", busy=0.2, rate=10.0)]
    found = said(figures(0.4), many, line_is_full=True)
    assert found.bottleneck == "line"
    assert found.sentence.endswith(" The line from 20 workers is full (24.0 MB/s).")
    assert said(figures(0.4), many).bottleneck != "line"
    assert said(figures(0.4), workers(2), line_is_full=True).bottleneck != "line", (
        "no worker dialled in"
    )


def test_a_host_that_is_slower_than_the_others_is_named_and_so_is_a_worker() -> None:
    both = [*workers(2), *workers(2, host="there", rate=13.3)]
    found = said(figures(0.4), both)
    assert found.bottleneck == "host"
    assert found.sentence.endswith(" Host there is 3 times as slow as the others.")
    mixed = [worker(1), worker(2, rate=13.3)]
    assert said(figures(0.4), mixed).sentence.endswith(
        " Worker here:2 is 3 times as slow as the others."
    )
    assert said(figures(0.4), [worker(1), worker(2, rate=25.0)]).bottleneck == "decoding"


def test_a_worker_with_few_leases_is_not_called_slow() -> None:
    known = worker(2, rate=1.0)
    new = known._replace(work=known.work._replace(leases=2))
    assert said(figures(0.4), [worker(1), new]).bottleneck == "decoding"


@pytest.mark.parametrize(("slow", "verb"), [(4, "4 files take"), (1, "1 file takes")])
def test_slow_files_are_counted(slow: int, verb: str) -> None:
    found = said(figures(0.4), workers(4), files=SlowFiles(slow, 400, 0.3))
    assert (found.bottleneck, f"{verb} 30% of the decoding time." in found.sentence) == (
        "files",
        True,
    )


def test_many_slow_files_or_a_small_share_are_not_reported() -> None:
    for files in (SlowFiles(100, 400, 0.6), SlowFiles(4, 400, 0.1)):
        assert said(figures(0.4), workers(4), files=files).bottleneck == "decoding"


def test_more_workers_do_not_help_if_workers_idle() -> None:
    found = said(figures(0.4), workers(4, busy=0.2))
    assert found.bottleneck == "batches"
    assert "Workers are busy only 20% of the time" in found.sentence


def test_waiting_for_the_first_batches_is_reported_as_such() -> None:
    found = said(figures(0.3, first_s=28.0), workers(4))
    assert found.bottleneck == "batches"
    assert found.sentence == (
        "Decoding keeps up. The trainer waits 30% of the time, most of it for the first "
        "batches (28.0 s)."
    )
    assert said(figures(0.102, first_s=0.3), workers(4)).bottleneck == "decoding"


def test_a_stall_is_reported_even_if_the_figures_are_good() -> None:
    assert said(figures(0.6), []).sentence == (
        "The trainer waits 60% of the time. No worker is connected."
    )
    stall = "The trainer has been waiting for 12 s. "
    assert said(figures(0.01, stalled_s=12), []).sentence == stall + "No worker is connected."
    assert said(figures(0.01, stalled_s=12), workers(2)).sentence == (
        stall + "2 workers are connected, but none delivers."
    )
    first = Figures(0, 0, 0.0, 1.0, 12.0)
    assert said(first, []).sentence == stall + "No worker is connected."


def test_a_storage_that_refuses_everybody_is_named() -> None:
    refused = said(figures(0.01, stalled_s=12), workers(2), storage="s3://b: 403 Forbidden")
    assert refused.bottleneck == "storage"
    assert refused.sentence == (
        "The trainer has been waiting for 12 s. Workers cannot read the videos: "
        "s3://b: 403 Forbidden."
    )


def test_a_storage_that_is_slow_because_it_refuses_some_requests_is_quoted() -> None:
    slow = said(figures(0.75), workers(1, core=0.25), storage="s3://b: 503 Slow Down")
    assert slow.bottleneck == "storage"
    assert "waiting for their storage (s3://b: 503 Slow Down). Add about" in slow.sentence


def test_the_users_own_function_is_named_if_it_takes_most_of_the_time() -> None:
    (one,) = workers(1, rate=1.0)
    for share, named in ((0.99, True), (0.4, False)):
        slow = one._replace(work=one.work._replace(transform_s=share * one.work.busy_s))
        for found in (figures(0.95), figures(0.95, step_s=0.001)):  # the second computes nothing
            told = said(found, [slow], function="hang:slow")
            assert (told.bottleneck == "function") == named
        told = said(figures(0.95), [slow], function="hang:slow")
        assert told.wanted == 152, "the number is as before"
    assert said(figures(0.95), [one._replace(work=one.work._replace(transform_s=99.0))],
                function="hang:slow").sentence == (
        "transform hang:slow is too slow. The trainer waits 95% of the time (1 of 20 steps/s). It "
        "takes 99% of the workers' time, 990 ms a clip."
    )  # fmt: skip


def test_few_workers_without_a_core_say_that_all_cores_are_busy() -> None:
    told = said(figures(0.5), workers(1, core=0.6, no_core=0.4))
    assert told.bottleneck == "cores"
    assert "All 2 cores are busy" in told.sentence


def test_a_stream_without_a_batch_has_no_verdict() -> None:
    for stalled_s in (0.0, 1.0):
        found = Figures(0, 0, 0.0, 1.0, stalled_s)
        assert said(found, workers(2)) == Verdict("unknown", "Nothing was read yet.", None, 1.0)


@pytest.mark.parametrize("step_s", [0.0, 0.0005])
def test_a_loop_that_computes_nothing_is_told_its_rate_and_no_need(step_s: float) -> None:
    """It would take any number of clips, so it was told to add 77 workers."""
    demand = 8 / step_s if step_s else math.inf
    found = Figures(1000, 8000, 80.0, 1 - 10 * step_s, 0.0, demand, 1.0, 100.0)
    told = said(found, workers(2))
    assert told.sentence == (
        "The loop computes nothing between two batches, so it reads as fast as 2 workers decode: "
        "80 clips/s."
    )
    assert (told.bottleneck, told.wanted) == ("decoding", None)
    assert said(found, workers(2), ceiling=25.0).sentence.startswith("Decoding is too slow.")


def test_a_measured_ceiling_replaces_the_one_from_the_steps() -> None:
    assert "(5 of 25 steps/s)" in said(figures(0.75), workers(1), ceiling=25.0).sentence


def test_the_number_of_workers_needed_is_unknown_without_figures() -> None:
    assert workers_needed(figures(0.5), []) is None
    assert workers_needed(figures(0.5), [worker(busy=0.0)]) is None
    assert workers_needed(Figures(0, 0, 0.0, 0.0, 0.0), workers(1)) is None
    assert workers_needed(Figures(1, 8, 8.0, 1.0, 0.0, demand=math.inf), workers(1)) is None
    assert workers_needed(figures(0.5), [worker(), worker(busy=0.0)]) == pytest.approx(3.8)
