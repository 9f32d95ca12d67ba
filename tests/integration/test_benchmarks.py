"""The loader comparison runs, gets the frames that it asks for, and writes what it says."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tests.programs import Programs
from tests.waiting import SECOND

LOADERS = ("limit", "serial", "videoload")


@pytest.mark.slow
@pytest.mark.timeout(60 * SECOND)
def test_a_small_comparison_has_a_rate_and_the_right_frames_of_each(
    programs: Programs, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    run = programs.python(
        "-m", "benchmarks", "--work", "tiny", "--rounds", "1", "--processes", "2",
        *(word for name in LOADERS for word in ("--loader", name)),
        "--folder", str(tmp_path / "videos"), "--out", str(tmp_path / "out"),
    )  # fmt: skip
    assert run.wait(50 * SECOND) == 0, run.err
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert not results["skipped"]
    assert not [row["error"] for row in results["rows"] if row["error"]]
    checked = {row["loader"]: row for row in results["rows"] if row["round"] == 0}
    timed = {row["loader"]: row for row in results["rows"] if row["round"] == 1}
    assert set(checked) == set(timed) == set(LOADERS)
    for name in LOADERS:
        assert checked[name]["frames"] == 64 * 8
        assert (checked[name]["wrong"], checked[name]["missing"]) == (0, 0)
        assert timed[name]["clips_s"] > 0
        assert timed[name]["cpu_s_a_clip"] > 0
        assert timed[name]["memory"] > 0
        assert name in run.out
    drawn = (tmp_path / "out" / "tiny.png").exists()
    assert drawn == (importlib.util.find_spec("matplotlib") is not None)
