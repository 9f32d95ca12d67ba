"""How long a worker's death delays its clips: `python -m benchmarks.recovery`.

Two workers decode UCF-101-like clips as fast as they can. Again and again one of them gets a signal
while it works on a lease. The clock runs from the signal until another worker has delivered the
last clip of that lease. Then the victim is replaced, and the next round begins when both are at
work.

    SIGKILL, local       the kernel reports it: the channel to the child closes, and it is reaped
    SIGKILL, dialled in  the next message to it finds no connection
    SIGSTOP, local       silent for `stall_s` (here 2 s; by default 10): it is killed and reaped
    SIGSTOP, dialled in  silent for 2 s: it loses its leases

A kill from outside looks like a crash of the decoder, so the clips of that lease are decoded again
one by one.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from videoload import Catalog, Client, ClipSpec, Stream
from videoload.commands.made_videos import make_videos
from videoload.leases.records import Lease
from videoload.leases.table import LeaseTable

CLIP = ClipSpec(
    frames=16, stride=2, resize=128, size=(112, 112), sampling="random", clips_per_video=1000
)
BATCH, WORKERS, STALL_S = 8, 2, 2.0
PATIENCE_S = 60.0
ROUNDS = [(number, local) for number in (signal.SIGKILL, signal.SIGSTOP) for local in (True, False)]


@dataclass(eq=False)
class Strike:
    """A signal that a worker got while it owed the clips at ``rows`` of batch ``step``."""

    began: float
    pid: int
    step: int
    rows: set[int]
    over: threading.Event = field(default_factory=threading.Event)
    took_s: float = 0.0


class Watch:
    """Sees each answer arrive, and sends the signals. Both happen in the client's I/O thread, so
    that nothing changes in between."""

    def __init__(self, client: Client) -> None:
        self._engine = client._engine
        self._table: LeaseTable = client._engine._table
        self._answered = self._table.answered
        self._open: Strike | None = None
        self._struck: set[int] = set()  # pids; the client may not know yet that they are gone
        self._table.answered = self._note  # type: ignore[method-assign]

    def strike(self, number: int, draw: random.Random) -> Strike:
        """As soon as all workers are at work, signal one of them."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            made: list[Strike] = []
            done = threading.Event()

            def call(made: list[Strike] = made, done: threading.Event = done) -> None:
                made += self._strike(number, draw)
                done.set()

            self._engine.post(call)
            done.wait(PATIENCE_S)
            if made:
                return made[0]
            time.sleep(0.01)
        raise TimeoutError(f"no {WORKERS} workers at work within {PATIENCE_S:g} s")

    def _strike(self, number: int, draw: random.Random) -> Iterator[Strike]:
        at_work = []
        for peer, colleague in self._engine._workers.items():
            first = next(iter(self._table.pool._workers[peer].leases.values()), None)
            if first is not None and first.is_owed and colleague.pid not in self._struck:
                at_work.append((colleague.pid, first.chunk))
        if len(at_work) < WORKERS:
            return
        pid, chunk = draw.choice(at_work)
        self._struck.add(pid)
        rows = set(chunk.rows)
        self._open = Strike(time.monotonic(), pid, chunk.batch.step, rows)
        os.kill(pid, number)
        yield self._open

    def _note(
        self, lease: Lease, info: npt.NDArray[Any], decode_s: float, waited_s: float = 0.0
    ) -> None:
        if self._open is not None and lease.is_owed:
            chunk = lease.chunk
            if chunk.batch.step == self._open.step:
                self._open.rows -= set(chunk.rows)
            if not self._open.rows:
                self._open.took_s = time.monotonic() - self._open.began
                self._open.over.set()
                self._open = None
        self._answered(lease, info, decode_s, waited_s)


class Fleet:
    """Workers that dial in."""

    def __init__(self, endpoint: str, root: Path) -> None:
        self._command = [
            *(sys.executable, "-m", "tests.support.lone_worker", "worker"),
            *("--connect", endpoint),
            *("--root", str(root)),
        ]
        self._all: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start another one."""
        worker = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._all[worker.pid] = worker

    def end(self, pid: int | None = None) -> None:
        """Kill and reap one, or all."""
        for each in [pid] if pid is not None else list(self._all):
            worker = self._all.pop(each)
            worker.kill()
            worker.wait()


@contextmanager
def reading(stream: Stream) -> Iterator[None]:
    """A thread that reads the stream as fast as it can."""
    over = threading.Event()

    def read() -> None:
        for _ in stream.batches(epochs=10**6):
            if over.is_set():
                return

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def measure(root: Path, number: int, *, local: bool, times: int) -> list[float]:
    """Seconds from each signal until the clips of the victim's lease had arrived."""
    draw = random.Random(1)
    took = []
    with Client(
        workers=WORKERS if local else 0,
        listen=None if local else "tcp://127.0.0.1:*",
        stall_s=STALL_S,
    ) as client:
        fleet = None if local else Fleet(client.endpoints[0], root)
        try:
            for _ in range(WORKERS if fleet is not None else 0):
                assert fleet is not None
                fleet.start()
            client.wait_for_workers(WORKERS)
            watch = Watch(client)
            stream = client.stream(Catalog.from_folder(root), CLIP, BATCH, shuffle=True)
            with reading(stream):
                for _ in range(times):
                    time.sleep(draw.uniform(0, 1))  # not in step with any clock of the client
                    strike = watch.strike(number, draw)
                    if not strike.over.wait(PATIENCE_S):
                        raise TimeoutError(f"the clips did not come within {PATIENCE_S:g} s")
                    took.append(strike.took_s)
                    if fleet is not None:
                        fleet.end(strike.pid)
                        fleet.start()
            assert not stream.quarantine
        finally:
            if fleet is not None:
                fleet.end()
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--times", type=int, default=50, help="signals of each kind")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write all measured seconds to this file"
    )
    asked = parser.parse_args()
    logging.getLogger("videoload").setLevel(logging.ERROR)  # each death is reported
    table = Table(title="until the clips of the victim's lease came from another")
    for name in ("signal", "worker", "times", "p50 s", "p99 s", "longest s"):
        table.add_column(name, justify="left" if name in ("signal", "worker") else "right")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        make_videos(Path(folder), train_per_class=4, test_per_class=1, frames=120, seed=0)
        for number, local in ROUNDS:
            took = sorted(measure(Path(folder, "train"), number, local=local, times=asked.times))
            p50, p99 = statistics.median(took), took[max(0, -(-99 * len(took) // 100) - 1)]
            name, whom = signal.Signals(number).name, "local" if local else "dialled in"
            table.add_row(name, whom, str(len(took)), f"{p50:.3f}", f"{p99:.3f}", f"{took[-1]:.3f}")
            found.append({"signal": name, "worker": whom, "p50_s": p50, "p99_s": p99, "s": took})
    Console().print(table)
    if asked.json is not None:
        with suppress(FileExistsError):
            asked.json.parent.mkdir(parents=True)
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
