"""A test on many clips and crops of each video, averaged by video.

The usual protocols score a video by the mean of its clips' scores (10 clips x 3 crops: Wang et al.
2018, Non-local Neural Networks).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.errors import SpecError
from videoload.trainer.stream import Stream

Floats = npt.NDArray[np.float64]


class Evaluation(NamedTuple):
    """The scores of each video.

    Attributes:
        video: Index in the catalog of each video that has a clip, int64 [V], rising.
        scores: Mean of its clips' scores, float64 [V, classes].
        labels: Label of each video, int64 [V].
        clips: Number of its clips (times crops) in the mean, int64 [V].
    """

    video: npt.NDArray[np.int64]
    scores: Floats
    labels: npt.NDArray[np.int64]
    clips: npt.NDArray[np.int64]

    def accuracy(self, top: int = 1) -> float:
        """Share of the videos whose label is among the classes with the ``top`` highest scores.

        Args:
            top: The number of classes that count. Default 1.

        Returns:
            0 to 1. If scores are equal, the class with the lower number comes first.
        """
        best = np.argsort(-self.scores, axis=1, kind="stable")[:, :top]
        return float((best == self.labels[:, None]).any(axis=1).mean())


def evaluate(
    predict: Callable[[Any], Any],
    stream: Stream,
    *,
    average: Literal["scores", "softmax"] = "scores",
) -> Evaluation:
    """Test a model on one epoch of a stream, averaged by video.

        clip = vl.ClipSpec(frames=32, stride=2, resize=256, size=(256, 256),
                           sampling="uniform", clips_per_video=10)
        test = client.stream(catalog, clip, batch_size=8, drop_remainder=False, on_error="skip")
        print(vl.evaluate(model.predict_on_batch, test).accuracy())

    Args:
        predict: Called with the clips of a batch, [B, *clip.shape]; returns the scores (logits or
            probabilities) of each, [B, classes]: ``model.predict_on_batch`` of a Keras model.
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
    if average not in ("scores", "softmax"):
        raise SpecError(f'average must be "scores" or "softmax", got {average!r}')
    convert = softmax if average == "softmax" else np.asarray
    scored = (
        (info.video, convert(np.asarray(predict(clips), np.float64)))
        for clips, _, info in stream.batches(info=True)
    )
    return means_by_video(scored, stream.catalog.labels)


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
