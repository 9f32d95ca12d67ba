"""What a clip costs beside its decoding: `python -m benchmarks.overhead`.

Decoding is free here (`benchmarks.free`). Everything else is as in training: plan, leases, messages
with the indexes of the videos, slots, batches, and what a worker does between two packets that it
decodes (--packets 0 leaves that out). Prints clips a second, and the microseconds of CPU that a
clip costs, by thread:

    I/O         the client's I/O thread: leases out, results in
    consumer    the thread that reads the stream
    worker      the one thread of each worker
    zmq         the threads of ZeroMQ itself, in the client and in the workers

"local" workers write into shared slots. "tcp" and "curve" workers dial in over loopback and send
the clips' pixels. --size is 8x8, so that messages are measured, not bytes. A batch of N clips goes
to W workers in leases of N/W clips, at most 16.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import videoload as vl
from benchmarks.figures import (
    Row,
    Spread,
    children,
    client_cpu_s,
    cpu_s,
    parser,
    save,
    show,
    workers_are,
)
from videoload.processes.supervisor import Supervisor
from videoload.transport.keys import make_keys
from videoload.transport.private_messages import WorkerSettings

WAYS = ("local", "tcp", "curve")
LEASES = (1, 2, 4, 8, 16)
VIDEOS = 1000
SPENDERS = ("io", "consumer", "worker", "zmq")

_PACKETS = 37  # from the key frame before a UCF-101 clip to its last frame: 12 / 2 + 31
_SHOWN = 30  # functions of a profile


@contextmanager
def connected(way: str, workers: int, packets: int, folder: Path) -> Iterator[vl.Client]:
    """A client with ``workers`` workers of the free kind, local or dialled in."""
    with ExitStack() as stack:
        stack.enter_context(workers_are("benchmarks.free"))
        stack.enter_context(mock.patch.dict(os.environ, VIDEOLOAD_PACKETS=str(packets)))
        if way == "local":
            client = stack.enter_context(vl.Client(workers=workers))
        else:
            ours, theirs = make_keys(folder / "keys") if way == "curve" else (None, None)
            client = stack.enter_context(
                vl.Client(workers=0, listen="tcp://127.0.0.1:*", keys=ours)
            )
            settings = WorkerSettings(
                [*client.endpoints], root=str(folder), keys=None if theirs is None else str(theirs)
            )
            supervisor = Supervisor()
            stack.callback(supervisor.stop)
            supervisor.start(workers, settings)
        client.wait_for_workers(workers)
        yield client


class Reader:
    """A consumer that takes batches and drops them. The first epoch is over, so all videos are
    known."""

    def __init__(
        self, client: vl.Client, folder: Path, lease: int, workers: int, size: int
    ) -> None:
        names = [f"Class{i % 101:03d}/v_Class{i % 101:03d}_g{i:05d}.avi" for i in range(VIDEOS)]
        catalog = vl.Catalog(
            names, [i % 101 for i in range(VIDEOS)], [f"Class{i:03d}" for i in range(101)], folder
        )
        clip = vl.ClipSpec(frames=16, stride=2, size=(size, size), sampling="random", flip=True)
        self.batch = lease * workers
        stream = client.stream(catalog, clip, self.batch, shuffle=True, seed=0)
        self._batches = stream.batches(epochs=1_000_000)
        self.read(lambda clips: clips >= 2 * VIDEOS)

    def read(self, enough: Callable[[int], bool]) -> int:
        """Take batches until ``enough(clips taken)`` is true. Returns their number."""
        clips = 0
        while not enough(clips):
            next(self._batches)
            clips += self.batch
        return clips

    def read_for(self, seconds: float) -> int:
        """Take batches for this long."""
        until = time.perf_counter() + seconds
        return self.read(lambda _: time.perf_counter() >= until)


def spent() -> dict[str, float]:
    """CPU seconds so far of this process and of its children, by thread."""
    seconds = client_cpu_s() | {"worker": 0.0}
    for pid in children(os.getpid()):
        threads = cpu_s(pid)
        seconds["worker"] += threads.pop(pid)
        seconds["zmq"] += sum(threads.values())
    return seconds


def measure(way: str, lease: int, arguments: argparse.Namespace) -> dict[str, float]:
    """Clips a second, and microseconds a clip by thread and in total."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        with connected(way, arguments.workers, arguments.packets, folder) as client:
            reader = Reader(client, folder, lease, arguments.workers, arguments.size)
            began, before = time.perf_counter(), spent()
            clips = reader.read_for(arguments.seconds)
            after, seconds = spent(), time.perf_counter() - began
    micros = {who: (after[who] - before[who]) / clips * 1e6 for who in SPENDERS}
    return {"clips_per_s": clips / seconds, "total": sum(micros.values())} | micros


