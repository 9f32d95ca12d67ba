"""Makes pixels of source frames: cuts, scales, converts, turns and mirrors them.

FFmpeg's filters do the work. For a crop with a fixed place, only the crop and a margin are scaled:
for a crop of 112 from a short side of 128, that is four fifths of a 320x240 frame and half of a
1920x1080 frame. 4:2:0 sources are scaled in their own planes and converted at the small size, which
is half the work of doing both at once. Other formats take one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import av
import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame
from av.video.plane import VideoPlane

from videoload.clips.clip_params import ClipParams
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.video_info import VideoInfo
from videoload.pixels.chains import UNSPECIFIED, Chain, Chains, FrameFormat, Way
from videoload.pixels.crop import PLANAR, cut_frame
from videoload.reading.containers import UnreadableError

Buffer = npt.NDArray[np.uint8]  # uint16 for gray16


class Scaler:
    """Source frames -> pixels of one clip."""

    def __init__(self, spec: ClipSpec, info: VideoInfo, params: ClipParams, chains: Chains) -> None:
        self._spec = spec
        self._info = info
        self._params = params
        self._chains = chains
        self._format: FrameFormat | None = None

    def write(self, source: SourceFrame, out: Buffer) -> None:
        """Cut, scale, convert, turn and mirror ``source`` into ``out``: one frame of a clip. Raises
        UnreadableError if FFmpeg cannot convert such frames."""
        try:
            if source.format != self._format:  # the first one, or they change within the file
                way, self._crop = way_of(self._spec, self._info, self._params, source.format)
                self._chain = self._chains[way]
                self._format = source.format
            made, first = source.through(self._chain)
        except REFUSED as error:
            raise cannot_be_scaled(error) from None
        place(made, first, self._crop, out[None])


class Crop(NamedTuple):
    """What is done with the result of a chain: the rectangle at ``corner`` (x, y), of ``size``
    (width, height), is turned clockwise ``turns`` times by 90 degrees, and mirrored if ``flip``. It
    is put at ``place`` (x, y) into a black frame; None: it is the whole frame."""

    corner: tuple[int, int]
    size: tuple[int, int]
    turns: int
    flip: bool
    pixels: str
    place: tuple[int, int] | None


# What FFmpeg and PyAV raise for frames that they cannot scale.
REFUSED = (av.error.FFmpegError, ValueError)


def cannot_be_scaled(error: Exception) -> UnreadableError:
    """What to raise for one of `REFUSED`."""
    return UnreadableError(f"has frames that cannot be scaled ({error})")


def way_of(
    spec: ClipSpec, info: VideoInfo, params: ClipParams, source: FrameFormat
) -> tuple[Way, Crop]:
    """The way of such frames into a clip, and what is done after it."""
    size = info.width, info.height
    cut, (x, y) = cut_frame(spec, size, params, source[2])
    across, flip = cut.size[0], params.flip
    mirrors = flip and not params.turns and source[2] in PLANAR and not across % 2
    if mirrors:
        x, flip = across - x - params.size[0], False
    crop = Crop((x, y), params.size, params.turns, flip, spec.pixels, params.place)
    return Way(source, size, cut, spec.pixels, mirrors, scaling=spec.scaling), crop


class SourceFrame:
    """A frame of a video while clips are made of it. What several clips show is scaled once."""

    def __init__(self, frame: VideoFrame) -> None:
        self.format: FrameFormat = (
            frame.width, frame.height, frame.format.name, frame.colorspace, frame.color_range
        )  # fmt: skip
        self._frame = frame
        self._made: dict[Chain, tuple[VideoFrame, VideoPlane]] = {}

    def through(self, chain: Chain) -> tuple[VideoFrame, VideoPlane]:
        """What comes out of a chain of filters, and its first plane."""
        made = self._made.get(chain)
        if made is None:
            # FFmpeg refuses some values ("reserved", logarithmic). The pixels depend on none of
            # them: primaries and transfer are not converted, the matrix is told to each filter.
            source, space = self._frame, self.format[3]
            source.color_primaries = source.color_trc = source.colorspace = UNSPECIFIED
            chain.source.push(source)
            source.colorspace = space  # a clip may be made of the same frame again
            frame = cast(VideoFrame, chain.sink.pull())
            made = self._made[chain] = frame, frame.planes[0]
        return made


def place(made: VideoFrame, first: VideoPlane, crop: Crop, out: Buffer) -> None:
    """Write frames of a clip, which stand below each other in the picture ``made``, into ``out``
    [n, ...]; what is around them becomes black. ``first`` is the first plane."""
    if crop.pixels != "yuv420p" and not (crop.flip or crop.turns):
        if crop.place is not None:
            blacken(out, crop.pixels)
        _copy_lines(first, crop.corner, places(out, crop)[0])
        return
    channels = 3 if crop.pixels == "rgb24" else 1
    planes = [pixels_of(plane, len(out), channels, out.dtype) for plane in made.planes]
    place_planes(planes, crop, out)


def place_planes(planes: Sequence[Buffer], crop: Crop, out: Buffer) -> None:
    """The same of planes [n, height, width, channels]."""
    (x, y), (width, height) = crop.corner, crop.size
    if crop.place is not None:
        blacken(out, crop.pixels)
    for i, (plane, to) in enumerate(zip(planes, places(out, crop), strict=True)):
        shrink = 2 if i else 1  # chroma of 4:2:0
        top, left, down, across = (n // shrink for n in (y, x, height, width))
        part = np.rot90(plane[:, top : top + down, left : left + across], -crop.turns, (1, 2))
        np.copyto(to, part[:, :, ::-1] if crop.flip else part)


def _copy_lines(plane: VideoPlane, corner: tuple[int, int], out: Buffer) -> None:
    """Crops of packed frames into ``out`` [n, height, width, channels], line by line."""
    (x, y), (n, _, _, channels) = corner, out.shape
    stride, pixel = plane.line_size, channels * out.itemsize
    strides = (plane.height // n * stride, stride, pixel, out.itemsize)
    begin = y * stride + x * pixel
    out[...] = np.ndarray(out.shape, out.dtype, cast(memoryview, plane), begin, strides)


def pixels_of(
    plane: VideoPlane, frames: int, channels: int, dtype: npt.DTypeLike = np.uint8
) -> Buffer:
    """A view [n, height, width, channels] of a plane of ``frames`` frames below each other."""
    height, stride, item = plane.height // frames, plane.line_size, np.dtype(dtype).itemsize
    shape = frames, height, plane.width, channels
    strides = height * stride, stride, channels * item, item
    return np.ndarray(shape, dtype, cast(memoryview, plane), 0, strides)


def places(out: Buffer, crop: Crop) -> list[Buffer]:
    """Where the planes go, as views [n, height, width, channels] of frames of a clip."""
    planes = [out] if crop.pixels != "yuv420p" else _planes_of(out)
    if crop.place is None:
        return planes
    (x, y), (width, height) = crop.place, crop.size if not crop.turns % 2 else crop.size[::-1]
    chroma = [
        plane[:, y // 2 : (y + height) // 2, x // 2 : (x + width) // 2] for plane in planes[1:]
    ]
    return [planes[0][:, y : y + height, x : x + width], *chroma]


def _planes_of(out: Buffer) -> list[Buffer]:
    """Y, U and V of frames of a clip, as views [n, height, width, 1]."""
    n, height, width = len(out), out.shape[1] * 2 // 3, out.shape[2]
    luma, chroma = height * width, height * width // 4
    flat = out.reshape(n, luma + 2 * chroma)
    return [
        flat[:, :luma].reshape(n, height, width, 1),
        flat[:, luma : luma + chroma].reshape(n, height // 2, width // 2, 1),
        flat[:, luma + chroma :].reshape(n, height // 2, width // 2, 1),
    ]


def blacken(out: Buffer, pixels: str) -> None:
    """Make frames of a clip, ``out`` [n, ...], black."""
    out[...] = 0
    if pixels == "yuv420p":  # of limited range
        luma, *chroma = _planes_of(out)
        luma[...] = 16
        for plane in chroma:
            plane[...] = 128
