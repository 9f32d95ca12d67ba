"""A source frame as pixels in their place: cut, scaled, converted, mirrored.

Interpolation, matrix and range are pinned, so that every worker gives the same pixels.
"""

from __future__ import annotations

import ctypes
import math
import platform
import time
from contextlib import suppress
from functools import cache, lru_cache
from typing import NamedTuple, cast

import av
import numpy as np
import numpy.typing as npt
from av.filter import Graph
from av.filter.context import FilterContext
from av.video.format import VideoFormat
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter
from cachetools import LRUCache

from videoload.decoding.frames import UnreadableError
from videoload.spec.clips import Choice, ClipSpec, Facts

Buffer = npt.NDArray[np.uint8]

# swscale widens the bilinear filter when it shrinks, so there is no aliasing. With ACCURATE_RND it
# takes 40 % longer for half a grey level, BICUBIC 20 %.
_SCALING = "flags=bilinear+bitexact:in_chroma_loc=center:out_chroma_loc=center"
_PLANAR = ("yuv420p", "yuvj420p")
_CHAINS_KEPT = 32  # 0.4 MB each at 320x240; a new one takes 0.2 ms
_APART = 12  # edges of cuts: no two within a twelfth of the frame
SLOW_GATHER = 0x2000000  # AV_CPU_FLAG_SLOW_GATHER
_TRIALS = 10


class Scaler:
    """Source frames -> pixels of one clip.

    FFmpeg's filters do it. Only what the clip shows is scaled, and a margin: for a crop of 112 from
    a short side of 128, four fifths of a 320x240 frame and half of a 1920x1080 one. 4:2:0 sources
    are scaled in their own planes and converted at the small size, which is half the work of doing
    both at once; other formats take one step.
    """

    def __init__(self, spec: ClipSpec, facts: Facts, choice: Choice, chains: Chains) -> None:
        self._spec = spec
        self._size = (facts.width, facts.height)
        self._choice = choice
        self._chains = chains
        self._source: _Source | None = None

    def write(self, frame: VideoFrame, out: Buffer) -> None:
        """Cut, scale, convert and mirror ``frame`` into ``out``: one frame of ``spec.shape``.

        Raises UnreadableError where FFmpeg cannot convert such frames.
        """
        source = (
            frame.width, frame.height, frame.format.name, frame.colorspace, frame.color_range
        )  # fmt: skip
        try:
            if source != self._source:  # at the first frame, or where they change within the file
                cut, self._corner = _cut(self._spec, self._size, self._choice, source[2])
                self._chain = self._chains[source, self._size, cut, self._spec.pixels]
                self._source = source
            self._chain.source.push(frame)
            frame = cast(VideoFrame, self._chain.sink.pull())
        except (av.error.FFmpegError, ValueError) as error:
            raise UnreadableError(f"has frames that cannot be scaled ({error})") from None
        flip = self._choice.flip
        if self._spec.pixels != "yuv420p" and not flip:
            _copy_lines(frame, self._corner, out)
            return
        planes = _planes(frame, self._corner, self._spec)
        for plane, place in zip(planes, _places(out, self._spec), strict=True):
            np.copyto(place, plane[:, ::-1] if flip else plane)


# What tells of a frame how to convert it: width, height, format, AVCOL_SPC_*, AVCOL_RANGE_*.
_Source = tuple[int, int, str, int, int]


class _Chain(NamedTuple):
    graph: Graph  # the contexts do not keep it
    source: FilterContext
    sink: FilterContext


class Chains(LRUCache["tuple[_Source, tuple[int, int], Cut, str]", _Chain]):
    """The chains of filters in use, for one thread: they keep what scaling has to prepare. Each is
    for one kind of frame, the size that is decided on, what is cut of it, and the pixels wanted."""

    def __init__(self) -> None:
        super().__init__(_CHAINS_KEPT)

    def __missing__(self, name: tuple[_Source, tuple[int, int], Cut, str]) -> _Chain:
        avoid_slow_gathers()
        graph = Graph()
        graph.threads = 1
        contexts = [graph.add(*step) for step in _steps(*name)]
        graph.link_nodes(*contexts).configure()
        self[name] = chain = _Chain(graph, contexts[0], contexts[-1])
        return chain


