"""Clips whose colours are changed: their frames are converted to pixels together, at the end.

The colours change between scaling and conversion, in the small planes of a 4:2:0 frame. For one
frame after the other, the calls would take longer than the maths.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from av.video.frame import VideoFrame

from videoload.clips.clip_params import ClipParams
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.video_info import VideoInfo
from videoload.pixels.chains import Chains, FrameFormat, Goes, Way
from videoload.pixels.kept_form import KeptForm
from videoload.pixels.scaling import REFUSED, Buffer, SourceFrame, cannot_be_scaled, pixels_of


class RecolouredClip:
    """Source frames -> pixels ``out`` [T, ...] of one clip, with the colours in ``params``."""

    def __init__(
        self, spec: ClipSpec, info: VideoInfo, params: ClipParams, chains: Chains, out: Buffer
    ) -> None:
        self._spec, self._info, self._params = spec, info, params
        self._chains, self._out = chains, out
        self._forms: dict[FrameFormat, tuple[KeptForm, Way]] = {}  # they may change in the file
        self._taken: dict[int, tuple[KeptForm, VideoFrame]] = {}

    def take(self, source: SourceFrame, at: int) -> None:
        """Scale ``source``, which is frame ``at`` of the clip. Raises UnreadableError."""
        try:
            known = self._forms.get(source.format)
            if known is None:
                form = KeptForm(self._spec, self._info, self._params, source.format)
                goes: Goes = "to final" if form.way.scales_again else "to kept"
                known = self._forms[source.format] = form, form.way._replace(goes=goes)
            scaled, _ = source.through(self._chains[known[1]])
        except REFUSED as error:
            raise cannot_be_scaled(error) from None
        self._taken[at] = known[0], scaled

    def finish(self) -> None:
        """Make the pixels of all frames that were taken. Raises UnreadableError."""
        taken = sorted(self._taken.items())
        for form, run in groupby(taken, lambda each: each[1][0]):
            places, frames = zip(*((at, frame) for at, (_, frame) in run), strict=True)
            out = self._out[places[0] : places[-1] + 1]
            form.convert(planes_of(frames, form), self._chains, out, self._params.colours)


def planes_of(frames: Sequence[VideoFrame], form: KeptForm) -> list[Buffer]:
    """What is cut of frames of one format: its planes [T, height, width, channels]."""
    channels = 3 if frames[0].format.name == "rgb24" else 1
    cut = [form.cut([pixels_of(plane, 1, channels) for plane in frame.planes]) for frame in frames]
    return [np.concatenate(planes) for planes in zip(*cut, strict=True)]
