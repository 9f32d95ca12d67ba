"""Kept frames as bytes, and the pixels of clips out of them.

A *kept* frame is a scaled one before it becomes RGB: 4:2:0 where the source is, half the size. The
frames of a clip are laid below each other into one picture, so that FFmpeg converts them in one go.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np
from av.video.frame import VideoFrame

from videoload.clips.clip_params import ClipParams
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.colours import Colours, recolour_planes, recolour_rgb
from videoload.clips.regions import Rectangle
from videoload.clips.video_info import VideoInfo
from videoload.pixels.chains import Chain, Chains, FrameFormat
from videoload.pixels.crop import PLANAR, Cut
from videoload.pixels.scaling import (
    REFUSED,
    Buffer,
    Crop,
    cannot_be_scaled,
    pixels_of,
    place,
    place_planes,
    places,
    way_of,
)

_LAYOUT = struct.Struct("<II16sII")
_MIRRORED = 128  # FFmpeg mirrors pictures of a multiple of this width ten times as fast as others


class KeptForm:
    """How the kept frames of a video lie in bytes.

    Attributes:
        source: What its source frames are.
        way: The way from source frames to pixels.
        frame_bytes: Bytes of a frame.
    """

    def __init__(
        self, spec: ClipSpec, info: VideoInfo, params: ClipParams, source: FrameFormat
    ) -> None:
        """``params``: of one of the clips."""
        self.source = source
        self.way, self._crop = way_of(spec, info, params, source)
        self._planes = _planes(self.way.kept, *self.way.cut.scaled)
        self._box, self._boxed = self._cut_out()
        self.frame_bytes = self._planes[-1].end

    def pack(self, frame: VideoFrame, row: Buffer) -> None:
        """The bytes of a kept frame, into ``row`` [frame_bytes]."""
        for (begin, end, lines, _), plane in zip(self._planes, frame.planes, strict=True):
            shape = lines, (end - begin) // lines
            lines_of = np.ndarray(shape, np.uint8, cast(memoryview, plane), 0, (plane.line_size, 1))
            row[begin:end].reshape(shape)[...] = lines_of

    def show(
        self, planes: list[Buffer], chains: Chains, out: Buffer, colours: Colours | None = None
    ) -> None:
        """Make a clip's pixels ``out`` [T, ...] out of the planes of its kept frames, with
        ``colours`` changed if they are given. Raises UnreadableError."""
        if self.way.scales_again:
            planes = self._scaled_again(planes, chains)
        self.convert(self.cut(planes), chains, out, colours)

    def cut(self, planes: Sequence[Buffer]) -> list[Buffer]:
        """What the clip needs of planes [n, height, width, channels] that are not scaled again."""
        return _part(planes, self._box)

    def convert(
        self, planes: list[Buffer], chains: Chains, out: Buffer, colours: Colours | None
    ) -> None:
        """The same of what was `cut`."""
        (_, _, across, down), crop = self._box, self._boxed
        if self.way.kept not in PLANAR:  # nothing is left to be converted
            place_planes(planes, crop, out)
            if colours is not None:
                _recolour(places(out, crop), crop.pixels, colours)
            return
        together = 1 if down % 2 else len(out)  # a chroma sample belongs to two lines
        if self.way.mirrors and not down % 2:  # columns are added that nobody looks at
            (x, y), added = crop.corner, -across % _MIRRORED
            across, crop = across + added, crop._replace(corner=(x + added, y))
        whole = (0, 0, across, down)
        cut = Cut(whole, (across, down), whole, (across, down))
        chain = chains[self.way._replace(cut=cut, goes="from final", frames=together)]
        for at in range(0, len(out), together):
            part = [plane[at : at + together] for plane in planes]
            made = self._through(chain, part, across, colours)
            place(made, made.planes[0], crop, out[at : at + together])

    def _scaled_again(self, planes: list[Buffer], chains: Chains) -> list[Buffer]:
        """The planes of what is shown of kept frames, scaled to the clip's size one by one, because
        scaling looks at the lines beside."""
        _, _, across, down = self.way.cut.shown
        whole = (0, 0, across, down)
        cut = Cut(whole, (across, down), whole, self.way.cut.size)
        chain = chains[self.way._replace(cut=cut, goes="again", mirrors=False)]
        scaled: list[list[Buffer]] = []
        shown = _part(planes, self.way.cut.shown)
        for at in range(len(planes[0])):
            made = self._through(chain, [plane[at : at + 1] for plane in shown], across)
            scaled.append([pixels_of(plane, 1, shown[0].shape[-1]) for plane in made.planes])
        return [np.concatenate(frames) for frames in zip(*scaled, strict=True)]

    def _through(
        self, chain: Chain, planes: list[Buffer], across: int, colours: Colours | None = None
    ) -> VideoFrame:
        """What a chain makes of frames [n, height, width, channels] below each other, in a picture
        that is ``across`` wide."""
        n, height, _, channels = planes[0].shape
        picture = VideoFrame(across, n * height, self.way.kept)
        to = [
            pixels_of(plane, n, channels)[:, :, : part.shape[2]]
            for plane, part in zip(picture.planes, planes, strict=True)
        ]
        if colours is not None:
            recolour_planes(planes, to, colours, full_range=self.way.is_full_range)
        else:
            for place_, part in zip(to, planes, strict=True):
                np.copyto(place_, part)
        try:
            chain.source.push(picture)
            return cast(VideoFrame, chain.sink.pull())
        except REFUSED as error:
            raise cannot_be_scaled(error) from None

    def _cut_out(self) -> tuple[Rectangle, Crop]:
        """The part of a frame that the clip needs, in whole samples of chroma, and where the crop
        lies in what is made of it. Odd frames are converted whole, because swscale stretches their
        chroma."""
        if self.way.scales_again:
            return (0, 0, *self.way.cut.size), self._crop
        (x, y, across, down), crop = self.way.cut.shown, self._crop
        if across % 2 or down % 2:
            return (x, y, across, down), crop
        (at_x, at_y), (width, height) = crop.corner, crop.size
        if self.way.mirrors:
            at_x = across - at_x - width
        left, top = at_x & ~1, at_y & ~1
        right, low = at_x + width + 1 & ~1, at_y + height + 1 & ~1
        inside = right - at_x - width if self.way.mirrors else at_x - left
        box = (x + left, y + top, right - left, low - top)
        return box, crop._replace(corner=(inside, at_y - top))

    def planes(self, rows: Buffer) -> list[Buffer]:
        """The planes [n, height, width, channels] of kept frames [n, frame_bytes]."""
        return [
            rows[:, plane.begin : plane.end].reshape(len(rows), plane.lines, -1, plane.channels)
            for plane in self._planes
        ]


def _part(planes: Sequence[Buffer], part: Rectangle) -> list[Buffer]:
    """A part (x, y, width, height) of planes [n, height, width, channels], in whole samples."""
    x, y, width, height = part
    return [
        plane[:, y // n : -(-(y + height) // n), x // n : -(-(x + width) // n)]
        for plane, n in zip(planes, (1, 2, 2), strict=False)
    ]


def _recolour(planes: list[Buffer], pixels: str, colours: Colours) -> None:
    if pixels == "rgb24":
        recolour_rgb(planes[0], colours)
    else:
        recolour_planes(planes, planes, colours, full_range=pixels == "gray")


class _Plane(NamedTuple):
    """Where a plane lies among the bytes of a frame."""

    begin: int
    end: int
    lines: int
    channels: int


@lru_cache(64)
def _planes(pixels: str, width: int, height: int) -> list[_Plane]:
    channels = 3 if pixels == "rgb24" else 1
    luma = width * height * channels
    planes = [_Plane(0, luma, height, channels)]
    if pixels not in ("rgb24", "gray"):
        lines, half = -(-height // 2), -(-height // 2) * -(-width // 2)
        planes += [_Plane(luma + i * half, luma + (i + 1) * half, lines, 1) for i in range(2)]
    return planes


def pack_format(source: FrameFormat) -> bytes:
    """A frame's format as bytes."""
    width, height, name, space, range_ = source
    return _LAYOUT.pack(width, height, name.encode(), space, range_)


def unpack_format(data: bytes) -> FrameFormat:
    """The reverse of `pack_format`. Raises struct.error, UnicodeError."""
    width, height, name, space, range_ = _LAYOUT.unpack(data)
    return width, height, name.rstrip(b"\0").decode(), space, range_
