"""AVI files for the tests: small, quickly made, every frame different from every other.

A wrong frame must change a digest, so each frame shows its number twice: as the position of a
bright box, and as the phase of a pattern that fills the picture. Key frames come every 12 frames,
as in UCF-101, so that clips begin before, on and after them.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Self, cast

import av
import numpy as np
import numpy.typing as npt
from av.error import FFmpegError
from av.video.stream import VideoStream

from videoload import Catalog

KEYFRAME_EVERY = 12


@contextmanager
def same_scheduling() -> Iterator[None]:
    """Restores the scheduling of this thread: if SVT-AV1 runs as root, it makes the calling thread
    a real-time one and leaves it so. Everything started later would take the whole machine."""
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameters)


@same_scheduling()
def make_avi(
    path: Path,
    *,
    frames: int = 0,
    first: int = 0,
    times: Sequence[float] = (),
    codec: str = "mpeg4",
    size: tuple[int, int] = (72, 96),
    b_frames: int = 0,
    pixels: str = "yuv420p",
    rate: Fraction | int = 25,
    seed: int = 0,
    container_format: str = "avi",
    degrees: int = 0,
    aspect: Fraction | None = None,
) -> Path:
    """One AVI file of ``frames`` frames of ``size`` (height, width), from picture ``first`` on. In
    another container, it may ask for a clockwise rotation by ``degrees``, and its frames may come
    at uneven ``times``. ``aspect``: of its pixels. Raises FFmpegError or ValueError if this wheel
    has no such encoder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    height, width = size
    with av.open(str(path), "w", format=container_format) as container:
        stream = cast(VideoStream, container.add_stream(codec, rate=rate))
        stream.width, stream.height, stream.pix_fmt = width, height, pixels
        if degrees:
            stream.set_display_rotation(-degrees)
        context = stream.codec_context
        context.time_base = Fraction(1, 1000) if times else 1 / Fraction(rate)
        if aspect:
            context.sample_aspect_ratio = aspect
        context.gop_size = KEYFRAME_EVERY
        context.max_b_frames = b_frames
        context.bit_rate = 400_000
        context.thread_count = 1
        if codec == "libx264":
            context.options = {"preset": "ultrafast", "bf": str(b_frames)}
        for number in range(frames or len(times)):
            frame = av.VideoFrame.from_ndarray(
                _picture(first + number, height, width, seed), "rgb24"
            )
            if times:
                frame.pts, frame.time_base = round(1000 * times[number]), Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def make_lengths(root: Path, lengths: Sequence[int], folder: str = "") -> None:
    """Files ``<iii>.avi`` with so many frames, 50 000 in a second: they are pieces of one in which
    each packet is a key frame."""
    whole = make_avi(root / "whole.avi", frames=max(lengths) + 100, codec="mjpeg", size=(36, 48),
                     pixels="yuvj420p")  # fmt: skip
    with av.open(str(whole)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
        for number, frames in enumerate(lengths):
            path = root / f"{folder}{number:03}.avi"
            path.parent.mkdir(parents=True, exist_ok=True)
            with av.open(str(path), "w", format="avi") as out:
                stream = out.add_stream_from_template(container.streams.video[0])
                for at, packet in enumerate(packets[number % 100 :][:frames]):
                    packet.stream, packet.pts, packet.dts = stream, at, at
                    out.mux(packet)
    whole.unlink()


def make_levels(root: Path, levels: Mapping[str, int]) -> Catalog:
    """A file of one grey picture for each path: its pixels have this level, in clips of
    ``pixels="gray"`` as well. For transforms that act by what they are given."""
    for path, level in levels.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        with av.open(str(root / path), "w", format="avi") as container:
            stream = container.add_stream("ffv1", rate=25)
            stream.width, stream.height, stream.pix_fmt = 16, 16, "gray"
            frame = av.VideoFrame.from_ndarray(np.full((16, 16), level, np.uint8), "gray")
            container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
    return Catalog(list(levels), [0] * len(levels), ["all"], root)


def _picture(number: int, height: int, width: int, seed: int) -> npt.NDArray[np.uint8]:
    rows, columns = np.mgrid[0:height, 0:width]
    phase = 7 * number + 31 * seed
    picture = np.stack(
        [(2 * columns + 3 * phase) % 256, (3 * rows + 5 * phase) % 256, (rows + columns + phase)],
        axis=-1,
    ).astype(np.uint8)
    top, left = (3 * number) % max(1, height - 8), (5 * number) % max(1, width - 8)
    picture[top : top + 8, left : left + 8] = 255 - 40 * seed % 200
    return picture


def other_messages(messages: Iterable[str]) -> list[str]:
    """What the log says beside that the set has a video of a single frame, and that a busy disk is
    waited for."""
    usual = ("shorter than", "waiting for it")
    return [text for text in messages if not any(words in text for words in usual)]


@dataclass
class Videos:
    """A folder of classes with good videos, and a place for bad ones. Made once per session."""

    root: Path
    frames: dict[str, int] = field(default_factory=dict)  # true frame counts, by path

    @classmethod
    def make(cls, root: Path) -> Self:
        """Make the good videos under ``root``/<class>/."""
        made = cls(root)
        made.add("jump/long.avi", frames=120, seed=1)
        made.add("jump/odd.avi", frames=30, size=(53, 75), seed=2)
        made.add("jump/one_frame.avi", frames=1, size=(64, 64), seed=3)
        made.add("run/mjpeg.avi", frames=24, codec="mjpeg", size=(64, 80), pixels="yuvj420p")
        made.add("run/wide.avi", frames=26, size=(72, 160), rate=Fraction(30000, 1001), seed=4)
        made.add("walk/b_frames.avi", frames=40, b_frames=2, seed=5)
        made.add("walk/gop12.avi", frames=40, seed=6)
        try:
            made.add("run/h264.avi", frames=40, codec="libx264", b_frames=2, seed=7)
        except (FFmpegError, ValueError):  # a wheel without an H.264 encoder
            (root / "run/h264.avi").unlink(missing_ok=True)
        return made

    def add(self, path: str, *, frames: int, **how: Any) -> None:
        """Add one good video; ``how`` as in `make_avi`."""
        make_avi(self.root / path, frames=frames, **how)
        self.frames[path] = frames

    @property
    def catalog(self) -> Catalog:
        """A catalog of all good videos; the sub-folders of the root are the classes."""
        return Catalog.from_folder(self.root)
