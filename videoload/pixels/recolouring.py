"""Clips whose colours are changed: their frames are converted to pixels together, at the end.

The colours change between scaling and conversion, in the small planes of a 4:2:0 frame. For one
frame after the other, the calls would take longer than the maths.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import cast

import numpy as np
from av.video.frame import VideoFrame

from videoload.clips.clip_params import ClipParams
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.video_info import VideoInfo
from videoload.pixels.chains import Chains, FrameFormat, Goes, Way
from videoload.pixels.kept_form import KeptForm
from videoload.pixels.scaling import REFUSED, Buffer, SourceFrame, cannot_be_scaled


class RecolouredClip:
    """Source frames -> pixels ``out`` [T, ...] of one clip, with the colours in ``params``."""

    def __init__(
        self, spec: ClipSpec, info: VideoInfo, params: ClipParams, chains: Chains, out: Buffer
    ) -> None:
        self._spec, self._info, self._params = spec, info, params
        self._chains, self._out = chains, out
        self._forms: dict[FrameFormat, tuple[KeptForm, Way]] = {}  # they may change in the file
        self._taken: dict[int, tuple[KeptForm, int, VideoFrame]] = {}

    def take(self, source: SourceFrame, at: int) -> None:
        """Scale ``source``, which is frame ``at`` of the clip. Raises UnreadableError."""
        try:
            known = self._forms.get(source.format)
            if known is None:
                form = KeptForm(self._spec, self._info, self._params, source.format)
                goes: Goes = "to final" if form.way.scales_again else "to kept"
                known = self._forms[source.format] = form, form.way._replace(goes=goes)
            scaled, first = source.through(self._chains[known[1]])
        except REFUSED as error:
            raise cannot_be_scaled(error) from None
        self._taken[at] = known[0], first.line_size, scaled

    def finish(self) -> None:
        """Make the pixels of all frames that were taken. Raises UnreadableError."""
        taken = sorted(self._taken.items())
        for (form, _), run in groupby(taken, lambda each: each[1][:2]):
            places, frames = zip(*((at, frame) for at, (*_, frame) in run), strict=True)
            out = self._out[places[0] : places[-1] + 1]
            planes = form.cut(planes_of(frames))
            form.convert(planes, self._chains, out, self._params.colours)


def planes_of(frames: Sequence[VideoFrame]) -> list[Buffer]:
    """The planes [T, height, width, channels] of frames of one format, whose lines are equally long
    in memory: so a plane is copied in one go, which takes half the time."""
    channels = 3 if frames[0].format.name == "rgb24" else 1
    planes: list[Buffer] = []
    rows: list[tuple[Buffer, int]] = []  # and the bytes up to the last pixel of a plane
    for plane in frames[0].planes:
        height, width, stride = plane.height, plane.width, plane.line_size
        held = np.empty((len(frames), height * stride), np.uint8)
        rows.append((held, (height - 1) * stride + width * channels))
        shape = len(frames), height, width, channels
        strides = height * stride, stride, channels, 1
        planes.append(np.ndarray(shape, np.uint8, held, 0, strides))
    for at, frame in enumerate(frames):
        for (to, end), plane in zip(rows, frame.planes, strict=True):
            memoryview(to[at])[:end] = memoryview(cast(bytes, plane))[:end]
    return planes
