"""The Keras callback `Position`: when it saves, what it leaves to train, and what it refuses."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import videoload as vl
from videoload import Catalog, ClipSpec, SpecError, VideoloadError
from videoload.clips.sample_spec import one_clip
from videoload.plan.epoch_cursor import EpochCursor
from videoload.plan.identity import Identity
from videoload.plan.options import checked_options

pytestmark = [
    pytest.mark.usefixtures("tf"),
    # TensorFlow's variables warn about NumPy 2 when Keras saves a model.
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept:DeprecationWarning"),
]

STEPS = 5  # Batches per epoch.
PATHS = [f"a/{i}.avi" for i in range(10)]
OPTIONS = checked_options(2, shuffle=True)


class FakeStream(SimpleNamespace):
    """The part of a stream that a callback sees. Each batch of its datasets holds its number."""

    def __init__(self, **other: Any) -> None:
        catalog = Catalog(PATHS, [0] * 10, ["a"])
        clip = ClipSpec(frames=4, size=(8, 8))
        super().__init__(
            **{"catalog": catalog, "clip": clip, "options": OPTIONS, "copies": ""} | other
        )

    def __len__(self) -> int:
        return STEPS

    @property
    def identity(self) -> Identity:
        return Identity.of(self.catalog, one_clip(self.clip), self.options)

    def use_copies(self, text: str) -> None:
        pass

    def dataset(self, start_step: int, epochs: int, *, info: bool = False) -> Any:
        import tensorflow as tf

        steps = np.arange(start_step, epochs * STEPS, dtype=np.float32)
        return tf.data.Dataset.from_tensor_slices((steps[:, None, None], steps[:, None, None]))


@pytest.fixture(autouse=True)
def read_the_fake_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `Position` reads a dataset with a condition that ends it; a fake one never waits."""

    def read(stream: Any, cursor: EpochCursor, *, info: bool, ends: Callable[[int], bool]) -> Any:
        assert cursor.length is not None
        return stream.dataset(cursor.start, (cursor.start + cursor.length) // STEPS, info=info)

    monkeypatch.setattr("videoload.frameworks.tfdata.dataset", read)


fake: Any = FakeStream  # a stream, as far as a type checker cares
Build = Callable[..., Any]


@pytest.fixture
def build() -> Build:
    """Makes a model that takes one number."""
    import keras

    def made(**compiled: Any) -> Any:
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", **compiled)
        return model

    return made


def seen(model: Any, position: vl.keras.Position, epochs: int, *callbacks: Any) -> list[int]:
    """Train what remains. Returns the numbers of the batches."""
    import keras

    numbers = []

    class Look(keras.callbacks.Callback):  # type: ignore[misc]  # Keras comes without types
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            numbers.append(position.batches - 1)

    for part in position.remaining(epochs):
        model.fit(**part, callbacks=[position, Look(), *callbacks], verbose=0)
    return numbers


def stop_after(batches: int, stop: Event) -> Any:
    """A callback that sets ``stop`` after this many batches."""
    import keras

    def count(_: int, logs: Any) -> None:
        count.left -= 1  # type: ignore[attr-defined]
        if not count.left:  # type: ignore[attr-defined]
            stop.set()

    count.left = batches  # type: ignore[attr-defined]
    return keras.callbacks.LambdaCallback(on_train_batch_begin=count)


def models(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.keras"))


def test_a_fit_is_saved_every_few_batches_and_at_its_end(build: Build, tmp_path: Path) -> None:
    stream, stop = fake(), Event()
    mine = [tmp_path / "run" / name for name in ("model-best.keras", "model-0.keras")]
    (tmp_path / "run").mkdir()
    for file in mine:
        file.write_bytes(b"days of training")
    position = vl.keras.Position(tmp_path / "run", stream, every=3, stop=stop)
    assert position.batches == 0
    assert seen(build(), position, 2, stop_after(8, stop)) == list(range(8))
    assert position.batches == 8
    assert all(file.read_bytes() == b"days of training" for file in mine)
    assert models(tmp_path / "run") == ["model-0.keras", "model-8.keras", "model-best.keras"]


def test_the_rest_of_an_epoch_comes_first_and_then_whole_epochs(
    build: Build, tmp_path: Path
) -> None:
    stream, stop = fake(), Event()
    position = vl.keras.Position(tmp_path, stream, stop=stop)
    model = build()
    assert seen(model, position, 4, stop_after(7, stop)) == list(range(7))

    again = vl.keras.Position(tmp_path, stream)
    loaded = again.load_model()
    np.testing.assert_array_equal(loaded.get_weights()[0], model.get_weights()[0])
    parts = []
    for part in again.remaining(4):
        parts.append({**part, "x": len(part["x"])})
        loaded.fit(**part, callbacks=[again], verbose=0)
    told = [(p["initial_epoch"], p["epochs"], p["steps_per_epoch"], p["x"]) for p in parts]
    assert told == [(1, 2, 3, 3), (2, 4, 5, 10)]
    assert again.batches == 20
    assert list(again.remaining(4)) == []
    assert seen(loaded, again, 5) == list(range(20, 25))


def test_an_epoch_is_over_once_it_is_validated_and_all_callbacks_have_seen_its_end(
    build: Build, tmp_path: Path
) -> None:
    import keras

    model, events = build(), []

    def ended(epoch: int, logs: Any) -> None:
        events.append((epoch, sorted(logs), vl.keras.Position(tmp_path, fake()).batches))

    last = keras.callbacks.LambdaCallback(on_epoch_end=ended)
    position = vl.keras.Position(tmp_path, fake(), every=1)
    for part in position.remaining(2):
        check = fake().dataset(0, 1)
        model.fit(**part, validation_data=check, callbacks=[position, last], verbose=0)
    assert events == [(0, ["loss", "val_loss"], 4), (1, ["loss", "val_loss"], 9)]
    assert vl.keras.Position(tmp_path, fake()).batches == 10


def test_a_training_that_stops_early_has_no_second_part(build: Build, tmp_path: Path) -> None:
    import keras

    stream, stop = fake(), Event()
    model = build()
    seen(model, vl.keras.Position(tmp_path, stream, stop=stop), 4, stop_after(2, stop))
    position = vl.keras.Position(tmp_path, stream)
    early = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: setattr(model, "stop_training", True)
    )
    assert seen(model, position, 4, early) == [2, 3, 4]


def listed(label: str = "a", root: Path | None = None, **more: Any) -> Catalog:
    return Catalog(PATHS, [0] * 10, [label], root, **more)


@pytest.mark.parametrize(
    ("other", "setting"),
    [
        ({"catalog": Catalog([f"b/{i}.avi" for i in range(10)], [0] * 10, ["a"])}, "videos"),
        ({"catalog": listed("b")}, "classes"),
        ({"clip": ClipSpec(frames=4, stride=2, size=(8, 8))}, "stride"),
        ({"options": {**OPTIONS, "seed": 1}}, "seed"),
        ({"options": {**OPTIONS, "batch_size": 1}}, "batch_size"),
        ({"options": {**OPTIONS, "max_bad": 0.5}}, ""),
        ({"catalog": listed(frames=[40] * 10)}, ""),
        ({"catalog": listed(root=Path(__file__).parent)}, ""),
    ],
)  # fmt: skip
def test_a_position_of_another_stream_is_refused_and_says_what_differs(
    other: dict[str, Any], setting: str, build: Build, tmp_path: Path
) -> None:
    position = vl.keras.Position(tmp_path, fake())
    assert seen(build(), position, 1) == list(range(STEPS))
    assert vl.keras.Position(tmp_path, fake()).batches == STEPS
    if setting:
        with pytest.raises(VideoloadError, match=rf"\({setting}: "):
            vl.keras.Position(tmp_path, fake(**other))
    else:  # any stream with the same batches
        assert vl.keras.Position(tmp_path, fake(**other)).batches == STEPS


def test_what_has_no_position_is_refused(tmp_path: Path) -> None:
    for option in ({"ordered": False}, {"on_error": "skip"}):
        with pytest.raises(SpecError, match=r"ordered=True.* on_error="):
            vl.keras.Position(tmp_path, fake(options={**OPTIONS, **option}))
    with pytest.raises(SpecError, match=r"every.* 0"):
        vl.keras.Position(tmp_path, fake(), every=0)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "{}", "[]", "null", '{"batches": 5}', '{"batches": "x", "stream": {}}',
        '{"batches": -5, "stream": {}}', '{"batches": true, "stream": {}}',
    ],
)  # fmt: skip
def test_the_error_names_a_damaged_position(text: str, tmp_path: Path) -> None:
    (tmp_path / "position.json").write_text(text)
    with pytest.raises(VideoloadError, match=r"position\.json"):
        vl.keras.Position(tmp_path, fake())
    with pytest.raises(VideoloadError, match=r"position\.json: File exists"):
        vl.keras.Position(tmp_path / "position.json", fake())


