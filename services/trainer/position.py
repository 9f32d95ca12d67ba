"""Where a training run is: the number of batches trained on, and the model of that moment.

The stream is a pure function of its arguments, so this one number is all there is to resume; but it
is right only together with the weights of the same moment, and only for the same stream.
"""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event
from typing import Any

import keras

from videoload import VideoloadError


class Position(keras.callbacks.Callback):  # type: ignore[misc]  # Keras comes without types
    """Keeps ``folder``/position.json and the model that belongs to it, saved every ``every``
    batches and at the end of a fit.

    The position file is replaced last and in one step: whatever is killed when, it names a
    complete model. ``stream`` tells one stream from another; raises VideoloadError if the folder
    holds the position of another one. Once ``stop`` is set, the fit ends with the batch at hand.
    """

    def __init__(self, folder: Path, stream: str, every: int, stop: Event) -> None:
        super().__init__()
        self._folder, self._stream, self._every, self._stop = folder, stream, every, stop
        self._file = folder / "position.json"
        self.batches = 0
        folder.mkdir(parents=True, exist_ok=True)
        if self._file.exists():
            saved = json.loads(self._file.read_text())
            if saved["stream"] != stream:
                raise VideoloadError(
                    f"{self._file} belongs to other videos or settings: use the old ones, or "
                    "another folder"
                )
            self.batches = saved["batches"]

    @property
    def model_file(self) -> Path:
        """The model after ``batches`` batches."""
        return self._folder / f"model-{self.batches}.keras"

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Count it."""
        self.batches += 1
        if self._stop.is_set():
            self.model.stop_training = True
        elif self.batches % self._every == 0:
            self._save()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Save what was trained."""
        self._save()

    def _save(self) -> None:
        self.model.save(self.model_file)
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps({"batches": self.batches, "stream": self._stream}) + "\n")
        new.replace(self._file)
        for other in self._folder.glob("model-*.keras"):
            if other != self.model_file:
                other.unlink()
