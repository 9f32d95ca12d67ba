"""Three cameras as one sample, and the other ways to have them: `python -m benchmarks.samples`.

Clips of work `many` (files like those of UCF-101), random windows, batches of 8, two workers:

    one camera      a stream of one file a sample; the others are compared with three times its cost
    one sample      `Catalog.side_by_side` of three files
    three streams   of one client, zipped
    DataLoader      of PyTorch, whose `__getitem__` reads three files with torchcodec

In alternation, every other round backwards. Prints samples a second, and the CPU of all processes
for a sample, which hardly depends on what else uses the machine. The clock runs from one batch to a
later one.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import videoload as vl
from benchmarks.figures import Row, Spread, children, cpu_s, parser, save, show
from benchmarks.loaders.readers import Reader, reader
from benchmarks.work import Work
from benchmarks.works import FOLDER, load

CAMERAS = ("left", "middle", "right")
BATCH, WARM = 8, 6  # batches
APART = 11  # files between those of two cameras

Batches = Iterator[Any]


def main() -> None:
    """Measure, print, write."""
    made = parser(__doc__)
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--samples", type=int, default=480, help="samples of each run")
    made.add_argument("--workers", type=int, default=2)
    made.add_argument("--folder", type=Path, default=FOLDER, help="where the AVI files are kept")
    given = made.parse_args()
    work = load("many", given.folder)
    ways: dict[str, Callable[[Work, int], Batches]] = {
        "one camera": _one, "one sample": _together, "three streams": _zipped
    }  # fmt: skip
    if find_spec("torchcodec") is not None:
        ways["DataLoader"] = _loader
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for turn in range(given.rounds):
        for name in list(ways)[:: -1 if turn % 2 else 1]:
            runs[name].append(_measure(ways[name](work, given.workers), given.samples))
    rows: list[Row] = []
    ours = [cpu for _, cpu in runs["one sample"]]
    for name, found in runs.items():
        rate = Spread.of([rate for rate, _ in found])
        cpu = Spread.of([cpu * 1e3 for _, cpu in found])
        share = 3 if name == "one camera" else 1
        of = Spread.of([share * cpu / own for (_, cpu), own in zip(found, ours, strict=True)])
        rows.append({
            "way": name, "samples_per_s": rate.median, "lowest": rate.lowest,
            "highest": rate.highest, "cpu_ms": cpu.median, "of": of.median,
            "of_lowest": of.lowest, "of_highest": of.highest, "rate_of": Spread.of([
                own / rate * share for (rate, _), (own, _) in
                zip(found, runs["one sample"], strict=True)
            ]).median,
        })  # fmt: skip
    columns = {
        "": "{way}",
        "samples/s": "{samples_per_s:.0f}",
        "range": "{lowest:.0f}-{highest:.0f}",
        "one sample / it": "{rate_of:.2f}",
        "CPU ms": "{cpu_ms:.1f}",
        "CPU: it / one sample": "{of:.2f}",
        "range ": "{of_lowest:.2f}-{of_highest:.2f}",
    }
    show(f"{given.workers} workers, {work}; one camera counts three times", rows, columns)
    save(given.json, "samples", rows, rounds=given.rounds, samples=given.samples)


def _measure(batches: Batches, samples: int) -> tuple[float, float]:
    """Samples a second, and CPU seconds a sample."""
    for _ in islice(batches, WARM):
        pass
    began, before = time.perf_counter(), _cpu_s()
    count = -(-samples // BATCH)
    for _ in islice(batches, count):
        pass
    took, spent = time.perf_counter() - began, _cpu_s() - before
    batches.close()  # type: ignore[attr-defined]
    return count * BATCH / took, spent / (count * BATCH)


def _cpu_s() -> float:
    """Of this process and its workers so far."""
    here = os.getpid()
    return sum(sum(cpu_s(pid).values()) for pid in (here, *children(here)))


def _paths(work: Work) -> dict[str, list[str]]:
    """The files of each camera: the same ones, in another order."""
    files = [file.path for file in work.files]
    return {name: files[APART * at :] + files[: APART * at] for at, name in enumerate(CAMERAS)}


def _catalogs(work: Work) -> dict[str, vl.Catalog]:
    return {name: vl.Catalog(paths, root=work.root) for name, paths in _paths(work).items()}


def _stream(client: vl.Client, catalog: vl.Catalog, spec: Any) -> Batches:
    return client.stream(catalog, spec, BATCH, shuffle=True, seed=0).batches(epochs=1_000_000)


def _one(work: Work, workers: int) -> Batches:
    with vl.Client(workers=workers) as client:
        yield from _stream(client, _catalogs(work)["left"], work.clip.spec(sampling="random"))


def _together(work: Work, workers: int) -> Batches:
    cameras: dict[str, Any] = {**_catalogs(work)}
    catalog = vl.Catalog.side_by_side(**cameras)
    spec = {name: work.clip.spec() for name in CAMERAS}
    spec["left"] = work.clip.spec(sampling="random")
    with vl.Client(workers=workers) as client:
        yield from _stream(client, catalog, spec)


def _zipped(work: Work, workers: int) -> Batches:
    spec = work.clip.spec(sampling="random")
    with vl.Client(workers=workers) as client:
        streams = [_stream(client, catalog, spec) for catalog in _catalogs(work).values()]
        yield from zip(*streams, strict=True)


def _loader(work: Work, workers: int) -> Batches:
    from torch.utils.data import DataLoader

    yield from DataLoader(
        _Samples(work), BATCH, num_workers=workers, prefetch_factor=2, in_order=False
    )


class _Samples:
    """A map-style data set of PyTorch: three clips of one window."""

    def __init__(self, work: Work) -> None:
        draw, files = random.Random(0), len(work.files)
        orders = (draw.sample(range(files), files) for _ in range(1000))
        self._order = [
            (file, draw.randrange(work.files[file].frames - work.clip.span))
            for order in orders for file in order
        ]  # fmt: skip
        self._work = work
        self._read: Reader | None = None

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, index: int) -> Any:
        import torch

        if self._read is None:
            torch.set_num_threads(1)
            self._read = reader("torchcodec", self._work)
        file, start = self._order[index]
        files = self._work.files
        return {
            name: torch.from_numpy(self._read(files[(file + APART * at) % len(files)], start))
            for at, name in enumerate(CAMERAS)
        }


if __name__ == "__main__":
    main()
