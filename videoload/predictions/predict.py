"""Every window of whole recordings, through a model.

The batches of a stream without shuffling hold the windows of one file after the other. So a run
that was killed goes on at the step where the first file without a result begins, and the model
gets the same batches as in a run that was not killed.
"""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from videoload.arguments import whole
from videoload.catalog.catalog import Catalog
from videoload.catalog.table import Video
from videoload.clips.clip_spec import ClipSpec
from videoload.errors import BadVideo, SpecError, TooManyBadVideos
from videoload.plan.identity import Identity
from videoload.plan.options import StreamArguments
from videoload.predictions.evaluation import function_of, softmax
from videoload.predictions.progress import progress_bar
from videoload.predictions.results import Results, Target
from videoload.predictions.stitching import FileScores, Scores, Stitcher, Windows
from videoload.predictions.table import Table
from videoload.trainer.client import Client
from videoload.trainer.stream import Stream

Average = Literal["scores", "softmax"]

_log = logging.getLogger(__name__)

_RUN_CLIPS, _RUN_BYTES = 64, 64 << 20  # that a worker decodes in one go, at most
_USUAL_FPS = 25.0  # it only decides how long a run is
_WASTE = 0.1  # share of a run whose frames are decoded again for the next one


class Predictions(NamedTuple):
    """What `predict` found.

    Attributes:
        files: The scores of each file, in the order of the catalog: list of `FileScores`. Empty if
            they were written to the disk.
        failed: The videos that could not be decoded: list of `BadVideo`.
    """

    files: list[FileScores]
    failed: list[BadVideo]


def predict(
    model: Any,
    client: Client,
    catalog: Catalog,
    clip: ClipSpec,
    batch_size: int = 8,
    *,
    to_csv: Target = None,
    to_npy: Target = None,
    average: Average | None = None,
    top: int = 1,
    classes: Sequence[str] | None = None,
    progress: bool | None = None,
) -> Predictions:
    """Take every window of every file of a catalog through a model.

        windows = vl.ClipSpec(frames=16, stride=2, hop=8, sampling="dense", resize=128,
                              size=(112, 112))
        with vl.Client() as client:
            vl.predict(model, client, catalog, windows, to_csv="windows.csv")

    With ``to_csv`` or ``to_npy``, a run that was stopped or killed goes on if it is called in the
    same way: with the file that it was at. The results are the same as without the interruption.
    What is written belongs to one catalog, spec and batch size; anything else is refused. The model
    is not compared.

    Args:
        model: A Keras model; or a function that is called with the clips of a batch, an array [B,
            *clip.shape], and returns scores or features, [B, ...].
        client: Its workers decode.
        catalog: Which files. Segments of a file count as files.
        clip: The windows: with ``sampling="dense"``. What a ClipSpec says by default is
            taken as ``"dense"``.
        batch_size: Windows that the model gets at once, at least 1. Default 8. At the end of a run
            they may be fewer.
        to_csv: A file that ends with ``.csv``: a table of all files with the columns path, start_s,
            end_s, class, score. Another name: a folder with such a table for each file. Default
            None.
        to_npy: Folder for two arrays of each file: ``<path>.npy`` with the scores [n, ...], and
            ``<path>.times.npy`` with start_s and end_s, float64 [n, 2]. Default None.
        average: Overlapping windows become a curve: the score at the beginning of each window is
            the mean of all windows that show it, and holds until the next one begins. It is the
            mean of ``"scores"``, or of their ``"softmax"``. Default None: the windows themselves.
        top: Classes of each window in the CSV, those with the highest scores. Default 1.
        classes: Their names. None, the default: those of the catalog, if there are as many as
            scores; else numbers from 0 on.
        progress: Show a progress bar with the time that is left on stderr. None, the default: if it
            is a terminal.

    Returns:
        The scores of all files, if they are not written to the disk; and the videos that failed.

    Raises:
        SpecError: The arguments contradict each other, or the model does not return a row for each
            clip.
        VideoloadError: ``to_csv`` or ``to_npy`` holds other results, or cannot be written; or what
            reading a stream raises, but for videos that cannot be decoded.
    """
    spec = _dense(clip)
    table = Table(whole("top", top), classes or catalog.classes)
    if average not in (None, "scores", "softmax"):
        raise SpecError(f'average must be None, "scores" or "softmax", got {average!r}')
    batch_size = whole("batch_size", batch_size)
    score = _scores_of(model, batch_size, average)
    how: StreamArguments = {"drop_remainder": False, "on_error": "skip", "max_bad": 1.0}
    if spec.size is None:  # no window is counted for that
        any_clip = replace(spec, sampling="center", hop=None, hop_s=None)
        found = cast(ClipSpec, client.stream(catalog, any_clip, batch_size, **how).clip)
        spec = replace(spec, size=found.size, crop=found.crop)
    stream = client.stream(catalog, spec, _run(spec, batch_size), **how)
    results = Results(to_csv, to_npy, _identity(stream, batch_size, average, table), table)
    kept: list[FileScores] = []
    if results.next_video:
        _log.warning(
            "%d of %d files were done in an earlier run, perhaps with another model: delete the "
            "results to begin again", results.next_video, len(catalog),
        )  # fmt: skip
    try:
        steps = range(results.step, len(stream))
        with progress_bar(len(steps), sys.stderr.isatty() if progress is None else progress) as bar:
            for step, done in _complete(stream, steps, results.next_video, score, bar):
                scores = _save(results, stream, done, step, averaged=average is not None)
                if scores is not None and not results.are_kept:
                    kept.append(scores)
        return Predictions(kept, results.failed)
    finally:
        results.close()


