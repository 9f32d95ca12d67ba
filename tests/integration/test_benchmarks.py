"""The benchmarks run, get the frames that they ask for, and say what was wrong."""

import importlib.util
import json
from pathlib import Path

import av
import numpy as np
import pytest

from benchmarks.check import wrong_frames
from benchmarks.exam import is_it, thumb
from benchmarks.exam_readers import pictures
from benchmarks.faults.judging import Run, Sample, judge
from benchmarks.files import choose
from benchmarks.loaders.bare import Plain
from benchmarks.videos import Recipe, make_video
from benchmarks.work import Clip
from tests.support.codecs import KINDS, make
from tests.support.programs import Programs
from tests.support.waiting import SECOND

SMALL = Recipe("mpeg4", 160, 120, 40, 12, b_frames=2)
CLIP = Clip(4, 2, resize=64, crop=56)


@pytest.mark.slow
def test_each_loader_has_right_frames_and_a_rate_or_a_reason(
    programs: Programs, tmp_path: Path
) -> None:
    first = tmp_path / "videos" / "000.avi"
    first.parent.mkdir()
    make_video(first, SMALL._replace(b_frames=0), seed=0)
    for number in range(1, 200):
        first.with_name(f"{number:03d}.avi").hardlink_to(first)
    loaders = ("limit", "videoload without TensorFlow", "serial", "SPDL")
    run = programs.python(
        "-m", "benchmarks", "--rounds", "1", "--processes", "2", "--seconds", "4",
        "--videos", str(first.parent),
        *(word for name in loaders for word in ("--loader", name)),
        "--folder", str(tmp_path / "made"), "--out", str(tmp_path / "out"),
    )  # fmt: skip
    assert run.wait(200 * SECOND) == 0, run.err
    rows = json.loads((tmp_path / "out" / "results.json").read_text())["rows"]
    found = {row["loader"]: row for row in rows}
    assert set(found) == set(loaders)
    for name, row in found.items():
        assert name in run.out
        assert not row["error"]
        if name == "SPDL" and row["not_run"]:  # it is not installed
            assert row["not_run"] in run.out
            continue
        assert min(row["clips_s"], row["cpu_s_a_clip"], row["memory"], row["frames"]) > 0
        assert row["wrong"] == 0


@pytest.mark.parametrize("suffix", [".avi", ".mp4", ".mkv", ".m2ts"])
def test_the_limit_reads_the_right_frames_and_others_are_counted(
    suffix: str, tmp_path: Path
) -> None:
    codec = "libx264" if "libx264" in av.codecs_available else "mpeg4"
    make_video(tmp_path / f"a{suffix}", SMALL._replace(codec=codec), seed=0)
    work = choose("own", tmp_path, CLIP, 60.0, tmp_path, 2, lambda line: None)
    plain, items = Plain(work, tables=True), work.distinct
    clips = np.empty((len(items), *CLIP.shape), np.uint8)
    for (_, file, start), clip in zip(items, clips, strict=True):
        plain.read(work.files[file], start, clip)
    numbers, frames = np.arange(len(items)), CLIP.frames * len(items)
    assert wrong_frames(work, items, [(numbers, clips)]) == (frames, 0)
    assert wrong_frames(work, items, [(np.roll(numbers, 1), clips)]) == (frames, frames)


@pytest.mark.slow
def test_the_epochs_of_a_frame_store_are_measured(programs: Programs, tmp_path: Path) -> None:
    run = programs.python(
        "-m", "benchmarks.epochs", "--work", "tiny", "--rounds", "1", "--epochs", "5", "--loop",
        "--way", "frames", "--way", "half", "--folder", str(tmp_path / "made"),
        "--json", str(tmp_path / "rows.json"),
    )  # fmt: skip
    assert run.wait(200 * SECOND) == 0, run.err
    assert json.loads((tmp_path / "rows.json").read_text())["rows"]


@pytest.mark.slow
def test_the_epochs_of_shards_are_measured(programs: Programs, tmp_path: Path) -> None:
    """Where WebDataset is not installed, ours alone."""
    flags = ("-m", "benchmarks.shards", "--work", "tiny", "--folder", str(tmp_path / "made"))
    made = programs.python(*flags, "--only", "make")
    assert made.wait(200 * SECOND) == 0, made.err
    loaders = ["videoload"]
    if all(importlib.util.find_spec(name) for name in ("webdataset", "torch")):
        loaders.append("webdataset")
    for loader in loaders:
        run = programs.python(*flags, "--only", "epoch", "--loader", loader)
        assert run.wait(200 * SECOND) == 0, run.err
        assert sorted(json.loads(run.out.splitlines()[-1])["numbers"]) == list(range(512))


@pytest.mark.slow
def test_the_exam_finds_wrong_counts_and_wrong_frames(programs: Programs, tmp_path: Path) -> None:
    (kind,) = (kind for kind in KINDS if kind.name == "mpeg4_header_says_9999")
    (tmp_path / "videos").mkdir()
    film = make(kind, tmp_path / "videos")
    (tmp_path / "videos" / "empty.avi").write_bytes(b"")
    run = programs.python(
        "-m", "benchmarks.exam", "--videos", str(tmp_path / "videos"), "--no-made",
        "--loader", "videoload", "--loader", "PyAV", "--json", str(tmp_path / "rows.json"),
    )  # fmt: skip
    assert run.wait(100 * SECOND) == 0, run.err
    answers = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert [(row["file"], row["loader"], row["outcome"], row["count"]) for row in answers] == [
        ("empty.avi", "videoload", "refused", 0), ("empty.avi", "PyAV", "refused", 0),
        (film.name, "videoload", "read", kind.frames), (film.name, "PyAV", "read", 9999),
    ]  # fmt: skip
    assert answers[2]["places"] == 20
    assert answers[2]["wrong"] == answers[2]["missing"] == 0
    truth = np.stack([thumb(picture) for picture in pictures(str(film))])
    assert all(is_it(each, truth, ordinal) for ordinal, each in enumerate(truth))
    assert not any(is_it(each, truth, ordinal + 1) for ordinal, each in enumerate(truth[:-1]))


def test_the_kill_test_says_how_an_epoch_differs() -> None:
    good = Run([Sample(n, n) for n in (3, 1, 2, 0)])

    def found(*numbers: int, end: str = "", bad: int | None = None) -> str:
        return judge(good, Run([Sample(n, n) for n in numbers], end), bad=bad)

    assert found(3, 1, 2, 0) == judge(good, good) == "as without it"
    assert found(1, 3, 2, 0) == "another order"
    assert found(3, 2, 1, 0) == "another order"
    assert found(3, 1, 0) == "1 lost"
    assert found(3, 1, 1, 2, 0) == "1 doubled"
    assert found(3, 1, 1, 0) == "1 lost, 1 doubled"
    assert found(3, 1, end="hung") == "hung after 2 of 4 samples"
    assert found(3, end="OSError: x") == "ended (OSError: x) after 1 of 4 samples"
    assert judge(good, Run([Sample(n, 9) for n in (3, 1, 2, 0)])) == "4 wrong"
    assert found(3, 1, 0, bad=2) == "it is left out"
    assert found(3, 1, 0, 0, bad=2) == "it is replaced"
    assert found(3, 1, bad=2) == "1 lost"
