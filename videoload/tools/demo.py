"""Everything on one host, in about two minutes: AVI files, workers, training, and how long the
trainer waits.

The demo generates videos or takes the user's, and trains on them with a `Client`. Then it times the
same model on the same clips twice: decoded by workers, and decoded in the trainer's own loop. The
class of a generated video shows only over time: a shape drifts left, right, up or down, and no
single frame shows which.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import av
import numpy as np
from rich.console import Console
from rich.table import Table

from videoload import Catalog, Client, ClipSpec, decode_serially
from videoload.errors import SpecError, VideoloadError, count, named, printable, some
from videoload.frameworks import tfdata
from videoload.frameworks.interrupts import INTERRUPTS
from videoload.host import cores
from videoload.plan import quarantine
from videoload.tools.terminal import silent

MOTIONS = {"down": (0, 1), "left": (-1, 0), "right": (1, 0), "up": (0, -1)}  # class -> (x, y)

_CLIP = ClipSpec(frames=16, stride=2, resize=64, size=64)
_TRAIN_CLIP = replace(_CLIP, sampling="random", clips_per_video=3)
_BATCH = 8
_MAX_STEPS, _MAX_TEST_STEPS = 48, 12  # of an epoch, also where the user's folder is large
_MAX_BAD = 0.2  # the demo names bad files at its end instead of stopping
_STORE_GB = 2.0
_TRAIN_VIDEOS, _TEST_VIDEOS, _FRAMES = 32, 8, 64  # videos per class; frames per video
_WIDTH, _HEIGHT, _FPS = 320, 240, 25
_MEASURED_STEPS, _MEASURED_S, _WARM_UP_STEPS = 96, 10.0, 16
_CLEARLY = 1.2  # times as fast: below that, the two rates count as equal
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DELETIONS = 9
_REPORT_S = 5.0  # between two lines about a long step

T = TypeVar("T")


def run(
    videos: Path | None = None,
    *,
    workers: int | None = None,
    epochs: int = 4,
    seed: int = 0,
    output: Path | None = None,
) -> None:
    """Generate or take videos, train on them, measure the waiting, print a table. See
    `videoload.tools.cli.demo`. Raises VideoloadError, and OSError."""
    console = Console(emoji=False, highlight=False, soft_wrap=True)
    if output is not None and videos is not None:
        raise SpecError("--output is for generated videos: omit it with --videos")
    if output is not None and output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise SpecError(f"{output} is not an empty folder: choose another one for the videos")
    with tempfile.TemporaryDirectory(prefix="videoload-") as temporary, silent(quarantine, tfdata):
        _end_at_signals(Path(temporary))
        console.print("loading TensorFlow")
        keras = _keras()
        keeps_index = videos is not None or output is not None
        if videos is None:
            videos = output or Path(temporary, "videos")
            console.print("generating AVI files: shapes drift, and no single frame shows where to")
            written = _Progress(console, "videos generated")
            make_videos(videos, _TRAIN_VIDEOS, _TEST_VIDEOS, _FRAMES, seed, written)
        train, test = Catalog.train_and_test(videos, seed)
        console.print(
            f"{len(train)} videos to train on, {len(test)} to test on, "
            f"{count(len(train.classes), 'class', 'es')}: {printable(some(train.classes))}",
            markup=False,
        )
        keras.utils.set_random_seed(seed)
        with Client(
            workers, cache=None if keeps_index else False,
            frame_store=Path(temporary, "frames"), frame_store_gb=_STORE_GB,
        ) as client:  # fmt: skip
            options: Any = {"shuffle": True, "seed": seed, "max_bad": _MAX_BAD}
            stream = client.stream(train, _TRAIN_CLIP, min(_BATCH, len(train)), **options)
            held_back = client.stream(
                test, _CLIP, min(_BATCH, len(test)), drop_remainder=False, **options
            )
            steps = min(len(stream), _MAX_STEPS)
            model = build_model(len(train.classes), epochs * steps)
            try:
                history = model.fit(
                    stream.dataset(epochs=epochs), epochs=epochs, steps_per_epoch=steps,
                    validation_data=held_back.dataset(), shuffle=False,  # the stream shuffles
                    validation_steps=min(len(held_back), _MAX_TEST_STEPS), **_shown(console),
                )  # fmt: skip
                first = epochs * steps
                span = first + _WARM_UP_STEPS + _MEASURED_STEPS
                measured: Any = {"start_step": first, "epochs": -(-span // len(stream))}
                console.print("timing the trainer with workers")
                read = _Progress(console, "batches read").over(stream.dataset(**measured))
                apart = measure_waiting(read, model.train_on_batch)
            except Exception as error:  # TensorFlow adds pages of text to a stream's error
                raise stream.error or held_back.error or error from None
            stats = stream.stats()
        console.print("timing the trainer that decodes by itself")
        # The workers have indexed all files, so these are visited before the time is taken.
        visits = min(len(stream), _MAX_STEPS, first)
        measured["start_step"] -= visits
        alone = decode_serially(stream.catalog, stream.clip, **stream.options, **measured)
        decoded = _Progress(console, "batches decoded").over(alone)
        inline = measure_waiting(islice(decoded, visits, None), model.train_on_batch)
        accuracy = float(history.history["val_accuracy"][-1])
        console.print(_table(accuracy, test, inline, apart, len(stats.workers)))
        console.print(_why(inline, apart, len(stats.workers), cores()))
        console.print(
            f"The workers store the frames that they scaled: {stats.frame_store_hit_ratio:.0%} of "
            "the clips needed no decoding. In your training: Client(frame_store=DIR)"
        )
        for path, reason in stream.quarantine + held_back.quarantine:
            console.print(f"{named(path)}: {printable(reason)}; others replaced it", markup=False)
        if output is not None:
            console.print(f"the videos are in {output}", markup=False)


class _Progress:
    """Counts calls, and prints their number every few seconds."""

    def __init__(self, console: Console, what: str) -> None:
        self._console, self._what = console, what
        self._calls, self._due = 0, time.monotonic() + _REPORT_S

    def __call__(self, *_: object, **__: object) -> None:
        self._calls += 1
        if (now := time.monotonic()) >= self._due:
            self._console.print(f"{self._calls} {self._what}")
            self._due = now + _REPORT_S

    def over(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, and count them."""
        for item in items:
            self()
            yield item


