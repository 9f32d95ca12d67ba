"""Decoded frames become the pixels of a clip: scaled, cut, recoloured, converted, turned, mirrored.

The pixels are those of the whole scaled frame, wherever the crop is. So scaled frames can be kept,
and clips with other crops be made of them: it makes no difference whether a scaled frame was
decoded now or comes from a disk.

What a clip shows of its scaled frames is put below each other into one picture, so that FFmpeg
converts them in one go: between two decodes, each call finds cold caches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, groupby

import numpy as np
from av.video.frame import VideoFrame

from videoload.clips.clip_params import ClipParams
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.colours import Colours, recolour_planes, recolour_rgb
from videoload.clips.regions import Rectangle
from videoload.clips.video_info import VideoInfo
from videoload.pixels.chains import PLANAR, Chain, Chains, FrameFormat, Way
from videoload.pixels.planes import Buffer, Crop, blacken, part_of, planes_of

_PICTURE_BYTES = 512 << 10  # in one picture; a part of a core's second cache
_MIRRORED = 128  # FFmpeg mirrors pictures of a multiple of this width ten times as fast as others


class SourceFrame:
    """A frame of a video while clips are made of it. What several clips show is scaled once."""

    def __init__(self, frame: VideoFrame) -> None:
        self.format = FrameFormat.of(frame)
        self._frame = frame
        self._scaled: dict[Chain, VideoFrame] = {}

    def through(self, chain: Chain) -> VideoFrame:
        """What comes out of a chain of filters. Raises UnreadableError."""
        made = self._scaled.get(chain)
        if made is None:
            made = self._scaled[chain] = chain.through(self._frame)
        return made


def scaling_way(spec: ClipSpec, info: VideoInfo, params: ClipParams, source: FrameFormat) -> Way:
    """The way of such frames to scaled ones: 4:2:0 frames keep their format and colours, others get
    the clip's."""
    keeps = source.pixels in PLANAR
    pixels = source.pixels if keeps else spec.pixels
    return Way(
        source, info.coded_size, params.region, params.scaled, pixels, keeps, scaling=spec.scaling
    )  # fmt: skip


class ClipPixels:
    """Makes the pixels ``out`` [T, ...] of one clip, from decoded frames or scaled ones."""

    def __init__(
        self, spec: ClipSpec, info: VideoInfo, params: ClipParams, chains: Chains, out: Buffer
    ) -> None:
        """Missing frames become black."""
        self.out = out
        self._spec, self._info, self._params, self._chains = spec, info, params, chains
        self._forms: dict[FrameFormat, _Form] = {}  # they may change in the file
        missing = np.flatnonzero(params.frames == -1)
        for at in missing.tolist():
            blacken(out[at : at + 1], spec.pixels)
        self._shown = len(params.frames) - len(missing)

    def take(self, source: SourceFrame, at: int) -> None:
        """Scale ``source``, which is frame ``at`` of the clip. Raises UnreadableError."""
        form = self._form(source.format)
        chain = form.chain = form.chain or self._chains[form.scaling]
        scaled = source.through(chain)
        # A frame that is not scaled is the decoder's own, so it is copied at once.
        form.put(planes_of(scaled, part=form.part), [at], self.out)

    def take_scaled(self, source: FrameFormat, planes: Sequence[Buffer], at: Sequence[int]) -> None:
        """Take the planes of scaled frames, which are frames ``at`` of the clip. Raises
        UnreadableError."""
        form = self._form(source)
        shown = part_of(planes, form.part)
        for first in range(0, len(at), form.room):
            some = slice(first, first + form.room)
            form.put([plane[some] for plane in shown], at[some], self.out)

    def finish(self) -> None:
        """Make the pixels of all frames that were taken. Raises UnreadableError."""
        for form in self._forms.values():
            form.convert(self.out)

    def _form(self, source: FrameFormat) -> _Form:
        form = self._forms.get(source)
        if form is None:
            scaling = scaling_way(self._spec, self._info, self._params, source)
            form = _Form(self._params, scaling, self._spec.pixels, self._chains, self._shown)
            self._forms[source] = form
        return form


