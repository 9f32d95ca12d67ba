"""Keras models for tests."""

from collections.abc import Iterator
from typing import Any

from tests.support.digests import digests


def arrays(batches: Any) -> Iterator[tuple[Any, Any]]:
    """Batches of tensors as batches of NumPy arrays."""
    for clips, labels in batches:
        yield clips.numpy(), labels.numpy()


def small_model(tf: Any, **compiled: Any) -> Any:
    """A small model for three classes, for clips of any size."""
    model = tf.keras.Sequential([
        tf.keras.layers.Rescaling(1 / 255),
        tf.keras.layers.GlobalAveragePooling3D(),
        tf.keras.layers.Dense(3),
    ])  # fmt: skip
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, **compiled)
    return model


def recorder(tf: Any) -> Any:
    """A model that notes in ``seen`` the digest of each batch that it trains or evaluates on."""

    class Recorder(tf.keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def _see(self, data: Any) -> dict[str, float]:
            self.seen += digests(arrays([data]))
            return {"loss": 0.0}

        train_step = test_step = _see

    model = Recorder()
    model.compile(run_eagerly=True)
    return model
