"""What the fields of a spec may be."""

from __future__ import annotations

import re
from typing import Literal

from videoload.arguments import real
from videoload.errors import SpecError

Crop = Literal[
    "center", "random", "resized", "three", "five", "multiscale", "pad", "stretch", "none"
]
Sampling = Literal["random", "center", "uniform", "dense"]
Short = Literal["loop", "hold", "zero", "drop", "error"]
Pixels = Literal["rgb24", "gray", "gray16", "yuv420p"]
Scaling = Literal["bilinear", "nearest"]
Span = Literal["window", "strides", "video"]
ViewsShare = Literal["nothing", "window"]

CHOICES = {
    "crop": Crop, "sampling": Sampling, "short": Short, "pixels": Pixels, "span": Span,
    "views_share": ViewsShare, "scaling": Scaling,
}  # fmt: skip
CROPS = {"three": 3, "five": 5}  # rows that each clip makes
DRAWN_CROPS = ("random", "resized", "multiscale")
FROM_SCALED = ("resized", "multiscale")  # crops that scale a region of a frame to size
WHOLE_FRAME = ("pad", "stretch")  # crops that scale the whole frame into size

MAX_COUNT = 2**31 - 1  # so that the product of two counts fits int64
MAX_SIDE = 16_384  # a frame of 16:9 then takes a gigabyte, and a worker may take four

# The usual random resized crop (Szegedy et al. 2015).
AREA = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)

TRIED_FOR_SIZE = 20  # videos to look at for the native size

FUNCTION = re.compile(r"(?!__main__\b)[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def checked_range(name: str, given: object, most: float) -> tuple[float, float]:
    """(least, most) as floats. Raises SpecError."""
    if isinstance(given, tuple | list) and len(given) == 2:
        low, high = (real(name, value, 0.001, most) for value in given)
        if low <= high:
            return low, high
    raise SpecError(f"{name} must be (least, most), got {given!r}")


def check_function(name: str, function: object) -> None:
    """Raises SpecError if ``function`` does not name a function that a worker can import."""
    if not (isinstance(function, str) and FUNCTION.fullmatch(function)):
        raise SpecError(
            f'{name} must be "package.module:function", got {function!r}'
            " (a worker cannot import a function of the main script)"
        )


class UnfitError(Exception):
    """The video cannot give this clip. ``dropped``: it is short, and the spec says "drop"."""

    def __init__(self, reason: str, *, dropped: bool = False) -> None:
        super().__init__(reason)
        self.dropped = dropped
