"""The example's model: a 3-D convolution that is small enough for a CPU."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers


def build(shape: tuple[int, ...], classes: int, seed: int) -> Any:
    """Return a compiled model for uint8 clips of ``shape`` (T, H, W, C)."""
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([
        keras.Input(shape, dtype="uint8"),
        layers.Rescaling(1 / 127.5, offset=-1),
        layers.Conv3D(16, (3, 5, 5), strides=(1, 2, 2), padding="same", activation="relu"),
        layers.MaxPool3D((1, 2, 2), padding="same"),
        layers.Conv3D(32, 3, strides=2, padding="same", activation="relu"),
        layers.Conv3D(64, 3, strides=2, padding="same", activation="relu"),
        layers.GlobalAveragePooling3D(),
        layers.Dense(classes),
    ])  # fmt: skip
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    return model
