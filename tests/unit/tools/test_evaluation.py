"""Scores of many clips, averaged by video."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoload.catalog.catalog import Catalog
from videoload.catalog.joining import mix
from videoload.catalog.targets import PerFrame
from videoload.clips.clip_spec import ClipSpec
from videoload.errors import SpecError, VideoloadError
from videoload.tools.evaluation import Evaluation, evaluate, means_by_video, softmax


def catalog(labels: Any = (1, 0, 1, 0), targets: Any = None) -> Catalog:
    made = Catalog([f"{n}.avi" for n in range(len(labels))], list(labels), ["run", "sit"], "/")
    return made if targets is None else made.with_targets(targets)


MASK = np.array([[True, True], [True, False]])
ONE = ClipSpec(frames=1, size=8)


def evaluated(made: Catalog, model: Any, clip: ClipSpec = ONE, **how: Any) -> Evaluation:
    """Each row has two clips; the model is given their numbers, as it is given clips."""
    rows = [np.array([row, row]) for row in range(len(made))]

    class Stream:
        quarantine: ClassVar[list[Any]] = []

        def __init__(self, *given: Any, **options: Any) -> None:
            assert options == {"on_error": "skip"}
            self.clip = clip

        def __len__(self) -> int:
            return len(rows)

        def batches(self, start_step: int, *, info: bool) -> Iterator[Any]:
            for clips in rows:
                paths = np.array([f"{clips[0]}.avi"] * 2, object)
                yield clips, None, SimpleNamespace(video=clips, path=paths, mask=MASK)

    client: Any = SimpleNamespace(stream=Stream)
    return evaluate(model, client, made, clip, **how)


@pytest.mark.parametrize("inputs", [None, ["clips", "mask"], ["clips"]])
def test_a_model_of_clips_of_any_length_gets_their_mask(inputs: list[str] | None) -> None:
    given = []

    def predict(*batch: Any) -> Any:
        given.append(batch)
        return np.eye(2)

    keras: Any = SimpleNamespace(predict_on_batch=predict, inputs=inputs)
    spec = ClipSpec("all", max_frames=2, size=8)
    evaluated(catalog(), keras, spec)
    if inputs == ["clips"]:
        assert isinstance(given[0][0], np.ndarray)
    else:
        assert given[0][0][1] is MASK
    evaluated(catalog(), predict, spec)
    assert given[-1][1] is MASK


def test_scores_are_averaged_by_video_whatever_the_batches_are() -> None:
    drawn = np.random.default_rng(0)
    video = drawn.integers(0, 3, 60) * 2  # 1 and 3 have no clips, and are left out
    scores = drawn.normal(size=(60, 2))
    batches = ((0, 7), (7, 8), (8, 60))
    found = means_by_video([(video[a:b], scores[a:b]) for a, b in batches], 6)
    assert found.video.tolist() == sorted(set(video.tolist()))
    for row, which in enumerate(found.video):
        np.testing.assert_allclose(found.scores[row], scores[video == which].mean(axis=0))
    assert found.clips.tolist() == [(video == which).sum() for which in found.video]


# What is measured follows from the catalog


def test_classes_have_an_accuracy() -> None:
    found = evaluated(catalog(), lambda clips: np.eye(2)[1 - clips % 2])
    assert (found.kind, found.accuracy(), found.classes) == ("class", 1.0, ("run", "sit"))
    assert found.clips.tolist() == [2] * 4
    ints = catalog(targets=np.array([1, 0, 1, 0]))
    assert evaluated(ints, lambda clips: np.eye(2)[1 - clips % 2]).accuracy() == 1.0


@pytest.mark.parametrize(
    "model", [lambda c: np.full((len(c), 1), -999.0), lambda c: -999.0 + 0 * c]
)
def test_numbers_have_scores_and_no_accuracy(model: Callable[[Any], Any]) -> None:
    truth = np.arange(6, dtype="float32")
    found = evaluated(catalog([0] * 6, truth), model)
    assert found.kind == "numbers"
    np.testing.assert_array_equal(found.labels[:, 0], truth)
    np.testing.assert_array_equal(found.scores, np.full((6, 1), -999.0))
    assert "1 number," in repr(found)
    for measure in (found.accuracy, found.confusion):
        with pytest.raises(SpecError, match=r'"numbers".*scikit-learn'):
            measure()


def test_several_numbers_are_measured_by_themselves() -> None:
    truth = np.array([[0, 100], [1, 200], [2, 300], [3, 400]], np.float64)
    off = np.array([[0, 0], [0, 30], [0.5, 0], [0, 0]])
    found = evaluated(catalog(targets=truth), lambda clips: truth[clips] + off[clips])
    np.testing.assert_allclose(np.abs(found.scores - found.labels).mean(axis=0), [0.125, 7.5])
    points = catalog(targets=np.zeros((4, 2, 2)))
    found = evaluated(points, lambda clips: np.ones((len(clips), 2, 2)))
    assert found.scores.shape == found.labels.shape == (4, 4)


def test_several_labels_come_beside_their_scores() -> None:
    truth = np.array([[1, 0], [1, 1], [0, 0], [0, 0]], np.float32)
    scores = np.array([[3.0, 2], [1, 1], [2, 3], [0, 0]])
    found = evaluated(catalog(targets=truth), lambda clips: scores[clips])
    assert (found.kind, found.classes) == ("labels", ("run", "sit"))
    np.testing.assert_array_equal(found.labels, truth)
    np.testing.assert_array_equal(found.scores, scores)
    assert "with 2 labels" in repr(found)
    for measure in (found.accuracy, found.confusion):
        with pytest.raises(SpecError, match='"labels"'):
            measure()


REFUSED: list[tuple[Catalog, str]] = [
    (catalog([-1, 0]), r"\b1\b.* 2 "),
    (catalog(targets=PerFrame([np.zeros(3)] * 4)), "."),
    (catalog(targets=np.array(list("abcd"))), "."),
    (catalog(targets=dict.fromkeys("ab", np.zeros(4))), r"targets\['a'"),
    (mix({"a": (catalog([0]), 1)}), "mix"),
]


def test_what_cannot_be_evaluated_is_refused_before_anything_is_read() -> None:
    client: Any = None
    for made, words in REFUSED:
        with pytest.raises(SpecError, match=words):
            evaluate(lambda clips: clips, client, made, ClipSpec(frames=1, size=8))


def fails(clips: Any) -> Any:
    raise KeyError("head")


def test_a_model_that_fails_is_named_with_what_it_raised_and_the_files_of_its_clips() -> None:
    with pytest.raises(VideoloadError, match=r"fails.*\b0\.avi: .*head") as found:
        evaluated(catalog(), fails)
    assert isinstance(found.value.__cause__, KeyError)


def test_scores_that_do_not_fit_are_refused() -> None:
    numbers, counts = catalog(targets=np.ones(4)), catalog(targets=np.arange(4))
    softmax: dict[str, Any] = {"average": "softmax"}
    made: Catalog
    model: Any
    how: dict[str, Any]
    for made, model, how, words in (
        (catalog(), lambda c: np.ones(len(c)), {}, r"\[1\]"),
        (catalog(), lambda c: np.ones((len(c), 2, 2)), {}, " 2 "),
        (catalog(), lambda c: np.ones((1, 2)), {}, r"\[1, 2\].* 2 "),
        (catalog(), lambda c: np.full((len(c), 2), "a"), {}, "numbers"),
        (catalog(), lambda c: np.ones((len(c), 2 + c[0])), {}, r"\[2\].*\[3\]"),
        (numbers, lambda c: np.ones((len(c), 3)), {}, " 3"),
        (counts, lambda c: np.ones((len(c), 3)), {}, " 4 "),
        (numbers, lambda c: c * 1.0, softmax, "softmax"),
        (counts, lambda c: c * 1.0, softmax, "softmax"),
    ):
        with pytest.raises(SpecError, match=words):
            evaluated(made, model, **how)
    unlabelled, read = catalog(targets=np.array([0, 1, 0, -1])), []

    def scores(clips: Any) -> Any:
        read.append(clips)
        return np.eye(2)

    with pytest.raises(SpecError, match=r"row 3.*3\.avi.*-1"):
        evaluated(unlabelled, scores)
    assert len(read) == 1, "not after hours"
    assert evaluated(unlabelled, lambda clips: clips * 1.0).kind == "numbers"
    with pytest.raises(VideoloadError, match=r"NaN.*2\.avi"):
        evaluated(catalog(), lambda clips: np.where(clips[:, None] == 2, np.nan, [[0.0, 1]]))


def test_a_softmax_is_for_classes() -> None:
    found = evaluated(catalog(), lambda clips: np.eye(2)[clips % 2] * 9, average="softmax")
    np.testing.assert_allclose(found.scores.sum(axis=1), 1)
    large = softmax(np.array([[1000.0, 1000.0], [0.0, np.log(3)]]))
    np.testing.assert_allclose(large, [[0.5, 0.5], [0.25, 0.75]])


def test_accuracy_counts_the_highest_scores() -> None:
    scores = np.array([[0.1, 0.9, 0.5], [0.2, 0.3, 0.1], [0.5, 0.5, 0.5]])
    found = Evaluation(np.arange(3), scores, np.array([2, 1, 0]), np.ones(3, np.int64))
    assert found.accuracy() == pytest.approx(2 / 3)


# As it is reported

NAMES = ("run", "sit", "walk")
# Taken for: run, run, sit, walk, run, run.
SCORES = np.array([[5.0, 1, 0], [4, 1, 2], [0, 3, 1], [1, 0, 4], [9, 0, 1], [2, 2, 0]])
TOLD = Evaluation(
    np.arange(6) * 2, SCORES, np.array([0, 0, 1, 2, 2, 1]), np.full(6, 10),
    [f"{n}.avi" for n in range(6)], NAMES,
)  # fmt: skip


def test_a_confusion_matrix_has_a_row_for_each_label() -> None:
    assert TOLD.confusion().tolist() == [[2, 0, 0], [1, 1, 0], [1, 0, 1]]
    assert TOLD._replace(classes=(*NAMES, "none")).confusion().shape == (4, 4)


@given(st.integers(1, 40), st.integers(2, 6), st.integers(0, 2**32))
@settings(max_examples=30)
def test_matrix_and_accuracy_agree(videos: int, classes: int, seed: int) -> None:
    drawn = np.random.default_rng(seed)
    scores = drawn.normal(size=(videos, classes))
    found = Evaluation(
        np.arange(videos), scores, drawn.integers(0, classes, videos), np.ones(videos, np.int64)
    )
    matrix = found.confusion()
    assert matrix.sum() == videos
    assert matrix.trace() == round(found.accuracy() * videos)