def test_the_model_that_was_saved_last_is_loaded(build: Build, tmp_path: Path) -> None:
    position = vl.keras.Position(tmp_path, fake(), every=3)
    with pytest.raises(VideoloadError, match=str(tmp_path)):
        position.load_model()
    position.set_model(build())
    position.on_epoch_begin(0)
    for batch in range(5):  # Then an error ended fit.
        position.on_train_batch_end(batch)
    assert position.batches == 5
    assert position.model_file == tmp_path / "model-3.keras"
    position.load_model()
    assert position.batches == 3, "those of this model"
    for damage in (lambda file: os.truncate(file, 500), Path.unlink):
        damage(position.model_file)
        with pytest.raises(VideoloadError, match=r"model-3\.keras"):
            position.load_model()


def test_after_a_failed_fit_the_saved_model_continues_with_its_next_batch(
    build: Build, tmp_path: Path
) -> None:
    import keras

    def fail(batch: int, logs: Any) -> None:
        if position.batches == 8:
            raise KeyError("a callback of the user's")

    position = vl.keras.Position(tmp_path, fake(), every=3)
    with pytest.raises(KeyError):
        seen(build(), position, 3, keras.callbacks.LambdaCallback(on_train_batch_begin=fail))
    model = position.load_model()
    assert seen(model, position, 3) == list(range(6, 15))
    assert int(model.optimizer.iterations) == 15


