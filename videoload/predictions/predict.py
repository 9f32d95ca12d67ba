"""Every window of whole recordings, through a model.

What is written for a row of the catalog (a file, or a segment of it) depends on that row, the spec
and the model. So a run that was killed goes on, one that is called with further rows or places does
what is missing, and a row that cannot be decoded takes no other with it.
"""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn
from xxhash import xxh3_64_hexdigest

from videoload.arguments import whole
from videoload.catalog.catalog import Catalog
from videoload.catalog.crop_boxes import boxes_of
from videoload.catalog.table import Video
from videoload.clips.clip_spec import ClipSpec, crops_of, dense_hop, hop_seconds
from videoload.errors import BadVideo, SpecError, TooManyBadVideos, VideoloadError, named
from videoload.plan.options import StreamArguments
from videoload.plan.plan import BatchInfo
from videoload.plan.windows import windows_of
from videoload.predictions.evaluation import Average, scores_of
from videoload.predictions.results import (
    Results,
    Target,
    are_close,
    first_numbers,
    row_names,
    segment_of,
)
from videoload.predictions.table import Table
from videoload.predictions.windows import FileScores, Ints, Layout, Scores, Stitcher, Windows
from videoload.storage.paths import pieces_of
from videoload.trainer.client import Client
from videoload.trainer.stream import Stream

_log = logging.getLogger(__name__)

_NAN = "the model gives NaN for windows of %s: they are written as they are"
_RUN_CLIPS, _RUN_BYTES = 64, 64 << 20  # that a worker decodes in one go, at most
_USUAL_FPS = 25.0  # it only decides how long a run is
_WASTE = 0.1  # share of a run whose frames are decoded again for the next one


