"""Evaluate a model on many clips and crops of each video, averaged per video, as usually published.

The usual protocols score a video by the mean of its clips' scores (10 clips x 3 crops: Wang et al.
2018, Non-local Neural Networks). The measures depend on the catalog's targets: one class, several
labels (multi-hot), or numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt

from videoload import Catalog, Client, ClipSpec
from videoload.clips.clip_spec import is_padded
from videoload.errors import BadVideo, SpecError, VideoloadError, count, named, some
from videoload.plan.options import StreamOptions, takes_options

Average = Literal["scores", "softmax"]
Kind = Literal["class", "labels", "numbers"]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Scores = npt.NDArray[Any]

_SOFTMAX = 'average="softmax" is for the scores of classes, not for other targets'


class Evaluation(NamedTuple):
    """The scores of each video.

    Attributes:
        video: Index in the catalog of each video that has a clip, int64 [V], increasing.
        scores: Mean of its clips' scores, float64 [V, K].
        labels: Label of each video, int64 [V]; or its labels (multi-hot) or numbers, float64 [V,
            K].
        clips: Number of its clips (times crops) in the mean, int64 [V].
        paths: Path of each video, relative to the catalog's root: str [V]. Default (): not known.
        classes: Names of the classes or numbers. Default (): not known.
        kind: What was measured: ``"class"``, the default, ``"labels"`` or ``"numbers"``.
        failed: The videos that could not be decoded: list of `BadVideo`. Default: none.
    """

    video: Ints
    scores: Floats
    labels: npt.NDArray[Any]
    clips: Ints
    paths: Sequence[str] = ()
    classes: Sequence[str] = ()
    kind: Kind = "class"
    failed: Sequence[BadVideo] = ()

    def accuracy(self) -> float:
        """Return the share of the videos, 0 to 1, whose class has the highest score. Of equal
        scores, the one of the class with the lower number counts."""
        self._only_classes()
        return float((self.scores.argmax(axis=1) == self.labels).mean())

    def confusion(self) -> Ints:
        """Count how many videos of each class were taken for which.

        Returns:
            int64 [classes, classes]: a row for each label, a column for each class that has the
            highest score. The diagonal is what is right.
        """
        self._only_classes()
        found = np.zeros((self._classes, self._classes), np.int64)
        np.add.at(found, (self.labels, self.scores.argmax(axis=1)), 1)
        return found

    @property
    def _classes(self) -> int:
        return max(int(self.scores.shape[1]), len(self.classes))

    def _only_classes(self) -> None:
        if self.kind != "class":
            raise SpecError(
                f'this is an evaluation of "{self.kind}": give its labels and scores to a measure '
                "of scikit-learn"
            )

    def __repr__(self) -> str:
        if not len(self.video):
            return "Evaluation of no videos"
        least, most = int(self.clips.min()), int(self.clips.max())
        clips = f"{most}" if least == most else f"{least} to {most}"
        noun = "clip" if most == 1 else "clips"
        of_each = count(self.scores.shape[1], self.kind.removesuffix("s"))
        what = f"in {self._classes} classes" if self.kind == "class" else f"with {of_each}"
        lines = [f"Evaluation of {len(self.video)} videos {what}, {clips} {noun} each"]
        if self.kind == "class":
            lines.append(f"accuracy {self.accuracy():.1%}")
        if self.failed:
            files = count(len(self.failed), "file")
            lines.append(f"{files} cannot be decoded, as {named(self.failed[0].path)}")
        return "\n".join(lines)


@partial(takes_options, on_error="skip")
def evaluate(
    model: Any,
    client: Client,
    catalog: Catalog,
    clip: ClipSpec | Mapping[str, ClipSpec],
    batch_size: int | None = 8,
    *,
    average: Average = "scores",
    **options: Unpack[StreamOptions],
) -> Evaluation:
    """Test a model on each clip of a catalog once, averaged by video.

    Examples:
        >>> ten = dataclasses.replace(clip, sampling="uniform", clips_per_video=10)
        >>> found = vl.evaluate(model, client, test, ten)
        >>> 0 <= found.accuracy() <= 1
        True

    What is measured follows from the catalog. Classes have accuracy and confusion. For all other
    measures, and for numbers and targets of 0 and 1 in several columns (multi-hot), give ``labels``
    and ``scores`` to scikit-learn.

    Args:
        model: A Keras model; or a function that is called with the clips of a batch, an array [B,
            *clip.shape], and returns the scores (logits or probabilities) of each, [B, classes], or
            its numbers. With clips of any length, the function is called with their mask, bool [B,
            T], as well, and so is a Keras model, unless it has one input.
        client: Its workers decode.
        catalog: Which videos, and their labels or targets.
        clip: As in `Client.stream`. Several clips, crops or windows of a video are averaged.
        batch_size: Clips that the model gets at once, at least 1. Default 8. At the end they may be
            fewer.
        average: What to average: ``"scores"``, the default, or the ``"softmax"`` of classes'
            scores.
        **options: As in `Client.stream`.

    Returns:
        The mean scores of each video.

    Raises:
        SpecError: The catalog has no labels, or targets that are none of these; the model does not
            return what they need.
        VideoloadError: The model fails or gives NaN; or what reading a stream raises.
    """
    if average not in ("scores", "softmax"):
        raise SpecError(f'average must be "scores" or "softmax", got {average!r}')
    truth = _truth_of(catalog)
    if average == "softmax" and not (truth.ndim == 1 and truth.dtype.kind in "iu"):
        raise SpecError(_SOFTMAX)
    options.setdefault("on_error", "skip")
    stream = client.stream(catalog, clip, batch_size, **options)
    score = scores_of(model, average if average == "softmax" else None)
    inputs = getattr(model, "inputs", None)
    parts = stream.clip if isinstance(stream.clip, Mapping) else {"": stream.clip}
    masked = "" in parts and is_padded(parts[""])
    masked = masked and (inputs is None or len(inputs) > 1)
    check_inputs(model, parts=len(parts), masked=masked)

    def scored() -> Iterable[tuple[Ints, Scores]]:
        for clips, _, info in stream.batches(0, info=True):
            mask = info.mask if masked else None
            scores = np.asarray(score(clips, info.path, mask), np.float64)
            if (wrong := np.isnan(scores.reshape(len(scores), -1)).any(axis=1)).any():
                raise VideoloadError(
                    f"the model gives NaN for a clip of {named(info.path[wrong.argmax()])}: a mean "
                    "needs numbers; vl.predict keeps NaN as it is"
                )
            _has_classes(truth, catalog, scores)  # hours before the end
            yield info.video, scores
            del clips

    found = judged(means_by_video(scored(), len(catalog)), truth, catalog)
    if average == "softmax" and found.kind != "class":  # whole numbers, of which there is one
        raise SpecError(_SOFTMAX)
    return found._replace(failed=stream.quarantine)


def _truth_of(catalog: Catalog) -> npt.NDArray[Any]:
    """Return the labels or targets of the rows, [N] or [N, ...]. Raises SpecError."""
    if catalog.parts:
        raise SpecError("an evaluation needs each clip once: evaluate the parts of a mixture alone")
    targets = catalog.targets
    if isinstance(targets, dict):
        if len(targets) > 1:
            name = next(iter(targets))
            raise SpecError(
                f"an evaluation is of one kind of targets, and there are {', '.join(targets)}: "
                f"choose one, as with_targets(catalog.targets[{name!r}])"
            )
        [targets] = targets.values()
    if targets is not None and not (
        isinstance(targets, np.ndarray) and targets.dtype.kind in "biuf"
    ):
        raise SpecError(
            "targets of each frame, points, boxes and text are not averaged by video: "
            'loop over a stream with on_error="skip" and compare them there'
        )
    truth = catalog.labels if targets is None else targets
    if targets is None:
        _has_classes(truth, catalog, truth)
    return truth


def judged(found: Evaluation, truth: npt.NDArray[Any], catalog: Catalog) -> Evaluation:
    """Return the means, with the catalog's targets. Raises SpecError."""
    own = truth[found.video]
    paths = [catalog.paths[number] for number in found.video.tolist()]
    found = found._replace(paths=paths, classes=catalog.classes)
    width = int(np.prod(found.scores.shape[1:]))
    if _has_classes(truth, catalog, found.scores):
        needed = int(own.max(initial=1)) + 1
        if found.scores.ndim != 2 or width < needed:
            raise SpecError(
                f"the model returns {list(found.scores.shape[1:])} for a clip, not a score for "
                f"each of {max(needed, len(catalog.classes))} classes (for one probability p, "
                "return [1 - p, p])"
            )
        return found._replace(labels=own)
    numbers = own.reshape(len(own), -1).astype(np.float64)
    if width != numbers.shape[1]:
        raise SpecError(
            f"the model returns {width} numbers for a clip, and a target has {numbers.shape[1]}: "
            "it must return one for each"
        )
    hot = truth.ndim == 2 and truth.shape[1] > 1 and bool(np.isin(truth, (0, 1)).all())
    names = catalog.classes if hot and len(catalog.classes) == width else ()
    kind: Kind = "labels" if hot else "numbers"
    scores = found.scores.reshape(len(own), -1)
    return found._replace(scores=scores, labels=numbers, kind=kind, classes=names)