def _shown(console: Console) -> dict[str, Any]:
    """Return how ``fit`` shows its progress: as a bar, or in a file or pipe as lines."""
    import keras

    if console.is_terminal:
        return {"verbose": 1}
    trained = _Progress(console, "steps trained")
    return {"verbose": 2, "callbacks": [keras.callbacks.LambdaCallback(on_train_batch_end=trained)]}


def build_model(classes: int, steps: int) -> Any:
    """Return a compiled Keras model for clips [B, 16, 64, 64, 3] of uint8 and ``steps`` batches.

    The difference of neighbouring frames shows the motion, most clearly at the shape. So the model
    takes the maximum within a frame, and then the mean over time.
    """
    import keras
    from keras import layers

    clips = keras.Input(_TRAIN_CLIP.shape, dtype="uint8")
    x = layers.Rescaling(1 / 127.5, offset=-1)(clips)
    x = x[:, 1:] - x[:, :-1]
    for filters, kernel, strides in (
        (16, (3, 5, 5), (1, 2, 2)), (32, 3, (1, 2, 2)), (64, 3, 2),
    ):  # fmt: skip
        x = layers.Conv3D(filters, kernel, strides, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(x))
    x = layers.TimeDistributed(layers.GlobalMaxPooling2D())(x)
    x = layers.Dropout(0.3)(layers.GlobalAveragePooling1D()(x))
    model = keras.Model(clips, layers.Dense(classes)(x))
    rate = keras.optimizers.schedules.CosineDecay(3e-3, decay_steps=steps, alpha=0.02)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
    return model


class DemoPace(NamedTuple):
    """The speed of a training loop. ``wait_ratio`` (0 to 1) is the share of the time that it waited
    for its next batch."""

    steps: int
    batches_per_s: float
    clips_per_s: float
    wait_ratio: float


def measure_waiting(
    batches: Iterator[tuple[Any, Any]], train_step: Callable[[Any, Any], object]
) -> DemoPace:
    """Train on a few batches, then time the next ones. ``train_step(clips, labels)`` must return
    only after the step is done."""
    for _ in range(_WARM_UP_STEPS):
        train_step(*next(batches))
    steps, clips_done, waited_s = 0, 0, 0.0
    began = now = time.perf_counter()
    while steps < _MEASURED_STEPS and (not steps or now - began < _MEASURED_S):
        clips, labels = next(batches)
        waited_s += time.perf_counter() - now
        train_step(clips, labels)
        steps, clips_done = steps + 1, clips_done + len(labels)
        now = time.perf_counter()
    elapsed_s = now - began
    return DemoPace(steps, steps / elapsed_s, clips_done / elapsed_s, waited_s / elapsed_s)


def _why(inline: DemoPace, apart: DemoPace, decoders: int, cores: int) -> str:
    """Explain the two rates."""
    if apart.batches_per_s >= _CLEARLY * inline.batches_per_s:
        return "Workers decode while the model trains. Its own loop does one after the other."
    return (
        f"The two rates are close because trainer and {count(decoders, 'worker')} share the "
        f"{count(cores, 'core')} of this host: while one decodes, the other cannot compute. With a "
        "GPU, or with workers on other hosts, the trainer gains the time that it waited."
    )


