"""Batches of ``pixels="yuv420p"`` become RGB on the device, where the model is.

They are half the bytes of RGB on every way: network, shared memory, to the GPU. The arithmetic is
swscale's own on x86: products of 16 bits, each rounded down by itself, and a chroma sample for each
four pixels. So the pixels equal those of ``pixels="rgb24"``, with the same part of the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from videoload.errors import SpecError

# BT.601, limited range, in 1 / 2**13.
_LUMA, _RED_V, _GREEN_U, _GREEN_V, _BLUE_U = 9539, 13075, -3209, -6660, 16525
_BITS = 13


class Arrays(NamedTuple):
    """What is needed of a framework."""

    as_int32: Callable[[Any], Any]
    reshape: Callable[[Any, Sequence[Any]], Any]
    spread: Callable[[Any, Sequence[Any]], Any]  # broadcast to a shape
    shift: Callable[[Any, int], Any]  # arithmetic, to the right
    stacked: Callable[[Sequence[Any]], Any]  # along a new last axis
    as_uint8: Callable[[Any], Any]  # of 0 to 255, after clipping


def to_rgb(clips: Any, lead: Sequence[Any], rows: int, width: int, xp: Arrays) -> Any:
    """Convert uint8 [*lead, H * 3 // 2, W] to uint8 [*lead, H, W, 3]. Raises SpecError."""
    height = rows * 2 // 3
    if rows % 3 or width % 2:
        raise SpecError(
            f'clips of {rows} rows and {width} columns are not of pixels="yuv420p": '
            "[..., H * 3 // 2, W] with an even H and W"
        )
    luma, quarter = height * width, height * width // 4
    half = (height // 2, width // 2)
    flat = xp.as_int32(xp.reshape(clips, (-1, rows * width)))
    y = xp.reshape(flat[:, :luma], (-1, height, width)) - 16

    def chroma(at: int) -> Any:
        plane = flat[:, at : at + quarter] - 128
        # Each sample stands for two rows and two columns.
        return xp.reshape(plane, (-1, half[0], 1, half[1], 1))

    def part(plane: Any, factor: int) -> Any:
        return xp.shift(plane * factor, _BITS)

    def pixels(plane: Any) -> Any:
        wide = xp.spread(plane, (half[0], 2, half[1], 2))
        return xp.reshape(wide, (-1, height, width))

    u, v = chroma(luma), chroma(luma + quarter)
    grey = part(y, _LUMA)
    rgb = xp.stacked(
        [
            grey + pixels(part(v, _RED_V)),
            grey + pixels(part(u, _GREEN_U) + part(v, _GREEN_V)),
            grey + pixels(part(u, _BLUE_U)),
        ]
    )
    return xp.as_uint8(xp.reshape(rgb, (*lead, height, width, 3)))
