"""Small labelled AVI files whose class shows only over time, in no single frame.

A model that learns from single frames proves nothing about clips. So two shapes drift left, right,
up or down, which is the class. They also sway across the drift, as far as they drift in a clip. The
picture wraps around at its edges. Looks, start and speeds come from the seed and the video's
number, not from its class: video 7 of "left" and video 7 of "up" begin with the same picture.

The sway hides the axis of the drift in a set of frames without order. The demo's model does no
better than guessing if the frames of its clips are shuffled; without the sway it would.

The files are like UCF-101's: MPEG-4 (xvid), 320x240, 25 frames per second, a keyframe every 12
frames, no B-frames, 3.6 KB per frame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from av.video.stream import VideoStream

Pixels = npt.NDArray[np.int16]
Mask = npt.NDArray[np.bool_]

MOTIONS = {"down": (0, 1), "left": (-1, 0), "right": (1, 0), "up": (0, -1)}  # class -> (x, y)

_WIDTH, _HEIGHT = 320, 240
_FPS = 25
_KEYFRAME_EVERY = 12
_SHAPES = 2  # per video; a single one is out of sight for too long when it crosses an edge
# The quantiser just keeps this sensor noise: a quantiser of 6 removes it.
_NOISE, _QUANTISER = 5, 5
_NOISE_PLATES = 4
# The demo's clips span 31 frames. In that time a shape sways to and fro once, and in half of the
# clips it sways further than it drifts.
_CLIP_FRAMES = 32
_SPEED = (2.2, 3.6)  # of the drift, in pixels per frame; the sway goes as far in a clip
_SWAY_FRAMES = (29, 33)


def make_videos(
    folder: Path,
    *,
    train_per_class: int,
    test_per_class: int,
    frames: int,
    seed: int = 0,
    on_video: Callable[[], None] = lambda: None,
) -> None:
    """Write ``folder/{train,test}/<class>/000.avi``, 001.avi and so on.

    The same arguments give the same bytes. ``on_video`` is called after each file. Raises OSError.
    """
    for part, (name, count) in enumerate((("train", train_per_class), ("test", test_per_class))):
        for motion in MOTIONS:
            home = folder / name / motion
            home.mkdir(parents=True, exist_ok=True)
            for number in range(count):
                rng = np.random.default_rng((seed, part, number))
                make_video(home / f"{number:03d}.avi", motion, frames=frames, rng=rng)
                on_video()


def make_video(path: Path, motion: str, *, frames: int, rng: np.random.Generator) -> None:
    """Write one AVI file in which everything moves by ``motion``, a key of `MOTIONS`."""
    level = rng.uniform(80, 170)
    luma = level + 25 * _texture(rng, _HEIGHT, _WIDTH, 6) + 18 * _texture(rng, _HEIGHT, _WIDTH, 40)
    chroma = np.stack([
        128 + rng.uniform(-20, 20) + 20 * _texture(rng, _HEIGHT // 2, _WIDTH // 2, 5)
        for _ in range(2)
    ])  # fmt: skip
    shapes = [_shape(rng, MOTIONS[motion], frames, level) for _ in range(_SHAPES)]
    plates = rng.normal(0, _NOISE, (_NOISE_PLATES, _HEIGHT, _WIDTH)).astype(np.int16)
    rolls = rng.integers((_HEIGHT, _WIDTH), size=(frames, 2))
    background = luma.astype(np.int16), chroma.astype(np.int16)
    with av.open(path, "w", format="avi", options={"fflags": "+bitexact"}) as container:
        stream = _stream(container)
        for i in range(frames):
            noise = np.roll(plates[i % _NOISE_PLATES], rolls[i], (0, 1))
            frame = av.VideoFrame.from_ndarray(_picture(i, *background, shapes, noise), "yuv420p")
            frame.pts = i
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


@dataclass(frozen=True, slots=True)
class _Shape:
    """A shape: ``corners`` int [frames, (x, y)], even; ``mask`` and ``luma`` [size, size]."""

    corners: npt.NDArray[np.int64]
    mask: Mask
    luma: Pixels
    chroma: tuple[int, int]


def _shape(
    rng: np.random.Generator, direction: tuple[int, int], frames: int, background: float
) -> _Shape:
    size = 2 * int(rng.integers(22, 36))
    # The grey level is far from the background's, the colour is random.
    level = background + rng.choice((-1, 1)) * rng.uniform(50, 75)
    luma = np.clip(level + 12 * _texture(rng, size, size, 6), 16, 235).astype(np.int16)
    blue, red = (128 + rng.choice((-1, 1), 2) * rng.uniform(30, 90, 2)).astype(int).tolist()
    return _Shape(_corners(rng, direction, frames), _mask(rng, size), luma, (blue, red))


def _corners(
    rng: np.random.Generator, direction: tuple[int, int], frames: int
) -> npt.NDArray[np.int64]:
    """The place of the shape's corner in each frame, int64 [frames, 2], not wrapped, even.

    The sway is a triangle wave, so its speed is constant like the drift's.
    """
    start = rng.uniform((0, 0), (_WIDTH, _HEIGHT))
    time = np.arange(frames)
    drift = rng.uniform(*_SPEED) * time
    phase = rng.uniform() + time / rng.uniform(*_SWAY_FRAMES)
    wave = rng.uniform(*_SPEED) * _CLIP_FRAMES * np.abs(2 * (phase % 1) - 1)
    along = np.array(direction)
    places = start + np.outer(drift, along) + np.outer(wave - wave[0], along[::-1])
    return (2 * np.rint(places / 2)).astype(np.int64)


def _mask(rng: np.random.Generator, size: int) -> Mask:
    """A disc, ring, square, triangle or cross, turned by any angle: bool [size, size]."""
    angle = rng.uniform(0, 2 * np.pi)
    scale = np.linspace(-1, 1, size)
    x, y = np.meshgrid(scale, scale)
    x, y = x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) + y * np.cos(angle)
    radius = np.hypot(x, y)
    masks: tuple[Mask, ...] = (
        radius <= 0.9,
        (radius <= 0.95) & (radius >= 0.5),
        np.maximum(abs(x), abs(y)) <= 0.68,
        (y >= -0.5) & (y <= 1 - np.sqrt(3) * abs(x)),
        (np.minimum(abs(x), abs(y)) <= 0.3) & (radius <= 1),
    )
    return masks[rng.integers(len(masks))]


def _texture(
    rng: np.random.Generator, height: int, width: int, cells: int
) -> npt.NDArray[np.float64]:
    """Smooth noise from -1 to 1, [height, width]: a grid of random numbers, interpolated."""
    grid = rng.uniform(-1, 1, (cells + 1, cells + 1))
    y, x = (np.linspace(0, cells, length, endpoint=False) for length in (height, width))
    row, column = y.astype(int), x.astype(int)
    down, across = (y - row)[:, None], x - column
    rows = grid[row] * (1 - down) + grid[row + 1] * down
    smooth: npt.NDArray[np.float64] = rows[:, column] * (1 - across) + rows[:, column + 1] * across
    return smooth


def _picture(
    i: int, luma: Pixels, chroma: Pixels, shapes: list[_Shape], noise: Pixels
) -> npt.NDArray[np.uint8]:
    """Frame ``i`` as yuv420p, uint8 [height * 3/2, width]."""
    luma, chroma = luma.copy(), chroma.copy()
    for shape in shapes:
        x, y = shape.corners[i]
        for plane, mask, filling, step in (
            (luma, shape.mask, shape.luma, 1),
            (chroma[0], shape.mask[::2, ::2], shape.chroma[0], 2),
            (chroma[1], shape.mask[::2, ::2], shape.chroma[1], 2),
        ):
            rows = (y // step + np.arange(len(mask))) % len(plane)
            columns = (x // step + np.arange(len(mask))) % plane.shape[1]
            place = np.ix_(rows, columns)
            plane[place] = np.where(mask, filling, plane[place])
    luma += noise
    planes = np.concatenate((luma.clip(16, 235), chroma.reshape(-1, _WIDTH)))
    return planes.astype(np.uint8)


def _stream(container: Any) -> VideoStream:
    """A video stream that encodes in one thread, to the same bytes each time."""
    stream: VideoStream = container.add_stream("mpeg4", rate=_FPS)
    stream.width, stream.height, stream.pix_fmt = _WIDTH, _HEIGHT, "yuv420p"
    codec = stream.codec_context
    codec.codec_tag = "xvid"
    codec.gop_size, codec.max_b_frames, codec.thread_count = _KEYFRAME_EVERY, 0, 1
    codec.options = {
        "flags": "+bitexact",
        "qmin": str(_QUANTISER),
        "qmax": str(_QUANTISER),
        "sc_threshold": "1000000000",  # no extra keyframes at scene changes
    }
    return stream
