"""One epoch of one loader, in a process of its own: a JSON line for each batch. It goes on when a
line comes in.

    python -m benchmarks.faults.subjects NAME FOLDER --workers 2 [--state FILE [--resume]]

Each loader is set up as its documentation says for a training that is to survive faults.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.faults.work import SHAPE, SIDE, digest, load

BATCH, SEED = 4, 7
TIMEOUT_S = 20

Batches = Iterator[tuple[Sequence[int], Any, Sequence[int]]]  # numbers, clips, pids


class Job(NamedTuple):
    """What to load, with how many workers, and where to keep the state after each batch."""

    paths: list[str]
    workers: int
    state: Path | None
    resume: bool

    def save(self, state: Any) -> None:
        """Keep what the loader needs to go on after this batch."""
        if self.state is not None:
            new = self.state.with_suffix(".new")
            new.write_text(json.dumps(state))
            new.replace(self.state)

    def saved(self) -> Any:
        """What was kept."""
        assert self.state is not None
        return json.loads(self.state.read_text())


class Files:
    """A map-style data set, for PyTorch and Grain."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"number": int(index), "clip": load(self.paths[index]), "pid": os.getpid()}


def _columns(batch: Any) -> tuple[Sequence[int], Any, Sequence[int]]:
    numbers, pids = (np.asarray(batch[name]).tolist() for name in ("number", "pid"))
    return numbers, np.asarray(batch["clip"]), pids


def torch_loader(job: Job) -> Batches:
    """PyTorch's DataLoader as torchdata continues it, with a time-out for workers that hang."""
    import pickle

    import torch
    from torchdata.stateful_dataloader import StatefulDataLoader

    loader = StatefulDataLoader(
        Files(job.paths), batch_size=BATCH, shuffle=True, num_workers=job.workers,
        generator=torch.Generator().manual_seed(SEED), timeout=TIMEOUT_S,
    )  # fmt: skip
    if job.resume:
        loader.load_state_dict(pickle.loads(bytes.fromhex(job.saved())))
    for batch in loader:
        yield _columns(batch)
        job.save(pickle.dumps(loader.state_dict()).hex())


def grain_loader(job: Job) -> Batches:
    """Grain's DataLoader."""
    import grain.python as grain

    class Load(grain.MapTransform):  # type: ignore[misc]
        def map(self, index: int) -> dict[str, Any]:
            return Files(job.paths)[index]

    loader = grain.DataLoader(
        data_source=range(len(job.paths)),
        sampler=grain.IndexSampler(
            len(job.paths), shard_options=grain.NoSharding(), shuffle=True, seed=SEED, num_epochs=1
        ),
        operations=[Load(), grain.Batch(BATCH, drop_remainder=False)],
        worker_count=job.workers,
    )
    batches = iter(loader)
    if job.resume:
        batches.set_state(bytes.fromhex(job.saved()))
    for batch in batches:
        yield _columns(batch)
        job.save(batches.get_state().hex())


def spdl_loader(job: Job) -> Batches:
    """SPDL's pipeline over a pool of processes; a failed item is logged and left out."""
    from concurrent.futures import ProcessPoolExecutor

    from spdl.pipeline import PipelineBuilder

    order = np.random.default_rng(SEED).permutation(len(job.paths)).tolist()
    with ProcessPoolExecutor(job.workers) as pool:
        pipeline = (
            PipelineBuilder()
            .add_source(order)
            .pipe(
                Files(job.paths).__getitem__, executor=pool, concurrency=job.workers,
                output_order="input",
            )
            .aggregate(BATCH, drop_last=False)
            .add_sink(2)
            .build(num_threads=1)
        )  # fmt: skip
        with pipeline.auto_stop():
            for rows in pipeline.get_iterator(timeout=TIMEOUT_S):
                yield _columns({name: [row[name] for row in rows] for name in rows[0]})


def keras_loader(job: Job) -> Batches:
    """Keras's PyDataset as ``fit`` reads it, with spawned processes: forked ones hang beside
    TensorFlow's threads."""
    import multiprocessing

    from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

    from benchmarks.faults.keras_data import Batched

    multiprocessing.set_start_method("spawn")
    order = np.random.default_rng(SEED).permutation(len(job.paths)).tolist()
    adapter = PyDatasetAdapter(Batched(job.paths, order, job.workers), shuffle=False)
    adapter.on_epoch_begin()
    for clips, (numbers, pids) in adapter.get_tf_dataset():
        yield numbers.numpy().tolist(), clips.numpy(), pids.numpy().tolist()
    adapter.on_epoch_end()


