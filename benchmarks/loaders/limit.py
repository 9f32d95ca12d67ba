"""The limit: one bare process per core, each in the plain loop, with one buffer of its own.

It has no queue, no batch and no trainer. A loader that hands out clips has to do all of this and
more.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier

import numpy as np

from benchmarks import measure
from benchmarks.loaders import Batches
from benchmarks.loaders.serial import batches as serial_batches
from benchmarks.measure import Timing
from benchmarks.plain import Plain
from benchmarks.work import Item, Work

_WAIT_S = 600


def batches(work: Work, items: Sequence[Item], processes: int, variant: str) -> Batches:
    """The same loop's frames, to check them."""
    return serial_batches(work, items, processes, "tables")


def timed(work: Work, warm: Sequence[Item], items: Sequence[Item], processes: int) -> Timing:
    """The sum of the processes' own rates, from a common start to each one's end."""
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(processes)
    began = time.perf_counter()
    pipes, children = [], []
    for number in range(processes):
        pipe, theirs = spawn.Pipe()
        shares = [warm[number::processes], items[number::processes]]
        child = spawn.Process(target=_loop, args=(theirs, barrier, work, *shares), daemon=True)
        child.start()
        theirs.close()  # so that a dead child is noticed
        pipes.append(pipe)
        children.append(child)
    # A first batch would be complete when each process has made its share of one.
    first_s = max(pipe.recv() for pipe in pipes) - began
    results = [pipe.recv() for pipe in pipes]
    memory = measure.resident_bytes()  # the processes still wait
    for pipe, child in zip(pipes, children, strict=True):
        pipe.send(None)
        child.join()
    rate = sum(clips / wall_s for clips, wall_s, _ in results)
    return Timing(rate, first_s, sum(cpu_s for *_, cpu_s in results) / len(items), memory)


def _loop(
    pipe: Connection,
    barrier: Barrier,
    work: Work,
    warm: Sequence[Item],
    items: Sequence[Item],
) -> None:
    plain = Plain(work, tables=True)
    clip = np.empty(work.clip.shape, np.uint8)
    mine = -(-work.batch // barrier.parties)  # of a first batch
    for done, (_, file, start) in enumerate(warm):
        if done == mine:
            pipe.send(time.perf_counter())
        plain.read(work.files[file], start, clip)
    barrier.wait(_WAIT_S)
    began, cpu = time.perf_counter(), time.process_time()
    for _, file, start in items:
        plain.read(work.files[file], start, clip)
    pipe.send((len(items), time.perf_counter() - began, time.process_time() - cpu))
    pipe.recv()
