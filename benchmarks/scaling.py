"""How rates grow with the cores, and how long a GPU waits: ``python -m benchmarks.scaling OUT``.

The works `ucf` and `h264`, with 1, 2, 4, 8 and 16 processes: the limit, videoload, and a DataLoader
with torchcodec, one run each. Then a small 3D CNN trains on batches of 32 with all processes: in
PyTorch over `vl.torch.batches` (RGB, and yuv420p that becomes RGB on the device) and over that
DataLoader. Beside each, the same steps on one batch that stays
where it is: what a step takes longer with a loader is the share of time that the device waits.

It is made for a machine with a GPU and 16 cores, where it takes some eight minutes. ``--seconds``
of each run and ``--processes`` (repeated) make it shorter. What is not installed is left out.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import videoload as vl
from benchmarks.__main__ import main as compare_loaders
from benchmarks.figures import Row, parser, save, show
from benchmarks.loaders import torch_data
from benchmarks.works import FOLDER, load

WORKS = ("ucf", "h264")
WAYS = ("torch rgb24", "torch yuv420p", "torch torchcodec")
NEEDS = {"torch", "torchcodec"}
PROCESSES = (1, 2, 4, 8, 16)
_BATCH, _CLASSES = 32, 101
_WARM = 5  # steps


def rates(work: str, processes: int, seconds: float, out: Path) -> list[Row]:
    """Clips a second of each loader."""
    folder = out / f"{work}-{processes}"
    told = ["--work", work, "--rounds", "1", "--processes", str(processes)]
    told += ["--seconds", str(seconds), "--out", str(folder)]
    torchcodec = ["DataLoader torchcodec"] if find_spec("torchcodec") else []
    for loader in ["limit", "videoload", *torchcodec]:
        told += ["--loader", loader]
    compare_loaders(told)
    return list(json.loads((folder / "results.json").read_text())["rows"])


def training(way: str, name: str, processes: int, seconds: float) -> Row:
    """Milliseconds of a step with a loader, and with a batch that stays where it is."""
    work, source = replace(load(name, FOLDER), batch=_BATCH), way.split()[1]
    catalog = vl.Catalog([file.path for file in work.files], labels=None, root=str(work.root))
    if source == "torchcodec":
        step, place = _torch_step()
        read = torch_data.batches(work, work.distinct, processes, source)
        batches = (place(clips) for _, clips in read)
        try:
            return _timed(way, name, step, batches, seconds)
        finally:
            read.close()
    clip = work.clip.spec(sampling="random", pixels=source)
    with vl.Client(workers=processes) as client:
        stream = client.stream(catalog, clip, batch_size=_BATCH, shuffle=True, seed=0)
        passes = itertools.repeat(None)
        step, place = _torch_step()
        clips = (c for _ in passes for c, _ in vl.torch.batches(stream, place.device))
        return _timed(way, name, step, clips, seconds)


def _timed(
    way: str, name: str, step: Callable[[Any], None], batches: Iterable[Any], seconds: float
) -> Row:
    """Each step ends with the device's answer."""
    batches = iter(batches)
    for _ in range(_WARM):
        step(batch := next(batches))
    times = {}
    for kind in ("resident", "loader"):
        began, steps = time.perf_counter(), 0
        while time.perf_counter() < began + seconds / 2:
            step(batch if kind == "resident" else next(batches))
            steps += 1
        times[kind] = (time.perf_counter() - began) / steps * 1e3
    waits = max(0.0, 1 - times["resident"] / times["loader"])
    return {"way": way, "work": name, **times, "waits": waits}


class _Place:
    """Puts uint8 clips [B, T, H, W, 3] on the device, as PyTorch's users do."""

    def __init__(self) -> None:
        import torch

        self.device = "cuda" if torch.cuda.is_available() else "cpu"

    def __call__(self, clips: Any) -> Any:
        moved = clips.pin_memory() if self.device == "cuda" else clips
        return moved.to(self.device, non_blocking=True).permute(0, 4, 1, 2, 3).float() / 255


def _torch_step() -> tuple[Callable[[Any], None], _Place]:
    import torch
    from torch import nn

    place, layers = _Place(), []
    for before, after in itertools.pairwise((3, 32, 64, 128)):
        layers += [nn.Conv3d(before, after, 3, stride=(1, 2, 2), padding=1), nn.ReLU()]
    model = nn.Sequential(
        *layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(128, _CLASSES)
    ).to(place.device)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)

    def step(clips: Any) -> None:
        loss = nn.functional.cross_entropy(
            model(clips), torch.zeros(len(clips), dtype=torch.long, device=clips.device)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()

    return step, place


def main() -> None:
    """The command."""
    made = parser(__doc__)
    made.add_argument("out", type=Path)
    made.add_argument("--seconds", type=float, default=12.0)
    made.add_argument("--processes", type=int, action="append")
    told = made.parse_args()
    counts = told.processes or PROCESSES
    compared = [
        {"work": work, "processes": count, **row}
        for work, count in itertools.product(WORKS, counts)
        for row in rates(work, count, told.seconds, told.out)
    ]
    trained = []
    context = multiprocessing.get_context("spawn")
    ways = [way for way in WAYS if all(map(find_spec, NEEDS.intersection(way.split())))]
    for work, way in itertools.product(WORKS, ways):  # TensorFlow takes all of a GPU's memory
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            trained.append(pool.submit(training, way, work, max(counts), told.seconds).result())
    show(
        "The device waits",
        trained,
        {
            "way": "{way}",
            "work": "{work}",
            "resident ms": "{resident:.1f}",
            "with the loader ms": "{loader:.1f}",
            "waits": "{waits:.0%}",
        },
    )
    save(told.json, "scaling", [*compared, *trained], seconds=told.seconds)


if __name__ == "__main__":
    main()
