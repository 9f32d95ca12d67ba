"""The page of TensorFlow's and Keras's examples: the lines that it adds to them run, and show the
right frames. What stays of the examples is replaced by small models of the same kind."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import videoload as vl
from benchmarks.numbered import SIDE, make_numbered, read_numbers
from tests.support.leaks import collect_garbage
from tests.support.pages import blocks
from tests.support.thorough import rest_nightly
from tests.support.waiting import SECOND

pytestmark = pytest.mark.timeout(120 * SECOND)

PAGE = Path(__file__).parents[2] / "docs/start/other-loaders.md"
LONG, SHORT = 40, 12  # frames of a file


@pytest.fixture(autouse=True)
def _all_ends_with_the_last_dataset() -> Iterator[None]:
    yield
    collect_garbage()


def added(example: str) -> str:
    """The lines that the page adds to an example, in its size for tests."""
    [diff] = [b.code for b in blocks(PAGE.read_text()) if b.code.startswith(f"--- {example}\n")]
    lines = [line[1:] for line in diff.splitlines() if re.match(r"\+(?!\+\+)", line)]
    return "\n".join(lines).replace("224", str(SIDE))


def test_the_tutorial_of_tensorflow_trains_on_the_frames_of_its_page(
    tf: Any, tmp_path: Path
) -> None:
    import keras

    for part in ("train", "val", "test"):
        for name in ("a", "b"):
            make_numbered(tmp_path / part / name / "long.avi", LONG)
            make_numbered(tmp_path / part / name / "short.avi", SHORT)
    parts = {part: tmp_path / part for part in ("train", "val", "test")}
    code: dict[str, Any] = {
        "vl": vl, "tf": tf, "batch_size": 3, "n_frames": 3, "subset_paths": parts,
    }  # fmt: skip
    exec(added("video_classification.ipynb"), code)
    train_ds, val_ds, test_ds = (code[f"{part}_ds"] for part in parts)
    model = keras.Sequential([keras.layers.GlobalAveragePooling3D(), keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    history = model.fit(x=train_ds, epochs=2, validation_data=val_ds, verbose=0, shuffle=False)
    assert len(history.history["val_loss"]) == 2
    model.evaluate(test_ds, return_dict=True, verbose=0)
    assert model.predict(test_ds, verbose=0).shape == (4, 2)
    assert code["labels"] == ["a", "b"]
    assert [int(label) for _, label in test_ds.unbatch()] == [0, 0, 1, 1]
    clips = np.concatenate([clips.numpy() for clips, _ in test_ds])
    assert clips.max() <= 1
    middle, from_start = [4, 19, 34], [0, 0, 0]  # black shows a zero
    assert read_numbers(clips * 255).tolist() == [middle, from_start] * 2
    for clips, _, info in code["train_videos"].videoload.batches(info=True):
        assert read_numbers(clips).tolist() == np.maximum(info.frames, 0).tolist()


@pytest.mark.parametrize(
    "example", rest_nightly(["video_classification.py", "video_transformers.py"])
)
def test_an_example_of_keras_trains_on_the_frames_of_its_page(
    example: str, tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import keras

    names = ["long.avi", "short.avi", "another.avi"]
    for name, frames in zip(names, (LONG, SHORT, LONG), strict=True):
        make_numbered(tmp_path / "train" / name, frames)
    (tmp_path / "test").symlink_to("train")
    monkeypatch.chdir(tmp_path)
    pairs = list(zip(names, ["y", "x", "x"], strict=True))
    table = np.array(pairs, [("video_name", "U11"), ("tag", "U1")])  # as of pandas
    feature_extractor = keras.Sequential([  # the brightness of each block
        keras.Input((SIDE, SIDE, 3)),
        keras.layers.Rescaling(1 / 255),
        keras.layers.AveragePooling2D(SIDE // 4),
        keras.layers.Flatten(),
    ])  # fmt: skip
    code: dict[str, Any] = {
        "vl": vl, "np": np, "os": os, "keras": keras, "feature_extractor": feature_extractor,
        "MAX_SEQ_LENGTH": 20, "IMG_SIZE": SIDE, "NUM_FEATURES": 48,
        "train_df": table, "test_df": table,
        "crop_center": lambda frame: frame, "crop_center_square": lambda frame: frame,
        "label_processor": keras.layers.StringLookup(num_oov_indices=0, vocabulary=["x", "y"]),
    }  # fmt: skip
    exec(added(example), code)
    if "train_data" not in code:  # the example has these lines itself
        code["train_data"], code["train_labels"] = code["prepare_all_videos"](table, "train")
    data, labels = code["train_data"], code["train_labels"]
    features, *masks = data if isinstance(data, tuple) else (data,)
    assert labels.ravel().tolist() == [1, 0, 0]
    numbers = (features[:, :, ::3] > 0.5) @ (1 << np.arange(16))
    middle = list(range(10, 30))
    assert numbers.tolist() == [middle, [*range(SHORT), *[0] * 8], middle]
    assert all(np.array_equal(mask, numbers > 0) for mask in masks)  # a zero is black, too
    single = code["load_video"]("train/long.avi")
    assert read_numbers(single[None]).tolist() == [middle]
    inputs = keras.Input((20, 48))
    mask = keras.Input((20,), dtype="bool")
    steps = keras.layers.GRU(2)(inputs, mask=mask) if masks else inputs[:, 0]
    model = keras.Model([inputs, mask] if masks else inputs, keras.layers.Dense(2)(steps))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit([features, *masks] if masks else features, labels, verbose=0)
