"""A test on many clips and crops of each video, averaged by video, as it is reported.

The usual protocols score a video by the mean of its clips' scores (10 clips x 3 crops: Wang et al.
2018, Non-local Neural Networks).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from videoload.arguments import whole
from videoload.errors import SpecError
from videoload.trainer.stream import Stream

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_SHOWN = 3  # confusions in the last line of a repr


class Mistake(NamedTuple):
    """A video that was taken for another class.

    Attributes:
        path: Relative to the catalog's root.
        label: The name of its class.
        taken_for: The name of the class with the highest score.
        by: How much higher that score is than the one of its class.
    """

    path: str
    label: str
    taken_for: str
    by: float


class Evaluation(NamedTuple):
    """The scores of each video.

    Attributes:
        video: Index in the catalog of each video that has a clip, int64 [V], rising.
        scores: Mean of its clips' scores, float64 [V, classes].
        labels: Label of each video, int64 [V].
        clips: Number of its clips (times crops) in the mean, int64 [V].
        paths: Path of each video, relative to the catalog's root: str [V]. Default (): not known.
        classes: Names of the classes. Default (): not known.
    """

    video: Ints
    scores: Floats
    labels: Ints
    clips: Ints
    paths: Sequence[str] = ()
    classes: Sequence[str] = ()

    def accuracy(self, top: int = 1) -> float:
        """Share of the videos whose label is among the classes with the ``top`` highest scores.

        Args:
            top: The number of classes that count. Default 1.

        Returns:
            0 to 1. If scores are equal, the class with the lower number comes first.
        """
        best = np.argsort(-self.scores, axis=1, kind="stable")[:, :top]
        return float((best == self.labels[:, None]).any(axis=1).mean())

    def confusion(self) -> Ints:
        """How many videos of each class were taken for which.

        Returns:
            int64 [classes, classes]: a row for each label, a column for each class that has the
            highest score. The diagonal is what is right.
        """
        taken = self._taken
        count = max(self.scores.shape[1], len(self.classes), int(self.labels.max(initial=-1)) + 1)
        found = np.zeros((count, count), np.int64)
        np.add.at(found, (self.labels, taken), 1)
        return found

    def class_accuracy(self) -> Floats:
        """Share of each class's videos that are right. Its mean is the mean-class accuracy.

        Returns:
            float64 [classes], 0 to 1; NaN for a class without videos.
        """
        matrix = self.confusion()
        of_class = matrix.sum(axis=1)
        return np.where(of_class, matrix.diagonal() / np.maximum(of_class, 1), np.nan)

    def worst(self, n: int = 10) -> list[Mistake]:
        """The mistakes that the model was most certain of.

        Args:
            n: How many, at most. Default 10.

        Returns:
            The ``n`` mistakes with the largest difference between the highest score and the score
            of the label, the largest first. A label that has no score counts as 0.
        """
        rows = np.arange(len(self.video))
        scored = self.labels < self.scores.shape[1]
        own = np.where(scored, self.scores[rows, np.where(scored, self.labels, 0)], 0.0)
        by = self.scores.max(axis=1, initial=-np.inf) - own
        wrong = np.flatnonzero(self._taken != self.labels)
        chosen = wrong[np.argsort(-by[wrong], kind="stable")][: whole("n", n, 0)]
        return [
            Mistake(
                self.paths[row] if len(self.paths) else f"video {self.video[row]}",
                self._name(self.labels[row]), self._name(self._taken[row]), float(by[row]),
            )
            for row in chosen.tolist()
        ]  # fmt: skip

    def draw(self, path: str | os.PathLike[str]) -> None:
        """Draw the confusion matrix: a row for each class, darker where more of its videos went.
        Needs the extra ``[preview]``.

        Args:
            path: The file to write: ``.png``.

        Raises:
            VideoloadError: Pillow is not installed, or the file cannot be written.
        """
        from videoload.predictions.confusion_picture import draw

        matrix = self.confusion()
        draw(matrix, [self._name(number) for number in range(len(matrix))], path)

    @property
    def _taken(self) -> Ints:
        return cast(Ints, np.argmax(self.scores, axis=1))

    def _name(self, number: int) -> str:
        return self.classes[number] if number < len(self.classes) else str(number)

    def __repr__(self) -> str:
        if not len(self.video):
            return "Evaluation of no videos"
        matrix = self.confusion()
        least, most = int(self.clips.min()), int(self.clips.max())
        clips = f"{most}" if least == most else f"{least} to {most}"
        head = (
            f"Evaluation of {len(self.video)} videos in {len(matrix)} classes, {clips} clips each"
        )
        shares = {"top-1": self.accuracy(), "mean of classes": np.nanmean(self.class_accuracy())}
        if self.scores.shape[1] > 5:
            shares = {"top-1": self.accuracy(), "top-5": self.accuracy(5)} | shares
        np.fill_diagonal(matrix, 0)
        order = np.argsort(-matrix, axis=None, kind="stable")[:_SHOWN]
        pairs = [divmod(int(at), len(matrix)) for at in order]
        confused = "; ".join(
            f"{self._name(a)} taken for {self._name(b)} ({matrix[a, b]} of {of})"
            for a, b in pairs
            if matrix[a, b] and (of := int((self.labels == a).sum()))
        )
        right = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
        return f"{head}\n{right}\nmost often: {confused or 'no mistake'}"


def evaluate(
    predict: Any,
    stream: Stream,
    *,
    average: Literal["scores", "softmax"] = "scores",
) -> Evaluation:
    """Test a model on one epoch of a stream, averaged by video.

        clip = vl.ClipSpec(frames=32, stride=2, resize=256, size=(256, 256),
                           sampling="uniform", clips_per_video=10)
        test = client.stream(catalog, clip, batch_size=8, drop_remainder=False, on_error="skip")
        print(vl.evaluate(model, test))

    Args:
        predict: A Keras model; or a function that is called with the clips of a batch, an array [B,
            *clip.shape], and returns the scores (logits or probabilities) of each, [B, classes].
        stream: It must give each clip once: ``drop_remainder=False``, ``on_error`` "skip" or
            "raise", and no ``shard``.
        average: What to average: ``"scores"``, the default, or their ``"softmax"``.

    Returns:
        The mean scores of each video.

    Raises:
        SpecError: The stream would leave out clips or replace them, or ``average`` is not valid.
        VideoloadError: What reading the stream raises.
    """
    options = stream.options
    if options.drop_remainder or options.on_error == "substitute" or options.shard[1] > 1:
        raise SpecError(
            "an evaluation needs each clip once: make its stream with drop_remainder=False and "
            'on_error="skip" or "raise", and without shard='
        )
    if options.balance is not None or stream.catalog.parts:
        raise SpecError("an evaluation needs each clip once: no balance= and no mixture")
    if stream.catalog.labels.min() < 0:
        raise SpecError("an evaluation needs a label for each video: some have none (-1)")
    if average not in ("scores", "softmax"):
        raise SpecError(f'average must be "scores" or "softmax", got {average!r}')
    score = function_of(predict)
    convert = softmax if average == "softmax" else np.asarray
    scored = (
        (info.video, convert(np.asarray(score(clips), np.float64)))
        for clips, _, info in stream.batches(info=True)
    )
    catalog = stream.catalog
    found = means_by_video(scored, catalog.labels)
    paths = [catalog[number].path for number in found.video.tolist()]
    return found._replace(paths=paths, classes=catalog.classes)


def means_by_video(
    scored: Iterable[tuple[npt.NDArray[np.int64], Floats]], labels: npt.NDArray[np.int64]
) -> Evaluation:
    """The means of scores [B, classes] of clips of videos, int64 [B]. Raises SpecError."""
    sums, clips = np.empty((len(labels), 0)), np.zeros(len(labels), np.int64)
    for video, scores in scored:
        if scores.ndim != 2 or len(scores) != len(video):
            raise SpecError(
                f"predict returned {list(scores.shape)} for {len(video)} clips, not "
                f"[{len(video)}, classes]"
            )
        if not sums.size:
            sums = np.zeros((len(labels), scores.shape[1]))
        np.add.at(sums, video, scores)
        np.add.at(clips, video, 1)
    found = np.flatnonzero(clips)
    return Evaluation(found, sums[found] / clips[found, None], labels[found], clips[found])


def softmax(scores: Floats) -> Floats:
    """Probabilities of logits, [B, classes]."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def function_of(model: Any) -> Callable[[Any], Any]:
    """What a Keras model, or a function, makes of a batch. Raises SpecError."""
    function = getattr(model, "predict_on_batch", model)
    if not callable(function):
        raise SpecError(f"model must be a Keras model or a function, got {type(model).__name__}")
    return cast(Callable[[Any], Any], function)
