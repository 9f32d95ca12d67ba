"""Keras layers for clips, and the mask that layers take."""

from __future__ import annotations

from typing import Any

import keras

from videoload.frameworks import yuv


@keras.saving.register_keras_serializable("videoload")
class ToRGB(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """A Keras layer that turns clips of ``pixels="yuv420p"`` into RGB, on the device of the model.

    Examples:
        >>> layers = [vl.keras.ToRGB(), keras.layers.Rescaling(1 / 255)]

    Such clips are half the bytes of RGB on their way to the device. The layer gives the pixels that
    ``pixels="rgb24"`` has of this part of the frame: uint8 [B, T, H * 3 // 2, W] becomes uint8 [B,
    T, H, W, 3].

    Raises:
        SpecError: In the first call, if the clips are not of yuv420p.
    """

    def __init__(self, **layer: Any) -> None:
        """The layer.

        Args:
            layer: Arguments of ``keras.layers.Layer``.
        """
        super().__init__(**{"dtype": "uint8", "autocast": False, "trainable": False} | layer)

    def call(self, clips: Any) -> Any:
        """Return the clips in RGB.

        Args:
            clips: uint8 [..., H * 3 // 2, W].

        Returns:
            uint8 [..., H, W, 3].
        """
        ops = keras.ops
        *lead, rows, width = ops.shape(clips)
        arrays = yuv.Arrays(
            lambda x: ops.cast(x, "int32"),
            ops.reshape,
            lambda x, shape: ops.broadcast_to(x, (ops.shape(x)[0], *shape)),
            ops.right_shift,
            lambda parts: ops.stack(parts, axis=-1),
            lambda x: ops.cast(ops.clip(x, 0, 255), "uint8"),
        )
        return yuv.to_rgb(clips, lead, rows, width, arrays)

    def compute_output_shape(self, shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the shape of the clips in RGB.

        Args:
            shape: Of the clips.

        Returns:
            (..., H, W, 3).
        """
        *lead, rows, width = shape
        return (*lead, None if rows is None else rows * 2 // 3, width, 3)


def with_mask(clips: Any, labels: Any, info: Any) -> tuple[tuple[Any, Any], Any]:
    """Return a batch for a model that takes clips and their mask, in the order of Keras's sequence
    layers.

    Examples:
        >>> batches = stream.dataset(info=True).map(vl.keras.with_mask)  # for model.fit

    Args:
        clips: Of a batch with ``info``.
        labels: Of the batch.
        info: Of the batch.

    Returns:
        ((clips, mask), labels). ``mask`` is bool [B, T]: True for a frame of the video, False for
        padding.
    """
    return (clips, info["mask"]), labels
