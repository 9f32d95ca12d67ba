"""A Sequence of paths and labels, shuffled at the end of each epoch, that loads .npy files batch by
batch out of super-batches that fill the memory.

640 files of 64x64x3, a millisecond of storage each; a training step sleeps 20 ms, so four workers
load faster than it trains. Its author gave no figures. Read again from ``dataset().cache()``, the
files take nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import videoload as vl
from benchmarks.recipes import Row, items, warm_up

FILES, SHAPE, SUPER = 640, (64, 64, 3), 5  # batches of a super-batch
EPOCHS, WORKERS, STEP_S = 30, 4, 0.020
STEPS = FILES // items.BATCH


class Paths(keras.utils.PyDataset):  # type: ignore[misc]
    """As its author wrote it."""

    def __init__(self, paths: list[str], labels: list[int]) -> None:
        super().__init__()
        self._pairs = list(zip(paths, labels, strict=True))
        self._draw = random.Random(0)
        self._at = -1
        self._loaded: Any = None

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> Any:
        size = SUPER * items.BATCH
        if index // SUPER != self._at:
            self._at = index // SUPER
            some = self._pairs[self._at * size : (self._at + 1) * size]
            images = np.stack([items.npy(path) for path, _ in some])
            self._loaded = images, np.array([label for _, label in some])
        rows = slice(index % SUPER * items.BATCH, (index % SUPER + 1) * items.BATCH)
        return self._loaded[0][rows], self._loaded[1][rows]

    def on_epoch_end(self) -> None:
        self._draw.shuffle(self._pairs)
        self._at = -1


class Sleeper(keras.Model):  # type: ignore[misc]
    """A model that a device computes: each step sleeps."""

    def train_step(self, data: Any) -> dict[str, float]:
        time.sleep(STEP_S)
        return {"loss": 0.0}


def run() -> Iterator[Row]:
    with TemporaryDirectory() as folder:
        catalog = make(Path(folder))
        root = str(catalog.root)
        theirs = Paths([f"{root}/{video.path}" for video in catalog], catalog.labels.tolist())
        again = tf.data.Dataset.from_tensors(
            (np.zeros((items.BATCH, *SHAPE), np.float32), np.zeros(items.BATCH, np.int64))
        ).repeat(STEPS)
        fit(again, 1)  # what Keras does once
        before = fit(again, EPOCHS)
        recipe_s = fit(theirs, EPOCHS)
        item = vl.ItemSpec("benchmarks.recipes.items:npy", SHAPE, "float32")
        with vl.Client(workers=WORKERS) as client:
            warm_up(client, WORKERS)
            stream = client.stream(catalog, item, items.BATCH, shuffle=True)
            ours = fit(stream.dataset(epochs=EPOCHS), EPOCHS, steps_per_epoch=STEPS)
            cached = stream.dataset().cache()
            fit(cached, 1)
            from_memory = fit(cached, EPOCHS)
        least = (before + fit(again, EPOCHS)) / 2
    yield Row(f"2 paths and labels, .npy, {WORKERS} workers", "", recipe_s, ours, least)
    yield Row("2 the same from dataset().cache()", "", recipe_s, from_memory, least)


def make(folder: Path) -> vl.Catalog:
    """The files, in ten classes."""
    draw = np.random.default_rng(0)
    for number in range(FILES):
        path = folder / str(number % 10) / f"{number}.npy"
        path.parent.mkdir(exist_ok=True)
        np.save(path, draw.random(SHAPE, np.float32))
    return vl.Catalog.from_folder(folder, suffixes=[".npy"])


def fit(data: Any, epochs: int, **more: Any) -> float:
    """Seconds of this many epochs of Keras."""
    model = Sleeper()
    model.compile(run_eagerly=True)
    began = time.perf_counter()
    model.fit(data, epochs=epochs, verbose=0, shuffle=False, **more)
    return time.perf_counter() - began