def _table(
    accuracy: float, test: Catalog, inline: DemoPace, apart: DemoPace, decoders: int
) -> Table:
    guessing = Counter(test.labels.tolist()).most_common(1)[0][1] / len(test)
    title = f"{accuracy:.0%} of the test videos recognised (guessing: {guessing:.0%})"
    steps = f"the same model and clips; training steps timed: {inline.steps}, {apart.steps}"
    table = Table(title=title, caption=steps)
    table.add_column("")
    table.add_column("decoding in the\ntrainer's own loop", justify="right")
    workers = f"videoload, {count(decoders, 'worker')},\nwith a frame store"
    table.add_column(workers, justify="right")
    for name, field, form in (
        ("time that the trainer waited", "wait_ratio", ".0%"),
        ("batches per second", "batches_per_s", ".1f"),
        ("clips per second", "clips_per_s", ".0f"),
    ):
        table.add_row(name, *(format(getattr(pace, field), form) for pace in (inline, apart)))
    return table


def make_videos(
    root: Path,
    train: int,
    test: int,
    frames: int,
    seed: int = 0,
    written: Callable[[], object] = lambda: None,
) -> None:
    """Write ``train`` and ``test`` videos per class to ``root/{train,test}/<class>/000.avi``, and
    so on. Call ``written`` after each. The same arguments give the same bytes. Raises OSError."""
    for part, motion in product(("train", "test"), MOTIONS):
        for number in range(test if part == "test" else train):
            path = root / part / motion / f"{number:03d}.avi"
            path.parent.mkdir(parents=True, exist_ok=True)
            rng = np.random.default_rng((seed, part == "test", number))
            _make_video(path, MOTIONS[motion], frames, rng)
            written()


def _make_video(
    path: Path, direction: tuple[int, int], frames: int, rng: np.random.Generator
) -> None:
    """Write noise on a blocky picture, and a square that drifts over it and wraps at the edges."""
    grid = np.kron(rng.integers(60, 180, (6, 8)), np.ones((40, 40), int))
    noise = rng.normal(0, 5, (_HEIGHT, _WIDTH)).astype(int)  # sensor noise, which costs bits
    side, level = int(rng.integers(44, 72)), int(rng.choice((30, 225)))
    start, speed = rng.uniform((0, 0), (_WIDTH, _HEIGHT)), rng.uniform(2.2, 3.6)
    with av.open(path, "w", format="avi", options={"fflags": "+bitexact"}) as container:
        stream = container.add_stream("mpeg4", rate=_FPS)
        stream.width, stream.height, stream.pix_fmt = _WIDTH, _HEIGHT, "yuv420p"
        stream.codec_context.gop_size, stream.codec_context.thread_count = 12, 1
        stream.codec_context.options = {"flags": "+bitexact", "qmin": "5", "qmax": "5"}
        for number in range(frames):
            luma = grid + np.roll(noise, rng.integers((_HEIGHT, _WIDTH)), (0, 1))
            x, y = (start + number * speed * np.array(direction)).astype(int).tolist()
            rows, columns = np.arange(y, y + side) % _HEIGHT, np.arange(x, x + side) % _WIDTH
            luma[np.ix_(rows, columns)] = level
            planes = np.full((_HEIGHT * 3 // 2, _WIDTH), 128, np.uint8)
            planes[:_HEIGHT] = luma.clip(16, 235)
            frame = av.VideoFrame.from_ndarray(planes, "yuv420p")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def _keras() -> Any:
    """Import Keras and TensorFlow, without what TensorFlow writes about missing GPUs before it
    reads its settings. Raises VideoloadError."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # Without AVX-512, TensorFlow leaves oneDNN off, and 3D convolutions take ten times as long.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        import keras
        import tensorflow as tf  # noqa: F401 - if it is missing, fail now
    except ImportError as error:
        raise VideoloadError(
            f"the demo trains with TensorFlow: pip install tensorflow ({error})"
        ) from None
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)
    return keras


def _end_at_signals(temporary: Path) -> None:
    """Have a signal end the process within two seconds, and leave nothing behind.

    The main thread may wait in C++, where no Python handler runs, and C++ that calls Python may
    abort at an exception. So the thread that notes signals ends the process.
    """

    def leave(number: int) -> None:
        if number not in _ENDING:
            return
        with suppress(OSError):  # the terminal may be gone
            os.write(2, b"\nstopping\n")
        for _ in range(_DELETIONS):  # workers may still write frames there
            shutil.rmtree(temporary, ignore_errors=True)
            if not temporary.exists():
                break
        os._exit(128 + number)  # the workers end with this process

    def stay(*_: object) -> None:  # else the main thread would write where `leave` deletes
        threading.Event().wait()

    for number in _ENDING:
        signal.signal(number, stay)
    INTERRUPTS.listen()
    INTERRUPTS.on_signal(leave)
