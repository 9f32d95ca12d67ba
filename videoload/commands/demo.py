"""Everything on one host, in a minute: AVI files, workers, a training, and what waiting costs.

The demo makes videos (see `made_videos`) or takes the user's, and trains on them with a `Client`.
Then it times the same model on the same clips twice: decoded by workers, and decoded in the
trainer's own loop. A training script needs only `_streams` and `_train`.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from videoload.catalog.catalog import Catalog
from videoload.clips.clip_spec import ClipSpec
from videoload.commands.made_videos import MOTIONS, make_videos
from videoload.commands.verbosity import progress_bar, silent
from videoload.errors import SpecError, VideoloadError, printable
from videoload.frameworks import tfdata
from videoload.frameworks.interrupts import INTERRUPTS
from videoload.host import cores
from videoload.listings.columns import some
from videoload.plan import quarantine
from videoload.stats.waiting import count
from videoload.trainer.client import Client
from videoload.trainer.serial import decode_serially
from videoload.trainer.stream import Stream

Batches = Iterator[tuple[Any, Any]]  # clips, labels: arrays or tensors

_TRAIN_CLIP = ClipSpec(
    frames=16, stride=2, resize=64, size=(64, 64), sampling="random", clips_per_video=3
)
_TEST_CLIP = ClipSpec(frames=16, stride=2, resize=64, size=(64, 64))
_BATCH = 8
_MAX_STEPS, _MAX_TEST_STEPS = 48, 12  # of an epoch: 3 clips of 128 videos; a large folder no more
_KEPT_GB = 2.0  # frames in the temporary folder
_MAX_BAD = 0.2  # the demo names bad files at its end instead of stopping
_TRAIN_VIDEOS, _TEST_VIDEOS, _FRAMES = 32, 8, 64  # videos per class; frames per video
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DELETIONS = 9
_CLEARLY = 1.2  # times as fast: below that, the two rates count as equal
_SHOW_CURSOR = b"\x1b[?25h"
_MEASURED_STEPS, _WARM_UP_STEPS, _MEASURED_S = 96, 16, 10.0


def run(
    videos: Path | None = None,
    *,
    workers: int | None = None,
    epochs: int = 6,
    seed: int = 0,
    output: Path | None = None,
    console: Console | None = None,
) -> None:
    """Make or take videos, train on them, measure the waiting, print a table. See
    `videoload.commands.cli.demo`. Raises VideoloadError, and OSError."""
    console = console or Console(emoji=False)
    say = partial(console.print, markup=False, highlight=False, soft_wrap=True)
    if output is not None and videos is not None:
        raise SpecError("output is for the videos that the demo makes: leave it out with your own")
    if output is not None and output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise SpecError(f"{output} is not an empty folder: choose another one for the videos")
    with (
        tempfile.TemporaryDirectory(prefix="videoload-demo-") as temporary,
        _ends_soon(Path(temporary), console),
        silent(quarantine, tfdata),
    ):
        with console.status("loading TensorFlow"):
            keras = _keras()
        # The videos are removed at the end, so their indexes are not kept.
        cache: Literal[False] | None = False if videos is None and output is None else None
        if videos is None:
            videos = output or Path(temporary, "videos")
            _make_videos(videos, seed)
            say("Shapes drift left, right, up or down, and sway. No single frame shows the class.")
        train, test = Catalog.train_and_test(videos, seed)
        say(
            f"{len(train)} videos to train on, {len(test)} to test on, "
            f"{count(len(train.classes), 'class', 'es')}: {printable(some(train.classes))}"
        )
        keras.utils.set_random_seed(seed)
        with Client(
            workers,
            cache=cache, frame_store=Path(temporary, "frames"), frame_store_gb=_KEPT_GB,
        ) as client:  # fmt: skip
            stream, held_back = _streams(client, train, test, seed)
            steps = min(len(stream), _MAX_STEPS)
            model = build_model(len(train.classes), epochs * steps)
            try:
                accuracy = _train(model, stream, held_back, epochs, steps, console)
                with console.status("measuring the trainer with workers"):
                    apart = _measure_stream(stream, model, first=epochs * steps)
            except Exception as error:  # TensorFlow adds pages of text to a stream's error
                raise stream.error or held_back.error or error from None
            stats = stream.stats()
        decoders = len(stats.workers)
        with console.status("measuring the trainer that decodes by itself"):
            inline = _measure_inline(stream, model, first=epochs * steps)
        console.print(_table(accuracy, test, inline, apart, decoders))
        say(_why(inline, apart, decoders, cores()))
        say(
            f"The workers keep the frames that they scaled: {stats.kept_share:.0%} of the clips "
            "needed no decoding. In your training: Client(frame_store=DIR)"
        )
        for path, reason in stream.quarantine + held_back.quarantine:
            say(printable(f"{path}: {reason}; other clips took its place"))
        if output is not None:
            say(f"the videos are in {output}")


def guessing(test: Catalog) -> float:
    """The accuracy of always answering with the most frequent class."""
    return Counter(test.labels.tolist()).most_common(1)[0][1] / len(test)


def build_model(classes: int, steps: int) -> Any:
    """A compiled Keras model for clips [B, 16, 64, 64, 3] of uint8; ``steps`` to train in all.

    The difference of neighbouring frames shows the motion, and most clearly at the shape. So the
    model takes the maximum within a frame, and then the mean over time.
    """
    import keras
    from keras import layers

    clips = keras.Input(_TRAIN_CLIP.shape, dtype="uint8")
    x = layers.Rescaling(1 / 127.5, offset=-1)(clips)
    x = x[:, 1:] - x[:, :-1]
    for filters, kernel, strides in (
        (16, (3, 5, 5), (1, 2, 2)),
        (32, (3, 3, 3), (1, 2, 2)),
        (64, (3, 3, 3), (2, 2, 2)),
    ):
        x = layers.Conv3D(filters, kernel, strides, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization(momentum=0.9)(x)
        x = layers.ReLU()(x)
    x = layers.TimeDistributed(layers.GlobalMaxPooling2D())(x)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dropout(0.3)(x)
    model = keras.Model(clips, layers.Dense(classes)(x))
    rate = keras.optimizers.schedules.CosineDecay(3e-3, decay_steps=steps, alpha=0.02)
    model.compile(
        optimizer=keras.optimizers.Adam(rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def _streams(client: Client, train: Catalog, test: Catalog, seed: int) -> tuple[Stream, Stream]:
    """The streams for training and for testing."""
    return client.stream(
        train, _TRAIN_CLIP, min(_BATCH, len(train)), shuffle=True, seed=seed, max_bad=_MAX_BAD
    ), client.stream(
        test, _TEST_CLIP, min(_BATCH, len(test)),
        shuffle=True, seed=seed, drop_remainder=False, max_bad=_MAX_BAD,
    )  # fmt: skip


def _train(
    model: Any, stream: Stream, held_back: Stream, epochs: int, steps: int, console: Console
) -> float:
    """Train for ``epochs`` of ``steps`` batches; returns the accuracy on the videos held back."""
    history = model.fit(
        stream.dataset(epochs=epochs), epochs=epochs, steps_per_epoch=steps,
        validation_data=held_back.dataset(),
        validation_steps=min(len(held_back), _MAX_TEST_STEPS),
        shuffle=False,  # the stream shuffles
        verbose=1 if console.is_terminal else 2,
    )  # fmt: skip
    return float(history.history["val_accuracy"][-1])


@dataclass(frozen=True, slots=True)
class DemoPace:
    """The speed of a training loop over ``steps`` batches; ``wait_share`` (0 to 1) is the share of
    the time that it waited for the next batch."""

    steps: int
    batches_per_s: float
    clips_per_s: float
    wait_share: float


def measure_waiting(
    batches: Batches,
    train_step: Callable[[Any, Any], object],
    *,
    steps: int = _MEASURED_STEPS,
    warm_up_steps: int = _WARM_UP_STEPS,
    limit_s: float = _MEASURED_S,
) -> DemoPace:
    """Train on ``warm_up_steps`` batches, then time ``steps`` more, or as many as fit ``limit_s``.

    ``train_step(clips, labels)`` must return only after the step is done.
    """
    for _ in range(warm_up_steps):
        train_step(*next(batches))
    done, clips_done, waited_s = 0, 0, 0.0
    began = now = time.perf_counter()
    while done < steps and (not done or now - began < limit_s):
        clips, labels = next(batches)
        waited_s += time.perf_counter() - now
        train_step(clips, labels)
        done, clips_done = done + 1, clips_done + len(labels)
        now = time.perf_counter()
    elapsed_s = now - began
    return DemoPace(done, done / elapsed_s, clips_done / elapsed_s, waited_s / elapsed_s)


def _measure_stream(stream: Stream, model: Any, first: int) -> DemoPace:
    last = first + _WARM_UP_STEPS + _MEASURED_STEPS
    dataset = stream.dataset(start_step=first, epochs=-(-last // len(stream)))
    return measure_waiting(iter(dataset), model.train_on_batch)


def _measure_inline(stream: Stream, model: Any, first: int) -> DemoPace:
    """The clips of `_measure_stream`, decoded in this process."""
    last = first + _WARM_UP_STEPS + _MEASURED_STEPS
    # The workers have made all indexes, so this decoder makes them before the time is taken.
    visits = min(len(stream), _MAX_STEPS, first)
    batches = decode_serially(
        stream.catalog, stream.clip, **stream.options,
        start_step=first - visits, epochs=-(-last // len(stream)),
    )  # fmt: skip
    for _ in range(visits):
        next(batches)
    return measure_waiting(batches, model.train_on_batch)


def _why(inline: DemoPace, apart: DemoPace, decoders: int, cores: int) -> str:
    """What the two rates mean."""
    if apart.batches_per_s >= _CLEARLY * inline.batches_per_s:
        return "Workers decode while the model trains. Its own loop does one after the other."
    return (
        f"The two rates are close because trainer and {count(decoders, 'worker')} share the "
        f"{count(cores, 'core')} of this host: while one decodes, the other cannot compute. With a "
        "GPU, or with workers on other hosts, the trainer gains the time that it waited."
    )


def _title(accuracy: float, test: Catalog) -> str:
    if len(test.classes) == 1:
        return f"only one class ({printable(test.classes[0])}): there is nothing to tell apart"
    return f"{accuracy:.0%} of the test videos recognised (guessing: {guessing(test):.0%})"


def _table(
    accuracy: float, test: Catalog, inline: DemoPace, apart: DemoPace, decoders: int
) -> Table:
    table = Table(
        title=_title(accuracy, test),
        caption=f"the same model and clips; training steps timed: {inline.steps}, {apart.steps}",
    )
    table.add_column("")
    table.add_column("decoding in the\ntrainer's own loop", justify="right")
    table.add_column(
        f"videoload, {count(decoders, 'worker')},\nwith a frame store", justify="right"
    )
    for name, a, b in (
        ("time that the trainer waited", f"{inline.wait_share:.0%}", f"{apart.wait_share:.0%}"),
        ("batches per second", f"{inline.batches_per_s:.1f}", f"{apart.batches_per_s:.1f}"),
        ("clips per second", f"{inline.clips_per_s:.0f}", f"{apart.clips_per_s:.0f}"),
    ):
        table.add_row(name, a, b)
    return table


def _make_videos(folder: Path, seed: int) -> None:
    total = len(MOTIONS) * (_TRAIN_VIDEOS + _TEST_VIDEOS)
    folder.mkdir(parents=True, exist_ok=True)
    with progress_bar("making AVI files", total) as advance:
        make_videos(
            folder, train_per_class=_TRAIN_VIDEOS, test_per_class=_TEST_VIDEOS, frames=_FRAMES,
            seed=seed, on_video=advance,
        )  # fmt: skip


def _keras() -> Any:
    # TensorFlow reads both when it is first imported. Without AVX-512 it leaves oneDNN off, and 3D
    # convolutions take ten times as long.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    try:
        with _silent_stderr():
            import keras
            import tensorflow as tf  # noqa: F401 - if it is missing, say so now
    except ImportError as error:
        raise VideoloadError(
            f"the demo trains with TensorFlow: pip install tensorflow ({error})"
        ) from None
    return keras


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Hide what TensorFlow writes about missing GPUs before it reads its settings."""
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


@contextmanager
def _ends_soon(temporary: Path, console: Console) -> Iterator[None]:
    """End the demo within two seconds of a signal, and leave nothing behind.

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
        if console.is_terminal:
            with suppress(OSError):  # not `console`: the main thread may hold its lock
                os.write(2, _SHOW_CURSOR)
        os._exit(128 + number)  # the workers end with this process

    def stay(*_: object) -> None:  # else the main thread would write where `leave` deletes
        threading.Event().wait()

    before = {number: signal.signal(number, stay) for number in _ENDING}
    INTERRUPTS.listen()
    INTERRUPTS.on_signal(leave)
    try:
        yield
    finally:
        INTERRUPTS.on_signal(None)
        for number, handler in before.items():
            signal.signal(number, handler)
