"""Whatever a kill leaves behind, the next run makes the same results of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from videoload.errors import BadVideo, VideoloadError
from videoload.plan.identity import Identity
from videoload.predictions.results import Results
from videoload.predictions.stitching import FileScores
from videoload.predictions.table import HEAD, Table

IDENTITY, TABLE = Identity({"hop": "8"}), Table(1, ("x", "y"))
BAD = BadVideo("bad.avi", "is empty")


def scores(video: int) -> FileScores:
    times = np.arange(3.0) + video
    return FileScores(f"{video}.avi", np.eye(3, 2) * (video + 1), times, times + 0.5)


def run(folder: Path, videos: int, *, one: bool) -> Results:
    """Go on up to video ``videos``; video 1 is bad."""
    to_csv = folder / ("all.csv" if one else "each")
    results = Results(to_csv, folder / "npy", IDENTITY, TABLE)
    for video in range(results.next_video, videos):
        if video == 1:
            continue
        failed = [BAD] if results.next_video <= 1 < video else []
        results.save(
            scores(video), f"{video}.avi", next_video=video + 1, step=10 * video, failed=failed
        )
    results.close()
    return results


def found(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("one", [True, False])
def test_results_are_the_same_wherever_a_run_was_killed(one: bool, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    assert run(whole, 4, one=one).failed == [BAD]
    expected = found(whole)
    table = whole / "all.csv"
    for done in range(4):
        folder = tmp_path / str(done)
        run(folder, done, one=one)
        place = folder / ("all.csv.progress" if one else "npy/.progress")
        if one and table.exists():  # lines that no line of the journal knows
            cut = (folder / "all.csv").stat().st_size + 7
            (folder / "all.csv").write_bytes(table.read_bytes()[:cut])
        with place.open("ab") as journal:
            journal.write(b'{"video": 3, "st')
        assert run(folder, 4, one=one).failed == [BAD]
        assert found(folder) == expected


def test_a_file_has_its_scores_and_times_and_its_lines(tmp_path: Path) -> None:
    run(tmp_path, 1, one=False)
    np.testing.assert_array_equal(np.load(tmp_path / "npy/0.avi.npy"), np.eye(3, 2))
    times = np.load(tmp_path / "npy/0.avi.times.npy")
    np.testing.assert_array_equal(times, [[0, 0.5], [1, 1.5], [2, 2.5]])
    text = (tmp_path / "each/0.avi.csv").read_text()
    assert text == HEAD + "0.avi,0,0.5,x,1\n0.avi,1,1.5,y,1\n0.avi,2,2.5,x,0\n"


def test_what_is_not_ours_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text("mine")
    with pytest.raises(VideoloadError, match=r"all\.csv exists, and all\.csv\.progress beside it"):
        run(tmp_path, 1, one=True)
    assert (tmp_path / "all.csv").read_text() == "mine"
    (tmp_path / "all.csv").unlink()
    run(tmp_path, 3, one=True)
    (tmp_path / "all.csv").write_text("cut")
    with pytest.raises(VideoloadError, match="was changed since it was written: delete it"):
        run(tmp_path, 4, one=True)


def test_a_folder_that_cannot_be_written_to_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(VideoloadError, match=r"cannot write .*file"):
        run(tmp_path / "file", 1, one=True)
