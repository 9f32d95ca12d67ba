"""videoload, end to end: the batches of ``stream.dataset()``, or of a loop.

Workers are local, or real ``videoload worker`` processes that connect over loopback tcp, with or
without CURVE.

Each item is a segment in a catalog, exactly as long as its clip, so "center" can choose nothing but
the frames that were asked for.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from benchmarks.loaders import Batches
from benchmarks.work import Item, Work
from videoload.catalog.catalog import Catalog
from videoload.client.client import Client

_STOP_S = 10


def batches(work: Work, items: Sequence[Item], processes: int, variant: str) -> Batches:
    """Yield the batches of the variant: "" for TensorFlow, "loop", "tcp" or "tcp curve". Labels are
    the items' numbers. The stream repeats the list as often as needed."""
    once = items[: len(work.distinct)]
    epochs, count = -(-len(items) // len(once)), len(items) // work.batch
    with (
        tempfile.TemporaryDirectory() as folder,
        _client(Path(folder), work, processes, variant) as client,
    ):
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
def _client(folder: Path, work: Work, processes: int, variant: str) -> Iterator[Client]:
    if "tcp" not in variant:
        with Client(workers=processes) as client:
            yield client
        return
    command = [sys.executable, "-m", "videoload"]
    trainer, worker = None, []
    if "curve" in variant:
        subprocess.run([*command, "keygen", str(folder / "keys")], check=True, capture_output=True)
        trainer, worker = folder / "keys" / "trainer", ["--keys", str(folder / "keys" / "worker")]
    with Client(workers=0, listen="tcp://127.0.0.1:*", keys=trainer) as client:
        dial = ["--connect", client.endpoints[0], "--root", str(work.root)]
        host = subprocess.Popen([*command, "worker", *dial, *worker, "--workers", str(processes)])
        try:
            client.wait_for_workers(processes)
            yield client
        finally:
            host.terminate()
            host.wait(_STOP_S)
