"""Global FIFO queues that N threads fill from AVI files: one each to train, validate and test.

A file takes 1 s to load and a step 0.2 s to train: here 0.1 s, of which 94 ms are slept, and
0.02 s. Its author: 5.3 % of CPU with one thread, 29.8 % with 10, 119.3 % with 30; the queues for
validation and test were never started. Five workers load as fast as the trainer trains. Here all
three streams are read by turns: after every 20 steps of training, two batches each to validate and
to test. The clock begins when three such rounds have filled what is made ahead: it is full again
when the clock stops.
"""

from __future__ import annotations

import queue
import statistics
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import av
import numpy as np

import videoload as vl
from benchmarks.measure import cpu_s
from benchmarks.recipes import Row, slow, train
from videoload.commands.made_videos import make_videos

STEP_S = 0.2 * slow.SCALE
STEPS = {1: 48, 2: 96, 5: 240, 10: 240, 30: 240}  # by workers
EVERY, CHECKED = 20, 2  # so many steps of training, then so many of each of the others
WARM = 3 * (EVERY + 2 * CHECKED)  # before the clock
AUTHOR = {1: "CPU 5.3 %", 10: "CPU 29.8 %", 30: "CPU 119.3 %"}
FRAMES, SIZE = 8, 64
CAPACITY = 20
CLIP = vl.ClipSpec(FRAMES, size=(SIZE, SIZE), transform="benchmarks.recipes.slow:slow_video")


def run(most: int = 1 << 20) -> Iterator[Row]:
    """``most``: steps with each number of workers."""
    with TemporaryDirectory() as folder:
        make_videos(Path(folder), train_per_class=4, test_per_class=2, frames=16)
        catalog, test = vl.Catalog.train_and_test(Path(folder))
        load_s = alone(catalog)
        for workers, usual in STEPS.items():
            steps = min(usual, most)
            theirs, theirs_cpu = recipe(catalog, workers, steps)
            ours, cpu, waited = videoload(catalog, test, workers, steps)
            least = steps * max(STEP_S, load_s / workers)
            note = f"waits {waited:.1%}; CPU {cpu:.0%}, recipe {theirs_cpu:.0%}"
            name = f"3 FIFO queues of AVI files, {workers} workers"
            yield Row(name, AUTHOR.get(workers, ""), theirs, ours, least, note)


def alone(catalog: vl.Catalog) -> float:
    """Seconds that a file takes by itself."""
    batches = vl.decode_serially(catalog, CLIP, 1, epochs=4)
    next(batches)
    began = time.perf_counter()
    return statistics.median(_apart(batches, began))


def _apart(batches: Iterator[Any], began: float) -> Iterator[float]:
    for _ in batches:
        now = time.perf_counter()
        yield now - began
        began = now


def recipe(catalog: vl.Catalog, workers: int, steps: int) -> tuple[float, float]:
    """Seconds, and share of a core, with threads and a queue."""
    full: queue.Queue[Any] = queue.Queue(CAPACITY)
    over = threading.Event()
    numbers = iter(range(1 << 30))

    def work() -> None:
        while not over.is_set():
            video = catalog[next(numbers) % len(catalog)]
            clip = slow.slow_video(_decode(f"{catalog.root}/{video.path}"))
            while not over.is_set():
                try:
                    full.put((clip, video.label), timeout=0.1)
                    break
                except queue.Full:
                    continue

    threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    train((full.get() for _ in range(WARM)), STEP_S)
    before = cpu_s()
    seconds, _ = train((full.get() for _ in range(steps)), STEP_S)
    spent = cpu_s() - before
    over.set()
    for thread in threads:
        thread.join()
    return seconds, spent / seconds


def videoload(
    catalog: vl.Catalog, test: vl.Catalog, workers: int, steps: int
) -> tuple[float, float, float]:
    """Seconds, share of a core, and share of the time that the trainer waited."""
    with vl.Client(workers=workers) as client:
        client.wait_for_workers(workers, 120)
        for _ in islice(client.stream(catalog, CLIP, 1).batches(epochs=1 << 20), 4 * workers):
            pass  # each worker has imported what it will call
        streams = [
            client.stream(catalog, CLIP, 1, shuffle=True),
            client.stream(test, CLIP, 1, slots=4),
            client.stream(test, CLIP, 1, slots=4, shuffle=True),
        ]
        readers = [stream.batches(epochs=1 << 20) for stream in streams]

        def turns() -> Iterator[Any]:
            while True:
                for reader, count in zip(readers, (EVERY, CHECKED, CHECKED), strict=True):
                    for _ in range(count):
                        yield next(reader)

        batches = turns()
        train(islice(batches, WARM), STEP_S)
        before = cpu_s()
        seconds, waited = train(islice(batches, steps), STEP_S)
        return seconds, (cpu_s() - before) / seconds, waited / seconds


def _decode(path: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    with av.open(path) as container:
        frames = [
            frame.to_ndarray(format="rgb24", width=SIZE, height=SIZE)
            for _, frame in zip(range(FRAMES), container.decode(video=0), strict=False)
        ]
    return np.stack(frames)
