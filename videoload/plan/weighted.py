"""Which clip comes where if rows, or frames, have weights. Pure, by random access.

Weights lie side by side on a line. An epoch of n clips takes n points of it at equal distances, and
where the first one is, is drawn for each epoch (systematic sampling: Cochran 1977, Sampling
Techniques). So what has the share s of all weights comes n*s times in an epoch, rounded down or up:
a class, a row, a behaviour, and the frames of a recording that show it.

In a shuffled stream, the rows of a class, or of a behaviour, lie on the line in another order in
each epoch. In the catalog's order, the points would fall into step with the rows: if files of two
cameras take turns, all of one camera would come in an epoch, or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from hashlib import shake_256
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.catalog import targets
from videoload.catalog.catalog import Catalog
from videoload.catalog.table import Ints
from videoload.catalog.target_columns import PerFrame
from videoload.errors import SpecError
from videoload.plan.options import Balance

_REMEMBERED = 4  # So many epochs, since several readers may take turns.

Array = npt.NDArray[Any]


class Drawn(NamedTuple):
    """What is drawn: clip number ``clip`` of a row, or a window around frame ``at`` of it."""

    video: int
    clip: int = 0
    at: int | None = None


class Weighted:
    """Runs of clips, or of frames: ``counts`` of ``videos`` from number ``starts`` on, each with
    one weight. Those of one of ``kinds`` stand together, in an order that the ``seed`` decides for
    each epoch; None: as they are."""

    def __init__(
        self, kinds: Ints, videos: Ints, starts: Ints, counts: Ints, weights: npt.ArrayLike,
        seed: int | None, *, frames: bool,
    ) -> None:  # fmt: skip
        weight = np.asarray(weights, np.float64)
        drawn = (weight > 0) & (counts > 0)
        self._videos, self._starts, self._counts = videos[drawn], starts[drawn], counts[drawn]
        self._kinds, self._weights = kinds[drawn], weight[drawn]
        self._seed, self._frames = seed, frames
        self._line = lru_cache(_REMEMBERED)(self._line_of)
        self.videos: Ints = np.unique(self._videos)
        """The rows that are drawn at all."""

    def at(self, point: float, epoch: int) -> Drawn:
        """What lies at a point of an epoch's line, in [0, 1)."""
        order, ends = self._line(epoch if self._seed is not None else 0)
        place = min(int(np.searchsorted(ends, point, "right")), len(ends) - 1)
        begin = ends[place - 1] if place else 0.0
        within, run = (point - begin) / (ends[place] - begin), int(order[place])
        return self._in(run, min(int(within * self._counts[run]), int(self._counts[run]) - 1))

    def _line_of(self, epoch: int) -> tuple[Ints, Array]:
        """The runs in their order, and where each ends."""
        rank: Array = self._videos
        if self._seed is not None:
            drawn = shake_256(f"line:{self._seed}:{epoch}".encode()).digest(8 * (int(rank[-1]) + 1))
            rank = np.frombuffer(drawn, "<u8")[rank]
        order = np.lexsort((rank, self._kinds))
        ends = np.cumsum(self._weights[order])
        return order, ends / ends[-1]

    def any(self, number: int) -> Drawn:
        """One of all runs, whatever its weight."""
        run = number % len(self._videos)
        return self._in(run, number // len(self._videos) % int(self._counts[run]))

    def _in(self, run: int, number: int) -> Drawn:
        found = int(self._starts[run]) + number
        video = int(self._videos[run])
        return Drawn(video, at=found) if self._frames else Drawn(video, found)


def of_rows(weights: Balance, clips: Ints, labels: Ints, seed: int | None) -> Weighted:
    """The clips of rows that have these weights. Raises SpecError."""
    if len(weights) != len(clips):
        raise SpecError(f"balance= has {len(weights)} weights, and the catalog {len(clips)} rows")
    rows = np.arange(len(clips))
    return Weighted(labels, rows, np.zeros_like(rows), clips, weights, seed, frames=False)


def of_frames(catalog: Catalog, name: str, seed: int | None) -> Weighted:
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
    videos, firsts, counts = np.array([run[:3] for run in found], np.int64).T
    kind_of = np.array([kinds[run[3]] for run in found])
    weights = counts * np.array([run[4] for run in found])
    if None not in kinds:  # classes, and no weights
        weights = weights / np.bincount(kind_of, weights)[kind_of]
    return Weighted(kind_of, videos, firsts, counts, weights, seed, frames=True)


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
            "for each class (whole numbers, as astype(int) gives), or a weight (a float), not "
            f"{array.dtype}{list(array.shape[1:])}"
        )


def _bounds(shown: npt.NDArray[np.bool_]) -> Ints:
    """The first frame of each run, and the one after its last."""
    padded = np.concatenate(([False], shown, [False]))
    return np.flatnonzero(padded[1:] != padded[:-1]).reshape(-1, 2)
