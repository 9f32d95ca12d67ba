"""Scores of many clips, averaged by video."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoload.errors import SpecError
from videoload.plan.options import StreamOptions
from videoload.predictions.evaluation import Evaluation, Mistake, evaluate, means_by_video, softmax

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


# As it is reported

NAMES = ("run", "sit", "walk")
SCORES = np.array(
    [[5.0, 1, 0], [4, 1, 2], [0, 3, 1], [1, 0, 4], [9, 0, 1], [2, 2, 0]]
)  # taken for: run, run, sit, walk, run, run
TOLD = Evaluation(
    np.arange(6) * 2, SCORES, np.array([0, 0, 1, 2, 2, 1]), np.full(6, 10),
    [f"{n}.avi" for n in range(6)], NAMES,
)  # fmt: skip


def test_a_confusion_matrix_has_a_row_for_each_label() -> None:
    assert TOLD.confusion().tolist() == [[2, 0, 0], [1, 1, 0], [1, 0, 1]]
    np.testing.assert_allclose(TOLD.class_accuracy(), [1, 0.5, 0.5])
    assert TOLD._replace(classes=(*NAMES, "none")).confusion().shape == (4, 4)
    assert np.isnan(TOLD._replace(classes=(*NAMES, "none")).class_accuracy()[3])


@given(st.integers(1, 40), st.integers(2, 6), st.integers(0, 2**32))
@settings(max_examples=30)
def test_matrix_accuracy_and_mistakes_agree(videos: int, classes: int, seed: int) -> None:
    drawn = np.random.default_rng(seed)
    scores = drawn.normal(size=(videos, classes))
    found = Evaluation(
        np.arange(videos), scores, drawn.integers(0, classes, videos), np.ones(videos, np.int64)
    )
    matrix, mistakes = found.confusion(), found.worst(videos)
    assert matrix.sum() == videos
    assert matrix.trace() == round(found.accuracy() * videos) == videos - len(mistakes)
    assert [each.by for each in mistakes] == sorted((each.by for each in mistakes), reverse=True)
    for each in mistakes:
        row = int(each.path.removeprefix("video "))
        assert int(each.label) == found.labels[row] != int(each.taken_for)
        assert each.by == scores[row].max() - scores[row, int(each.label)]


def test_the_worst_mistakes_are_named() -> None:
    assert TOLD.worst(1) == [Mistake("4.avi", "walk", "run", 8.0)]
    assert [each.path for each in TOLD.worst()] == ["4.avi", "5.avi"]
    assert TOLD.worst(0) == []
    with pytest.raises(SpecError, match="n must be a whole number"):
        TOLD.worst(-1)


def test_a_label_that_the_model_does_not_know_is_a_mistake() -> None:
    found = TOLD._replace(labels=np.array([0, 0, 1, 2, 2, 3]))
    assert found.confusion()[3].tolist() == [1, 0, 0, 0]
    assert found.worst(2)[1] == Mistake("5.avi", "3", "run", 2.0)


def test_it_is_shown_in_three_lines() -> None:
    assert repr(TOLD).splitlines() == [
        "Evaluation of 6 videos in 3 classes, 10 clips each",
        "top-1 66.7%, mean of classes 66.7%",
        "most often: sit taken for run (1 of 2); walk taken for run (1 of 2)",
    ]
    many = Evaluation(np.arange(2), np.eye(2, 8), np.arange(2), np.array([1, 3]))
    assert repr(many).splitlines() == [
        "Evaluation of 2 videos in 8 classes, 1 to 3 clips each",
        "top-1 100.0%, top-5 100.0%, mean of classes 100.0%",
        "most often: no mistake",
    ]
