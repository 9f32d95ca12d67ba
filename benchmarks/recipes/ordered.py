"""Keras' OrderedEnqueuer over a Sequence: threads make items, in their order.

Ten items that sleep 1 to 2 s, drawn 30 times; here 0.1 to 0.2 s. Its author: 49.1 s with one
worker, 9.0 s with eight.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import videoload as vl
from benchmarks.recipes import Row, items, warm_up

ITEMS, DRAWN = 10, 30
AUTHOR = {1: "49.1 s", 8: "9.0 s (5.45x)"}


def run() -> Iterator[Row]:
    for workers, told in AUTHOR.items():
        theirs, ours, least = recipe(workers), videoload(workers), perfect(workers)
        note = f"{sum(_sleeps()) / ours:.2f}x of {workers}x (perfect {sum(_sleeps()) / least:.2f}x)"
        yield Row(f"1 PyDataset, order kept, {workers} workers", told, theirs, ours, least, note)


def recipe(workers: int) -> float:
    """Seconds, with threads of Keras."""
    import keras
    from keras.src.trainers.data_adapters.py_dataset_adapter import OrderedEnqueuer

    class Sleeping(keras.utils.PyDataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return DRAWN

        def __getitem__(self, index: int) -> Any:
            return (items.ordered(str(index % ITEMS), None),)  # type: ignore[arg-type]

    enqueuer = OrderedEnqueuer(Sleeping(workers=workers), workers=workers)
    began = time.perf_counter()
    enqueuer.start()
    _check([int(batch[0]) for batch in islice(enqueuer.get(), DRAWN)])
    seconds = time.perf_counter() - began
    enqueuer.stop()
    return seconds


def videoload(workers: int) -> float:
    """Seconds, with worker processes that have started."""
    names = vl.Catalog([str(n) for n in range(ITEMS)])
    item = vl.ItemSpec("benchmarks.recipes.items:ordered", (), "int64", files=False)
    with vl.Client(workers=workers) as client:
        warm_up(client, workers)
        stream = client.stream(names, item, 1)
        began = time.perf_counter()
        _check([int(batch[0]) for batch, _ in stream.batches(epochs=DRAWN // ITEMS)])
        return time.perf_counter() - began


def perfect(workers: int) -> float:
    """Seconds if each worker takes the next item as soon as it is free."""
    free = [0.0] * workers
    for seconds in _sleeps():
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


def _sleeps() -> list[float]:
    return [items.seconds(n % ITEMS) for n in range(DRAWN)]


def _check(numbers: list[int]) -> None:
    if numbers != [n % ITEMS for n in range(DRAWN)]:
        raise RuntimeError(f"not in their order: {numbers}")
