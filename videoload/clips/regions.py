"""Which part of a frame a clip shows: sizes and places in pixels.

A rectangle is (x, y, width, height), a size (width, height), a box (left, top, right, bottom).
``draw()`` returns a random number in [0, 1).
"""

from __future__ import annotations

import random
from collections.abc import Callable

Size = tuple[int, int]
Rectangle = tuple[int, int, int, int]
Box = tuple[float, float, float, float]  # left, top, right, bottom: edges of pixels
Draw = Callable[[], float]

_CROP_ATTEMPTS = 10


def generator(seed: int) -> Draw:
    """Return a random generator with this seed."""
    # Only Random.random() gives the same numbers in every version of Python.
    return random.Random(seed).random


def scaled_size(width: int, height: int, resize: int | None) -> Size:
    """Return (width, height) with the short side ``resize`` and the other the nearest even
    length."""
    if resize is None:
        return width, height
    if width <= height:
        return resize, max(2, 2 * ((height * resize + width) // (2 * width)))
    return max(2, 2 * ((width * resize + height) // (2 * height))), resize


def resized_region(
    frame: Size, area: tuple[float, float], ratio: tuple[float, float], draw: Draw
) -> Rectangle:
    """Return a random region with its share of the frame in ``area``, and its ratio of width to
    height in ``ratio`` (Szegedy et al. 2015). If ten draws do not fit into the frame, it is the
    largest region in the middle with an allowed ratio."""
    width, height = frame
    for _ in range(_CROP_ATTEMPTS):
        pixels = width * height * (area[0] + (area[1] - area[0]) * draw())
        shape = ratio[0] * (ratio[1] / ratio[0]) ** draw()
        w, h = round((pixels * shape) ** 0.5), round((pixels / shape) ** 0.5)
        across, down = draw(), draw()
        if 0 < w <= width and 0 < h <= height:
            return int(across * (width - w + 1)), int(down * (height - h + 1)), w, h
    w = max(1, min(width, round(height * ratio[1])))
    h = max(1, min(height, round(width / ratio[0])))
    return (width - w) // 2, (height - h) // 2, w, h


def is_inside(box: Box, frame: Size) -> bool:
    """Return whether some of a box lies in the frame."""
    left, top, right, bottom = box
    return left < frame[0] and top < frame[1] and right > 0 and bottom > 0


def box_region(box: Box, frame: Size, size: Size, scale: float) -> Rectangle:
    """Return the region around a box with the shape of ``size``: as small as holds the box, times
    ``scale``, about its middle. It is moved into the frame, and reaches beyond it only where it is
    longer than the frame. It begins and ends at even pixels, because a chroma sample spans two."""
    left, top, right, bottom = box
    wanted = max((right - left) / size[0], (bottom - top) / size[1]) * scale
    width, height = (max(2, 2 * round(length * wanted / 2)) for length in size)

    def begin(middle: float, length: int, whole: int) -> int:
        least, most = sorted((0, whole - length))
        at = min(max(middle - length / 2, least), most)
        even = 2 * round(at / 2)
        return even if 0 <= even <= most else round(at)

    x, y = begin((left + right) / 2, width, frame[0]), begin((top + bottom) / 2, height, frame[1])
    return x, y, width, height


def shown_box(box: Box, stored: Size, turns: int, mirrored: bool, frame: Size) -> Box:
    """Return a box of a stored frame after ``turns`` clockwise rotations by 90 degrees, a flip if
    ``mirrored``, and scaling to the size ``frame``."""
    (left, top, right, bottom), (width, height) = box, stored
    for _ in range(turns):
        left, top, right, bottom = height - bottom, left, height - top, right
        width, height = height, width
    if mirrored:
        left, right = width - right, width - left
    across, down = frame[0] / width, frame[1] / height
    return left * across, top * down, right * across, bottom * down


def inside(
    region: Rectangle, frame: Size, size: Size, *, even: bool
) -> tuple[Rectangle, Size, Size | None]:
    """Return the part of a region inside the frame, if the region is scaled to ``size``: that part,
    its scaled size, and its offset; None: all of it. ``even``: size and offset are even."""
    (x, y, width, height), step = region, 2 if even else 1

    def side(begin: int, length: int, whole: int, to: int) -> tuple[int, int, int, int]:
        first, last = max(0, begin), min(whole, begin + length)
        if last - first == length:
            return first, length, to, 0
        shown = max(step, round((last - first) * to / length / step) * step)
        at = round((first - begin) * to / length / step) * step
        return first, last - first, shown, min(at, to - shown)

    x, width, across, left = side(x, width, frame[0], size[0])
    y, height, down, top = side(y, height, frame[1], size[1])
    return (x, y, width, height), (across, down), (left, top) if (across, down) != size else None


def corner(crop: str, frame: Size, size: Size, number: int) -> Size:
    """Return where crop ``number`` of "three" or "five" begins. Other crops are in the middle."""
    free_x, free_y = frame[0] - size[0], frame[1] - size[1]
    if crop == "five" and number < 4:  # the corners, line by line
        return number % 2 * free_x, number // 2 * free_y
    x, y = free_x // 2, free_y // 2
    if crop == "three":  # along the long side, evenly spaced
        return (number * x, y) if frame[0] >= frame[1] else (x, number * y)
    return x, y


def letterbox(frame: Size, size: Size, *, even: bool) -> tuple[Size, Size]:
    """Return the size of a frame that is scaled to fit into ``size`` with its aspect ratio, and its
    offset: in the center, as tf.image.resize_with_pad rounds. ``even``: both are even."""
    (width, height), (across, down) = frame, size
    # Whether the width or the height fills ``size``; the other side is a fraction.
    wide = width * down >= height * across
    across_by = (across, 1) if wide else (width * down, height)
    down_by = (height * across, width) if wide else (down, 1)
    step = 2 if even else 1

    def side(whole: int, fitted: int, by: int) -> tuple[int, int]:
        length = max(step, fitted // by // step * step)
        at = (whole * by - (length * by if even else fitted)) // (2 * by)
        return length, min(at // step * step, whole - length)

    (width, x), (height, y) = side(across, *across_by), side(down, *down_by)
    return (width, height), (x, y)


def resized(part: Rectangle, of: Size, to: Size) -> Rectangle:
    """Return the same part of a frame that has another size."""
    if of == to:
        return part
    (x, y, width, height), (across, down), (wide, high) = part, of, to
    left, top = round(x * wide / across), round(y * high / down)
    right, low = round((x + width) * wide / across), round((y + height) * high / down)
    return min(left, wide - 1), min(top, high - 1), max(1, right - left), max(1, low - top)


def mirrored_back(part: Rectangle, whole: Size) -> Rectangle:
    """Return a part of a flipped frame of size ``whole`` in the frame before its horizontal
    flip."""
    x, y, width, height = part
    return whole[0] - x - width, y, width, height


def turned_back(part: Rectangle, whole: Size, turns: int) -> Rectangle:
    """Return a part of a rotated frame in the frame before its clockwise rotations by 90 degrees.
    ``whole`` is the size of the rotated frame."""
    for _ in range(turns):
        (x, y, width, height), (across, down) = part, whole
        part, whole = (y, across - x - width, height, width), (down, across)
    return part
