"""One run of one loader on a work of epochs: ``python -m benchmarks.run ORDER RESULT``.

As `videoload.comparison.run`, but each epoch is timed. At the end of an epoch the clock stops as
many batches earlier as are made ahead, so that no batch of the next epoch is made under it.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass

from benchmarks.works import EPOCHS, EpochWork
from videoload.comparison import check, measure
from videoload.comparison.loaders import LIMIT
from videoload.comparison.run import Order, ahead, main, read_files, skip, steady, take


@dataclass(frozen=True)
class EpochOrder(Order):
    """An order of such a work."""

    work: EpochWork


def epochs(order: EpochOrder) -> dict[str, float]:
    """``clips_s`` is the rate of the first epoch, ``later_clips_s`` of the others."""
    work, processes = order.work, order.processes
    if order.loader.name == LIMIT or not order.seconds:
        return steady(order)
    made_ahead = ahead(order)
    make = order.loader.load()
    read_files(work)
    warm = len(work.distinct) // work.batch - EPOCHS * work.epoch_batches
    count = work.epoch_batches - made_ahead
    began = time.perf_counter()
    with closing(make(work, work.distinct, processes, order.loader.variant)) as batches:
        kept = take(batches, 1)
        first_s = time.perf_counter() - began
        kept += take(batches, min(warm, order.checked_batches) - 1)
        skip(batches, warm - len(kept))
        began, began_cpu_s = time.perf_counter(), measure.cpu_s()
        skip(batches, count)
        wall_s, cpu_s = time.perf_counter() - began, measure.cpu_s() - began_cpu_s
        memory = measure.resident_bytes()
        skip(batches, made_ahead)
        # It has as much made ahead when the clock stops as when it started.
        later = (EPOCHS - 1) * work.epoch_batches - 2 * made_ahead
        began = time.perf_counter()
        skip(batches, later)
        later_clips_s = later * work.batch / (time.perf_counter() - began)
    clips = count * work.batch
    timing = measure.Timing(clips / wall_s, first_s, cpu_s / clips, memory)
    checked = check.wrong_frames(work, work.distinct, kept)
    return timing._asdict() | checked._asdict() | {"later_clips_s": later_clips_s}


if __name__ == "__main__":
    main(epochs, EpochOrder)
