"""One run of one loader, in a process of its own: ``python -m comparison.run ORDER RESULT``.

The clock runs from a warm batch to a later one while the loader continues in the background. It has
made the same number of batches ahead when the clock starts and when it stops. At the end of an
epoch the clock stops that many batches earlier, so that no batch of the next epoch is made under
it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path

import msgspec

from videoload.comparison import check, measure
from videoload.comparison.loaders import LIMIT, LOADERS, Batch
from videoload.comparison.measure import Timing
from videoload.comparison.work import EPOCHS, Work, load
from videoload.storage.keep import Keep


class Order(msgspec.Struct):
    """What to run. ``check``: compare this many clips' frames instead of timing."""

    loader: str
    work: str
    folder: str
    processes: int
    clips: int
    check: int = 0
    videos: str = ""  # where the user's own files are
    frame_store: Keep | None = None


def main() -> None:
    began, busy_s = time.perf_counter(), measure.busy_s()
    order = msgspec.json.decode(sys.argv[1], type=Order)
    loader = LOADERS[order.loader]
    work = load(order.work, Path(order.folder), order.clips, videos=order.videos)
    work = replace(work, frame_store=order.frame_store)
    if order.check:
        items = work.distinct[: -(-order.check // work.batch) * work.batch]
        make = loader.load()
        with closing(make(work, items, order.processes, loader.variant)) as batches:
            result = check.wrong_frames(work, items, batches)._asdict()
    else:
        for file in work.files:  # into the page cache
            Path(work.path(file)).read_bytes()
        result = timed(order, work)._asdict()
    wall_s = time.perf_counter() - began
    others_s = measure.busy_s() - busy_s - measure.cpu_s()
    result["others_cores"] = max(0.0, others_s) / wall_s
    Path(sys.argv[2]).write_text(json.dumps(result))


def timed(order: Order, work: Work) -> Timing:
    """Time the loader on the work's list."""
    warm, count, after = _batches(work, order.processes)
    items = work.distinct if work.met else work.items((warm + count + after) * work.batch)
    loader = LOADERS[order.loader]
    if loader.name == LIMIT:
        from videoload.comparison import bare

        start, stop = warm * work.batch, (warm + count) * work.batch
        return bare.timed(work, items[:start], items[start:stop], order.processes)
    make = loader.load()
    began = time.perf_counter()
    with closing(make(work, items, order.processes, loader.variant)) as batches:
        next(batches)
        first_s = time.perf_counter() - began
        _skip(batches, warm - 1)
        start_s, start_cpu_s = time.perf_counter(), measure.cpu_s()
        _skip(batches, count)
        wall_s, cpu_s = time.perf_counter() - start_s, measure.cpu_s() - start_cpu_s
        memory = measure.resident_bytes()
        later_clips_s = 0.0
        if work.met:
            _skip(batches, after)
            # It has as much made ahead when the clock stops as when it started.
            count_later = (EPOCHS - 1) * work.epoch_batches - 2 * after
            start_s = time.perf_counter()
            _skip(batches, count_later)
            later_clips_s = count_later * work.batch / (time.perf_counter() - start_s)
    clips = count * work.batch
    return Timing(clips / wall_s, first_s, cpu_s / clips, memory, later_clips_s)


def _skip(batches: Iterator[Batch], count: int) -> None:
    came = sum(1 for _ in islice(batches, count))
    if came < count:
        raise RuntimeError(f"{count - came} batches never came")


def _batches(work: Work, processes: int) -> tuple[int, int, int]:
    """Batches before the clock, under it, and after it.

    Before: each file once, then as many as are made ahead; after: as many again. A multiple of the
    processes under it, because some loaders have each process make a batch: they come in bursts.
    """
    ahead = 4 + 2 * processes
    if work.met:
        epochs = EPOCHS * work.epoch_batches
        return len(work.distinct) // work.batch - epochs, work.epoch_batches - ahead, ahead
    count = max(1, round(work.clips / work.batch / processes)) * processes
    return ahead + -(-len(work.files) // work.batch), count, ahead


if __name__ == "__main__":
    main()
