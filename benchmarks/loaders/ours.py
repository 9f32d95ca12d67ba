"""videoload, end to end: the batches of ``stream.dataset()``, or of a loop.

Workers are local, or real ``videoload worker`` processes that connect over loopback tcp.

Each item is a segment in a catalog, exactly as long as its clip, so "center" can choose nothing but
the frames that were asked for.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from benchmarks.loaders import Batches
from benchmarks.work import Item, Work
from videoload.catalog.catalog import Catalog
from videoload.client.client import Client

_STOP_S = 10


def batches(work: Work, items: Sequence[Item], processes: int, variant: str) -> Batches:
    """Yield the batches of the variant: "" for TensorFlow, "loop" or "tcp". Labels are the items'
    numbers. The stream repeats the list as often as needed."""
    once = items[: len(work.distinct)]
    epochs, count = -(-len(items) // len(once)), len(items) // work.batch
    with _client(work, processes, variant) as client:
        spec = work.clip.spec(sampling="center")
        stream = client.stream(_catalog(work, once), spec, work.batch, on_error="raise")
        if variant == "loop":
            for clips, labels in islice(stream.batches(epochs=epochs), count):
                yield labels, clips
        else:
            for clips, labels in stream.dataset(epochs=epochs).take(count):
                yield labels, clips


def _catalog(work: Work, items: Sequence[Item]) -> Catalog:
    rows = [
        {
            "path": work.files[item.file].path,
            "label": item.number,
            "start": item.start,
            "end": item.start + work.clip.span,
        }
        for item in items
    ]
    return Catalog.from_table(rows, root=work.root, duplicates=True)  # of very few short files


@contextmanager
def _client(work: Work, processes: int, variant: str) -> Iterator[Client]:
    if variant != "tcp":
        with Client(workers=processes) as client:
            yield client
        return
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        dial = ["--connect", client.endpoints[0], "--root", str(work.root)]
        dial += ["--workers", str(processes)]
        host = subprocess.Popen([sys.executable, "-m", "videoload", "worker", *dial])
        try:
            client.wait_for_workers(processes)
            yield client
        finally:
            host.terminate()
            host.wait(_STOP_S)
