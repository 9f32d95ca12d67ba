"""Scores of many clips, averaged by video."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from videoload.errors import SpecError
from videoload.plan.options import StreamOptions
from videoload.trainer.evaluation import Evaluation, evaluate, means_by_video, softmax

LABELS = np.array([1, 0, 1, 0])


def test_scores_are_averaged_by_video_whatever_the_batches_are() -> None:
    drawn = np.random.default_rng(0)
    video = drawn.integers(0, 3, 60) + (drawn.integers(0, 3, 60) == 2)  # Uneven counts.
    scores = drawn.normal(size=(60, 2))
    batches = ((0, 7), (7, 8), (8, 60))
    found = means_by_video([(video[a:b], scores[a:b]) for a, b in batches], LABELS)
    assert found.video.tolist() == sorted(set(video.tolist()))
    for row, which in enumerate(found.video):
        np.testing.assert_allclose(found.scores[row], scores[video == which].mean(axis=0))
    assert found.clips.tolist() == [(video == which).sum() for which in found.video]
    assert found.labels.tolist() == LABELS[found.video].tolist()


def test_a_video_without_clips_is_left_out() -> None:
    found = means_by_video([(np.array([2, 0]), np.ones((2, 2)))], LABELS)
    assert found.video.tolist() == [0, 2]


def test_accuracy_counts_the_highest_scores() -> None:
    scores = np.array([[0.1, 0.9, 0.5], [0.2, 0.3, 0.1], [0.5, 0.5, 0.5]])
    found = Evaluation(np.arange(3), scores, np.array([2, 1, 0]), np.ones(3, np.int64))
    assert found.accuracy() == pytest.approx(2 / 3)
    assert found.accuracy(2) == 1
    assert found.accuracy(99) == 1


def test_softmax_is_of_each_row_and_takes_large_numbers() -> None:
    found = softmax(np.array([[1000.0, 1000.0], [0.0, np.log(3)]]))
    np.testing.assert_allclose(found, [[0.5, 0.5], [0.25, 0.75]])


@pytest.mark.parametrize("scores", [np.ones(2), np.ones((3, 2)), np.ones((2, 2, 2))])
def test_anything_but_one_row_of_scores_per_clip_is_refused(scores: Any) -> None:
    with pytest.raises(SpecError, match="predict returned"):
        means_by_video([(np.array([0, 1]), scores)], LABELS)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"drop_remainder": True}, "drop_remainder=False"),
        ({"on_error": "substitute"}, "on_error"),
        ({"shard": (0, 2)}, "without shard="),
        ({"balance": "class"}, "no balance="),
    ],
)
def test_a_stream_that_does_not_give_each_clip_once_is_refused(
    changes: dict[str, Any], words: str
) -> None:
    good: dict[str, Any] = {
        "batch_size": 2, "shuffle": False, "seed": 0, "shard": (0, 1), "drop_remainder": False,
        "ordered": True, "on_error": "skip", "max_bad": 0.01,
    }  # fmt: skip
    stream: Any = SimpleNamespace(options=StreamOptions(**good | changes))
    with pytest.raises(SpecError, match=words):
        evaluate(lambda clips: clips, stream)
