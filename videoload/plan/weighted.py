"""Which clip comes where if rows, or frames, have weights. Pure, by random access.

Weights lie side by side on a line. An epoch of n clips takes n points of it at equal distances, and
where the first one is, is drawn for each epoch (systematic sampling: Cochran 1977, Sampling
Techniques). So what has the share s of all weights comes n*s times in an epoch, rounded down or up:
a row, a behaviour, and the frames of a recording that show it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.catalog import targets
from videoload.catalog.catalog import Catalog
from videoload.catalog.table import Ints
from videoload.catalog.target_columns import PerFrame
from videoload.errors import SpecError
from videoload.plan.options import Balance

Array = npt.NDArray[Any]


class Drawn(NamedTuple):
    """What is drawn: clip number ``clip`` of a row, or a window around frame ``at`` of it."""

    video: int
    clip: int = 0
    at: int | None = None


class Weighted:
    """Runs of clips, or of frames: ``counts`` of ``videos`` from number ``starts`` on, one run
    after the other, each with one weight."""

    def __init__(
        self, videos: Ints, starts: Ints, counts: Ints, weights: npt.ArrayLike, *, frames: bool
    ) -> None:
        weight = np.asarray(weights, np.float64)
        drawn = (weight > 0) & (counts > 0)
        self._videos, self._starts, self._counts = videos[drawn], starts[drawn], counts[drawn]
        self._ends = np.cumsum(weight[drawn]) / weight[drawn].sum()
        self._frames = frames
        self.videos: Ints = np.unique(self._videos)
        """The rows that are drawn at all."""

    def at(self, point: float) -> Drawn:
        """What lies at a point of the line, in [0, 1)."""
        run = min(int(np.searchsorted(self._ends, point, "right")), len(self._ends) - 1)
        begin = self._ends[run - 1] if run else 0.0
        within = (point - begin) / (self._ends[run] - begin)
        return self._in(run, min(int(within * self._counts[run]), int(self._counts[run]) - 1))

    def any(self, number: int) -> Drawn:
        """One of all runs, whatever its weight."""
        run = number % len(self._ends)
        return self._in(run, number // len(self._ends) % int(self._counts[run]))

    def _in(self, run: int, number: int) -> Drawn:
        found = int(self._starts[run]) + number
        video = int(self._videos[run])
        return Drawn(video, at=found) if self._frames else Drawn(video, found)


def of_rows(weights: Balance, clips: Ints) -> Weighted:
    """The clips of rows that have these weights. Raises SpecError."""
    if len(weights) != len(clips):
        raise SpecError(f"balance= has {len(weights)} weights, and the catalog {len(clips)} rows")
    rows = np.arange(len(clips))
    return Weighted(rows, np.zeros_like(rows), clips, weights, frames=False)


def of_frames(catalog: Catalog, name: str) -> Weighted:
    """The frames of a catalog's rows, by what a `PerFrame` target says of each: every class as
    often as the others. Raises SpecError."""
    column = targets.named(catalog.targets).get(name)
    if not isinstance(column, PerFrame):
        per_frame = [each for each, of in targets.named(catalog.targets).items()
                     if isinstance(of, PerFrame)]  # fmt: skip
        raise SpecError(
            f'balance must be "class", a weight for each row, or the name of a PerFrame target: '
            f"{name!r} is none of {per_frame}"
        )
    table = catalog._table
    if table.seconds is not None and not np.isnan(table.seconds[:2]).all():
        raise SpecError(f"balance={name!r} counts frames: give segments start and end, not seconds")
    starts, ends, _ = table.segments
    runs: dict[int, list[tuple[object, Ints, float]]] = {}
    found: list[tuple[int, int, int, object, float]] = []
    for video, array in enumerate(column._arrays):
        if id(array) not in runs:
            runs[id(array)] = list(_runs(name, array))
        last = len(array) if ends[video] < 0 else min(int(ends[video]), len(array))
        for kind, bounds, weight in runs[id(array)]:
            for first, end in np.clip(bounds, starts[video], last).tolist():
                if first < end:
                    found.append((video, first, end - first, kind, weight))
    if not found:
        raise SpecError(f"balance={name!r}: no frame has a label")
    kinds = {kind: number for number, kind in enumerate(dict.fromkeys(run[3] for run in found))}
    order = sorted(range(len(found)), key=lambda i: kinds[found[i][3]])
    numbers = np.array([found[i][:3] for i in order], np.int64).T
    kind_of = np.array([kinds[found[i][3]] for i in order])
    weights = numbers[2] * np.array([found[i][4] for i in order])
    if None not in kinds:  # classes, and no weights
        weights = weights / np.bincount(kind_of, weights)[kind_of]
    videos, firsts, counts = numbers
    return Weighted(videos, firsts, counts, weights, frames=True)


def _runs(name: str, array: Array) -> Iterator[tuple[object, Ints, float]]:
    """Each class of the frames of a file, int64 [n, 2] of the runs that show it, and the weight of
    a frame. -1, or empty text, is no label."""
    if array.dtype.kind == "f" and array.ndim == 1:
        if np.isinf(array).any():
            raise SpecError(f"balance={name!r}: a weight is infinite")
        for value in np.unique(array[array > 0]).tolist():
            yield None, _bounds(np.equal(array, value)), value
    elif array.ndim == 1 and array.dtype.kind in "biuO":
        for value in np.unique(array).tolist():
            if value not in (-1, ""):
                yield value, _bounds(np.equal(array, value)), 1.0
    elif array.ndim == 2 and array.dtype.kind in "biu":
        known = (array >= 0).all(1)
        shown = array > 0
        for number in range(array.shape[1]):
            yield number, _bounds(known & shown[:, number]), 1.0
        yield -1, _bounds(known & np.logical_not(shown.any(1))), 1.0
    else:
        raise SpecError(
            f"balance={name!r}: a frame has a class (a whole number or text), a column of 0 and 1 "
            f"for each class, or a weight (a float), not {array.dtype}{list(array.shape[1:])}"
        )


def _bounds(shown: npt.NDArray[np.bool_]) -> Ints:
    """The first frame of each run, and the one after its last."""
    padded = np.concatenate(([False], shown, [False]))
    return np.flatnonzero(padded[1:] != padded[:-1]).reshape(-1, 2)
