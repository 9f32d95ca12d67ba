"""One run of one loader, in a process of its own: ``python -m benchmarks.run ORDER RESULT``.

The first batches are kept for the check of their frames, which comes last. The clock runs from a
warm batch to a later one while the loader continues in the background, so that batches made ahead
give no advantage. How many clips there are under the clock follows from the rate: the run has a
time to be over.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from benchmarks import check, measure
from benchmarks.loaders import LIMIT, Batch, Loader, MissingError, bare
from benchmarks.measure import Span, Timing
from benchmarks.work import Work

_READ = 1 << 26  # bytes of a file
_CLIPS_S = 4000  # of a process: more than any loader gives, so that the list does not end


@dataclass(frozen=True)
class Order:
    """What to run. ``seconds`` from now on, its start included; 0: only the check of ``checked``
    clips."""

    loader: Loader
    work: Work
    processes: int
    seconds: float
    checked: int = 0

    @property
    def checked_batches(self) -> int:
        """The batches that are kept for the check."""
        return -(-self.checked // self.work.batch)


def encoded(order: Order) -> bytes:
    """For `main`."""
    return msgspec.json.encode(order, enc_hook=str)


def main() -> None:
    """Read the order, and write the result."""
    order = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Order, dec_hook=_decoded)
    result: dict[str, Any]
    try:
        result = steady(order)
    except MissingError as error:
        result = {"not_run": str(error)}
    Path(sys.argv[2]).write_text(json.dumps(result))


def _decoded(kind: type, value: str) -> Any:
    return kind(value)  # a path


def steady(order: Order) -> dict[str, float]:
    """Measure a loader on the work's list, repeated as often as needed, and check its frames."""
    work, span = order.work, Span(time.monotonic() + order.seconds)
    make = order.loader.load()
    read_files(work)
    warm = ahead(order) + -(-len(work.files) // work.batch)  # each file once
    count = int(order.seconds * _CLIPS_S * order.processes)
    items = work.items(max(count, (1 + order.checked_batches) * work.batch))
    began = time.perf_counter()
    result: dict[str, float] = {}
    with closing(make(work, items, order.processes, order.loader.variant)) as batches:
        kept = take(batches, 1)
        first_s, until = time.perf_counter() - began, span.warm_until()
        while len(kept) < order.checked_batches and (not order.seconds or time.monotonic() < until):
            kept += take(batches, 1)
        if order.loader.name == LIMIT and order.seconds:
            clips = warm * work.batch
            result = bare.timed(work, items, clips, span, order.processes)._asdict()
        elif order.seconds:
            while len(kept) < warm and time.monotonic() < until:
                skip(batches, 1)
                warm -= 1
            result = _timed(batches, span, order, first_s)._asdict()
    return result | check.wrong_frames(work, items, kept)._asdict()


def _timed(batches: Iterator[Batch], span: Span, order: Order, first_s: float) -> Timing:
    until, count = span.clock_until(), 0
    began, began_cpu_s = time.perf_counter(), measure.cpu_s()
    while not count or time.monotonic() < until:
        # Some loaders have each process make a batch: they come in bursts.
        skip(batches, order.processes)
        count += order.processes
    wall_s, cpu_s = time.perf_counter() - began, measure.cpu_s() - began_cpu_s
    clips = count * order.work.batch
    return Timing(clips / wall_s, first_s, cpu_s / clips, measure.resident_bytes())


def ahead(order: Order) -> int:
    """The batches that a loader makes ahead, at most."""
    return 4 + 2 * order.processes


def read_files(work: Work) -> None:
    """Into the page cache."""
    for file in work.files:
        with Path(work.path(file)).open("rb") as opened:
            opened.read(_READ)


def take(batches: Iterator[Batch], count: int) -> list[Batch]:
    """The next batches, copied: the loader may need their memory."""
    some = islice(batches, max(0, count))
    return [(np.array(numbers), np.array(clips)) for numbers, clips in some]


def skip(batches: Iterator[Batch], count: int) -> None:
    """Take batches, and drop them."""
    came = sum(1 for _ in islice(batches, count))
    if came < count:
        raise RuntimeError(f"{count - came} batches never came")


if __name__ == "__main__":
    main()
