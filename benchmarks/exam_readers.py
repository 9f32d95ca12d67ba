"""How each loader of `benchmarks.exam` reads single frames of one file, as its documentation says.

A reader is made with a path and tells how many frames the file has; `frames` gives some of them in
ascending order, each uint8 [H, W, 3], or None for one that the loader does not give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import av

Picture = npt.NDArray[np.uint8]


class Opened(NamedTuple):
    """A file that a loader has opened: the number of frames that it tells, and how to get some."""

    length: int
    frames: Callable[[Sequence[int]], Sequence[Picture | None]]


def pictures(path: str) -> Iterator[Picture]:
    """All frames of a file, as a complete sequential decode gives them."""
    import av
    from av.error import FFmpegError

    with av.open(path) as container:
        stream = container.streams.best("video")
        if stream is None:
            return
        stream.codec_context.thread_type = "NONE"  # frames of damaged files depend on threads
        for packet in container.demux(stream):
            with suppress(FFmpegError):  # a player goes on with the next packet
                for frame in cast(list[av.VideoFrame], packet.decode()):
                    yield _rgb(frame)


def _rgb(frame: av.VideoFrame) -> Picture:
    return cast(Picture, frame.to_ndarray(format="rgb24"))


def _videoload(path: str) -> Opened:
    import videoload as vl

    video = vl.open(path)
    return Opened(len(video), lambda ordinals: list(video.frames(ordinals)))


def _torchcodec(path: str, seek_mode: str) -> Opened:
    from torchcodec.decoders import VideoDecoder

    decoder = VideoDecoder(path, dimension_order="NHWC", seek_mode=seek_mode)
    return Opened(len(decoder), lambda asked: list(decoder.get_frames_at(list(asked)).data.numpy()))


def _decord(path: str) -> Opened:
    import decord

    video = decord.VideoReader(path)
    return Opened(len(video), lambda ordinals: list(video.get_batch(list(ordinals)).asnumpy()))


def _opencv(path: str) -> Opened:
    import cv2

    capture = cv2.VideoCapture(path)
    if not capture.isOpened():
        raise ValueError("OpenCV does not open it")

    def one(ordinal: int) -> Picture | None:
        capture.set(cv2.CAP_PROP_POS_FRAMES, ordinal)
        came, frame = capture.read()
        return cv2.cvtColor(frame, cv2.COLOR_BGR2RGB) if came else None

    count = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
    return Opened(count, lambda ordinals: [one(each) for each in ordinals])


def _pyav(path: str) -> Opened:
    """Seek to the time of the frame at the file's rate, and decode up to it."""
    import av

    container = av.open(path)
    stream = container.streams.video[0]

    def one(ordinal: int) -> Picture | None:
        if stream.average_rate is None or stream.time_base is None:
            return None
        wanted = int(ordinal / stream.average_rate / stream.time_base) + (stream.start_time or 0)
        container.seek(wanted, stream=stream)
        for frame in container.decode(stream):
            if frame.pts is not None and frame.pts >= wanted:
                return _rgb(frame)
        return None

    return Opened(stream.frames, lambda ordinals: [one(each) for each in ordinals])


def _spdl(path: str) -> Opened:
    import spdl.io

    packets = spdl.io.demux_video(path)

    def frames(ordinals: Sequence[int]) -> Sequence[Picture | None]:
        decoded: Any = spdl.io.sample_decode_video(packets, list(ordinals))
        buffer = spdl.io.convert_frames(decoded)
        return list(spdl.io.to_numpy(buffer))

    return Opened(len(packets), frames)


READERS: dict[str, Callable[[str], Opened]] = {
    "videoload": _videoload,
    "torchcodec": lambda path: _torchcodec(path, "exact"),
    "torchcodec, approximate": lambda path: _torchcodec(path, "approximate"),
    "decord": _decord,
    "OpenCV": _opencv,
    "PyAV": _pyav,
    "SPDL": _spdl,
}
