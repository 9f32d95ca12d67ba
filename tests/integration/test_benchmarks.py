"""The benchmarks run, get the frames that they ask for, and write their results. A push runs the
quickest of each kind."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import av
import numpy as np
import pytest

from benchmarks.epochs_table import NAMES
from benchmarks.exam import is_it, thumb
from benchmarks.exam_readers import pictures
from benchmarks.faults.judging import Run, Sample, judge
from benchmarks.videos import Recipe, make_video
from tests.support.codecs import KINDS, make
from tests.support.needs import needs_tensorflow
from tests.support.programs import Programs
from tests.support.thorough import rest_nightly
from tests.support.waiting import SECOND
from videoload import Client
from videoload.comparison.check import wrong_frames
from videoload.comparison.files import choose
from videoload.comparison.ours import read
from videoload.comparison.run import take
from videoload.comparison.work import Clip
from videoload.index.index import find_index
from videoload.reading.containers import OpenedVideo
from videoload.storage.files import Folder

# videoload is measured with TensorFlow, which each of its runs imports, so only one work of the
# night includes it: with a frame store, which its first run fills.
WORKS = {"tiny": ("limit", "serial"), "tiny-first": ("limit", "serial", "videoload frame store")}
BENCH = """
import sys
from pathlib import Path
from videoload.comparison.compare import bench
from videoload.comparison.loaders import BENCH, Loader
loaders = [BENCH[0], BENCH[2], BENCH[-1]]  # the limit, videoload without TensorFlow, serial
loaders.append(Loader("another", "another.loader", ("no_such_package",)))
sys.exit(bench(Path(sys.argv[1]), 3.0, Path(sys.argv[2]), None, loaders))
"""


@pytest.mark.slow
@pytest.mark.timeout(120 * SECOND)
def test_two_hundred_files_give_a_table_of_rates_or_reasons(
    programs: Programs, tmp_path: Path
) -> None:
    (tmp_path / "videos").mkdir()
    first = tmp_path / "videos" / "000.mp4"
    codec = "libx264" if "libx264" in av.codecs_available else "mpeg4"
    make_video(first, Recipe(codec, 160, 120, 40, 12, b_frames=2), seed=0)
    for number in range(1, 200):
        first.with_name(f"{number:03d}.mp4").hardlink_to(first)
    run = programs.python("-c", BENCH, str(tmp_path / "videos"), str(tmp_path / "out"))
    assert run.wait(100 * SECOND) == 0, run.err
    assert "200 videos below" in run.err  # progress, though nobody watches a terminal
    assert "1 of 4: limit: " in run.err
    rows = json.loads((tmp_path / "out" / "results.json").read_text())["rows"]
    first_round = {row["loader"]: row for row in rows if row["round"] == 1}
    for name in ("limit", "videoload without TensorFlow", "serial"):
        row = first_round[name]
        assert not row["error"]
        assert row["clips_s"] > 0
        assert row["cpu_s_a_clip"] > 0
        assert row["memory"] > 0
        assert row["frames"] > 0
        assert row["wrong"] == 0
        assert name in run.out
    assert first_round["another"]["not_run"] == "no_such_package is not installed"
    assert "another: not run: no_such_package is not installed" in run.out


def test_clips_of_one_short_file_are_repeated_until_a_batch_is_full(tmp_path: Path) -> None:
    make_video(tmp_path / "short.avi", Recipe("mpeg4", 160, 120, 9, 12), seed=0)
    work = choose(tmp_path, Clip(4, 2, resize=64, crop=56), 60.0, None, 1, lambda line: None)
    assert len({item.start for item in work.distinct}) < work.batch
    items = work.items(2 * work.batch)
    with Client(workers=1) as client:
        batches = take(read(client, work, items, is_loop=True), 2)
    assert [list(numbers) for numbers, _ in batches] == 2 * [list(range(work.batch))]
    assert wrong_frames(work, items, batches) == (8 * work.batch, 0)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(240 * SECOND)
@pytest.mark.parametrize("work", WORKS)
def test_a_small_comparison_has_a_rate_and_right_frames_for_each_loader(
    work: str, programs: Programs, tmp_path: Path
) -> None:
    run = programs.python(
        "-m", "benchmarks", "--work", work, "--rounds", "1", "--processes", "2", "--seconds", "6",
        *(word for name in WORKS[work] for word in ("--loader", name)),
        "--folder", str(tmp_path / "videos"), "--out", str(tmp_path / "out"),
    )  # fmt: skip
    assert run.wait(100 * SECOND) == 0, run.err
    assert "videoload decodes 100%" in run.err, "it has no B-pictures"
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert not [row for row in results["rows"] if row["error"] or row["not_run"]]
    timed = {row["loader"]: row for row in results["rows"]}
    assert set(timed) == set(WORKS[work])
    for name in WORKS[work]:
        of_epochs = work == "tiny-first" and name != "limit"
        assert timed[name]["frames"] == (24 if of_epochs else 64) * 8  # 24: of the warm-up
        assert timed[name]["wrong"] == 0
        assert timed[name]["clips_s"] > 0
        assert timed[name]["cpu_s_a_clip"] > 0
        assert timed[name]["memory"] > 0
        assert name in run.out
        assert (timed[name]["later_clips_s"] > 0) == of_epochs
    assert any((tmp_path / "videos" / "frames").glob("*/*/*")) == (work == "tiny-first")
    drawn = (tmp_path / "out" / f"{work}.png").exists()
    assert drawn == (importlib.util.find_spec("matplotlib") is not None)


@pytest.mark.nightly
@pytest.mark.slow
@needs_tensorflow
@pytest.mark.timeout(240 * SECOND)
def test_a_recipe_runs_beside_an_equivalent_stream(programs: Programs, tmp_path: Path) -> None:
    run = programs.python(
        "-m", "benchmarks.recipes", "--recipe", "runner", "--steps", "20",
        "--out", str(tmp_path / "out"),
    )  # fmt: skip
    assert run.wait(100 * SECOND) == 0, run.err
    rows = json.loads((tmp_path / "out" / "recipes.json").read_text())
    assert len(rows) == 2
    for row in rows:
        assert row["recipe_s"] > 0
        assert row["videoload_s"] >= row["perfect_s"] > 0
        assert row["recipe"] in run.out


@pytest.mark.parametrize("b_frames", [1, 2])
def test_a_packed_file_proves_its_pictures_and_gives_them_in_order(
    b_frames: int, tmp_path: Path
) -> None:
    recipe = Recipe("mpeg4", 160, 120, 31, 600, b_frames)
    frames = {}
    for packed in (False, True):
        make_video(tmp_path / "video.avi", recipe._replace(packed=packed), seed=0)
        with av.open(str(tmp_path / "video.avi")) as container:
            decoded = [frame.to_ndarray() for frame in container.decode(video=0)]
        frames[packed] = np.stack(decoded).astype(np.int16)
    # Not equal bit for bit: the decoder takes them for files of other encoders.
    away = [np.abs(frames[False] - frame).mean(axis=(1, 2)) for frame in frames[True]]
    assert [int(row.argmin()) for row in away] == list(range(recipe.frames))
    opened = OpenedVideo(Folder(tmp_path).resolve("video.avi"))
    assert opened.stream.frames == recipe.frames + 1  # the packet of one byte
    opened.close()
    index, _ = find_index(opened.file, lambda: None)
    assert index is not None
    assert index.info.frames == recipe.frames
    assert index.order.starts[:, 0].tolist() == [0]


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(240 * SECOND)
def test_a_long_file_is_complete_and_read_at_random(programs: Programs, tmp_path: Path) -> None:
    run = programs.python(
        "-m", "benchmarks.long", "--file", "mpeg4", "--frames", "1000", "--rounds", "1",
        "--seconds", "0.2", "--folder", str(tmp_path), "--json", str(tmp_path / "long.json"),
    )  # fmt: skip
    assert run.wait(100 * SECOND) == 0, run.err
    (row,) = json.loads((tmp_path / "long.json").read_text())["rows"]
    assert row["frames"] == 996  # whole groups of 12
    assert row["first_s"] > 0
    assert row["clips_s"] > 0


@pytest.mark.slow
@pytest.mark.timeout(240 * SECOND)
def test_many_names_are_made_read_and_removed(programs: Programs, tmp_path: Path) -> None:
    run = programs.python(
        "-m", "benchmarks.large", "--videos", "400", "--work", "tiny", "--seconds", "0.2",
        "--every", "0.1", "--folder", str(tmp_path), "--json", str(tmp_path / "large.json"),
    )  # fmt: skip
    assert run.wait(100 * SECOND) == 0, run.err
    rows = json.loads((tmp_path / "large.json").read_text())["rows"]
    assert {row["epoch"] for row in rows} == {1, 2}
    assert all(0 < row["worker_pss_mb"] <= row["worker_rss_mb"] for row in rows)
    assert not list(tmp_path.glob("large-*"))


@pytest.mark.slow
@pytest.mark.timeout(240 * SECOND)
@pytest.mark.parametrize(
    ("benchmark", "arguments"),
    rest_nightly(
        [
            ("overhead", ["--way", "tcp", "--lease", "4", "--rounds", "1"]),  # that decode nothing
            ("lines", ["--only", "far", "--far-workers", "4"]),  # simulated ones
        ]
    ),
)
def test_workers_of_a_benchmark_answer_as_real_ones_do(
    benchmark: str, arguments: list[str], programs: Programs, tmp_path: Path
) -> None:
    run = programs.python(
        "-m", f"benchmarks.{benchmark}", *arguments, "--seconds", "0.2",
        "--json", str(tmp_path / "rows.json"),
    )  # fmt: skip
    assert run.wait(100 * SECOND) == 0, run.err
    assert "refused" not in run.err
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert all(row["clips_per_s"] > 0 for row in rows)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(240 * SECOND)
def test_epochs_with_and_without_kept_frames_are_compared(
    programs: Programs, tmp_path: Path
) -> None:
    run = programs.python(
        "-m", "benchmarks.epochs", "--work", "tiny", "--rounds", "1", "--epochs", "5", "--loop",
        *("--way", "frames", "--way", "half", "--way", "prepare"),
        "--folder", str(tmp_path / "videos"), "--json", str(tmp_path / "rows.json"),
    )  # fmt: skip
    assert run.wait(100 * SECOND) == 0, run.err
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    keeping = ["frames", "half", "prepare"]
    assert [row["way"] for row in rows] == ["libav", "nothing", *keeping]
    for row in rows:
        assert set(row["clips_per_s"]) == {"1", "2", "5"}
        assert min(row["clips_per_s"].values()) > 0
        assert 0 <= row["cpu_s"]["1"] <= row["cpu_s"]["5"]
        assert (row["kept_gb"] > 0) == (row["way"] in keeping)
        assert (row["before_s"] > 0.1) == (row["way"] == "prepare")
        assert row["way"] in run.out
        assert f"| {NAMES[row['way']]} | " in run.out
    kept = {row["way"]: row["kept_gb"] for row in rows}
    assert kept["half"] < 0.7 * kept["frames"]
    drawn = (tmp_path / "rows.png").exists()
    assert drawn == (importlib.util.find_spec("matplotlib") is not None)
    assert sorted(path.name for path in (tmp_path / "videos").iterdir()) == ["tiny", "tiny.json"]


@pytest.mark.slow
@pytest.mark.timeout(240 * SECOND)
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


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(240 * SECOND)
def test_the_kill_test_runs_on_this_loader(programs: Programs, tmp_path: Path) -> None:
    run = programs.python(
        "-m", "benchmarks.faults", "--loader", "videoload", "--fault", "a worker is killed",
        "--out", str(tmp_path / "faults.json"),
    )  # fmt: skip
    assert run.wait(100 * SECOND) == 0, run.err
    assert json.loads((tmp_path / "faults.json").read_text()) == {
        "videoload": {"a worker is killed": "as without it"}
    }
