"""What a thousand to ten million videos cost the trainer: `python -m benchmarks.growth`.

    list, csv     `Catalog.from_list` and `from_csv` of a file with so many lines
    memory        `Catalog` of paths and labels that are in memory already
    plan, dense   `Plan.of` such a catalog; "dense" has to know how long each video is
    batch         `plan[step]`: a shuffled batch of 32, here and there in an epoch
    client        `Client` and `Client.stream`, until the I/O thread knows the stream

Each in a process of its own: seconds (of a batch: microseconds), megabytes that stay, and megabytes
that were needed at the most. A cost that grows in proportion is ten times as high from row to row.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import videoload as vl
from benchmarks.figures import Row, parser, resident_bytes, save, show
from videoload.plan.options import StreamOptions
from videoload.plan.plan import Plan
from videoload.trainer.client import Client  # imported here, so that no import is timed

CLASSES = [f"Class{i:03d}" for i in range(101)]
BATCHES = 2000
OPTIONS = StreamOptions(32, True, 0, (0, 1), True, True, "substitute", 0.01)
CLIP = vl.ClipSpec(frames=16, stride=2, size=(8, 8), sampling="random")  # slots are small
DENSE = vl.ClipSpec(frames=16, stride=2, size=(112, 112), sampling="dense")


class Cost:
    """Seconds and megabytes of what happens inside the ``with``."""

    def __enter__(self) -> Cost:
        self._before = sum(resident_bytes(os.getpid()))
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        self._began = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self.seconds = time.perf_counter() - self._began
        self.kept_mb = (sum(resident_bytes(os.getpid())) - self._before) / 1e6
        status = Path("/proc/self/status").read_text()
        peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
        self.peak_mb = (peak - self._before) / 1e6


def path(i: int) -> str:
    """A path as long as those of UCF-101."""
    name = CLASSES[i % len(CLASSES)]
    return f"{name}/v_{name}{name}_g{i:08d}_c01.avi"


def of_memory(videos: int, **columns: Any) -> vl.Catalog:
    """A catalog of this many videos."""
    labels = np.arange(videos) % len(CLASSES)
    return vl.Catalog([path(i) for i in range(videos)], labels, CLASSES, **columns)


def _list(videos: int, files: Path) -> Cost:
    with Cost() as cost:
        catalog = vl.Catalog.from_list(files / "videos.txt", None, CLASSES)
    assert len(catalog) == videos
    return cost


def _csv(videos: int, files: Path) -> Cost:
    with Cost() as cost:
        catalog = vl.Catalog.from_csv(files / "videos.csv", None)
    assert len(catalog) == videos
    return cost


def _memory(videos: int, files: Path) -> Cost:
    paths = [path(i) for i in range(videos)]
    labels = np.arange(videos) % len(CLASSES)
    with Cost() as cost:
        catalog = vl.Catalog(paths, labels, CLASSES)
    assert len(catalog) == videos
    return cost


def _plan(videos: int, files: Path) -> Cost:
    catalog = of_memory(videos)
    with Cost() as cost:
        plan = Plan.of(catalog, CLIP, OPTIONS)
    assert plan.samples == videos
    return cost


def _dense(videos: int, files: Path) -> Cost:
    catalog = of_memory(videos, frames=np.arange(videos) % 500 + 32)
    with Cost() as cost:
        plan = Plan.of(catalog, DENSE, OPTIONS)
    assert plan.samples >= videos
    return cost


def _batch(videos: int, files: Path) -> Cost:
    plan = Plan(videos, 1, OPTIONS)
    draw = random.Random(0)
    with Cost() as cost:
        for _ in range(BATCHES):
            plan[3 * len(plan) + draw.randrange(len(plan))]
    cost.seconds *= 1e6 / BATCHES
    return cost


def _client(videos: int, files: Path) -> Cost:
    catalog = of_memory(videos)
    known = threading.Event()
    with Cost() as cost:
        client = Client(workers=0, listen="tcp://127.0.0.1:*")
        stream = client.stream(catalog, CLIP, 32, shuffle=True, slots=2)
        client._engine.post(known.set)
        known.wait()
    del stream
    client.close()
    return cost


MEASURES: dict[str, Callable[[int, Path], Cost]] = {
    "list": _list,
    "csv": _csv,
    "memory": _memory,
    "plan": _plan,
    "dense": _dense,
    "batch": _batch,
    "client": _client,
}


def measure(what: str, videos: int, files: Path) -> Row:
    """One line of the table; run it in a fresh process."""
    cost = MEASURES[what](videos, files)
    return {
        "what": what,
        "videos": videos,
        "time": cost.seconds,
        "kept_mb": cost.kept_mb,
        "peak_mb": cost.peak_mb,
    }


@contextmanager
def listed(videos: int) -> Iterator[Path]:
    """A folder with a list and a table of this many videos."""
    with TemporaryDirectory() as folder:
        files = Path(folder)
        with (files / "videos.txt").open("w") as lines:
            lines.writelines(f"{path(i)} {i % len(CLASSES) + 1}\n" for i in range(videos))
        with (files / "videos.csv").open("w") as lines:
            lines.write("path,label\n")
            lines.writelines(f"{path(i)},{CLASSES[i % len(CLASSES)]}\n" for i in range(videos))
        yield files


def main() -> None:
    """Measure, print, write."""
    made = parser(__doc__)
    made.add_argument(
        "--most", type=int, default=7, help="the largest number of videos is 10 to this power"
    )
    made.add_argument("--what", choices=MEASURES, action="append", help="only this one")
    given = made.parse_args()
    rows: list[Row] = []
    fresh = multiprocessing.get_context("spawn")
    for power in range(3, given.most + 1):
        with (
            listed(10**power) as files,
            ProcessPoolExecutor(1, mp_context=fresh, max_tasks_per_child=1) as processes,
        ):
            for what in given.what or MEASURES:
                rows += [processes.submit(measure, what, 10**power, files).result()]
    rows.sort(key=lambda row: list(MEASURES).index(row["what"]))
    columns = {
        "": "{what}",
        "videos": "{videos:,}",
        "time": "{time:,.3g}",
        "MB kept": "{kept_mb:,.1f}",
        "MB at most": "{peak_mb:,.1f}",
    }
    show("what many videos cost (batch: microseconds, all others seconds)", rows, columns)
    save(given.json, "growth", rows, most=given.most)


if __name__ == "__main__":
    main()
