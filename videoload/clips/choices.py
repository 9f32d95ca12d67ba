"""What the fields of a spec may be."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from videoload.arguments import real
from videoload.errors import SpecError

Crop = Literal["center", "random", "resized", "three", "five", "pad", "stretch", "box", "none"]
Sampling = Literal["random", "center", "uniform", "dense", "at"]
Edges = Literal["hold", "zero"]
Short = Literal["loop", "hold", "zero", "drop", "error", "cut"]
Long = Literal["cut", "thin"]
Seconds = Literal["picture", "file"]
Pixels = Literal["rgb24", "gray", "gray16", "yuv420p"]
Scaling = Literal["bilinear", "nearest"]
Span = Literal["window", "video"]
Align = Literal["keyframe"]

CROPS = {"three": 3, "five": 5}  # rows of each clip
MOVED_CROPS = ("random", "resized", "box")  # crops that differ from clip to clip
FROM_SCALED = ("resized", "box")  # crops that scale a region of a frame to size
WHOLE_FRAME = ("pad", "stretch")  # crops that scale the whole frame into size


class PixelFormat(NamedTuple):
    """The layout of a clip's pixels in its array, and the operations allowed on them.

    Attributes:
        channels: Values of a pixel, along the last axis of [T, H, W, channels]. 0: [T, H * 3 // 2,
            W], the planes of 4:2:0 below each other, whose sides and corners are even.
        dtype: NumPy's name of their type.
        range: AVCOL_RANGE_*: 2 is full, 1 limited.
        has_colors: Color jitter is possible.
        is_stored: A frame store can contain its frames.
    """

    channels: int
    dtype: str = "uint8"
    range: int = 2
    has_colors: bool = True
    is_stored: bool = True

    @property
    def is_halved(self) -> bool:
        """Whether a chroma sample spans two pixels in each direction."""
        return not self.channels


PIXEL_FORMATS: dict[str, PixelFormat] = {
    "rgb24": PixelFormat(3),
    "gray": PixelFormat(1),
    "gray16": PixelFormat(1, "uint16", has_colors=False, is_stored=False),
    "yuv420p": PixelFormat(0, range=1),
}

MAX_COUNT = 2**31 - 1  # so that the product of two counts fits int64
MAX_BOXES_BYTES = 1 << 19  # of a row: 32 768 frames
MAX_SIDE = 16_384  # a frame of 16:9 then takes a gigabyte, and a worker may take four

# The usual random resized crop (Szegedy et al. 2015).
AREA = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)

TRIED_FOR_SIZE = 20  # videos to look at for the native size

# A user's function: itself, or its name, which a spec stores and sends to other processes.
if TYPE_CHECKING:
    Function = Callable[..., object] | str

    class Frames:
        """A number of frames, which may be given as ``"all"``."""

        def __get__(self, spec: object, of: type | None = None) -> int: ...
        def __set__(self, spec: object, frames: int | Literal["all"]) -> None: ...
else:
    Function, Frames = str, int
FUNCTION = re.compile(r"(?!__main__\b)[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def checked_range(name: str, given: object, most: float) -> tuple[float, float]:
    """Return (least, most) as floats. Raises SpecError."""
    if isinstance(given, tuple | list) and len(given) == 2:
        low, high = (real(name, value, 0.001, most) for value in given)
        if low <= high:
            return low, high
    raise SpecError(f"{name} must be (least, most), got {given!r}")


def function_name(argument: str, function: object) -> str:
    """Return ``"package.module:function"`` of a function that a worker imports by that name, given
    as itself or by its name. Raises SpecError."""
    name, flaw = function, ""
    if callable(function):
        module = str(getattr(function, "__module__", None))
        own = str(getattr(function, "__qualname__", ""))
        name = f"{module}:{own}"
        if own.endswith("<lambda>"):
            flaw = "a lambda has no name to import it by: write a def in a module"
        elif "<locals>" in own:
            flaw = "it is defined inside another function: move it to the top of a module"
        elif module == "__main__":
            flaw = "workers cannot import from a script or notebook: move it to a module"
        elif not own or "." in own:
            flaw = "it is no function of a module: write a def in a module that calls it"
        elif getattr(sys.modules.get(module), own, None) is not function:
            flaw = f"{name} is another object now: import it again"
    elif isinstance(function, str) and re.match(r"__main__[.:]", function):
        flaw = "workers cannot import from a script or notebook: move it to a module"
    if flaw:
        raise SpecError(f"{argument}={function!r}: {flaw}")
    if not isinstance(name, str) or not FUNCTION.fullmatch(name):
        raise SpecError(
            f'{argument} must be a function of a module, or "package.module:function", got '
            f"{function!r}"
        )
    return name


class UnfitError(Exception):
    """The video does not contain this clip. ``dropped``: it is too short, with ``short="drop"``.
    ``here_only``: other clips may exist."""

    def __init__(self, reason: str, *, dropped: bool = False, here_only: bool = False) -> None:
        super().__init__(reason)
        self.dropped, self.here_only = dropped, here_only
