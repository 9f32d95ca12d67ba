"""An example trainer: workers on other hosts decode for a small 3-D convolution.

    python -m services.trainer.train --videos ucf101 --out runs/first --keys keys/trainer

If it is killed, the next start with the same arguments resumes after the last save, with the
batches of an uninterrupted run.
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
from services.trainer import ranks as together

# Before TensorFlow is imported, which leaves oneDNN off on processors without AVX-512. 3D
# convolutions then take many times as long.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

_STOP_S = 5.0  # after a signal, to finish the current batch and save
# The exit status of a rank that ended because another one ended (EX_TEMPFAIL).
LOST_RANK = 75

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    # An environment variable can set each option: VIDEOLOAD_ and its name.
    context_settings={
        "help_option_names": ["-h", "--help"], "auto_envvar_prefix": "VIDEOLOAD",
    },
)  # fmt: skip


@app.command()
def main(
    videos: Annotated[
        str,
        Option(
            metavar="DIR|URL",
            help="Class folders of videos, or train/ and test/ with class folders.",
        ),
    ],
    out: Annotated[Path, Option(metavar="DIR", help="Folder for model and position.")],
    listen: Annotated[
        str, Option(metavar="tcp://HOST:PORT", help="Address for the workers to connect to.")
    ] = "tcp://0.0.0.0:5555",
    keys: Annotated[
        Path | None,
        Option(metavar="DIR", help="CURVE keys of a trainer, created by 'videoload keygen'."),
    ] = None,
    insecure: Annotated[bool, Option("--insecure", help="Accept workers without keys.")] = False,
    allow_version_mismatch: Annotated[
        bool,
        Option("--allow-version-mismatch", help="Accept workers of other versions."),
    ] = False,
    wait_for: Annotated[int, Option(min=1, help="Start with this many workers.")] = 1,
    timeout_s: Annotated[float, Option(help="Seconds to wait for the workers.")] = 600,
    epochs: Annotated[int, Option(min=1, help="Epochs in total.")] = 10,
    batch_size: Annotated[int, Option(min=1, help="Clips in a batch.")] = 8,
    frames: Annotated[int, Option(min=1, help="Frames in a clip.")] = 16,
    stride: Annotated[int, Option(min=1, help="Source frames from one frame to the next.")] = 2,
    size: Annotated[int, Option(min=2, help="Height and width of a clip in pixels, even.")] = 112,
    max_bad: Annotated[
        float, Option(min=0, max=1, help="Share of the videos that may be bad.")
    ] = 0.01,
    save_every: Annotated[int, Option(min=1, help="Batches between two saves.")] = 50,
    seed: Annotated[int, Option(help="Seed of the order, the clips and the model.")] = 0,
    ranks: Annotated[
        list[str] | None,
        Option(metavar="HOST:PORT", help="The addresses of all data-parallel ranks, in order."),
    ] = None,
    rank: Annotated[int, Option(min=0, help="Number of this process among the ranks.")] = 0,
    metrics_port: Annotated[
        str | None,
        Option(metavar="[HOST:]PORT", help="Serve /metrics for Prometheus on this port."),
    ] = None,
    verify: Annotated[
        bool, Option("--verify", help="First compare an epoch with the same epoch decoded here.")
    ] = False,
) -> None:
    """Train a small 3-D convolution on videos that remote workers decode, then test it. SIGTERM and
    Ctrl-C save model and position first."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s trainer: %(message)s")
    shape: dict[str, Any] = {
        "frames": frames, "stride": stride, "resize": size, "size": (size, size),
    }  # fmt: skip
    stop = Event()
    _check_ranks(ranks or [], rank)
    strategy = together.connect(ranks, rank) if ranks else None

    def run(client: vl.Client) -> None:
        from services.trainer import model as example

        train, test = vl.Catalog.train_and_test(videos, seed)
        moving = vl.ClipSpec(**shape, sampling="random", crop="random", flip=True)
        options: dict[str, Any] = {
            "batch_size": batch_size, "shuffle": True, "seed": seed,
            "shard": (rank, len(ranks)) if ranks else (0, 1),
            "max_bad": 1.0 if ranks else max_bad,  # ranks decide together
        }  # fmt: skip
        stream = client.stream(train, moving, **options)
        build = partial(example.build, moving.shape, len(train.classes), seed)

        def await_workers() -> None:
            client.wait_for_workers(wait_for, timeout_s)
            if verify:
                print(f"verified: {_verify(stream, vl.decode_serially(train, moving, **options))}")

        if strategy is not None:
            await_workers()
            with _plain_errors(stream):
                together.train(
                    strategy, stream, build, out,
                    epochs=epochs, save_every=save_every, max_bad=max_bad, stop=stop,
                )  # fmt: skip
            if not stop.is_set():
                _report(stream)
            return
        held_back = client.stream(test, vl.ClipSpec(**shape), batch_size, drop_remainder=False)
        position = vl.keras.Position(out, stream, save_every, stop=stop)
        if position.batches:
            print(f"continuing after {position.batches} batches")
        model = position.load_model() if position.batches else build()
        await_workers()
        with _plain_errors(stream, held_back):
            for part in position.remaining(epochs):
                model.fit(**part, callbacks=[position], verbose=2)
            if stop.is_set():
                print(f"stopped after {position.batches} batches: saved in {out}")
                return
            scores = model.evaluate(held_back.dataset(), verbose=0, return_dict=True)
        print(f"{len(test)} test videos:", *(f"{k} {v:.3f}" for k, v in scores.items()))
        _report(stream)
        print(f"model: {position.model_file}")

    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    # Python handles signals in the main thread, between two calls, but a call into TensorFlow may
    # block forever. So this thread waits, and another one trains.
    with (
        ThreadPoolExecutor(1, "training") as thread,
        vl.Client(
            workers=0,
            listen=listen,
            keys=keys,
            insecure=insecure,
            allow_version_mismatch=allow_version_mismatch,
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
    """Check the addresses: TensorFlow would report a mistake late. Raises VideoloadError."""
    for address in ranks:
        host, _, port = address.rpartition(":")
        if not (host and port.isdecimal() and int(port) < 65536):
            raise vl.VideoloadError(f"--ranks {address}: the address of a rank is HOST:PORT")
    if rank >= max(1, len(ranks)):
        raise vl.VideoloadError(
            f"--rank {rank} of {len(ranks)} --ranks: ranks are numbered from 0, and each needs the "
            "addresses of all ranks"
        )


@contextmanager
def _plain_errors(*streams: vl.Stream) -> Iterator[None]:
    """Raise a stream's error itself, without TensorFlow's error around it.

    TensorFlow's error holds an iterator. It is released here, because at interpreter exit it may
    wait forever for a thread that has ended.
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
    """Return the SHA-256 of an epoch. Raises VideoloadError if the expected epoch differs."""
    actual, same = hashlib.sha256(), hashlib.sha256()
    for sha, batches in ((actual, stream), (same, expected)):
        for clips, labels in batches:
            sha.update(clips.data)
            sha.update(labels.data)
    if actual.digest() != same.digest():
        raise vl.VideoloadError("the workers' clips differ from the clips decoded here")
    return actual.hexdigest()


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
        status = LOST_RANK if isinstance(error, together.LostRankError) else 1
    except SystemExit as ended:
        status = ended.code or 0
    # Everything is closed and saved. Interpreter exit would wait for TensorFlow's threads, which
    # sometimes wait for a batch forever.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
