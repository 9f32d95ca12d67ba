"""The figures of a stream in Keras's logs: beside the loss in its history, TensorBoard or a CSV."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from videoload.errors import VideoloadError

try:
    import keras
except ImportError:
    raise VideoloadError("StreamMonitor needs Keras: pip install tensorflow") from None

if TYPE_CHECKING:
    from videoload.trainer.stream import Stream


class StreamMonitor(keras.callbacks.Callback):  # type: ignore[misc]  # Keras comes without types
    """A Keras callback that logs, for each epoch, whether loading held the training back.

    It adds three figures to the epoch's logs: ``wait_share``, the share of its time, 0 to 1, that
    the trainer waited for batches; ``clips_per_s``; and ``bad_videos``, the number of videos that
    could not be decoded so far. ``fit`` shows them in its line and history, and so do the callbacks
    that come after this one.

        callbacks = [StreamMonitor(stream), keras.callbacks.TensorBoard("runs/first")]
        model.fit(stream.dataset(), epochs=10, callbacks=callbacks)

    Args:
        stream: The stream that the model is trained on. For a validation stream, use
            ``prefix="val_"``.
        prefix: Put before each name. Default "".
    """

    def __init__(self, stream: Stream, prefix: str = "") -> None:
        super().__init__()
        self._stream = stream
        self._prefix = prefix
        self._began = time.monotonic()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Begin the epoch's figures."""
        self._began = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Add the figures of the epoch to its logs."""
        if logs is None:
            return
        stats = self._stream.stats(max(0.001, time.monotonic() - self._began))
        logs[f"{self._prefix}wait_share"] = stats.wait_share
        logs[f"{self._prefix}clips_per_s"] = stats.clips_per_s
        logs[f"{self._prefix}bad_videos"] = len(stats.bad_videos)
