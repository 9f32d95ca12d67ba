"""Color augmentation: random factors of a clip, and the integer maths on its pixels.

The four changes are linear in the planes of a frame, so that they cost little there. With luma y
and chroma u, v, each in [0, 1] or [-1/2, 1/2], and the drawn brightness b, contrast c, saturation s
and hue h (in turns):

    y' = c * (b * y - 1/2) + 1/2
    u' = b * c * s * (cos(2 pi h) * u - sin(2 pi h) * v)
    v' = b * c * s * (sin(2 pi h) * u + cos(2 pi h) * v)

In RGB this is: multiply by b, move away from middle gray by c, move away from each pixel's own gray
by s, and turn the hue. Values are clipped once, at the end. A clip in gray has s = 0.

The pixels are computed in integers of 16 bits, half the time of 32 bits, with factors rounded to
1/64 or so. They are within some levels of the formulas, and every host gives the same bytes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.arguments import real
from videoload.clips.choices import PIXEL_FORMATS
from videoload.clips.regions import Draw
from videoload.errors import SpecError

_MAX = 2**15 - 1  # of an int16

# BT.601: y, u, v in [-1/2, 1/2] of R, G, B in [0, 1], and back.
_TO_YUV = (
    (0.299, 0.587, 0.114),
    (-0.299 / 1.772, -0.587 / 1.772, 0.5),
    (0.5, -0.587 / 1.402, -0.114 / 1.402),
)
_TO_RGB = (
    (1.0, 0.0, 1.402),
    (1.0, -0.114 * 1.772 / 0.587, -0.299 * 1.402 / 0.587),
    (1.0, 1.772, 0.0),
)

Jitter = tuple[float, float, float, float]
Plane = npt.NDArray[np.uint8]
Matrix = Sequence[Sequence[float]]


class Colors(NamedTuple):
    """The color changes of a clip: three factors, and ``hue`` in turns."""

    brightness: float
    contrast: float
    saturation: float
    hue: float


def checked_colors(jitter: object, grayscale: object, pixels: str) -> dict[str, Any]:
    """Return ``jitter`` and ``grayscale`` of a spec. Raises SpecError."""
    made = {
        "jitter": None if jitter is None else _checked_jitter(jitter),
        "grayscale": real("grayscale", grayscale, 0, 1, what="a probability"),
    }
    if not PIXEL_FORMATS[pixels].has_colors and any(made.values()):
        raise SpecError(f'pixels="{pixels}" has no colors: omit jitter and grayscale')
    return made


def _checked_jitter(jitter: object) -> Jitter:
    """Return (brightness, contrast, saturation, hue) as floats. Raises SpecError."""
    if not isinstance(jitter, tuple | list) or len(jitter) != 4:
        raise SpecError(f"jitter must be (brightness, contrast, saturation, hue), got {jitter!r}")
    made = [real("jitter", value, 0, 1) for value in jitter]
    if made[3] > 0.5:
        raise SpecError(f"the hue of jitter must be at most 0.5, half a turn, got {made[3]}")
    return made[0], made[1], made[2], made[3]


def draw_colors(jitter: Jitter | None, grayscale: float, draw: Draw) -> Colors:
    """Draw the color changes of a clip. A factor is uniform in [max(0, 1 - most), 1 + most], the
    hue in [-most, most]. The draws have one order, even if some are not used."""
    brightness, contrast, saturation, hue = jitter or (0.0, 0.0, 0.0, 0.0)
    made = Colors(
        _factor(brightness, draw()),
        _factor(contrast, draw()),
        _factor(saturation, draw()),
        hue * (2 * draw() - 1),
    )
    return made._replace(saturation=0.0) if draw() < grayscale else made


def _factor(most: float, drawn: float) -> float:
    least = max(0.0, 1 - most)
    return least + (1 + most - least) * drawn


def recolor_planes(planes: Sequence[Plane], colors: Colors, *, full_range: bool) -> None:
    """Change the colors of frames in place: of their ``planes`` Y, U and V, or Y alone.
    ``full_range``: luma is 0..255 and not 16..235."""
    brightness, contrast, _, hue = colors
    low, high = (0, 255) if full_range else (16, 235)
    # Y' - low = c * (b * (Y - low) - (high - low) / 2) + (high - low) / 2
    slope, middle = brightness * contrast, (high - low) / 2
    _change(planes[:1], [[slope]], low + middle * (1 - contrast) + slope * (128 - low) - 128)
    if len(planes) == 3:
        strength, angle = _strength(colors), 2 * math.pi * hue
        cos, sin = strength * math.cos(angle), strength * math.sin(angle)
        _change(planes[1:], [[cos, -sin], [sin, cos]], 0)


def recolor_rgb(pixels: Plane, colors: Colors) -> None:
    """Change the colors of RGB pixels [..., 3] in place: the same maths as in planes."""
    strength, angle = _strength(colors), 2 * math.pi * colors.hue
    cos, sin = strength * math.cos(angle), strength * math.sin(angle)
    slope = colors.brightness * colors.contrast
    changed = _product(((slope, 0.0, 0.0), (0.0, cos, -sin), (0.0, sin, cos)), _TO_YUV)
    matrix = _product(_TO_RGB, changed)
    offset = 127.5 * (1 - colors.contrast) + slope * 128 - 128  # the chroma of gray is 0
    _change([pixels[..., i] for i in range(3)], matrix, offset)


def _strength(colors: Colors) -> float:
    return colors.brightness * colors.contrast * colors.saturation


def _change(planes: Sequence[Plane], matrix: Matrix, offset: float) -> None:
    """Make each plane the sum of all planes times its row of the matrix, and an ``offset``. All
    values count from the middle, 128."""
    most = max(128 * sum(map(abs, row)) for row in matrix) + abs(offset) + 1
    bits = int(math.log2(_MAX / most))  # after the point
    one = 1 << bits
    centred = [plane.astype(np.int16) for plane in planes]
    for each in centred:
        np.subtract(each, np.int16(128), out=each)
    for row, plane in zip(matrix, planes, strict=True):
        factors = [np.int16(round(factor * one)) for factor in row]
        total = centred[0] * factors[0]
        for each, factor in zip(centred[1:], factors[1:], strict=True):
            if factor:
                total += each * factor
        total += np.int16(round(offset * one) + one // 2)
        total >>= bits
        total += np.int16(128)
        np.copyto(plane, np.clip(total, 0, 255, out=total), casting="unsafe")


def _product(left: Matrix, right: Matrix) -> list[list[float]]:
    """Return the product of two matrices. Python adds in one order; NumPy's libraries may not."""
    columns = list(zip(*right, strict=True))
    return [[sum(map(operator.mul, row, column)) for column in columns] for row in left]
