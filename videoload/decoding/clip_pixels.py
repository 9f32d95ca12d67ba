"""Turn decoded frames into the pixels of a clip: scale, crop, recolor, convert, rotate, flip.

`conversions` describes the result, `filter_graphs` runs FFmpeg, and `planes` places the bytes.

The pixels are those of the whole scaled frame, wherever the crop is. So scaled frames can be
stored, and used for clips with other crops: a scaled frame from a disk equals one that was decoded
now.

A decoded frame that one clip shows goes through one graph of filters. All other frames wait, once
they are scaled, in one picture below each other, so that FFmpeg converts them in one go.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from av.video.frame import VideoFrame

from videoload.clips.choices import PIXEL_FORMATS
from videoload.clips.clip_params import ClipParams
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.colors import Colors, recolor_planes, recolor_rgb
from videoload.clips.video_info import VideoInfo
from videoload.decoding.conversions import Conversion, FrameFormat, Look, scaling_conversion
from videoload.decoding.filter_graphs import FilterGraph, FilterGraphs
from videoload.decoding.planes import (
    Buffer,
    Picture,
    Place,
    part_of,
    place_of,
    planes_of,
    planes_of_clip,
    turned,
)

_PICTURE_BYTES = 512 << 10  # in one picture; a part of a core's second cache


class ClipPixels:
    """Writes the pixels ``out`` [T, ...] of one clip, from decoded frames or scaled ones."""

    def __init__(
        self, spec: ClipSpec, info: VideoInfo, params: ClipParams, graphs: FilterGraphs, out: Buffer
    ) -> None:
        """Missing frames become black."""
        self._spec, self._info, self._params, self._graphs = spec, info, params, graphs
        self._out = planes_of_clip(out, spec.pixels, params)
        self._source: FrameFormat | None = None  # it may change in the file
        self._lines: list[int] = []  # bytes, of pictures that hold one frame
        self._places: list[Place] = []  # of what is shown of them
        self._picture: Picture | None = None  # of scaled frames
        self._waiting: list[int] = []  # in it

    def take(
        self, frame: VideoFrame, at: int, scaled: dict[Conversion, VideoFrame] | None = None
    ) -> None:
        """Show a decoded frame as frame ``at`` of the clip. ``scaled``: the scaled version of a
        frame that is shown several times. Raises BrokenFileError."""
        self._begin(FrameFormat.of(frame))
        if self._straight is None or scaled is not None:
            scaled = {} if scaled is None else scaled
            made = scaled.get(self._scaling) or self._graphs[self._scaling].through(frame)
            scaled[self._scaling] = made
            # A frame that is not scaled is the decoder's own, so it is copied at once.
            self._take_part(planes_of(made, part=self._look.part), [at])
            return
        made = self._straight.through(frame, self._look.part[:2])
        planes = made.planes
        lines = [plane.line_size for plane in planes]
        if lines != self._lines:
            shown = self._turned(planes_of(made, part=self._shown))
            self._lines = lines
            self._places = [place_of(*both) for both in zip(shown, planes, strict=True)]
        for to, plane, place in zip(self._out, planes, self._places, strict=True):
            shape, dtype, begin, strides = place
            to[at] = np.ndarray(shape, dtype, memoryview(plane), begin, strides)

    def take_scaled(self, source: FrameFormat, planes: Sequence[Buffer], at: Sequence[int]) -> None:
        """Show the planes of scaled frames as frames ``at`` of the clip. Raises BrokenFileError."""
        self._begin(source)
        self._take_part(part_of(planes, self._look.part), at)

    def finish(self) -> None:
        """Make the pixels of all frames that were taken. Raises BrokenFileError."""
        if self._picture is not None:
            self._convert(self._picture)
            self._converting.spare[self._picture.frames].append(self._picture)
            self._picture = None

    def _begin(self, source: FrameFormat) -> None:
        """Prepare the conversion of frames of this format, if it has changed."""
        if source == self._source:
            return
        self.finish()
        spec, params, self._source = self._spec, self._params, source
        conversion = self._scaling = scaling_conversion(spec, self._info, params, source)
        look = self._look = Look.at(spec, params, conversion.scaled)
        self._shown = look.part if look.halved is None else look.shown
        straight = None if params.colors is not None else look.straight(spec, conversion)
        self._straight = None if straight is None else self._graphs[straight]
        self._lines = []

    def _take_part(self, planes: Sequence[Buffer], at: Sequence[int]) -> None:
        """Show the `part` of scaled frames."""
        colors, again = self._params.colors, self._look.again
        if again is not None:
            planes = _scaled_again(self._graphs[again], again, planes)
        if self._look.halved is None:
            if colors is not None:
                planes = _recolored(planes, self._spec.pixels, colors)
            self._put(planes, list(at))
            return
        picture = self._picture = self._picture or self._new_picture(self._look.halved)
        done = 0
        while done < len(at):
            if len(self._waiting) == picture.frames:
                self._convert(picture)
            here = len(self._waiting)
            some = slice(done, done + picture.frames - here)
            for plane, shown in zip(picture.planes, planes, strict=True):
                plane[here : here + len(at) - done] = shown[some]
            self._waiting += at[some]
            done = some.stop

    def _new_picture(self, halved: FrameFormat) -> Picture:
        """Return a picture for frames that wait. They may be too many for one."""
        frames, (width, height, pixels, *_) = len(self._params.frame_indices), halved
        frames = -(-frames // -(-frames * width * height * 3 // 2 // _PICTURE_BYTES))
        self._converting = self._graphs[self._look.converting(self._spec, halved, frames)]
        spare = self._converting.spare[frames]
        return spare.pop() if spare else Picture(width, height, pixels, frames)

    def _convert(self, picture: Picture) -> None:
        if not self._waiting or self._look.halved is None:
            return
        at, self._waiting = self._waiting, []
        if (colors := self._params.colors) is not None:
            shown = [plane[: len(at)] for plane in picture.planes]
            recolor_planes(shown, colors, full_range=self._look.halved.is_full_range)
        made = planes_of(self._converting.through(picture.frame), picture.frames, self._shown)
        self._put([plane[: len(at)] for plane in made], at)

    def _put(self, planes: Sequence[Buffer], at: list[int]) -> None:
        for to, plane in zip(self._out, self._turned(planes), strict=True):
            to[at] = plane

    def _turned(self, planes: Sequence[Buffer]) -> list[Buffer]:
        return turned(planes, self._params.turns, flip=self._look.flip)


def _scaled_again(
    graph: FilterGraph, conversion: Conversion, planes: Sequence[Buffer]
) -> list[Buffer]:
    """Return the visible part of scaled frames, scaled to the clip's size one by one, because
    scaling mixes neighbouring lines."""
    scaled = []
    for at in range(len(planes[0])):
        picture = Picture(*conversion.source[:3], 1)
        for to, plane in zip(picture.planes, planes, strict=True):
            to[0] = plane[at]
        scaled.append(planes_of(graph.through(picture.frame)))
    return [np.concatenate(frames) for frames in zip(*scaled, strict=True)]


def _recolored(planes: Sequence[Buffer], pixels: str, colors: Colors) -> list[Buffer]:
    made = [plane.copy() for plane in planes]
    if pixels == "rgb24":
        recolor_rgb(made[0], colors)
    else:
        recolor_planes(made, colors, full_range=PIXEL_FORMATS[pixels].range == 2)
    return made
