"""How the rate grows with the workers: `python -m benchmarks.scaling`.

Batches of 32 clips of the work `ucf`: decoded alone, and with a small 3D CNN in PyTorch that trains
on them. Without a GPU nothing trains, since the model would take the workers' cores; more workers
than cores show nothing. A line below the table says what it cannot show on this machine.
"""

from __future__ import annotations

import itertools
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from typing import Any

import videoload as vl
from benchmarks.figures import Row, parser, save, table
from benchmarks.works import FOLDER, load
from videoload.host import cores

COLUMNS = {
    "workers": "{workers}", "decoded, clips/s": "{decoded:,.0f}", "of one worker": "{times:.2f} x",
    "trained, clips/s": "{trained}",
}  # fmt: skip
_BATCH, _CLASSES = 32, 101
_WARM = 5  # steps


def clips_s(workers: int, seconds: float, device: str) -> float:
    """Measure it; without a ``device``, batches are dropped."""
    work, step = load("ucf", FOLDER), _torch_step(device) if device else len
    catalog = vl.Catalog([file.path for file in work.files], labels=None, root=str(work.root))
    with vl.Client(workers=workers) as client:
        client.wait_for_workers(workers)
        clip = work.clip.spec(sampling="random")
        stream = client.stream(catalog, clip, batch_size=_BATCH, shuffle=True, seed=0)
        batches = _batches(stream, device)
        for _ in range(_WARM):
            step(next(batches))
        began, steps = time.perf_counter(), 0
        while time.perf_counter() < began + seconds:
            step(next(batches))
            steps += 1
        return steps * _BATCH / (time.perf_counter() - began)


def _batches(stream: Any, device: str) -> Iterator[Any]:
    for _ in itertools.count():
        for clips, _ in vl.torch.batches(stream, device) if device else stream:
            yield clips


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
    """Measure, print, write."""
    made = parser(__doc__)
    made.add_argument("--seconds", type=float, default=12.0)
    made.add_argument("--workers", type=int, action="append", help="1, 2, 4, ... to the cores")
    told = made.parse_args()
    context, rows = multiprocessing.get_context("spawn"), list[Row]()
    device, numbers = _device(), [2**n for n in range(cores().bit_length())]
    for workers in told.workers or numbers:

        def run(device: str, workers: int = workers) -> float:
            with ProcessPoolExecutor(1, mp_context=context) as pool:
                return pool.submit(clips_s, workers, told.seconds, device).result()

        decoded = run("")
        trained = f"{run(device):,.0f}" if device else "no GPU"
        times = decoded / (rows[0]["decoded"] / rows[0]["workers"] if rows else decoded / workers)
        rows.append({"workers": workers, "decoded": decoded, "times": times, "trained": trained})
    print(table(rows, COLUMNS))
    limits = [f"more than {cores()} workers, since there are {cores()} cores"]
    limits += [] if device else ["a training run, since PyTorch finds no GPU"]
    print(f"This machine cannot show {', nor '.join(limits)}.")
    save(told.json, "scaling", rows, seconds=told.seconds)


def _device() -> str:
    """The GPU; "" if there is none."""
    if not find_spec("torch"):
        return ""
    import torch

    return "cuda" if torch.cuda.is_available() else ""


if __name__ == "__main__":
    main()
