"""A directory in one line, in Keras's words: which files, which batches, one pool of workers."""

import os
import re
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.support.digests import digests
from tests.support.leaks import collect_garbage
from tests.support.models import arrays, recorder
from tests.support.needs import needs_tensorflow
from tests.support.processes import children_of, is_alive
from tests.support.programs import Programs
from tests.support.videos import Videos, other_messages
from tests.support.waiting import SECOND, wait_until
from videoload import Catalog, ClipSpec, decode_serially, video_dataset_from_directory
from videoload.client.directory_dataset import listed, shuffled, split
from videoload.clips.clip_spec import deterministic

SMALL: dict[str, Any] = {"batch_size": 2, "frames": 4, "image_size": (32, 48), "seed": 5}
SPLIT: dict[str, Any] = {"validation_split": 0.4, "subset": "both"}
DRAWN = ClipSpec(frames=4, size=(32, 48), crop="stretch")


@pytest.fixture(autouse=True)
def _all_ends_with_the_last_dataset() -> Iterator[None]:
    yield
    collect_garbage()  # Then no worker is left, which is checked after each test.


def test_files_and_parts_are_those_of_keras(tf: Any, videos: Videos) -> None:
    from keras.src.utils import dataset_utils

    for seed in (0, 12345):
        theirs, labels, names = dataset_utils.index_directory(
            str(videos.root), "inferred", (".avi",), shuffle=True, seed=seed, verbose=False
        )
        mine = shuffled(listed(videos.root, labelled=True), seed)
        assert paths_of(mine) == theirs
        assert list(mine.classes) == names
        assert mine.labels.tolist() == labels.tolist()
        train, val = split(mine, 0.3)
        parts = [
            dataset_utils.get_training_or_validation_split(theirs, labels, 0.3, part)[0]
            for part in ("training", "validation")
        ]
        assert [paths_of(train), paths_of(val)] == parts


def paths_of(catalog: Catalog) -> list[str]:
    return [f"{catalog.root}/{path}" for path in catalog.paths]


def test_one_line_trains_on_the_stream_that_it_stands_for(
    tf: Any, videos: Videos, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    train, val = video_dataset_from_directory(videos.root, **SMALL, **SPLIT)
    assert re.findall(r"\d+", capsys.readouterr().out) == ["8", "3", "5", "3"]
    assert isinstance(train, tf.data.Dataset)
    assert train.element_spec == (
        tf.TensorSpec((2, 4, 32, 48, 3), tf.uint8),
        tf.TensorSpec((2,), tf.int64),
    )
    assert (len(train), len(val)) == (2, 2)
    assert train.class_names == ["jump", "run", "walk"]
    assert not set(train.file_paths) & set(val.file_paths)
    same: dict[str, Any] = {"batch_size": 2, "seed": 5}
    expected = digests(
        decode_serially(train.videoload.catalog, DRAWN, shuffle=True, epochs=4, **same)
    )
    checked = digests(decode_serially(val.videoload.catalog, deterministic(DRAWN), **same))
    model = recorder(tf)
    model.fit(train, validation_data=val, epochs=2, verbose=0, shuffle=False)
    assert model.seen == expected[:2] + checked + expected[2:4] + checked
    for _ in range(2):  # only a look
        assert digests(arrays(train.take(1))) == expected[4:5]
    assert digests(arrays(train.map(lambda clips, labels: (clips, labels)))) == expected[4:6]
    assert digests(arrays(train.prefetch(1))) == expected[6:]
    kept = train.cache()
    assert digests(arrays(kept)) == digests(arrays(kept))
    assert len(list(train.repeat(2))) == 4
    assert digests(arrays(val.repeat(2))) == checked * 2
    assert not other_messages(caplog.messages), "nothing of this is a mistake"


def test_four_datasets_share_one_pool_which_ends_with_the_last(tf: Any, videos: Videos) -> None:
    common = {**SMALL, "workers": 2, "verbose": False}
    made = [
        *video_dataset_from_directory(
            videos.root, label_mode="categorical", drop_remainder=False, **SPLIT, **common
        ),
        video_dataset_from_directory(videos.root, shuffle=False, **common),
        video_dataset_from_directory(
            videos.root, labels="inferred", label_mode="binary", class_names=["run", "walk"],
            **{**common, "batch_size": None, "color_mode": "grayscale"}, flip=True,
        ),
    ]  # fmt: skip
    labels = [np.concatenate([told.numpy() for _, told in each]) for each in made[:3]]
    assert labels[0].shape == (5, 3)
    assert set(labels[0].sum(axis=1)) == {1.0}
    assert labels[2].tolist() == videos.catalog.labels.tolist(), "the order of the files"
    clip, told = next(iter(made[3]))
    assert (clip.shape, told.shape, told.dtype) == ((4, 32, 48, 1), (1,), tf.float32)
    assert made[3].class_names == ["run", "walk"]
    only = video_dataset_from_directory(
        videos.root, labels=None, frames=2, workers=2, verbose=False, drop_remainder=False
    )
    assert only.element_spec == tf.TensorSpec((None, 2, 224, 224, 3), tf.uint8)
    wait_until(
        lambda: len(children_of(os.getpid())) == 2, 30 * SECOND, "two workers for all of them"
    )
    del clip, told, made, only
    collect_garbage()
    wait_until(lambda: not children_of(os.getpid()), 30 * SECOND, "no worker is left")


@pytest.mark.slow
@needs_tensorflow
def test_a_cell_that_runs_twice_and_ctrl_c_leave_nothing(
    programs: Programs, videos: Videos
) -> None:
    program = programs.script(
        f"""
        import keras, os, videoload as vl
        cell = '''
        train, val = vl.video_dataset_from_directory(
            {str(videos.root)!r}, batch_size=2, frames=2, image_size=(16, 16), seed=1,
            validation_split=0.4, subset="both", workers=2, verbose=False)
        model = keras.Sequential([keras.layers.Rescaling(1 / 255),
            keras.layers.GlobalAveragePooling3D(), keras.layers.Dense(3)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(train, validation_data=val, verbose=0)
        '''
        for _ in range(2):
            exec(cell.replace("\\n        ", "\\n"))
        stats = train.videoload.stats()
        print("pool", len(stats.workers), "streams", stats.batches, flush=True)
        model.fit(train.repeat(), steps_per_epoch=100, epochs=10_000, verbose=0)
        """,
        imported="tensorflow",
    )
    program.wait_for("pool 2 streams 2", 60 * SECOND)
    inside = children_of(program.pid)
    assert len(inside) == 2
    program.signal(signal.SIGINT)
    assert program.wait(60 * SECOND) != 0
    wait_until(lambda: not any(map(is_alive, inside)), 30 * SECOND, "its workers have ended")
