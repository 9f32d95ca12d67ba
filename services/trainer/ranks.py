"""Data-parallel ranks: each process has a share of every epoch, and TensorFlow connects them.

Keras's ``fit`` does not take the datasets of `MultiWorkerMirroredStrategy` (seen with Keras 3.15),
so this is a custom loop. The first rank saves the model; all ranks load it when they start.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import videoload as vl


class LostRankError(vl.VideoloadError):
    """Another rank has ended, or did not connect. All ranks restart from the last save."""


def connect(addresses: Sequence[str], rank: int) -> Any:
    """Wait for all ranks, and return their strategy. Call it before anything else in TensorFlow,
    and before you set signal handlers: TensorFlow replaces that of SIGTERM, and ignores the signal.
    """
    task = {"type": "worker", "index": rank}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": [*addresses]}, "task": task})
    import tensorflow as tf

    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except tf.errors.OpError as error:
        raise LostRankError(f"the other ranks did not connect: {_plain(error)}") from None


def train(
    strategy: Any,
    stream: vl.Stream,
    build: Callable[[], Any],
    folder: Path,
    *,
    epochs: int,
    save_every: int,
    max_bad: float,
    stop: Event,
) -> Any:
    """Train a model for ``epochs`` epochs, including those before the last save, and return it.

    Once ``stop`` is set, it is saved after the current step, or if the wait for a batch fails.
    """
    import keras
    import tensorflow as tf

    first = strategy.cluster_resolver.task_id == 0
    last = folder / "model.keras"
    with strategy.scope():
        model = keras.saving.load_model(last) if last.exists() else build()
        model.optimizer.build(model.trainable_variables)
    done = int(model.optimizer.iterations.numpy())
    limit = max(3, max_bad * len(stream.catalog))

    def learn(clips: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = model.compute_loss(y=labels, y_pred=model(clips, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function  # type: ignore[untyped-decorator]
    def step(clips: Any, labels: Any) -> Any:
        return strategy.reduce("MEAN", strategy.run(learn, (clips, labels)), axis=None)

    @tf.function  # type: ignore[untyped-decorator]
    def mean(number: Any) -> Any:
        return strategy.reduce("MEAN", strategy.run(lambda: number), axis=None)

    def check_and_save() -> None:
        bad = float(mean(tf.constant(float(len(stream.quarantine)))))
        if bad > limit:  # all ranks see it at the same step, so none waits for a rank that ended
            raise vl.VideoloadError(f"{bad:g} bad videos on each rank; here: {stream.quarantine}")
        save()

    def save() -> None:
        if first:
            folder.mkdir(parents=True, exist_ok=True)
            model.save(folder / "unfinished.keras")
            (folder / "unfinished.keras").replace(last)

    def share(_: Any) -> Any:
        return stream.dataset(start_step=done, epochs=epochs)

    loss = None
    if done:
        print(f"continuing after {done} batches")
    try:
        for clips, labels in _until(stop, strategy.distribute_datasets_from_function(share)):
            loss = step(clips, labels)
            done += 1
            if done % save_every == 0 or done == epochs * len(stream):
                check_and_save()
            if done % len(stream) == 0:
                print(f"epoch {done // len(stream)}/{epochs}: loss {float(loss):.4f}", flush=True)
    except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError) as error:
        if stream.error is not None:
            raise
        raise LostRankError(f"another rank has ended: {_plain(error)}") from None
    if stop.is_set():
        save()
        print(f"stopped after {done} batches: saved in {folder}")
    return model


def _until(stop: Event, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield batches until ``stop`` is set. Then an error of the wait for one ends them, too: the
    client was closed, and no step is running."""
    remaining = iter(batches)
    while not stop.is_set():
        try:
            batch = next(remaining)
        except StopIteration:
            return
        except Exception:
            if stop.is_set():
                return
            raise
        yield batch


def _plain(error: Any) -> str:
    """Return the first line of TensorFlow's message, without names of graph nodes."""
    return re.sub(r"^\{\{.*?\}\} ", "", error.message.splitlines()[0])
