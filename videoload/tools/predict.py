"""Every window of whole recordings, through a model.

What is written for a row of the catalog (a file, or a segment of it) depends on that row, the spec
and the model. So a run that was killed resumes, one that is called with further rows or places does
what is missing, and a row that cannot be decoded takes no other with it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

from videoload import Catalog, Client, ClipSpec, Stream
from videoload.arguments import suggests, whole
from videoload.clips.clip_spec import crops_of, dense_hop, hop_seconds, varies_by
from videoload.clips.rows import Video
from videoload.errors import BadVideo, SpecError, TooManyBadVideos, named
from videoload.logs import Log
from videoload.plan.batches import BatchInfo
from videoload.plan.windows import windows_of
from videoload.tools.evaluation import Average, check_inputs, scores_of
from videoload.tools.predict_windows import FileScores, Ints, Layout, Scores, Stitcher, Windows
from videoload.tools.provenance import provenances_of, weights_digest
from videoload.tools.results import Results, Target, WindowTable, row_names, segment_of

_log = Log(__name__)

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
        written: Each table and folder that was written to, and how many files and segments have
            their results there, those of earlier runs included: dict of int by path.
    """

    files: list[FileScores]
    failed: list[BadVideo]
    written: dict[str, int]


@suggests
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
    name: str | None = None,
    progress: bool | None = None,
) -> Predictions:
    """Run a model on every window of every file of a catalog.

    Examples:
        >>> windows = vl.ClipSpec(frames=16, hop=8, sampling="dense", resize=128, size=112)
        >>> found = vl.predict(model, client, catalog, windows, to_csv="windows.csv")

    With ``to_csv`` or ``to_npy``, a run that was stopped or killed resumes if it is called in the
    same way, and ends with the same files. A run that is called again with other rows or another
    place does what is missing there. A row is done again if the model is another one, by its
    weights or its ``name``, or if the content of its file is. Results of another spec are refused.

    Args:
        model: A Keras model; or a function that is called with the clips of a batch, an array [B,
            *clip.shape], and returns scores or features, [B, ...]: one array. It is given no
            targets.
        client: Its workers decode.
        catalog: Which files. Segments of a file count as files.
        clip: The windows: with ``sampling="dense"``. The default sampling of a ClipSpec means
            ``"dense"``.
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
        name: Identifies the model, as ``"epoch 12"``. Default None: the weights of a
            Keras model, or of a callable with the ``state_dict`` of a PyTorch module. A function
            has none: without a name, a later run does all rows again.
        progress: Show a progress bar with the time that is left on stderr. None, the default: if it
            is a terminal.

    Returns:
        The scores of all files, if they are not written to the disk; the videos that failed; and
        what was written where.

    Raises:
        SpecError: The arguments contradict each other, or the model does not return a row for each
            clip.
        VideoloadError: The model fails; ``to_csv`` or ``to_npy`` holds other results, or cannot be
            written; or what reading a stream raises, but for videos that cannot be decoded.
    """
    spec = _dense(clip, average)
    names_given = catalog.classes if classes is None else classes
    table = WindowTable(whole("top", top), names_given, classes is not None)
    if average not in (None, "scores", "softmax"):
        raise SpecError(f'average must be None, "scores" or "softmax", got {average!r}')
    batch_size, kept = whole("batch_size", batch_size), (to_csv, to_npy) != (None, None)
    score = scores_of(model, average)
    check_inputs(model)
    of_model = weights_digest(model) if kept and name is None else name
    if kept and of_model is None:
        _log.warning("this model cannot be identified: a later run does all rows again. "
                     "Give both runs the same name (name=, --name) to reuse them")  # fmt: skip
    how: Any = {"on_error": "skip", "max_bad": 1.0}
    if spec.size is None:  # no window is counted for that
        any_clip = replace(spec, sampling="center", hop=None, hop_s=None, edges=None, offsets=None)
        found = client.stream(catalog, any_clip, batch_size, **how).clip
        spec = replace(spec, size=found.size, crop=found.crop)
    run = _run(spec, batch_size)
    stream = client.stream(catalog, spec, run, **how)
    counts, _ = windows_of(stream.catalog, spec, range(len(catalog)))
    scoring = _Scoring(stream, Layout(counts, run), score, batch_size)
    names = row_names(catalog)
    provenances = provenances_of(client if kept else None, catalog, spec, names, of_model)
    results = Results(to_csv, to_npy, _settings(stream, average), table, provenances)
    try:
        rows = [row for row in np.flatnonzero(counts).tolist() if results.lacks(row)]
        done, with_nan = Predictions([], [], {}), []
        shown = sys.stderr.isatty() if progress is None else progress
        for row, windows in scoring.of(rows, shown=shown):
            video = catalog[row]
            if windows is None:
                done.failed.append(BadVideo(video.path, _why(stream, row, video)))
                results.save(row, None)
                continue
            if windows.scores.dtype.kind == "f" and np.isnan(windows.scores).any():
                with_nan.append(names[row])
            scores = windows.file(video.path, averaged=average is not None)
            results.save(row, scores)
            if not kept:
                done.files.append(scores)
        if with_nan:
            _log.warning("the model gives NaN for windows of %d rows, as %s: they are written as "
                         "they are", len(with_nan), named(with_nan[0]))  # fmt: skip
        done.written.update(results.written())
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
    shapes = " and ".join(f"{name}=" for name in varies_by(clip))
    for is_wrong, why in (
        (bool(shapes), f"shows windows of one shape, and clips have several by {shapes}: leave it "
         "out; vl.evaluate has scores of such clips"),
        (clip.audio_rate is not None, "shows windows without their audio: omit audio_rate="),
        (crops_of(clip) > 1 or clip.views > 1,
         f'takes one row of a window: leave crop="{clip.crop}" and views= out'),
        (clip.edges is not None and average is not None,
         "averages windows that fit: omit edges"),
    ):  # fmt: skip
        if is_wrong:
            raise SpecError(f"predict {why}")
    return replace(clip, sampling="dense", align=None)


