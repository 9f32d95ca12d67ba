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
from videoload.pixels.chains import Chains, FrameFormat
from videoload.pixels.crop import PLANAR
from videoload.pixels.scaling import (
    REFUSED,
    Buffer,
    cannot_be_scaled,
    place,
    place_planes,
    way_of,
)

if TYPE_CHECKING:
    pass

_LAYOUT = struct.Struct("<II16sII")


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
        self._copy(row[None], frame, into_frame=False)

    def show(self, rows: Buffer, chains: Chains, out: Buffer) -> None:
        """Make a clip's pixels ``out`` [T, ...] out of its kept frames ``rows`` [T, frame_bytes].
        Raises UnreadableError."""
        way = self.way._replace(goes="from kept")
        if way.kept not in PLANAR and not way.scales_again:  # nothing is left to be converted
            x, y, *_ = way.cut.shown
            corner = self._crop.corner[0] + x, self._crop.corner[1] + y
            planes = [
                rows[:, begin:end].reshape(len(rows), lines, -1, channels)
                for begin, end, lines, channels in self._planes
            ]
            place_planes(planes, self._crop._replace(corner=corner), out)
            return
        # A chroma sample belongs to two lines, and scaling looks at the lines beside.
        together = 1 if way.scales_again or way.cut.scaled[1] % 2 else len(rows)
        way = way._replace(frames=together)
        across, down = way.cut.scaled
        x, y = self._crop.corner
        crop = self._crop._replace(corner=(x, y + way.cut.shown[1] * (together > 1)))
        for at in range(0, len(rows), together):
            picture = VideoFrame(across, down * together, way.kept)
            self._copy(rows[at : at + together], picture, into_frame=True)
            try:
                chain = chains[way]
                chain.source.push(picture)
                made = cast(VideoFrame, chain.sink.pull())
            except REFUSED as error:
                raise cannot_be_scaled(error) from None
            place(made, made.planes[0], crop, out[at : at + together])

    def _copy(self, rows: Buffer, picture: VideoFrame, *, into_frame: bool) -> None:
        """Between bytes of frames [n, frame_bytes] and a picture of them below each other."""
        n = len(rows)
        for (begin, end, lines, _), plane in zip(self._planes, picture.planes, strict=True):
            stride, shape = plane.line_size, (n, lines, (end - begin) // lines)
            strides = lines * stride, stride, 1
            pixels = np.ndarray(shape, np.uint8, cast(memoryview, plane), 0, strides)
            flat = rows[:, begin:end].reshape(shape)
            if into_frame:
                pixels[...] = flat
            else:
                flat[...] = pixels


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