def _has_classes(truth: npt.NDArray[Any], catalog: Catalog, scores: Scores) -> bool:
    """Return whether the truth of each row is one class, for ``scores`` [B, ...]. Raises SpecError
    if rows have none."""
    is_number = catalog.targets is not None and int(np.prod(scores.shape[1:])) <= 1
    if truth.ndim != 1 or truth.dtype.kind not in "iu" or is_number:
        return False
    if lacking := np.count_nonzero(truth < 0):
        row = int((truth < 0).argmax())
        raise SpecError(
            f"{lacking} of {len(catalog)} rows have no label to compare with, as row {row} "
            f"({named(catalog.paths[row])}), which has {truth[row]}: omit them"
        )
    return True


def means_by_video(scored: Iterable[tuple[Ints, Scores]], videos: int) -> Evaluation:
    """Return the means of scores [B, ...] of clips of videos, int64 [B]; without labels."""
    sums, clips = np.zeros((videos, 0)), np.zeros(videos, np.int64)
    for video, scores in scored:
        if not sums.size:
            sums = np.zeros((videos, *scores.shape[1:]))
        np.add.at(sums, video, scores)
        np.add.at(clips, video, 1)
    found = np.flatnonzero(clips)
    counts = clips[found].reshape(-1, *[1] * (sums.ndim - 1))
    return Evaluation(found, sums[found] / counts, np.zeros(len(found)), clips[found])