def test_a_second_training_in_the_same_folder_is_refused(build: Build, tmp_path: Path) -> None:
    one, other = (vl.keras.Position(tmp_path, fake(), every=2) for _ in range(2))
    assert seen(build(), one, 1) == list(range(5))
    with pytest.raises(VideoloadError, match=str(tmp_path)):
        seen(build(), other, 1)
    assert models(tmp_path) == ["model-5.keras"]
    assert seen(build(), one, 2) == list(range(5, 10))


def test_a_second_process_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    """One that opens the file anew has the same right to its lock as another process."""
    lock = tmp_path / "position.lock"
    with lock.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        print("process 123", file=other, flush=True)
        with pytest.raises(VideoloadError, match=rf"{tmp_path}.* 123"):
            vl.keras.Position(tmp_path, fake())
    position = vl.keras.Position(tmp_path, fake())
    with lock.open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert str(os.getpid()) in lock.read_text()
    assert vl.keras.Position(tmp_path, fake()).batches == position.batches, (
        "a cell of a notebook may run again"
    )


def test_a_full_disk_is_reported_in_one_line(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(model: Any, path: Any) -> None:
        Path(path).write_bytes(b"PK half of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    position = vl.keras.Position(tmp_path, fake(), every=2)
    monkeypatch.setattr("keras.Model.save", full)
    with pytest.raises(VideoloadError, match="No space left"):
        seen(build(), position, 1)
    assert models(tmp_path) == []


def test_batches_are_counted_with_steps_per_execution(build: Build, tmp_path: Path) -> None:
    position = vl.keras.Position(tmp_path, fake(), every=7)
    assert seen(build(steps_per_execution=STEPS), position, 3) == [4, 9, 14]
    assert position.batches == 15
    with pytest.raises(SpecError, match=r"steps_per_execution=2.* 5"):
        seen(build(steps_per_execution=2), position, 4)


def test_a_fit_without_the_position_is_an_error_and_none_begins_once_stop_is_set(
    build: Build, tmp_path: Path
) -> None:
    stop = Event()
    position = vl.keras.Position(tmp_path, fake(), stop=stop)
    parts = position.remaining(1)
    build().fit(**next(parts), verbose=0)
    with pytest.raises(VideoloadError, match="callbacks="):
        next(parts)
    stop.set()
    assert list(position.remaining(1)) == []


def test_at_any_moment_of_a_saving_one_complete_model_is_there(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    position = vl.keras.Position(tmp_path, fake(), every=2)
    position.set_model(build())
    position.on_train_batch_end(0)
    position.on_train_batch_end(1)
    written = position.model_file.stat().st_mtime_ns
    position.on_train_end()  # It is the same batch: the file stays as it is.
    assert position.model_file.stat().st_mtime_ns == written
    position.on_train_batch_end(2)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", lambda *_: pytest.fail("killed here"))
        with pytest.raises(pytest.fail.Exception):
            position.on_train_end()
    assert vl.keras.Position(tmp_path, fake()).batches == 2
    assert "model-2.keras" in models(tmp_path)
