"""videoload, end to end: what comes out of ``stream.dataset()``, or of a loop.

Local workers, watched by all there is if the variant says so: `videoload top` in a terminal, a
scrape of ``/metrics`` and a line of `Stream.stats` every second, and the log at INFO. Or local
workers with a frame store, which later runs find filled. Or workers that dial in over loopback tcp,
real ``videoload worker`` processes, with CURVE or with yuv420p instead of rgb24. Each item is a
segment in a catalog, exactly as long as its clip, so "center" can choose nothing but the frames
that were asked for.
"""

from __future__ import annotations

import csv
import logging
import os
import pty
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from videoload.catalog.catalog import Catalog
from videoload.comparison.loaders import Batches
from videoload.comparison.work import Item, Work
from videoload.trainer.client import Client
from videoload.trainer.stream import Stream

_STOP_S = 10
_LOOK_S = 1.0
_SCRAPE = """
import sys, time, urllib.request
while True:
    urllib.request.urlopen(sys.argv[1]).read()
    time.sleep(float(sys.argv[2]))
"""


def batches(work: Work, items: Sequence[Item], processes: int, variant: str) -> Batches:
    """Labels are the items' numbers. The stream repeats the list as often as needed."""
    once = items[: len(work.distinct)]
    clip = work.clip.spec(sampling="center", pixels="yuv420p" if "yuv420p" in variant else "rgb24")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        catalog = _catalog(folder / "items.csv", work, once)
        client = stack.enter_context(_client(folder, work, processes, variant))
        stream = client.stream(catalog, clip, work.batch, on_error="raise")
        if variant == "watched":
            stack.enter_context(_watched(client, stream, folder))
        epochs = -(-len(items) // len(once))
        count = len(items) // work.batch
        if variant == "loop":
            for clips, labels in islice(stream.batches(epochs=epochs), count):
                yield labels, clips
            return
        for clips, labels in stream.dataset(epochs=epochs).take(count):
            yield labels, clips


def _catalog(file: Path, work: Work, items: Sequence[Item]) -> Catalog:
    with file.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(("path", "label", "start", "end"))
        for number, index, start in items:
            rows.writerow((work.files[index].path, number, start, start + work.clip.span))
    return Catalog.from_csv(file, root=work.root)


@contextmanager
def _client(folder: Path, work: Work, processes: int, variant: str) -> Iterator[Client]:
    if "tcp" not in variant:
        options: dict[str, Any] = {}
        if variant == "watched":
            options = {"listen": "tcp://127.0.0.1:*", "metrics_port": 0}
        if variant == "store" and (kept := work.frame_store):
            limit = None if kept.max_bytes is None else kept.max_bytes / 1e9
            options = {"frame_store": kept.folder, "frame_store_gb": limit}
        with Client(workers=processes, **options) as client:
            yield client
        return
    command = [sys.executable, "-m", "videoload"]
    trainer, worker = None, []
    if "curve" in variant:
        subprocess.run([*command, "keygen", str(folder / "keys")], check=True, capture_output=True)
        trainer, worker = folder / "keys" / "trainer", ["--keys", str(folder / "keys" / "worker")]
    with Client(workers=0, listen="tcp://127.0.0.1:*", keys=trainer) as client:
        dial = ["--connect", client.endpoints[0], "--root", str(work.root)]
        host = subprocess.Popen([*command, "worker", *dial, *worker, "--processes", str(processes)])
        try:
            client.wait_for_workers(processes)
            yield client
        finally:
            host.terminate()
            host.wait(_STOP_S)


@contextmanager
def _watched(client: Client, stream: Stream, folder: Path) -> Iterator[None]:
    logging.basicConfig(level=logging.INFO, filename=folder / "log", force=True)
    over = threading.Event()

    def read() -> None:
        while not over.wait(_LOOK_S):
            logging.info("%s", stream.stats(since_last=True))

    reader = threading.Thread(target=read)
    reader.start()
    terminal, its_end = pty.openpty()
    url = f"http://127.0.0.1:{client.metrics_port}/metrics"
    commands = (
        [sys.executable, "-m", "videoload", "top", client.endpoints[0]],
        [sys.executable, "-c", _SCRAPE, url, str(_LOOK_S)],
    )
    with (folder / "watchers").open("w") as errors:
        watchers = [subprocess.Popen(each, stdout=its_end, stderr=errors) for each in commands]
    drain = threading.Thread(target=_drain, args=(terminal,))
    drain.start()
    try:
        yield
    finally:
        ended = [each.args for each in watchers if each.poll() is not None]
        over.set()
        for watcher in watchers:
            watcher.terminate()
            watcher.wait(_STOP_S)
        os.close(its_end)
        reader.join()
        drain.join()
        os.close(terminal)
        if ended:  # nobody watched
            raise RuntimeError(f"{ended} ended: {(folder / 'watchers').read_text()}")


def _drain(terminal: int) -> None:
    with suppress(OSError):  # the other end is closed
        while os.read(terminal, 1 << 16):
            pass
