"""What kept frames save over the epochs of a training: `python -m benchmarks.epochs`.

Files like UCF-101's (`many`) and like HMDB-51's (`many-hmdb`: one key frame, packed B-pictures).
Each epoch takes a clip of each file through `Stream.dataset`, with a random window, a random crop
and a flip that are drawn anew. Two workers decode, and nothing trains. In alternation:

    nothing   each epoch decodes its clips
    frames    a frame store, empty at the beginning
    cache     `tf.data`'s cache() of the first epoch's clips: no later epoch draws anything anew

Clips a second of some epochs; the CPU seconds of all processes until the end of some ("CPU s 10":
ten epochs), medians over the rounds; and the GB that the frames take on the disk. All workers are
connected before the first epoch. The files are in the page cache, and so is what is kept if memory
is large enough.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import videoload as vl
from benchmarks.figures import Row, children, parser, save, show
from videoload.comparison.work import FOLDER, WORKS, Work, load

WAYS = ("nothing", "frames", "cache")
FILES = ("many", "many-hmdb")
EPOCHS = (1, 2, 5, 10, 30)
SUMS = (1, 5, 10, 30)
_WORKERS = 2
_STORE_GB = 100  # more than any of these works needs
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def measure(way: str, work: Work, epochs: int, folder: Path) -> tuple[list[float], list[float]]:
    """When each epoch ended, and the CPU seconds of all processes until then. Both begin with 0.
    Run it in a fresh process. ``folder`` is empty."""
    catalog = vl.Catalog(
        [file.path for file in work.files], [0] * len(work.files), ["a"], work.root
    )
    clip = work.clip.spec(sampling="random", crop="random", flip=True)
    options: dict[str, Any] = {}
    if way == "frames":
        options = {"frame_store": folder, "frame_store_gb": _STORE_GB}
    with vl.Client(workers=_WORKERS, cache=False, **options) as client:
        client.wait_for_workers(_WORKERS)
        stream = client.stream(catalog, clip, work.batch, shuffle=True, seed=0)
        batches = _batches(stream, way, epochs)
        times, spent = [time.perf_counter()], [_cpu_s()]
        for _ in range(epochs):
            for _ in range(len(stream)):
                next(batches)
            times.append(time.perf_counter())
            spent.append(_cpu_s())
    return [at - times[0] for at in times], [at - spent[0] for at in spent]


def _batches(stream: vl.Stream, way: str, epochs: int) -> Iterator[Any]:
    if way == "cache":
        return iter(stream.dataset(epochs=1).cache().repeat(epochs))
    return iter(stream.dataset(epochs=epochs))


def _cpu_s() -> float:
    """CPU seconds so far of this process and its children, threads that ended included."""
    ticks = 0
    for pid in (os.getpid(), *children(os.getpid())):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])  # user and system
    return ticks * _TICK_S


def rows_of(work: Work, rounds: int, epochs: int) -> Iterator[Row]:
    """A row for each way."""
    found: dict[str, list[tuple[list[float], list[float]]]] = {way: [] for way in WAYS}
    kept = dict.fromkeys(WAYS, 0)
    fresh = multiprocessing.get_context("spawn")
    for _ in range(rounds):
        for way in WAYS:
            with (
                TemporaryDirectory(dir=work.root.parent) as folder,
                ProcessPoolExecutor(1, mp_context=fresh) as process,
            ):
                found[way].append(process.submit(measure, way, work, epochs, Path(folder)).result())
                files = (file.stat() for file in Path(folder).rglob("*") if file.is_file())
                kept[way] = sum(512 * file.st_blocks for file in files)
    clips = len(work.files) // work.batch * work.batch
    for way, runs in found.items():
        rates = [[clips / (b - a) for a, b in pairwise(times)] for times, _ in runs]
        yield {
            "files": work.name,
            "way": way,
            "clips_per_s": {
                number: median(rate[number - 1] for rate in rates)
                for number in EPOCHS if number <= epochs
            },
            "cpu_s": {
                number: median(spent[number] for _, spent in runs)
                for number in SUMS if number <= epochs
            },
            "kept_gb": kept[way] / 1e9,
        }  # fmt: skip


def main() -> None:
    """Measure, print, write."""
    made = parser(__doc__)
    made.add_argument("--work", choices=WORKS, action="append", help="only these files")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--epochs", type=int, default=max(EPOCHS))
    made.add_argument("--folder", type=Path, default=FOLDER, help="where the AVI files are kept")
    given = made.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    rows: list[Row] = []
    for name in given.work or FILES:
        work = load(name, given.folder)
        found = list(rows_of(work, given.rounds, given.epochs))
        columns = {"": "{way}"}
        columns |= {f"epoch {i}": f"{{clips_per_s[{i}]:,.0f}}" for i in found[0]["clips_per_s"]}
        columns |= {f"CPU s {i}": f"{{cpu_s[{i}]:,.1f}}" for i in found[0]["cpu_s"]}
        columns["GB"] = "{kept_gb:.2f}"
        show(f"clips/s, and CPU seconds summed: {work}", found, columns)
        rows += found
    save(given.json, "epochs", rows, rounds=given.rounds, workers=_WORKERS)


if __name__ == "__main__":
    main()
