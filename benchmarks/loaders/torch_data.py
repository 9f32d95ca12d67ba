"""A DataLoader over two more readers.

Milliseconds a clip of ucf and hd on one core, as in `videoload.comparison.readers`: decord resized
by itself, one thread 6.5, 48; threads as it likes 9, 63; by OpenCV 9.9, 97.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from videoload.comparison import readers, torch_data
from videoload.comparison.loaders import Batches
from videoload.comparison.readers import Reader
from videoload.comparison.work import File, Item, Work


def batches(work: Work, items: Sequence[Item], processes: int, variant: str) -> Batches:
    """The variant is "usual" or "decord". Forked processes have the readers too."""
    readers.READERS.update(usual=_usual, decord=_decord)
    return torch_data.batches(work, items, processes, variant)


def _usual(work: Work) -> Reader:
    """PyAV as in its documentation: shows the gain of the plain loop."""
    import av

    crop = work.clip.crop

    def read(file: File, start: int) -> npt.NDArray[np.uint8]:
        (width, height), (x, y) = work.clip.scaled(file), work.clip.corner(file)
        wanted = list(work.clip.ordinals(start))
        frames: list[npt.NDArray[Any]] = []
        with av.open(work.path(file)) as container:
            stream = container.streams.video[0]
            container.seek(start, stream=stream)
            for frame in container.decode(stream):
                if (frame.pts or 0) >= wanted[len(frames)]:
                    pixels = frame.to_ndarray(width=width, height=height, format="rgb24")
                    frames.append(pixels[y : y + crop, x : x + crop])
                if len(frames) == len(wanted):
                    break
        return np.stack(frames)

    return read


def _decord(work: Work) -> Reader:
    import decord

    crop = work.clip.crop

    def read(file: File, start: int) -> npt.NDArray[np.uint8]:
        (width, height), (x, y) = work.clip.scaled(file), work.clip.corner(file)
        video = decord.VideoReader(work.path(file), width=width, height=height, num_threads=1)
        frames = video.get_batch(list(work.clip.ordinals(start))).asnumpy()
        return np.ascontiguousarray(frames[:, y : y + crop, x : x + crop])

    return read
