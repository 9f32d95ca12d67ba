"""The made videos: small AVI files whose class shows only over time."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest

from videoload.commands.made_videos import MOTIONS, make_videos

FRAMES = 48


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shapes")
    make_videos(folder, train_per_class=2, test_per_class=1, frames=FRAMES, seed=5)
    return folder


@cache
def gray(path: Path) -> npt.NDArray[np.int16]:
    """All frames: [frames, height, width]."""
    with av.open(path) as container:
        frames = [frame.to_ndarray(format="gray") for frame in container.decode(video=0)]
    return np.stack(frames).astype(np.int16)


def seen_motion(frames: npt.NDArray[np.int16]) -> str:
    """The direction in which whatever stands out of the background drifts at 2.2 to 3.6 pixels a
    frame, by comparing where it is with where it is 8 to 24 frames later."""
    shapes = (abs(frames - np.median(frames, axis=0).astype(np.int16)) > 35).astype(np.float32)
    score = dict.fromkeys(MOTIONS, 0.0)
    for motion, (x, y) in MOTIONS.items():
        profile = shapes.sum(axis=1 if x else 2)
        profile -= profile.mean(axis=1, keepdims=True)
        for speed in np.linspace(2.2, 3.6, 7):
            found = 0.0
            for later in (8, 16, 24):
                moved = np.roll(profile[:-later], round((x + y) * speed * later), axis=1)
                found += float((moved * profile[later:]).mean())
            score[motion] = max(score[motion], found / float(profile.var()))
    return max(score, key=lambda motion: score[motion])


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    calls: list[None] = []
    first, again, other = (tmp_path / name for name in ("first", "again", "other"))
    for folder, seed in ((first, 5), (again, 5), (other, 6)):
        make_videos(
            folder, train_per_class=1, test_per_class=1, frames=2, seed=seed,
            on_video=lambda: calls.append(None),
        )  # fmt: skip
    files = [path.relative_to(first) for path in first.rglob("*.avi")]
    assert len(calls) == 3 * len(files) == 6 * len(MOTIONS)
    for file in files:
        assert (again / file).read_bytes() == (first / file).read_bytes()
        assert (other / file).read_bytes() != (first / file).read_bytes()


@pytest.mark.slow
def test_the_first_picture_tells_nothing_about_the_class(made: Path) -> None:
    for number in ("train/{}/000.avi", "train/{}/001.avi", "test/{}/000.avi"):
        first, *others = (gray(made / number.format(motion))[0] for motion in MOTIONS)
        for other in others:
            np.testing.assert_array_equal(other, first)


@pytest.mark.parametrize("motion", MOTIONS)
def test_the_shapes_drift_where_their_class_says(made: Path, motion: str) -> None:
    for path in made.rglob(f"{motion}/*.avi"):
        assert seen_motion(gray(path)) == motion
