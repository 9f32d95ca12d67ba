"""Labels of a dataset in the formats of Keras's ``label_mode``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import tensorflow as tf

LabelMode = Literal["int", "categorical", "binary"] | None


def encode(dataset: tf.data.Dataset, mode: LabelMode, classes: int, *, rows: bool) -> Any:
    """Return ``dataset`` of (clips, labels) with the labels in this form. Without ``rows``, its
    batches have one clip, and become single clips. The clips are not copied."""
    import tensorflow as tf

    if mode == "int" and rows:
        return dataset

    def element(clips: Any, labels: Any) -> Any:
        if mode == "categorical":
            labels = tf.one_hot(labels, classes)
        elif mode == "binary":
            labels = tf.cast(labels, tf.float32)[:, tf.newaxis]
        if not rows:
            clips, labels = clips[0], labels[0]
        return clips if mode is None else (clips, labels)

    # AutoGraph would convert this function, and may leave the files that it writes for that.
    return dataset.map(tf.autograph.experimental.do_not_convert(element))
