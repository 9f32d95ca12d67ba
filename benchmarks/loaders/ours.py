"""videoload, end to end: what comes out of ``stream.dataset()``.

Local workers; or workers that dial in over loopback tcp, real ``videoload worker`` processes, with
CURVE or with yuv420p instead of rgb24 if the variant says so. Each item is a segment in a catalog,
exactly as long as its clip, so "center" can choose nothing but the frames that were asked for.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import tensorflow  # noqa: F401  # `dataset` would import it under the clock

import videoload as vl
from benchmarks.loaders import Batches
from benchmarks.work import Item, Work

_STOP_S = 10


def batches(work: Work, items: Sequence[Item], processes: int, variant: str) -> Batches:
    """Labels are the items' numbers. The stream goes round the list as often as it has to."""
    once = items[: len(work.distinct)]
    clip = work.clip.spec(sampling="center", pixels="yuv420p" if "yuv420p" in variant else "rgb24")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        catalog = _catalog(folder / "items.csv", work, once)
        client = stack.enter_context(_client(folder, work, processes, variant))
        stream = client.stream(catalog, clip, work.batch, on_error="raise")
        epochs = -(-len(items) // len(once))
        for clips, labels in stream.dataset(epochs=epochs).take(len(items) // work.batch):
            yield labels, clips


def _catalog(file: Path, work: Work, items: Sequence[Item]) -> vl.Catalog:
    with file.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(("path", "label", "start", "end"))
        for number, index, start in items:
            rows.writerow((work.files[index].path, number, start, start + work.clip.span))
    return vl.Catalog.from_csv(file, root=work.root)


@contextmanager
def _client(folder: Path, work: Work, processes: int, variant: str) -> Iterator[vl.Client]:
    if "tcp" not in variant:
        with vl.Client(workers=processes) as client:
            yield client
        return
    command = [sys.executable, "-m", "videoload"]
    trainer, worker = None, []
    if "curve" in variant:
        subprocess.run([*command, "keygen", str(folder / "keys")], check=True, capture_output=True)
        trainer, worker = folder / "keys" / "trainer", ["--keys", str(folder / "keys" / "worker")]
    with vl.Client(workers=0, listen="tcp://127.0.0.1:*", keys=trainer) as client:
        dial = ["--connect", client.endpoints[0], "--root", str(work.root)]
        host = subprocess.Popen([*command, "worker", *dial, *worker, "--processes", str(processes)])
        try:
            client.wait_for_workers(processes)
            yield client
        finally:
            host.terminate()
            host.wait(_STOP_S)
