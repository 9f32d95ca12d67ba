"""The figures of a stream are beside the loss, in the history and in TensorBoard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from videoload.errors import BadVideo
from videoload.stats.stats import StreamStats

pytestmark = pytest.mark.usefixtures("tf")


class Told:
    """A stream that only has figures."""

    def __init__(self) -> None:
        self.windows: list[float] = []

    def stats(self, window_s: float) -> StreamStats:
        self.windows.append(window_s)
        bad = (BadVideo("a.avi", "cut"),) * len(self.windows)
        return StreamStats(5, 40, 160.0, 0.25, 0, (), bad, "")


def fit(callbacks: list[Any], epochs: int) -> dict[str, list[float]]:
    import keras

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones((4, 1), np.float32)
    history: dict[str, list[float]] = model.fit(
        x, x, epochs=epochs, verbose=0, callbacks=callbacks
    ).history
    return history


def test_the_history_has_the_figures_of_each_epoch() -> None:
    from videoload.keras import StreamMonitor

    stream, held_back = Told(), Told()
    monitors = [StreamMonitor(stream), StreamMonitor(held_back, prefix="val_")]  # type: ignore[arg-type]
    history = fit(monitors, 2)
    assert len(history["loss"]) == 2
    for prefix in ("", "val_"):
        assert history[f"{prefix}wait_share"] == [0.25, 0.25]
        assert history[f"{prefix}clips_per_s"] == [160, 160]
        assert history[f"{prefix}bad_videos"] == [1, 2]
    assert all(0 < window < 60 for window in stream.windows), "of the epoch alone"


def test_a_callback_after_it_writes_the_figures(tmp_path: Path) -> None:
    import keras

    from videoload.keras import StreamMonitor

    log = keras.callbacks.CSVLogger(tmp_path / "log.csv")
    fit([StreamMonitor(Told()), log], 1)  # type: ignore[arg-type]
    header, _ = (tmp_path / "log.csv").read_text().splitlines()
    assert {"epoch", "loss", "wait_share", "clips_per_s", "bad_videos"} <= set(header.split(","))


# Keras warns about how it reads the learning rate.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_tensorboard_shows_the_figures(tmp_path: Path) -> None:
    import keras
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    from videoload.keras import StreamMonitor

    fit([StreamMonitor(Told()), keras.callbacks.TensorBoard(tmp_path)], 2)  # type: ignore[arg-type]
    events = EventAccumulator(str(tmp_path / "train")).Reload()
    shown = {
        name: [float(make_ndarray(event.tensor_proto)) for event in events.Tensors(f"epoch_{name}")]
        for name in ("loss", "wait_share", "clips_per_s", "bad_videos")
    }
    assert len(shown.pop("loss")) == 2
    assert shown == {"wait_share": [0.25] * 2, "clips_per_s": [160] * 2, "bad_videos": [1, 2]}
