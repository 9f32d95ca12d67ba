"""Kept frames as bytes, and the pixels of clips out of them.

A *kept* frame is a scaled one before it becomes RGB: 4:2:0 where the source is, half the size. The
frames of a clip are laid below each other into one picture, so that FFmpeg converts them in one go.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from av.video.frame import VideoFrame

from videoload.clips.choices import DRAWN_CROPS, FROM_SCALED
from videoload.clips.clip_params import ClipParams
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.video_info import VideoInfo
from videoload.frame_store.store import Scaling
from videoload.pixels.chains import Chains, FrameFormat, Way
from videoload.pixels.crop import PLANAR, Cut
from videoload.pixels.scaling import (
    REFUSED,
    Buffer,
    Crop,
    cannot_be_scaled,
    place,
    place_planes,
    way_of,
)

if TYPE_CHECKING:
    pass

_LAYOUT = struct.Struct("<II16sII")
_MIRRORED = 128  # FFmpeg mirrors pictures of a multiple of this width ten times as fast as others


def is_keepable(spec: ClipSpec) -> bool:
    """Whether frames can be kept for such clips: what is scaled of a frame is not drawn."""
    return spec.resize is not None or spec.crop not in FROM_SCALED


def scaling_of(spec: ClipSpec) -> Scaling:
    """What decides how a frame is scaled, beside the frame itself: specs that agree in it share
    their kept frames."""
    fields = [f"resize={spec.resize}", f"pixels={spec.pixels}", f"rotate={spec.rotate}"]
    if spec.square_pixels:
        fields.append("square_pixels")
    if spec.crop not in DRAWN_CROPS:  # what such a crop does not show is not scaled
        fields += [f"crop={spec.crop}", f"size={spec.height}x{spec.width}"]
    return Scaling(" ".join(fields), spec.sampling in ("random", "dense"))


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
        self.frame_bytes = self._planes[-1].end

    def pack(self, frame: VideoFrame, row: Buffer) -> None:
        """The bytes of a kept frame, into ``row`` [frame_bytes]."""
        self._copy(row[None], frame, (0, 0, *self.way.cut.scaled), into_frame=False)

    def show(self, rows: Buffer, chains: Chains, out: Buffer) -> None:
        """Make a clip's pixels ``out`` [T, ...] out of its kept frames ``rows`` [T, frame_bytes].
        Raises UnreadableError."""
        way = self.way._replace(goes="from kept")
        if way.kept not in PLANAR and not way.scales_again:  # nothing is left to be converted
            x, y, *_ = way.cut.shown
            corner = self._crop.corner[0] + x, self._crop.corner[1] + y
            planes = [
                rows[:, begin:end].reshape(len(rows), lines, -1, channels)
                for begin, end, lines, channels, _ in self._planes
            ]
            place_planes(planes, self._crop._replace(corner=corner), out)
            return
        box, crop = (0, 0, *way.cut.scaled), self._crop
        # If a side is odd, FFmpeg converts by way of filters, which look beside each pixel.
        if not way.scales_again and not way.cut.scaled[0] % 2 and not way.cut.scaled[1] % 2:
            way, box, crop = self._of_crop(way)
        # A chroma sample belongs to two lines, and scaling looks at the lines beside.
        together = 1 if way.scales_again or way.cut.scaled[1] % 2 else len(rows)
        way = way._replace(frames=together)
        across, down = way.cut.scaled
        for at in range(0, len(rows), together):
            picture = VideoFrame(across, down * together, way.kept)
            self._copy(rows[at : at + together], picture, box, into_frame=True)
            try:
                chain = chains[way]
                chain.source.push(picture)
                made = cast(VideoFrame, chain.sink.pull())
            except REFUSED as error:
                raise cannot_be_scaled(error) from None
            place(made, made.planes[0], crop, out[at : at + together])

    def _of_crop(self, way: Way) -> tuple[Way, _Box, Crop]:
        """Nothing is converted but what the crop shows, and a line or column beside it where a
        chroma sample belongs to both. Returns the way, which does not depend on the crop's place;
        the part of the scaled frame; and where the crop is in what comes out."""
        (left, top, shown, _), (x, y), (width, height) = way.cut.shown, *self._crop[:2]
        x, y = left + (shown - x - width if way.mirrors else x), top + y
        left, top = x & ~1, y & ~1
        right = min(way.cut.scaled[0], x + width + 1 & ~1)
        box = left, top, right - left, min(way.cut.scaled[1], y + height + 1 & ~1) - top
        across, x = box[2], x - left
        if way.mirrors:  # columns are added that nobody looks at
            across = -(-across // _MIRRORED) * _MIRRORED
            x = across - x - width
        size = across, box[3]
        way = way._replace(cut=Cut(way.cut.region, size, (0, 0, *size), size))
        return way, box, self._crop._replace(corner=(x, y - top))

    def _copy(self, rows: Buffer, picture: VideoFrame, box: _Box, *, into_frame: bool) -> None:
        """Between the parts ``box`` of frames, whose bytes are ``rows`` [n, frame_bytes], and a
        picture of these parts below each other."""
        n, (left, top, width, height) = len(rows), box
        for (begin, end, lines, channels, shrink), plane in zip(
            self._planes, picture.planes, strict=True
        ):
            x, y, across, down = (-(-side // shrink) for side in (left, top, width, height))
            x, across, stride = x * channels, across * channels, plane.line_size
            pixels = np.ndarray(
                (n, down, across), np.uint8, cast(memoryview, plane), 0, (down * stride, stride, 1)
            )
            flat = rows[:, begin:end].reshape(n, lines, -1)[:, y : y + down, x : x + across]
            if into_frame:
                pixels[...] = flat
            else:
                flat[...] = pixels


_Box = tuple[int, int, int, int]  # x, y, width, height of a part of a frame


class _Plane(NamedTuple):
    """Where a plane lies among the bytes of a frame. ``shrink``: lines of the frame for one of the
    plane, and columns."""

    begin: int
    end: int
    lines: int
    channels: int
    shrink: int


@lru_cache(64)
def _planes(pixels: str, width: int, height: int) -> list[_Plane]:
    channels = 3 if pixels == "rgb24" else 1
    luma = width * height * channels
    planes = [_Plane(0, luma, height, channels, 1)]
    if pixels not in ("rgb24", "gray"):
        lines, half = -(-height // 2), -(-height // 2) * -(-width // 2)
        planes += [_Plane(luma + i * half, luma + (i + 1) * half, lines, 1, 2) for i in range(2)]
    return planes


def pack_format(source: FrameFormat) -> bytes:
    """A frame's format as bytes."""
    width, height, name, space, range_ = source
    return _LAYOUT.pack(width, height, name.encode(), space, range_)


def unpack_format(data: bytes) -> FrameFormat:
    """The reverse of `pack_format`. Raises struct.error, UnicodeError."""
    width, height, name, space, range_ = _LAYOUT.unpack(data)
    return width, height, name.rstrip(b"\0").decode(), space, range_