def softmax(scores: Floats) -> Floats:
    """Probabilities of logits, [B, classes]."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def check_inputs(model: Any, *, parts: int = 1, masked: bool = False) -> None:
    """Check that a model takes the clips, of each part of a sample, and their mask if there is one:
    no targets. Raises SpecError for other signatures."""
    given, wrong = ["clips", *["their mask"] * masked], ""
    if (inputs := getattr(model, "inputs", None)) is not None:
        wrong = f"takes {len(inputs)} inputs" * (len(inputs) != parts + masked)
    elif not hasattr(model, "predict_on_batch"):
        try:
            inspect.signature(model).bind(*given)
        except TypeError as error:
            wrong = f"cannot be called: {error}"
        except ValueError:  # its signature is unknown
            pass
    if wrong:
        raise SpecError(f"the model is given only {' and '.join(given)}, and {wrong}")


def scores_of(model: Any, average: Average | None) -> Callable[..., Scores]:
    """Return the scores of a Keras model, or a function, for clips of these paths, and a mask if
    there is one: a row for each. Raises SpecError for wrong results."""
    is_keras = hasattr(model, "predict_on_batch")
    function = model.predict_on_batch if is_keras else model
    if not callable(function):
        raise SpecError(f"model must be a Keras model or a function, got {type(model).__name__}")
    if not is_keras and hasattr(model, "named_parameters"):
        raise SpecError("the model is a PyTorch module: give vl.torch.as_model(model)")
    shapes: dict[None, tuple[int, ...]] = {}  # of a clip's scores, once they are known

    def score(
        clips: npt.NDArray[Any],
        paths: Iterable[str],
        mask: npt.NDArray[np.bool_] | None = None,
    ) -> Scores:
        given = (clips,) if mask is None else (clips, mask)
        try:
            said = function([*given]) if is_keras and mask is not None else function(*given)
            if isinstance(said, tuple | dict) or (isinstance(said, list) and np.ndim(said[0])):
                raise SpecError(
                    f"the model returned a {type(said).__name__} of {len(said)}, not an array with "
                    "a row for each clip: wrap the model, and choose one of its outputs, or join "
                    "them"
                )
            scores = np.asarray(said)
        except VideoloadError:
            raise
        except Exception as error:
            name = getattr(model, "__qualname__", type(model).__name__)
            files = some([*dict.fromkeys(map(named, paths))])
            raise VideoloadError(f"model {name} failed on clips of {files}: {error!r}") from error
        if scores.ndim < 1 or len(scores) != len(clips):
            raise SpecError(
                f"the model returned {list(scores.shape)} for {len(clips)} clips, not "
                f"[{len(clips)}, ...]"
            )
        if scores.dtype.kind in "OSUMmc":
            raise SpecError(f"the model returned an array of {scores.dtype}, not of numbers")
        scores = scores[:, None] if scores.ndim == 1 else scores
        if scores.shape[1:] != shapes.setdefault(None, scores.shape[1:]):
            raise SpecError(
                f"the model returned {list(shapes[None])} for a clip, and then "
                f"{list(scores.shape[1:])}: scores of all clips need one shape"
            )
        return softmax(scores.astype(np.float64)) if average == "softmax" else scores

    return score
