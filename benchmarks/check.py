"""Checks that frames are the ones that were asked for.

Scalers differ, so pixels are not compared for equality. A frame is wrong if another frame of its
file, in a complete sequential decode, is nearer to it than the one that was asked for.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import av
import numpy as np
import numpy.typing as npt

from benchmarks.work import Clip, File, Item, Work

Pictures = list[npt.NDArray[np.uint8]]

_EVERY = 3  # every n-th pixel in each direction is compared
# Two frames of a still scene differ little more than two scalers do. So a frame is wrong only if
# another one is nearer by this share of its difference from the right one.
_NEARER = 0.25
_ALIKE = 0.1  # grey levels: two frames that differ less are the same one, shown twice


class Checked(NamedTuple):
    """Frames that were compared, and frames that are wrong."""

    frames: int
    wrong: int


def wrong_frames(work: Work, items: Sequence[Item], batches: Iterable[tuple[Any, Any]]) -> Checked:
    """Compare what a loader made of the items, in whatever order it made them."""
    came: dict[int, list[tuple[Item, npt.NDArray[np.uint8]]]] = defaultdict(list)
    step = 1  # of the crop's corner, in pixels
    for numbers, clips in batches:
        for number, clip in zip(np.asarray(numbers).tolist(), np.asarray(clips), strict=True):
            item = items[number]
            if clip.ndim == 3:  # yuv420p: a chroma sample spans two pixels each way
                step = 2
            rgb = clip if clip.ndim == 4 else _rgb(clip)
            content = os.stat(work.path(work.files[item.file])).st_ino  # one file has several names
            came[content].append((item, rgb[:, ::_EVERY, ::_EVERY].copy()))
    frames = wrong = 0
    for clips_of_file in came.values():
        reference = _reference(work, work.files[clips_of_file[0][0].file], step)
        for (_, _, start), clip in clips_of_file:
            for asked, frame in zip(work.clip.ordinals(start), clip, strict=True):
                frames += 1
                wrong += not _is_it(frame, reference, asked)
    return Checked(frames, wrong)


def thin(frame: av.VideoFrame, file: File, clip: Clip, step: int = 1) -> npt.NDArray[np.uint8]:
    """A decoded frame, scaled, cropped and thinned out: uint8 [H, W, 3]."""
    (width, height), crop = clip.scaled(file), clip.crop
    x, y = (at // step * step for at in clip.corner(file))
    pixels = frame.to_ndarray(width=width, height=height, format="rgb24", threads=1)
    return np.array(pixels[y : y + crop : _EVERY, x : x + crop : _EVERY], np.uint8)


def _is_it(frame: npt.NDArray[np.uint8], reference: npt.NDArray[np.int16], asked: int) -> bool:
    away = np.abs(reference - frame).mean(axis=(1, 2, 3))
    nearest = int(away.argmin())
    apart = np.abs(reference[nearest] - reference[asked]).mean()
    return bool(apart < _ALIKE or away[asked] - away[nearest] <= _NEARER * apart)


def _reference(work: Work, file: File, step: int) -> npt.NDArray[np.int16]:
    """All frames of a file, int16 [frames, H, W, 3]."""
    if file.pictures:
        kept: npt.NDArray[np.uint8] = np.load(file.pictures)
        return kept.astype(np.int16)
    with av.open(work.path(file)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_type = "NONE"
        pictures = [thin(frame, file, work.clip, step) for frame in container.decode(stream)]
    return np.stack(pictures).astype(np.int16)


def _rgb(clip: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """A clip in rgb24, from yuv420p [T, H * 3/2, W]."""
    frames = (av.VideoFrame.from_ndarray(frame, "yuv420p") for frame in clip)
    return np.stack([frame.to_ndarray(format="rgb24") for frame in frames])
