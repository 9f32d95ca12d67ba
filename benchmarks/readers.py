"""One clip by each decoder, as its documentation says it is fastest on one core.

A reader is made in the process or thread that uses it: ``reader(name, work)(file, start)`` gives
uint8 [T, H, W, 3]. Where decoding ran on one core best, as many readers as cores are the loader's
business; each was also tried with more threads of its own, which was slower.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from benchmarks.plain import Plain
from benchmarks.work import File, Work

Reader = Callable[[File, int], npt.NDArray[np.uint8]]


def reader(name: str, work: Work) -> Reader:
    """The reader that a variant names."""
    return {"pyav": _pyav, "opencv": _opencv, "decord": _decord, "torchcodec": _torchcodec}[name](
        work
    )


def _pyav(work: Work) -> Reader:
    plain = Plain(work, tables=False)

    def read(file: File, start: int) -> npt.NDArray[np.uint8]:
        out = np.empty(work.clip.shape, np.uint8)
        plain.read(file, start, out)
        return out

    return read


def _opencv(work: Work) -> Reader:
    import cv2

    cv2.setNumThreads(1)
    crop = work.clip.crop

    def read(file: File, start: int) -> npt.NDArray[np.uint8]:
        size, (x, y) = work.clip.scaled(file), work.clip.corner(file)
        out = np.empty(work.clip.shape, np.uint8)
        capture = cv2.VideoCapture(work.path(file), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
        capture.set(cv2.CAP_PROP_POS_FRAMES, start)
        for i, place in enumerate(out):
            for _ in range(work.clip.stride - 1 if i else 0):
                capture.grab()
            _, frame = capture.read()
            small = cv2.resize(frame, size, interpolation=cv2.INTER_LINEAR)
            cv2.cvtColor(small[y : y + crop, x : x + crop], cv2.COLOR_BGR2RGB, dst=place)
        capture.release()
        return out

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


def _torchcodec(work: Work) -> Reader:
    import cv2
    from torchcodec.decoders import VideoDecoder

    cv2.setNumThreads(1)
    crop = work.clip.crop

    def read(file: File, start: int) -> npt.NDArray[np.uint8]:
        size, (x, y) = work.clip.scaled(file), work.clip.corner(file)
        out = np.empty(work.clip.shape, np.uint8)
        decoder = VideoDecoder(
            work.path(file), dimension_order="NHWC", num_ffmpeg_threads=1, seek_mode="approximate"
        )
        for place, ordinal in zip(out, work.clip.ordinals(start), strict=True):
            frame = decoder.get_frame_at(ordinal).data.numpy()
            small = cv2.resize(frame, size, interpolation=cv2.INTER_LINEAR)
            place[...] = small[y : y + crop, x : x + crop]
        return out

    return read
