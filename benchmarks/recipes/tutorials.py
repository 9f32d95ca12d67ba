"""The loaders of TensorFlow's video tutorial and of Keras.io's video examples, in OpenCV and one
thread, each beside one line of videoload.

The tutorial takes ten frames, 15 source frames apart, from a random place that OpenCV seeks to, as
float32 with black bars. The Keras examples read every frame of a video, cut out the square in its
middle, and keep the first 20. Clips in all: four epochs of 32 files like UCF-101's, or of files
like HMDB-51's (B-frames, packed). No model computes. Needs OpenCV.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import tensorflow as tf

import videoload as vl
from benchmarks.check import wrong_frames
from benchmarks.loaders import Batch, ours
from benchmarks.loaders.bare import Plain
from benchmarks.recipes import Row
from benchmarks.work import Clip, Item, Work
from benchmarks.works import FOLDER, load
from videoload.host import cores

EPOCHS, BATCH, CHECKED = 4, 8, 64
FRAMES, STEP, SIZE = 10, 15, 224  # of the tutorial
FIRST = 20  # of the Keras examples

Pixels = npt.NDArray[np.uint8]


def run() -> Iterator[Row]:
    for name, kind in (("UCF-101", "ucf"), ("HMDB-51", "many-hmdb")):
        step = STEP if kind == "ucf" else 8  # its files have 95 frames
        work = load(kind, FOLDER)
        work = replace(
            work,
            files=work.files[:: len(work.files) // 32],
            clip=Clip(FRAMES, step, resize=240, crop=240),  # the middle of whole frames
        )
        items = work.distinct[:CHECKED]
        with closing(ours.batches(work, items, cores(), "loop")) as batches:
            mine = wrong_frames(work, items, batches)
        theirs = wrong_frames(work, items, _sought(work, items))
        wrong = f"wrong frames {theirs.wrong} and {mine.wrong} of {mine.frames}"
        with TemporaryDirectory(dir=FOLDER) as folder:
            paths = _classes(work, Path(folder))
            recipe_s = _epochs(tutorial(paths, step))
            one_line = vl.video_dataset_from_directory(
                folder, batch_size=BATCH, frames=FRAMES, stride=step, image_size=SIZE,
                pad_to_aspect_ratio=True, seed=0, verbose=False,
            ).map(as_floats)  # fmt: skip
            ours_s = _epochs(one_line)
            note = f"{_rates(work, recipe_s, ours_s)}, {wrong}"
            yield Row(f"6 TensorFlow's tutorial, {name}", "", recipe_s, ours_s, _least(work), note)
            del one_line
            began = time.perf_counter()
            for path in paths:
                load_video(path)
            recipe_s = (time.perf_counter() - began) * EPOCHS
            squares = vl.video_dataset_from_directory(
                folder, batch_size=None, frames=FIRST, image_size=SIZE, shuffle=False,
                crop_to_aspect_ratio=True, verbose=False,
            )  # fmt: skip
            least = _least(replace(work, clip=Clip(FIRST, 1, resize=SIZE, crop=SIZE)))
            ours_s = _epochs(squares)
            note = _rates(work, recipe_s, ours_s)
            yield Row(f"7 Keras.io's examples, {name}", "", recipe_s, ours_s, least, note)


def tutorial(paths: list[str], step: int) -> Any:
    """A dataset in the way of the tutorial, without its cache."""

    def formatted(frame: Any) -> Any:
        return tf.image.resize_with_pad(tf.image.convert_image_dtype(frame, tf.float32), SIZE, SIZE)

    def generate() -> Iterator[Any]:
        for path in random.sample(paths, len(paths)):
            raw = seek_and_read(path, None, step)
            yield np.array([formatted(frame) for frame in raw])[..., [2, 1, 0]], 0

    kinds = (tf.TensorSpec((None, None, None, 3), tf.float32), tf.TensorSpec((), tf.int16))
    made = tf.data.Dataset.from_generator(generate, output_signature=kinds)
    return made.prefetch(tf.data.AUTOTUNE).batch(BATCH)


def seek_and_read(path: str, start: int | None, step: int) -> list[Pixels]:
    """FRAMES frames from a start that OpenCV seeks to, a random one if it is None."""
    source = cv2.VideoCapture(path)
    if start is None:
        last = int(source.get(cv2.CAP_PROP_FRAME_COUNT)) - (FRAMES - 1) * step - 1
        start = random.randint(0, max(0, last))
    source.set(cv2.CAP_PROP_POS_FRAMES, start)
    frames: list[Pixels] = []
    for number in range(FRAMES):
        there = False
        for _ in range(step if number else 1):
            there, frame = source.read()
        frames.append(frame if there else np.zeros_like(frames[0]))
    source.release()
    return frames


def load_video(path: str) -> Pixels:
    """All frames of a video, each the square in its middle."""
    source = cv2.VideoCapture(path)
    frames: list[Pixels] = []
    while True:
        there, frame = source.read()
        if not there:
            break
        height, width = frame.shape[:2]
        side = min(height, width)
        top, left = height // 2 - side // 2, width // 2 - side // 2
        square = cv2.resize(frame[top : top + side, left : left + side], (SIZE, SIZE))
        frames.append(square[:, :, [2, 1, 0]])
    source.release()
    return np.array(frames)


def as_floats(clips: Any, labels: Any) -> Any:
    return tf.image.convert_image_dtype(clips, tf.float32), labels


def _sought(work: Work, items: list[Item]) -> Iterator[Batch]:
    """The frames that OpenCV gives for these items."""
    for number, file, start in items:
        raw = np.array(seek_and_read(work.path(work.files[file]), start, work.clip.stride))
        left = (raw.shape[2] - work.clip.crop) // 2
        yield [number], raw[None, :, :, left : left + work.clip.crop, ::-1]


def _classes(work: Work, folder: Path) -> list[str]:
    """The files under two classes, by links."""
    paths = []
    for number, file in enumerate(work.files):
        path = folder / f"class{number % 2}" / f"{number}.avi"
        path.parent.mkdir(exist_ok=True)
        path.hardlink_to(work.path(file))
        paths.append(str(path))
    return paths


def _epochs(dataset: Any) -> float:
    """Seconds of the epochs, after one batch."""
    next(iter(dataset))
    began = time.perf_counter()
    for _ in range(EPOCHS):
        for _ in dataset:
            pass
    return time.perf_counter() - began


def _rates(work: Work, *seconds: float) -> str:
    clips = EPOCHS * len(work.files)
    return f"{' and '.join(f'{clips / each:.1f}' for each in seconds)} clips/s"


def _least(work: Work) -> float:
    """Seconds in which bare libav on all cores decodes as many clips."""
    plain, out = Plain(work, tables=True), np.empty(work.clip.shape, np.uint8)
    began = time.perf_counter()
    for number, file in enumerate(work.files):
        plain.read(file, number % (file.frames - work.clip.span + 1), out)
    return (time.perf_counter() - began) * EPOCHS / cores()
