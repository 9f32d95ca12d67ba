"""Faults of every kind in one stream: a short run of `tests.faults.chaos`, with all its checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.chaos import run
from tests.faults.chaos_script import (
    EMPTY_ROOT,
    ENDLESS,
    EVERYBODY,
    FROZEN,
    FURTHER,
    HALF_ROOT,
    LIAR,
    LOCAL,
    POISON,
    PROXIED,
    ROLES,
    SEALED,
    STRANGER,
    WRONG_ROOT,
    plan_faults,
)  # fmt: skip
from tests.faults.proxy import Kind
from tests.support.forked import Forking
from tests.support.programs import Programs
from tests.support.thorough import either, rest_nightly
from tests.support.videos import make_avi, make_white_avi
from tests.support.waiting import SECOND
from videoload import Catalog, Client, ClipSpec

# With these seeds each kind of fault comes at least once.
BATCHES, FAULTS, SEED = either(300, 1200), either(20, 46), 9
OTHERS = {WRONG_ROOT, EMPTY_ROOT, HALF_ROOT, LIAR, POISON, ENDLESS, FROZEN}


def test_the_faults_follow_from_the_seed_alone() -> None:
    script = plan_faults(20_000, 300, 1)
    assert script == plan_faults(20_000, 300, 1) != plan_faults(20_000, 300, 2)
    assert len(script) == 300
    assert [planned.batch for planned in script] == sorted(planned.batch for planned in script)
    assert 0 < script[0].batch < script[-1].batch < 20_000
    whom = Counter(planned.whom for planned in script)
    assert {LOCAL, EVERYBODY, FURTHER, STRANGER, *ROLES} == set(whom)
    assert {planned.what for planned in script} > OTHERS
    without = plan_faults(20_000, 300, 1, lambda what: what not in OTHERS)
    assert len(without) == 300
    assert not {planned.what for planned in without} & OTHERS
    for role in (PROXIED, SEALED):
        there = {planned.what for planned in script if planned.whom == role}
        assert set(Kind) < there


@pytest.mark.slow
@pytest.mark.timeout(180 * SECOND)
@pytest.mark.parametrize("frame_store_gb", rest_nightly([1.0, None]))
def test_no_fault_changes_a_byte_or_leaves_anything_behind(
    tmp_path: Path,
    forking: Forking,
    tell: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    frame_store_gb: float | None,
) -> None:
    # Most of the time goes into deadlines, so they are shorter than usual.
    monkeypatch.setattr("videoload.engine.engine._SILENCE_S", 0.8 * SECOND)
    report = run(
        tmp_path, forking, batches=BATCHES, faults=FAULTS, seed=SEED,
        epoch_batches=either(100, 200),
        chosen=lambda what: what not in OTHERS, frame_store_gb=frame_store_gb,
    )  # fmt: skip
    tell(
        f"{len(report.injected)} faults, {report.batches} batches, {report.seconds:.0f} s, "
        f"longest pause {report.longest_s:.2f} s"
    )
    assert report.wrong == []
    assert report.differing == []
    assert report.lost == report.doubled == 0
    assert len(report.injected) > FAULTS / 2, "most targets came back in time"
    assert all(report.survived())
    assert any(tmp_path.glob("frames/*/*/*")) == (frame_store_gb is not None)


@pytest.mark.slow
@pytest.mark.timeout(180 * SECOND)
def test_workers_with_other_files_liars_and_poison_change_no_byte(
    tmp_path: Path, forking: Forking
) -> None:
    chosen = {WRONG_ROOT, EMPTY_ROOT, HALF_ROOT, LIAR, POISON}
    report = run(
        tmp_path, forking, batches=either(240, 600), faults=either(5, 10), seed=4,
        epoch_batches=either(80, 200), chosen=chosen.__contains__,
        frame_store_gb=1e-3,
    )  # fmt: skip
    assert report.wrong == []
    assert {what for _, what, _ in report.injected} == chosen
    assert all(report.survived())


@pytest.mark.slow
def test_a_video_that_kills_dialled_in_workers_is_still_named(
    tmp_path: Path, programs: Programs
) -> None:
    # A worker that was cut off and comes back withdraws the suspicion; a dead worker does not.
    for i in range(5):
        make_avi(tmp_path / f"x/{i}.avi", frames=12, seed=i)
    make_white_avi(tmp_path / "x/white.avi")
    catalog = Catalog.from_folder(tmp_path)
    spec = ClipSpec(
        frames=4, resize=36, size=(32, 32), transform="tests.support.transforms:crash_on_white"
    )
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        programs.worker(
            client.endpoints[0], tmp_path, "--workers", "2", "--allow", "tests.support.transforms"
        )
        stream = client.stream(catalog, spec, 3, drop_remainder=False)
        seen = [int(v) for _, _, info in stream.batches(epochs=2, info=True) for v in info.video]
    assert [video.path for video in stream.quarantine] == ["x/white.avi"]
    assert "workers died or hung while decoding it" in stream.quarantine[0].reason
    assert len(seen) == 2 * len(catalog)
