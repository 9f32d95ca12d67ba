"""Recordings whose frames show their numbers, through a model that reads them."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import videoload as vl
from benchmarks.numbered import make_numbered, read_numbers
from tests.support.programs import Programs
from tests.support.waiting import SECOND

CLIP = vl.ClipSpec(frames=8, stride=2, hop=4, sampling="dense", size=(64, 64))
FRAMES = {"a.avi": (500, 25), "sub/b.avi": (220, 15), "short.avi": (9, 25)}
NAMES = ["a.avi", "bad.avi", "sub/b.avi", "short.avi"]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> vl.Catalog:
    root = tmp_path_factory.mktemp("recordings")
    for name, (frames, rate) in FRAMES.items():
        codec = "mjpeg" if "b" in name else "mpeg4"
        make_numbered(root / name, frames, codec=codec, rate=rate)
    (root / "bad.avi").write_text("no video" * 100)
    counts = [FRAMES.get(name, (100, 0))[0] for name in NAMES]
    rows = [f"{name},x,{count}" for name, count in zip(NAMES, counts, strict=True)]
    (root / "all.csv").write_text("\n".join(["path,label,frames", *rows]) + "\n")
    return vl.Catalog.from_table(root / "all.csv", root)


def windows(frames: int) -> int:
    """How many fit: one spans 15 frames, and the next one begins 4 later."""
    return max(1, (frames - 15) // 4 + 1)


def check(name: str, scores: npt.NDArray[Any], start_s: Any, end_s: Any) -> None:
    """Each window shows the frames that it should, at the time that it says."""
    frames, rate = FRAMES[name]
    first = 4 * np.arange(windows(frames))
    shown = (first[:, None] + 2 * np.arange(8)) % frames  # a short one is repeated
    np.testing.assert_array_equal(scores, shown)
    np.testing.assert_allclose(start_s, shown[:, 0] / rate)
    np.testing.assert_allclose(end_s, shown.max(axis=1) / rate)


def test_each_window_shows_its_frames_at_its_times_and_bad_files_are_named(
    catalog: vl.Catalog, client: vl.Client, capfd: pytest.CaptureFixture[str]
) -> None:
    found = vl.predict(read_numbers, client, catalog, CLIP, progress=True)
    assert [file.path for file in found.files] == list(FRAMES)
    for file in found.files:
        check(*file)
    assert [video.path for video in found.failed] == ["bad.avi"]
    assert "100%" in capfd.readouterr().err
    first = vl.predict(read_numbers, client, catalog, CLIP, average="scores").files[0]
    windows = found.files[0].scores.astype(float)
    np.testing.assert_allclose(first.scores[5], windows[2:6].mean(axis=0))
    np.testing.assert_allclose(first.end_s[:-1], first.start_s[1:])


def segments(catalog: vl.Catalog) -> vl.Catalog:
    """Two good segments of a file, one behind its end, one that is half behind it, a bad file, and
    a file as a whole."""
    starts, ends = [0, 100, 600, 480, 300, 0, 0], [100, 200, 700, 560, 400, 50, -1]
    paths = ["a.avi"] * 5 + ["bad.avi", "short.avi"]
    return vl.Catalog(paths, [0] * 7, ["x"], catalog.root, starts=starts, ends=ends)


def test_a_segment_that_cannot_be_decoded_takes_no_other_with_it(
    catalog: vl.Catalog, client: vl.Client, tmp_path: Path
) -> None:
    found = vl.predict(read_numbers, client, segments(catalog), CLIP, 4, to_npy=tmp_path)
    assert [(bad.path, bad.reason.split(":")[0]) for bad in found.failed] == [
        ("a.avi", "segment 600-700"), ("bad.avi", "segment 0-50"),
    ]  # fmt: skip
    assert found.written == {str(tmp_path): 5}
    there = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.npy")}
    assert there == {
        f"{name}{suffix}"
        for name in ("a.avi.0-100", "a.avi.100-200", "a.avi.480-560", "a.avi.300-400", "short.avi")
        for suffix in (".npy", ".times.npy")
    }


def test_what_a_model_says_is_written_as_it_is_and_named_if_it_is_no_number(
    catalog: vl.Catalog, client: vl.Client, caplog: pytest.LogCaptureFixture
) -> None:
    def model(clips: npt.NDArray[Any]) -> npt.NDArray[Any]:
        numbers = read_numbers(clips).astype(np.float32)
        return np.where(numbers > 400, np.nan, numbers)

    found = vl.predict(model, client, segments(catalog)[:4], CLIP, 4)
    assert np.isnan(found.files[-1].scores).any()
    (told,) = (text for text in caplog.messages if "NaN" in text)
    assert "a.avi.480-560" in told


class TwoInputs:
    inputs = "clips", "mask"

    def predict_on_batch(self, clips: Any) -> Any:
        raise AssertionError


def test_what_cannot_be_done_is_said(
    catalog: vl.Catalog, client: vl.Client, tmp_path: Path
) -> None:
    def run(model: Any = read_numbers, clip: Any = CLIP, **how: Any) -> None:
        vl.predict(model, client, catalog, clip, **how)

    random = vl.ClipSpec(frames=8, sampling="random", size=(64, 64))
    features = lambda clips: np.zeros((len(clips), 2, 2))  # noqa: E731
    for how, said in (
        ({"clip": random}, "sampling="), ({"clip": {"rgb": CLIP}}, "."),
        ({"clip": vl.ClipSpec("all", max_frames=8)}, "."),
        ({"clip": vl.ClipSpec(frames=8, size=(32, 32), crop="three")}, 'crop="three"'),
        ({"average": "mean"}, "average"), ({"model": TwoInputs()}, " 2 "),
        ({"model": lambda clips, points: clips}, "'points'"),
        ({"model": 3}, "model.* int"), ({"model": lambda clips: np.zeros(3)}, r"\[3\] .* 8 "),
        ({"model": lambda c: (np.zeros(len(c)),) * 2}, "tuple of 2"),
        ({"model": lambda c: [np.zeros((len(c), 3))] * 8}, "list of 8"),
        ({"model": features, "to_csv": tmp_path / "a.csv"}, "to_npy="),
    ):  # fmt: skip
        with pytest.raises(vl.SpecError, match=said):
            run(**how)


@pytest.mark.slow
def test_the_command_writes_the_same(
    catalog: vl.Catalog, programs: Programs, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("from benchmarks.numbered import read_numbers as read")
    classes = [f"{number} class {number}" for number in range(1, 9)]
    (tmp_path / "classInd.txt").write_text("\n".join(classes))
    done = programs.videoload(
        "extract", str(Path(str(catalog.root)) / "all.csv"), "out", "--model", "mine:read",
        "--clip", "frames=8, stride=2, hop=4, size=(64, 64)", "--workers", "1", "--csv",
        "--name", "numbers", "--classes", "classInd.txt", cwd=tmp_path,
    )  # fmt: skip
    assert done.wait(60 * SECOND) == 1, done.err  # a file cannot be decoded
    assert "3 of 4 files" in done.out
    assert done.err.count("bad.avi: ") == 1
    for name in FRAMES:
        times = np.load(tmp_path / f"out/{name}.times.npy")
        check(name, np.load(tmp_path / f"out/{name}.npy"), *times.T)
        lines = (tmp_path / f"out/{name}.csv").read_text().splitlines()
        assert len(lines) == 1 + windows(FRAMES[name][0])
        assert ",class " in lines[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", [[], ["--name", "mine"]], ids=["unnamed", "named"])
def test_a_stopped_command_says_whether_it_resumes(
    name: list[str], catalog: vl.Catalog, programs: Programs, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("def stop(clips):\n    raise KeyboardInterrupt")
    done = programs.videoload(
        "extract", str(catalog.root), "out", "--model", "mine:stop", "--workers", "1", *name,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.wait(60 * SECOND) == 130, done.err
    assert ("same command resumes" in done.err) == bool(name)
    assert ("with --name" in done.err) != bool(name)


@pytest.mark.slow
@pytest.mark.parametrize("verbose", [[], ["-v"]], ids=["quiet", "verbose"])
def test_a_model_that_fails_is_one_line_and_its_traceback_is_there_for_who_asks(
    verbose: list[str], catalog: vl.Catalog, programs: Programs, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("def embed(clips):\n    return clips.head")
    done = programs.videoload(
        "extract", str(catalog.root), "out", "--model", "mine:embed", "--workers", "1", *verbose,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.wait(60 * SECOND) == 1, done.err
    [line] = [line for line in done.err.splitlines() if line.startswith("videoload: model")]
    assert all(word in line for word in ("embed", "b.avi", "AttributeError"))
    assert ("mine.py" in done.err) == bool(verbose), "the traceback"
