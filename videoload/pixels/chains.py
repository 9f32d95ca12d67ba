"""The chains of FFmpeg's filters between a source frame and pixels.

Interpolation, matrix and range are pinned, so that every worker gives the same pixels. Between
scaling and conversion a frame has its *kept* form: small, and 4:2:0 if the source is. A chain goes
all the way, or ends there, or begins there. The pixels are the same.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

import av
from av.filter import Graph
from av.filter.context import FilterContext
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter
from cachetools import LRUCache

from videoload import native
from videoload.clips.choices import Scaling
from videoload.pixels.crop import PLANAR, Cut, is_cuttable

# swscale widens the bilinear filter when it shrinks, so there is no aliasing. With ACCURATE_RND it
# takes 40 % longer for half a grey level, BICUBIC 20 %.
_FLAGS = {"bilinear": "flags=bilinear+bitexact", "nearest": "flags=neighbor+bitexact"}
_CHROMA = "in_chroma_loc=center:out_chroma_loc=center"
_CHAINS_KEPT = 32  # 0.4 MB each at 320x240; a new one takes 0.2 ms
_TRIALS = 10
# AVCOL_SPC_* of a frame -> the matrix to convert with; whatever says nothing is BT.601, limited
# range.
_MATRICES = {1: "bt709", 4: "fcc", 7: "smpte240m", 9: "bt2020", 10: "bt2020"}
UNSPECIFIED = 2  # AVCOL_SPC_*, AVCOL_PRI_*, AVCOL_TRC_*
_RANGES = {"rgb24": 2, "gray": 2, "gray16": 2, "yuv420p": 1}

# What tells of a frame how to convert it: width, height, format, AVCOL_SPC_*, AVCOL_RANGE_*.
FrameFormat = tuple[int, int, str, int, int]


Goes = Literal["through", "to kept", "to final", "again", "from final"]


class Way(NamedTuple):
    """From frames of a video to pixels.

    Attributes:
        source: What the frames are.
        size: (width, height) that the video's frames should have; others are scaled to it first.
        cut: What is scaled of a frame, and what is shown of that.
        pixels: The format of the clip.
        mirrors: Whether the frames are mirrored left to right, before they are converted: 4:2:0
            takes half the time of RGB, and the pixels are the same.
        goes: ``"through"``; or only ``"to kept"`` frames; or ``"to final"`` ones, which are not
            scaled again; or from a part of kept frames ``"again"`` to final ones; or only ``"from
            final"`` ones.
        frames: Final frames that stand below each other in one picture.
        scaling: As in the spec.
    """

    source: FrameFormat
    size: tuple[int, int]
    cut: Cut
    pixels: str
    mirrors: bool = False
    goes: Goes = "through"
    frames: int = 1
    scaling: Scaling = "bilinear"

    @property
    def kept(self) -> str:
        """The format of a kept frame: that of the clip where the source is not 4:2:0."""
        return self.source[2] if self.source[2] in PLANAR else self.pixels

    @property
    def is_full_range(self) -> bool:
        """Whether luma is 0..255 in the video, and not 16..235."""
        return self.source[2].startswith("yuvj") or self.source[4] == 2

    @property
    def scales_again(self) -> bool:
        """Whether a region of the scaled frame is scaled to the clip's size."""
        return self.cut.size != self.cut.shown[2:]


@dataclass(eq=False, slots=True)  # it is found by itself, for each frame
class Chain:
    """A configured graph of filters: frames go in at ``source`` and come out at ``sink``."""

    graph: Graph  # the contexts do not keep it
    source: FilterContext
    sink: FilterContext


class Chains(LRUCache[Way, Chain]):
    """The chains in use, for one thread: they keep what scaling has to prepare."""

    def __init__(self) -> None:
        super().__init__(_CHAINS_KEPT)

    def __missing__(self, way: Way) -> Chain:
        _choose_instructions()
        graph = Graph()
        graph.threads = 1
        contexts = [graph.add(*step) for step in _steps(way)]
        graph.link_nodes(*contexts).configure()
        self[way] = chain = Chain(graph, contexts[0], contexts[-1])
        return chain


class _Colours(NamedTuple):
    matrix: str
    range: int  # AVCOL_RANGE_*


def _steps(way: Way) -> list[tuple[str, str] | tuple[str]]:
    """The filters, and what they are told. After each, the format is pinned: FFmpeg takes most of
    its time to agree on those that are open."""
    (width, height, format_, space, told), size, cut, pixels = way[:4]
    matrix, shown = _MATRICES.get(space, "bt601"), _Colours("bt601", _RANGES[pixels])
    came = _Colours(matrix, 2 if way.is_full_range else told or 1)
    is_planar = format_ in PLANAR
    kept = came if is_planar else shown
    steps: list[tuple[str, str] | tuple[str]] = []
    how = f"{_FLAGS[way.scaling]}:{_CHROMA}"

    def begin(size: tuple[int, int], format_: str, range_: int) -> None:
        shape = f"video_size={size[0]}x{size[1]}:pix_fmt={format_}:time_base=1/1:pixel_aspect=1/1"
        steps.append(("buffer", f"{shape}:colorspace={UNSPECIFIED}:range={range_}"))

    def scale(size: tuple[int, int], to: str, came: _Colours, go: _Colours) -> None:
        matrices = f"in_color_matrix={came.matrix}:out_color_matrix={go.matrix}"
        ranges = f"in_range={came.range}:out_range={go.range}"
        steps.append(("scale", f"{size[0]}:{size[1]}:{how}:{matrices}:{ranges}"))
        steps.append(("format", to))

    def cut_out(part: tuple[int, int, int, int]) -> None:
        x, y, width, height = part
        steps.append(("crop", f"{width}:{height}:{x}:{y}:exact=1"))

    across, down = cut.scaled
    whole, part = (0, 0, across, down * way.frames), cut.shown
    if way.goes in ("again", "from final"):
        part = whole
        begin(whole[2:], way.kept, kept.range)
    else:
        begin((width, height), format_, told)
        if (width, height) != size:
            scale(size, format_, came, came)
        if cut.region != (0, 0, *size):
            if not is_cuttable(format_):
                scale(size, "rgb24", came, _Colours(matrix, 2))
            cut_out(cut.region)
        scale(cut.scaled, way.kept, came, kept)
    if way.goes != "to kept":
        if part != whole:
            cut_out(part)
        if way.scales_again:
            scale(cut.size, way.kept, kept, kept)
    if way.goes in ("through", "from final"):
        if way.mirrors:
            steps.append(("hflip",))
        if is_planar:
            scale(cut.size if way.frames == 1 else part[2:], pixels, kept, shown)
    return [*steps, ("buffersink",)]


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
