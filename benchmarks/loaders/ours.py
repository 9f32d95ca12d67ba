"""videoload, end to end: what comes out of ``stream.dataset()``, or of a loop.

Workers are local, or real ``videoload worker`` processes that dial in over loopback tcp, with CURVE
or with yuv420p instead of rgb24. "store" has a frame store, which later runs find filled. "watched"
is watched by all there is: `videoload top` in a terminal, a scrape of ``/metrics`` and a line of
`Stream.stats` every second, and the log at INFO.

Each item is a segment in a catalog, exactly as long as its clip, so "center" can choose nothing but
the frames that were asked for.
"""

from __future__ import annotations

import logging
import os
import pty
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.loaders import Batches
from benchmarks.work import Item, Work
from videoload.catalog.catalog import Catalog
from videoload.clips.choices import Pixels
from videoload.trainer.client import Client
from videoload.trainer.stream import Stream

Watch = Callable[[Stream], AbstractContextManager[None]]

_STOP_S = 10
_LOOK_S = 1.0
_SCRAPE = """
import sys, time, urllib.request
while True:
    urllib.request.urlopen(sys.argv[1]).read()
    time.sleep(float(sys.argv[2]))
"""


def batches(work: Work, items: Sequence[Item], processes: int, variant: str) -> Batches:
    """The batches of the variant: "" for TensorFlow, "loop", "store", "watched", "tcp", "tcp curve"
    or "tcp yuv420p"."""
    pixels: Pixels = "yuv420p" if "yuv420p" in variant else "rgb24"
    with (
        tempfile.TemporaryDirectory() as folder,
        _client(Path(folder), work, processes, variant) as client,
    ):
        watch = partial(_watched, client, Path(folder)) if variant == "watched" else None
        yield from read(client, work, items, is_loop=variant == "loop", pixels=pixels, watch=watch)


def read(
    client: Client,
    work: Work,
    items: Sequence[Item],
    *,
    is_loop: bool = False,
    pixels: Pixels = "rgb24",
    watch: Watch | None = None,
) -> Batches:
    """Labels are the items' numbers. The stream repeats the list as often as needed; ``watch`` is
    what is done with it meanwhile."""
    once = items[: len(work.distinct)]
    spec = work.clip.spec(sampling="center", pixels=pixels)
    stream = client.stream(_catalog(work, once), spec, work.batch, on_error="raise")
    epochs, count = -(-len(items) // len(once)), len(items) // work.batch
    with watch(stream) if watch else nullcontext():
        if is_loop:
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
        options: dict[str, Any] = {}
        if variant == "store":
            options = {"frame_store": work.frame_store}
        elif variant == "watched":
            options = {"metrics_port": 0}
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
        host = subprocess.Popen([*command, "worker", *dial, *worker, "--workers", str(processes)])
        try:
            client.wait_for_workers(processes)
            yield client
        finally:
            host.terminate()
            host.wait(_STOP_S)


@contextmanager
def _watched(client: Client, folder: Path, stream: Stream) -> Iterator[None]:
    logging.basicConfig(level=logging.INFO, filename=folder / "log", force=True)
    over = threading.Event()

    def read() -> None:
        while not over.wait(_LOOK_S):
            logging.info("%s", stream.stats(since_last=True))

    reader = threading.Thread(target=read)
    reader.start()
    terminal, its_end = pty.openpty()
    page = f"http://127.0.0.1:{client.metrics_port}"
    commands = (
        [sys.executable, "-m", "videoload", "top", page],
        [sys.executable, "-c", _SCRAPE, f"{page}/metrics", str(_LOOK_S)],
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