def _run(spec: ClipSpec, batch_size: int) -> int:
    """Return how many windows are decoded together: so many batches of the model that few frames
    are decoded again for the next ones."""
    step_s = 1 / (spec.fps or _USUAL_FPS / spec.stride)  # from one frame of a window to the next
    hop_s = hop_seconds(spec) or dense_hop(spec) / _USUAL_FPS
    overlap = ((spec.frames - 1) * step_s + 1 / _USUAL_FPS) / hop_s - 1
    most = min(_RUN_CLIPS, _RUN_BYTES // spec.clip_bytes) // batch_size
    return batch_size * max(1, min(math.ceil(overlap / _WASTE / batch_size), most))


class _Scoring:
    """Scores the windows of a stream with a model. The model always gets the same batches, for any
    requested rows, and with undecodable ones: a missing window is black, and its score is dropped.
    """

    def __init__(
        self, stream: Stream, layout: Layout, model: Callable[..., Scores],
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

    def _batches(self, steps: range) -> Iterator[tuple[npt.NDArray[Any], BatchInfo]]:
        try:
            for clips, _, info in self._stream.read(steps, info=True):
                yield clips, info
        except TooManyBadVideos:  # all of them
            pass

    def _scored(
        self, clips: npt.NDArray[Any], info: BatchInfo, wanted: npt.NDArray[np.bool_]
    ) -> Iterator[tuple[Ints, Scores]]:
        """Yield the numbers of clips, and the model's scores, for batches with any requested
        clip."""
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
            yield which, self._model(own, info.path[which])[places[which] - first]


def _settings(stream: Stream, average: Average | None) -> dict[str, str]:
    """Return the settings that determine a row's results, besides the model and the file."""
    spec = {field.name: repr(getattr(stream.clip, field.name)) for field in fields(ClipSpec)}
    return {**spec, "average": repr(average), "code": repr(stream.source.code)}


def _why(stream: Stream, row: int, video: Video) -> str:
    reasons = stream.source.state.quarantine.reasons
    reason = reasons.get(row, "some windows cannot be decoded")
    segment = segment_of(video)
    return f"segment {segment[1:]}: {reason}" if segment else reason
