"""The demo's parts: its model, its measurement, and the arguments that it refuses."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.clock import Clock
from videoload.errors import SpecError
from videoload.tools import demo
from videoload.tools.demo import MOTIONS, make_videos


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(demo, "_MEASURED_STEPS", 10)
    monkeypatch.setattr(demo, "_WARM_UP_STEPS", 2)
    monkeypatch.setattr(demo, "time", SimpleNamespace(perf_counter=made, sleep=made.sleep))
    return made


def slow_batches(
    clock: Clock, *seconds: float, clips: int = 3
) -> Iterator[tuple[list[int], list[int]]]:
    """Batches that each take this long; the last time repeats for ever."""
    i = 0
    while True:
        clock.sleep(seconds[min(i, len(seconds) - 1)])
        i += 1
        yield [i] * clips, [0] * clips


def test_waiting_and_training_are_timed_apart_without_the_warm_up(clock: Clock) -> None:
    trained: list[int] = []

    def train_step(clips: list[int], _: list[int]) -> None:
        trained.append(clips[0])
        clock.sleep(0.01)

    batches = slow_batches(clock, 0.3, 0.3, 0.03)
    pace = demo.measure_waiting(batches, train_step)
    assert trained == list(range(1, 13))
    found = (pace.steps, pace.wait_ratio, pace.batches_per_s, pace.clips_per_s)
    assert found == pytest.approx((10, 0.75, 25, 75))
    never = demo.measure_waiting(slow_batches(clock, 0), train_step)
    assert never.wait_ratio == 0


def test_the_model_scores_each_class_by_changes_and_not_by_frames(tf: Any) -> None:
    model = demo.build_model(classes=5, steps=10)
    assert model.input.dtype == "uint8"
    clips = np.random.default_rng(0).integers(0, 256, (2, 16, 64, 64, 3), np.uint8)
    still = np.repeat(clips[:, :1], 16, axis=1)
    seen = np.concatenate([clips, still, np.zeros_like(still)])
    moves, stays, black = np.split(np.asarray(model(seen, training=False)), 3)
    assert moves.shape == (2, 5)
    assert np.isfinite(moves).all()
    np.testing.assert_allclose(stays, black)


def test_no_videos_are_made_where_they_would_lie_beside_others(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    for folder, output in (
        (None, tmp_path),
        (None, tmp_path / "mine.txt"),
        (tmp_path, tmp_path / "new"),
    ):
        with pytest.raises(SpecError, match=rf"{tmp_path.name}|output"):
            demo.run(folder, output=output)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


# The made videos: small AVI files whose class shows only over time


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    first, again, other = (tmp_path / name for name in ("first", "again", "other"))
    for folder, seed in ((first, 5), (again, 5), (other, 6)):
        written = itertools.count()
        make_videos(folder, 1, 1, 2, seed, written.__next__)
        assert next(written) == 2 * len(MOTIONS)
    files = [path.relative_to(first) for path in first.rglob("*.avi")]
    assert len(files) == 2 * len(MOTIONS)
    for file in files:
        assert (again / file).read_bytes() == (first / file).read_bytes()
        assert (other / file).read_bytes() != (first / file).read_bytes()
