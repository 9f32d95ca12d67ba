"""Collect the windows of a stream by row of its catalog. Pure.

The windows of a row are consecutive, and the rows are in the order of the catalog. So the number of
a window determines its batch, and its place there. Windows of a video that cannot be decoded are
missing in a batch; the others do not move. A row is complete if it has all its windows. Which rows
are does not depend on how quick anything is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.plan.batches import BatchInfo

Scores = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class FileScores(NamedTuple):
    """The model's scores for the windows of one file, or of a segment of it, in order.

    Attributes:
        path: The file, relative to the catalog's root.
        scores: What the model returned for each window, [n, ...].
        start_s: When a player shows the first frame of each window that the file has, in seconds
            from the first frame of the file: float64 [n]. NaN if unknown.
        end_s: The same of its last frame: float64 [n].
    """

    path: str
    scores: Scores
    start_s: Floats
    end_s: Floats


class Windows(NamedTuple):
    """The windows of one row: the model's ``scores`` [n, ...], the ordinals of their first and last
    source frames, and their times."""

    scores: Scores
    first: Ints
    last: Ints
    start_s: Floats
    end_s: Floats

    def file(self, path: str, *, averaged: bool) -> FileScores:
        """Return the scores of the windows; or, ``averaged``, of what lies between their
        beginnings."""
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


class Layout:
    """Which windows are in which batch: those of ``counts`` windows a row, in batches of
    ``size``."""

    def __init__(self, counts: Ints, size: int) -> None:
        self.counts, self.size = counts, size
        self.ends = np.cumsum(counts)
        self.starts = self.ends - counts

    def steps(self, row: int) -> range:
        """Return the batches with windows of a row."""
        return range(int(self.starts[row]) // self.size, -(-int(self.ends[row]) // self.size))

    def runs(self, rows: Iterable[int]) -> list[range]:
        """Return the batches with windows of these rows, which rise: as few runs as there are."""
        found: list[range] = []
        for row in rows:
            steps = self.steps(row)
            if found and steps.start <= found[-1].stop:
                found[-1] = range(found[-1].start, max(found[-1].stop, steps.stop))
            else:
                found.append(steps)
        return found

    def places(self, info: BatchInfo) -> Ints:
        """Return the place of each window in its batch, had none been left out."""
        return np.asarray(self.starts[info.video] + info.clip - info.step * self.size)

    def length(self, step: int) -> int:
        """Return the windows of a batch, had none been left out."""
        return min(self.size, int(self.ends[-1]) - step * self.size)


@dataclass
class Stitcher:
    """Puts the windows of ``rows``, which rise, together."""

    layout: Layout
    rows: list[int]
    _done: int = 0  # of the rows
    _parts: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)

    def add(self, info: BatchInfo, which: Ints, scores: Scores) -> None:
        """Windows number ``which`` of a batch have these scores."""
        videos = info.video[which]
        for row in np.unique(videos).tolist():
            own = videos == row
            frames, times = info.frames[which[own]], info.times[which[own]]
            number = np.arange(len(frames))
            first = number, (frames >= 0).argmax(1)  # those before lie beyond the beginning
            last = number, frames.argmax(1)  # a short video may be repeated
            part = scores[own], frames[first], frames[last], times[first], times[last]
            self._parts.setdefault(row, []).append(part)

    def complete(self, steps: int) -> Iterator[tuple[int, Windows | None]]:
        """Yield the rows that end before batch number ``steps``, with their windows; None if some
        are missing."""
        ends = self.layout.ends
        while self._done < len(self.rows) and ends[row := self.rows[self._done]] <= (
            steps * self.layout.size
        ):
            self._done += 1
            columns = [np.concatenate(each) for each in zip(*self._parts.pop(row, ()), strict=True)]
            whole = bool(columns) and len(columns[0]) == self.layout.counts[row]
            yield row, Windows(*columns) if whole else None
