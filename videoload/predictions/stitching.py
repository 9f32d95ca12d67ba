"""The windows of a stream, put together file by file. Pure.

The windows of a file come one after the other, and the files in the order of the catalog. A file
is complete when a window of another one comes, or when there are no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.plan.plan import BatchInfo

Scores = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class FileScores(NamedTuple):
    """What the model says of the windows of one file, or of a segment of it, in order.

    Attributes:
        path: The file, relative to the catalog's root.
        scores: What the model returned for each window, [n, ...].
        start_s: When a player shows the first frame of each window, in seconds from the first frame
            of the file: float64 [n]. NaN if the file does not tell.
        end_s: The same of its last frame: float64 [n].
    """

    path: str
    scores: Scores
    start_s: Floats
    end_s: Floats


class Windows(NamedTuple):
    """The windows of one ``video``, of which the model has said ``scores`` [n, ...]: the ordinals
    of their first and last source frames, and their times. The next window is of ``next_video``."""

    video: int
    next_video: int
    scores: Scores
    first: Ints
    last: Ints
    start_s: Floats
    end_s: Floats

    def file(self, path: str, *, averaged: bool) -> FileScores:
        """The scores of the windows; or, ``averaged``, of what lies between their beginnings."""
        if not averaged:
            return FileScores(path, self.scores, self.start_s, self.end_s)
        ends = np.append(self.start_s[1:], self.end_s[-1:])
        return FileScores(path, curve(self.scores, self.first, self.last), self.start_s, ends)


def curve(scores: Scores, first: Ints, last: Ints) -> Scores:
    """For the first frame of each window, the mean score of all windows that show it: float64 of
    the shape of ``scores``. Windows begin later and later, and end later and later."""
    ends = np.searchsorted(first, first, "right")  # the windows from here on begin later
    begins = np.searchsorted(last, first, "left")  # those before have ended
    rows = scores.astype(np.float64)
    return np.stack([rows[a:b].mean(axis=0) for a, b in zip(begins, ends, strict=True)])


@dataclass
class Stitcher:
    """Puts windows together. Those of videos before ``next_video`` are left out."""

    next_video: int = 0
    _video: int | None = None
    _rows: list[tuple[Scores, Ints, Ints, Floats, Floats]] = field(default_factory=list)

    def add(self, info: BatchInfo, scores: Scores) -> Iterator[Windows]:
        """Add a batch. Returns the files that are complete now."""
        changes = np.flatnonzero(np.diff(info.video)) + 1
        for begin, end in pairwise([0, *changes.tolist(), len(info.video)]):
            video = int(info.video[begin])
            if video < self.next_video:
                continue
            if self._video is not None and video != self._video:
                yield self._complete(video)
            self._video = video
            frames, times = info.frames[begin:end], info.times[begin:end]
            at = np.arange(end - begin), frames.argmax(1)  # a short video may be repeated
            self._rows.append((scores[begin:end], frames[:, 0], frames[at], times[:, 0], times[at]))

    def end(self, videos: int) -> Iterator[Windows]:
        """There are no more windows of these ``videos``."""
        if self._video is not None:
            yield self._complete(videos)

    def _complete(self, next_video: int) -> Windows:
        assert self._video is not None
        columns = [np.concatenate(column) for column in zip(*self._rows, strict=True)]
        done = Windows(self._video, next_video, *columns)
        self._rows, self._video = [], None
        return done