def _steps(
    source: _Source, size: tuple[int, int], cut: Cut, pixels: str
) -> list[tuple[str, str] | tuple[str]]:
    """The filters, and what they are told. After each, the format is pinned: FFmpeg takes most of
    its time to agree on those that are open."""
    width, height, format_, space, told = source
    matrix = _MATRICES.get(space, "bt601")
    range_ = 2 if format_.startswith("yuvj") else told or 1
    shape = f"video_size={width}x{height}:pix_fmt={format_}:time_base=1/1:pixel_aspect=1/1"
    steps: list[tuple[str, str] | tuple[str]] = [
        ("buffer", f"{shape}:colorspace={space}:range={told}")
    ]

    def scale(
        size: tuple[int, int], to_format: str, to_matrix: str = matrix, to_range: int = range_
    ) -> None:
        colours = f"in_color_matrix={matrix}:out_color_matrix={to_matrix}"
        ranges = f"in_range={range_}:out_range={to_range}"
        steps.append(("scale", f"{size[0]}:{size[1]}:{_SCALING}:{colours}:{ranges}"))
        steps.append(("format", to_format))

    if (width, height) != size:
        scale(size, format_)
    if cut.region != (0, 0, *size):
        if not _cuttable(format_):
            scale(size, "rgb24", to_range=2)
            format_ = "rgb24"
        x, y, width, height = cut.region
        steps.append(("crop", f"{width}:{height}:{x}:{y}:exact=1"))
    across, down = cut.scaled
    if format_ in _PLANAR:
        scale((across, down), format_)
        if cut.shown != (0, 0, across, down):
            x, y, across, down = cut.shown
            steps.append(("crop", f"{across}:{down}:{x}:{y}:exact=1"))
    scale((across, down), pixels, "bt601", _RANGES[pixels])
    return [*steps, ("buffersink",)]


# AVCOL_SPC_* of a frame -> the matrix to convert with; whatever says nothing is BT.601, limited
# range.
_MATRICES = {1: "bt709", 4: "fcc", 7: "smpte240m", 9: "bt2020", 10: "bt2020"}
_RANGES = {"rgb24": 2, "gray": 2, "yuv420p": 1}


class Cut(NamedTuple):
    """``region`` (x, y, width, height) of the source frame is scaled to ``scaled`` (width, height),
    and ``shown`` (x, y, width, height) of that is converted."""

    region: tuple[int, int, int, int]
    scaled: tuple[int, int]
    shown: tuple[int, int, int, int]


def _cut(
    spec: ClipSpec, size: tuple[int, int], choice: Choice, pixels: str
) -> tuple[Cut, tuple[int, int]]:
    """What has to be scaled of a frame in ``pixels``, and where the crop begins in what is shown
    of it."""
    region, (across, down), (x, y) = choice.region, choice.scaled, choice.corner
    if _cuttable(pixels) and region == (0, 0, *size):
        at_x, left, width, across = cut_length(size[0], across, x, spec.width)
        at_y, top, height, down = cut_length(size[1], down, y, spec.height)
        region, x, y = (at_x, at_y, width, height), x - left, y - top
    shown = (0, 0, across, down)
    if spec.crop != "random" and pixels in _PLANAR:  # random places would each have their chain
        right, low = min(across, x + spec.width + 1 & ~1), min(down, y + spec.height + 1 & ~1)
        shown = (x & ~1, y & ~1, right - (x & ~1), low - (y & ~1))
        x, y = x % 2, y % 2
    return Cut(region, (across, down), shown), (x, y)


