"""A PyTorch training step fed by 1 to N workers: `python -m benchmarks.training`.

The clips are those of work `ucf`, without TensorFlow: `torch.from_numpy` takes a batch as it is. On
a GPU, a pinned buffer copies it there while the step before is still computed. The model is a 3D
ResNet of 18 layers (Tran et al. 2018), in bfloat16 on a GPU. Prints, first for decoding in the
training loop, then for each number of workers:

    clips/s     what the stream gives to a loop that does nothing, and the share of N times what
                one worker gives
    training    clips a second through the training step
    waits       the share of the time in which the device had nothing to compute; on a GPU by its
                own clock (CUDA events around the copy and the step)

Without a GPU, the same cores train and decode. Then the figures show that it works, not what it
gains.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

import videoload as vl
from benchmarks.figures import Row, parser, save, show
from videoload.commands.demo import measure_waiting
from videoload.comparison.work import FOLDER, Work, load
from videoload.host import cores

Batch = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]

_BUFFERS = 2  # one is copied from while the next is filled
_WARM_UP_STEPS = 8
_FOR_EVER = 1_000_000  # epochs
_CLASSES = 101


class Trainer:
    """A model and its optimizer on a device; ``busy_s`` is the time that the steps took there."""

    def __init__(self, device: str, width: int) -> None:
        self._device = torch.device(device)
        self._on_gpu = self._device.type == "cuda"
        self._model = resnet3d(width).to(self._device)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.01, momentum=0.9)
        self._loss = nn.CrossEntropyLoss()
        self._pinned: list[torch.Tensor] = []
        self._spans: list[tuple[Any, Any]] = []  # CUDA events: a step's begin and end
        self._busy_s = 0.0
        self._steps = 0

    def step(self, clips: npt.NDArray[np.uint8], labels: npt.NDArray[np.int64]) -> None:
        """One training step; on a GPU it may return before the step is done."""
        if not self._on_gpu:
            began = time.perf_counter()
            self._learn(torch.from_numpy(clips), torch.from_numpy(labels))
            self._busy_s += time.perf_counter() - began
            return
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        buffer = self._pin(torch.from_numpy(clips))
        begin.record()
        self._learn(
            buffer.to(self._device, non_blocking=True), torch.from_numpy(labels).to(self._device)
        )
        end.record()
        self._spans.append((begin, end))
        self._steps += 1

    def busy_s(self) -> float:
        """Seconds since the last call, once everything is done."""
        if self._on_gpu:
            torch.cuda.synchronize()
            self._busy_s = sum(begin.elapsed_time(end) for begin, end in self._spans) / 1e3
            self._spans.clear()
        busy_s, self._busy_s = self._busy_s, 0.0
        return busy_s

    def _pin(self, clips: torch.Tensor) -> torch.Tensor:
        """Copy into memory that the GPU reads by itself."""
        if not self._pinned:
            self._pinned = [torch.empty_like(clips).pin_memory() for _ in range(_BUFFERS)]
        if len(self._spans) >= _BUFFERS:  # the step that read this buffer is done
            self._spans[-_BUFFERS][1].synchronize()
        return self._pinned[self._steps % _BUFFERS].copy_(clips)

    def _learn(self, clips: torch.Tensor, labels: torch.Tensor) -> None:
        frames = clips.permute(0, 4, 1, 2, 3).float().div_(127.5).sub_(1)  # [B, 3, T, H, W]
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._on_gpu):
            loss = self._loss(self._model(frames), labels)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._optimizer.step()


class _Block(nn.Module):  # type: ignore[misc]  # PyTorch need not be there
    """Two convolutions, and the input added to the output."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.long = nn.Sequential(
            nn.Conv3d(inside, outside, 3, stride, 1, bias=False),
            nn.BatchNorm3d(outside),
            nn.ReLU(inplace=True),
            nn.Conv3d(outside, outside, 3, 1, 1, bias=False),
            nn.BatchNorm3d(outside),
        )
        self.short: nn.Module = nn.Identity()
        if stride > 1:
            self.short = nn.Conv3d(inside, outside, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.long(x) + self.short(x))


def resnet3d(width: int) -> nn.Module:
    """R3D-18: ``width`` channels at first (64 in the paper), twice as many at each halving."""
    stages = [
        _Block(width << max(0, n - (not at)), width << n, 2 if n and not at else 1)
        for n, at in itertools.product(range(4), range(2))
    ]
    return nn.Sequential(
        nn.Conv3d(3, width, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False),
        nn.BatchNorm3d(width),
        nn.ReLU(inplace=True),
        *stages,
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
        nn.Linear(width << 3, _CLASSES),
    )


