"""The waiting time of a stream's readers, and their possible speed. Pure: time is passed in.

A reader requests a batch, gets it, and requests the next one when it has used it. From the request
until it gets the batch, it waits. The rest is a *step*. Two things do not count as steps:

  * The time before a reader's first request and after its last batch: a stream without a reader
    does not wait.
  * A *pause*, which is much longer than the other steps: a validation, a model that is saved, the
    evening after a notebook's cell.

The time is that of readers. If each of two readers waits half of its time, the share is a half.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

# A pause is longer than `_PAUSE_S`, and longer than `_PAUSE_STEPS` times the step that a share of
# `_MOST` of all steps stays below.
_PAUSE_S = 1.0
_PAUSE_STEPS = 10
_MOST = 0.9


class Taken(NamedTuple):
    """A batch of ``clips`` that a reader requested and got, at these times."""

    reader: int
    requested: float
    got: float
    clips: int


@dataclass(frozen=True, slots=True)
class Figures:
    """The timing of a stream's readers.

    ``stalled_s`` is the longest current wait. ``demand`` is the clips per second that the readers
    would take if they never waited; infinity if they only wait. ``first_s`` is what all readers
    waited for their first batches, and ``reading_s`` their time altogether.
    """

    batches: int
    clips: int
    clips_per_s: float
    wait_ratio: float
    stalled_s: float
    demand: float = 0.0
    first_s: float = 0.0
    reading_s: float = 0.0

    @property
    def step_s(self) -> float:
        """The mean time for which a reader used a batch."""
        return (1 - self.wait_ratio) * self.reading_s / self.batches if self.batches else 0.0

    @property
    def later_share(self) -> float:
        """The share of the time that readers waited, without their first batches."""
        later_s = self.reading_s - self.first_s
        return (self.wait_ratio * self.reading_s - self.first_s) / later_s if later_s > 0 else 0.0


def figures(
    taken: Sequence[Taken], waiting: Mapping[int, float], now: float, since: float = -math.inf
) -> Figures:
    """Return the figures of the time ``since``. ``taken`` are batches in the order in which readers
    got them. ``waiting`` has since when each reader that waits now does so."""
    going_on = [Taken(reader, requested, now, 0) for reader, requested in waiting.items()]
    got = [each for each in taken if each.got > since]
    spans: list[tuple[float, float]] = []  # each batch's step and wait
    waited = first = 0.0
    seen: set[int] = set()
    for each, step in _with_steps([*taken, *going_on]):
        if each.got > since:
            spans.append((max(each.requested - step, since), each.got))
            wait = each.got - max(each.requested, since)
            waited += wait
            first += 0.0 if each.reader in seen else wait
        seen.add(each.reader)
    clips = sum(each.clips for each in got)
    reading = sum(end - begin for begin, end in spans)
    covered, steps = _covered(spans), reading - waited
    demand = math.inf if clips else 0.0
    if clips and steps > 0 and covered > 0:
        readers = reading / covered
        demand = clips * readers / steps
    return Figures(
        batches=len(got),
        clips=clips,
        clips_per_s=clips / covered if covered > 0 else 0.0,
        wait_ratio=waited / reading if reading > 0 else 0.0,
        stalled_s=max((now - requested for requested in waiting.values()), default=0.0),
        demand=demand,
        first_s=first,
        reading_s=reading,
    )


def _with_steps(taken: Sequence[Taken]) -> Iterator[tuple[Taken, float]]:
    """Yield each batch with the length of the step before it, 0 for a first batch and a pause."""
    steps: list[float | None] = []
    until: dict[int, float] = {}  # when each reader got its last batch
    for each in taken:
        before = until.get(each.reader)
        steps.append(None if before is None else each.requested - before)
        until[each.reader] = each.got
    known = sorted(step for step in steps if step is not None)
    most = known[int(_MOST * (len(known) - 1))] if known else 0.0
    longest = max(_PAUSE_S, _PAUSE_STEPS * most)
    for each, step in zip(taken, steps, strict=True):
        yield each, step if step is not None and step <= longest else 0.0


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return how long at least one of the spans lasts."""
    covered, until = 0.0, -math.inf
    for begin, end in sorted(spans):
        covered += max(0.0, end - max(begin, until))
        until = max(until, end)
    return covered
