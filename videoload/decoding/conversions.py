"""The conversion of a video's frames for a spec: sizes, parts and formats. Pure.

A frame is scaled, and then converted. Between the two it is small, and 4:2:0 if the source is: to
convert it there is half the work of doing both at once.
"""

from __future__ import annotations

from typing import NamedTuple

from av.video.frame import VideoFrame

from videoload.clips.choices import Scaling
from videoload.clips.clip_params import ClipParams
from videoload.clips.clip_spec import ClipSpec, pixel_format
from videoload.clips.regions import Rectangle, Size
from videoload.clips.video_info import VideoInfo

# AVCOL_SPC_* of a frame -> the conversion matrix; the default is BT.601, limited range.
_MATRICES = {1: "bt709", 4: "fcc", 7: "smpte240m", 9: "bt2020", 10: "bt2020"}
UNSPECIFIED = 2  # AVCOL_SPC_*, AVCOL_PRI_*, AVCOL_TRC_*
_PLANAR = ("yuv420p", "yuvj420p")
_MIRRORED = 128  # FFmpeg mirrors pictures of a multiple of this width ten times as fast as others


class ColorSpace(NamedTuple):
    """A matrix by FFmpeg's name, and a range, AVCOL_RANGE_*."""

    matrix: str
    range: int


class FrameFormat(NamedTuple):
    """How to convert a frame. ``space`` is AVCOL_SPC_*, ``range`` AVCOL_RANGE_*."""

    width: int
    height: int
    pixels: str
    space: int
    range: int

    @classmethod
    def of(cls, frame: VideoFrame) -> FrameFormat:
        """Return the format of a frame."""
        return cls(
            frame.width, frame.height, frame.format.name, frame.colorspace, frame.color_range
        )

    @property
    def is_full_range(self) -> bool:
        """Whether luma is 0..255, and not 16..235."""
        return self.pixels.startswith("yuvj") or self.range == 2

    @property
    def colors(self) -> ColorSpace:
        """The matrix and the range to convert with."""
        range_ = 2 if self.is_full_range else self.range or 1
        return ColorSpace(_MATRICES.get(self.space, "bt601"), range_)

    @property
    def is_halved(self) -> bool:
        """Whether these are 4:2:0 frames whose chroma spans two pixels each way everywhere. If a
        side is odd, swscale stretches the last half sample to a whole one, and shifts the colors of
        the frame."""
        return self.pixels in _PLANAR and not (self.width % 2 or self.height % 2)


class Conversion(NamedTuple):
    """The conversion of one picture to another.

    Attributes:
        source: What the picture is.
        size: (width, height) that it should have; others are scaled to it first.
        region: The part (x, y, width, height) of it that is scaled.
        scaled: What this becomes.
        scaling: As in the spec.
        cut: The (width, height) of a part of it, which may lie elsewhere in each picture.
        mirrors: Whether it is flipped horizontally before the conversion: 4:2:0 takes half the time
            of RGB, and the pixels are the same.
        made: The result, by its pixels; None: nothing else.
    """

    source: FrameFormat
    size: Size
    region: Rectangle
    scaled: FrameFormat
    scaling: Scaling
    cut: Size | None = None
    mirrors: bool = False
    made: FrameFormat | None = None


def whole(source: FrameFormat, scaled: FrameFormat, scaling: Scaling) -> Conversion:
    """From a whole picture to a scaled one."""
    return Conversion(source, source[:2], (0, 0, *source[:2]), scaled, scaling)


def scaling_conversion(
    spec: ClipSpec, info: VideoInfo, params: ClipParams, source: FrameFormat
) -> Conversion:
    """From such frames to scaled ones."""
    scaled = _scaled(source, params.scaled, spec)
    return Conversion(source, info.coded_size, params.region, scaled, spec.scaling)


def _scaled(source: FrameFormat, size: Size, spec: ClipSpec) -> FrameFormat:
    """Return the format of scaled frames: 4:2:0 frames preserve their format and colors, others get
    the clip's."""
    kept = source._replace(width=size[0], height=size[1], range=source.colors.range)
    return kept if kept.is_halved else _made(size, spec)


def _made(size: Size, spec: ClipSpec) -> FrameFormat:
    return FrameFormat(*size, spec.pixels, UNSPECIFIED, pixel_format(spec).range)


class Look(NamedTuple):
    """How a clip uses scaled frames.

    Attributes:
        part: The part (x, y, width, height) of each that is needed, in whole samples of chroma.
        again: How this is scaled once more; None: not at all.
        halved: The format of what is converted then; None: it is what the clip shows.
        mirrors: Whether it is flipped before.
        shown: The part (x, y, width, height) of the result that the clip shows.
        flip: Whether this part is flipped at last.
    """

    part: Rectangle
    again: Conversion | None
    halved: FrameFormat | None
    mirrors: bool
    shown: Rectangle
    flip: bool

    @classmethod
    def at(cls, spec: ClipSpec, params: ClipParams, scaled: FrameFormat) -> Look:
        """Return how a clip uses scaled frames of one format."""
        part, size, flip, again, halved = params.part, params.size, params.flip, None, scaled
        x, y, width, height = part
        if (width, height) != size:
            halved = _scaled(scaled, size, spec)
            again = whole(scaled._replace(width=width, height=height), halved, spec.scaling)
        if not halved.is_halved:
            return cls(part, again, None, False, (0, 0, *size), flip)
        mirrors, corner, across = flip and not params.turns, (0, 0), size[0]
        if again is None:
            left, top = x & ~1, y & ~1
            across, down = (x + width + 1 & ~1) - left, (y + height + 1 & ~1) - top
            wide = across + -across % _MIRRORED
            if mirrors and wide <= scaled.width:
                left, across = min(left, scaled.width - wide), wide
            part, corner = (left, top, across, down), (x - left, y - top)
            halved = halved._replace(width=across, height=down)
        if mirrors:
            corner = across - corner[0] - size[0], corner[1]
        return cls(part, again, halved, mirrors, (*corner, *size), flip and not mirrors)

    def converting(self, spec: ClipSpec, halved: FrameFormat, frames: int) -> Conversion:
        """From so many parts, one below the other, to what is shown of them."""
        source = halved._replace(height=halved.height * frames)
        conversion = whole(source, source, spec.scaling)
        return conversion._replace(mirrors=self.mirrors, made=_made(source[:2], spec))

    def straight(self, spec: ClipSpec, scaling: Conversion) -> Conversion | None:
        """From a source frame to what is shown of it, by one graph; None: there is none."""
        if self.again is not None or self.halved is None:
            return None if self.again else scaling
        cut = self.part[2:]
        return scaling._replace(cut=cut, mirrors=self.mirrors, made=_made(cut, spec))