def _dense(clip: ClipSpec) -> ClipSpec:
    if isinstance(clip, Mapping):
        raise SpecError(
            "predict takes one file a sample: for several, loop over a stream with "
            'sampling="dense" and info=True'
        )
    if not isinstance(clip, ClipSpec) or clip.sampling not in (None, "center", "dense"):
        raise SpecError('predict takes all windows: give a ClipSpec with sampling="dense"')
    if clip.sound is not None:
        raise SpecError("predict shows windows to a model, without their sound: leave sound out")
    if clip.crops > 1 or clip.views > 1:
        raise SpecError(
            f'predict takes one row of a window: leave crop="{clip.crop}" and views= out'
        )
    return replace(clip, sampling="dense")


def _run(spec: ClipSpec, batch_size: int) -> int:
    """How many windows are decoded in one go: so many batches of the model that few frames are
    decoded again for the next run."""
    step_s = 1 / (spec.fps or _USUAL_FPS / spec.stride)  # from one frame of a window to the next
    hop_s = spec.hop_seconds or spec.dense_hop / _USUAL_FPS
    overlap = ((spec.frames - 1) * step_s + 1 / _USUAL_FPS) / hop_s - 1
    most = min(_RUN_CLIPS, _RUN_BYTES // spec.clip_bytes) // batch_size
    return batch_size * max(1, min(math.ceil(overlap / _WASTE / batch_size), most))


def _scores_of(
    model: Any, batch_size: int, average: Average | None
) -> Callable[[npt.NDArray[Any]], Scores]:
    function = function_of(model)

    def score(clips: npt.NDArray[Any]) -> Scores:
        parts = []
        for first in range(0, len(clips), batch_size):
            rows = clips[first : first + batch_size]
            part = np.asarray(function(rows))
            if part.ndim < 1 or len(part) != len(rows):
                raise SpecError(
                    f"the model returned {list(part.shape)} for {len(rows)} clips, not "
                    f"[{len(rows)}, ...]"
                )
            parts.append(part[:, None] if part.ndim == 1 else part)
        scores = np.concatenate(parts)
        return softmax(scores.astype(np.float64)) if average == "softmax" else scores

    return score


def _identity(stream: Stream, batch_size: int, average: Average | None, table: Table) -> Identity:
    """What decides on the results, but for the model."""
    settings = dict(stream.readers.identity.settings)
    settings |= {"batch_size": str(batch_size), "top": str(table.top)}
    settings |= {"average": repr(average), "names": repr(tuple(table.classes))}
    return Identity(settings)


def _complete(
    stream: Stream,
    steps: range,
    next_video: int,
    score: Callable[[npt.NDArray[Any]], Scores],
    bar: Callable[[int], None],
) -> Iterator[tuple[int, Windows | None]]:
    """The files that are complete, with the step at which the next one begins. The last item is of
    the end of the stream."""
    stitcher = Stitcher(next_video)
    try:
        for clips, _, info in _batches(stream, steps):
            for done in stitcher.add(info, score(clips)):
                yield info.step, done
            bar(info.step + 1 - steps.start)
    except TooManyBadVideos:  # all of them
        pass
    yield from ((steps.stop, done) for done in stitcher.end(len(stream.catalog)))
    yield steps.stop, None


def _batches(stream: Stream, steps: range) -> Iterable[Any]:
    return stream.readers.read(steps, info=True) if steps else ()


def _save(
    results: Results, stream: Stream, done: Windows | None, step: int, *, averaged: bool
) -> FileScores | None:
    """Save the scores of a file, and what has failed before it or in it."""
    catalog, bad = stream.catalog, dict(stream.quarantine)
    next_video = len(catalog) if done is None else done.next_video
    named = dict(results.failed)
    paths = dict.fromkeys(catalog[i].path for i in range(results.next_video, next_video))
    failed = [BadVideo(path, bad[path]) for path in paths if path in bad and path not in named]
    scores, name = None, ""
    if done is not None and catalog[done.video].path not in bad:
        video = catalog[done.video]
        scores = done.file(video.path, averaged=averaged)
        name = video.path + _segment(video)
    results.save(scores, name, next_video=next_video, step=step, failed=failed)
    return scores


def _segment(video: Video) -> str:
    """What distinguishes the results of a segment from those of other segments of its file."""
    if video.start_s is not None or video.end_s is not None:
        return f".{video.start_s or 0:g}-{'' if video.end_s is None else f'{video.end_s:g}'}s"
    if video.start or video.end is not None:
        return f".{video.start}-{'' if video.end is None else video.end}"
    return ""
