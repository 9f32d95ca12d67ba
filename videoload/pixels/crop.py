"""Where a frame may be cut before it is scaled, so that the rest is never scaled.

The pixels must be those of the whole frame. So a cut is made only at edges that have the same place
before and after scaling, with a margin for the width of the filter. `clips.clip_params` decides
where a random crop is.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import NamedTuple

from av.video.format import VideoFormat

from videoload.clips.choices import DRAWN_CROPS
from videoload.clips.clip_params import ClipParams
from videoload.clips.clip_spec import ClipSpec

PLANAR = ("yuv420p", "yuvj420p")
_APART = 12  # edges of cuts are at least a twelfth of the frame apart


class Cut(NamedTuple):
    """``region`` (x, y, width, height) of the source frame is scaled to ``scaled`` (width, height).
    ``shown`` (x, y, width, height) of the scaled frame is scaled to ``size`` (width, height), if it
    has another size, and converted."""

    region: tuple[int, int, int, int]
    scaled: tuple[int, int]
    shown: tuple[int, int, int, int]
    size: tuple[int, int]


def cut_frame(
    spec: ClipSpec, size: tuple[int, int], params: ClipParams, pixels: str
) -> tuple[Cut, tuple[int, int]]:
    """Which part of a frame in ``pixels`` must be scaled and converted, and where the crop begins
    in the result. Only a crop with a fixed place may be cut before scaling: what is scaled never
    depends on what was drawn."""
    region, (across, down), (x, y, *part) = params.region, params.scaled, params.part
    if tuple(part) != params.size:
        return Cut(region, params.scaled, params.part, params.size), (0, 0)
    if spec.crop in DRAWN_CROPS:  # each place would have a chain of its own
        return Cut(region, params.scaled, (0, 0, across, down), params.scaled), (x, y)
    box_x, box_y, box_width, box_height = _box(spec, params)
    is_smooth = spec.scaling != "nearest"
    if is_smooth and is_cuttable(pixels) and region == (0, 0, *size):
        at_x, left, width, across = cut_length(size[0], across, box_x, box_width)
        at_y, top, height, down = cut_length(size[1], down, box_y, box_height)
        region, x, y = (at_x, at_y, width, height), x - left, y - top
        box_x, box_y = box_x - left, box_y - top
    shown = (0, 0, across, down)
    if pixels in PLANAR:
        left, top = box_x & ~1, box_y & ~1
        right, low = min(across, box_x + box_width + 1 & ~1), min(down, box_y + box_height + 1 & ~1)
        shown = (left, top, right - left, low - top)
        x, y = x - left, y - top
    return Cut(region, (across, down), shown, shown[2:]), (x, y)


def _box(spec: ClipSpec, params: ClipParams) -> tuple[int, int, int, int]:
    """The part of a scaled frame that is needed, (x, y, width, height): the crop, or all crops of
    a clip, so that they are cut out of the same pixels."""
    (across, down), (x, y, width, height) = params.scaled, params.part
    if spec.crop == "five" or (spec.crop == "three" and across >= down):
        x, width = 0, across
    if spec.crop == "five" or (spec.crop == "three" and down >= across):
        y, height = 0, down
    return x, y, width, height


@lru_cache(1024)
def cut_length(source: int, scaled: int, at: int, length: int) -> tuple[int, int, int, int]:
    """Where to cut a side of ``source`` pixels that is scaled to ``scaled``, so that the ``length``
    pixels at ``at`` are those of the whole side. Returns the begin in the source and in the scaled
    side, the length in the source and in the scaled side."""
    # A pixel at the edge would be made of fewer source pixels; a chroma sample spans two.
    margin = 2 * math.ceil(1.5 * max(1, scaled / source) - 0.5)
    edges = _edges(source, scaled)
    begin = max(edge for edge in edges if edge.scaled <= max(0, at - margin))
    end = min(edge for edge in edges if edge.scaled >= min(scaled, at + length + margin))
    return begin.source, begin.scaled, end.source - begin.source, end.scaled - begin.scaled


class _Edge(NamedTuple):
    source: int
    scaled: int


@cache
def _edges(source: int, scaled: int) -> list[_Edge]:
    """Even pixels (because of chroma) that begin at the same place before and after scaling, within
    an eighth of a pixel. They keep a distance, because each cut in use needs its own chain."""
    edges = [_Edge(0, 0)]
    for at in range(2, scaled, 2):
        near = (at * source + scaled) // (2 * scaled) * 2
        close = abs(at * source - near * scaled) * 8 <= scaled
        apart = (at - edges[-1].scaled) * _APART >= scaled
        if close and apart and edges[-1].source < near < source:
            edges.append(_Edge(near, at))
    return [*edges, _Edge(source, scaled)]


@cache
def is_cuttable(pixels: str) -> bool:
    """Whether a frame may be cut at each even pixel: no chroma sample is wider, and no pixel is a
    single bit."""
    layout = VideoFormat(pixels)
    fine = layout.chroma_width(4) > 1 and layout.chroma_height(4) > 1
    return fine and not layout.is_bit_stream