class Predictions(NamedTuple):
    """What `predict` found.

    Attributes:
        files: The scores of each file, in the order of the catalog: list of `FileScores`. Empty if
            they were written to the disk.
        failed: The files and segments that could not be decoded, each by itself: list of
            `BadVideo`. A later run tries them again.
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
    same way, and ends with the same files. A run that is called again with other rows or another
    place does what is missing there. Results of another spec are refused, and so are those of
    another model: it is asked again about the first window of a row that is done.

    Args:
        model: A Keras model; or a function that is called with the clips of a batch, an array [B,
            *clip.shape], and returns scores or features, [B, ...]: one array.
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
            ``<path>.times.npy`` with start_s and end_s, float64 [n, 2]. Segments of a file have
            their beginning and end behind the path. Default None.
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
    spec = _dense(clip, average)
    table = Table(whole("top", top), classes or catalog.classes)
    if average not in (None, "scores", "softmax"):
        raise SpecError(f'average must be None, "scores" or "softmax", got {average!r}')
    batch_size = whole("batch_size", batch_size)
    model = scores_of(model, average)
    how: StreamArguments = {"on_error": "skip", "max_bad": 1.0}
    if spec.size is None:  # no window is counted for that
        any_clip = replace(spec, sampling="center", hop=None, hop_s=None, edges=None, offsets=None)
        found = client.stream(catalog, any_clip, batch_size, **how).clip
        spec = replace(spec, size=found.size, crop=found.crop)  # type: ignore[union-attr]
    run = _run(spec, batch_size)
    stream = client.stream(catalog, spec, run, **how)
    counts, _ = windows_of(stream.catalog, spec, range(len(catalog)))
    scoring = _Scoring(stream, Layout(counts, run), model, batch_size)
    names = row_names(catalog)
    of = _not_in_names(catalog, spec, names)
    results = Results(to_csv, to_npy, _settings(stream, average), table, names, of)
    try:
        rows = [row for row in np.flatnonzero(counts).tolist() if results.lacks(row)]
        _check_model(scoring, results, sorted({*np.flatnonzero(counts).tolist()} - {*rows}))
        done, with_nan = Predictions([], []), 0
        shown = sys.stderr.isatty() if progress is None else progress
        for row, windows in scoring.of(rows, shown=shown):
            video = catalog[row]
            if windows is None:
                done.failed.append(BadVideo(video.path, _why(stream, row, video)))
                continue
            with_nan += (has_nan := _has_nan(windows.scores))
            if has_nan and with_nan == 1:
                _log.warning(_NAN, named(names[row]))
            scores = windows.file(video.path, averaged=average is not None)
            results.save(row, scores, windows.scores[0])
            if not results.are_kept:
                done.files.append(scores)
        if with_nan > 1:
            _log.warning("the model gives NaN for windows of %d files or segments", with_nan)
        return done
    finally:
        try:
            results.finish()
        finally:
            results.close()


def _dense(clip: ClipSpec, average: Average | None) -> ClipSpec:
    if isinstance(clip, Mapping):
        raise SpecError(
            "predict takes one file a sample: for several, loop over a stream with "
            'sampling="dense" and info=True'
        )
    if not isinstance(clip, ClipSpec) or clip.sampling not in (None, "center", "dense"):
        raise SpecError('predict takes all windows: give a ClipSpec with sampling="dense"')
    if clip.max_frames is not None:
        raise SpecError(
            "predict takes windows of one length: give frames= a number. vl.evaluate has scores of "
            "whole videos"
        )
    if clip.sound is not None:
        raise SpecError("predict shows windows to a model, without their sound: leave sound out")
    if crops_of(clip) > 1 or clip.views > 1:
        raise SpecError(
            f'predict takes one row of a window: leave crop="{clip.crop}" and views= out'
        )
    if clip.edges is not None and average is not None:
        raise SpecError("average= is for windows that fit: leave edges out")
    return replace(clip, sampling="dense")


def _run(spec: ClipSpec, batch_size: int) -> int:
    """How many windows are decoded in one go: so many batches of the model that few frames are
    decoded again for the next run."""
    step_s = 1 / (spec.fps or _USUAL_FPS / spec.stride)  # from one frame of a window to the next
    hop_s = hop_seconds(spec) or dense_hop(spec) / _USUAL_FPS
    overlap = ((spec.frames - 1) * step_s + 1 / _USUAL_FPS) / hop_s - 1
    most = min(_RUN_CLIPS, _RUN_BYTES // spec.clip_bytes) // batch_size
    return batch_size * max(1, min(math.ceil(overlap / _WASTE / batch_size), most))


class _Scoring:
    """The windows of a stream, through a model.

    The model gets the same batches whichever rows are wanted, and whatever cannot be decoded: a
    window that is missing is black there, and nobody sees what the model says of it.
    """

    def __init__(
        self, stream: Stream, layout: Layout, model: Callable[[npt.NDArray[Any]], Scores],
        batch_size: int,
    ) -> None:  # fmt: skip
        self._stream, self.layout = stream, layout
        self._model, self._batch_size = model, batch_size

    def of(self, rows: list[int], *, shown: bool) -> Iterator[tuple[int, Windows | None]]:
        """These rows, which rise, with their windows; None if some cannot be decoded."""
        stitcher, runs = Stitcher(self.layout, rows), self.layout.runs(rows)
        wanted = np.zeros(len(self.layout.counts), bool)
        wanted[rows] = True
        before = 0
        with Progress(
            BarColumn(), TaskProgressColumn(), TimeRemainingColumn(),
            console=Console(stderr=True), disable=not shown,
        ) as bar:  # fmt: skip
            task = bar.add_task("", total=sum(map(len, runs)))
            for steps in runs:
                for clips, info in self._batches(steps):
                    for which, scores in self._scored(clips, info, wanted[info.video]):
                        stitcher.add(info, which, scores)
                    del clips
                    yield from stitcher.complete(info.step + 1)
                    bar.update(task, completed=before + info.step + 1 - steps.start)
                before += len(steps)
                yield from stitcher.complete(steps.stop)

    def first_of(self, row: int) -> Scores | None:
        """What the model says of the first window of a row; None if it cannot be decoded."""
        step = self.layout.steps(row).start
        for clips, info in self._batches(range(step, step + 1)):
            wanted = (info.video == row) & (info.clip == 0)
            for which, scores in self._scored(clips, info, wanted):
                return np.asarray(scores[wanted[which]][0])
        return None

    def _batches(self, steps: range) -> Iterator[tuple[npt.NDArray[Any], BatchInfo]]:
        try:
            for clips, _, info in self._stream._readers.read(steps, info=True):
                yield clips, info
        except TooManyBadVideos:  # all of them
            pass

    def _scored(
        self, clips: npt.NDArray[Any], info: BatchInfo, wanted: npt.NDArray[np.bool_]
    ) -> Iterator[tuple[Ints, Scores]]:
        """The numbers of clips, and what the model says of them, where any of them is wanted."""
        places, length = self.layout.places(info), self.layout.length(info.step)
        for first in range(0, length, self._batch_size):
            count = min(self._batch_size, length - first)
            which = np.flatnonzero((places >= first) & (places < first + count))
            if not wanted[which].any():
                continue
            own = clips[which[0] : which[-1] + 1]
            if len(which) < count:
                given = np.zeros((count, *clips.shape[1:]), clips.dtype)
                given[places[which] - first] = own
                own = given
            yield which, self._model(own)[places[which] - first]


def _settings(stream: Stream, average: Average | None) -> dict[str, str]:
    """What decides on the results of a row, but for the model and the file."""
    own = {"kind", "code", *(field.name for field in fields(ClipSpec))}
    settings = stream._readers.identity.settings
    return {name: settings[name] for name in settings if name in own} | {"average": repr(average)}


def _not_in_names(catalog: Catalog, spec: ClipSpec, names: Sequence[str]) -> dict[str, str]:
    """What else decides on the results of a row: further pieces of a recording, and boxes."""
    found = {}
    for row, name in enumerate(names):
        boxes = boxes_of(catalog, row) if spec.crop == "box" else b""
        if boxes or len(pieces_of(catalog.paths[row])) > 1:
            path = catalog.paths[row].encode("utf-8", "surrogateescape")
            found[name] = xxh3_64_hexdigest(path + boxes)
    return found


def _check_model(scoring: _Scoring, results: Results, done: list[int]) -> None:
    """Raise VideoloadError if the results that are there are another model's."""
    told = [row for row in done if results.told(row) is not None]
    if not told:
        return
    _log.info("%d rows were done in an earlier run", len(done))
    before, now = results.told(told[0]), scoring.first_of(told[0])
    if before is not None and now is not None and not are_close(before, first_numbers(now)):
        raise VideoloadError(
            f"the results that are there are of another model: of the first window of "
            f"{results.name(told[0])} it said {before[:3]}, and this one says "
            f"{first_numbers(now)[:3]}. Write to another place, or delete the results and their "
            ".progress"
        )


def _has_nan(scores: Scores) -> bool:
    return scores.dtype.kind == "f" and bool(np.isnan(scores).any())


def _why(stream: Stream, row: int, video: Video) -> str:
    reason = stream._readers.quarantine.reasons.get(row, "some windows cannot be decoded")
    segment = segment_of(video)
    return f"segment {segment[1:]}: {reason}" if segment else reason
