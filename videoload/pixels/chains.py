"""The chains of FFmpeg's filters between a decoded frame and pixels.

Interpolation, matrix and range are pinned, so that every worker gives the same pixels. A frame is
scaled by one chain and converted by another. Between them it is small, and 4:2:0 if the source is:
to convert it there is half the work of doing both at once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, cast

import av
from av.filter import Graph
from av.filter.context import FilterContext
from av.video.format import VideoFormat
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter
from cachetools import LRUCache

from videoload import native
from videoload.clips.choices import Scaling
from videoload.clips.regions import Rectangle, Size
from videoload.reading.containers import UnreadableError

# swscale widens the bilinear filter when it shrinks, so there is no aliasing. With ACCURATE_RND it
# takes 40 % longer for half a grey level, BICUBIC 20 %.
_FLAGS = {"bilinear": "flags=bilinear+bitexact", "nearest": "flags=neighbor+bitexact"}
_CHROMA = "in_chroma_loc=center:out_chroma_loc=center"
_CHAINS_KEPT = 32  # 0.4 MB each at 320x240; a new one takes 0.2 ms
_TRIALS = 10
# AVCOL_SPC_* of a frame -> the matrix to convert with; whatever says nothing is BT.601, limited
# range.
_MATRICES = {1: "bt709", 4: "fcc", 7: "smpte240m", 9: "bt2020", 10: "bt2020"}
_UNSPECIFIED = 2  # AVCOL_SPC_*, AVCOL_PRI_*, AVCOL_TRC_*
_RANGES = {"rgb24": 2, "gray": 2, "gray16": 2, "yuv420p": 1}

PLANAR = ("yuv420p", "yuvj420p")
# What FFmpeg and PyAV raise for frames that they cannot scale.
_REFUSED = (av.error.FFmpegError, ValueError)


class FrameFormat(NamedTuple):
    """How to convert a frame. ``space`` is AVCOL_SPC_*, ``range`` AVCOL_RANGE_*."""

    width: int
    height: int
    pixels: str
    space: int
    range: int

    @classmethod
    def of(cls, frame: VideoFrame) -> FrameFormat:
        """The format of a frame."""
        return cls(
            frame.width, frame.height, frame.format.name, frame.colorspace, frame.color_range
        )

    @property
    def is_full_range(self) -> bool:
        """Whether luma is 0..255, and not 16..235."""
        return self.pixels.startswith("yuvj") or self.range == 2

    @property
    def colours(self) -> _Colours:
        """The matrix and the range to convert with."""
        range_ = 2 if self.is_full_range else self.range or 1
        return _Colours(_MATRICES.get(self.space, "bt601"), range_)


class Way(NamedTuple):
    """From one picture to another one.

    Attributes:
        source: What the picture is.
        size: (width, height) that it should have; others are scaled to it first.
        region: The part (x, y, width, height) of it that is scaled.
        scaled: The (width, height) that this gets.
        pixels: The format that comes out.
        keeps_colours: Whether matrix and range are those of the source, not those of a clip.
        mirrors: Whether it is mirrored left to right, before it is converted: 4:2:0 takes half the
            time of RGB, and the pixels are the same.
        scaling: As in the spec.
    """

    source: FrameFormat
    size: Size
    region: Rectangle
    scaled: Size
    pixels: str
    keeps_colours: bool = False
    mirrors: bool = False
    scaling: Scaling = "bilinear"

    @property
    def made(self) -> FrameFormat:
        """What comes out."""
        space, range_ = _UNSPECIFIED, _RANGES.get(self.pixels, 0)
        if self.keeps_colours:
            space, range_ = self.source.space, self.source.colours.range
        return FrameFormat(*self.scaled, self.pixels, space, range_)


@dataclass(eq=False, slots=True)  # it is found by itself, for each frame
class Chain:
    """A configured graph of filters: frames go in at ``source`` and come out at ``sink``."""

    graph: Graph  # the contexts do not keep it
    source: FilterContext
    sink: FilterContext

    def through(self, frame: VideoFrame) -> VideoFrame:
        """What comes out for a frame. Raises UnreadableError."""
        # FFmpeg refuses some values ("reserved", logarithmic). The pixels depend on none of them:
        # primaries and transfer are not converted, the matrix is told to each filter.
        space = frame.colorspace
        frame.color_primaries = frame.color_trc = frame.colorspace = _UNSPECIFIED
        try:
            self.source.push(frame)
            return cast(VideoFrame, self.sink.pull())
        except _REFUSED as error:
            raise cannot_be_scaled(error) from None
        finally:
            frame.colorspace = space  # a clip may be made of the same frame again


class Chains(LRUCache[Way, Chain]):
    """The chains in use, for one thread: they keep what scaling has to prepare."""

    def __init__(self) -> None:
        super().__init__(_CHAINS_KEPT)

    def __missing__(self, way: Way) -> Chain:
        _choose_instructions()
        graph = Graph()
        graph.threads = 1
        try:
            contexts = [graph.add(*step) for step in _steps(way)]
            graph.link_nodes(*contexts).configure()
        except _REFUSED as error:
            raise cannot_be_scaled(error) from None
        self[way] = chain = Chain(graph, contexts[0], contexts[-1])
        return chain


def cannot_be_scaled(error: Exception) -> UnreadableError:
    """What to raise for one of `_REFUSED`."""
    return UnreadableError(f"has frames that cannot be scaled ({error})")


class _Colours(NamedTuple):
    matrix: str
    range: int  # AVCOL_RANGE_*


def _steps(way: Way) -> list[tuple[str, str] | tuple[str]]:
    """The filters, and what they are told. After each, the format is pinned: FFmpeg takes most of
    its time to agree on those that are open."""
    source, size, region = way[:3]
    steps: list[tuple[str, str] | tuple[str]] = []

    def scale(size: Size, pixels: str, came: _Colours, go: _Colours) -> None:
        matrices = f"in_color_matrix={came.matrix}:out_color_matrix={go.matrix}"
        ranges = f"in_range={came.range}:out_range={go.range}"
        how = f"{_FLAGS[way.scaling]}:{_CHROMA}:{matrices}:{ranges}"
        steps.append(("scale", f"{size[0]}:{size[1]}:{how}"))
        steps.append(("format", pixels))

    width, height, pixels, _, range_ = source
    colours = source.colours
    shape = f"video_size={width}x{height}:pix_fmt={pixels}:time_base=1/1:pixel_aspect=1/1"
    steps.append(("buffer", f"{shape}:colorspace={_UNSPECIFIED}:range={range_}"))
    if (width, height) != size:
        scale(size, pixels, colours, colours)
    if region != (0, 0, *size):
        if not _is_cuttable(pixels):
            full = _Colours(colours.matrix, 2)
            scale(size, "rgb24", colours, full)
        x, y, across, down = region
        steps.append(("crop", f"{across}:{down}:{x}:{y}:exact=1"))
    if way.mirrors:
        steps.append(("hflip",))
    scale(way.scaled, way.pixels, colours, way.made.colours)
    return [*steps, ("buffersink",)]


@cache
def _is_cuttable(pixels: str) -> bool:
    """Whether a frame may be cut at each even pixel: no chroma sample is wider, and no pixel is a
    single bit."""
    layout = VideoFormat(pixels)
    fine = layout.chroma_width(4) > 1 and layout.chroma_height(4) > 1
    return fine and not layout.is_bit_stream


@cache
def _choose_instructions() -> None:
    native.avoid_slow_gathers(str(av._core.__file__), _shrinking_s)


def _shrinking_s() -> float:
    frame, reformatter, spent = VideoFrame(320, 240, "yuv420p"), VideoReformatter(), []
    for _ in range(_TRIALS):
        began = time.perf_counter()
        reformatter.reformat(frame, 170, 128, interpolation=Interpolation.BILINEAR, threads=1)
        spent.append(time.perf_counter() - began)
    return min(spent)
