"""What a clip is: what a spec may say of it, and what follows from that alone.

Which frames and which part of them a clip shows, of a video that is known, is `clip_params`' to
decide.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.arguments import real, whole
from videoload.clips.layouts import array_bytes, as_arrays, shape_of, type_of
from videoload.clips.regions import scaled_size
from videoload.errors import SpecError

Crop = Literal["center", "random", "resized", "three", "five", "multiscale", "none"]
Sampling = Literal["random", "center", "uniform", "dense"]
Short = Literal["loop", "hold", "drop", "error"]
Pixels = Literal["rgb24", "gray", "yuv420p"]
Span = Literal["window", "strides", "video"]
ViewsShare = Literal["nothing", "window"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "crop": ("center", "random", "resized", "three", "five", "multiscale", "none"),
    "sampling": ("random", "center", "uniform", "dense"),
    "short": ("loop", "hold", "drop", "error"),
    "pixels": ("rgb24", "gray", "yuv420p"),
    "span": ("window", "strides", "video"),
    "views_share": ("nothing", "window"),
}
_CROPS = {"three": 3, "five": 5}  # of one clip
_MAX_COUNT = 2**31 - 1  # of frames and the like: products of two are numbers of 64 bits
_MAX_SIDE = 16_384  # a frame of 16:9 has a gigabyte then, and a worker four
_DRAWN_CROPS = ("random", "resized", "multiscale")
_FROM_SOURCE = ("resized", "multiscale")  # crops that scale a part of the source frame to size

FUNCTION = re.compile(r"(?!__main__\b)[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")

TRIED_FOR_SIZE = 20  # videos of a catalog looked at to find the native size

# The usual random resized crop (Szegedy et al. 2015).
_AREA = (0.08, 1.0)
_RATIO = (3 / 4, 4 / 3)


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
            used; ``area`` and ``ratio`` set other ranges. ``"multiscale"`` does that with a region
            at a corner or in the middle whose sides are 1, 0.875, 0.75 or 0.66 of the short side,
            at most one step apart (Wang et al. 2016, Temporal Segment Networks). ``"three"`` cuts
            ``size`` at both ends and in the middle of the long side, ``"five"`` in the corners and
            in the middle: each clip is so many rows of the stream, one after the other.
            ``"none"``: a video whose frames are not of that size is bad.
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
            numpy.random.Generator seeded for it; returns a clip of the same shape and type, or
            what ``output`` says. Workers that dial in must allow the module (``--allow``). Default
            None.
        span: What the frames of a clip are spread over. ``"window"``, the default: the source
            frames from its first to its last. ``"strides"``: ``frames * stride`` of them, and
            ``"uniform"`` starts are rounded to the nearest frame, as mmaction2 counts.
            ``"video"``: all of the video, or of its segment, in ``frames`` equal parts, and of
            each part a frame (Wang et al. 2016): ``sampling="random"`` draws it, ``"center"`` takes
            the middle one, and ``"uniform"`` those that divide the part evenly, one for each of
            ``clips_per_video`` (Li et al. 2022, UniFormerV2). Without stride and fps.
        views: Clips of one video in each sample (k), at least 1: k > 1 gives [k, T, H, W, C].
            Default 1.
        views_share: ``"nothing"``, the default: each view is drawn for itself. ``"window"``: all
            views of a sample show the same frames; crop, flip and transform differ.
        area: (least, most) share of the frame that ``crop="resized"`` takes. Default (0.08, 1).
        ratio: (least, most) ratio of width to height of ``"resized"``. Default (3/4, 4/3).
        rotate: Turn frames as their file says that they are to be shown, by multiples of 90
            degrees, as players do. Default True; False: as they are stored.
        square_pixels: Stretch frames whose pixels are not square to the width at which players
            show them. Default False: a pixel stays a pixel.
        output: (shape, type) of what ``transform`` returns for a clip, where that is not a clip
            as above: ``((16, 112, 112, 3), "float32")``. Default None.

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
    span: Span = "window"
    views: int = 1
    views_share: ViewsShare = "nothing"
    area: tuple[float, float] = _AREA
    ratio: tuple[float, float] = _RATIO
    rotate: bool = True
    square_pixels: bool = False
    output: tuple[tuple[int, ...], str] | None = None

    def __post_init__(self) -> None:
        for name in ("frames", "stride", "clips_per_video", "views"):
            object.__setattr__(self, name, whole(name, getattr(self, name), most=_MAX_COUNT))
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise SpecError(
                    f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}"
                )
        for name in ("flip", "rotate", "square_pixels"):
            if not isinstance(getattr(self, name), bool):
                raise SpecError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if self.fps is not None:
            object.__setattr__(self, "fps", real("fps", self.fps, 0.001))
            if self.stride != 1:
                raise SpecError("give stride or fps, not both")
        if self.resize is not None:
            object.__setattr__(self, "resize", whole("resize", self.resize, most=_MAX_SIDE))
            if self.resize % 2:
                raise SpecError(f"resize must be even, got {self.resize}")
        self._check_size()
        self._check_ranges()
        self._check_dense()
        self._check_span()
        if self.transform is not None and not (
            isinstance(self.transform, str) and FUNCTION.fullmatch(self.transform)
        ):
            raise SpecError(
                f'transform must be "package.module:function", got {self.transform!r}'
                " (a function of the main script cannot be imported by a worker)"
            )
        self._check_output()
        self._check_views()

    def _check_size(self) -> None:
        if self.size is None:
            if self.crop in (*_FROM_SOURCE, *_CROPS):
                raise SpecError(f'crop="{self.crop}" needs a size')
            return
        if not isinstance(self.size, tuple | list) or len(self.size) != 2:
            raise SpecError(f"size must be (height, width), got {self.size!r}")
        size = tuple(whole("size", length, most=_MAX_COUNT) for length in self.size)
        object.__setattr__(self, "size", size)
        if self.pixels == "yuv420p" and any(length % 2 for length in self.size):
            raise SpecError(f'pixels="yuv420p" needs an even size, got {self.size}')
        # The short side is resized: the long one may be as long as the video makes it.
        scales = self.resize is not None and self.crop not in _FROM_SOURCE
        if scales and min(self.size) > (self.resize or 0):
            raise SpecError(f"size {self.size} does not fit into resize={self.resize}")

    def _check_ranges(self) -> None:
        for name, default, most in (("area", _AREA, 1.0), ("ratio", _RATIO, 1000.0)):
            given = getattr(self, name)
            if not isinstance(given, tuple | list) or len(given) != 2:
                raise SpecError(f"{name} must be (least, most), got {given!r}")
            low, high = (real(name, value, 0.001, most) for value in given)
            if low > high:
                raise SpecError(f"{name} must be (least, most), got {given!r}")
            object.__setattr__(self, name, (low, high))
            if self.crop != "resized" and (low, high) != default:
                raise SpecError(f'{name} is for crop="resized"')

    def _check_dense(self) -> None:
        if self.hop is not None:
            object.__setattr__(self, "hop", whole("hop", self.hop, most=_MAX_COUNT))
        if self.sampling != "dense":
            if self.hop is not None:
                raise SpecError('hop is for sampling="dense"')
        elif self.clips_per_video != 1:
            raise SpecError('sampling="dense" takes all windows: leave clips_per_video out')
        elif self.fps is not None:
            raise SpecError('sampling="dense" counts source frames: give stride, not fps')
        elif self.span != "window":
            raise SpecError(f'sampling="dense" takes windows: leave span="{self.span}" out')

    def _check_span(self) -> None:
        if self.span == "video" and (self.stride != 1 or self.fps is not None):
            raise SpecError('span="video" takes a frame of each part: leave stride and fps out')
        if self.span == "strides" and self.fps is not None:
            raise SpecError('span="strides" counts source frames: give stride, not fps')

    def _check_output(self) -> None:
        if self.output is None:
            return
        if self.transform is None:
            raise SpecError("output is what a transform returns: give transform")
        if not isinstance(self.output, tuple | list) or len(self.output) != 2:
            raise SpecError(f"output must be (shape, type), got {self.output!r}")
        shape, dtype = self.output
        output = shape_of("output[0]", shape), type_of("output[1]", dtype)
        object.__setattr__(self, "output", output)

    def _check_views(self) -> None:
        if self.views == 1:
            if self.views_share != "nothing":
                raise SpecError("views_share is for views of at least 2")
            return
        drawn = self.flip or self.crop in _DRAWN_CROPS or self.transform is not None
        if not drawn and (self.views_share == "window" or self.sampling != "random"):
            raise SpecError(
                f"the {self.views} views of a sample would all be the same: draw crop, flip or "
                "window, or give a transform"
            )

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
    def crops(self) -> int:
        """Rows of the stream that each clip makes: 3 for ``"three"``, 5 for ``"five"``, else 1."""
        return _CROPS.get(self.crop, 1)

    @property
    def decoded_shape(self) -> tuple[int, ...]:
        """Shape of one clip as it is decoded, uint8. Raises SpecError while ``size`` is None."""
        match self.pixels:
            case "rgb24":
                return (self.frames, self.height, self.width, 3)
            case "gray":
                return (self.frames, self.height, self.width, 1)
            case "yuv420p":
                return (self.frames, self.height * 3 // 2, self.width)

    @property
    def clip_shape(self) -> tuple[int, ...]:
        """Shape of one clip's array. Raises SpecError while ``size`` is None."""
        return self.decoded_shape if self.output is None else self.output[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample's array. Raises SpecError while ``size`` is None."""
        return self.clip_shape if self.views == 1 else (self.views, *self.clip_shape)

    @property
    def frames_shape(self) -> tuple[int, ...]:
        """Shape of the ordinals of a sample's source frames: (T,), or (k, T) of several views."""
        return (self.frames,) if self.views == 1 else (self.views, self.frames)

    @property
    def dtype(self) -> str:
        """Type of a sample's array, as NumPy names it."""
        return "uint8" if self.output is None else self.output[1]

    @property
    def files(self) -> bool:
        """That the catalog's paths are files."""
        return True

    def arrays(self, rows: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """The arrays of samples, as a view.

        Args:
            rows: Their bytes, uint8 [..., clip_bytes], contiguous.

        Returns:
            [..., *shape] of ``dtype``.
        """
        return as_arrays(rows, self.shape, self.dtype)

    @property
    def draws(self) -> bool:
        """Whether the window, the crop or the flip is drawn at random."""
        return self.flip or self.sampling == "random" or self.crop in _DRAWN_CROPS

    @property
    def clip_bytes(self) -> int:
        """Bytes of one sample. Raises SpecError while ``size`` is None."""
        return array_bytes(self.shape, self.dtype)


class UnfitError(Exception):
    """The video cannot give such a clip. ``dropped``: it is short, and the spec says "drop"."""

    def __init__(self, reason: str, *, dropped: bool = False) -> None:
        super().__init__(reason)
        self.dropped = dropped


class VideoInfo(NamedTuple):
    """What a clip depends on.

    ``frames`` is the true frame count; ``fps`` the (mean) frames per second, 0 if the file does not
    say; ``width`` and ``height`` are in pixels, as stored. For display, a frame is turned clockwise
    ``turns`` times by 90 degrees, and then mirrored left to right if ``mirrored``. ``aspect`` is
    the width of a pixel divided by its height. If the frames come at uneven distances, ``times``
    has the time of each, in seconds from the first.
    """

    frames: int
    fps: Fraction
    width: int
    height: int
    turns: int = 0
    aspect: Fraction = Fraction(1)
    mirrored: bool = False
    times: array[float] | None = None

    def times_of(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """When a player shows these frames, in seconds from the video's first; NaN if the file does
        not say."""
        if self.times is not None:
            return np.frombuffer(self.times)[frames]
        return frames / (float(self.fps) or np.nan)

    def shown_size(self, spec: ClipSpec) -> tuple[int, int]:
        """(width, height) of the frames as the spec takes them."""
        width = self.width
        if spec.square_pixels:
            width = max(1, round(width * self.aspect))
        return (self.height, width) if spec.rotate and self.turns % 2 else (width, self.height)
