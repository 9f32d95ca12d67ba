"""The order of clips if rows have weights. Pure, by random access.

Weights lie side by side on a line. An epoch of n clips takes n points of it at equal distances, and
where the first one is, is drawn for each epoch (systematic sampling: Cochran 1977, Sampling
Techniques). So a class, a row or a clip with the share s of all weights occurs n*s times in an
epoch, rounded down or up.

In a shuffled stream, the rows of a class lie on the line in another order in each epoch. In the
catalog's order, the points would fall into step with the rows: if files of two cameras alternate,
an epoch would contain all files of one camera, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import shake_256
from typing import Any

import numpy as np
import numpy.typing as npt

from videoload.catalog.table import Ints
from videoload.errors import SpecError

_REMEMBERED = 4  # So many epochs, since several readers may take turns.

Array = npt.NDArray[Any]


class Weighted:
    """Rows of a catalog with these ``weights``, that give ``clips`` each. Those of one label stand
    together, in an order that the ``seed`` decides for each epoch; None: as they are. Raises
    SpecError."""

    def __init__(
        self, weights: Sequence[float] | Array, clips: Ints, labels: Ints, seed: int | None
    ) -> None:
        if len(weights) != len(clips):
            raise SpecError(
                f"balance= has {len(weights)} weights, and the catalog {len(clips)} rows"
            )
        weight = np.asarray(weights, np.float64)
        self.videos: Ints = np.flatnonzero((weight > 0) & (clips > 0))
        """The rows that are drawn at all."""
        self._clips, self._labels = clips[self.videos], labels[self.videos]
        self._weights, self._seed = weight[self.videos], seed
        self._line = lru_cache(_REMEMBERED)(self._line_of)

    def at(self, point: float, epoch: int) -> tuple[int, int]:
        """Return the row and the number of the clip at a point of an epoch's line, in [0, 1)."""
        order, ends = self._line(epoch if self._seed is not None else 0)
        place = min(int(np.searchsorted(ends, point, "right")), len(ends) - 1)
        begin = ends[place - 1] if place else 0.0
        within, row = (point - begin) / (ends[place] - begin), int(order[place])
        clips = int(self._clips[row])
        return int(self.videos[row]), min(int(within * clips), clips - 1)

    def _line_of(self, epoch: int) -> tuple[Ints, Array]:
        """Return the rows in their order, and where each ends."""
        rank: Array = self.videos
        if self._seed is not None:
            drawn = shake_256(f"line:{self._seed}:{epoch}".encode()).digest(8 * (int(rank[-1]) + 1))
            rank = np.frombuffer(drawn, "<u8")[rank]
        order = np.lexsort((rank, self._labels))
        ends = np.cumsum(self._weights[order])
        return order, ends / ends[-1]

    def any(self, number: int) -> tuple[int, int]:
        """Return a clip of any row, whatever its weight."""
        row = number % len(self.videos)
        return int(self.videos[row]), number // len(self.videos) % int(self._clips[row])
