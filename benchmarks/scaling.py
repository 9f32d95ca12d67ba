"""How the rate of a training grows with the cores: ``python -m benchmarks.scaling``.

A small 3D CNN trains in PyTorch on batches of 32 clips of the work `ucf`, with 4, 8 and 16 workers
(``--processes``, repeated).
"""

from __future__ import annotations

import itertools
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import videoload as vl
from benchmarks.figures import Row, parser, save, show
from benchmarks.works import FOLDER, load

_BATCH, _CLASSES = 32, 101
_WARM = 5  # steps


def training(processes: int, seconds: float) -> Row:
    """Clips a second."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    work, step = load("ucf", FOLDER), _torch_step(device)
    catalog = vl.Catalog([file.path for file in work.files], labels=None, root=str(work.root))
    with vl.Client(workers=processes) as client:
        clip = work.clip.spec(sampling="random")
        stream = client.stream(catalog, clip, batch_size=_BATCH, shuffle=True, seed=0)
        passes = itertools.repeat(None)
        batches = (clips for _ in passes for clips, _ in vl.torch.batches(stream, device))
        for _ in range(_WARM):
            step(next(batches))
        began, steps = time.perf_counter(), 0
        while time.perf_counter() < began + seconds:
            step(next(batches))
            steps += 1
        return {
            "processes": processes, "rate": steps * _BATCH / (time.perf_counter() - began),
        }  # fmt: skip


def _torch_step(device: str) -> Callable[[Any], None]:
    """Each step ends with the device's answer."""
    import torch
    from torch import nn

    layers: list[nn.Module] = []
    for before, after in itertools.pairwise((3, 32, 64, 128)):
        layers += [nn.Conv3d(before, after, 3, stride=(1, 2, 2), padding=1), nn.ReLU()]
    model = nn.Sequential(
        *layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(128, _CLASSES)
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)

    def step(clips: Any) -> None:
        loss = nn.functional.cross_entropy(
            model(clips), torch.zeros(len(clips), dtype=torch.long, device=device)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()

    return step


def main() -> None:
    """The command."""
    made = parser(__doc__)
    made.add_argument("--seconds", type=float, default=12.0)
    made.add_argument("--processes", type=int, action="append")
    told = made.parse_args()
    context, rows = multiprocessing.get_context("spawn"), list[Row]()
    for processes in told.processes or (4, 8, 16):
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            rows.append(pool.submit(training, processes, told.seconds).result())
    show("A small 3D CNN", rows, {"workers": "{processes}", "clips/s": "{rate:,.0f}"})
    save(told.json, "scaling", rows, seconds=told.seconds)


if __name__ == "__main__":
    main()
