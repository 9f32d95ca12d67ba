"""What FFmpeg's filters do with a frame: a graph of them scales it, converts it, or both.

Interpolation, matrix and range are pinned, so that every worker gives the same pixels.
"""

from __future__ import annotations

import time
from collections import defaultdict
from functools import cache
from typing import cast

import av
from av.filter import Graph
from av.video.format import VideoFormat
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter
from cachetools import LRUCache

from videoload import native
from videoload.clips.regions import Size
from videoload.decoding.conversions import UNSPECIFIED, ColorSpace, Conversion
from videoload.decoding.planes import Picture
from videoload.reading.containers import BrokenFileError

# swscale widens the bilinear filter when it shrinks, so there is no aliasing. With ACCURATE_RND it
# takes 40 % longer for half a gray level, BICUBIC 20 %.
_FLAGS = {"bilinear": "flags=bilinear+bitexact", "nearest": "flags=neighbor+bitexact"}
_CHROMA = "in_chroma_loc=center:out_chroma_loc=center"
_GRAPHS_KEPT = 32  # 0.4 MB each at 320x240; a new one takes 0.2 ms
_TRIALS = 10
# What FFmpeg and PyAV raise for frames that they cannot scale.
_REFUSED = (av.error.FFmpegError, ValueError)


class FilterGraph:
    """A configured graph of filters. ``spare``: pictures that went through it and may be reused, by
    their number of frames."""

    def __init__(self, conversion: Conversion) -> None:
        """Raise BrokenFileError."""
        _choose_instructions()
        self.spare = defaultdict[int, list[Picture]](list)
        self._graph = Graph()  # the contexts do not hold it
        self._graph.threads = 1
        try:
            steps = _steps(conversion)
            contexts = [self._graph.add(*step) for step in steps]
            self._graph.link_nodes(*contexts).configure()
        except _REFUSED as error:
            raise _cannot_be_scaled(error) from None
        self._push, self._pull = contexts[0].push, contexts[-1].pull
        crops = [at for at, step in enumerate(steps) if step[0] == "crop"]
        self._cut = contexts[crops[-1]] if conversion.cut is not None else None
        self._corner = 0, 0

    def through(self, frame: VideoFrame, corner: Size = (0, 0)) -> VideoFrame:
        """Return the output for a frame. ``corner``: where the `cut` begins in the scaled picture.
        Raises BrokenFileError."""
        if corner != self._corner and self._cut is not None:
            self._corner = corner
            for side, at in zip("xy", corner, strict=True):
                self._cut.process_command(side, str(at))
        # FFmpeg refuses some values ("reserved", logarithmic). The pixels depend on none of them:
        # primaries and transfer are not converted, and each filter gets the matrix.
        space = frame.colorspace
        frame.color_primaries = frame.color_trc = frame.colorspace = UNSPECIFIED
        try:
            self._push(frame)
            return cast(VideoFrame, self._pull())
        except _REFUSED as error:
            raise _cannot_be_scaled(error) from None
        finally:
            frame.colorspace = space  # another clip may use the same frame


class FilterGraphs(LRUCache[Conversion, FilterGraph]):
    """The graphs in use, for one thread: they hold prepared scalers."""

    def __init__(self) -> None:
        super().__init__(_GRAPHS_KEPT)

    def __missing__(self, conversion: Conversion) -> FilterGraph:
        self[conversion] = graph = FilterGraph(conversion)
        return graph


def _cannot_be_scaled(error: Exception) -> BrokenFileError:
    return BrokenFileError(f"has frames that cannot be scaled ({error})")


def _steps(conversion: Conversion) -> list[tuple[str, str] | tuple[str]]:
    """Return the filters and their arguments. After each, the format is fixed: FFmpeg takes most of
    its time to negotiate open ones."""
    source, size, region, scaled, scaling, cut, mirrors, made = conversion
    steps: list[tuple[str, str] | tuple[str]] = []

    def scale(size: Size, pixels: str, came: ColorSpace, go: ColorSpace) -> None:
        matrices = f"in_color_matrix={came.matrix}:out_color_matrix={go.matrix}"
        ranges = f"in_range={came.range}:out_range={go.range}"
        how = f"{_FLAGS[scaling]}:{_CHROMA}:{matrices}:{ranges}"
        steps.append(("scale", f"{size[0]}:{size[1]}:{how}"))
        steps.append(("format", pixels))

    width, height, pixels, _, range_ = source
    colors = source.colors
    shape = f"video_size={width}x{height}:pix_fmt={pixels}:time_base=1/1:pixel_aspect=1/1"
    steps.append(("buffer", f"{shape}:colorspace={UNSPECIFIED}:range={range_}"))
    if (width, height) != size:
        scale(size, pixels, colors, colors)
    if region != (0, 0, *size):
        if not _is_cuttable(pixels):
            full = ColorSpace(colors.matrix, 2)
            scale(size, "rgb24", colors, full)
        x, y, across, down = region
        steps.append(("crop", f"{across}:{down}:{x}:{y}:exact=1"))
    if source._replace(width=region[2], height=region[3]) != scaled:
        scale(scaled[:2], scaled.pixels, colors, scaled.colors)
    if cut is not None:
        steps.append(("crop", f"{cut[0]}:{cut[1]}:0:0:exact=1"))
    if mirrors:
        steps.append(("hflip",))
    if made is not None:
        scale(made[:2], made.pixels, scaled.colors, made.colors)
    return [*steps, ("buffersink",)]


@cache
def _is_cuttable(pixels: str) -> bool:
    """Return whether a frame may be cut at each even pixel: no chroma sample is wider, and no pixel
    is a single bit."""
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