def ray_loader(job: Job) -> Batches:
    """Ray Data, which starts failed tasks again, in the order of its input."""
    import ray

    ray.init("local", num_cpus=job.workers, include_dashboard=False, log_to_driver=False)
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    context.max_errored_blocks = -1  # a file that cannot be read does not end the job
    order = np.random.default_rng(SEED).permutation(len(job.paths)).tolist()
    rows = ray.data.from_items(
        [{"number": n, "path": job.paths[n]} for n in order], override_num_blocks=len(order)
    )

    def read(row: dict[str, Any]) -> dict[str, Any]:
        return {"number": row["number"], "clip": load(row["path"]), "pid": os.getpid()}

    for batch in rows.map(read).iter_batches(batch_size=BATCH, drop_last=False):
        yield _columns(batch)


def tf_service_loader(job: Job) -> Batches:
    """The service of tf.data: a dispatcher and worker servers, each in a process. Its workers run
    TensorFlow's own operations only, so they read each file instead of decoding it."""
    import subprocess

    import tensorflow as tf

    service = tf.data.experimental.service
    # A worker that is silent for ten seconds is given up, and not only after a minute.
    dispatcher = service.DispatchServer(service.DispatcherConfig(worker_timeout_ms=10_000))
    address = dispatcher.target.split("://")[1]
    serve = (
        "import sys, tensorflow as tf; service = tf.data.experimental.service; "
        "service.WorkerServer(service.WorkerConfig(dispatcher_address=sys.argv[1], "
        "heartbeat_interval_ms=500)).join()"
    )
    servers = [subprocess.Popen([sys.executable, "-c", serve, address]) for _ in range(job.workers)]
    while dispatcher._num_workers() < job.workers:
        tf.timestamp()
    pids = [server.pid for server in servers]

    def read(number: Any) -> Any:
        text = tf.io.read_file(tf.gather(tf.constant(job.paths), number))
        busy = tf.random.stateless_normal((700, 700), (0, 0))
        for _ in range(6):
            busy = tf.linalg.normalize(busy @ busy)[0]
        size = tf.strings.length(text) + tf.cast(0 * busy[0, 0], tf.int32)
        return number, tf.strings.to_hash_bucket_fast(text, 1 << 31), size

    rows = (
        tf.data.Dataset.range(len(job.paths))
        .shuffle(len(job.paths), seed=SEED, reshuffle_each_iteration=False)
        .map(read)
        .apply(service.distribute(service.ShardingPolicy.DYNAMIC, dispatcher.target,
                                  max_outstanding_requests=2))
        .batch(BATCH, drop_remainder=False)
    )  # fmt: skip
    try:
        for numbers, digests, _ in rows:
            yield numbers.numpy().tolist(), digests.numpy(), pids[:1] * len(numbers)
    finally:
        for server in servers:
            server.kill()


def our_loader(job: Job) -> Batches:
    """videoload, with its own decoder."""
    import videoload as vl

    numbers = np.arange(len(job.paths))
    root = Path(job.paths[0]).parent
    names = [Path(path).name for path in job.paths]
    catalog = vl.Catalog(names, root=root).with_targets(numbers)
    spec = vl.ClipSpec(frames=SHAPE[0], size=(SIDE, SIDE), transform="benchmarks.faults.work:slow")
    begin = job.saved() if job.resume else 0
    with vl.Client(workers=job.workers, cache=False) as client:
        stream = client.stream(catalog, spec, BATCH, shuffle=True, seed=SEED)
        for step, (clips, found) in enumerate(stream.batches(start_step=begin), begin + 1):
            pids = [worker.pid for worker in client.workers] * BATCH
            yield found.tolist(), clips, pids[:BATCH]
            job.save(step)


LOADERS: dict[str, Callable[[Job], Batches]] = {
    "videoload": our_loader,
    "PyTorch DataLoader": torch_loader,
    "Grain": grain_loader,
    "SPDL": spdl_loader,
    "Ray Data": ray_loader,
    "tf.data service": tf_service_loader,
    "Keras PyDataset": keras_loader,
}
RESUMES = ("videoload", "PyTorch DataLoader", "Grain")


def main() -> None:
    """Run one epoch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("loader", choices=LOADERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--resume", action="store_true")
    asked = parser.parse_args()
    paths = sorted(map(str, asked.folder.glob("*.avi")))
    job = Job(paths, asked.workers, asked.state, asked.resume)
    for numbers, clips, pids in LOADERS[asked.loader](job):
        digests = [int(clip) if np.ndim(clip) == 0 else digest(clip) for clip in clips]
        print(json.dumps({"samples": [*zip(numbers, digests, strict=True)], "pids": list(pids)}),
              flush=True)  # fmt: skip
        if not sys.stdin.readline():
            sys.exit("nobody reads")
    print(json.dumps({"end": True}), flush=True)


if __name__ == "__main__":
    main()
