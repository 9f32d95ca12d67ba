"""A source frame as pixels in their place: cut, scaled, converted, turned, mirrored.

Interpolation, matrix and range are pinned, so that every worker gives the same pixels.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, cast

import av
import numpy as np
import numpy.typing as npt
from av.filter import Graph
from av.filter.context import FilterContext
from av.video.frame import VideoFrame
from av.video.plane import VideoPlane
from av.video.reformatter import Interpolation, VideoReformatter
from cachetools import LRUCache

from videoload import native
from videoload.clips.clip_params import ClipParams
from videoload.clips.clip_spec import ClipSpec, VideoInfo
from videoload.decoding.crop import PLANAR, Cut, cut_frame, is_cuttable
from videoload.index.containers import UnreadableError

Buffer = npt.NDArray[np.uint8]

# swscale widens the bilinear filter when it shrinks, so there is no aliasing. With ACCURATE_RND it
# takes 40 % longer for half a grey level, BICUBIC 20 %.
_SCALING = "flags=bilinear+bitexact:in_chroma_loc=center:out_chroma_loc=center"
_CHAINS_KEPT = 32  # 0.4 MB each at 320x240; a new one takes 0.2 ms
_TRIALS = 10


class Scaler:
    """Source frames -> pixels of one clip.

    FFmpeg's filters do it. Only what the clip shows is scaled, and a margin: for a crop of 112 from
    a short side of 128, four fifths of a 320x240 frame and half of a 1920x1080 one. 4:2:0 sources
    are scaled in their own planes and converted at the small size, which is half the work of doing
    both at once; other formats take one step.
    """

    def __init__(self, spec: ClipSpec, info: VideoInfo, params: ClipParams, chains: Chains) -> None:
        self._spec = spec
        self._size = (info.width, info.height)
        self._params = params
        self._chains = chains
        self._format: FrameFormat | None = None

    def write(self, source: SourceFrame, out: Buffer) -> None:
        """Cut, scale, convert, turn and mirror ``source`` into ``out``: one frame of a clip. Raises
        UnreadableError where FFmpeg cannot convert such frames."""
        try:
            if source.format != self._format:  # the first one, or they change within the file
                name = source.format[2]
                cut, self._corner = cut_frame(self._spec, self._size, self._params, name)
                self._chain = self._chains[source.format, self._size, cut, self._spec.pixels]
                self._format = source.format
            made, first = source.scaled(self._chain)
        except (av.error.FFmpegError, ValueError) as error:
            raise UnreadableError(f"has frames that cannot be scaled ({error})") from None
        flip, turns = self._params.flip, self._params.turns
        if self._spec.pixels != "yuv420p" and not (flip or turns):
            _copy_lines(first, self._corner, out)
            return
        planes = _planes(made, self._corner, self._params.size, self._spec.pixels)
        for plane, place in zip(planes, _places(out, self._spec), strict=True):
            shown = np.rot90(plane, -turns)
            np.copyto(place, shown[:, ::-1] if flip else shown)


# What tells of a frame how to convert it: width, height, format, AVCOL_SPC_*, AVCOL_RANGE_*.
FrameFormat = tuple[int, int, str, int, int]


@dataclass(eq=False, slots=True)  # it is found by itself, for each frame
class _Chain:
    graph: Graph  # the contexts do not keep it
    source: FilterContext
    sink: FilterContext


class SourceFrame:
    """A frame of a video, as long as clips are made of it: what several of them show of it is
    scaled once."""

    def __init__(self, frame: VideoFrame) -> None:
        self.format: FrameFormat = (
            frame.width, frame.height, frame.format.name, frame.colorspace, frame.color_range
        )  # fmt: skip
        self._frame = frame
        self._scaled: dict[_Chain, tuple[VideoFrame, VideoPlane]] = {}

    def scaled(self, chain: _Chain) -> tuple[VideoFrame, VideoPlane]:
        """What comes out of a chain of filters, and its first plane."""
        made = self._scaled.get(chain)
        if made is None:
            # FFmpeg refuses some values ("reserved", logarithmic). The pixels depend on none of
            # them: primaries and transfer are not converted, the matrix is told to each filter.
            source, space = self._frame, self.format[3]
            source.color_primaries = source.color_trc = source.colorspace = _UNSPECIFIED
            chain.source.push(source)
            source.colorspace = space  # a clip may be made of the same frame again
            frame = cast(VideoFrame, chain.sink.pull())
            made = self._scaled[chain] = frame, frame.planes[0]
        return made


class Chains(LRUCache["tuple[FrameFormat, tuple[int, int], Cut, str]", _Chain]):
    """The chains of filters in use, for one thread: they keep what scaling has to prepare. Each is
    for one kind of frame, the size that is decided on, what is cut of it, and the pixels wanted."""

    def __init__(self) -> None:
        super().__init__(_CHAINS_KEPT)

    def __missing__(self, name: tuple[FrameFormat, tuple[int, int], Cut, str]) -> _Chain:
        _choose_instructions()
        graph = Graph()
        graph.threads = 1
        contexts = [graph.add(*step) for step in _steps(*name)]
        graph.link_nodes(*contexts).configure()
        self[name] = chain = _Chain(graph, contexts[0], contexts[-1])
        return chain


def _steps(
    source: FrameFormat, size: tuple[int, int], cut: Cut, pixels: str
) -> list[tuple[str, str] | tuple[str]]:
    """The filters, and what they are told. After each, the format is pinned: FFmpeg takes most of
    its time to agree on those that are open."""
    width, height, format_, space, told = source
    matrix = _MATRICES.get(space, "bt601")
    range_ = 2 if format_.startswith("yuvj") else told or 1
    shape = f"video_size={width}x{height}:pix_fmt={format_}:time_base=1/1:pixel_aspect=1/1"
    steps: list[tuple[str, str] | tuple[str]] = [
        ("buffer", f"{shape}:colorspace={_UNSPECIFIED}:range={told}")
    ]

    colours, shown = _Colours(matrix, range_), _Colours("bt601", _RANGES[pixels])

    def scale(size: tuple[int, int], to: str, came: _Colours, go: _Colours) -> None:
        matrices = f"in_color_matrix={came.matrix}:out_color_matrix={go.matrix}"
        ranges = f"in_range={came.range}:out_range={go.range}"
        steps.append(("scale", f"{size[0]}:{size[1]}:{_SCALING}:{matrices}:{ranges}"))
        steps.append(("format", to))

    def cut_out(part: tuple[int, int, int, int]) -> None:
        x, y, width, height = part
        steps.append(("crop", f"{width}:{height}:{x}:{y}:exact=1"))

    if (width, height) != size:
        scale(size, format_, colours, colours)
    if cut.region != (0, 0, *size):
        if not is_cuttable(format_):
            scale(size, "rgb24", colours, _Colours(matrix, 2))
            format_ = "rgb24"
        cut_out(cut.region)
    is_planar = format_ in PLANAR
    kept, kept_colours = (format_, colours) if is_planar else (pixels, shown)
    scale(cut.scaled, kept, colours, kept_colours)
    if cut.shown != (0, 0, *cut.scaled):
        cut_out(cut.shown)
    if cut.size != cut.shown[2:]:
        scale(cut.size, kept, kept_colours, kept_colours)
    if is_planar:
        scale(cut.size, pixels, colours, shown)
    return [*steps, ("buffersink",)]


class _Colours(NamedTuple):
    matrix: str
    range: int  # AVCOL_RANGE_*


# AVCOL_SPC_* of a frame -> the matrix to convert with; whatever says nothing is BT.601, limited
# range.
_MATRICES = {1: "bt709", 4: "fcc", 7: "smpte240m", 9: "bt2020", 10: "bt2020"}
_UNSPECIFIED = 2
_RANGES = {"rgb24": 2, "gray": 2, "yuv420p": 1}


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


def _copy_lines(plane: VideoPlane, corner: tuple[int, int], out: Buffer) -> None:
    """The crop of a packed frame into ``out`` [height, width, channels], line by line."""
    (x, y), channels = corner, out.shape[2]
    stride = plane.line_size
    begin = y * stride + x * channels
    strides = (stride, channels, 1)
    out[...] = np.ndarray(out.shape, np.uint8, cast(memoryview, plane), begin, strides)


def _planes(
    frame: VideoFrame, corner: tuple[int, int], size: tuple[int, int], format_: str
) -> list[Buffer]:
    """The cropped planes of a frame in the spec's pixels, as views [height, width, channels]."""
    x, y = corner
    channels = 3 if format_ == "rgb24" else 1
    planes = []
    for i, plane in enumerate(frame.planes):
        shrink = 2 if i else 1  # chroma of 4:2:0
        rows = np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)
        pixels = rows[:, : plane.width * channels].reshape(plane.height, plane.width, channels)
        top, left = y // shrink, x // shrink
        width, height = size[0] // shrink, size[1] // shrink
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