class _Form:
    """The frames of a clip that have one format.

    Attributes:
        scaling: How they are scaled.
        chain: What scales them, once one has come from the decoder.
        part: The (x, y, width, height) of a scaled frame that is needed.
        room: So many frames are converted together.
    """

    def __init__(
        self, params: ClipParams, scaling: Way, pixels: str, chains: Chains, frames: int
    ) -> None:
        """``frames``: so many may come."""
        self.scaling, self._params, self._chains = scaling, params, chains
        self.chain: Chain | None = None
        self._format = scaling.made  # of what is converted
        self._again: Way | None = None
        self.part, size = params.part, params.size
        if self.part[2:] != size:
            whole = (0, 0, *self.part[2:])
            source = self._format._replace(width=whole[2], height=whole[3])
            self._again = scaling._replace(
                source=source, size=whole[2:], region=whole, scaled=size, pixels=source.pixels
            )
            self._format = self._again.made
        x, y, across, down = 0, 0, *size
        self._is_final = self._format.pixels not in PLANAR
        if not self._is_final and self._again is None:
            self.part = _whole_samples(params.part, self._format)
            left, top, across, down = self.part
            x, y = params.part[0] - left, params.part[1] - top
        flip = params.flip
        mirrors = flip and not (params.turns or self._is_final or across % 2)
        added = 0  # columns that nobody looks at
        if mirrors:
            x, flip = across - x - size[0], False
            added = -across % _MIRRORED if not down % 2 else 0
            across, x = across + added, x + added
        self._crop = Crop((x, y), size, params.turns, flip, pixels, params.place)
        self._at: list[int] = []  # the frames that wait to be converted
        self.room = max(1, frames)
        if self._is_final:
            return
        each = across * down * 3 // 2
        pictures = -(-frames * each // _PICTURE_BYTES) or 1
        self.room = 1 if down % 2 else max(1, -(-frames // pictures))  # chroma spans two lines
        source = self._format._replace(width=across, height=down * self.room)
        self._picture = VideoFrame(*source[:3])
        self._planes = planes_of(self._picture, self.room, (0, 0, across - added, down))
        self._way = Way(
            source, source[:2], (0, 0, *source[:2]), source[:2], pixels, mirrors=mirrors,
            scaling=scaling.scaling,
        )  # fmt: skip

    def put(self, planes: Sequence[Buffer], at: Sequence[int], out: Buffer) -> None:
        """Take the planes of the `part` of at most `room` scaled frames."""
        if self._again is not None:
            planes = self._scaled_again(planes)
        if self._is_final:
            for frames, to in _runs(at):
                self._crop.write([plane[frames] for plane in planes], out[to])
            self._at += at
            return
        if len(self._at) + len(at) > self.room:
            self.convert(out)
        here = slice(len(self._at), len(self._at) + len(at))
        for plane, shown in zip(self._planes, planes, strict=True):
            plane[here] = shown
        self._at += at

    def convert(self, out: Buffer) -> None:
        """Make the pixels of the frames that were put here. Raises UnreadableError."""
        if not self._at:
            return
        at, self._at = self._at, []
        colours, crop = self._params.colours, self._crop
        if self._is_final:
            for _, to in _runs(at):
                _recolour(crop.inside(out[to]), crop.pixels, colours)
            return
        if colours is not None:
            shown = [plane[: len(at)] for plane in self._planes]
            recolour_planes(shown, colours, full_range=self._format.is_full_range)
        made = self._chains[self._way].through(self._picture)
        planes = planes_of(made, self.room)
        for frames, to in _runs(at):
            crop.write([plane[frames] for plane in planes], out[to])

    def _scaled_again(self, planes: Sequence[Buffer]) -> list[Buffer]:
        """What is shown of scaled frames, scaled to the clip's size one by one, because scaling
        looks at the lines beside."""
        assert self._again is not None
        chain, scaled = self._chains[self._again], []
        for at in range(len(planes[0])):
            picture = VideoFrame(*self._again.source[:3])
            for to, plane in zip(planes_of(picture), planes, strict=True):
                np.copyto(to[0], plane[at])
            scaled.append(planes_of(chain.through(picture)))
        return [np.concatenate(frames) for frames in zip(*scaled, strict=True)]


def _recolour(planes: list[Buffer], pixels: str, colours: Colours | None) -> None:
    if colours is None:
        return
    if pixels == "rgb24":
        recolour_rgb(planes[0], colours)
    else:
        recolour_planes(planes, colours, full_range=pixels == "gray")


def _whole_samples(part: Rectangle, whole: FrameFormat) -> Rectangle:
    """A part of a 4:2:0 frame in whole samples of chroma. Odd frames are converted whole, because
    swscale stretches their chroma."""
    if whole.width % 2 or whole.height % 2:
        return 0, 0, whole.width, whole.height
    x, y, width, height = part
    left, top = x & ~1, y & ~1
    return left, top, (x + width + 1 & ~1) - left, (y + height + 1 & ~1) - top


def _runs(at: Sequence[int]) -> Iterator[tuple[slice, slice]]:
    """Where consecutive numbers stand in a list, and the numbers themselves."""
    if at[-1] - at[0] == len(at) - 1 and (len(at) < 3 or list(at) == [*range(at[0], at[-1] + 1)]):
        yield slice(len(at)), slice(at[0], at[-1] + 1)
        return
    for _, run in groupby(zip(count(), at, strict=False), lambda each: each[1] - each[0]):
        places = list(run)
        (first, begin), (last, end) = places[0], places[-1]
        yield slice(first, last + 1), slice(begin, end + 1)