def measure(
    workers: int, catalog: vl.Catalog, clip: vl.ClipSpec, batch: int, trainer: Trainer, s: float
) -> Row:
    """The stream alone and in training, ``s`` seconds each, with so many workers; 0: decoded in
    the training loop."""
    with ExitStack() as stack:
        batches: Iterator[Batch]
        if workers:
            client = stack.enter_context(vl.Client(workers=workers))
            stream = client.stream(catalog, clip, batch, shuffle=True)
            batches = stream.batches(epochs=_FOR_EVER)
        else:
            batches = vl.decode_serially(catalog, clip, batch, shuffle=True, epochs=_FOR_EVER)
        for _ in range(-(-len(catalog) // batch)):  # every file was visited once
            next(batches)
        alone = _pace(batches, lambda clips, labels: None, s)
        _pace(batches, trainer.step, 0.0)
        trainer.busy_s()
        began = time.perf_counter()
        training = _pace(batches, trainer.step, s, warm_up_steps=0)
        busy_s = trainer.busy_s()
        waits = max(0.0, 1 - busy_s / (time.perf_counter() - began))
    return {"workers": workers, "alone": alone, "training": training, "waits": waits}


def _pace(
    batches: Iterator[Batch],
    step: Callable[[npt.NDArray[np.uint8], npt.NDArray[np.int64]], object],
    seconds: float,
    warm_up_steps: int = _WARM_UP_STEPS,
) -> float:
    """Clips a second."""
    pace = measure_waiting(
        batches, step, steps=sys.maxsize, warm_up_steps=warm_up_steps, limit_s=seconds
    )
    return pace.clips_per_s


def catalog_of(work: Work) -> vl.Catalog:
    """A catalog of the work's files; the labels do not matter."""
    paths = [file.path for file in work.files]
    return vl.Catalog(paths, [0] * len(paths), ["all"], root=work.root)


def rounds(counts: list[int], count: int, run: Callable[[int], Row]) -> list[Row]:
    """Medians over rounds, every other one backwards."""
    runs: dict[int, list[Row]] = {workers: [] for workers in counts}
    for turn in range(count):
        for workers in counts[::-1] if turn % 2 else counts:
            runs[workers].append(run(workers))
    rows: list[Row] = [
        {name: median(row[name] for row in mine) for name in mine[0]} for mine in runs.values()
    ]
    one = next((row["alone"] for row in rows if row["workers"] == 1), float("nan"))
    return [{**row, "share": row["alone"] / one / max(1, row["workers"])} for row in rows]


def main() -> None:
    """Measure, print, write."""
    made = parser(__doc__)
    here = "cuda" if torch.cuda.is_available() else "cpu"
    made.add_argument(
        "--workers", type=int, action="append", help="only this number; may be repeated"
    )
    made.add_argument("--device", default=here, help="device of PyTorch")
    made.add_argument("--width", type=int, help="channels; 64 on a GPU, 2 without one")
    made.add_argument("--batch", type=int, default=8, help="clips in a batch")
    made.add_argument("--seconds", type=float, default=6.0, help="length of each measurement")
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--folder", type=Path, default=FOLDER, help="where the AVI files are kept")
    given = made.parse_args()
    os.environ["VIDEOLOAD_CACHE"] = ""  # nothing has to be kept
    given.width = given.width or (2 if given.device == "cpu" else 64)
    # 1, 2, 4 and so on, and all cores.
    counts = given.workers or sorted({2**i for i in range(cores().bit_length())} | {cores()})
    work = load("ucf", given.folder)
    catalog = catalog_of(work)
    clip = work.clip.spec(sampling="random")
    trainer = Trainer(given.device, given.width)
    rows = rounds(
        [0, *counts],
        given.rounds,
        lambda workers: measure(workers, catalog, clip, given.batch, trainer, given.seconds),
    )
    name = torch.cuda.get_device_name() if given.device.startswith("cuda") else "the CPU"
    columns = {
        "workers": "{workers:.0f}",
        "clips/s": "{alone:,.0f}",
        "of ideal": "{share:.0%}",
        "training": "{training:,.0f}",
        "waits": "{waits:.0%}",
    }
    show(f"{work}; trained on {name}", rows, columns)
    save(given.json, "training", rows, device_name=name, **vars(given))


if __name__ == "__main__":
    main()
