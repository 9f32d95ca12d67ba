"""More ways of videoload: watched by all there is (`videoload top` in a terminal, a scrape of
``/metrics`` and a line of `Stream.stats` every second, and the log at INFO), or with workers that
dial in over loopback tcp, real ``videoload worker`` processes, with CURVE or with yuv420p instead
of rgb24.
"""

from __future__ import annotations

import logging
import os
import pty
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from videoload.clips.choices import Pixels
from videoload.comparison.loaders import Batches
from videoload.comparison.ours import read
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
    """The batches of the variant: "watched", "tcp", "tcp curve" or "tcp yuv420p"."""
    pixels: Pixels = "yuv420p" if "yuv420p" in variant else "rgb24"
    with (
        tempfile.TemporaryDirectory() as folder,
        _client(Path(folder), work, processes, variant) as client,
    ):
        if variant == "watched":
            yield from read(client, work, items, watch=partial(_watched, client, Path(folder)))
        else:
            yield from read(client, work, items, pixels=pixels)


@contextmanager
def _client(folder: Path, work: Work, processes: int, variant: str) -> Iterator[Client]:
    if variant == "watched":
        with Client(workers=processes, listen="tcp://127.0.0.1:*", metrics_port=0) as client:
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