def profile(whom: str, way: str, lease: int, arguments: argparse.Namespace) -> None:
    """Print where the time goes, in microseconds a clip. The profiler makes calls slower than they
    are, and waiting counts: in poll and acquire for work, in send and recv for the GIL or a CPU."""
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        folder = Path(home)
        if whom == "worker":
            environment = mock.patch.dict(os.environ, VIDEOLOAD_PROFILE=str(folder / "profile"))
            stack.enter_context(environment)
        with connected(way, arguments.workers, arguments.packets, folder) as client:
            reader = Reader(client, folder, lease, arguments.workers, arguments.size)
            if whom == "worker":
                reader.read_for(arguments.seconds)
            else:
                # One thread after the other: from Python 3.12 on only one profile runs at a time.
                for name, post in (("I/O thread", client._engine.post), ("consumer", _now)):
                    seen = cProfile.Profile()
                    post(seen.enable)
                    clips = reader.read_for(arguments.seconds)
                    post(seen.disable)
                    time.sleep(0.5)  # the call is made
                    print_profile(pstats.Stats(seen), f"{way}, leases of {lease}: {name}", clips)
        for number, file in enumerate(sorted(folder.glob("profile.*"))):
            stats = pstats.Stats(str(file))
            clips = sum(row[1] for at, row in functions(stats).items() if at[2] == "decode")
            print_profile(stats, f"{way}, leases of {lease}: worker {number}", clips)


def _now(call: Callable[[], None]) -> None:
    call()


def functions(seen: pstats.Stats) -> dict[tuple[str, int, str], tuple[Any, ...]]:
    """(file, line, name) -> (_, calls, own seconds, with what it calls, _)."""
    found: dict[tuple[str, int, str], tuple[Any, ...]] = vars(seen)["stats"]
    return found


def print_profile(seen: pstats.Stats, title: str, clips: int) -> None:
    """Print the functions that took most time, per clip."""
    rows: list[Row] = []
    for (file, line, name), (_, calls, own, below, _) in functions(seen).items():
        where = f"{Path(file).stem}:{line} {name}" if line else name.removeprefix("<built-in ")
        rows.append({
            "function": where, "calls": calls / clips,
            "own": own / clips * 1e6, "below": below / clips * 1e6,
        })  # fmt: skip
    rows.sort(key=lambda row: -row["own"])
    columns = {
        "calls": "{calls:.2f}",
        "µs": "{own:.2f}",
        "in all": "{below:.2f}",
        "function": "{function}",
    }
    show(f"{title}, a clip (of {clips})", rows[:_SHOWN], columns)


def main() -> None:
    """Measure, print, write."""
    made = parser(__doc__)
    made.add_argument("--workers", type=int, default=2)
    made.add_argument("--seconds", type=float, default=1.0, help="length of each measurement")
    made.add_argument("--rounds", type=int, default=3, help="rounds; the median is printed")
    made.add_argument("--size", type=int, default=8, help="side of a clip in pixels")
    made.add_argument(
        "--packets", type=int, default=_PACKETS, help="packets that a clip is decoded from"
    )
    made.add_argument("--way", choices=WAYS, action="append", help="only this one; may be repeated")
    made.add_argument("--lease", type=int, choices=LEASES, action="append", help="only this size")
    made.add_argument("--profile", choices=("client", "worker"), help="print where the time goes")
    arguments = made.parse_args()
    ways, leases = arguments.way or WAYS, arguments.lease or LEASES
    if arguments.profile:
        profile(arguments.profile, ways[0], (arguments.lease or [4])[0], arguments)
        return
    rows: list[Row] = []
    for way in ways:
        for lease in leases:
            rounds = [measure(way, lease, arguments) for _ in range(arguments.rounds)]
            spreads = {name: Spread.of([r[name] for r in rounds]) for name in rounds[0]}
            medians = {name: spread.median for name, spread in spreads.items()}
            total = {"lowest": spreads["total"].lowest, "highest": spreads["total"].highest}
            rows.append({"way": way, "lease": lease, **medians, **total})
    settings = {
        name: getattr(arguments, name)
        for name in ("workers", "seconds", "rounds", "size", "packets")
    }
    columns = {
        "": "{way}",
        "lease": "{lease}",
        "clips/s": "{clips_per_s:,.0f}",
        "µs/clip": "{total:.0f}",
        "range": "{lowest:.0f}-{highest:.0f}",
        **{who: f"{{{who}:.1f}}" for who in SPENDERS},
    }
    title = f"CPU of a clip whose decoding is free; {arguments.workers} workers"
    show(title, rows, columns)
    save(arguments.json, "overhead", rows, **settings)


if __name__ == "__main__":
    main()
