"""What a clip is: which frames of a video, which part of them, which pixels.

A clip has to be the same whichever worker decodes it, so every choice is a pure function of the
spec, the properties of the video (frame count, rate, size) and one integer seed, which the plan
derives from (seed, epoch, sample). The draws are made in one fixed order, whatever the spec uses of
them, so that switching the flip on does not move the windows.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.errors import SpecError
from videoload.spec.arguments import real, whole

Crop = Literal["center", "random", "resized", "none"]
Sampling = Literal["random", "center", "uniform", "dense"]
Short = Literal["loop", "hold", "drop", "error"]
Pixels = Literal["rgb24", "gray", "yuv420p"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "crop": ("center", "random", "resized", "none"),
    "sampling": ("random", "center", "uniform", "dense"),
    "short": ("loop", "hold", "drop", "error"),
    "pixels": ("rgb24", "gray", "yuv420p"),
}

FUNCTION = re.compile(r"(?!__main__\b)[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")

TRIED_FOR_SIZE = 20  # videos of a catalog looked at to find the native size

# The usual random resized crop (Szegedy et al. 2015): share of the area, ratio width to height.
_AREA = (0.08, 1.0)
_RATIO = (3 / 4, 4 / 3)
_CROP_ATTEMPTS = 10


class UnfitError(Exception):
    """The video cannot give such a clip. ``dropped``: it is short, and the spec says "drop"."""

    def __init__(self, reason: str, *, dropped: bool = False) -> None:
        super().__init__(reason)
        self.dropped = dropped


@dataclass(frozen=True, slots=True)
class ClipSpec:
    """How a clip is cut from a video: which frames, which part of them, which pixels.

    Everything that is random is drawn from the stream's seed, the epoch and the clip's number in
    it, so a clip is the same on every worker and in every run.

    Attributes:
        frames: Frames in a clip (T), at least 1.
        stride: Source frames from one frame of the clip to the next, at least 1. Default 1.
        fps: In place of ``stride``: frames per second of the clip, at least 0.001. Each of its
            frames is the one that a player shows at that time. Default None.
        resize: Length in pixels, even, to which the short side is scaled before the crop; the long
            side keeps the ratio, to the nearest even length. Default None: not scaled.
        size: (height, width) of the clip in pixels. Default None: whole frames, of the size that
            the catalog's first good video has (after ``resize``); videos of another size are bad.
        crop: Which part of a frame. ``"center"``, the default, and ``"random"`` cut ``size`` out
            of the resized frame. ``"resized"`` scales a random region to ``size``: 8 to 100 % of
            the source frame's area, 3:4 to 4:3 in shape (Szegedy et al. 2015); ``resize`` is not
            used. ``"none"``: a video whose frames are not of that size is bad.
        flip: Mirror left to right with probability 1/2, all frames of a clip alike. Default False.
        sampling: Where in the video, or in its segment, the clip starts. ``"center"``, the default:
            in the middle. ``"random"``: anywhere it fits. ``"uniform"``: ``clips_per_video`` of
            them evenly from the first possible start to the last, as clips are taken for testing
            (Wang et al. 2018, Non-local Neural Networks). ``"dense"``: every window, ``hop`` frames
            apart; the catalog has to know frame counts.
        clips_per_video: Clips of each video in an epoch, at least 1. Default 1; it stays 1 with
            ``"dense"``, which takes all windows.
        hop: Source frames from one window of ``"dense"`` to the next, at least 1. Default None:
            ``frames * stride``, so that windows do not overlap.
        short: What becomes of a video that is shorter than a clip. ``"loop"``, the default: it is
            played again from its start. ``"hold"``: its last frame is repeated. ``"drop"``: another
            clip takes its place, and it is not counted as bad. ``"error"``: it is bad.
        pixels: Format of the uint8 array. ``"rgb24"``, the default: [T, H, W, 3]. ``"gray"``:
            [T, H, W, 1]. ``"yuv420p"``: [T, H * 3 // 2, W], the planes Y, U and V one after the
            other, with an even size.
        transform: ``"package.module:function"``, called on the worker with each clip and a
            numpy.random.Generator seeded for it; returns a clip of the same shape and type.
            Workers that dial in must allow the module (``--allow``). Default None.

    Raises:
        SpecError: A value is out of its range, or two fields contradict each other.
    """

    frames: int
    stride: int = 1
    fps: float | None = None
    resize: int | None = None
    size: tuple[int, int] | None = None
    crop: Crop = "center"
    flip: bool = False
    sampling: Sampling = "center"
    clips_per_video: int = 1
    hop: int | None = None
    short: Short = "loop"
    pixels: Pixels = "rgb24"
    transform: str | None = None

    def __post_init__(self) -> None:
        for name in ("frames", "stride", "clips_per_video"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise SpecError(
                    f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}"
                )
        if not isinstance(self.flip, bool):
            raise SpecError(f"flip must be True or False, got {self.flip!r}")
        if self.fps is not None:
            object.__setattr__(self, "fps", real("fps", self.fps, 0.001))
            if self.stride != 1:
                raise SpecError("give stride or fps, not both")
        if self.resize is not None:
            object.__setattr__(self, "resize", whole("resize", self.resize))
            if self.resize % 2:
                raise SpecError(f"resize must be even, got {self.resize}")
        self._check_size()
        self._check_dense()
        if self.transform is not None and not (
            isinstance(self.transform, str) and FUNCTION.fullmatch(self.transform)
        ):
            raise SpecError(
                f'transform must be "package.module:function", got {self.transform!r}'
                " (a function of the main script cannot be imported by a worker)"
            )

    def _check_size(self) -> None:
        if self.size is None:
            if self.crop == "resized":
                raise SpecError('crop="resized" needs a size')
            return
        if not isinstance(self.size, tuple | list) or len(self.size) != 2:
            raise SpecError(f"size must be (height, width), got {self.size!r}")
        size = tuple(whole("size", length) for length in self.size)
        object.__setattr__(self, "size", size)
        if self.pixels == "yuv420p" and any(length % 2 for length in self.size):
            raise SpecError(f'pixels="yuv420p" needs an even size, got {self.size}')
        # The short side is resized: the long one may be as long as the video makes it.
        if self.resize is not None and self.crop != "resized" and min(self.size) > self.resize:
            raise SpecError(f"size {self.size} does not fit into resize={self.resize}")

    def _check_dense(self) -> None:
        if self.hop is not None:
            object.__setattr__(self, "hop", whole("hop", self.hop))
        if self.sampling != "dense":
            if self.hop is not None:
                raise SpecError('hop is for sampling="dense"')
        elif self.clips_per_video != 1:
            raise SpecError('sampling="dense" takes all windows: leave clips_per_video out')
        elif self.fps is not None:
            raise SpecError('sampling="dense" counts source frames: give stride, not fps')

    @property
    def height(self) -> int:
        """Height of a clip in pixels. Raises SpecError while ``size`` is None."""
        return self._known_size()[0]

    @property
    def width(self) -> int:
        """Width of a clip in pixels. Raises SpecError while ``size`` is None."""
        return self._known_size()[1]

    def _known_size(self) -> tuple[int, int]:
        if self.size is None:
            raise SpecError("size=None: known once the stream has looked at its first video")
        return self.size

    def at_native_size(self, width: int, height: int) -> ClipSpec:
        """This spec for whole frames of one size.

        Args:
            width: Of the source frames, in pixels.
            height: Of the source frames, in pixels.

        Returns:
            The spec with ``size`` set, and ``crop="none"``: videos of another size are bad.
        """
        across, down = scaled_size(width, height, self.resize)
        return replace(self, size=(down, across), crop="none")

    def windows(self, frames: int) -> int:
        """How many clips ``"dense"`` takes from a video.

        Args:
            frames: Source frames of the video, or of its segment.

        Returns:
            1 for a video that is shorter than a clip, or 0 with ``short="drop"``.
        """
        span = (self.frames - 1) * self.stride + 1
        if frames < span:
            return 0 if self.short == "drop" else 1
        return (frames - span) // self.dense_hop + 1

    @property
    def dense_hop(self) -> int:
        """Source frames from one window of ``"dense"`` to the next."""
        return self.frames * self.stride if self.hop is None else self.hop

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one clip's uint8 array. Raises SpecError while ``size`` is None."""
        match self.pixels:
            case "rgb24":
                return (self.frames, self.height, self.width, 3)
            case "gray":
                return (self.frames, self.height, self.width, 1)
            case "yuv420p":
                return (self.frames, self.height * 3 // 2, self.width)

    @property
    def dtype(self) -> str:
        """Type of a clip's array, as NumPy names it."""
        return "uint8"

    @property
    def files(self) -> bool:
        """That the catalog's paths are files."""
        return True

    def arrays(self, rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """The arrays of clips, as a view.

        Args:
            rows: Their bytes, uint8 [..., clip_bytes], contiguous.

        Returns:
            uint8 [..., *shape].
        """
        return rows.reshape(*rows.shape[:-1], *self.shape)

    @property
    def draws(self) -> bool:
        """Whether the window, the crop or the flip is drawn at random."""
        return self.flip or self.sampling == "random" or self.crop in ("random", "resized")

    @property
    def clip_bytes(self) -> int:
        """Bytes of one clip. Raises SpecError while ``size`` is None."""
        return math.prod(self.shape)


class VideoInfo(NamedTuple):
    """What a clip depends on: true frame count, frames per second, size in pixels."""

    frames: int
    fps: Fraction
    width: int
    height: int


class ClipParams(NamedTuple):
    """One clip, decided.

    ``frames`` are ordinals of source frames, int64 [T]. ``region`` (x, y, width, height) of the
    source frame is scaled to ``scaled`` (width, height); from that, the spec's size is cut at
    ``corner`` (x, y), and mirrored if ``flip``. ``seed`` is the transform's.
    """

    frames: npt.NDArray[np.int64]
    region: tuple[int, int, int, int]
    scaled: tuple[int, int]
    corner: tuple[int, int]
    flip: bool
    seed: int


def clip_params(
    spec: ClipSpec,
    video: VideoInfo,
    seed: int,
    clip: int = 0,
    start: int = 0,
    end: int | None = None,
) -> ClipParams:
    """Decide clip number ``clip`` of the segment [start, end) of a video, from ``seed`` alone.

    Raises UnfitError where the video cannot give such a clip.
    """
    # Random.random() gives the same numbers in every version of Python; its other methods may not.
    draw = random.Random(seed).random if spec.draws else float  # float() is 0.0
    at, mirror, across, down = draw(), draw(), draw(), draw()
    last = video.frames if end is None else min(end, video.frames)
    if start >= last:
        raise UnfitError(f"segment starts at frame {start}, the video has {video.frames}")
    frames = start + _window(spec, last - start, video.fps, clip, at)
    flip = spec.flip and mirror < 0.5
    if spec.crop == "resized":
        region = _random_region(video.width, video.height, draw)
        return ClipParams(frames, region, (spec.width, spec.height), (0, 0), flip, seed)
    scaled = scaled_size(video.width, video.height, spec.resize)
    free_x, free_y = scaled[0] - spec.width, scaled[1] - spec.height
    if spec.crop == "none" and (free_x or free_y):
        raise UnfitError(
            f"frames are {scaled[0]}x{scaled[1]} pixels, the stream's are "
            f"{spec.width}x{spec.height}; give resize and size"
        )
    if free_x < 0 or free_y < 0:
        raise UnfitError(
            f"frames of {scaled[0]}x{scaled[1]} pixels are smaller than the crop "
            f"{spec.width}x{spec.height}; give resize"
        )
    if spec.crop == "random":
        corner = (int(across * (free_x + 1)), int(down * (free_y + 1)))
    else:
        corner = (free_x // 2, free_y // 2)
    if spec.pixels == "yuv420p":  # a chroma sample spans two pixels each way
        corner = (corner[0] & ~1, corner[1] & ~1)
    return ClipParams(frames, (0, 0, video.width, video.height), scaled, corner, flip, seed)


def scaled_size(width: int, height: int, resize: int | None) -> tuple[int, int]:
    """(width, height) after the short side became ``resize``, the other the nearest even length."""
    if resize is None:
        return width, height
    if width <= height:
        return resize, max(2, 2 * ((height * resize + width) // (2 * width)))
    return max(2, 2 * ((width * resize + height) // (2 * height))), resize


def _window(
    spec: ClipSpec, frames: int, fps: Fraction, clip: int, at: float
) -> npt.NDArray[np.int64]:
    """Ordinals of the clip's frames in a video of ``frames`` frames; ``at`` in [0, 1) is drawn."""
    if spec.fps is not None and fps <= 0:
        raise UnfitError("does not say its frame rate; give stride instead of fps")
    offsets, span = _offsets(spec.frames, spec.stride if spec.fps is None else _step(spec.fps, fps))
    if frames >= span:
        return offsets + _start(spec, frames - span, clip, at)
    match spec.short:
        case "loop":
            return offsets % frames
        case "hold":
            return np.minimum(offsets, frames - 1)
        case "drop" | "error":
            reason = f"has {frames} frames, a clip spans {span}"
            raise UnfitError(reason, dropped=spec.short == "drop")


@lru_cache(256)
def _step(wanted: float, fps: Fraction) -> Fraction:
    """Source frames from one frame of a clip to the next."""
    return fps / Fraction(wanted).limit_denominator(1_000_000)


@lru_cache(256)
def _offsets(frames: int, step: int | Fraction) -> tuple[npt.NDArray[np.int64], int]:
    """Frames of a clip, counted from its first; and how many source frames it spans."""
    offsets = np.array([int(t * step) for t in range(frames)], dtype=np.int64)
    offsets.flags.writeable = False
    return offsets, int(offsets[-1]) + 1


def _start(spec: ClipSpec, free: int, clip: int, at: float) -> int:
    """First frame of the window: one of 0..free."""
    match spec.sampling:
        case "random":
            return int(at * (free + 1))
        case "uniform" if spec.clips_per_video > 1:
            return free * clip // (spec.clips_per_video - 1)
        case "dense":
            return min(clip * spec.dense_hop, free)
        case _:
            return free // 2


def _random_region(width: int, height: int, draw: Callable[[], float]) -> tuple[int, int, int, int]:
    """(x, y, width, height), drawn by the usual rule. A draw that does not fit into the frame is
    repeated; after ten, the largest region in the middle with an allowed aspect ratio."""
    for _ in range(_CROP_ATTEMPTS):
        area = width * height * (_AREA[0] + (_AREA[1] - _AREA[0]) * draw())
        ratio = _RATIO[0] * (_RATIO[1] / _RATIO[0]) ** draw()
        w, h = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        across, down = draw(), draw()
        if 0 < w <= width and 0 < h <= height:
            x, y = int(across * (width - w + 1)), int(down * (height - h + 1))
            return x & ~1, y & ~1, w, h  # a chroma sample spans two pixels each way
    w = min(width, round(height * _RATIO[1]))
    h = min(height, round(width / _RATIO[0]))
    return (width - w) // 4 * 2, (height - h) // 4 * 2, w, h
