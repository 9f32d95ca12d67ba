"""One clip by each decoder, in the way that was fastest.

A reader is made in the process or thread that uses it: ``reader(name, work)(file, start)`` gives
uint8 [T, H, W, 3]. Milliseconds a clip of ucf and hd on one core; the limit's loop took 3.1 and 34:

    torchcodec  frame by frame, resized by OpenCV 3.9, 35; get_frames_at, then OpenCV 4.2, 57, or
                F.interpolate 4.2, 60; its own transforms 7.2, 72; "exact" seeking 3 % more, for the
                same frames; two FFmpeg threads 30 % more
    OpenCV      INTER_LINEAR, one thread 4.2, 43; threads as it likes 6.3, 45; INTER_AREA 8, 78
    decord      resized by itself, one thread 6.5, 48; threads as it likes 9, 63; by OpenCV 9.9, 97
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from benchmarks.loaders.bare import Plain
from benchmarks.work import File, Work

Reader = Callable[[File, int], npt.NDArray[np.uint8]]


def reader(name: str, work: Work) -> Reader:
    """The reader that a variant names."""
    return _READERS[name](work)


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


def _decord(work: Work) -> Reader:
    import decord

    crop = work.clip.crop

    def read(file: File, start: int) -> npt.NDArray[np.uint8]:
        (width, height), (x, y) = work.clip.scaled(file), work.clip.corner(file)
        video = decord.VideoReader(work.path(file), width=width, height=height, num_threads=1)
        frames = video.get_batch(list(work.clip.ordinals(start))).asnumpy()
        return np.ascontiguousarray(frames[:, y : y + crop, x : x + crop])

    return read


_READERS: dict[str, Callable[[Work], Reader]] = {
    "pyav": _pyav,
    "opencv": _opencv,
    "torchcodec": _torchcodec,
    "decord": _decord,
}
