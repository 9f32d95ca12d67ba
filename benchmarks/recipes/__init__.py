"""Loaders that people wrote for themselves, or took from a tutorial, each beside a stream that does
the same: ``python -m benchmarks.recipes``.

Each module runs one of them as its author wrote it, in today's Keras or plain Python, and gets the
same clips from a stream. A `Row` is one such pair. What only sleeps (storage, a busy GPU) is scaled
down, and each module says by how much; order, sizes and shares are the author's.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import msgspec

NAMES = ("queues", "tutorials")


class Row(msgspec.Struct):
    """One loader in both ways: seconds for the same steps. ``perfect_s``: the slower of loading
    (over as many workers) and training hides the other, and nothing else takes time."""

    recipe: str
    author: str  # what the author measured
    recipe_s: float
    videoload_s: float
    perfect_s: float
    note: str = ""

    @property
    def ratio(self) -> float:
        """How many times as fast as the recipe."""
        return self.recipe_s / self.videoload_s

    @property
    def overlap(self) -> float:
        """The share of perfect overlap."""
        return self.perfect_s / self.videoload_s

    @property
    def recipe_overlap(self) -> float:
        """The same share for the recipe."""
        return self.perfect_s / self.recipe_s


def train(batches: Iterable[Any], step_s: float) -> tuple[float, float]:
    """A trainer that keeps a device busy for ``step_s`` at each batch. Returns the seconds in all,
    and the seconds for which it waited for batches."""
    began = asked = time.perf_counter()
    waited = 0.0
    for _ in batches:
        waited += time.perf_counter() - asked
        time.sleep(step_s)
        asked = time.perf_counter()
    return time.perf_counter() - began, waited
