"""A long job that is killed again and again does each row once, and ends with the same files."""

import json
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.support.programs import Programs
from tests.support.thorough import either
from tests.support.videos import make_avi
from tests.support.waiting import SECOND, wait_until

KILLS = either(3, 20)
ROWS = 8 * KILLS

JOBS = {
    "scan": (["scan", "videos", "--output", "out/all.csv"], "all.csv.progress"),
    "extract": (
        ["extract", "videos", "out", "--csv", "--model", "mine:mean", "--name", "mean",
         "--clip", "frames=4, hop=4, size=(72, 96)"],
        ".npy.progress",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    first = make_avi(folder / "videos/x/000.avi", frames=200)
    for number in range(1, ROWS):
        shutil.copy(first, first.with_name(f"{number:03d}.avi"))
    (folder / "mine.py").write_text("def mean(clips):\n    return clips.mean(axis=(1, 2, 3))")
    return folder


def found(out: Path) -> dict[str, bytes]:
    files = (path for path in sorted(out.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in files
        if not path.name.endswith(".progress")
    }


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_a_job_that_is_killed_does_each_row_once(
    job: str, folder: Path, programs: Programs
) -> None:
    arguments, name = JOBS[job]
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    whole = programs.videoload(*arguments, "--workers", "1", cwd=folder)
    assert whole.wait(120 * SECOND) == 0, whole.err
    expected = found(out)
    assert len(expected) >= (1 if job == "scan" else ROWS)
    shutil.rmtree(out)
    out.mkdir()
    journal = out / name

    def rows() -> list[str]:
        lines = journal.read_bytes().split(b"\n")[:-1] if journal.exists() else []
        return [entry["row"] for line in lines if "row" in (entry := json.loads(line))]

    for _ in range(KILLS):
        before = len(rows())
        victim = programs.videoload(*arguments, "--workers", "1", cwd=folder)
        wait_until(lambda before=before: len(rows()) > before, 60 * SECOND)  # type: ignore[misc]
        victim.signal(signal.SIGKILL)
        assert victim.wait(60 * SECOND) == -signal.SIGKILL, "it was over before it was killed"
    last = programs.videoload(*arguments, "--workers", "1", cwd=folder)
    assert last.wait(120 * SECOND) == 0, last.err
    counts = Counter(rows())
    assert len(counts) == ROWS
    assert set(counts.values()) == {1}
    assert found(out) == expected
