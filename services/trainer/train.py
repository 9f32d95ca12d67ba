"""An example trainer: workers on other hosts decode, a small 3-D convolution learns.

    python -m services.trainer.train --videos ucf101 --out runs/first --keys keys/trainer

Start it again with the same arguments after whatever ended it, and it goes on with the batch at
which it was saved, and with the very batches that an unbroken run would have had.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import re
import signal
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event
from typing import Annotated, Any

import typer

import videoload as vl

_STOP_S = 10.0  # a batch at hand when a signal comes is finished and saved, unless it takes longer

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _option(help_: str, variable: str | None = None, **more: Any) -> Any:
    return typer.Option(help=help_, envvar=variable and f"VIDEOLOAD_{variable}", **more)


@app.command()
def main(
    videos: Annotated[
        Path,
        _option("DIR/<class>/**/*.avi, or train/ and test/ with such folders.", "VIDEOS",
                metavar="DIR"),
    ],
    out: Annotated[
        Path, _option("Where model and position are kept, and found again.", "OUT", metavar="DIR")
    ],
    listen: Annotated[
        str, _option("Where workers dial in.", "LISTEN", metavar="tcp://HOST:PORT")
    ] = "tcp://0.0.0.0:5555",
    keys: Annotated[
        Path | None,
        _option("CURVE keys of a trainer, made by 'videoload keygen'.", "KEYS", metavar="DIR"),
    ] = None,
    workers: Annotated[int, _option("Begin when so many workers are there.", "WORKERS", min=1)] = 1,
    patience: Annotated[float, _option("Seconds to wait for them.", "PATIENCE")] = 600,
    epochs: Annotated[int, _option("Epochs in all.", "EPOCHS", min=1)] = 10,
    batch_size: Annotated[int, _option("Clips in a batch.", "BATCH_SIZE", min=1)] = 8,
    frames: Annotated[int, _option("Frames in a clip.", min=1)] = 16,
    stride: Annotated[int, _option("Source frames from one of them to the next.", min=1)] = 2,
    size: Annotated[int, _option("Height and width of a clip in pixels, even.", min=2)] = 112,
    save_every: Annotated[int, _option("Batches between two savings.", min=1)] = 50,
    seed: Annotated[int, _option("Of the order, the clips and the model.")] = 0,
) -> None:  # fmt: skip
    """Train a small 3-D convolution on videos that remote workers decode, and evaluate it on
    videos held back. SIGTERM and Ctrl-C save the position first."""
    logging.basicConfig(level=logging.INFO, format="trainer: %(message)s")
    clip: dict[str, Any] = {
        "frames": frames, "stride": stride, "resize": size, "size": (size, size),
    }  # fmt: skip
    stop = Event()

    def run(client: vl.Client) -> None:
        import keras

        from services.trainer import model as example
        from services.trainer.position import Position

        train, test = _catalogs(videos, seed)
        moving = vl.ClipSpec(**clip, sampling="random", crop="random", flip=True)
        stream = client.stream(train, moving, batch_size, shuffle=True, seed=seed)
        held_back = client.stream(test, vl.ClipSpec(**clip), batch_size, drop_remainder=False)
        which = repr((list(train), train.classes, stream.clip, stream.options)).encode()
        position = Position(out, hashlib.blake2b(which).hexdigest()[:16], save_every, stop)
        if position.batches:
            print(f"going on after {position.batches} batches")
            model = keras.saving.load_model(position.model_file)
        else:
            model = example.build(moving.shape, len(train.classes), seed)
        client.wait_for_workers(workers, patience)
        total = epochs * len(stream)
        while position.batches < total and not stop.is_set():
            done, rest = divmod(position.batches, len(stream))
            until = done + 1 if rest else epochs  # a broken epoch is finished by itself
            _fit(
                model, stream.dataset(position.batches, until), initial_epoch=done, epochs=until,
                steps_per_epoch=len(stream) - rest, shuffle=False, callbacks=[position], verbose=2,
            )  # fmt: skip
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
        vl.Client(workers=0, listen=listen, keys=keys) as client,
    ):
        training = thread.submit(run, client)
        try:
            training.result()
        except (KeyboardInterrupt, SystemExit):
            stop.set()
            wait([training], _STOP_S)
            raise


def _catalogs(videos: Path, seed: int) -> tuple[vl.Catalog, vl.Catalog]:
    """Videos to train on and videos held back; paths are relative to ``videos`` for both."""
    if not ((videos / "train").is_dir() and (videos / "test").is_dir()):
        return vl.Catalog.from_folder(videos).split(0.8, seed)
    train = vl.Catalog.from_folder(videos / "train", root=videos)
    return train, vl.Catalog.from_folder(videos / "test", root=videos, classes=train.classes)


def _fit(model: Any, *arguments: Any, **more: Any) -> None:
    """`model.fit`; raises what the stream raised as a VideoloadError, taken from the end of the
    message that TensorFlow wraps it in. TensorFlow's own exception is let go here, and with it the
    iterator that it holds on to: left to the end of the interpreter, that can hang."""
    said: list[str] = []
    try:
        model.fit(*arguments, **more)
    except Exception as error:
        said = re.findall(r"^videoload\.errors\.\w+: (.+)$", str(error), re.MULTILINE)
        if not said:
            raise
    if said:
        gc.collect()
        raise vl.VideoloadError(said[-1])


def _report(stream: vl.Stream) -> None:
    stats = stream.stats()
    print(f"{stats.clips} clips, {stats.clips_per_s:.0f} a second; {stats.verdict}")
    for worker in stats.workers:
        print(f"  {worker.name}: {worker.clips} clips, {worker.clips_per_s:.0f} a second")
    for video in stream.quarantine:
        print(f"bad video {video.path}: {video.reason}")


if __name__ == "__main__":
    try:
        app()
    except vl.VideoloadError as error:
        sys.exit(f"trainer: {error}")
