"""An example trainer: workers on other hosts decode, a small 3-D convolution learns.

    python -m services.trainer.train --videos ucf101 --out runs/first --keys keys/trainer

Start it again with the same arguments after whatever ended it, and it goes on with the batch at
which it was saved, and with the very batches that an unbroken run would have had.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import Annotated, Any

import typer
from typer import Option

import videoload as vl

_STOP_S = 5.0  # the batch at hand when a signal comes is finished and saved, if that is quicker

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    # Each option may come from the environment as well: VIDEOLOAD_ and its name.
    context_settings={
        "help_option_names": ["-h", "--help"], "auto_envvar_prefix": "VIDEOLOAD",
    },
)  # fmt: skip


@app.command()
def main(
    videos: Annotated[
        Path,
        Option(metavar="DIR", help="DIR/<class>/**/*.avi, or train/ and test/ with such folders."),
    ],
    out: Annotated[
        Path, Option(metavar="DIR", help="Where model and position are kept, and found again.")
    ],
    listen: Annotated[
        str, Option(metavar="tcp://HOST:PORT", help="Where workers dial in.")
    ] = "tcp://0.0.0.0:5555",
    keys: Annotated[
        Path | None,
        Option(metavar="DIR", help="CURVE keys of a trainer, made by 'videoload keygen'."),
    ] = None,
    insecure: Annotated[bool, Option("--insecure", help="Accept workers without keys.")] = False,
    any_software: Annotated[
        bool, Option("--any-software", help="Accept workers whose FFmpeg gives other pixels.")
    ] = False,
    receivers: Annotated[
        int, Option(min=0, help="Processes that take pixels, at the port after that of --listen.")
    ] = 0,
    workers: Annotated[int, Option(min=1, help="Begin when so many are there.")] = 1,
    patience: Annotated[float, Option(help="Seconds to wait for them.")] = 600,
    epochs: Annotated[int, Option(min=1, help="Epochs in all.")] = 10,
    batch_size: Annotated[int, Option(min=1, help="Clips in a batch.")] = 8,
    frames: Annotated[int, Option(min=1, help="Frames in a clip.")] = 16,
    stride: Annotated[int, Option(min=1, help="Source frames from one to the next.")] = 2,
    size: Annotated[int, Option(min=2, help="Height and width of a clip in pixels, even.")] = 112,
    max_bad: Annotated[
        float, Option(min=0, max=1, help="The share of videos that may be bad.")
    ] = 0.01,
    save_every: Annotated[int, Option(min=1, help="Batches between two savings.")] = 50,
    seed: Annotated[int, Option(help="Of the order, the clips and the model.")] = 0,
    ranks: Annotated[
        list[str] | None,
        Option(metavar="HOST:PORT", help="The addresses of all data-parallel ranks, in order."),
    ] = None,
    rank: Annotated[int, Option(min=0, help="Which of them this process is.")] = 0,
    metrics_port: Annotated[
        str | None,
        Option(metavar="[HOST:]PORT", help="Serve /metrics for Prometheus here."),
    ] = None,
    verify: Annotated[
        bool, Option("--verify", help="Compare first an epoch with the same, decoded here.")
    ] = False,
) -> None:
    """Train a small 3-D convolution on videos that remote workers decode, and evaluate it on
    videos held back. SIGTERM and Ctrl-C save model and position first."""
    logging.basicConfig(level=logging.INFO, format="trainer: %(message)s")
    shape: dict[str, Any] = {
        "frames": frames, "stride": stride, "resize": size, "size": (size, size),
    }  # fmt: skip
    stop = Event()
    _check_ranks(ranks or [], rank)

    def run(client: vl.Client) -> None:
        from services.trainer import model as example
        from services.trainer import ranks as together

        strategy = together.connect(ranks, rank) if ranks else None
        train, test = vl.Catalog.train_and_test(videos, seed)
        moving = vl.ClipSpec(**shape, sampling="random", crop="random", flip=True)
        options: dict[str, Any] = {
            "batch_size": batch_size, "shuffle": True, "seed": seed,
            "shard": (rank, len(ranks)) if ranks else (0, 1),
            "max_bad": 1.0 if ranks else max_bad,  # ranks decide on that together
        }  # fmt: skip
        stream = client.stream(train, moving, **options)
        build = partial(example.build, moving.shape, len(train.classes), seed)

        def await_workers() -> None:
            client.wait_for_workers(workers, patience)
            if verify:
                print(f"verified: {_verify(stream, vl.decode_serially(train, moving, **options))}")

        if strategy is not None:
            await_workers()
            with _plain_errors(stream):
                together.train(
                    strategy, stream, build, out,
                    epochs=epochs, save_every=save_every, max_bad=max_bad,
                )  # fmt: skip
            _report(stream)
            return
        held_back = client.stream(test, vl.ClipSpec(**shape), batch_size, drop_remainder=False)
        position = vl.Position(out, stream, save_every, stop=stop)
        if position.batches:
            print(f"going on after {position.batches} batches")
        model = position.load_model() if position.batches else build()
        await_workers()
        with _plain_errors(stream, held_back):
            for part in position.remaining(epochs):
                model.fit(**part, callbacks=[position], verbose=2)
            if stop.is_set():
                return
            scores = model.evaluate(held_back.dataset(), verbose=0, return_dict=True)
        print(f"{len(test)} videos held back:", *(f"{k} {v:.3f}" for k, v in scores.items()))
        _report(stream)
        print(f"model: {position.model_file}")

    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    # Python sees signals in the main thread and between two calls only, while a call into
    # TensorFlow that waits for a batch may never end. So this thread waits, another one trains.
    with (
        ThreadPoolExecutor(1, "training") as thread,
        vl.Client(
            workers=0,
            listen=listen,
            keys=keys,
            insecure=insecure,
            any_software=any_software,
            receivers=receivers,
            metrics_port=metrics_port,
        ) as client,
    ):
        training = thread.submit(run, client)
        try:
            training.result()
        except (KeyboardInterrupt, SystemExit):
            stop.set()
            wait([training], _STOP_S)
            raise


def _check_ranks(ranks: list[str], rank: int) -> None:
    """Raises VideoloadError: what is wrong would be told late, and not in plain words."""
    for address in ranks:
        host, _, port = address.rpartition(":")
        if not (host and port.isdecimal() and int(port) < 65536):
            raise vl.VideoloadError(f"--ranks {address}: an address of a rank is HOST:PORT")
    if rank >= max(1, len(ranks)):
        raise vl.VideoloadError(
            f"--rank {rank} of {len(ranks)} --ranks: they are numbered from 0, and each needs the "
            "addresses of all"
        )


@contextmanager
def _plain_errors(*streams: vl.Stream) -> Iterator[None]:
    """What a stream raised comes out as it is, without TensorFlow's error around it.

    That is let go here, with the iterator that it holds on to: destroyed at the end of the
    interpreter, that may wait for ever for a thread that is no more.
    """
    try:
        yield
        return
    except Exception:
        ended = next((stream.error for stream in streams if stream.error), None)
        if ended is None:
            raise
    gc.collect()
    raise ended


def _verify(stream: vl.Stream, expected: Iterable[Any]) -> str:
    """A SHA-256 of the epoch, which is the same whoever decodes it. Raises VideoloadError."""
    came, same = hashlib.sha256(), hashlib.sha256()
    for sha, batches in ((came, stream), (same, expected)):
        for clips, labels in batches:
            sha.update(clips.data)
            sha.update(labels.data)
    if came.digest() != same.digest():
        raise vl.VideoloadError("the workers' clips are not those that are decoded here")
    return came.hexdigest()


def _report(stream: vl.Stream) -> None:
    stats = stream.stats()
    print(stats)
    for worker in stats.workers:
        print(f"  {worker.name}: {worker.clips} clips, {worker.clips_per_s:.0f} a second")
    for video in stream.quarantine:
        print(f"bad video {video.path}: {video.reason}")


if __name__ == "__main__":
    status: Any = 0
    try:
        app()
    except vl.VideoloadError as error:
        print(f"trainer: {error}", file=sys.stderr)
        status = 1
    except SystemExit as ended:
        status = ended.code or 0
    # All is closed and saved. The end of the interpreter would wait for threads of TensorFlow, and
    # they, now and then, for ever for a batch.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