@lru_cache(1024)
def cut_length(source: int, scaled: int, at: int, length: int) -> tuple[int, int, int, int]:
    """Where a side of ``source`` pixels may be cut, and where it lies then when scaled to
    ``scaled``, so that the ``length`` pixels at ``at`` of that come out as they would of the whole:
    begin in the source, begin in the scaled, length in the source, length in the scaled."""
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
    """Pixels that begin at the same place before and after scaling, give or take an eighth of one;
    even, because of chroma. They keep some distance, since each cut in use has a chain of its own.
    """
    edges = [_Edge(0, 0)]
    for at in range(2, scaled, 2):
        near = (at * source + scaled) // (2 * scaled) * 2
        close = abs(at * source - near * scaled) * 8 <= scaled
        apart = (at - edges[-1].scaled) * _APART >= scaled
        if close and apart and edges[-1].source < near < source:
            edges.append(_Edge(near, at))
    return [*edges, _Edge(source, scaled)]


@cache
def _cuttable(pixels: str) -> bool:
    """Whether a frame may be cut at each even pixel: no chroma sample spans more, and none is a
    bit."""
    layout = VideoFormat(pixels)
    fine = layout.chroma_width(4) > 1 and layout.chroma_height(4) > 1
    return fine and not layout.is_bit_stream


@cache
def avoid_slow_gathers() -> None:
    """Have swscale shrink without AVX2's gather instructions where it is quicker so. They are slow
    on AMD's processors, and on Intel's since their firmware closes a leak (Downfall): on Zen 5 a
    frame of 1280x720 takes 370 microseconds with them, 245 without. FFmpeg knows a few such
    processors; to try it takes a millisecond once a process, and knows them all.

    The pixels are the same. It is left as it is where this FFmpeg has no such switch.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        return
    with suppress(AttributeError, OSError):
        ffmpeg = ctypes.CDLL(av._core.__file__)  # finds what this is linked with, too
        known = ffmpeg.av_get_cpu_flags()
        spent = {}
        for flags in (known, known | SLOW_GATHER):
            ffmpeg.av_force_cpu_flags(flags)
            spent[flags] = _shrinking_s()
        ffmpeg.av_force_cpu_flags(min(spent, key=spent.__getitem__))


def _shrinking_s() -> float:
    frame, reformatter, spent = VideoFrame(320, 240, "yuv420p"), VideoReformatter(), []
    for _ in range(_TRIALS):
        began = time.perf_counter()
        reformatter.reformat(frame, 170, 128, interpolation=Interpolation.BILINEAR, threads=1)
        spent.append(time.perf_counter() - began)
    return min(spent)


def _copy_lines(frame: VideoFrame, corner: tuple[int, int], out: Buffer) -> None:
    """The crop of a packed frame into ``out`` [height, width, channels], line by line."""
    (x, y), channels = corner, out.shape[2]
    plane = frame.planes[0]
    stride = plane.line_size
    begin = y * stride + x * channels
    strides = (stride, channels, 1)
    out[...] = np.ndarray(out.shape, np.uint8, cast(memoryview, plane), begin, strides)


def _planes(frame: VideoFrame, corner: tuple[int, int], spec: ClipSpec) -> list[Buffer]:
    """The cropped planes of a frame in the spec's pixels, as views [height, width, channels]."""
    x, y = corner
    channels = 3 if spec.pixels == "rgb24" else 1
    planes = []
    for i, plane in enumerate(frame.planes):
        shrink = 2 if i else 1  # chroma of 4:2:0
        rows = np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)
        pixels = rows[:, : plane.width * channels].reshape(plane.height, plane.width, channels)
        top, left = y // shrink, x // shrink
        height, width = spec.height // shrink, spec.width // shrink
        planes.append(pixels[top : top + height, left : left + width])
    return planes


def _places(out: Buffer, spec: ClipSpec) -> list[Buffer]:
    """Where the planes go, as views [height, width, channels] of one frame of a clip."""
    if spec.pixels != "yuv420p":
        return [out]
    height, width = spec.height, spec.width
    luma, chroma = height * width, height * width // 4
    flat = out.reshape(-1)
    return [
        flat[:luma].reshape(height, width, 1),
        flat[luma : luma + chroma].reshape(height // 2, width // 2, 1),
        flat[luma + chroma :].reshape(height // 2, width // 2, 1),
    ]
